/* isa.h: which instruction set the kernels use. */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include "kernels.h"

/* The best kernels for this processor and system, limited by the environment variable ENGINE_CPU_ISA. NULL
 * after host->fail if the variable names no instruction set. */
const struct kernels *isa_kernels(void);

#endif
