/* list.h: operations as a list of steps that threads walk through together.
 *
 * A step is a function over a number of tasks; threads take tasks as they become free. The tasks of a step
 * begin without waiting for those of earlier steps unless the step reads what an earlier one writes (or
 * writes what it reads or writes). Such a step gets `barrier` set when it is added, based on what the caller
 * declares with list_reads and list_writes. The result of a task does not depend on the thread that runs it.
 *
 * Scratch memory consists of slots, which all threads share and which last as long as the list, and one part
 * for each thread, which lasts as long as a task. Both exist while the list runs; steps reach them through
 * struct work. */
#ifndef CPU_LIST_H
#define CPU_LIST_H

#include <stdatomic.h>

#include "cpu.h"
#include "operand.h"

struct list;
struct list_step;

enum slot {
    SLOT_ROPE,
    SLOT_INPUT_0, /* inputs of matmuls, see matmul.h */
    SLOT_INPUT_1,
    SLOT_TOKENS,   /* the same, before they are moved to their experts' columns */
    SLOT_EXPERTS,  /* the owners of columns */
    SLOT_PRODUCTS, /* the experts' results, before they are mixed */
    SLOT_ATTENTION,
    SLOT_SCAN, /* keys and queries, see op-scan.c */
    N_SLOTS
};

/* What a task may use. */
struct work {
    struct list *list;
    const struct kernels *kernels;
    uint8_t *slots[N_SLOTS];
    uint8_t *own; /* as many bytes as list_reserve_own has asked for */
};

typedef void step_function(const void *args, const struct work *work, size_t task);
/* The number of tasks if it depends on data that is available only when the step begins. The function may
 * read only what the step is declared to read. */
typedef size_t step_count(const void *args);

struct list *list_create(void);
void list_destroy(struct list *list);
void list_clear(struct list *list);
bool list_is_empty(const struct list *list);

/* Adds a step; the caller writes its arguments to the returned place, which is valid until the next list_add.
 * NULL after host->fail. */
void *list_add(struct list *list, step_function *run, size_t n_tasks, size_t args_size);
void list_count_later(struct list *list, step_count *count); /* of the step just added */

/* The arguments of the step just added if `run` runs its tasks, with room for `more` bytes at their end. NULL
 * if another function does, or if memory runs out. What the caller adds to the step is declared like that of
 * a step of its own. */
void *list_extend(struct list *list, step_function *run, size_t more);
void list_set_tasks(struct list *list, size_t n_tasks); /* of the step just added */

/* Memory that the step just added reads or writes. */
void list_reads(struct list *list, const struct view *view);
void list_writes(struct list *list, const struct view *view);
void list_reads_slot(struct list *list, enum slot slot);
void list_writes_slot(struct list *list, enum slot slot);

/* Makes a slot, or each thread's own part, at least this many bytes. */
void list_reserve_slot(struct list *list, enum slot slot, size_t size);
void list_reserve_own(struct list *list, size_t size);

/* The input slot that has been free for longer. */
enum slot list_next_input_slot(struct list *list);

/* Something prepared from an input (quantised activations, tables of angles) can serve several operations.
 * The key identifies the input and the kind of preparation. */
struct prepared_key {
    uint32_t kind;
    uint32_t n; /* further numbers that matter, by kind */
    double numbers[3];
    const void *values;
    struct view input;
    struct view choice; /* of experts, if the layout depends on it; empty: none */
};
/* Whether a slot holds this, prepared from an input (and a choice) that has not been written since. */
bool list_is_prepared(const struct list *list, enum slot slot, const struct prepared_key *key);
/* Records that the step just added fills a slot with it. */
void list_set_prepared(struct list *list, enum slot slot, const struct prepared_key *key);

/* Runs all steps on the device's threads. Returns ENGINE_OK, ENGINE_ERROR_MEMORY if scratch memory runs out,
 * or the status that a task reported; *message then gives the reason. */
int list_run(struct list *list, struct engine_device *device, const char **message);

/* From a task: data (ids, positions) is out of range. The text is static. */
void work_fail(const struct work *work, const char *message);

#endif
