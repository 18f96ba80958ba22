/* beams.h: a request with beams in the queue: which sequence of the context each live beam has, what of it is computed,
 * and its results.
 *
 * Live beams all have the same length. Usually each has one token to be computed, and the step computes those of all
 * beams; then beam_search_advance says which beams go on, and how. A beam that goes on in two ways is forked: the
 * second gets a copy of its sequence, which shares its blocks. A request that was put back has to compute its beams
 * again: one after the other, each from where it parts from those before it. */
#ifndef ENGINE_QUEUE_BEAMS_H
#define ENGINE_QUEUE_BEAMS_H

#include "queue/queue.h"

/* Checks what a request with beams asks for. `created` has its settings. *beams is NULL if it has none. */
int beams_create(const struct engine_queue *queue, const struct engine_request *given,
                 const struct request *created, struct beams **beams);
/* NULL is allowed. */
void beams_destroy(struct beams *beams);

/* The request has its first sequence: takes the others. The plan made sure that there are enough. */
void beams_begin(struct engine_queue *queue, struct request *request);
/* Gives all sequences back. The request can begin again. */
void beams_give_back(struct engine_queue *queue, struct request *request);

/* What the plan has to know, whether the request waits or runs. */
void beams_describe(const struct engine_queue *queue, const struct request *request,
                    struct step_request *plan);
/* Rows of logits that the step gives, if it computes all that is planned to be computed next. */
size_t beams_count_rows(const struct request *request);
/* Adds the planned tokens. False: out of memory. */
bool beams_fill(struct step_batch *batch, const struct request *request, const struct step_request *plan);
/* They have been computed. */
void beams_computed(struct engine_queue *queue, struct request *request, const struct step_request *plan);
/* Sequences may be shorter than thought. */
void beams_count_cached(const struct engine_queue *queue, struct request *request);

/* Continues the beams by their logits [beams_count_rows, n_vocab], which it overwrites. True if the request goes on;
 * otherwise its last event has been made. */
bool beams_take_logits(struct engine_queue *queue, struct request *request, float *logits);

/* Makes the results; `reason`: why beams that have not ended end now. They stay valid until the next call or
 * beams_destroy. Returns an enum engine_status. */
int beams_collect(const struct engine_queue *queue, struct request *request, enum engine_done_reason reason);
/* Whether the best result ended before the request's grammar allowed it. */
bool beams_are_incomplete(const struct request *request);
/* The results for an event: [*count], the best first. */
const struct engine_beam *beams_results(const struct request *request, uint32_t *count);

#endif
