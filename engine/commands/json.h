/* json.h: what --json needs of Jansson beside itself. */
#ifndef ENGINE_COMMANDS_JSON_H
#define ENGINE_COMMANDS_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* A string of `length` bytes; what is not UTF-8 in it becomes U+FFFD. json_null for a NULL. */
json_t *json_text(const char *text, size_t length);
json_t *json_line(const char *text); /* the same, ended by NUL */

/* Whole numbers beyond what JSON readers keep exactly (2^63 - 1) become the largest such. */
json_t *json_count(uint64_t number);

/* The plugins that are not used, as an array; NULL: no memory. In plugins.c. */
struct engine;
json_t *refused_plugins(const struct engine *engine);

/* Prints it to standard output, and drops it. Returns the exit status. NULL: no memory, as Jansson says it. */
int json_print(json_t *json);

#endif
