/* matmul-experts.c: a mixture of experts: assigns columns to matrices and mixes the results of a token's
 * experts; see matmul.h. The tokens' choice of experts is known only when the step runs. */
#include <string.h>

#include "matmul.h"

/* ---- Groups ---------------------------------------------------------------------------------------- */

/* What SLOT_EXPERTS holds: the groups of the experts that any token chose, the pairs in the order of their
 * columns. */
struct expert_group {
    uint32_t expert, first, n;
};
struct choice {
    uint32_t *n_groups;
    struct expert_group *groups; /* [columns_most_groups] */
    uint32_t *counts;   /* [n_matrices]; while sorting: columns of an expert, then where the next one goes */
    struct pair *pairs; /* [column] */
    uint32_t *places;   /* [n_tokens][n_slots]: columns of the pairs */
};

static struct choice choice_in(uint8_t *slot, const struct columns *columns)
{
    struct choice choice = {.n_groups = (void *)slot};
    choice.groups = (void *)(choice.n_groups + 1);
    choice.counts = (void *)(choice.groups + columns_most_groups(columns));
    choice.pairs = (void *)(choice.counts + columns->n_matrices);
    choice.places = (void *)(choice.pairs + columns->n_slots * columns->n_tokens);
    return choice;
}

static size_t choice_size(const struct columns *columns)
{
    size_t n_pairs = columns->n_slots * columns->n_tokens;
    return (1 + columns->n_matrices + n_pairs) * sizeof(uint32_t) + n_pairs * sizeof(struct pair) +
           columns_most_groups(columns) * sizeof(struct expert_group);
}

/* The expert of a slot; the first one if the choice is not a valid expert. */
static size_t chosen(const struct columns *columns, const struct work *work, size_t slot, size_t token)
{
    int32_t expert = ((const int32_t *)view_row(&columns->experts, token, 0, 0))[slot];
    if (expert >= 0 && (size_t)expert < columns->n_matrices) return (size_t)expert;
    work_fail(work, "matmul: an expert id is out of range");
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
    *group = (struct group){.first = i * columns->n_tokens, .n = columns->n_tokens, .slot = i};
    if (columns_count(columns) == 1) group->first = 0;
    return true;
}

size_t group_matrix(const struct columns *columns, const struct work *work, const struct group *group)
{
    if (columns_sorted(columns)) return group->matrix;
    return columns->experts.data ? chosen(columns, work, group->slot, 0) : group->slot;
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
    for (size_t t = 0; t < columns->n_tokens; t++)
        for (size_t s = 0; s < columns->n_slots; s++) {
            uint32_t column = choice.counts[chosen(columns, work, s, t)]++;
            choice.pairs[column] = (struct pair){(uint32_t)s, (uint32_t)t};
            choice.places[t * columns->n_slots + s] = column;
        }
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

enum { MIX_PANELS = 8, MIX_TOKENS = 64 /* of a task */ };

/* A token's rows of a panel: products [column][PANEL], places[s] the column of slot s. */
static void mix_panel(const struct mixing *mixing, const struct work *work, size_t token, size_t panel,
                      const uint32_t *places)
{
    const struct columns *columns = &mixing->columns;
    size_t first = panel * PANEL, n = smaller(PANEL, mixing->n_rows - first);
    const float *products = (const float *)(const void *)work->slots[SLOT_PRODUCTS] +
                            first * columns->n_slots * columns->n_tokens;
    float sums[PANEL], *output = (float *)view_row(&mixing->output, 0, token, 0) + first;
    work->kernels->mix(products, places, view_row(&mixing->mix, token, 0, 0), columns->n_slots, sums);
    if (mixing->residual.data) {
        const float *residual = (const float *)view_row(&mixing->residual, 0, token, 0) + first;
        for (size_t r = 0; r < n; r++) sums[r] += residual[r];
    }
    if (n == PANEL)
        memcpy(output, sums, PANEL * sizeof *sums); /* a length that the compiler knows */
    else
        memcpy(output, sums, n * sizeof *sums);
}

/* A task: some panels, some tokens. */
static void run_mix(const void *args, const struct work *work, size_t task)
{
    const struct mixing *mixing = args;
    const struct columns *columns = &mixing->columns;
    size_t n_panels = n_parts(mixing->n_rows, PANEL), panel_tasks = n_parts(n_panels, MIX_PANELS);
    size_t panel_begin = task % panel_tasks * MIX_PANELS, token_begin = task / panel_tasks * MIX_TOKENS;
    size_t panel_end = smaller(panel_begin + MIX_PANELS, n_panels);
    size_t token_end = smaller(token_begin + MIX_TOKENS, columns->n_tokens);
    uint32_t *places = (uint32_t *)(void *)work->own; /* of one token: slot by slot */
    if (columns_sorted(columns))
        places = choice_in(work->slots[SLOT_EXPERTS], columns).places;
    else
        for (size_t s = 0; s < columns->n_slots; s++) places[s] = (uint32_t)s;
    for (size_t token = token_begin; token < token_end; token++)
        for (size_t panel = panel_begin; panel < panel_end; panel++)
            mix_panel(mixing, work, token, panel, places + token * columns->n_slots);
}

bool matmul_mix(struct list *list, const struct mixing *mixing)
{
    const struct columns *columns = &mixing->columns;
    size_t n_panels = n_parts(mixing->n_rows, PANEL);
    size_t n_tasks = n_parts(n_panels, MIX_PANELS) * n_parts(columns->n_tokens, MIX_TOKENS);
    struct mixing *step = list_add(list, run_mix, n_tasks, sizeof *step);
    if (!step) return false;
    *step = *mixing;
    list_reserve_slot(list, SLOT_PRODUCTS,
                      n_panels * PANEL * columns->n_slots * columns->n_tokens * sizeof(float));
    if (columns_sorted(columns))
        list_reads_slot(list, SLOT_EXPERTS);
    else
        list_reserve_own(list, columns->n_slots * sizeof(uint32_t));
    list_reads_slot(list, SLOT_PRODUCTS);
    list_reads(list, &mixing->mix);
    if (mixing->residual.data) list_reads(list, &mixing->residual);
    list_writes(list, &mixing->output);
    return true;
}
