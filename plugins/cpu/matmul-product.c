/* matmul-product.c: multiplies panels of matrices with the prepared columns of their groups, finishes the
 * sums and writes them out; see matmul.h. Tasks are ranges of panels, counted through all groups, so that a
 * thread reads long runs of memory even if matrices are small. */
#include <string.h>

#include "matmul.h"
#include "pool.h"

enum {
    BLOCK_TOKENS = 96, /* columns that meet tiles while these are in a core's caches; whole sets */
    PANELS = 2,        /* most panels that meet the same columns at once */
    PANELS_IN_TURN =
        16, /* of a few columns: panels of the matrix, then as many of the gate, each from memory in order */
    FEW_PANELS = 64, /* most panels of a task: for few columns, for BLOCK_TOKENS */
    MANY_PANELS = 8,
    SMALL_PARTS = 4 /* of a task, into which the last ones of its size are cut */
};

/* A thread's scratch memory. */
struct matmul_scratch {
    struct tile tiles[TILE_CHUNKS * PANELS];
    float *sums[MATRICES][PANELS_IN_TURN]; /* [columns][PANEL] each, of as many panels as fit */
};
#define SUMS_SIZE    (BLOCK_TOKENS * PANEL * sizeof(float))
#define TILES_SIZE   (INT8_STORE_SIZE * TILE_CHUNKS * PANELS) /* which has room for one tile of floats, too */
#define SCRATCH_SIZE (SUMS_SIZE * MATRICES * PANELS + TILES_SIZE)
_Static_assert(TILES_SIZE >= TILE_STORE_SIZE, "a tile of floats");

/* With room for the sums of n_panels panels, n_panels * n_columns <= PANELS * BLOCK_TOKENS. */
static struct matmul_scratch matmul_scratch(uint8_t *own, size_t n_panels, size_t n_columns)
{
    struct matmul_scratch scratch;
    for (int i = 0; i < MATRICES; i++, own += PANELS * SUMS_SIZE)
        for (size_t p = 0; p < n_panels; p++)
            scratch.sums[i][p] = (float *)(void *)own + p * n_columns * PANEL;
    for (int i = 0; i < TILE_CHUNKS * PANELS; i++, own += INT8_STORE_SIZE) scratch.tiles[i] = tile_in(own);
    return scratch;
}

/* ---- Sums ------------------------------------------------------------------------------------------ */

/* Panel number `panel` of the group's matrix. */
static const uint8_t *panel_at(const struct matrix *matrix, const struct group *group, size_t panel)
{
    return matrix->panels + group->matrix * matrix->matrix_size + panel * matrix->panel_size;
}

/* The group's columns, k floats each. */
static const float *floats_at(const struct work *work, const struct matmul_step *step,
                              const struct matrix *matrix, const struct group *group)
{
    if (matrix->input.data) return row_at(&matrix->input, group->slot, group->token);
    return (const float *)(const void *)work->slots[matrix->slot] + group->first * step->k;
}

static struct int8_activations int8_columns_at(const struct work *work, const struct matmul_step *step,
                                               const struct matrix *matrix, const struct group *group)
{
    struct int8_activations all =
        int8_slot(work->slots[matrix->slot], step->k, columns_count(&step->columns));
    return int8_at(&all, step->k, 0, group->first, 0);
}

/* How many columns `few` takes, 0 if there is none. */
static size_t few_columns(const struct kernels *kernels, const struct weight_type *type)
{
    if (!kernels->few[type->index]) return 0;
    return type->kind == TILE_INT8 ? kernels->int8_few_tokens : 1;
}

/* A few columns: sums[p][t][row] = panel `panel` + p x the columns. */
static void multiply_few(const struct work *work, const struct matmul_step *step, const struct matrix *matrix,
                         const struct group *group, size_t panel, size_t n_panels, struct tile *tile,
                         float *const sums[PANELS_IN_TURN])
{
    struct int8_activations activations = int8_columns_at(work, step, matrix, group);
    const float *floats = floats_at(work, step, matrix, group);
    for (size_t p = 0; p < n_panels; p++)
        work->kernels->few[matrix->type->index](panel_at(matrix, group, panel + p), step->k, &activations,
                                                floats, group->n, tile, sums[p]);
}

/* sums[t][row] += a panel of floats x the group's columns. */
static void multiply_floats(const struct work *work, const struct matmul_step *step,
                            const struct matrix *matrix, const struct group *group, size_t panel,
                            struct tile *tile, float *sums)
{
    const struct kernels *kernels = work->kernels;
    size_t k = step->k, tile_tokens = kernels->f32_tile_tokens;
    const float *floats = floats_at(work, step, matrix, group);
    const uint8_t *packed = panel_at(matrix, group, panel);
    for (size_t first = 0; first < k; first += CHUNK, packed += matrix->chunk_size) {
        size_t n = smaller(CHUNK, k - first);
        kernels->unpack[matrix->type->index](matrix->type, packed, n, tile);
        for (size_t t = 0; t < group->n; t += tile_tokens) {
            size_t n_beside = smaller(tile_tokens, group->n - t), run = matrix->type->run;
            for (size_t i = 0; i < n; i += run)
                kernels->f32_tile(tile->x + i * PANEL, floats + t * k + (first + i) * n_beside,
                                  smaller(run, n - i), n_beside, sums + t * PANEL);
        }
    }
}

/* The same for int8, and n_panels of them. */
static void multiply_int8(const struct work *work, const struct matmul_step *step,
                          const struct matrix *matrix, const struct group *group, size_t panel,
                          size_t n_panels, struct tile *tiles, float *const sums[PANELS])
{
    const struct weight_type *type = matrix->type;
    struct int8_part part = {int8_columns_at(work, step, matrix, group), .k = step->k, .n_tokens = group->n};
    const uint8_t *packed = panel_at(matrix, group, panel);
    for (; part.first < part.k; part.first += TILE_CHUNKS * CHUNK) {
        part.n = smaller(TILE_CHUNKS * CHUNK, part.k - part.first);
        struct tile *tile = tiles;
        for (size_t i = 0; i < part.n; i += CHUNK, packed += matrix->chunk_size)
            for (size_t p = 0; p < n_panels; p++, tile++) {
                const uint8_t *chunk = packed + p * matrix->panel_size;
                size_t n = smaller(CHUNK, part.n - i);
                work->kernels->unpack[type->index](type, chunk, n, tile);
                tile->ahead = chunk + TILE_CHUNKS * matrix->chunk_size;
                /* The next panel follows the end of this one; with two panels it is in the caches. */
                if (part.first + i + TILE_CHUNKS * CHUNK >= part.k)
                    tile->ahead += (n_panels - 1) * matrix->panel_size;
                tile->ahead_lines = n_parts(matrix->chunk_size, CHUNK / GROUP * 64);
            }
        work->kernels->int8_tiles(tiles, n_panels, type, &part, sums);
    }
}

/* sums[p][t][row] = panel `panel` + p x the group's columns, the first of which begins a set; 1 or 2
 * panels, or of a few columns any number. */
static void product_multiply(const struct work *work, const struct matmul_step *step,
                             const struct matrix *matrix, const struct group *group, size_t panel,
                             size_t n_panels, struct tile *tiles, float *const sums[PANELS_IN_TURN])
{
    if (group->n <= few_columns(work->kernels, matrix->type)) {
        multiply_few(work, step, matrix, group, panel, n_panels, tiles, sums);
        return;
    }
    for (size_t p = 0; p < n_panels; p++) memset(sums[p], 0, group->n * PANEL * sizeof *sums[p]);
    if (matrix->type->kind == TILE_F32)
        for (size_t p = 0; p < n_panels; p++)
            multiply_floats(work, step, matrix, group, panel + p, tiles, sums[p]);
    else
        multiply_int8(work, step, matrix, group, panel, n_panels, tiles, sums);
}

/* ---- What follows them ----------------------------------------------------------------------------- */

/* sums, gate: [group->n][PANEL] of a panel. Results to be mixed later stay in place. */
static void product_finish(const struct work *work, const struct matmul_step *step, const struct group *group,
                           size_t panel, float *sums, const float *gate)
{
    size_t first = panel * PANEL, n_rows = smaller(PANEL, step->rows - first), n = group->n * PANEL;
    if (gate) work->kernels->activate(step->activation, NULL, gate, sums, sums, n);
    if (step->scale != 1)
        for (size_t i = 0; i < n; i++) sums[i] *= step->scale;
    if (step->bias) {
        const float *bias = step->bias + group->matrix * step->bias_stride + first;
        for (size_t t = 0; t < group->n; t++)
            for (size_t r = 0; r < n_rows; r++) sums[t * PANEL + r] += bias[r];
    }
    if (!gate && step->activation != ENGINE_ACTIVATION_NONE)
        work->kernels->activate(step->activation, NULL, sums, NULL, sums, n);
    if (step->mixed) return;
    for (size_t t = 0, slot, token; t < group->n; t++, sums += PANEL) {
        group_row(group, t, &slot, &token);
        float *out = row_at(&step->output, slot, token) + first;
        if (step->residual.data)
            work->kernels->add(sums, row_at(&step->residual, slot, token) + first, out, n_rows);
        else if (n_rows == PANEL)
            memcpy(out, sums, PANEL * sizeof *out); /* a length that the compiler knows */
        else
            memcpy(out, sums, n_rows * sizeof *out);
    }
}

/* ---- The step -------------------------------------------------------------------------------------- */

static size_t panels_at_once(const struct kernels *kernels, const struct weight_type *type)
{
    return type->kind == TILE_INT8 ? kernels->int8_panels_at_once : 1;
}

/* Panels of the matrix that come before the gate's. */
static size_t panels_in_turn(const struct work *work, const struct matmul_step *step, size_t n_columns)
{
    const struct weight_type *type = step->matrices[0].type, *gate = step->matrices[1].type;
    if (gate && n_columns <= few_columns(work->kernels, type) &&
        n_columns <= few_columns(work->kernels, gate))
        return smaller(PANELS_IN_TURN, (size_t)PANELS * BLOCK_TOKENS / n_columns);
    return panels_at_once(work->kernels, type);
}

/* The rows of the output are far from each other: fetches where the columns of n panels go. */
static void fetch_outputs(const struct matmul_step *step, const struct group *group, size_t panel, size_t n)
{
    if (step->mixed) return;
    for (size_t t = 0, slot, token; t < group->n; t++) {
        group_row(group, t, &slot, &token);
        for (size_t p = panel; p < panel + n; p++) {
            __builtin_prefetch(row_at(&step->output, slot, token) + p * PANEL, 1);
            if (step->residual.data) __builtin_prefetch(row_at(&step->residual, slot, token) + p * PANEL);
        }
    }
}

/* Panels panel_begin … panel_end - 1 of the group's matrix (and gate) x its columns. */
static void multiply_group(const struct work *work, const struct matmul_step *step, const struct group *group,
                           size_t panel_begin, size_t panel_end)
{
    const struct matrix *weight = &step->matrices[0], *gate = &step->matrices[1];
    size_t at_once = panels_in_turn(work, step, group->n);
    struct matmul_scratch scratch =
        matmul_scratch(work->own, at_once, at_once > PANELS ? group->n : BLOCK_TOKENS);
    for (size_t i = 0; i < group->n; i += BLOCK_TOKENS) {
        struct group block = group_part(group, i, smaller(BLOCK_TOKENS, group->n - i));
        for (size_t panel = panel_begin, n; panel < panel_end; panel += n) {
            n = smaller(at_once, panel_end - panel);
            for (size_t p = 0; step->mixed && p < n; p++)
                scratch.sums[0][p] = product_at(&step->columns, work, &block, panel + p);
            if (at_once <= PANELS) fetch_outputs(step, &block, panel, n);
            product_multiply(work, step, weight, &block, panel, n, scratch.tiles, scratch.sums[0]);
            if (gate->type)
                product_multiply(work, step, gate, &block, panel, n, scratch.tiles, scratch.sums[1]);
            for (size_t p = 0; p < n; p++)
                product_finish(work, step, &block, panel + p, scratch.sums[0][p],
                               gate->type ? scratch.sums[1][p] : NULL);
        }
    }
}

/* How many tasks all panels make. */
static size_t panel_tasks(const struct matmul_step *step)
{
    size_t n = 0;
    for (int i = 0; i < TASK_SIZES; i++) n += step->tasks[i].n;
    return n;
}

/* The panels of task number `task`. */
static void find_panels(const struct matmul_step *step, size_t task, size_t *begin, size_t *end)
{
    const struct matmul_tasks *tasks = step->tasks;
    *begin = 0;
    for (; task >= tasks->n; task -= tasks->n, tasks++) *begin += tasks->n * tasks->panels;
    *begin += task * tasks->panels;
    *end = *begin + tasks->panels;
}

/* A task: some panels, some tokens. */
static void run_matmul(const void *args, const struct work *work, size_t task)
{
    const struct matmul_step *step = args;
    size_t n_panels = n_parts(step->rows, PANEL), n = columns_most_groups(&step->columns) * n_panels;
    size_t n_tasks = panel_tasks(step), first = task / n_tasks * step->tokens_per_task, begin, end;
    find_panels(step, task % n_tasks, &begin, &end);
    end = smaller(end, n);
    struct group group;
    for (size_t panel, n_here; begin < end; begin += n_here) {
        if (!columns_group(&step->columns, work, begin / n_panels, &group)) return;
        group.matrix = group_matrix(&step->columns, work, &group);
        panel = begin % n_panels;
        n_here = smaller(end - begin, n_panels - panel);
        if (first < group.n) {
            struct group part = group_part(&group, first, smaller(step->tokens_per_task, group.n - first));
            multiply_group(work, step, &part, panel, panel + n_here);
        }
    }
}

/* Tasks small enough that all threads end together, but large enough that taking them costs little and memory
 * is not read again: the fewer columns a panel has, the more panels. With many columns, whole sets of the
 * panels that are multiplied at once. */
static size_t product_divide(struct matmul_step *step, unsigned n_threads, const struct kernels *kernels)
{
    const struct weight_type *type = step->matrices[0].type;
    size_t n_tokens = step->columns.n_tokens, n_groups = columns_most_groups(&step->columns);
    size_t n_panels = n_groups * n_parts(step->rows, PANEL);
    size_t n_columns = n_parts(step->columns.n_slots * n_tokens, n_groups); /* that meet a panel */
    bool few = n_columns == 1 || n_columns <= few_columns(kernels, type);
    size_t wanted = (few ? 2 : 4) * (size_t)n_threads;
    size_t most = smaller(n_parts((size_t)MANY_PANELS * BLOCK_TOKENS, n_columns), FEW_PANELS);
    size_t at_once = few ? 1 : panels_at_once(kernels, type);
    size_t panels = n_threads == 1 ? n_panels : smaller(n_parts(n_panels, wanted), most);
    for (int i = 0; i < TASK_SIZES; i++, panels = n_parts(panels, SMALL_PARTS)) {
        panels = round_up(panels, at_once);
        /* The last task of each thread becomes smaller ones. For few columns one more size would cost more,
         * as no task's first weights have been fetched ahead. */
        bool last = i + 1 == TASK_SIZES - few || n_threads == 1;
        size_t n = last ? n_parts(n_panels, panels) : n_panels / panels;
        if (!last) n = n > n_threads ? n - n_threads : 0;
        step->tasks[i] = (struct matmul_tasks){n, panels};
        n_panels -= smaller(n * panels, n_panels);
    }
    step->tokens_per_task = n_tokens;
    size_t n_tasks = panel_tasks(step), token_blocks = n_parts(n_tokens, BLOCK_TOKENS);
    if (n_tasks < wanted && token_blocks > 1 && !columns_sorted(&step->columns))
        step->tokens_per_task = n_parts(token_blocks, n_parts(wanted, n_tasks)) * BLOCK_TOKENS;
    return n_tasks * n_parts(n_tokens, step->tokens_per_task);
}

bool matmul_multiply(const struct request *request, struct list *list, const struct matmul_step *step)
{
    struct matmul_step divided = *step;
    size_t n_tasks = product_divide(&divided, pool_threads(request->device->pool), request->device->kernels);
    struct matmul_step *added = list_add(list, run_matmul, n_tasks, sizeof *added);
    if (!added) return false;
    *added = divided;
    list_reserve_own(list, SCRATCH_SIZE);
    return true;
}
