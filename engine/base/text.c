/* text.c: see text.h. */
#include "base/text.h"

#include "base/error.h"
#include "common/byte-order.h"

int text_begin(const char *path, const char **text, size_t *size)
{
    const char *foreign = byte_order_foreign(*text, *size);
    if (foreign) return error_raise(ENGINE_ERROR_DATA, BYTE_ORDER_REFUSED, path, foreign, foreign);
    size_t mark = byte_order_mark(*text, *size);
    if (mark > 0) *text += mark;
    *size -= mark;
    return ENGINE_OK;
}
