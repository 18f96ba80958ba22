/* json.h: additions to Jansson for --json. */
#ifndef ENGINE_COMMANDS_JSON_H
#define ENGINE_COMMANDS_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* A string of `length` bytes; invalid UTF-8 becomes U+FFFD. NULL becomes json_null. */
json_t *json_text(const char *text, size_t length);
json_t *json_line(const char *text); /* the same, NUL-terminated */

/* Integers above 2^63 - 1, Jansson's largest, become that. */
json_t *json_count(uint64_t number);

/* The plugins that are not used, as an array; NULL: out of memory. In plugins.c. */
struct engine;
json_t *refused_plugins(const struct engine *engine);

/* Prints it to standard output and drops the reference. Returns the exit status. NULL means out of memory, as
 * in Jansson. */
int json_print(json_t *json);

#endif
