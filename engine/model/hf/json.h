/* json.h: reads the JSON files of a model's directory. */
#ifndef ENGINE_MODEL_HF_JSON_H
#define ENGINE_MODEL_HF_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a file whose value is an object, of at most `limit` bytes, without duplicate keys. The caller
 * releases *json. ENGINE_ERROR_DATA or ENGINE_ERROR with a message that names the file. */
int hf_json_read(const char *path, uint64_t limit, json_t **json);
/* The same for a file whose value is an array. */
int hf_json_read_array(const char *path, uint64_t limit, json_t **json);

/* Python writes infinity as a word that JSON doesn't have, in config.json as the end of a range without one.
 * It becomes null, in a copy that the caller frees; NULL: there is none. ENGINE_ERROR_MEMORY. */
int hf_json_hide_infinity(const char *text, size_t length, char **copy);

#endif
