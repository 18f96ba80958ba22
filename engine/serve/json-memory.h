/* json-memory.h: Jansson when memory runs out. Jansson 2.14 doesn't notice that a byte of a string had no room: it asks again
 * for each byte that follows, which takes minutes, and then reads past what it has. Here an allocation that fails ends the text
 * that is read. */
#ifndef ENGINE_SERVE_JSON_MEMORY_H
#define ENGINE_SERVE_JSON_MEMORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Has Jansson allocate by this file, in the whole program: before other threads start. */
void json_memory_begin(void);

/* How often memory has run out for JSON that isn't read but made. Jansson's NULL then stands in for a value or leaves a field
 * out, so what was made meanwhile, by any thread, is not to be sent. */
uint64_t json_memory_lost(void);
/* Says so of a text that JSON is made of. */
void json_memory_lose(void);

/* As json_read (common/json-read.h). *no_memory: that is why it failed. */
json_t *json_memory_read(const char *text, size_t length, size_t flags, json_error_t *error, bool *no_memory);

#endif
