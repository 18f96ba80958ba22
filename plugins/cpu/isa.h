/* isa.h: which instruction set the kernels use. */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include "kernels.h"

/* The best kernels that this processor and system run, at most those that the environment variable
 * ENGINE_CPU_ISA names. NULL after host->fail if it names none. */
const struct kernels *isa_kernels(void);

#endif
