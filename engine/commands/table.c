/* table.c: see table.h. */
#include "commands/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include "commands/common.h"
#include "common/printable.h"

#define MAX_COLUMNS 64

void table_add(struct table *table, const char *format, ...)
{
    char *cell;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&cell, format, args);
    va_end(args);
    if (length < 0) cell = NULL;
    char **cells = cell ? realloc(table->cells, (table->count + 1) * sizeof *cells) : NULL;
    if (!cells) {
        free(cell);
        table->is_lost = true;
        return;
    }
    printable_make(cell);
    table->cells = cells;
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
