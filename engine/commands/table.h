/* table.h: tables for people, with columns as wide as their widest cell. */
#ifndef ENGINE_COMMANDS_TABLE_H
#define ENGINE_COMMANDS_TABLE_H

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

#endif
