/* op-cache-write.c: new keys and values go into the paged cache, in its type. */
#include "cache.h"
#include "ops.h"

struct cache_write_step {
    struct view input; /* [head_dim, n_kv_heads, tokens] */
    struct view slots;
    struct view cache;
    struct row_tasks tasks;
};

static void run_cache_write(const void *args, const struct work *work, size_t task)
{
    const struct cache_write_step *step = args;
    const int32_t *slots = (const int32_t *)(const void *)step->slots.data;
    size_t block_size = step->cache.ne[1], n_blocks = step->cache.ne[3];
    for (size_t t = task * step->tasks.rows_per_task; t < row_task_end(step->tasks, task); t++) {
        if (slots[t] == -1) continue;
        size_t slot = (size_t)slots[t];
        if (slots[t] < 0 || slot / block_size >= n_blocks) {
            work_fail(work, "cache write: a slot is out of range");
            continue;
        }
        for (size_t h = 0; h < step->input.ne[1]; h++)
            cache_row_from_float(work->kernels, step->cache.type, view_row(&step->input, h, t, 0),
                                 cache_row(&step->cache, slot / block_size, slot % block_size, h),
                                 step->input.ne[0]);
    }
}

int op_cache_write(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_cache_write *args = arguments;
    struct cache_write_step step = {0};
    int status = view_check(request, args->input, "input", VIEW_F32, &step.input);
    if (!status) status = view_check(request, args->slots, "slots", VIEW_I32, &step.slots);
    if (!status) status = view_check(request, args->cache, "cache", CACHE_TYPES, &step.cache);
    if (status || request->planning) return status;
    const size_t *in = step.input.ne;
    step.tasks = row_tasks(in[2], in[0] * in[1] * sizeof(float));
    struct cache_write_step *added =
        list_add(list, run_cache_write, row_task_count(step.tasks), sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reads(list, &step.input);
    list_reads(list, &step.slots);
    list_writes(list, &step.cache);
    return ENGINE_OK;
}
