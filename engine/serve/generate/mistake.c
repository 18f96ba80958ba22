/* api-error.c: see api-error.h. */
#include "serve/generate/mistake.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/printable.h"
#include "serve/generate/lenient.h"
#include "serve/http/exchange.h"

static bool record(struct api_error *error, unsigned status, const char *code, const char *param,
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
    record(error, 400, NULL, param, format, arguments);
    va_end(arguments);
    return false;
}

bool api_error_with_code(struct api_error *error, const char *code, const char *param, const char *format,
                         ...)
{
    va_list arguments;
    va_start(arguments, format);
    record(error, 400, code, param, format, arguments);
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
    error->status = status == ENGINE_ERROR_BUSY ? 429 : theirs ? 400 : 500;
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
