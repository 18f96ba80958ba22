/* mistake.c: see mistake.h. */
#include "serve/generate/mistake.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/printable.h"
#include "serve/generate/lenient.h"
#include "serve/http/exchange.h"

static bool record(struct mistake *mistake, unsigned status, const char *code, const char *param,
                   const char *format, va_list arguments)
{
    if (mistake->status) return false;
    mistake->status = status;
    mistake->code = code;
    snprintf(mistake->param, sizeof mistake->param, "%s", param ? param : "");
    vsnprintf(mistake->message, sizeof mistake->message, format, arguments);
    printable_make(mistake->message); /* it may quote what a client sent */
    return false;
}

bool mistake_in(struct mistake *mistake, const char *param, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    record(mistake, 400, NULL, param, format, arguments);
    va_end(arguments);
    return false;
}

bool mistake_with_code(struct mistake *mistake, const char *code, const char *param, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    record(mistake, 400, code, param, format, arguments);
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

bool mistake_unknown(struct mistake *mistake, const char *path)
{
    char name[LENIENT_NAME_SIZE];
    if (!mistake->lenient)
        return mistake_with_code(mistake, "unknown_parameter", path, "\"%.160s\" is not supported here",
                                 path);
    without_numbers(path, name, sizeof name);
    lenient_say(mistake->lenient, name, "the field \"%s\" of a request is unknown, and ignored", name);
    return true;
}

bool mistake_memory(struct mistake *mistake)
{
    if (mistake->status) return false;
    mistake_in(mistake, NULL, "out of memory");
    mistake->status = OUT_OF_MEMORY_STATUS;
    return false;
}

bool mistake_of_engine(struct mistake *mistake, int status, const char *param)
{
    bool theirs = status == ENGINE_ERROR_ARGUMENT || status == ENGINE_ERROR_DATA ||
                  status == ENGINE_ERROR_UNSUPPORTED || status == ENGINE_ERROR_NOT_FOUND;
    if (status == ENGINE_ERROR_MEMORY) return mistake_memory(mistake);
    if (mistake->status) return false;
    mistake_in(mistake, param, "%s", engine_error_message());
    mistake->status = status == ENGINE_ERROR_BUSY ? 429 : theirs ? 400 : 500;
    return false;
}

void mistake_hide_folder(char *message, const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (!slash) return;
    size_t folder = (size_t)(slash + 1 - path), length = strlen(path);
    for (char *at = message; (at = strstr(at, path)); at += length - folder)
        memmove(at, at + folder, strlen(at + folder) + 1);
}

void mistake_hide(struct mistake *mistake, const char *path)
{
    mistake_hide_folder(mistake->message, path);
}
