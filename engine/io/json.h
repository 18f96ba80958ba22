/* json.h: JSON that programs read and print: additions to Jansson. */
#ifndef ENGINE_IO_JSON_H
#define ENGINE_IO_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the program end, with a line and a status other than 0, where memory runs out for JSON. Call it
 * before there is any. Later functions of Jansson, those in libengine included, fail only for other
 * reasons. */
void json_end_without_memory(void);

/* A string of `length` bytes; invalid UTF-8 becomes U+FFFD, once for a cut character. NULL becomes
 * json_null. */
json_t *json_text(const char *text, size_t length);
json_t *json_line(const char *text); /* the same, NUL-terminated */
/* The same of a text that has grown in a buffer (common/text.h), "" if nothing has come yet. */
struct text_buffer;
json_t *json_buffer(const struct text_buffer *text);

/* Integers above 2^63 - 1, Jansson's largest, become that. */
json_t *json_count(uint64_t number);

/* A seed, which may have 64 bits: as a text if Jansson has no such integer. */
json_t *json_seed(uint64_t seed);

/* A number that the program has measured or computed, of which so many digits are told. */
json_t *json_rounded(double number, int digits);

/* The text of a value whose numbers may be somebody else's: each reads back as the same double, with as few
 * digits as that takes. `flags`: as json_dumps. The caller frees it. NULL: out of memory. */
char *json_exact_text(const json_t *json, size_t flags);

/* Reads a JSON text of a file: an array, whose elements are objects. *what: "messages". Errors name the file
 * ("-": standard input) and the line. */
int json_check_objects(const char *path, const char *text, size_t size, const char *what, json_t **json);

/* Prints it to standard output and drops the reference. Returns the exit status. NULL means out of memory, as
 * in Jansson. */
int json_print(json_t *json);

/* Reads a request, or a line of a file. *keyword: what a schema in it has an integer in that can't be
 * enforced, since no double holds it: "const" or "enum", which belongs to the result; NULL: nothing. */
json_t *json_read_request(const char *text, size_t length, const char **keyword, json_error_t *error);
#define JSON_LONG_INTEGER "has an integer of more than 64 bits, which no double holds: give it as a text"

/* Texts of JSON with a NUL: names, roles, types and the like are compared as C's texts, which end there, so
 * "demo\0x" would be "demo". Only prose, whose length is known everywhere, may have one. */
#define JSON_NUL_WHERE 160 /* bytes for a place: "messages[0].role" */

/* Whether a request, or a line of a file, has a text with a NUL that may not have one; `where` gets the place
 * of the first. */
bool json_has_nul(const json_t *json, char where[JSON_NUL_WHERE]);

#endif
