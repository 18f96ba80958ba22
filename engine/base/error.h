/* error.h: how the engine's functions report failures. Each thread has one message, kept until its next
 * failure. */
#ifndef ENGINE_BASE_ERROR_H
#define ENGINE_BASE_ERROR_H

#include <stddef.h>

#include "common/sized.h"
#include "plugin-api.h"

/* Stores the message for this thread and returns `status`: `return error_raise(ENGINE_ERROR_DATA, "%s: …",
 * path);`. A message is one line that says what failed, where and, unless it is obvious, what to do. */
int error_raise(int status, const char *format, ...) ENGINE_PRINTF(2, 3);

/* Like error_raise, with the current message appended to the text: "loading blk.0.attn_q.weight: out of
 * memory". */
int error_wrap(int status, const char *format, ...) ENGINE_PRINTF(2, 3);

/* For allocations: stores "out of memory (WHAT)" and returns ENGINE_ERROR_MEMORY. */
int error_memory(const char *what);

/* Rejects a struct of engine.h without a size, or with one that cuts off fields of its first version: the
 * caller forgot to set it. `last` names the last field of the first version; do not change it when fields are
 * appended. Returns an enum engine_status:
 *
 *     int status = SIZED_CHECK(options, engine_options, user); */
#define SIZED_CHECK(given, type, last)                                                                       \
    sized_check((given), #type, offsetof(struct type, last) + sizeof((given)->last))
int sized_check(const void *given, const char *type, size_t least);

/* Skips UTF-8's byte order mark at the beginning of *text [*size], the file at `path`. ENGINE_ERROR_DATA,
 * with a message, if the mark is that of UTF-16 or UTF-32. */
int text_begin(const char *path, const char **text, size_t *size);

/* Clears the message. Call it before a plugin, which may fail without giving a reason: otherwise an older
 * message would pass for its own. */
void error_clear(void);

/* The last message of this thread, "" if there is none. Valid until the thread's next failure. */
const char *error_message(void);

#endif
