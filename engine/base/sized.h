/* sized.h: structs of engine.h that callers fill: common/sized.h, and the check that a size is there. */
#ifndef ENGINE_BASE_SIZED_H
#define ENGINE_BASE_SIZED_H

#include <stddef.h>

#include "common/sized.h"

/* Rejects a struct without a size, or with one that cuts off fields of its first version: the caller forgot
 * to set it. `last` names the last field of the first version; do not change it when fields are appended.
 * Returns an enum engine_status:
 *
 *     int status = SIZED_CHECK(options, engine_options, user); */
#define SIZED_CHECK(given, type, last)                                                                       \
    sized_check((given), #type, offsetof(struct type, last) + sizeof((given)->last))
int sized_check(const void *given, const char *type, size_t least);

#endif
