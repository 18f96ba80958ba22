/* matmul-experts.c: a mixture of experts: which columns meet which matrix, and what the experts of a token gave, mixed;
 * see matmul.h. Which experts tokens chose is known only when the step runs. */
#include <string.h>

#include "matmul.h"

/* ---- Groups ---------------------------------------------------------------------------------------- */

/* What SLOT_EXPERTS holds: the groups of the experts that any token chose, the pairs in the order of their columns. */
struct expert_group {
    uint32_t expert, first, n;
};
struct choice {
    uint32_t *n_groups;
    struct expert_group *groups; /* [columns_most_groups] */
    uint32_t *counts; /* [n_matrices]; while sorting: columns of an expert, then where the next one goes */
    uint32_t *pairs;  /* [n_slots * n_tokens] */
};

static struct choice choice_in(uint8_t *slot, const struct columns *columns)
{
    struct choice choice = {.n_groups = (void *)slot};
    choice.groups = (void *)(choice.n_groups + 1);
    choice.counts = (void *)(choice.groups + columns_most_groups(columns));
    choice.pairs = choice.counts + columns->n_matrices;
    return choice;
}

static size_t choice_size(const struct columns *columns)
{
    size_t n_words = 1 + columns->n_matrices + columns->n_slots * columns->n_tokens;
    return n_words * sizeof(uint32_t) + columns_most_groups(columns) * sizeof(struct expert_group);
}

/* The expert of a slot; if the choice is none that there is, the first one. */
static size_t chosen(const struct columns *columns, const struct work *work, size_t slot, size_t token)
{
    int32_t expert = ((const int32_t *)view_row(&columns->experts, token, 0, 0))[slot];
    if (expert >= 0 && (size_t)expert < columns->n_matrices) return (size_t)expert;
    work_fail(work, "matmul: the number of an expert is out of range");
    return 0;
}

bool columns_group(const struct columns *columns, const struct work *work, size_t i, struct group *group)
{
    if (columns_sorted(columns)) {
        struct choice choice = choice_in(work->slots[SLOT_EXPERTS], columns);
        if (i >= *choice.n_groups) return false;
        const struct expert_group *found = &choice.groups[i];
        *group = (struct group){found->expert, found->first, found->n, .pairs = choice.pairs + found->first};
        return true;
    }
    if (i >= columns->n_slots) return false;
    *group = (struct group){.matrix = i, .first = i * columns->n_tokens, .n = columns->n_tokens, .slot = i};
    if (columns->experts.data) group->matrix = chosen(columns, work, i, 0);
    if (columns_count(columns) == 1) group->first = 0;
    return true;
}

/* One task: a counting sort. */
static void run_sort(const void *args, const struct work *work, size_t task)
{
    (void)task;
    const struct columns *columns = args;
    struct choice choice = choice_in(work->slots[SLOT_EXPERTS], columns);
    memset(choice.counts, 0, columns->n_matrices * sizeof *choice.counts);
    for (size_t t = 0; t < columns->n_tokens; t++)
        for (size_t s = 0; s < columns->n_slots; s++) choice.counts[chosen(columns, work, s, t)]++;
    uint32_t n_groups = 0, first = 0;
    for (size_t e = 0; e < columns->n_matrices; e++) {
        uint32_t n = choice.counts[e];
        if (n > 0) choice.groups[n_groups++] = (struct expert_group){(uint32_t)e, first, n};
        choice.counts[e] = first;
        first += n;
    }
    *choice.n_groups = n_groups;
    uint32_t pair = 0;
    for (size_t t = 0; t < columns->n_tokens; t++)
        for (size_t s = 0; s < columns->n_slots; s++)
            choice.pairs[choice.counts[chosen(columns, work, s, t)]++] = pair++;
}

bool matmul_sort(struct list *list, const struct columns *columns)
{
    const struct prepared_key key = {
        .kind = 0, .n = (uint32_t)columns->n_matrices, .input = columns->experts};
    if (list_is_prepared(list, SLOT_EXPERTS, &key)) return true;
    struct columns *step = list_add(list, run_sort, 1, sizeof *step);
    if (!step) return false;
    *step = *columns;
    list_reserve_slot(list, SLOT_EXPERTS, choice_size(columns));
    list_reads(list, &columns->experts);
    list_writes_slot(list, SLOT_EXPERTS);
    list_set_prepared(list, SLOT_EXPERTS, &key);
    return true;
}

/* ---- Mixing ---------------------------------------------------------------------------------------- */

enum { MIX_ROWS = 1024 /* summed up at once, a multiple of PANEL */ };

struct mix_step {
    struct mixing mixing;
    struct row_tasks tasks; /* over tokens */
};

struct rows matmul_products(const struct work *work, size_t n_slots, size_t n_rows)
{
    size_t stride = round_up(n_rows, PANEL) * sizeof(float);
    return (struct rows){work->slots[SLOT_PRODUCTS], stride, n_slots * stride};
}

size_t matmul_products_size(size_t n_slots, size_t n_tokens, size_t n_rows)
{
    return n_slots * n_tokens * round_up(n_rows, PANEL) * sizeof(float);
}

static void mix_token(const struct mixing *mixing, const struct work *work, size_t token)
{
    struct rows products = matmul_products(work, mixing->n_slots, mixing->n_rows);
    const float *mix = view_row(&mixing->mix, token, 0, 0);
    float *sums = (float *)(void *)work->own, *output = view_row(&mixing->output, 0, token, 0);
    for (size_t first = 0; first < mixing->n_rows; first += MIX_ROWS) {
        size_t n = smaller(MIX_ROWS, mixing->n_rows - first);
        memset(sums, 0, round_up(n, PANEL) * sizeof *sums);
        for (size_t s = 0; s < mixing->n_slots; s++)
            work->kernels->scale_add(sums, 1, row_at(&products, s, token) + first, mix[s],
                                     round_up(n, PANEL));
        if (mixing->residual.data)
            work->kernels->add(sums, (float *)view_row(&mixing->residual, 0, token, 0) + first,
                               output + first, n);
        else
            memcpy(output + first, sums, n * sizeof *sums);
    }
}

/* A task: some tokens. */
static void run_mix(const void *args, const struct work *work, size_t task)
{
    const struct mix_step *step = args;
    size_t end = row_task_end(step->tasks, task);
    for (size_t token = task * step->tasks.rows_per_task; token < end; token++)
        mix_token(&step->mixing, work, token);
}

bool matmul_mix(struct list *list, const struct mixing *mixing)
{
    size_t bytes = matmul_products_size(mixing->n_slots, 1, mixing->n_rows);
    struct row_tasks tasks = row_tasks(mixing->n_tokens, bytes);
    struct mix_step *step = list_add(list, run_mix, row_task_count(tasks), sizeof *step);
    if (!step) return false;
    *step = (struct mix_step){*mixing, tasks};
    list_reserve_own(list, MIX_ROWS * sizeof(float));
    list_reads_slot(list, SLOT_PRODUCTS);
    list_reads(list, &mixing->mix);
    if (mixing->residual.data) list_reads(list, &mixing->residual);
    list_writes(list, &mixing->output);
    return true;
}
