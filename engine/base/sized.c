/* sized.c: see sized.h. */
#include "base/sized.h"

#include <string.h>

#include "base/error.h"

static size_t size_of(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size); /* the first field of each */
    return size;
}

int sized_check(const void *given, const char *type, size_t least)
{
    if (!given) return error_raise(ENGINE_ERROR_ARGUMENT, "the struct %s is required, not NULL", type);
    if (size_of(given) >= least) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT, "struct %s: struct_size is %zu; set it to sizeof(struct %s)",
                       type, size_of(given), type);
}

void sized_read(void *known, size_t size, const void *given)
{
    size_t both = size_of(given) < size ? size_of(given) : size;
    memcpy(known, given, both);
    memset((char *)known + both, 0, size - both);
    memcpy(known, &size, sizeof size);
}

void sized_write(void *given, const void *known, size_t size)
{
    size_t theirs = size_of(given);
    memcpy(given, known, theirs < size ? theirs : size);
    memcpy(given, &theirs, sizeof theirs);
}
