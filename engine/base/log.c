/* log.c: see log.h. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*log_sink)(void *user, enum engine_log_level level, const char *line);
static void *log_user;

void log_to(void (*sink)(void *user, enum engine_log_level level, const char *line), void *user)
{
    pthread_mutex_lock(&lock);
    log_sink = sink;
    log_user = user;
    pthread_mutex_unlock(&lock);
}

void log_line(enum engine_log_level level, const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);

    pthread_mutex_lock(&lock);
    if (log_sink) log_sink(log_user, level, line);
    pthread_mutex_unlock(&lock);
}
