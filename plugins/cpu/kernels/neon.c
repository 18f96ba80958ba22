/* neon.c: the kernels for NEON, which every 64-bit ARM processor has. */
#define KERNELS          kernels_neon
#define KERNELS_NAME     "neon"
#define F32_TILE_TOKENS  6
#define INT8_TILE_TOKENS 6
#define INT8_FEW_TOKENS  4
#define INT8_PARTS       1
#define VALUE_ROWS       ((size_t)4) /* queries whose sums of values the registers hold */

/* clang-format off */
#include "vec-neon.h"
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
