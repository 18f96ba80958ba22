/* avx2.c: the kernels for AVX2 with FMA and F16C. */
#define KERNELS          kernels_avx2
#define KERNELS_NAME     "avx2"
#define F32_TILE_TOKENS  6
#define INT8_TILE_TOKENS 4
#define INT8_FEW_TOKENS  4
#define INT8_PARTS       2
#define VALUE_ROWS       ((size_t)2) /* queries whose sums of values the registers hold */

/* clang-format off */
#include "vec-avx2.h"
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
