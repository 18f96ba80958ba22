/* threads.h: how many threads encode. */
#ifndef ENGINE_QUANTIZE_THREADS_H
#define ENGINE_QUANTIZE_THREADS_H

#include <stdint.h>

#include "internal.h"

/* `wanted`, or if it is 0 the setting `threads`, or as many as the processors available to this process. */
uint32_t threads_count(const struct engine *engine, uint32_t wanted);

#endif
