/* embed-input.h: the texts that `engine embed` reads, as tokens. */
#ifndef ENGINE_COMMANDS_EMBED_INPUT_H
#define ENGINE_COMMANDS_EMBED_INPUT_H

#include <jansson.h>

#include "commands/prompt.h"

struct embed_text {
    json_t *id;    /* as given; NULL: none */
    uint64_t line; /* of the file, from 1; 0: from the command line */
    struct token_list ids;
};

struct embed_texts {
    struct embed_text *items; /* [count] */
    size_t count, capacity;
    size_t n_longest; /* tokens of the longest */
};

/* Reads the texts of the command line, of -f or of --tokens-file, and finds their tokens, with the special ones that the
 * model wants around them. A mistake in a file is reported with its line. */
int embed_texts_read(const struct arguments *arguments, struct engine_model *model,
                     struct embed_texts *texts);
void embed_texts_free(struct embed_texts *texts);

#endif
