/* fim.h: prompts that ask a model to fill in the middle of a text (arXiv 2207.14255). */
#ifndef ENGINE_SERVE_API_FIM_H
#define ENGINE_SERVE_API_FIM_H

#include "serve/generate/ask.h"
#include "serve/models/models.h"

struct fim_texts {
    const json_t *prefix, *suffix;
    const json_t *begun; /* goes on with the prefix; NULL: nothing */
    bool files;          /* the prompt has what the model wants to know of the project: its files */
    const json_t *extra; /* with `files`: the others, an array of {"text", "filename"}; NULL: none */
    const char *param;   /* the field to blame if the model has no marks for gaps */
};

/* Writes a prompt for what stands between two texts, as llama.cpp's server does: the files, then prefix and
 * suffix, each after its mark, and the mark of the middle. */
bool fim_prompt(const struct served *served, const struct fim_texts *texts, struct token_list *tokens,
                struct api_error *error);

#endif
