/* reasoning.h: what a limit for reasoning (queue/thought.c) asks the reader of a reply. */
#ifndef ENGINE_REPLY_REASONING_H
#define ENGINE_REPLY_REASONING_H

#include <stdbool.h>

#include "engine.h"

/* Whether the text so far ends within the reasoning. */
bool reply_is_reasoning(const struct engine_reply *reply);

/* Whether it does, or reasoning may still follow. */
bool reply_may_reason(const struct engine_reply *reply);

/* What ends the reasoning that the text is in, so that an answer follows. `again`: it has been ended so
 * before, but the model has begun more of it. */
const char *reply_end_of_reasoning(const struct engine_reply *reply, bool again);

#endif
