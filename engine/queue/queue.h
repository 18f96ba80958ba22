/* queue.h: the queue and its requests, shared by the files of this folder.
 *
 *   queue.c       the functions that any thread may call: submit, cancel, poll, stop
 *   run.c         the thread that runs the queue: steps
 *   request.c     one request: its tokens, its text, its events
 *   cache.c       the queue's use of the context's cache
 *   plan-step.c   what a step computes; stop-texts.c: text held back
 *   guess.c       tokens that are guessed, and checked by the step
 *   draft.c       the model that guesses them; lookup.c: guesses without one; pace.c: how many are worth it
 *
 * The lock protects the fields marked as such. All others are set at creation or belong to the thread that
 * runs the queue. */
#ifndef ENGINE_QUEUE_QUEUE_H
#define ENGINE_QUEUE_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine.h"
#include "queue/lookup.h"
#include "queue/pace.h"
#include "queue/plan-step.h"
#include "queue/stop-texts.h"

/* An event waiting for engine_queue_poll, followed by copies of its texts. */
struct kept_event {
    struct engine_event event;
    struct kept_event *next;
    char bytes[];
};

/* What a request expects to go on with in the next step. */
struct guesses {
    int32_t tokens[PACE_MOST]; /* [count] */
    size_t count;
    enum pace_source source;
    double cost; /* as pace_choose says */
};

struct request {
    uint64_t id; /* increases from one request to the next */
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
    int32_t sequence; /* in the context; -1: waiting */
    size_t n_cached;  /* tokens in the cache, in `sequence` */
    size_t most_read; /* the most prompt tokens that were in the cache at once, for progress events */
    uint32_t n_reused, n_generated;
    /* Kept while the request is put back. NULL until it first runs. */
    struct engine_sampler *sampler;
    struct engine_decoder *decoder;
    double submitted, started, prompt_read; /* seconds_now(); 0: not yet */

    /* Where the queue guesses. */
    struct lookup *lookup; /* NULL until it first runs */
    struct pace pace;
    struct guesses guesses;
    bool no_draft; /* the draft model's cache was full once */
    uint32_t n_guessed, n_accepted;

    atomic_bool cancelled;
    /* Under the lock: events for engine_queue_poll. */
    bool done; /* the thread that runs the queue has dropped it */
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
    size_t n_chunk_fixed; /* 0: n_chunk is adjusted to how long steps take */
    uint32_t n_sampled;   /* tokens that may be chosen */

    /* NULL: the model has no usable tokenizer; tokenizer_message says why. */
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct engine_tokenizer_info vocabulary;
    int tokenizer_status;
    char tokenizer_message[256];

    pthread_mutex_t lock;
    pthread_cond_t work;   /* for the thread that runs the queue: a request, or stop */
    pthread_cond_t events; /* for engine_queue_poll */
    /* Under the lock. */
    struct requests all;      /* by id: those not done, and those whose events have not all been taken */
    struct requests incoming; /* submitted, not yet seen by the thread that runs the queue; also in `all` */
    uint64_t last_id;
    bool running, stopping, dropping;
    struct engine_queue_info
        counts; /* for engine_queue_get_info; n_running and n_waiting are kept up to date */

    /* Only for the thread that runs the queue. */
    struct requests active;    /* by rank (see plan-step.h): waiting or running */
    bool *sequence_used;       /* [n_sequences] */
    struct step_request *plan; /* [active.count], room for [n_plan] */
    size_t n_plan;
    size_t n_chunk;
    int32_t *batch_tokens, *batch_sequences; /* [n_batch_room] */
    uint8_t *batch_wanted;
    size_t n_batch_room;
    float *logits; /* [n_logits_room, n_vocab] */
    size_t n_logits_room;
    int32_t *end_tokens; /* [n_end_tokens] that end a text; NULL until a request ignores them */
    size_t n_end_tokens;
    bool events_kept; /* this step kept events: wake those who wait for them */

    bool lookup;         /* guesses from what requests have said before */
    struct draft *draft; /* NULL: there is none */
    uint32_t n_guess_least, n_guess_most;
    struct step_costs costs;
};

/* ---- queue.c ---- */

/* Appends; false: out of memory. */
bool requests_add(struct requests *list, struct request *request);
void requests_remove(struct requests *list, const struct request *request);

/* ---- request.c ---- */

/* Checks a request and copies it. Only reads the queue. */
int request_create(const struct engine_queue *queue, const struct engine_request *given,
                   struct request **request);
void request_destroy(const struct engine_queue *queue, struct request *request);

/* Gives a request what it needs to run: a sampler and a decoder that have seen the prompt. Only at its first
 * turn. */
int request_begin(struct engine_queue *queue, struct request *request);

/* Reports the prompt's progress, if the request asked for it. */
void request_tell_progress(struct engine_queue *queue, struct request *request);

/* Chooses the next token from the logits after the last one [n_vocab], which it overwrites, and reports it.
 * Returns true if the request continues; otherwise its last event has been made. */
bool request_take_logits(struct engine_queue *queue, struct request *request, float *logits);

/* Makes the last event. With a status (FAILED), the message is this thread's error message. */
void request_finish(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
                    int status);

/* ---- run.c ---- */

double queue_seconds(void);

/* Ends all requests. No thread may be running the queue. */
void queue_drop_all(struct engine_queue *queue);

/* ---- guess.c ---- */

/* Decodes, and measures what a step of so many tokens costs; not the first of a shape, which costs more.
 * NULL: not measured. */
int measured_decode(struct engine_context *context, const struct engine_batch *batch, float *logits,
                    struct step_costs *costs);

/* At a request's first turn. */
int guess_begin(const struct engine_queue *queue, struct request *request);
/* Guesses for the requests that decode in the planned step, as far as it pays and the cache has room: sets
 * their guesses and what the plan has of them. */
int guess_step(struct engine_queue *queue, const struct step_limits *limits);
/* A request's last pending token and its guesses have been decoded: chooses tokens by their logits [1 +
 * guesses, n_vocab] as long as they are those that were guessed, and one more. True if the request goes
 * on. */
bool guess_check(struct engine_queue *queue, struct request *request, float *logits);

/* ---- draft.c ---- */

/* Checks that a context's model has the queue's vocabulary. */
int draft_create(const struct engine_queue *queue, struct engine_context *context, struct draft **draft);
void draft_destroy(struct draft *draft);
/* Seconds that the guesses for a request take: each, and what the first takes longer. */
void draft_seconds(const struct draft *draft, const struct request *request, double *once, double *each);
/* Makes the guesses of all requests that want some from the draft model: fills in guesses.tokens. */
int draft_guess(struct draft *draft, const struct requests *requests);
/* Forgets what the draft model knows of a request beyond so many tokens: guesses that did not come true,
 * or all. */
void draft_truncate(const struct draft *draft, const struct request *request, size_t n_tokens);

/* ---- cache.c ---- */

/* Free positions, in whole blocks. */
uint64_t cache_free(const struct engine_queue *queue);
/* Makes a sequence hold what the cache still has of a request's beginning, and returns how many tokens that
 * is. Never includes the last token, because its logits are needed. */
size_t cache_reuse(const struct engine_queue *queue, uint32_t sequence, const struct request *request);
void cache_clear(const struct engine_queue *queue, uint32_t sequence);
/* Whether a waiting request would find more in the cache than now once others have read their prompts. */
bool cache_soon_has_more(const struct engine_queue *queue, const struct request *request, size_t n_found);

#endif
