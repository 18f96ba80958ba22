/* template.h: templates in Jinja's language: texts with a program in them. Parsed once, rendered any number
 * of times, by several threads if need be. What is rendered has spans: what the template wrote, and what came
 * from the user. The module knows nothing of models or tokens but in
 * engine-template.c, which has the functions of engine.h. */
#ifndef ENGINE_TEMPLATE_TEMPLATE_H
#define ENGINE_TEMPLATE_TEMPLATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

struct template;
struct template_output;

/* `name` is for messages. ENGINE_ERROR_DATA: an error in the text, with its line. */
int template_create(const char *name, const char *source, size_t length, struct template **template);
void template_destroy(struct template *template);

enum template_check {
    TEMPLATE_ANYTHING,
    TEMPLATE_OBJECTS /* an array of objects, or null */
};

/* A variable of the template. */
struct template_variable {
    const char *name;          /* NULL: the members of `json`, an object, are variables */
    struct engine_string json; /* its value */
    const char *what;          /* for messages */
    enum template_check is;
    /* Of an array of objects: the key whose values, if they are single words, count as the template's: "role"
     * in "<|" + message.role + "|>". NULL: none. */
    const char *word_key;
    /* Not JSON but a plain text, and not the user's: special tokens in it are meant. */
    bool trusted;
};

/* `now`: for strftime_now, seconds since 1970. ENGINE_ERROR_DATA: a variable isn't JSON, or the template
 * failed with it. The later of two variables of a name counts. */
int template_render(const struct template *template, const struct template_variable *variables, size_t count,
                    int64_t now, struct template_output **output);

/* What renderings may still take, together: steps as in value.h; bytes, each. */
struct template_budget {
    uint64_t steps;
    size_t memory;
};
/* As template_render, with limits of the caller's own. */
int template_render_within(const struct template *template, const struct template_variable *variables,
                           size_t count, int64_t now, struct template_budget *budget,
                           struct template_output **output);
void template_output_free(struct template_output *output);

/* Ends the text within the last of these messages, which is the assistant's: after its content.
 * ENGINE_ERROR_DATA: it is not, or the template does not write the content as it is. */
int template_output_end_in_last(struct template_output *output, struct engine_string messages);

struct engine_string template_output_text(const struct template_output *output);
/* Byte by byte: 1: it came from the user, 0: the template wrote it. [length of the text] */
const unsigned char *template_output_marks(const struct template_output *output);

/* ---- Named templates (engine-template.c) --------------------------------------------------------------- */

/* Templates that a model without one can be given by name. */

struct named_template {
    const char *name;
    const char *source;
};

/* NULL: there is none. */
const struct named_template *named_template_find(const char *name);
/* NULL past the last. */
const struct named_template *named_template_at(size_t index);

/* ---- engine-template.c: templates of models ---- */

struct engine_template;

/* The template that writes tools and calls. */
const struct template *template_for_calls(const struct engine_template *template);

/* The architecture of the template's model, as its file names it. */
const char *template_architecture(const struct engine_template *template);

/* What replies to the template look like, which reply/ keeps here once it has found out. */
struct template_notes {
    pthread_mutex_t lock;
    void *kept; /* freed with the template; under the lock */
};
struct template_notes *template_notes(const struct engine_template *template);

/* The tokens of a text whose bytes are marked: special tokens are recognised only among bytes of mark 0. */
int template_tokens(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                    struct engine_string text, const unsigned char *marks, engine_token_sink sink,
                    void *user);

#endif
