/* ask.h: what a request asks for, whatever API it came by: a conversation or prompts, and how to go on from them. APIs
 * read their JSON into it; generation.h carries it out. Knows neither HTTP nor the queue. */
#ifndef ENGINE_SERVE_GENERATE_ASK_H
#define ENGINE_SERVE_GENERATE_ASK_H

#include <jansson.h>
#include <stdbool.h>

#include "commands/prompt.h"
#include "commands/text-options.h"
#include "serve/generate/mistake.h"

#define ASK_MOST_CHOICES 128 /* of a prompt, as in OpenAI's API */
#define ASK_MOST_TOP     20  /* rivals of a token */
#define ASK_LONGEST_NAME 128 /* of a tool, in bytes, as in Anthropic's API */

enum tool_choice {
    TOOL_CHOICE_AUTO,
    TOOL_CHOICE_NONE,
    TOOL_CHOICE_REQUIRED, /* at least one call, and nothing else */
    TOOL_CHOICE_NAMED     /* the tool `tool`, and nothing else */
};

/* A prompt that is not a conversation. */
struct ask_prompt {
    struct token_list tokens;
    char *text; /* [size] NUL-terminated; NULL: it came as tokens */
    size_t size;
};

struct ask {
    /* Texts in it and below belong to the request's JSON, which lives as long. max_tokens 0: no limit. */
    struct text_options options;
    const char *constrained_by; /* the field that options.constraint comes from, for messages */

    /* A conversation: messages and tools as templates take them; NULL: `prompts`. */
    json_t *messages;
    json_t *call_names; /* an object: functions by the ids of the messages' calls; NULL: no messages */
    json_t *tools;      /* an array of OpenAI's tools, at least one; NULL: none */
    /* An object: how clients know the tools that they do not call by their names here: {"name", "namespace" (may be
     * absent), "custom": true if its input is a text}. NULL: none such. */
    json_t *origins;
    json_t *allowed;   /* an object whose keys are the tools that the model may call; NULL: all */
    json_t *variables; /* an object, of the template; NULL: none */
    enum tool_choice tool_choice;
    const char *tool;
    bool one_call; /* no second call after the first */
    /* "disabled" of reasoning is what happens anyway with a model that does not reason. */
    bool effort_may_be_moot;
    bool no_turn;         /* the prompt ends with the last message, so that no answer can follow */
    bool continues;       /* the last message is the beginning of the answer */
    bool hides_reasoning; /* the answer leaves it out */
    bool free_tags;       /* the whole reply is content, reasoning included */

    struct ask_prompt *prompts; /* [n_prompts] */
    size_t n_prompts;
    bool no_tokens; /* nothing is generated: only `echo` is of interest */
    bool echo;      /* the text begins with the prompt */

    uint32_t n; /* choices for each prompt */
    bool logprobs;
    uint32_t n_top; /* rivals of each token that are reported */
    bool stream, include_usage;

    /* Of llama.cpp's server. The text ends with a line that is indented by fewer blanks than n_indent, the first line apart;
     * 0: any. It ends with the line that it is in after so many seconds of writing; 0: no limit. */
    uint32_t n_indent;
    double most_seconds;
    bool timings; /* how long it took is in each part of the answer */
    json_t *
        answer_fields; /* an array of names like "timings/predicted_ms": nothing else is answered; NULL: all */
};

/* With the defaults of the server's command line. */
void ask_create(struct ask *ask, const struct engine_sampler_options *defaults);
void ask_free(struct ask *ask);

/* ---- Reading fields ---- */

/* A field of a request. `read` gets a value that is not null. */
struct ask_field {
    const char *name;
    bool (*read)(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
};

/* Reads all fields of `body`: those of `fields`, which ends with a NULL name, then the sampling options of all APIs, then
 * what other servers know (foreign.h). null counts as absent, 3.0 as 3. A field that is not known is ignored and logged;
 * with --strict it is a mistake that names it, and so are the other servers'. */
bool ask_read(struct ask *ask, json_t *body, const struct ask_field *fields, struct mistake *mistake);

/* Once everything is read: fields of OpenAI's `body` that mean nothing without another one. */
bool ask_check_pairs(const struct ask *ask, const json_t *body, struct mistake *mistake);

/* The field that a message of the sampler begins with, as requests name it; NULL: none. */
const char *ask_field_of(const char *message);

/* Readers that several APIs share. */
bool ask_read_stream(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
bool ask_read_stream_options(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
bool ask_read_n(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
/* Accepted, because nothing depends on it, or because it is read elsewhere. */
bool ask_read_nothing(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
/* Nothing depends on it, but it has to be a text. */
bool ask_read_any_text(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
/* OpenAI's "metadata", on which nothing depends: an object of up to 16 texts. */
bool ask_read_metadata(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
/* true or false is what happens anyway; --strict refuses the other. */
bool ask_read_only_true(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
bool ask_read_only_false(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
bool ask_read_service_tier(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
bool ask_read_reasoning_effort(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
bool ask_read_template_variables(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
/* The template's variable gets a value, whose reference is taken. */
bool ask_set_variable(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);

/* "response_format", or what another API has for it. */
bool ask_read_format(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
/* A field that can only be true or false. */
bool ask_flag(const char *name, const json_t *value, bool *flag, struct mistake *mistake);
/* "budget_tokens" of an object, of which a model knows nothing, has to be a number. */
bool ask_check_budget(const char *name, const json_t *object, struct mistake *mistake);
/* How many rivals of each token are reported: ask->n_top. */
bool ask_read_top(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
/* Appends the token ids of an array, which may be all or a part of the field `name`. */
bool ask_ids(const char *name, const json_t *value, struct token_list *tokens, struct mistake *mistake);

/* An unknown field of `body`, for requests that are no asks; `known` ends with NULL. null counts as absent, 3.0 as 3. Fields on
 * which nothing depends, or all, are as in ask_read. */
bool ask_check_fields(json_t *body, const char *const *known, struct mistake *mistake);
/* An unknown field of an object of the request: "tools[0].strict". null and [] don't count, nor does what caches do with it,
 * "cache_control", unless the server is --strict. */
bool ask_check_keys(const json_t *object, const char *where, const char *const *known,
                    struct mistake *mistake);

/* ---- Conversations: messages.c and tools.c ---- */

/* OpenAI's messages, checked and in the form that templates expect: texts instead of parts, "developer" as "system",
 * arguments of calls as objects. Sets ask->messages. */
bool ask_read_messages(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
/* The answer goes on with the last message: it has to be a text of the assistant, and nothing else may shape the answer. */
bool ask_continue_last(struct ask *ask, struct mistake *mistake);
bool ask_read_tools(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
/* Offers a function, an object of OpenAI's, to the model. `origin`, which is taken: what ask->origins gets; NULL: clients
 * know it by its name. */
bool ask_offer(struct ask *ask, const json_t *function, json_t *origin, const char *where,
               struct mistake *mistake);
/* The same for a tool whose input is a text: a function with one argument. */
bool ask_offer_custom(struct ask *ask, const json_t *tool, json_t *origin, const char *where,
                      struct mistake *mistake);
/* Tools that their API's own servers run are not offered, which is logged. Returns true. */
bool ask_leave_out(const char *type, struct mistake *mistake);
/* The name by which a tool is offered that clients know by `name`. `space`: its namespace; NULL: none, or, unless there is such
 * a tool, any. NULL: it isn't offered. */
const char *ask_offered_name(const struct ask *ask, const char *name, const char *space);
bool ask_read_tool_choice(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
bool ask_read_parallel(struct ask *ask, const char *name, json_t *value, struct mistake *mistake);
/* What clients know of a tool: its entry in ask->origins; NULL: they know it as it is offered. */
const json_t *ask_origin(const struct ask *ask, const char *name);
bool ask_is_custom(const struct ask *ask, const char *name);
/* The input of a custom tool, of the arguments of a call, which may be cut: a new reference, NULL: out of memory. */
json_t *ask_custom_input(const json_t *arguments);
/* The arguments that stand for an input: a new reference. */
json_t *ask_custom_arguments(json_t *input);
/* Whether the answer has to be a call. */
bool ask_forces_call(const struct ask *ask);
/* Once everything is read: the choice fits the tools. */
bool ask_check_tools(struct ask *ask, struct mistake *mistake);
/* The text of a string or of an array of parts whose types are among `types` (terminated by NULL); a new reference. NULL:
 * a mistake, which is recorded. */
json_t *ask_text_of(const json_t *content, const char *where, const char *const *types,
                    struct mistake *mistake);

#endif
