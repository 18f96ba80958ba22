/* families.h: every family that there is, one line each. The table in arch.c and the declarations come from it. */
#ifndef ENGINE_ARCH_FAMILIES_H
#define ENGINE_ARCH_FAMILIES_H

#include "arch/arch.h"

/* Names as in `const struct architecture arch_NAME`. */
#define FAMILIES(X) X(llama)

#define X(name) extern const struct architecture arch_##name;
FAMILIES(X)
#undef X

#endif
