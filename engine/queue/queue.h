/* queue.h: what the files of this folder share: the queue and its requests.
 *
 *   queue.c       the functions that any thread may call: submit, cancel, poll, stop
 *   run.c         the thread that runs it: steps
 *   request.c     one request: its tokens, its text, its events
 *   cache.c       what the queue asks of the context's cache
 *   plan-step.c   what a step computes; stop-texts.c: text held back
 *
 * The lock is over the fields marked so. All others are set at creation or belong to the thread that runs the queue. */
#ifndef ENGINE_QUEUE_QUEUE_H
#define ENGINE_QUEUE_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine.h"
#include "queue/plan-step.h"
#include "queue/stop-texts.h"

/* An event that waits for engine_queue_poll, with copies of its texts behind it. */
struct kept_event {
    struct engine_event event;
    struct kept_event *next;
    char bytes[];
};

struct request {
    uint64_t id; /* grows from one to the next: the older has the smaller */
    int32_t priority;
    uint32_t flags, max_tokens;
    void (*event)(void *user, const struct engine_event *event);
    void *user;
    struct engine_sampler_options sampler_options;
    struct stop_texts stop;
    int32_t *stop_tokens; /* [n_stop_tokens] */
    size_t n_stop_tokens;

    int32_t *tokens; /* [n_tokens] the prompt and what has been generated; room for [capacity] */
    size_t n_tokens, n_prompt, capacity;
    int32_t sequence; /* in the context; -1: it waits */
    size_t n_cached;  /* tokens that are in the cache, in `sequence` */
    size_t most_read; /* tokens of the prompt that have been in the cache at once, for those who watch */
    uint32_t n_reused, n_generated;
    /* These stay while it is put back. NULL until it first runs. */
    struct engine_sampler *sampler;
    struct engine_decoder *decoder;
    double submitted, started, prompt_read; /* seconds_now(); 0: not yet */

    atomic_bool cancelled;
    /* Under the lock: events for engine_queue_poll. */
    bool done; /* the thread that runs the queue knows it no more */
    struct kept_event *first_event, *last_event;
};

struct requests {
    struct request **items;
    size_t count, capacity;
};

struct engine_queue {
    struct engine_context *context;
    struct engine_context_info info;
    uint32_t n_waiting_most;
    size_t n_chunk_fixed; /* 0: n_chunk follows from how long steps take */
    uint32_t n_sampled;   /* tokens that may be chosen */

    /* NULL: the model has none that can be used, for the reason in tokenizer_message. */
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct engine_tokenizer_info vocabulary;
    int tokenizer_status;
    char tokenizer_message[256];

    pthread_mutex_t lock;
    pthread_cond_t work;   /* for the thread that runs it: a request, or stop */
    pthread_cond_t events; /* for engine_queue_poll */
    /* Under the lock. */
    struct requests all; /* by id: those that are not done, and those whose events have not all been taken */
    struct requests incoming; /* submitted, not seen yet by the thread that runs the queue; also in `all` */
    uint64_t last_id;
    bool running, stopping, dropping;
    struct engine_queue_info counts; /* as told; n_running and n_waiting are kept up to date */

    /* Of the thread that runs it. */
    struct requests active;    /* by rank, see plan-step.h; they wait or run */
    bool *sequence_used;       /* [n_sequences] */
    struct step_request *plan; /* [active.count], room for [n_plan] */
    size_t n_plan;
    size_t n_chunk;
    int32_t *batch_tokens, *batch_sequences; /* [n_batch_room] */
    uint8_t *batch_wanted;
    size_t n_batch_room;
    float *logits; /* [n_logits_room, n_vocab] */
    size_t n_logits_room;
    int32_t *end_tokens; /* [n_end_tokens] that end a text; NULL until somebody ignores them */
    size_t n_end_tokens;
    bool events_kept; /* some in this step: whoever waits for them has to be woken */
};

/* ---- queue.c ---- */

/* Appends; false: out of memory. */
bool requests_add(struct requests *list, struct request *request);
void requests_remove(struct requests *list, const struct request *request);

/* ---- request.c ---- */

/* Checks a request and copies it. The queue is read only. */
int request_create(const struct engine_queue *queue, const struct engine_request *given,
                   struct request **request);
void request_destroy(const struct engine_queue *queue, struct request *request);

/* Gives it what it needs to run: a sampler and a decoder, which have seen the prompt. At its first turn only. */
int request_begin(struct engine_queue *queue, struct request *request);

/* The prompt's progress, where the request wants to know it. */
void request_tell_progress(struct engine_queue *queue, struct request *request);

/* Chooses the next token by the logits behind its last one [n_vocab], which are overwritten, and tells it. True if the
 * request goes on; else its last event has been made. */
bool request_take_logits(struct engine_queue *queue, struct request *request, float *logits);

/* Makes the last event. With a status (FAILED) the message is this thread's. */
void request_finish(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
                    int status);

/* ---- run.c ---- */

double queue_seconds(void);

/* Ends all requests. Nobody runs the queue. */
void queue_drop_all(struct engine_queue *queue);

/* ---- cache.c ---- */

/* Positions that can still be handed out, in whole blocks. */
uint64_t cache_free(const struct engine_queue *queue);
/* Puts what the cache still has of a request's beginning into a sequence, never its last token: its logits are wanted.
 * Returns how many tokens these are. */
size_t cache_reuse(const struct engine_queue *queue, uint32_t sequence, const struct request *request);
void cache_clear(const struct engine_queue *queue, uint32_t sequence);
/* Whether a request that waits would find more than it does now once others have read their prompts. */
bool cache_soon_has_more(const struct engine_queue *queue, const struct request *request, size_t n_found);

#endif
