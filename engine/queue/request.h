/* request.h: a request of the queue: its core, which all requests have, and its kind with the kind's part and
 * functions. Only for the files of this folder.
 *
 *   request-create.c  makes it from what the caller asks for
 *   request.c         its events and its end
 *   request-text.c    texts, and prompts that are scored; thought.c: how much reasoning they may have
 *   request-pooled.c  embeddings, and scores of heads
 *   beams.c           beams
 *
 * As in internal.h, the lock protects the fields marked as such. */
#ifndef ENGINE_QUEUE_REQUEST_H
#define ENGINE_QUEUE_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/assert.h"
#include "common/text.h"
#include "engine.h"
#include "queue/pace.h"
#include "queue/step-plan.h"
#include "sample/sampler.h"

struct request;
struct step_batch;

/* ---- Kinds ---- */

/* What a request is for: it decides what a step computes for the request, and what becomes of that. All
 * other code that deals with requests only knows these functions. */
struct request_kind {
    /* A token a step in one sequence, so tokens can be guessed, and steps divided into groups. Its part of a
     * request is `text`. */
    bool decodes;
    bool pools; /* it needs all states of the prompt, and no logits */

    /* Checks what is asked for, and makes the kind's part of a request whose sampler's settings are known. */
    int (*create)(const struct engine_queue *queue, const struct engine_request *given,
                  struct request *request);
    void (*destroy)(const struct engine_queue *queue, struct request *request);
    /* Its first turn. NULL: nothing to make. */
    int (*begin)(struct engine_queue *queue, struct request *request);
    /* It has its sequence, the first one. NULL: nothing to do. */
    void (*start)(struct engine_queue *queue, struct request *request);
    /* How many sequences it has while it runs. */
    uint32_t (*count_sequences)(const struct request *request);
    /* Gives back what it has of the cache. It may start again. */
    void (*give_back)(struct engine_queue *queue, struct request *request);
    /* Adds what the plan has to know, whether the request waits or runs. NULL: nothing. */
    void (*describe)(const struct engine_queue *queue, const struct request *request,
                     struct step_request *plan);
    /* Rows of logits that a step gives which computes all that is pending. */
    size_t (*count_rows)(const struct request *request, const struct step_request *plan);
    /* Adds the planned tokens. False: out of memory. */
    bool (*fill)(struct step_batch *batch, const struct request *request, const struct step_request *plan);
    /* They have been computed; `states` [plan->n_now, n_embd] if it pools. */
    void (*computed)(struct engine_queue *queue, struct request *request, const struct step_request *plan,
                     const float *states);
    /* Sequences may be shorter than thought. */
    void (*count_cached)(const struct engine_queue *queue, struct request *request);
    /* The position whose logits score the next token to be scored; SIZE_MAX: none is left. The positions
     * after it up to that of the last token but one of the prompt score the others. NULL: none is scored. */
    size_t (*next_score)(const struct request *request);
    /* Scores the next `count` tokens by the logits before each [count, n_vocab], and reports them. False: the
     * request has failed, because these are not numbers. */
    bool (*score)(struct engine_queue *queue, struct request *request, const float *logits, size_t count);
    /* All that was pending is computed: goes on by the rows of logits [count_rows, n_vocab], which it
     * overwrites. True if the request continues; otherwise its last event has been made. */
    bool (*take)(struct engine_queue *queue, struct request *request, float *logits);
    /* It ends, and hasn't failed: adds the text held back to *text; *stop as of stop_texts_add. Returns an
     * enum engine_status. NULL: none is held back. */
    int (*flush)(const struct engine_queue *queue, struct request *request, struct engine_string *text,
                 int32_t *stop);
    /* It ends, and hasn't failed: makes its results. Returns an enum engine_status. NULL: nothing to make. */
    int (*collect)(const struct engine_queue *queue, struct request *request, enum engine_done_reason reason);
    /* Adds them to the last event. NULL: nothing. */
    void (*complete)(const struct engine_queue *queue, struct request *request, struct engine_event *event);
};
extern const struct request_kind request_text, request_scored; /* request-text.c */
extern const struct request_kind request_pooled;               /* request-pooled.c */
extern const struct request_kind request_beams;                /* beams.c */

/* ---- Requests ---- */

/* An event waiting for engine_queue_poll, followed by copies of its texts. */
struct kept_event {
    struct engine_event event; /* first: engine_event_free frees it by this */
    struct kept_event *next;
    _Alignas(struct engine_beam) char bytes[];
};
_Static_assert(offsetof(struct kept_event, event) == 0, "an event is its struct kept_event");

/* Text that is held back while it may be the beginning of a stop text. All zero: no stop texts. */
struct stop_texts {
    struct engine_string *texts; /* [n_texts], owned */
    size_t n_texts, longest;
    struct text_buffer held; /* added, and not handed out before the last call */
    size_t n_handed;         /* of them, at the start: those that the last call handed out */
};

/* A limit for the reasoning of a reply. */
struct thought {
    struct engine_reply *reply; /* reads the text; NULL: no limit, or no reasoning can follow */
    uint32_t most, n;           /* tokens inside the reasoning, and those so far */
    /* [n_end] the tokens that end it, of which n_written have been written; n_end 0: not now */
    int32_t *end;
    size_t n_end, n_written, capacity;
    bool was_ended; /* by the limit */
};

/* What a text is expected to go on with in the next step. */
struct guesses {
    int32_t tokens[PACE_MAX]; /* [count] */
    size_t count;
    enum pace_source source;
    double cost; /* as pace_choose says */
};

/* Which tokens may be chosen: of texts and beams. */
struct request_choice {
    struct sampler_settings settings;
    int32_t *stop_tokens; /* [n_stop_tokens] */
    size_t n_stop_tokens;
    struct engine_match *match; /* from the beginning; NULL: any text */
};

/* Of request_text and request_scored: how tokens are chosen and become text, and which are guessed. */
struct text_part {
    struct stop_texts stop;
    uint32_t n_logprobs;
    uint32_t n_begun; /* tokens at the end of the prompt that belong to the text */
    struct thought thought;
    /* Of request_scored: tokens of the prompt to score, the last but one of them before the others; and those
     * reported. */
    uint32_t n_scores, n_scored;
    /* Kept while the request is put back. NULL until it first runs. */
    struct engine_sampler *sampler;
    struct engine_decoder *decoder;
    struct logprobs logprobs; /* if n_logprobs is not 0, or tokens are scored */
    /* Where the queue guesses. */
    struct lookup *lookup;
    struct pace pace;
    struct guesses guesses;
    bool no_draft; /* the draft model's cache was full once */
};

/* Of request_pooled. */
struct pooled_part {
    uint32_t pooling; /* enum engine_pooling */
    double *sums;     /* [n_embd] the sum of the states so far, or the chosen one */
    float *embedding; /* [n_embd], or for RANK [n_labels] */
    int32_t *types;   /* [n_prompt] of the prompt's tokens; NULL: all 0 */
};

struct request {
    const struct request_kind *kind;
    uint64_t id; /* increases from one request to the next */
    int32_t priority;
    uint32_t flags, max_tokens;
    void (*event)(void *user, const struct engine_event *event);
    void *user;

    int32_t *tokens; /* [n_tokens] the prompt and what has been generated; room for [capacity] */
    size_t n_tokens, n_prompt, capacity;
    int32_t sequence; /* in the context; -1: waiting */
    uint32_t flight;  /* the number of the step that computes its next token, see groups.c; 0: none does */
    size_t n_cached;  /* tokens in the cache, in `sequence` */
    size_t most_read; /* the most prompt tokens that were in the cache at once, for progress events */
    uint32_t n_reused, n_generated;
    int32_t *source; /* [n_source] the text that the encoder reads; NULL: the model has no encoder */
    size_t n_source;
    bool is_encoded;                        /* in `sequence` */
    double submitted, started, prompt_read; /* seconds_now(); 0: not yet */
    bool kept;                              /* it has ended, and its sequence is kept */
    uint32_t n_guessed, n_accepted;         /* guesses that were checked, and those that came true */

    struct request_choice choice;
    /* The part of its kind, which only the kind's functions use; guesses use that of kinds that decode. */
    union {
        struct text_part text;     /* of request_text and request_scored */
        struct pooled_part pooled; /* of request_pooled */
        struct beams *beams;       /* of request_beams */
    };

    atomic_bool cancelled;
    /* Under the lock: events for engine_queue_poll. */
    bool done; /* the thread that runs the queue has dropped it */
    struct kept_event *first_event, *last_event;
    /* Only for the thread that runs the queue, and NULL with callbacks: room for the last event of a request
     * that an event of was lost, which memory ran out for. */
    struct kept_event *spare;
    bool has_lost_event;
};

/* ---- request-create.c ---- */

/* Checks a request and copies it. Only reads the queue. */
int request_create(const struct engine_queue *queue, const struct engine_request *given,
                   struct request **request);
void request_destroy(const struct engine_queue *queue, struct request *request);

/* A copy of `count` tokens with room for at least one; NULL: out of memory. */
int32_t *request_copy_tokens(const int32_t *tokens, size_t count);

/* ---- request.c ---- */

/* An event of a kind, with what all have. */
struct engine_event request_event(const struct request *request, uint32_t kind);
/* Gives it to the callback, or keeps it for engine_queue_poll. */
void request_hand_over(struct engine_queue *queue, struct request *request, struct engine_event *event);
/* An event without more than that, if the request asked for its progress: PROMPT or BEAMS. */
void request_tell_progress(struct engine_queue *queue, struct request *request, uint32_t kind);

/* Makes the last event. With a status (FAILED), the message is this thread's error message. */
void request_finish(struct engine_queue *queue, struct request *request, enum engine_done_reason reason,
                    int status);
/* The same for a stop text that was complete: its index. */
void request_finish_stopped(struct engine_queue *queue, struct request *request, int32_t stop);

/* Of kinds with one sequence. */
uint32_t request_count_sequences(const struct request *request); /* 1 */
void request_give_back(struct engine_queue *queue, struct request *request);
void request_computed(struct engine_queue *queue, struct request *request, const struct step_request *plan,
                      const float *states);
void request_count_cached(const struct engine_queue *queue, struct request *request);
/* As the kind's next_score; SIZE_MAX without one. */
size_t request_next_score(const struct request *request);

/* ---- thought.c ---- */

/* Checks what the request says of its reply, which may be nothing. */
int thought_create(const struct engine_request *given, struct thought *thought);
void thought_free(struct thought *thought);
/* The text begins: it may begin within the reasoning. */
int thought_begin(const struct engine_queue *queue, struct thought *thought);
/* A token has been added, and with it this text. */
int thought_add(const struct engine_queue *queue, struct thought *thought, int32_t token,
                const struct engine_string *text);
/* Whether the limit says which token comes next. */
bool thought_next(const struct thought *thought, int32_t *token);

/* ---- request-text.c ---- */

/* Chooses the next token from the logits after the last one [n_vocab], which it overwrites, and reports it.
 * Returns true if the request continues; otherwise its last event has been made. */
bool request_take_logits(struct engine_queue *queue, struct request *request, float *logits);
/* Why a token would end the text, an enum engine_done_reason; 0: it doesn't. */
uint32_t request_ends(const struct engine_queue *queue, const struct request *request, int32_t token);
/* Rules out tokens that end the text, if the request ignores them. */
int request_never_end(struct engine_queue *queue, const struct request *request, float *logits);

/* ---- request-pooled.c ---- */

/* Numbers in a row of an embedding that is pooled so. */
uint32_t request_width(const struct engine_queue *queue, uint32_t pooling);

/* ---- request-text.c: stop texts ---- */

/* Copies the texts. ENGINE_ERROR_ARGUMENT: one is empty, or there are too many, or they are too long. */
int stop_texts_create(struct stop_texts *stop, const struct engine_string *texts, size_t n_texts);
void stop_texts_destroy(struct stop_texts *stop);

/* Adds text. *certain receives what can no longer be part of a stop text, valid until the next call. *which
 * receives the index of the stop text that was complete first (*certain then ends where it begins), or -1.
 * With `last`, nothing is held back. */
int stop_texts_add(struct stop_texts *stop, const char *text, size_t length, bool last,
                   struct engine_string *certain, int32_t *which);

#endif
