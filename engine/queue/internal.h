/* internal.h: the queue, shared by the files of this folder; request.h has its requests.
 *
 *   queue.c       the functions that any thread may call: submit, cancel, poll, stop
 *   run.c         the thread that runs the queue: requests that come and go, and what it does next
 *   step-plan.c   what a step computes
 *   step.c        one step: its tokens, and who gets its logits
 *   groups.c      steps of several groups of requests at once
 *   request.c     one request: its events and its end; request-create.c makes it
 *                 and their kinds: request-text.c (texts, and prompts that are scored), request-pooled.c
 *                 (embeddings, and scores of heads), beams.c (with beam-search.c: which beams go on)
 *   cache.c       the queue's use of the context's cache
 *   thought.c     how many tokens a reply may spend on reasoning
 *   guess.c       tokens that are guessed from the text so far, and checked by the step
 *   draft.c       the model that guesses them; pace.c: how many are worth it
 *
 * The lock protects the fields marked as such. All others are set at creation or belong to the thread that
 * runs the queue. */
#ifndef ENGINE_QUEUE_INTERNAL_H
#define ENGINE_QUEUE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/assert.h"
#include "common/lock.h"
#include "common/text.h"
#include "context/context.h"
#include "embedding/embedding.h"
#include "engine.h"
#include "queue/pace.h"
#include "queue/request.h"
#include "queue/step-plan.h"

/* The tokens of a step, of the model or of the draft model. Zeroed: empty. To begin anew, set `count` to
 * 0. */
struct step_batch {
    int32_t *tokens, *sequences; /* [count], room for [room] */
    int32_t *types;              /* of tokens */
    uint8_t *wanted;
    size_t count, room;
};

/* What a step does. */
struct queue_step {
    size_t n_tokens, n_prompt; /* in total, and of prompts */
    size_t n_guess;            /* in all, guessed */
    size_t n_wanted;           /* rows of logits */
    bool pools;                /* it computes embeddings, and needs the states of tokens */
    uint32_t flight;           /* of its requests, see groups.c */
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
    float *items;    /* [n_wanted, n_vocab] of the step */
    size_t capacity; /* numbers, not rows */
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
    /* For engine_queue_get_info; n_running and n_waiting are kept up to date. */
    struct engine_queue_info counts;

    /* Only for the thread that runs the queue. */
    struct requests active;     /* by rank (see step-plan.h): waiting or running */
    struct sequence *sequences; /* [n_sequences] */
    uint64_t n_kept;            /* ever */
    struct step_request *plan;  /* [active.count], room for [plan_capacity] */
    size_t plan_capacity;
    size_t n_chunk;
    bool is_settled; /* none has ended since the last plan, nor read its prompt: those that wait have to */
    struct step_batch batch;
    struct rows logits[PLAN_MAX_GROUPS + 1]; /* by flight, see groups.c */
    float *states; /* [n_tokens, n_embd] after the final norm, in steps that compute embeddings */
    size_t states_capacity;
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

/* ---- run.c ---- */

/* After a request's last event. Those with callbacks are then gone; others stay until their events have been
 * taken. */
void queue_let_go(struct engine_queue *queue, struct request *request);
/* Makes the last event, see request_finish, and lets go. */
void queue_end(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
               int status);
/* After a failure: sequences may be shorter than before. */
void queue_count_cached(struct engine_queue *queue);
/* After a step: what engine_queue_get_info says, and events for those who wait. `n_prompt`: tokens of
 * prompts. */
void queue_publish(struct engine_queue *queue, bool any, size_t n_prompt);

/* Ends all requests. No thread may be running the queue. */
void queue_drop_all(struct engine_queue *queue);

/* ---- step.c ---- */

/* What the plan says. */
struct queue_step step_planned(const struct engine_queue *queue);
/* Computes it. */
int step_run(struct engine_queue *queue, const struct queue_step *step);
/* The same without waiting, see context_start. */
int step_start(struct engine_queue *queue, const struct queue_step *step);
/* Gives rows of logits to requests that have reached their end; others report the progress of their
 * prompts. */
void step_hand_out(struct engine_queue *queue, const struct queue_step *step);
/* Fails the requests of a failed step. */
void step_fail(struct engine_queue *queue, int status);

/* Adds the planned tokens of a request with one sequence, but no guesses. False: out of memory. */
bool step_fill(struct step_batch *batch, const struct request *request, const struct step_request *plan);

/* Adds the next token of a sequence, of type 0. False: out of memory. */
bool step_batch_add(struct step_batch *batch, int32_t token, int32_t sequence, bool wanted);

/* Lets the encoder read the tokens as source texts, see engine_encode. */
int step_batch_encode(const struct step_batch *batch, struct engine_context *context);

/* Decodes, and measures what a step of this many tokens costs; not the first of a shape, which costs more.
 * `costs` NULL: not measured. `states` as in struct engine_batch. */
int step_batch_decode(const struct step_batch *batch, struct engine_context *context, float *logits,
                      float *states, struct step_costs *costs);

/* Starts decoding, see context_start. */
int step_batch_start(const struct step_batch *batch, struct engine_context *context, float *logits);

void step_batch_free(struct step_batch *batch);

/* ---- groups.c ---- */

/* Runs several steps at once, each of another group of requests, where that pays (see plan_groups), as long
 * as all requests only decode and nobody comes, is cancelled or could start, and as long as n_done requests
 * are done (UINT64_MAX: however many). Afterwards nothing is being computed. Does nothing if there are
 * guesses, beams or source texts, which steps of their own serve. */
void groups_run(struct engine_queue *queue, uint64_t n_done);

/* ---- guess.c ---- */

/* Guesses how a text goes on from what it has said before: where its last tokens stood earlier, what followed
 * them then. After Saxena, Prompt Lookup Decoding (2023), with the chains of hashes that LZ77 compressors
 * use. */
#define LOOKUP_LEAST 2  /* tokens that have to agree */
#define LOOKUP_MAX   32 /* more of them don't count */

/* NULL: out of memory. */
struct lookup *lookup_create(void);
void lookup_destroy(struct lookup *lookup);

/* Indexes `tokens` [n_tokens], which begin with those indexed before: a constant time for each new one,
 * about 12 bytes. False: out of memory; what was indexed stays. */
bool lookup_extend(struct lookup *lookup, const int32_t *tokens, size_t n_tokens);

/* Guesses `n` tokens after `tokens` [n_tokens], which have been indexed: what followed the longest of the
 * earlier passages that agree with their end, of equally long ones the last. It may overlap with the end:
 * what repeats is then continued. Returns how many tokens agree, at most LOOKUP_MAX; below LOOKUP_LEAST
 * (then 0) nothing is guessed. */
size_t lookup_guess(const struct lookup *lookup, const int32_t *tokens, size_t n_tokens, size_t n,
                    int32_t *guess);

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
/* Forgets what the draft model knows in a sequence beyond this many tokens: guesses that did not come true,
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
/* Gives a sequence that is free, or the one that was kept first, to a request. There is one: the plan counts
 * them. */
uint32_t cache_take(const struct engine_queue *queue);
/* Empties the sequence that was kept first, to make room. False: none is kept. */
bool cache_give_up(const struct engine_queue *queue);
uint32_t cache_count_kept(const struct engine_queue *queue);
/* Whether a waiting request would find more in the cache than now once others have read their prompts. */
bool cache_soon_has_more(const struct engine_queue *queue, const struct request *request, size_t n_found);

#endif
