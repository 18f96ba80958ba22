/* heap.h: how much of this process's heap is allocated, if the C library reports it: glibc does, musl
 * doesn't. */
#ifndef ENGINE_CHECK_HEAP_H
#define ENGINE_CHECK_HEAP_H

#include <stdint.h>

#if defined(HAVE_MALLINFO2)
#include <malloc.h>
#endif

/* Bytes that malloc has handed out and not got back; always 0 where that isn't known. */
static inline int64_t heap_in_use(void)
{
#if defined(HAVE_MALLINFO2)
    const struct mallinfo2 heap = mallinfo2();
    return (int64_t)(heap.uordblks + heap.hblkhd);
#else
    return 0;
#endif
}

#endif
