/* blocks.h: blocks of the quantised types beyond Q8_0 and Q4_0, for formats.c: random ones, and what they mean in
 * double precision, from GGUF's definitions. */
#ifndef ENGINE_CHECK_BLOCKS_H
#define ENGINE_CHECK_BLOCKS_H

#include "check/formats.h"

extern const struct format block_formats[];
extern const size_t n_block_formats;

#endif
