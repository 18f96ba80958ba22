/* sized.h: structs of engine.h, which begin with their size as the caller's compiler knew it. */
#ifndef ENGINE_BASE_SIZED_H
#define ENGINE_BASE_SIZED_H

#include <stddef.h>

/* Refuses a struct without a size, or with one that cuts off fields of its first version: the caller forgot to set it.
 * `last` names the last field of that first version, and stays when fields are appended. Returns an enum engine_status:
 *
 *     int status = SIZED_CHECK(options, engine_options, user); */
#define SIZED_CHECK(given, type, last)                                                                       \
    sized_check((given), #type, offsetof(struct type, last) + sizeof((given)->last))
int sized_check(const void *given, const char *type, size_t least);

/* Copies the fields that both sides know, after SIZED_CHECK: from a caller's struct (those that it doesn't know become
 * 0), or into it (those that the library doesn't know stay as they are, and so does its size). */
void sized_read(void *known, size_t size, const void *given);
void sized_write(void *given, const void *known, size_t size);

#endif
