/* error.h: how the engine's functions report failures. Each thread has one message, kept until its next
 * failure. */
#ifndef ENGINE_BASE_ERROR_H
#define ENGINE_BASE_ERROR_H

#include "plugin-api.h"

/* Stores the message for this thread and returns `status`: `return error_raise(ENGINE_ERROR_DATA, "%s: …",
 * path);`. A message is one line that says what failed, where and, unless it is obvious, what to do. */
int error_raise(int status, const char *format, ...) ENGINE_PRINTF(2, 3);

/* Like error_raise, with the current message appended to the text: "loading blk.0.attn_q.weight: out of
 * memory". */
int error_wrap(int status, const char *format, ...) ENGINE_PRINTF(2, 3);

/* For allocations: stores "out of memory (WHAT)" and returns ENGINE_ERROR_MEMORY. */
int error_memory(const char *what);

/* Clears the message. Call it before a plugin, which may fail without giving a reason: otherwise an older
 * message would pass for its own. */
void error_clear(void);

/* The last message of this thread, "" if there is none. Valid until the thread's next failure. */
const char *error_message(void);

#endif
