/* expressions.h: cuts texts into words by regular expressions over classes of characters.
 *
 * Expressions are those of PCRE2 with \p{L}, \p{N}, \p{M}, \p{P}, \p{S}, \p{LX} (letters beyond ASCII) and
 * characters beyond ASCII (\x{3040}, \x{3040}-\x{309F}) in them. They are compiled to expressions over single
 * bytes: all characters that no expression of a list distinguishes become one byte, ASCII itself. Matching
 * then needs no UTF-8, and the properties are those of Unicode 15.1 whatever PCRE2's own tables contain, so
 * that all machines cut alike. */
#ifndef TOKENIZERS_BPE_EXPRESSIONS_H
#define TOKENIZERS_BPE_EXPRESSIONS_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_EXPRESSIONS 7

/* Used in place of expressions that would need quadratic time:
 * - runs of \p{N} are grouped in threes from the right; preceding text joins the first group
 * - the same for ASCII digits, but a whole first group stays separate */
#define CUT_NUMBERS "#numbers"
#define CUT_DIGITS  "#digits"

enum expression_kind { EXPRESSION_REGEX, EXPRESSION_NUMBERS, EXPRESSION_DIGITS };

struct expressions {
    uint8_t *classes;    /* [UNICODE_SIZE] byte for each code point */
    uint8_t groups[256]; /* [class] for classes from 128 on: enum unicode_group of their characters */
    size_t count;
    struct {
        enum expression_kind kind;
        pcre2_code *code;
        bool jit; /* compiled to machine code */
    } list[MAX_EXPRESSIONS];
};

/* Compiles a list, ended by NULL. ENGINE_ERROR_MEMORY, or ENGINE_ERROR if PCRE2 refuses. Zeroed or failed
 * ones may be destroyed. */
int expressions_create(struct expressions *expressions, const char *const *list);
void expressions_destroy(struct expressions *expressions);

/* Further memory for matching; zeroed at first. */
struct expressions_workspace {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};
int expressions_workspace_create(struct expressions_workspace *workspace);
void expressions_workspace_destroy(struct expressions_workspace *workspace);

/* Receives words, never empty, in order, as counts of characters. Returns 0 to continue. */
typedef int (*expressions_visit)(void *user, size_t n_characters);

/* Cuts a text of classes [n]: by the first expression into matches and the text between them, each of these
 * by the next, and so on. Returns the value with which `visit` stopped, or an enum engine_status. */
int expressions_split(const struct expressions *expressions, struct expressions_workspace *workspace,
                      const uint8_t *text, size_t n, expressions_visit visit, void *user);

#endif
