/* wrap.h: prints a text that comes in pieces on a terminal, and breaks its lines between words. */
#ifndef ENGINE_COMMANDS_WRAP_H
#define ENGINE_COMMANDS_WRAP_H

#include <stdbool.h>
#include <stddef.h>

/* All zero: at the beginning of a line. A word is printed once it is known where it ends, or that it is longer than a
 * line. */
struct wrap {
    char word[1024]; /* [n_word], what has not been printed */
    size_t n_word;
    unsigned width;   /* columns of it */
    unsigned column;  /* where it would begin */
    unsigned n_ticks; /* at the beginning of the line so far; UINT_MAX: something else has come */
    bool is_code;     /* between lines that begin with ``` */
    bool skips;       /* blanks, at the margin */
};

/* Adds text [length], UTF-8, for a terminal with so many columns; 0: lines are not broken. The locale tells how wide a
 * character is. Control characters but tabs and line ends are printed as escapes. */
void wrap_add(struct wrap *wrap, const char *text, size_t length, unsigned columns);

/* Prints what has been held back. */
void wrap_flush(struct wrap *wrap);

#endif
