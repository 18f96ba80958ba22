/* wrap.c: see wrap.h. Words end at blanks, and beside characters of two columns, as in Chinese and Japanese. Lines of code
 * are left to the terminal, so that they can be copied. */
#include "commands/wrap.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "commands/common.h"
#include "commands/utf8.h"
#include "common/printable.h"

#define OTHER UINT_MAX /* n_ticks: the line begins with something else */

void wrap_flush(struct wrap *wrap)
{
    print_text(wrap->word, wrap->n_word);
    wrap->column += wrap->width;
    wrap->n_word = wrap->width = 0;
}

/* Adds a character of a word; the word goes to the next line if it passes the margin. */
static void hold(struct wrap *wrap, const char *text, size_t length, unsigned width, unsigned columns)
{
    bool breaks = columns > 0 && !wrap->is_code;
    if (breaks && wrap->column > 0 && wrap->column + wrap->width + width > columns) {
        print_text("\n", 1);
        wrap->column = 0;
    }
    if (wrap->n_word + length > sizeof wrap->word) wrap_flush(wrap);
    if (breaks && wrap->width + width > columns) { /* longer than a line: the terminal breaks it */
        wrap_flush(wrap);
        wrap->column = 0;
    }
    memcpy(wrap->word + wrap->n_word, text, length);
    wrap->n_word += length;
    wrap->width += width;
    wrap->skips = false;
}

/* Blanks beyond the margin are left out, and the next word begins a line. */
static void add_blank(struct wrap *wrap, char blank, unsigned columns)
{
    unsigned width = 1;
    wrap_flush(wrap);
    if (blank == '\t') width = 8 - wrap->column % 8;
    wrap->skips = wrap->skips || (columns > 0 && !wrap->is_code && wrap->column + width > columns);
    if (wrap->skips) {
        wrap->column = columns;
        return;
    }
    print_text(&blank, 1);
    wrap->column += width;
}

/* Whether a character of two columns ends what it follows: no line begins with it. */
static bool is_closing(wchar_t c)
{
    return c &&
           wcschr(
               L"\u3001\u3002\u3009\u300b\u300d\u300f\u3011\u3015\uff01\uff09\uff0c\uff0e\uff1a\uff1b\uff1f",
               c);
}

/* Lines that begin with ``` are the ends of code. */
static void notice_code(struct wrap *wrap, char c)
{
    if (c == '\n')
        wrap->n_ticks = 0;
    else if (wrap->n_ticks < 3 && c == '`') {
        if (++wrap->n_ticks == 3) wrap->is_code = !wrap->is_code;
    } else if (c != ' ' || wrap->n_ticks > 0)
        wrap->n_ticks = OTHER;
}

void wrap_add(struct wrap *wrap, const char *text, size_t length, unsigned columns)
{
    while (columns > 0 && wrap->column > columns)
        wrap->column -= columns; /* the terminal has broken the line */
    for (size_t i = 0, n; i < length; i += n) {
        bool whole;
        char escape[8];
        wchar_t wide = 0;
        mbstate_t state = {0};
        n = utf8_next(text + i, length - i, &whole);
        notice_code(wrap, text[i]);
        if (text[i] == '\n') {
            wrap_flush(wrap);
            print_text("\n", 1);
            wrap->column = 0;
            wrap->skips = false;
        } else if (text[i] == ' ' || text[i] == '\t') {
            add_blank(wrap, text[i], columns);
        } else if (!whole) {
            hold(wrap, "\xEF\xBF\xBD", 3, 1, columns);
        } else if (printable_control(text + i, n) > 0) {
            int size = snprintf(escape, sizeof escape, "\\x%02X", (unsigned char)text[i + n - 1]);
            hold(wrap, escape, (size_t)size, (unsigned)size, columns);
        } else {
            int width = mbrtowc(&wide, text + i, n, &state) == n ? wcwidth(wide) : 1;
            if (width == 2 && !is_closing(wide)) wrap_flush(wrap);
            hold(wrap, text + i, n, width > 0 ? (unsigned)width : 0, columns);
        }
    }
    if (wrap->is_code || columns == 0) wrap_flush(wrap);
}
