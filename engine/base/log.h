/* log.h: warnings and notes on their way to whoever embeds the engine. */
#ifndef ENGINE_BASE_LOG_H
#define ENGINE_BASE_LOG_H

#include "plugin-api.h"

/* Where lines go from now on; NULL: nowhere. Process-wide: it belongs to the plugin registry, whose host
 * services have no other way to tell engines apart. The sink is called by one thread at a time and must not log itself. */
void log_to(void (*sink)(void *user, enum engine_log_level level, const char *line), void *user);

void log_line(enum engine_log_level level, const char *format, ...) ENGINE_PRINTF(2, 3);

#endif
