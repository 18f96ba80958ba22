/* json.h: additions to Jansson: JSON that commands read and print. */
#ifndef ENGINE_COMMANDS_JSON_H
#define ENGINE_COMMANDS_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the program end, with a line and a status other than 0, where memory runs out for JSON. Call it before there is
 * any. Later functions of Jansson, those in libengine included, fail only for other reasons. */
void json_end_without_memory(void);

/* A string of `length` bytes; invalid UTF-8 becomes U+FFFD, once for a cut character. NULL becomes json_null. */
json_t *json_text(const char *text, size_t length);
json_t *json_line(const char *text); /* the same, NUL-terminated */
/* The same of a text that has grown in a buffer (common.h), "" if nothing has come yet. */
struct text_buffer;
json_t *json_buffer(const struct text_buffer *text);

/* Integers above 2^63 - 1, Jansson's largest, become that. */
json_t *json_count(uint64_t number);

/* A seed, which may have 64 bits: as a text if Jansson has no such integer. */
json_t *json_seed(uint64_t seed);

/* Reads a JSON text of a file: an array, whose elements are objects. *what: "messages". Errors name the file ("-":
 * standard input) and the line. */
int json_check_objects(const char *path, const char *text, size_t size, const char *what, json_t **json);

/* The plugins that are not used, as an array; NULL: out of memory. In plugins.c. */
struct engine;
json_t *refused_plugins(const struct engine *engine);

/* Prints it to standard output and drops the reference. Returns the exit status. NULL means out of memory, as
 * in Jansson. */
int json_print(json_t *json);

#endif
