/* generation.h: carries out a request for text: makes tokens of the conversation or the prompts, submits a
 * request to the model's queue for each choice (group.h), takes their events, and has an API's format make an
 * answer of them. */
#ifndef ENGINE_SERVE_GENERATE_GENERATION_H
#define ENGINE_SERVE_GENERATE_GENERATION_H

#include "commands/common.h"
#include "serve/generate/ask.h"
#include "serve/generate/group.h"
#include "serve/models/models.h"

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
    bool call_cut;                /* it ended before its arguments were complete */
    uint32_t part;                /* enum engine_reply_part of what came last; 0: nothing yet */
    uint32_t n_prompt, n_reused, n_generated, n_reasoning;
    double prompt_seconds, text_seconds; /* reading the prompt, and writing */
    /* At its end. */
    bool done, cut; /* cut: by a limit */
    int32_t stop;   /* index of the stop text; -1 */
    void *state;    /* the format's, which `free_choice` frees */
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
    const char *model;    /* as the request names it, or the model's name */
    uint32_t most_tokens; /* that any request gets; 0: no limit */

    struct token_list tokens; /* of a conversation */
    struct params_prompt conversation;
    struct engine_rendered *rendered;
    char *template_text;
    bool reasoning;        /* the conversation's end has begun it */
    uint32_t reply_format; /* enum engine_reply_format */
    struct engine_grammar *grammar;

    struct choice *choices; /* [n_choices] */
    size_t n_choices;
    bool begun;   /* the format has been told */
    bool streams; /* the exchange has begun a stream */
};

/* A generation with an id that begins with `prefix`, its parameters to be filled in. `format` may be NULL if
 * generation_drop ends it. NULL: it failed, and the exchange has been answered. */
struct generation *generation_create(struct exchange *exchange, const struct format *format,
                                     const char *prefix);
/* Carries it out. If there is an error already, or something is wrong with the parameters, that is the
 * answer. The generation and the exchange are no longer the caller's. */
void generation_start(struct generation *generation, struct api_error *error);

/* Ends it without an answer, which remains to be given, instead of generation_run. */
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

#endif
