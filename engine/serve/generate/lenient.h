/* lenient.h: what requests have that the server doesn't know, or cannot give, and goes on without. Each such
 * thing is logged once. Clients choose the names, so only so many are remembered, and no more lines are
 * written than that. With --strict there is none of this: what is unknown is refused. */
#ifndef ENGINE_SERVE_GENERATE_LENIENT_H
#define ENGINE_SERVE_GENERATE_LENIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine.h"

#define LENIENT_MAX_NAMES 256
#define LENIENT_NAME_SIZE 64 /* bytes; longer names are cut */

struct lenient {
    pthread_mutex_t lock;
    size_t n_names;
    char names[LENIENT_MAX_NAMES][LENIENT_NAME_SIZE]; /* [n_names] that have been logged */
};

/* NULL: out of memory. */
struct lenient *lenient_create(void);
void lenient_destroy(struct lenient *lenient);
/* [thread-safe] Logs a line unless one with this name has been logged before. Returns whether it did. */
bool lenient_say(struct lenient *lenient, const char *name, const char *format, ...) ENGINE_PRINTF(3, 4);

#endif
