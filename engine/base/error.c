/* error.c: see error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/byte-order.h"
#include "common/printable.h"

#define MESSAGE_SIZE 4096 /* may include a compiler's log */

static _Thread_local char message[MESSAGE_SIZE];

int error_raise(int status, const char *format, ...)
{
    char text[MESSAGE_SIZE]; /* an argument may be the current message itself */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printable_make(text); /* may include text from a file */
    memcpy(message, text, sizeof message);
    return status;
}

int error_wrap(int status, const char *format, ...)
{
    char text[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_raise(status, "%.1000s: %.3000s", text, message[0] ? message : "no reason given");
}

int error_memory(const char *what)
{
    return error_raise(ENGINE_ERROR_MEMORY, "out of memory (%s)", what);
}

void error_clear(void)
{
    message[0] = 0;
}

const char *error_message(void)
{
    return message;
}

int sized_check(const void *given, const char *type, size_t least)
{
    if (!given) return error_raise(ENGINE_ERROR_ARGUMENT, "the struct %s is required, not NULL", type);
    if (sized_size(given) >= least) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT, "struct %s: struct_size is %zu; set it to sizeof(struct %s)",
                       type, sized_size(given), type);
}

int text_begin(const char *path, const char **text, size_t *size)
{
    const char *foreign = byte_order_foreign(*text, *size);
    if (foreign) return error_raise(ENGINE_ERROR_DATA, BYTE_ORDER_REFUSED, path, foreign, foreign);
    size_t mark = byte_order_mark(*text, *size);
    if (mark > 0) *text += mark;
    *size -= mark;
    return ENGINE_OK;
}
