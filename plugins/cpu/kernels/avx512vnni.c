/* avx512vnni.c: the kernels for AVX-512 with VNNI. */
#define KERNELS          kernels_avx512vnni
#define KERNELS_NAME     "avx512vnni"
#define F32_TILE_TOKENS  12
#define INT8_TILE_TOKENS 6
#define INT8_FEW_TOKENS  4
#define INT8_PARTS       1
#define INT8_TILE_PAIRS
#define NIBBLE_TILE_TOKENS 8
#define VALUE_ROWS         ((size_t)4) /* queries whose sums of values the registers hold */

/* clang-format off */
#include "vec-avx512.h"
#include "vec.h"
#include "tiles.h"
#include "unpack.h"
#include "int8.h"
#include "exact.h"
#include "activate.h"
#include "rows.h"
#include "attention.h"
#include "scan.h"
#include "table.h"
/* clang-format on */
