/* regex.h: Oniguruma's regular expressions, as tokenizer.json has them, over classes of characters.
 *
 * An expression is translated to one of PCRE2 over single bytes: all characters that none of its parts
 * distinguishes become one byte, ASCII itself. What \p{L}, \w, \s and the like contain is then that of
 * Oniguruma's Unicode, whatever PCRE2's own tables say, and matching needs no UTF-8. */
#ifndef TOKENIZERS_HF_REGEX_H
#define TOKENIZERS_HF_REGEX_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/classes.h"
#include "hf/json.h"
#include "plugin-api.h"

#define REGEX_FIRST_CLASS 128 /* of characters beyond ASCII */

struct regex {
    uint8_t *classes; /* [UNICODE_SIZE] byte for each code point */
    pcre2_code *code;
    bool jit; /* compiled to machine code */
};

/* The expression of a step. ENGINE_ERROR_UNSUPPORTED: it has something that is not known, PCRE2 refuses, or
 * the file's expressions take too long altogether; the step's place begins the message. A zeroed or failed
 * one may be destroyed. */
int regex_create(struct regex *regex, struct engine_string expression, const struct json_at *step);
void regex_destroy(struct regex *regex);

/* The memory of matching; zeroed at first. */
struct regex_workspace {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    struct class_text text; /* the one at hand */
};
int regex_workspace_create(struct regex_workspace *workspace);
void regex_workspace_destroy(struct regex_workspace *workspace);

/* Receives matches in order, and the text between them, as ranges of bytes; matches may be empty, at most one
 * at a place. Returns 0 to continue. */
typedef int (*regex_visit)(void *user, size_t start, size_t end, bool matched);

/* All matches in a text. Returns what `visit` returned to stop, or ENGINE_ERROR…. */
int regex_visit_all(const struct regex *regex, struct regex_workspace *workspace, struct engine_string text,
                    regex_visit visit, void *user);

#endif
