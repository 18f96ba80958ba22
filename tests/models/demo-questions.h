/* demo-questions.h: asks the model that comes with the engine: questions from a file, stories from a seed.
 * Used by test-demo-model.c and by the program demo-score. Errors are printed and end the program. */
#ifndef TESTS_DEMO_QUESTIONS_H
#define TESTS_DEMO_QUESTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

/* A line of tests/data/demo-questions.tsv, which tools/demo-model/corpus.py writes: questions that the model
 * has not been trained on. */
struct demo_question {
    char *skill;
    char *prompt; /* special tokens spelled */
    char *answer;
};
struct demo_questions {
    struct demo_question *items; /* [count] */
    size_t count;
    char *text;
};
void demo_questions_read(const char *path, struct demo_questions *questions);
void demo_questions_free(struct demo_questions *questions);

/* A model that is ready to write. */
struct demo_model {
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    uint32_t n_vocab;
    float *logits; /* [n_vocab] */
};
/* The model in `path`; NULL: libengine's default one. `backend` is a plugin's name; "cpu" runs everything,
 * others half of the layers. False: the backend has no device here (or isn't built). */
bool demo_model_open(struct demo_model *demo, const char *path, const char *plugin_dir, const char *backend);
void demo_model_close(struct demo_model *demo);

/* The model's continuation of a prompt, until it ends or has `limit` tokens; in new memory. For a prompt
 * other than "" the answer is one line. *ended tells whether it came to its end; NULL: not wanted. */
char *demo_model_write(struct demo_model *demo, const char *prompt, size_t limit,
                       const struct engine_sampler_options *sampling, bool *ended);

/* Whether the most likely tokens are exactly the answer. `said`, which may be NULL, receives the actual text
 * otherwise, in new memory, or NULL. */
bool demo_model_answers(struct demo_model *demo, const struct demo_question *question, char **said);

#endif
