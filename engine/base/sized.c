/* sized.c: see sized.h. */
#include "base/sized.h"

#include "base/error.h"

int sized_check(const void *given, const char *type, size_t least)
{
    if (!given) return error_raise(ENGINE_ERROR_ARGUMENT, "the struct %s is required, not NULL", type);
    if (sized_size(given) >= least) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT, "struct %s: struct_size is %zu; set it to sizeof(struct %s)",
                       type, sized_size(given), type);
}
