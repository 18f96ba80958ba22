/* matmul-input.c: brings the input of a matmul into the layout and the rounding that tiles are multiplied
 * with; see matmul.h. A column that several experts meet is rounded once, in a layout of its own
 * (SLOT_TOKENS), and copied to each of its places. */
#include <string.h>

#include "matmul.h"

enum {
    PREPARE_COLUMNS = 512, /* values of a column that a task takes at most, a multiple of GROUP */
    PREPARE_SINGLE = 8     /* columns of a task if they are not interleaved */
};

struct prepare_step {
    enum tile_kind kind;
    enum rounding rounding; /* of TILE_INT8 */
    enum slot slot;
    bool spread; /* the columns are in SLOT_TOKENS, rounded */
    struct columns columns;
    struct rows input;
    size_t k, tile_tokens, sets_per_task;
};

/* ---- Layout ---------------------------------------------------------------------------------------- */

/* Bytes of what is stored once for each GROUP. */
static size_t per_group_size(size_t k, size_t n_columns)
{
    return round_up(k / GROUP * n_columns * sizeof(float), CPU_ALIGNMENT);
}

struct int8_activations int8_slot(uint8_t *slot, size_t k, size_t n_columns)
{
    size_t size = per_group_size(k, n_columns);
    uint8_t *scales = slot + round_up(k * n_columns, CPU_ALIGNMENT);
    return (struct int8_activations){
        (int8_t *)slot, (void *)scales, {(void *)(scales + size), (void *)(scales + 2 * size)}};
}

static size_t prepared_size(enum tile_kind kind, size_t k, size_t n_columns)
{
    if (kind == TILE_F32) return k * n_columns * sizeof(float);
    return round_up(k * n_columns, CPU_ALIGNMENT) + 4 * per_group_size(k, n_columns);
}

/* The largest possible number of sets: for sorted columns the number is known only when the step runs. */
static size_t most_sets(const struct columns *columns, size_t tile_tokens)
{
    size_t n = columns_count(columns);
    if (columns_sorted(columns)) return n / tile_tokens + columns_most_groups(columns);
    return n / columns->n_tokens * n_parts(columns->n_tokens, tile_tokens);
}

/* Set number i; false if there is none. */
static bool find_set(const struct prepare_step *step, const struct work *work, size_t i, struct group *set)
{
    struct group group;
    size_t at = 0, n_tokens = step->columns.n_tokens, tile = step->tile_tokens;
    if (i >= most_sets(&step->columns, tile)) return false;
    if (!columns_sorted(&step->columns)) at = i / n_parts(n_tokens, tile), i %= n_parts(n_tokens, tile);
    if (!columns_group(&step->columns, work, at, &group)) return false;
    for (size_t n_sets; i >= (n_sets = n_parts(group.n, tile)); i -= n_sets)
        if (!columns_group(&step->columns, work, ++at, &group)) return false;
    *set = group_part(&group, i * tile, smaller(tile, group.n - i * tile));
    return true;
}

/* ---- Filling it ------------------------------------------------------------------------------------ */

/* n words of 4 bytes go where every step-th word is theirs. */
static void spread_words(const void *from, size_t n, void *to, size_t step)
{
    const uint32_t *source = from;
    uint32_t *target = to;
    for (size_t i = 0; i < n; i++) target[i * step] = source[i];
}

static void spread(const struct int8_activations *from, size_t n, size_t step,
                   const struct int8_activations *to)
{
    spread_words(from->q, n / 4, to->q, step);
    spread_words(from->scales, n / GROUP, to->scales, step);
    spread_words(from->minus[0], n / GROUP, to->minus[0], step);
    spread_words(from->minus[1], n / GROUP * 2, to->minus[1], step);
}

/* Values first … first + n - 1 of a set of columns. */
static void prepare_set(const struct prepare_step *step, const struct work *work, const struct group *set,
                        size_t first, size_t n)
{
    size_t k = step->k, slot, token;
    uint8_t *memory = work->slots[step->slot];
    struct int8_activations all = int8_slot(memory, k, columns_count(&step->columns));
    struct int8_activations out = int8_at(&all, k, first, set->first, set->n);
    struct int8_activations rounded = int8_slot(work->slots[SLOT_TOKENS], k, step->columns.n_tokens);
    float *floats = (float *)(void *)memory + set->first * k + first * set->n;
    const float *x[TILE_TOKENS];
    for (size_t t = 0; t < set->n; t++) {
        group_row(set, t, &slot, &token);
        x[t] = row_at(&step->input, slot, token) + first;
        if (step->spread) {
            const struct int8_activations from = int8_at(&rounded, k, first, token, 1);
            const struct int8_activations to = {
                out.q + 4 * t, out.scales + t, {out.minus[0] + t, out.minus[1] + t}};
            spread(&from, n, set->n, &to);
        } else if (step->kind == TILE_F32) {
            for (size_t i = 0; i < n; i++) floats[i * set->n + t] = x[t][i];
        }
    }
    if (step->kind == TILE_INT8 && !step->spread) work->kernels->quantize[step->rounding](x, set->n, n, &out);
}

/* A task: some values of some sets. */
static void run_prepare(const void *args, const struct work *work, size_t task)
{
    const struct prepare_step *step = args;
    size_t parts = n_parts(step->k, PREPARE_COLUMNS), first = task % parts * PREPARE_COLUMNS;
    size_t set_begin = task / parts * step->sets_per_task, set_end = set_begin + step->sets_per_task;
    struct group set;
    for (size_t i = set_begin; i < set_end && find_set(step, work, i, &set); i++)
        prepare_set(step, work, &set, first, smaller(PREPARE_COLUMNS, step->k - first));
}

/* ---- Steps ----------------------------------------------------------------------------------------- */

static bool add_step(struct list *list, const struct prepare_step *prepare)
{
    size_t n_sets = most_sets(&prepare->columns, prepare->tile_tokens);
    size_t n_tasks = n_parts(n_sets, prepare->sets_per_task) * n_parts(prepare->k, PREPARE_COLUMNS);
    struct prepare_step *step = list_add(list, run_prepare, n_tasks, sizeof *step);
    if (!step) return false;
    *step = *prepare;
    list_reserve_slot(list, prepare->slot,
                      prepared_size(prepare->kind, prepare->k, columns_count(&prepare->columns)));
    return true;
}

/* Gets the columns of all tokens rounded in SLOT_TOKENS, each separately. */
static bool round_tokens(struct list *list, const struct prepare_step *spread, const struct view *input)
{
    const struct prepared_key key = {
        .kind = TILE_INT8, .n = 1, .numbers = {spread->rounding}, .input = *input};
    if (list_is_prepared(list, SLOT_TOKENS, &key)) return true;
    struct prepare_step step = {
        .kind = TILE_INT8,
        .rounding = spread->rounding,
        .slot = SLOT_TOKENS,
        .columns = {.n_matrices = 1, .n_slots = 1, .n_tokens = spread->columns.n_tokens},
        .input = spread->input,
        .k = spread->k,
        .tile_tokens = 1,
        .sets_per_task = PREPARE_SINGLE};
    if (!add_step(list, &step)) return false;
    list_reads(list, input);
    list_writes_slot(list, SLOT_TOKENS);
    list_set_prepared(list, SLOT_TOKENS, &key);
    return true;
}

/* Columns of a set. */
static size_t set_tokens(const struct kernels *kernels, const struct weight_type *type)
{
    const struct format *format = type->format;
    if (type->kind == TILE_F32) return kernels->f32_tile_tokens;
    bool nibbles = format->base == 4 && !format->high && !format->values && !format->mins;
    return nibbles ? kernels->nibble_tile_tokens : kernels->int8_tile_tokens;
}

bool matmul_prepare(const struct request *request, struct list *list, const struct weight_type *type,
                    const struct columns *columns, const struct view *input, const enum slot *used,
                    enum slot *slot)
{
    enum tile_kind kind = type->kind;
    enum rounding rounding = kind == TILE_INT8 ? type->format->rounding : ROUND_FITTED;
    const struct kernels *kernels = request->device->kernels;
    size_t tile_tokens = set_tokens(kernels, type);
    bool sorted = columns_sorted(columns);
    size_t per_token = columns_count(columns) / columns->n_tokens;
    struct prepared_key key = {
        .kind = kind, .n = (uint32_t)per_token, .numbers = {rounding, (double)tile_tokens}, .input = *input};
    if (sorted) key.choice = columns->experts;
    for (*slot = SLOT_INPUT_0; *slot <= SLOT_INPUT_1; (*slot)++)
        if (list_is_prepared(list, *slot, &key)) return true;

    *slot = list_next_input_slot(list);
    if (used && *slot == *used) *slot = list_next_input_slot(list);
    bool one_slot = columns->shared || columns->n_slots == 1;
    struct prepare_step step = {.kind = kind,
                                .rounding = rounding,
                                .slot = *slot,
                                .spread = sorted && columns->shared && kind == TILE_INT8,
                                .columns = *columns,
                                .input = {input->data, one_slot ? 0 : input->nb[1], input->nb[2]},
                                .k = input->ne[0],
                                .tile_tokens = tile_tokens,
                                .sets_per_task = columns->n_tokens == 1 ? PREPARE_SINGLE : 1};
    if (step.spread && !round_tokens(list, &step, input)) return false;
    if (!add_step(list, &step)) return false;
    if (sorted) list_reads_slot(list, SLOT_EXPERTS);
    if (step.spread)
        list_reads_slot(list, SLOT_TOKENS);
    else
        list_reads(list, input);
    list_writes_slot(list, *slot);
    list_set_prepared(list, *slot, &key);
    return true;
}
