/* display.c: see display.h. */
#include "io/display.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "common/array.h"
#include "common/assert.h"
#include "common/printable.h"
#include "io/messages.h"

/* ---- Characters ---------------------------------------------------------------------------------------- */

size_t utf8_next(const char *text, size_t left, bool *whole)
{
    ENGINE_ASSERT(left > 0);
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char lead = bytes[0], low = 0x80, high = 0xbf; /* of the second byte: Unicode, table 3-7 */
    size_t length = lead < 0x80   ? 1
                    : lead < 0xc2 ? 0
                    : lead < 0xe0 ? 2
                    : lead < 0xf0 ? 3
                    : lead < 0xf5 ? 4
                                  : 0;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    *whole = length > 0;
    for (size_t i = 1; i < length; i++) {
        if (i == left || bytes[i] < low || bytes[i] > high) {
            *whole = false;
            return i;
        }
        low = 0x80;
        high = 0xbf;
    }
    return length > 0 ? length : 1;
}

/* ---- Quoted texts -------------------------------------------------------------------------------------- */

size_t quoted_character(const unsigned char *text, size_t left)
{
    bool whole;
    size_t length = utf8_next((const char *)text, left, &whole);
    return whole && !printable_control((const char *)text, left) ? length : 0;
}

size_t quoted_print(struct engine_string quoted, FILE *out)
{
    const unsigned char *text = (const unsigned char *)quoted.data;
    size_t width = 2;
    fputc('"', out);
    for (size_t i = 0; i < quoted.length;) {
        size_t length = quoted_character(text + i, quoted.length - i);
        if (length) {
            bool escaped = text[i] == '"' || text[i] == '\\';
            if (escaped) fputc('\\', out);
            fwrite(text + i, 1, length, out);
            width += escaped ? 2 : 1;
            i += length;
            continue;
        }
        const char *name = text[i] ? strchr("\nn\tt\rr", text[i]) : NULL;
        if (name && *name < ' ')
            width += (size_t)fprintf(out, "\\%c", name[1]);
        else
            width += (size_t)fprintf(out, "\\x%02X", text[i]);
        i++;
    }
    fputc('"', out);
    return width;
}

void quoted_print_line(struct engine_string line, FILE *out)
{
    const unsigned char *text = (const unsigned char *)line.data;
    for (size_t i = 0, length; i < line.length; i += length ? length : 1) {
        length = quoted_character(text + i, line.length - i);
        if (length)
            fwrite(text + i, 1, length, out);
        else if (text[i] == '\n' || text[i] == '\t' || text[i] == '\r')
            fputc(' ', out);
        else
            fprintf(out, "\\x%02X", text[i]);
    }
}

/* ---- Tables -------------------------------------------------------------------------------------------- */

#define MAX_COLUMNS 64

void table_add(struct table *table, const char *format, ...)
{
    char *cell;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&cell, format, args);
    va_end(args);
    if (length < 0) cell = NULL;
    if (!cell || !ARRAY_GROW(table->cells, table->count)) {
        free(cell);
        table->is_lost = true;
        return;
    }
    printable_make(cell);
    table->cells[table->count++] = cell;
}

/* Characters of a UTF-8 text. */
static size_t width(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Nothing follows the last cell that has a text. */
static void print_row(char *const *cells, const size_t *widths, const struct table *table, FILE *out)
{
    size_t n = table->n_columns;
    while (n > 1 && cells[n - 1][0] == '\0') n--;
    for (size_t column = 0; column < n; column++) {
        int blanks = (int)(widths[column] - width(cells[column]));
        bool last = column + 1 == n, right = table->alignment[column] == 'r';
        fprintf(out, "%*s%s%*s%s", right ? blanks : 0, "", cells[column], right || last ? 0 : blanks, "",
                last ? "\n" : "  ");
    }
}

int table_print(struct table *table, const char *none, FILE *out)
{
    size_t widths[MAX_COLUMNS] = {0}, columns = table->n_columns;
    bool whole = !table->is_lost && columns <= MAX_COLUMNS && table->count % columns == 0;
    for (size_t i = 0; i < table->count && whole; i++) {
        if (width(table->cells[i]) > widths[i % columns]) widths[i % columns] = width(table->cells[i]);
    }
    bool empty = table->count <= columns;
    if (whole && empty) fprintf(out, "%s\n", none);
    for (size_t i = 0; i < table->count && whole && !empty; i += columns) {
        print_row(table->cells + i, widths, table, out);
    }
    for (size_t i = 0; i < table->count; i++) free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->count = 0;
    if (whole) return 0;
    command_error(ENGINE_ERROR_MEMORY, "out of memory (table)");
    return command_fail();
}

/* ---- Lines --------------------------------------------------------------------------------------------- */

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
