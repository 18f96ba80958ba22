/* list.h: operations as a list of steps that threads walk together.
 *
 * A step is a function over a number of tasks; threads take tasks as they come. The tasks of a step begin
 * without waiting for those of earlier steps unless that step reads what an earlier one writes (or writes what
 * it reads or writes): such a step has `barrier` set when it is added, from what its adder declares with
 * list_reads and list_writes. What a task computes doesn't depend on which thread runs it.
 *
 * Scratch memory comes in slots, which are shared by all threads and live through the list, and in one part
 * for each thread, which lives through a task. Both exist while the list runs; steps reach them through
 * struct work. */
#ifndef CPU_LIST_H
#define CPU_LIST_H

#include <stdatomic.h>

#include "cpu.h"
#include "operand.h"

struct list;
struct step;

enum slot {
    SLOT_ROPE,
    SLOT_INPUT_0, /* inputs of matmuls, see matmul.h */
    SLOT_INPUT_1,
    SLOT_TOKENS,   /* the same, before they are put where their experts' columns are */
    SLOT_EXPERTS,  /* which columns are whose */
    SLOT_PRODUCTS, /* what experts gave, before it is mixed */
    SLOT_ATTENTION,
    N_SLOTS
};

/* What a task may use. */
struct work {
    struct list *list;
    const struct kernels *kernels;
    uint8_t *slots[N_SLOTS];
    uint8_t *own; /* list_own_scratch bytes */
};

typedef void step_function(const void *args, const struct work *work, size_t task);
/* The number of tasks where it depends on data that is there only when the step begins. It may read
 * only what the step is declared to read. */
typedef size_t step_count(const void *args);

struct list *list_create(void);
void list_destroy(struct list *list);
void list_clear(struct list *list);
bool list_is_empty(const struct list *list);

/* Adds a step; its arguments are to be written where the result points, which is valid until the next
 * list_add. NULL after host->fail. */
void *list_add(struct list *list, step_function *run, size_t n_tasks, size_t args_size);
void list_count_later(struct list *list, step_count *count); /* of the step just added */

/* What the step just added touches. */
void list_reads(struct list *list, const struct view *view);
void list_writes(struct list *list, const struct view *view);
void list_reads_slot(struct list *list, enum slot slot);
void list_writes_slot(struct list *list, enum slot slot);

/* Sees to it that a slot, or each thread's own part, has at least so many bytes. */
void list_reserve_slot(struct list *list, enum slot slot, size_t size);
void list_reserve_own(struct list *list, size_t size);

/* The slot for inputs that has been free for longer. */
enum slot list_next_input_slot(struct list *list);

/* What has been prepared from an input (quantised activations, tables of angles) can serve several
 * operations. A key says what was made of what. */
struct prepared_key {
    uint32_t kind;
    uint32_t n; /* further numbers that matter, by kind */
    double numbers[3];
    const void *values;
    struct view input;
    struct view choice; /* of experts, on which the layout depends; empty: none */
};
/* Whether a slot holds this, of an input (and a choice) that has not been written since. */
bool list_is_prepared(const struct list *list, enum slot slot, const struct prepared_key *key);
/* Notes that the step just added fills a slot with it. */
void list_set_prepared(struct list *list, enum slot slot, const struct prepared_key *key);

/* Runs all steps on the device's threads. Returns ENGINE_OK, or ENGINE_ERROR_MEMORY if there is no scratch
 * memory, or what a task reported; then *message says what. */
int list_run(struct list *list, struct engine_device *device, const char **message);

/* From a task: data (ids, positions) is out of range. The text is static. */
void work_fail(const struct work *work, const char *message);

#endif
