/* error.h: how functions of the engine say why they failed. A message per thread, kept until the next
 * failure. */
#ifndef ENGINE_BASE_ERROR_H
#define ENGINE_BASE_ERROR_H

#include "plugin-api.h"

/* Keeps the message for this thread and returns `status`: `return error_raise(ENGINE_ERROR_DATA, "%s: …", path);`.
 * A message is one line that says what, where and, if it isn't plain, what to do. */
int error_raise(int status, const char *format, ...) ENGINE_PRINTF(2, 3);

/* Like error_raise, with the current message after the new text: "loading blk.0.attn_q.weight: out of memory". */
int error_wrap(int status, const char *format, ...) ENGINE_PRINTF(2, 3);

/* For allocations: keeps "out of memory (WHAT)" and returns ENGINE_ERROR_MEMORY. */
int error_memory(const char *what);

/* Forgets the message, so that the next one is known to be of what follows: before calls of plugins, which may fail
 * without giving a reason. */
void error_clear(void);

/* The last message of this thread, "" if there is none. Valid until the thread's next failure. */
const char *error_message(void);

#endif
