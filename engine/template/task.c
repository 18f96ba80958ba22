/* task.c: memory and limits of a template that is parsed or rendered, and the way out (value.h). */
#include "common/assert.h"
#include "template/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_SIZE ((size_t)1 << 16)

struct task_block {
    struct task_block *next;
    max_align_t data[];
};

void task_begin(struct task *task, size_t memory, uint64_t steps)
{
    memset(task, 0, sizeof *task);
    task->memory = memory;
    task->steps = steps;
}

void task_end(struct task *task)
{
    for (struct task_block *block = task->blocks; block;) {
        struct task_block *next = block->next;
        free(block);
        block = next;
    }
    task->blocks = NULL;
    task->next = task->end = NULL;
}

bool task_run(struct task *task, void (*work)(struct task *task, void *user), void *user)
{
    ENGINE_ASSERT(task->depth == 0);
    if (setjmp(task->failed)) return false;
    work(task, user);
    return true;
}

void task_fail(struct task *task, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(task->message, sizeof task->message, format, args);
    va_end(args);
    if (!task->status) task->status = ENGINE_ERROR_DATA;
    longjmp(task->failed, 1);
}

void *task_allocate(struct task *task, size_t size)
{
    size_t unit = _Alignof(max_align_t);
    if (size > task->memory) task_fail(task, "it takes more memory than a template may");
    size = size ? (size + unit - 1) / unit * unit : unit;
    if (size > (size_t)(task->end - task->next)) {
        /* A large piece gets a block of its own, and the newest one stays in use. */
        size_t room = size > BLOCK_SIZE / 4 ? size : BLOCK_SIZE;
        size_t taken = room + sizeof(struct task_block);
        if (taken > task->memory) task_fail(task, "it takes more memory than a template may");
        struct task_block *block = calloc(1, taken);
        if (!block) {
            task->status = ENGINE_ERROR_MEMORY;
            task_fail(task, "out of memory");
        }
        task->memory -= taken;
        block->next = task->blocks;
        task->blocks = block;
        if (room == size) return block->data;
        task->next = (char *)block->data;
        task->end = task->next + room;
    }
    void *memory = task->next;
    task->next += size;
    return memory;
}

void *task_array(struct task *task, size_t count, size_t size)
{
    if (count > task->memory / size) task_fail(task, "it takes more memory than a template may");
    return task_allocate(task, count * size);
}

void *task_grow(struct task *task, void *items, size_t count, size_t *capacity, size_t size)
{
    ENGINE_ASSERT(count <= *capacity);
    if (count < *capacity) return items;
    size_t more = count < 4 ? 4 : count * 2;
    void *grown = task_array(task, more, size);
    if (count) memcpy(grown, items, count * size);
    *capacity = more;
    return grown;
}

void task_charge(struct task *task, uint64_t steps)
{
    if (steps > task->steps) task_fail(task, "it takes more steps than a template may");
    task->steps -= steps;
}

void task_enter(struct task *task)
{
    if (++task->depth > TASK_MAX_DEPTH)
        task_fail(task, "more than %d things within each other", TASK_MAX_DEPTH);
}

void task_leave(struct task *task)
{
    ENGINE_ASSERT(task->depth > 0);
    task->depth--;
}
