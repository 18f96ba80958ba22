/* log.h: lines on standard error: one for each request, and what happens besides. A line that cannot be written, because a
 * disk is full or a reader has fallen behind, is lost; the server goes on. */
#ifndef ENGINE_SERVE_LOG_H
#define ENGINE_SERVE_LOG_H

#include "commands/arguments.h"
#include "engine.h"

struct exchange;

/* --log-format and --log-prompts, before all else. */
void log_begin(const struct arguments *arguments);
/* For engine_options.log: a warning of the engine, in the same form, each once until log_forget. */
void log_engine(void *user, enum engine_log_level level, const char *line);
/* A model is loaded next, whose warnings count for themselves. */
void log_forget(void);
/* A line about the server. */
void server_log(const char *format, ...) ENGINE_PRINTF(1, 2);
/* The line of an exchange that has ended. */
void log_exchange(const struct exchange *exchange);

#endif
