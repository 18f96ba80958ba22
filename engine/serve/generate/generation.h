/* generation.h: carries out requests for text: makes tokens of the conversation or the prompts, submits a
 * request to the model's queue for each choice, takes their events, and has an API's format make an answer of
 * them. */
#ifndef ENGINE_SERVE_GENERATE_GENERATION_H
#define ENGINE_SERVE_GENERATE_GENERATION_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine.h"
#include "io/files.h"
#include "prompts/prompt.h"
#include "serve/http/http.h"
#include "serve/models/models.h"
#include "serve/params/params.h"

/* ---- Groups: requests to the queue ---- */

/* The requests that an exchange makes to its model's queue: as many at once as it takes, the next when one is
 * done. A group lives until each request that was submitted has had its last event; whichever thread takes
 * that ends the exchange. If the client goes away, the requests are cancelled, which takes at most a token's
 * time. */
struct group;

struct group_member {
    struct group *group;
    atomic_ullong id; /* of the queue's request; 0: not submitted yet */
};

/* The first member of a struct that is freed by `finish`, which it is cast to. */
struct group {
    struct exchange *exchange;
    struct group_member *members; /* [n] */
    size_t n;
    struct api_error error; /* under the lock */

    /* Fills in request `i`, except its event and user; `sampler` is room for its options. Under the lock. */
    void (*fill)(struct group *group, size_t i, struct engine_request *request,
                 struct engine_sampler_options *sampler);
    /* The queue has taken the first requests: what fails from now on comes as an event. Under the lock; NULL:
     * nothing to do. */
    void (*queued)(struct group *group);
    /* Takes an event of request `i`. Under the lock. */
    void (*take)(struct group *group, size_t i, const struct engine_event *event);
    /* All requests are done, or there is an error: ends the exchange, and then frees the group, which the
     * client's going away may touch until the exchange has ended. */
    void (*finish)(struct group *group);
    /* The field to blame if the queue refuses a request, with its message; NULL: none. */
    const char *(*param)(const struct group *group, const char *message);

    /* Of the functions below. */
    pthread_mutex_t lock;
    size_t n_submitted, n_running;
    atomic_bool gone;
    atomic_size_t n_uses; /* requests without their last event, and the thread that submits them */
};

/* A group of zeroed memory, without members. False: out of memory. */
bool group_init(struct group *group, struct exchange *exchange);
/* Makes room for `n` requests. False: an error. */
bool group_room(struct group *group, size_t n, struct api_error *error);
/* Before group_submit, for work that comes first: notices from now on if the client goes away. After
 * group_room. */
void group_watch(struct group *group);
/* Whether it has. */
bool group_is_gone(struct group *group);
/* Submits the requests, unless there is an error. The group and the exchange are no longer the caller's. */
void group_submit(struct group *group);
void group_free(struct group *group);

/* Under the lock: cancels one request. */
void group_cancel(struct group *group, size_t i);
/* Under the lock: what an event that ends a request before its time means for all. */
void group_fail(struct group *group, const struct engine_event *event);
/* The same for another reason: under the lock, or where the last use of the group ends, which is then nobody
 * else's. */
void group_fail_with(struct group *group, unsigned status, const char *message);

/* ---- Texts: generation.c ---- */

struct generation;

/* A choice: one of the texts. */
struct choice {
    struct generation *generation;
    uint32_t index;
    const struct params_prompt *prompt;
    struct engine_reply *reply; /* NULL: all is content */
    /* So far. */
    struct text_buffer content, reasoning;
    /* An array of {"id", "name", "arguments" (a text)}; the last one may lack its arguments so far. */
    json_t *calls;
    struct text_buffer arguments; /* of that one */
    bool call_cut;                /* that one has ended before its arguments were complete */
    uint32_t part;                /* enum engine_reply_part of what came last; 0: nothing yet */
    uint32_t n_prompt, n_reused, n_generated, n_reasoning;
    double prompt_seconds, text_seconds; /* reading the prompt, and writing */
    /* At its end. */
    bool done, cut; /* cut: by a limit */
    int32_t stop;   /* index of the stop text; -1 */
    /* A stop text has cut the last call, which clients should not run. Mistakes of the model in a call are
     * theirs to answer, so that the model learns of them. */
    bool stopped_in_call;
    void *state; /* the format's, which `free_choice` frees */
    /* For generation.c. */
    bool enough; /* it was cancelled because nothing more is wanted */
    bool begun;
    bool at_limit;  /* it was cancelled because it has come to a limit of the request */
    bool in_indent; /* at the beginning of a line, after `indent` blanks */
    uint32_t indent;
};

/* An API's way to say what happens. Under the group's lock, in one thread at a time. Any may be NULL but
 * `end`. Without params.stream, of the first seven only `token` and `score` are called, unless `follows`. */
struct format {
    /* A token, before the text that it makes certain. */
    void (*token)(struct choice *choice, const struct engine_event *event);
    /* A token of the prompt and its probability, with params.echo and params.logprobs. */
    void (*score)(struct choice *choice, const struct engine_event *event);
    void (*begin)(struct generation *generation); /* before anything else is said */
    void (*begin_choice)(struct choice *choice);
    void (*text)(struct choice *choice, uint32_t part, const struct engine_string *text);
    /* A call, choice->calls[number], begins, goes on with more of its arguments, or ends: the piece's
     * flags. */
    void (*call)(struct choice *choice, size_t number, const struct engine_reply_piece *piece);
    void (*end_choice)(struct choice *choice);
    /* All choices are done. Of a stream it sends what comes last, and returns NULL; otherwise it returns the
     * answer. */
    json_t *(*end)(struct generation *generation);
    /* What went wrong after the stream has begun. */
    void (*failed)(struct generation *generation, const struct api_error *error);
    void (*free_choice)(struct choice *choice);
    void (*free_generation)(struct generation *generation);
    /* What a stream ends with where there is no memory to say more: an event. */
    const char *last_words;
    bool follows; /* it wants to know the order of what comes even if it is not sent */
};

struct generation {
    struct group group; /* a request for each choice */
    struct served *served;
    struct params params;
    const struct format *format;
    void *state; /* the format's */
    int64_t created;
    char id[40];
    const char *model;   /* as the request names it, or the model's name */
    uint32_t max_tokens; /* that any request gets; 0: no limit */

    struct token_list tokens; /* of a conversation */
    struct params_prompt conversation;
    struct engine_rendered *rendered;
    char *template_text;
    bool reasoning;        /* the conversation's end has begun it */
    uint32_t reply_format; /* enum engine_reply_format */
    bool has_plain_calls;  /* see plain-calls.c */
    /* How the choices of a conversation are read, except `user`; its tools. */
    struct engine_reply_options reading;
    char *offered;
    struct engine_grammar *grammar;

    struct choice *choices; /* [n_choices] */
    size_t n_choices;
    bool begun;   /* the format has been told */
    bool streams; /* the exchange has begun a stream */
};

_Static_assert(offsetof(struct generation, group) == 0, "a group is its struct generation");

/* A generation with an id that begins with `prefix`, its parameters to be filled in. `format` may be NULL if
 * generation_drop ends it. NULL: it failed, and the exchange has been answered. */
struct generation *generation_create(struct exchange *exchange, const struct format *format,
                                     const char *prefix);
/* Carries it out. If there is an error already, or something is wrong with the parameters, that is the
 * answer. The generation and the exchange are no longer the caller's. */
void generation_start(struct generation *generation, struct api_error *error);

/* Ends it without an answer, which remains to be given, instead of generation_start. */
void generation_drop(struct generation *generation);

/* Sums over the choices, for "usage"; prompts count once. */
struct generation_usage {
    uint64_t n_prompt, n_reused, n_generated, n_reasoning;
};
struct generation_usage generation_usage(const struct generation *generation);

/* Ends a choice early: what it has is enough. */
void choice_enough(struct choice *choice);

/* Appends tokens of a text to a prompt, as `engine run` reads prompts: special tokens spelled in it count. */
bool generation_encode(const struct served *served, const char *text, size_t size, bool special,
                       struct token_list *tokens, struct api_error *error);

/* "PREFIX" and 24 letters and digits that nobody can guess. */
void random_id(char *id, size_t size, const char *prefix, size_t n_letters);

/* ---- Conversations: conversation.c ---- */

/* Renders params.messages: sets the generation's conversation, rendered text, format of replies and grammar.
 * False: an error, which is recorded. */
bool conversation_prompt(struct generation *generation, struct api_error *error);

/* The ways to place messages otherwise, each on top of those before it. */
enum placing {
    PLACING_SYSTEMS, /* several system messages at the beginning become one, those in the middle the user's */
    PLACING_USERS,   /* messages of the user in a row become one */
    PLACING_RESULTS, /* what the user says right after a tool's result becomes a part of it */
    PLACING_FIRST,   /* the system message at the beginning becomes the user's, too */
    N_PLACINGS
};

/* Places *messages, an array as params_read_messages makes it, in one of the ways; the array may be replaced.
 * *changed: whether that changed anything. ENGINE_OK or ENGINE_ERROR_MEMORY. Its time is linear in the
 * messages' size. */
int placing_apply(json_t **messages, enum placing how, bool *changed);

/* Whether the texts of all system messages are in a text, in their order. */
bool placing_has_systems(const json_t *messages, struct engine_string text);

/* A copy of messages in which each system message ends with `mark` and a number: a new reference. NULL: out
 * of memory. */
json_t *placing_marked(const json_t *messages, const char *mark);
/* How many different marks of such a copy are in a text; SIZE_MAX: out of memory. */
size_t placing_count_marks(const json_t *messages, const char *mark, struct engine_string text);
/* How many system messages there are. */
size_t placing_count_systems(const json_t *messages);

/* ---- Tools for templates that know none: plain-calls.c ---- */

/* Whether a template, whose replies have this format, knows neither tools nor calls. */
bool plain_calls_fit(const char *template_text, uint32_t format);
/* Writes the tools, or NULL for none, and earlier calls and results into the texts of messages. ENGINE_OK or
 * ENGINE_ERROR_MEMORY. */
int plain_calls_write(json_t *messages, const json_t *tools);
/* How calls are written then. */
extern const struct engine_reply_layout plain_calls_layout;

/* ---- The grammar of a reply: reply-grammar.c ---- */

/* What the grammar depends on besides the parameters. */
struct reply_grammar_input {
    struct engine_model *model;
    const struct vocabulary *vocabulary;
    uint32_t format;           /* enum engine_reply_format */
    const char *template_text; /* NUL-terminated */
    /* Of the template's calls; NULL: the format isn't described by one, such as ENGINE_REPLY_LLAMA3. */
    const struct engine_reply_layout *layout;
    /* Around its reasoning; NULL: it has none. */
    const char *reasoning_begin, *reasoning_end;
    bool reasoning;              /* the prompt's end has begun the reasoning */
    int (*gives_up)(void *user); /* as in engine_grammar_options */
    void *user;
};

/* Whether the parameters need a grammar in a conversation. */
bool reply_grammar_needed(const struct params *params);

/* *grammar is NULL if any reply will do. False: an error, which is recorded. The grammar belongs to the
 * caller. */
bool reply_grammar_create(const struct reply_grammar_input *input, const struct params *params,
                          struct engine_grammar **grammar, struct api_error *error);

/* The grammar of a text that begins where the prompt ends: what the parameters' constraint says. */
bool reply_grammar_constrain(const struct reply_grammar_input *input, const struct params *params,
                             struct engine_grammar **grammar, struct api_error *error);

#endif
