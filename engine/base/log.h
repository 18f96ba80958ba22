/* log.h: passes warnings and notes to the program that embeds the engine. */
#ifndef ENGINE_BASE_LOG_H
#define ENGINE_BASE_LOG_H

#include "plugin-api.h"

/* Sets the sink of log lines; NULL: they are dropped. It is process-wide, because it belongs to the plugin
 * registry, whose host services cannot tell engines apart. The sink is called by one thread at a time and
 * must not log. */
void log_to(void (*sink)(void *user, enum engine_log_level level, const char *line), void *user);

void log_line(enum engine_log_level level, const char *format, ...) ENGINE_PRINTF(2, 3);

#endif
