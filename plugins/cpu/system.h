/* system.h: the machine's processors and memory. Linux; elsewhere as far as POSIX goes. */
#ifndef CPU_SYSTEM_H
#define CPU_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

/* Physical cores that this process may run on, limited by the processor time that its control group
 * grants. */
unsigned system_cores(void);

/* Logical processors that this process may run on. */
unsigned system_processors(void);

/* Bytes that could be allocated now, and the total: the machine's or those of the process's control group,
 * whichever is less. 0: unknown. */
void system_memory(uint64_t *available, uint64_t *total);

/* The processor's name. */
void system_processor_name(char *name, size_t size);

#endif
