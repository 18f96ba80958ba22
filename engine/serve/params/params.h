/* params.h: the parameters of a request for text, whatever API it came by: a conversation or prompts, and how
 * to go on from them. APIs read their JSON into it; generation.h carries it out. Knows neither HTTP nor the
 * queue. */
#ifndef ENGINE_SERVE_PARAMS_PARAMS_H
#define ENGINE_SERVE_PARAMS_PARAMS_H

#include <jansson.h>
#include <stdbool.h>

#include "prompts/prompt.h"
#include "prompts/text-options.h"
#include "serve/params/api-error.h"

#define PARAMS_MAX_CHOICES   128 /* of a prompt, as in OpenAI's API */
#define PARAMS_MAX_TOP       20  /* rivals of a token */
#define PARAMS_MAX_TOOL_NAME 128 /* of a tool, in bytes, as in Anthropic's API */

enum tool_choice {
    TOOL_CHOICE_AUTO,
    TOOL_CHOICE_NONE,
    TOOL_CHOICE_REQUIRED, /* at least one call, and nothing else */
    TOOL_CHOICE_NAMED     /* the tool `tool`, and nothing else */
};

/* A prompt that is not a conversation. */
struct params_prompt {
    struct token_list tokens;
    char *text; /* [size] NUL-terminated; NULL: it came as tokens */
    size_t size;
};

struct params {
    /* Texts in it and below belong to the request's JSON, which lives as long. max_tokens 0: no limit. */
    struct text_options options;
    const char *constrained_by; /* the field that options.constraint comes from, for messages */

    /* A conversation: messages and tools as templates take them; NULL: `prompts`. */
    json_t *messages;
    json_t *call_names; /* an object: functions by the ids of the messages' calls; NULL: no messages */
    json_t *tools;      /* an array of OpenAI's tools, at least one; NULL: none */
    /* An object: how clients know the tools that they do not call by their names here: {"name", "namespace"
     * (may be absent), "custom": true if its input is a text}. NULL: none such. */
    json_t *origins;
    json_t *allowed;   /* an object whose keys are the tools that the model may call; NULL: all */
    json_t *variables; /* an object, of the template; NULL: none */
    enum tool_choice tool_choice;
    const char *tool;
    bool one_call; /* no second call after the first */
    /* "disabled" of reasoning is what happens anyway with a model that does not reason. */
    bool effort_may_be_moot;
    bool no_turn;           /* the prompt ends with the last message, so that no answer can follow */
    bool continues;         /* the last message is the beginning of the answer */
    bool hides_reasoning;   /* the answer leaves it out */
    bool free_tags;         /* the whole reply is content, reasoning included */
    uint32_t max_reasoning; /* tokens of reasoning in each answer; UINT32_MAX: any number */
    bool limits_reasoning;  /* the request said so itself */

    struct params_prompt *prompts; /* [n_prompts] */
    size_t n_prompts;
    bool no_tokens; /* nothing is generated: only `echo` is of interest */
    bool echo;      /* the text begins with the prompt */

    uint32_t n; /* choices for each prompt */
    bool logprobs;
    uint32_t n_top; /* rivals of each token that are reported */
    bool stream, include_usage;

    /* Of llama.cpp's server. The text ends with a line that is indented by fewer blanks than n_indent, the
     * first line apart; 0: any. It ends with the line that it is in after so many seconds of writing; 0: no
     * limit. */
    uint32_t n_indent;
    double max_seconds;
    bool timings; /* how long it took is in each part of the answer */
    json_t *
        /* An array of names like "timings/predicted_ms": nothing else is answered; NULL: all. */
        answer_fields;
};

/* With the defaults of the server's command line. */
void params_create(struct params *params, const struct engine_sampler_options *defaults);
void params_free(struct params *params);

/* ---- Reading fields ---- */

/* A field of a request. `read` gets a value that is not null. */
struct params_field {
    const char *name;
    bool (*read)(struct params *params, const char *name, json_t *value, struct api_error *error);
};

/* Reads all fields of `body`: those of `fields`, which ends with a NULL name, then the sampling options of
 * all APIs, then what other servers know (foreign.c). null counts as absent, 3.0 as 3. A field that is not
 * known is ignored and logged; with --strict it is an error that names it, and so are the other servers'. */
bool params_read(struct params *params, json_t *body, const struct params_field *fields,
                 struct api_error *error);

/* Once everything is read: fields of OpenAI's `body` that mean nothing without another one. */
bool params_check_pairs(const struct params *params, const json_t *body, struct api_error *error);
/* The same of the rivals of tokens, which aren't listed without what the tokens themselves need. */
bool params_check_rivals(struct params *params, const char *needs, struct api_error *error);

/* The field that a message of the sampler begins with, as requests name it; NULL: none. */
const char *params_field_of(const char *message);

/* Readers that several APIs share. */
bool params_read_stream(struct params *params, const char *name, json_t *value, struct api_error *error);
bool params_read_stream_options(struct params *params, const char *name, json_t *value,
                                struct api_error *error);
bool params_read_n(struct params *params, const char *name, json_t *value, struct api_error *error);
/* Accepted, because nothing depends on it, or because it is read elsewhere. */
bool params_read_nothing(struct params *params, const char *name, json_t *value, struct api_error *error);
/* Nothing depends on it, but it has to be a text. */
bool params_read_any_text(struct params *params, const char *name, json_t *value, struct api_error *error);
/* OpenAI's "metadata", on which nothing depends: an object of up to 16 texts. */
bool params_read_metadata(struct params *params, const char *name, json_t *value, struct api_error *error);
/* true or false is what happens anyway; --strict refuses the other. */
bool params_read_only_true(struct params *params, const char *name, json_t *value, struct api_error *error);
bool params_read_only_false(struct params *params, const char *name, json_t *value, struct api_error *error);
bool params_read_service_tier(struct params *params, const char *name, json_t *value,
                              struct api_error *error);
bool params_read_reasoning_effort(struct params *params, const char *name, json_t *value,
                                  struct api_error *error);
bool params_read_template_variables(struct params *params, const char *name, json_t *value,
                                    struct api_error *error);
/* The template's variable gets a value, whose reference is taken. */
bool params_set_variable(struct params *params, const char *name, json_t *value, struct api_error *error);

/* Sets an option of the text, by its name in text-options.h. False: the value is none of its values, which
 * the caller says in words of its own. */
bool params_set_option(struct params *params, const char *option, json_t *value);
/* "response_format", or what another API has for it. */
bool params_read_format(struct params *params, const char *name, json_t *value, struct api_error *error);
/* A field that can only be true or false. */
bool params_flag(const char *name, const json_t *value, bool *flag, struct api_error *error);
/* A limit for reasoning: tokens, or -1 for none. */
bool params_read_reasoning_budget(struct params *params, const char *name, json_t *value,
                                  struct api_error *error);
/* "budget_tokens" of an object, the same; it may be absent. */
bool params_read_budget_of(struct params *params, const char *name, const json_t *object,
                           struct api_error *error);
/* How many rivals of each token are reported: params->n_top. */
bool params_read_top(struct params *params, const char *name, json_t *value, struct api_error *error);
/* Appends the token ids of an array, which may be all or a part of the field `name`. */
bool params_ids(const char *name, const json_t *value, struct token_list *tokens, struct api_error *error);

/* An unknown field of `body`, for requests that have no struct params; `known` ends with NULL. null counts as
 * absent, 3.0 as 3. Fields on which nothing depends, or all, are as in params_read. */
bool params_check_fields(json_t *body, const char *const *known, struct api_error *error);
/* An unknown field of an object of the request: "tools[0].strict". null and [] don't count, nor does what
 * caches do with it, "cache_control", unless the server is --strict. */
bool params_check_keys(const json_t *object, const char *where, const char *const *known,
                       struct api_error *error);

/* ---- Conversations: chat-messages.c and tools.c ---- */

/* OpenAI's messages, checked and in the form that templates expect: texts instead of parts, "developer" as
 * "system", arguments of calls as objects. Sets params->messages. */
bool params_read_messages(struct params *params, const char *name, json_t *value, struct api_error *error);
/* The answer goes on with the last message: it has to be a text of the assistant, and nothing else may shape
 * the answer. */
bool params_continue_last(struct params *params, struct api_error *error);
bool params_read_tools(struct params *params, const char *name, json_t *value, struct api_error *error);
/* Offers a function, an object of OpenAI's, to the model. `origin`, which is taken: what params->origins
 * gets; NULL: clients know it by its name. */
bool params_offer(struct params *params, const json_t *function, json_t *origin, const char *where,
                  struct api_error *error);
/* The same for a tool whose input is a text: a function with one argument. */
bool params_offer_custom(struct params *params, const json_t *tool, json_t *origin, const char *where,
                         struct api_error *error);
/* Tools that their API's own servers run are not offered, which is logged. Returns true. */
bool params_leave_out(const char *type, struct api_error *error);
/* The name by which a tool is offered that clients know by `name`. `space`: its namespace; NULL: none, or,
 * unless there is such a tool, any. NULL: it isn't offered. */
const char *params_offered_name(const struct params *params, const char *name, const char *space);
bool params_read_tool_choice(struct params *params, const char *name, json_t *value, struct api_error *error);
bool params_read_parallel(struct params *params, const char *name, json_t *value, struct api_error *error);
/* What clients know of a tool: its entry in params->origins; NULL: they know it as it is offered. */
const json_t *params_origin(const struct params *params, const char *name);
bool params_is_custom(const struct params *params, const char *name);
/* The input of a custom tool, of the arguments of a call, which may be cut: a new reference, NULL: out of
 * memory. */
json_t *params_custom_input(const json_t *arguments);
/* The arguments that stand for an input: a new reference. */
json_t *params_custom_arguments(json_t *input);
/* Whether the answer has to be a call. */
bool params_forces_call(const struct params *params);
/* Once everything is read: the choice fits the tools. */
bool params_check_tools(struct params *params, struct api_error *error);
/* The text of a string or of an array of parts whose types are among `types` (terminated by NULL); a new
 * reference. NULL: an error, which is recorded. */
json_t *params_text_of(const json_t *content, const char *where, const char *const *types,
                       struct api_error *error);

/* ---- Fields of other servers: foreign.c ---- */

/* Numbers of an object that are whole, but written as 3.0, become integers; functions that may not be called
 * are taken out. */
void foreign_tidy(json_t *body, struct lenient *lenient);
/* Reads the other names, before the fields that they stand for; not those that `own` has, which ends with a
 * NULL name. */
bool foreign_read(struct params *params, const json_t *body, const struct params_field *own,
                  struct api_error *error);
/* Whether no text depends on a field of this name, or all texts would. *error: as below. */
bool foreign_decides_nothing(const char *name, const json_t *value, struct api_error *error);
/* Whether a field is one of the other names, or one on which nothing depends. *error: its value has the wrong
 * type, or it changes the answer in a way that the server can't. */
bool foreign_knows(const char *name, const json_t *value, struct api_error *error);

/* ---- Schemas with "strict": tools.c ---- */

/* Whether all keywords of a schema, and of those within it, are known, apart from those that begin with
 * "x-". */
bool strict_check(const json_t *schema, const char *param, struct api_error *error);
/* The same of a "response_format", in chat's form or in that of Responses, if it has "strict". */
bool strict_check_format(const json_t *format, const char *param, struct api_error *error);

#endif
