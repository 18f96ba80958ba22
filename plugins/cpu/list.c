/* list.c: steps, what must wait for what, and running them; see list.h. */
#include "list.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/assert.h"
#include "kernels.h"
#include "pool.h"
#include "types.h"

enum { MAX_ACCESSES = 96 /* ranges that are remembered between two barriers */ };

struct list_step {
    step_function *run;
    step_count *count; /* NULL: n_tasks */
    size_t n_tasks;
    size_t args;  /* where they are in list->args */
    bool barrier; /* all steps before must be done */
    size_t end;   /* of its tasks, counted from the first of its phase; while it runs */
};

/* A range of memory that a step uses. Slots get addresses where no memory is. */
struct access {
    uintptr_t begin, end;
    bool write;
};

struct prepared {
    bool valid;
    struct prepared_key key;
};

struct list {
    struct list_step *steps;
    size_t n_steps, steps_capacity;
    uint8_t *args;
    size_t args_size, args_capacity;
    struct access accesses[MAX_ACCESSES]; /* since the last barrier; those of the last step at the end */
    size_t n_accesses, n_before;          /* n_before: those of earlier steps */
    struct prepared prepared[N_SLOTS];
    size_t slot_sizes[N_SLOTS];
    size_t own_size;
    enum slot last_input_slot;
    _Atomic(const char *) failed; /* message of the first task that failed */

    /* While it runs. A phase is steps up to a barrier. */
    struct work work; /* of thread 0; those of others have their own `own` */
    size_t phase, next_phase;
};

struct list *list_create(void)
{
    struct list *list = calloc(1, sizeof *list);
    if (!list) cpu_host->fail(ENGINE_ERROR_MEMORY, "out of memory (list of operations)");
    return list;
}

void list_destroy(struct list *list)
{
    if (!list) return;
    free(list->steps);
    free(list->args);
    free(list);
}

void list_clear(struct list *list)
{
    list->n_steps = list->args_size = list->n_accesses = list->n_before = 0;
    list->own_size = 0;
    for (int i = 0; i < N_SLOTS; i++) {
        list->slot_sizes[i] = 0;
        list->prepared[i].valid = false;
    }
}

bool list_is_empty(const struct list *list)
{
    return list->n_steps == 0;
}

void *list_add(struct list *list, step_function *run, size_t n_tasks, size_t args_size)
{
    args_size = round_up(args_size, 16);
    if (!ARRAY_RESERVE(list->steps, list->steps_capacity, list->n_steps + 1) ||
        !ARRAY_RESERVE(list->args, list->args_capacity, list->args_size + args_size)) {
        cpu_host->fail(ENGINE_ERROR_MEMORY, "out of memory (list of operations)");
        return NULL;
    }
    struct list_step *step = &list->steps[list->n_steps++];
    step->run = run;
    step->count = NULL;
    step->n_tasks = n_tasks;
    step->args = list->args_size;
    step->barrier = false;
    list->args_size += args_size;
    list->n_before = list->n_accesses;
    return list->args + step->args;
}

void list_count_later(struct list *list, step_count *count)
{
    ENGINE_ASSERT(list->n_steps > 0);
    list->steps[list->n_steps - 1].count = count;
}

void *list_extend(struct list *list, step_function *run, size_t more)
{
    more = round_up(more, 16);
    if (list->n_steps == 0 || list->steps[list->n_steps - 1].run != run ||
        !ARRAY_RESERVE(list->args, list->args_capacity, list->args_size + more))
        return NULL;
    list->args_size += more;
    return list->args + list->steps[list->n_steps - 1].args;
}

void list_set_tasks(struct list *list, size_t n_tasks)
{
    ENGINE_ASSERT(list->n_steps > 0 && !list->steps[list->n_steps - 1].count);
    list->steps[list->n_steps - 1].n_tasks = n_tasks;
}

/* The last step touches a range: does it have to wait for the steps before? */
static void touch(struct list *list, uintptr_t begin, uintptr_t end, bool write)
{
    ENGINE_ASSERT(list->n_steps > 0 && begin <= end);
    struct list_step *step = &list->steps[list->n_steps - 1];
    bool conflict = list->n_accesses == MAX_ACCESSES;
    for (size_t i = 0; i < list->n_before && !conflict; i++) {
        const struct access *earlier = &list->accesses[i];
        conflict = (write || earlier->write) && begin < earlier->end && earlier->begin < end;
    }
    if (conflict) {
        step->barrier = true;
        size_t n_own = list->n_accesses - list->n_before;
        memmove(list->accesses, list->accesses + list->n_before, n_own * sizeof *list->accesses);
        list->n_before = 0;
        list->n_accesses = n_own;
    }
    ENGINE_ASSERT(list->n_accesses < MAX_ACCESSES); /* a step has fewer of its own */
    list->accesses[list->n_accesses++] = (struct access){begin, end, write};
}

void list_reads(struct list *list, const struct view *view)
{
    touch(list, (uintptr_t)view->data, (uintptr_t)view->data + view->bytes, false);
}

static bool overlaps(const struct view *view, uintptr_t begin, uintptr_t end)
{
    return begin < (uintptr_t)view->data + view->bytes && (uintptr_t)view->data < end;
}

void list_writes(struct list *list, const struct view *view)
{
    uintptr_t begin = (uintptr_t)view->data, end = begin + view->bytes;
    touch(list, begin, end, true);
    for (int i = 0; i < N_SLOTS; i++) {
        const struct prepared_key *key = &list->prepared[i].key;
        if (overlaps(&key->input, begin, end) || overlaps(&key->choice, begin, end))
            list->prepared[i].valid = false;
    }
}

void list_reads_slot(struct list *list, enum slot slot)
{
    touch(list, (uintptr_t)slot, (uintptr_t)slot + 1, false);
}

void list_writes_slot(struct list *list, enum slot slot)
{
    touch(list, (uintptr_t)slot, (uintptr_t)slot + 1, true);
    list->prepared[slot].valid = false;
}

void list_reserve_slot(struct list *list, enum slot slot, size_t size)
{
    if (list->slot_sizes[slot] < size) list->slot_sizes[slot] = size;
}

void list_reserve_own(struct list *list, size_t size)
{
    if (list->own_size < size) list->own_size = size;
}

enum slot list_next_input_slot(struct list *list)
{
    list->last_input_slot = list->last_input_slot == SLOT_INPUT_0 ? SLOT_INPUT_1 : SLOT_INPUT_0;
    return list->last_input_slot;
}

static bool same_view(const struct view *a, const struct view *b)
{
    bool same = a->data == b->data && a->type == b->type;
    for (int i = 0; i < 4; i++) same = same && a->ne[i] == b->ne[i] && a->nb[i] == b->nb[i];
    return same;
}

bool list_is_prepared(const struct list *list, enum slot slot, const struct prepared_key *key)
{
    const struct prepared_key *held = &list->prepared[slot].key;
    return list->prepared[slot].valid && held->kind == key->kind && held->n == key->n &&
           held->numbers[0] == key->numbers[0] && held->numbers[1] == key->numbers[1] &&
           held->values == key->values && same_view(&held->input, &key->input) &&
           same_view(&held->choice, &key->choice);
}

void list_set_prepared(struct list *list, enum slot slot, const struct prepared_key *key)
{
    list->prepared[slot].valid = true;
    list->prepared[slot].key = *key;
}

void work_fail(const struct work *work, const char *message)
{
    const char *none = NULL;
    atomic_compare_exchange_strong(&work->list->failed, &none, message);
}

/* Each part of the scratch memory begins at a page, and not at the same place in the cache as others. */
static size_t part_size(size_t size)
{
    return round_up(size, 4096) + 256;
}

/* Counts the tasks of the next phase that has any; its first step becomes list->phase. */
static size_t open_phase(void *context)
{
    struct list *list = context;
    size_t n = 0;
    while (n == 0 && list->next_phase < list->n_steps) {
        list->phase = list->next_phase;
        do {
            struct list_step *step = &list->steps[list->next_phase++];
            n += step->count ? step->count(list->args + step->args) : step->n_tasks;
            step->end = n;
        } while (list->next_phase < list->n_steps && !list->steps[list->next_phase].barrier);
    }
    return n;
}

static void run_task(void *context, unsigned thread, size_t task)
{
    const struct list *list = context;
    const struct list_step *step = &list->steps[list->phase];
    size_t begin = 0;
    for (; task >= step->end; step++) begin = step->end;
    ENGINE_ASSERT(step < list->steps + list->next_phase);
    struct work work = list->work;
    work.own += thread * part_size(list->own_size);
    step->run(list->args + step->args, &work, task - begin);
}

int list_run(struct list *list, struct engine_device *device, const char **message)
{
    size_t scratch = pool_threads(device->pool) * part_size(list->own_size);
    for (int i = 0; i < N_SLOTS; i++) scratch += part_size(list->slot_sizes[i]);
    int status = device_reserve_scratch(device, scratch);
    if (status) {
        *message = "out of memory (scratch memory); use a smaller batch";
        return status;
    }
    struct work work = {.list = list, .kernels = device->kernels, .own = device->scratch};
    for (int i = 0; i < N_SLOTS; i++) {
        work.slots[i] = work.own;
        work.own += part_size(list->slot_sizes[i]);
    }
    ENGINE_ASSERT((size_t)(work.own - work.slots[0]) ==
                  scratch - pool_threads(device->pool) * part_size(list->own_size));
    static const struct pool_work steps = {open_phase, run_task};
    list->work = work;
    list->phase = list->next_phase = 0;
    atomic_store_explicit(&list->failed, NULL, memory_order_relaxed);
    pool_run(device->pool, &steps, list);
    *message = atomic_load_explicit(&list->failed, memory_order_relaxed);
    return *message ? ENGINE_ERROR_ARGUMENT : ENGINE_OK;
}
