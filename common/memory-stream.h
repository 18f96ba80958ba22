/* memory-stream.h: closes what open_memstream has opened. */
#ifndef COMMON_MEMORY_STREAM_H
#define COMMON_MEMORY_STREAM_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Whether *text is complete; otherwise it is NULL. glibc's fclose doesn't report that memory ran out for the
 * text's final size. */
static inline bool memory_stream_end(FILE *stream, char **text)
{
    if (fclose(stream) == 0 && *text) return true;
    free(*text);
    *text = NULL;
    return false;
}

#endif
