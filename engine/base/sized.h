/* sized.h: structs of engine.h, which begin with their size as the caller's compiler knew it. */
#ifndef ENGINE_BASE_SIZED_H
#define ENGINE_BASE_SIZED_H

#include <stddef.h>

/* Rejects a struct without a size, or with one that cuts off fields of its first version: the caller forgot
 * to set it. `last` names the last field of the first version; do not change it when fields are appended.
 * Returns an enum engine_status:
 *
 *     int status = SIZED_CHECK(options, engine_options, user); */
#define SIZED_CHECK(given, type, last)                                                                       \
    sized_check((given), #type, offsetof(struct type, last) + sizeof((given)->last))
int sized_check(const void *given, const char *type, size_t least);

/* Copy the fields that both sides know, after SIZED_CHECK. sized_read copies from a caller's struct and
 * zeroes the fields that it lacks. sized_write copies into a caller's struct; its size, and fields that the
 * library does not know, keep their values. */
void sized_read(void *known, size_t size, const void *given);
void sized_write(void *given, const void *known, size_t size);

#endif
