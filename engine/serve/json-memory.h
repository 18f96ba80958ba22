/* json-memory.h: notes when memory runs out for JSON. Jansson's NULL then stands in for a value or leaves a field out, so what
 * was made meanwhile, by any thread, is not to be sent. */
#ifndef ENGINE_SERVE_JSON_MEMORY_H
#define ENGINE_SERVE_JSON_MEMORY_H

#include <stdint.h>

/* Has Jansson allocate by this file, in the whole program: before other threads start. */
void json_memory_begin(void);

/* How often memory has run out. */
uint64_t json_memory_lost(void);
/* Says so of a text that JSON is made of. */
void json_memory_lose(void);

#endif
