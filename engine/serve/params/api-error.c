/* api-error.c: see api-error.h. */
#include "serve/params/api-error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/lock.h"
#include "common/printable.h"
#include "serve/http/http.h"
#include "serve/server.h"

static bool api_error_record(struct api_error *error, unsigned status, const char *code, const char *param,
                             const char *format, va_list arguments)
{
    if (error->status) return false;
    error->status = status;
    error->code = code;
    snprintf(error->param, sizeof error->param, "%s", param ? param : "");
    vsnprintf(error->message, sizeof error->message, format, arguments);
    printable_make(error->message); /* it may quote what a client sent */
    return false;
}

bool api_error_in(struct api_error *error, const char *param, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    api_error_record(error, 400, NULL, param, format, arguments);
    va_end(arguments);
    return false;
}

bool api_error_with_code(struct api_error *error, const char *code, const char *param, const char *format,
                         ...)
{
    va_list arguments;
    va_start(arguments, format);
    api_error_record(error, 400, code, param, format, arguments);
    va_end(arguments);
    return false;
}

/* A field has the same name whichever object of an array it is in. A long one is cut between characters. */
static void without_numbers(const char *path, char *name, size_t size)
{
    size_t n = 0;
    for (; *path && n + 1 < size; path++) {
        name[n++] = *path;
        if (*path == '[') path += strspn(path + 1, "0123456789");
    }
    if (*path) {
        while (n > 0 && ((unsigned char)name[n - 1] & 0xc0) == 0x80) n--;
        if (n > 0 && (unsigned char)name[n - 1] >= 0xc0) n--;
    }
    name[n] = '\0';
}

bool api_error_unknown(struct api_error *error, const char *path)
{
    char name[LENIENT_NAME_SIZE];
    if (!error->lenient)
        return api_error_with_code(error, "unknown_parameter", path, "\"%.160s\" is not supported here",
                                   path);
    without_numbers(path, name, sizeof name);
    lenient_say(error->lenient, name, "the field \"%s\" of a request is unknown, and ignored", name);
    return true;
}

bool api_error_memory(struct api_error *error)
{
    if (error->status) return false;
    api_error_in(error, NULL, "out of memory");
    error->status = OUT_OF_MEMORY_STATUS;
    return false;
}

bool api_error_of_engine(struct api_error *error, int status, const char *param)
{
    bool theirs = status == ENGINE_ERROR_ARGUMENT || status == ENGINE_ERROR_DATA ||
                  status == ENGINE_ERROR_UNSUPPORTED || status == ENGINE_ERROR_NOT_FOUND;
    if (status == ENGINE_ERROR_MEMORY) return api_error_memory(error);
    if (error->status) return false;
    api_error_in(error, param, "%s", engine_error_message());
    error->status = theirs ? 400 : 500;
    if (status == ENGINE_ERROR_BUSY) error->status = 429;
    return false;
}

void api_error_hide_folder(char *message, const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (!slash) return;
    size_t folder = (size_t)(slash + 1 - path), length = strlen(path);
    for (char *at = message; (at = strstr(at, path)); at += length - folder)
        memmove(at, at + folder, strlen(at + folder) + 1);
}

void api_error_hide(struct api_error *error, const char *path)
{
    api_error_hide_folder(error->message, path);
}

/* ---- Answering ---- */

struct api_error api_error_none(const struct exchange *exchange)
{
    const struct server *server = exchange_server(exchange);
    return (struct api_error){.lenient = server->lenient};
}

void api_error_answer(struct exchange *exchange, const struct api_error *error)
{
    if (error->status == 429)
        exchange_busy(exchange);
    else if (error->status < 500 &&
             exchange_lacks_memory(exchange)) /* what seems wrong may be what is lost */
        exchange_fail(exchange, OUT_OF_MEMORY_STATUS, "server_error", NULL, NULL,
                      "out of memory (a request)");
    else if (error->code && strcmp(error->code, API_ERROR_NO_THREADS) == 0)
        exchange_answer(exchange, error->status,
                        json_pack("{s:s, s:{s:s, s:s, s:{s:s, s:[s]}}}", "type", "error", "error", "type",
                                  "invalid_request_error", "message", error->message, "details", "error_code",
                                  error->code, "unsupported", error->param));
    else
        exchange_fail(exchange, error->status, error->status < 500 ? "invalid_request_error" : "server_error",
                      error->code, error->param[0] ? error->param : NULL, "%s", error->message);
}

/* ---- What is ignored ---- */

struct lenient *lenient_create(void)
{
    struct lenient *lenient = calloc(1, sizeof *lenient);
    if (lenient && lock_init(&lenient->lock) == 0) return lenient;
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
