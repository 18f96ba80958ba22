/* batch-line.h: a line of `engine batch`'s input: JSON, checked. */
#ifndef ENGINE_COMMANDS_BATCH_LINE_H
#define ENGINE_COMMANDS_BATCH_LINE_H

#include <jansson.h>
#include <stdbool.h>

#include "engine.h"
#include "options/text-options.h"

struct batch_line {
    json_t *id; /* as given, or NULL */
    /* One of the two: */
    char *prompt; /* [prompt_size] */
    size_t prompt_size;
    int32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
    struct text_options options;
    struct beam_options beams;
    const char *of_beams; /* a key of the line that needs beams; NULL: there is none */
    json_t *root;         /* what the texts above lie in; NULL: there are none */
};

/* Reads a line over the defaults that *line holds. False: *error says why, in one line; the id is there even
 * so if it could be read. batch_line_free in either case. */
bool batch_line_read(const char *text, size_t length, struct batch_line *line, char error[256]);
void batch_line_free(struct batch_line *line);

#endif
