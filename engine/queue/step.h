/* step.h: one step of the queue, as queue->plan says: its tokens, its logits, and what requests get of them. */
#ifndef ENGINE_QUEUE_STEP_H
#define ENGINE_QUEUE_STEP_H

#include "queue/queue.h"

/* What a step does. */
struct queue_step {
    size_t n_tokens, n_prompt; /* in total, and of prompts */
    size_t n_guess;            /* in all, guessed */
    size_t n_wanted;           /* rows of logits */
    bool pools;                /* it computes embeddings, and needs the states of tokens */
    uint32_t flight;           /* of its requests, see groups.h */
};

/* What the plan says. */
struct queue_step step_planned(const struct engine_queue *queue);
/* Computes it. */
int step_run(struct engine_queue *queue, const struct queue_step *step);
/* The same without waiting, see context_start. */
int step_start(struct engine_queue *queue, const struct queue_step *step);
/* Gives rows of logits to requests that have reached their end; others report the progress of their prompts. */
void step_hand_out(struct engine_queue *queue, const struct queue_step *step);
/* Fails the requests of a failed step. */
void step_fail(struct engine_queue *queue, int status);

#endif
