/* queue.h: the queue and its requests, shared by the files of this folder.
 *
 *   queue.c       the functions that any thread may call: submit, cancel, poll, stop
 *   run.c         the thread that runs the queue: requests that come and go, and what it does next
 *   step.c        one step: its tokens, and who gets its logits; groups.c: steps of several groups of requests at once
 *   request.c     one request: its tokens, its text, its events
 *   cache.c       the queue's use of the context's cache
 *   plan-step.c   what a step computes; step-batch.c: its tokens; stop-texts.c: text held back
 *   beams.c       requests with beams; beam-search.c: which beams go on
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

#include "context/context.h"
#include "embedding/dense.h"
#include "embedding/head.h"
#include "engine.h"
#include "queue/lookup.h"
#include "queue/pace.h"
#include "queue/plan-step.h"
#include "queue/step-batch.h"
#include "queue/stop-texts.h"
#include "sample/logprobs.h"
#include "sample/settings.h"

/* An event waiting for engine_queue_poll, followed by copies of its texts. */
struct kept_event {
    struct engine_event event;
    struct kept_event *next;
    _Alignas(struct engine_beam) char bytes[];
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
    struct sampler_settings sampler_settings;
    struct stop_texts stop;
    int32_t *stop_tokens; /* [n_stop_tokens] */
    size_t n_stop_tokens;

    int32_t *tokens; /* [n_tokens] the prompt and what has been generated; room for [capacity] */
    size_t n_tokens, n_prompt, capacity;
    int32_t sequence; /* in the context; -1: waiting */
    uint32_t flight;  /* the number of the step that computes its next token, see groups.h; 0: none does */
    size_t n_cached;  /* tokens in the cache, in `sequence` */
    size_t most_read; /* the most prompt tokens that were in the cache at once, for progress events */
    uint32_t n_reused, n_generated;
    int32_t *source; /* [n_source] the text that the encoder reads; NULL: the model has no encoder */
    size_t n_source;
    bool is_encoded; /* in `sequence` */
    /* Kept while the request is put back. NULL until it first runs. */
    struct engine_sampler *sampler;
    struct engine_decoder *decoder;
    struct engine_match *match; /* from the beginning; NULL: any text */
    struct beams *beams;        /* NULL: there are none */
    uint32_t n_logprobs;
    uint32_t n_score, n_scored;             /* tokens of the prompt to score; those reported */
    struct logprobs logprobs;               /* if n_logprobs or n_score is not 0 */
    uint32_t pooling;                       /* enum engine_pooling; 0: no embedding */
    double *pooled;                         /* [n_embd] the sum of the states so far, or the chosen one */
    float *embedding;                       /* [n_embd], or for RANK [n_labels] */
    int32_t *token_types;                   /* [n_prompt]; NULL: all 0 */
    double submitted, started, prompt_read; /* seconds_now(); 0: not yet */
    bool kept;                              /* it has ended, and its sequence is kept */

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
    /* Only for the thread that runs the queue, and NULL with callbacks: room for the last event of a request that an event
     * of was lost, which memory ran out for. */
    struct kept_event *spare;
    bool has_lost_event;
};

struct requests {
    struct request **items;
    size_t count, capacity;
};

/* A sequence of the context. It is free if it is neither used nor kept. */
struct sequence {
    bool used;     /* by a request that runs */
    uint64_t kept; /* without a request, see ENGINE_REQUEST_KEEP: larger if kept later; 0: not kept */
};

struct rows {
    float *items; /* [room, n_vocab] */
    size_t room;
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
    struct requests active;     /* by rank (see plan-step.h): waiting or running */
    struct sequence *sequences; /* [n_sequences] */
    uint64_t n_kept;            /* ever */
    struct step_request *plan;  /* [active.count], room for [n_plan] */
    size_t n_plan;
    size_t n_chunk;
    bool is_settled; /* none has ended since the last plan, nor read its prompt: those that wait have to */
    struct step_batch batch;
    struct rows logits[PLAN_MAX_GROUPS + 1]; /* by flight, see groups.h */
    float *states; /* [n_states_room, n_embd] after the final norm, in steps that compute embeddings */
    size_t n_states_room;
    int32_t *end_tokens; /* [n_end_tokens] that end a text; NULL until a request ignores them, if there is a
                          * tokenizer that knows them */
    size_t n_end_tokens;
    bool events_kept; /* this step kept events: wake those who wait for them */

    bool lookup;         /* guesses from what requests have said before */
    struct head *head;   /* NULL: the model has none */
    struct dense *dense; /* behind the pooling; the same */
    struct draft *draft; /* NULL: there is none */
    uint32_t n_guess_least, n_guess_most;
    struct step_costs costs;
};

/* ---- queue.c ---- */

/* Appends; false: out of memory. */
bool requests_add(struct requests *list, struct request *request);
void requests_remove(struct requests *list, const struct request *request);

/* ---- request-create.c ---- */

/* Checks a request and copies it. Only reads the queue. */
int request_create(const struct engine_queue *queue, const struct engine_request *given,
                   struct request **request);
void request_destroy(const struct engine_queue *queue, struct request *request);

/* Gives a request what it needs to run: a sampler and a decoder that have seen the prompt. Only at its first
 * turn. */
int request_begin(struct engine_queue *queue, struct request *request);

/* ---- request.c ---- */

/* The position whose logits score the request's next token to be scored; SIZE_MAX: none is left. The positions
 * after it up to that of the last token but one of the prompt score the others. */
size_t request_next_score(const struct request *request);
/* Scores the next `count` tokens by the logits before each [count, n_vocab], and reports them. False if the request has
 * failed, because these are not numbers. */
bool request_score(struct engine_queue *queue, struct request *request, const float *logits, size_t count);

/* Numbers in a row of an embedding that is pooled so. */
uint32_t request_width(const struct engine_queue *queue, uint32_t pooling);

/* Takes the states [count, n_embd] of the next `count` tokens of the prompt, for its embedding. */
void request_pool(const struct engine_queue *queue, struct request *request, const float *states,
                  size_t count);

/* Reports the prompt's progress, if the request asked for it. */
void request_tell_progress(struct engine_queue *queue, struct request *request);

/* Chooses the next token from the logits after the last one [n_vocab], which it overwrites, and reports it.
 * Returns true if the request continues; otherwise its last event has been made. */
bool request_take_logits(struct engine_queue *queue, struct request *request, float *logits);

/* Reports that the beams have grown, if the request asked for progress. */
void request_tell_beams(struct engine_queue *queue, struct request *request);
/* Why a token would end the text, an enum engine_done_reason; 0: it doesn't. */
uint32_t request_ends(const struct engine_queue *queue, const struct request *request, int32_t token);
/* Rules out tokens that end the text, if the request ignores them. */
int request_never_end(struct engine_queue *queue, const struct request *request, float *logits);

/* Makes the last event. With a status (FAILED), the message is this thread's error message. */
void request_finish(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
                    int status);

/* ---- run.c ---- */

/* After a request's last event. Those with callbacks are then gone; others stay until their events have been taken. */
void queue_let_go(struct engine_queue *queue, struct request *request);
/* Makes the last event, see request_finish, and lets go. */
void queue_end(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
               int status);
/* After a failure: sequences may be shorter than before. */
void queue_count_cached(struct engine_queue *queue);
/* After a step: what engine_queue_get_info says, and events for those who wait. `n_prompt`: tokens of prompts. */
void queue_publish(struct engine_queue *queue, bool any, size_t n_prompt);

/* Ends all requests. No thread may be running the queue. */
void queue_drop_all(struct engine_queue *queue);

/* ---- guess.c ---- */

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
/* A request starts in a sequence, in which the draft model may know of another text. */
void draft_begin(const struct draft *draft, const struct request *request);
/* Forgets what the draft model knows in a sequence beyond so many tokens: guesses that did not come true,
 * or all. */
void draft_truncate(const struct draft *draft, uint32_t sequence, size_t n_tokens);

/* ---- cache.c ---- */

/* Free positions, in whole blocks. */
uint64_t cache_free(const struct engine_queue *queue);
/* Makes a sequence hold what the cache still has of a request's beginning, and returns how many tokens that
 * is. Never includes tokens whose logits are needed: the last one, and those that score others. */
size_t cache_reuse(const struct engine_queue *queue, uint32_t sequence, const struct request *request);
/* Whether what it has taken ends within a block of others, which takes one more block. */
bool cache_copies(const struct engine_queue *queue, uint32_t sequence);
/* Empties a sequence that no request uses; it is free then. */
void cache_clear(const struct engine_queue *queue, uint32_t sequence);

/* Keeps what a request has in its sequence, which it gives back. */
void cache_keep(struct engine_queue *queue, uint32_t sequence, size_t n_tokens);
/* Chooses a sequence for a request: the kept one that it goes on with, otherwise a free one, otherwise a
 * kept one that has to give way. False: all are used. */
bool cache_choose(const struct engine_queue *queue, const struct request *request, uint32_t *sequence);
/* Gives a sequence that is free, or the one that was kept first, to a request. There is one: the plan counts them. */
uint32_t cache_take(const struct engine_queue *queue);
/* Empties the sequence that was kept first, to make room. False: none is kept. */
bool cache_give_up(const struct engine_queue *queue);
uint32_t cache_count_kept(const struct engine_queue *queue);
/* Whether a waiting request would find more in the cache than now once others have read their prompts. */
bool cache_soon_has_more(const struct engine_queue *queue, const struct request *request, size_t n_found);

#endif
