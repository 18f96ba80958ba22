/* json.h: values of tokenizer.json with their places, so that messages can name them. */
#ifndef TOKENIZERS_HF_JSON_H
#define TOKENIZERS_HF_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

#define JSON_PLACE_SIZE 192
#define JSON_MAX_DEPTH  32 /* sequences in each other */

/* What the expressions of a file have taken so far: one file may have any number of them. See regex.c. */
struct json_spent {
    size_t n_expressions, n_bytes, n_ranges;
};

struct json_at {
    const json_t *value;         /* NULL: there is none */
    char place[JSON_PLACE_SIZE]; /* as a JSON pointer after the file's name, cut if it is long */
    unsigned depth;
    struct json_spent *spent; /* of the file */
};

struct json_at json_member(const struct json_at *object, const char *name);
struct json_at json_element(const struct json_at *array, size_t index);

/* There is none, or it is null. */
bool json_absent(const struct json_at *at);

/* The string of an object's "type"; "" if there is none. */
const char *json_type_of(const struct json_at *object);
bool json_is(const struct json_at *object, const char *type);

/* ENGINE_ERROR_UNSUPPORTED: "PLACE: no tokenizer plugin knows WHAT "TYPE"". */
int json_unknown(const struct json_at *object, const char *what);
/* ENGINE_ERROR_DATA: "PLACE is not WHAT". */
int json_wrong(const struct json_at *at, const char *what);

/* Members of an object. Absent ones are `preset`, for strings an error if there is none (data NULL). */
int json_boolean_member(const struct json_at *object, const char *name, bool preset, bool *value);
int json_string_member(const struct json_at *object, const char *name, const char *preset,
                       struct engine_string *value);
/* A string of one character. */
int json_character_member(const struct json_at *object, const char *name, uint32_t *character);
/* Copies a string into memory of the caller's, [*length] bytes; *copy is NULL if it is empty. */
int json_copy_member(const struct json_at *object, const char *name, const char *preset, char **copy,
                     size_t *length);
int json_integer_member(const struct json_at *object, const char *name, int64_t preset, int64_t *value);

/* The elements of a sequence: the array in the member `name`. Calls `visit` with each. */
typedef int (*json_visit)(void *user, const struct json_at *element);
int json_each(const struct json_at *object, const char *name, json_visit visit, void *user);

/* {"String": …} or {"Regex": …} in the member "pattern". */
int json_pattern(const struct json_at *object, struct engine_string *text, bool *regex);

#endif
