/* task.h: what parsing and rendering a template have in common: memory, limits, and the way out.
 *
 * A task owns all memory that is allocated during it, and frees it at its end. A failure therefore needs no
 * cleanup on its way: task_fail leaves everything at once, by longjmp to task_run. Code that runs within a
 * task must not own anything else. */
#ifndef ENGINE_TEMPLATE_TASK_H
#define ENGINE_TEMPLATE_TASK_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

/* Steps are nanoseconds, roughly: what an operation costs, on the safe side. */
#define TASK_STEP_NODE      32 /* evaluating a node of the syntax tree */
#define TASK_STEP_ITEM      8  /* touching an item of a list or dict */
#define TASK_STEP_CHARACTER 8  /* looking a character up */
#define TASK_STEP_WRITE     8  /* appending to a text, besides its bytes */
/* Touching a byte of text: 1. */

/* Evaluations within each other, and values within each other. */
#define TASK_MAX_DEPTH 1000

struct task_block;

struct task {
    struct task_block *blocks;
    char *next, *end; /* free memory of the newest block */
    size_t memory;    /* bytes that may still be allocated */
    uint64_t steps;   /* that may still be taken */
    uint32_t depth;
    int line;   /* of the template; 0: none */
    int status; /* enum engine_status: why it failed */
    char message[1024];
    jmp_buf failed;
};

void task_begin(struct task *task, size_t memory, uint64_t steps);
/* Frees the task's memory. */
void task_end(struct task *task);

/* Runs `work` within the task; false if it failed. Not to be nested. */
bool task_run(struct task *task, void (*work)(struct task *task, void *user), void *user);

/* Zeroed memory, aligned for anything. Fails when the limit is reached. */
void *task_allocate(struct task *task, size_t size);
/* [count] items of `size` bytes. */
void *task_array(struct task *task, size_t count, size_t size);
/* Room for one more item in an array of *capacity, [count] of which are in use; returns the array. */
void *task_grow(struct task *task, void *items, size_t count, size_t *capacity, size_t size);

/* Accounts for work; fails when the limit is reached. */
void task_charge(struct task *task, uint64_t steps);

/* Around whatever calls itself. */
void task_enter(struct task *task);
void task_leave(struct task *task);

/* Ends the task. */
_Noreturn void task_fail(struct task *task, const char *format, ...) ENGINE_PRINTF(2, 3);

#endif
