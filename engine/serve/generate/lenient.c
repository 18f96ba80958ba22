/* lenient.c: see lenient.h. */
#include "serve/generate/lenient.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/log.h"

struct lenient *lenient_create(void)
{
    struct lenient *lenient = calloc(1, sizeof *lenient);
    if (lenient && pthread_mutex_init(&lenient->lock, NULL) == 0) return lenient;
    free(lenient);
    return NULL;
}

void lenient_destroy(struct lenient *lenient)
{
    if (lenient) pthread_mutex_destroy(&lenient->lock);
    free(lenient);
}

/* Remembers a name. False: it is known, or there is no room. */
static bool is_new(struct lenient *lenient, const char *name, bool *full)
{
    char cut[LENIENT_NAME_SIZE];
    if (lenient->n_names == LENIENT_MAX_NAMES) return false; /* a request may have a million names */
    snprintf(cut, sizeof cut, "%s", name);
    for (size_t i = 0; i < lenient->n_names; i++)
        if (strcmp(lenient->names[i], cut) == 0) return false;
    memcpy(lenient->names[lenient->n_names++], cut, sizeof cut);
    *full = lenient->n_names == LENIENT_MAX_NAMES;
    return true;
}

bool lenient_say(struct lenient *lenient, const char *name, const char *format, ...)
{
    char line[512];
    va_list arguments;
    bool full = false;
    pthread_mutex_lock(&lenient->lock);
    bool say = is_new(lenient, name, &full);
    pthread_mutex_unlock(&lenient->lock);
    if (!say) return false;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    server_log("%s", line);
    if (full) server_log("more fields of requests are ignored than are logged: this was the last line");
    return true;
}
