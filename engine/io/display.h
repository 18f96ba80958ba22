/* display.h: texts as people are shown them: characters of UTF-8, quoted texts, tables, and lines broken
 * between words. */
#ifndef ENGINE_IO_DISPLAY_H
#define ENGINE_IO_DISPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "engine.h"

struct table {
    size_t n_columns;
    const char *alignment; /* [n_columns] of 'l' and 'r' */
    char **cells;          /* [count] */
    size_t count;
    bool is_lost; /* memory has run out for a cell */
};

/* Adds a cell, row by row from left to right. Control characters become spaces. If memory runs out, the table
 * is not printed. */
void table_add(struct table *table, const char *format, ...) ENGINE_PRINTF(2, 3);

/* Prints the rows, the first of which is the heading, and frees the cells. If there are no other rows, prints
 * `none` instead. Returns the exit status. */
int table_print(struct table *table, const char *none, FILE *out);

/* The bytes of the character that `text` [left], left > 0, begins with. If it begins with none, *whole is
 * false, and the result is how many bytes one U+FFFD stands for: a character that is cut as far as it goes,
 * otherwise 1 (Unicode, section 3.9, substitution of maximal subparts, as browsers do it). */
size_t utf8_next(const char *text, size_t left, bool *whole);

/* Bytes of the UTF-8 character that the text begins with if it is printable as it is, otherwise 0. */
size_t quoted_character(const unsigned char *text, size_t left);

/* Prints a text in quotes, so that blanks are visible, with unprintable bytes as escapes. Returns its width:
 * characters, with the quotes. */
size_t quoted_print(struct engine_string text, FILE *out);

/* Prints a text on one line and without quotes, line ends and tabs as spaces, other unprintable bytes as
 * escapes. */
void quoted_print_line(struct engine_string line, FILE *out);

/* All zero: at the beginning of a line. A word is printed once it is known where it ends, or that it is
 * longer than a line. */
struct wrap {
    char word[1024]; /* [n_word], what has not been printed */
    size_t n_word;
    unsigned width;   /* columns of it */
    unsigned column;  /* where it would begin */
    unsigned n_ticks; /* at the beginning of the line so far; UINT_MAX: something else has come */
    bool is_code;     /* between lines that begin with ``` */
    bool skips;       /* blanks, at the margin */
};

/* Adds text [length], UTF-8, for a terminal with so many columns; 0: lines are not broken. The locale tells
 * how wide a character is. Control characters but tabs and line ends are printed as escapes. */
void wrap_add(struct wrap *wrap, const char *text, size_t length, unsigned columns);

/* Prints what has been held back. */
void wrap_flush(struct wrap *wrap);

#endif
