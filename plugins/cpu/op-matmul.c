/* op-matmul.c: matrix products. Two steps: the input is brought into the layout and the rounding that the
 * weight's tiles are multiplied with (once for all matmuls of that input), then panels of the weight become
 * tiles and meet it.
 *
 * Tokens lie in sets of at most tile_tokens beside each other (set s: tokens s * tile_tokens …, T of them);
 * k columns. Slot of the prepared input:
 *   TILE_F32    float32 [set][k][T]
 *   TILE_INT8   the arrays of struct int8_activations (kernels.h), one behind the other, each [set]… */
#include <string.h>

#include "activations.h"
#include "kernels.h"
#include "ops.h"
#include "pool.h"

enum {
    PREPARE_COLUMNS = 2048, /* of one task, a multiple of GROUP */
    BLOCK_TOKENS = 96,      /* tokens that meet tiles while these are in a core's caches; whole sets */
    MATRICES = 2,           /* the weight and the gate */
    PANELS = 2              /* most panels that meet the same tokens at once */
};

/* ---- The input ------------------------------------------------------------------------------------- */

struct prepare_step {
    enum tile_kind kind;
    enum slot slot;
    const uint8_t *input;
    size_t input_stride; /* bytes */
    size_t k, n_tokens, tile_tokens;
};

static size_t n_parts(size_t n, size_t part)
{
    return (n + part - 1) / part;
}

/* Bytes of what is stored once for each GROUP. */
static size_t per_group_size(size_t k, size_t n_tokens)
{
    return round_up(k / GROUP * n_tokens * sizeof(float), CPU_ALIGNMENT);
}

/* The parts of a slot that holds int8 activations. */
static struct int8_activations int8_slot(uint8_t *slot, size_t k, size_t n_tokens)
{
    size_t size = per_group_size(k, n_tokens);
    uint8_t *scales = slot + round_up(k * n_tokens, CPU_ALIGNMENT);
    return (struct int8_activations){
        (int8_t *)slot, (void *)scales, {(void *)(scales + size), (void *)(scales + 2 * size)}};
}

static size_t prepared_size(enum tile_kind kind, size_t k, size_t n_tokens)
{
    if (kind == TILE_F32) return k * n_tokens * sizeof(float);
    return round_up(k * n_tokens, CPU_ALIGNMENT) + 4 * per_group_size(k, n_tokens);
}

/* A task: some columns of one set of tokens. */
static void run_prepare(const void *args, const struct work *work, size_t task)
{
    const struct prepare_step *step = args;
    size_t parts = n_parts(step->k, PREPARE_COLUMNS), first = task % parts * PREPARE_COLUMNS;
    size_t n = smaller(PREPARE_COLUMNS, step->k - first);
    size_t token = task / parts * step->tile_tokens;
    size_t n_tokens = smaller(step->tile_tokens, step->n_tokens - token);
    uint8_t *slot = work->slots[step->slot];
    struct int8_activations all = int8_slot(slot, step->k, step->n_tokens);
    float *floats = (float *)(void *)slot + token * step->k + first * n_tokens;
    for (size_t t = 0; t < n_tokens; t++) {
        const float *x =
            (const float *)(const void *)(step->input + (token + t) * step->input_stride) + first;
        if (step->kind == TILE_INT8) {
            struct int8_activations out = int8_at(&all, step->k, first, token, n_tokens);
            out.q += 4 * t, out.scales += t, out.minus[0] += t, out.minus[1] += t;
            work->kernels->quantize(x, n, n_tokens, &out);
        } else {
            for (size_t i = 0; i < n; i++) floats[i * n_tokens + t] = x[i];
        }
    }
}

/* Has the input ready in a slot for tiles of this kind; `used` must not be overwritten. Returns false after
 * host->fail. */
static bool prepare(const struct request *request, struct list *list, enum tile_kind kind,
                    const struct view *input, const enum slot *used, enum slot *slot)
{
    const struct prepared_key key = {.kind = kind, .input = *input};
    for (*slot = SLOT_INPUT_0; *slot <= SLOT_INPUT_1; (*slot)++)
        if (list_is_prepared(list, *slot, &key)) return true;

    *slot = list_next_input_slot(list);
    if (used && *slot == *used) *slot = list_next_input_slot(list);
    const struct kernels *kernels = request->device->kernels;
    size_t tile_tokens = kind == TILE_F32 ? kernels->f32_tile_tokens : kernels->int8_tile_tokens;
    size_t k = input->ne[0], n_tokens = input->ne[1];
    size_t n_tasks = n_parts(k, PREPARE_COLUMNS) * n_parts(n_tokens, tile_tokens);
    struct prepare_step *step = list_add(list, run_prepare, n_tasks, sizeof *step);
    if (!step) return false;
    *step = (struct prepare_step){kind, *slot, input->data, input->nb[1], k, n_tokens, tile_tokens};
    list_reserve_slot(list, *slot, prepared_size(kind, k, n_tokens));
    list_reads(list, input);
    list_writes_slot(list, *slot);
    list_set_prepared(list, *slot, &key);
    return true;
}

/* ---- The product ----------------------------------------------------------------------------------- */

struct matrix {
    const struct weight_type *type;
    const uint8_t *panels;
    size_t panel_size, chunk_size;
    enum slot slot;
    const float *input; /* one token of TILE_F32: the input itself, no slot */
};

struct matmul_step {
    struct matrix matrices[MATRICES]; /* the weight; the gate, its type NULL where there is none */
    size_t k, rows, n_tokens;
    size_t panels_per_task, tokens_per_task;
    const float *bias;
    const uint8_t *residual; /* or NULL */
    uint8_t *output;
    size_t residual_stride, output_stride; /* bytes */
    float scale;
    uint32_t activation;
};

/* A thread's scratch memory. */
struct matmul_scratch {
    struct tile tiles[TILE_CHUNKS * PANELS];
    float *sums[MATRICES][PANELS]; /* [BLOCK_TOKENS][PANEL] each */
};
#define SUMS_SIZE    (BLOCK_TOKENS * PANEL * sizeof(float))
#define TILES_SIZE   (INT8_STORE_SIZE * TILE_CHUNKS * PANELS) /* which has room for one tile of floats, too */
#define SCRATCH_SIZE (SUMS_SIZE * MATRICES * PANELS + TILES_SIZE)
_Static_assert(TILES_SIZE >= TILE_STORE_SIZE, "a tile of floats");

static struct matmul_scratch matmul_scratch(uint8_t *own)
{
    struct matmul_scratch scratch;
    for (int i = 0; i < MATRICES; i++)
        for (int p = 0; p < PANELS; p++, own += SUMS_SIZE) scratch.sums[i][p] = (void *)own;
    for (int i = 0; i < TILE_CHUNKS * PANELS; i++, own += INT8_STORE_SIZE) scratch.tiles[i] = tile_in(own);
    return scratch;
}

/* One token: sums[p][row] = panel `panel` + p x the token. */
static void multiply_token(const struct work *work, const struct matmul_step *step,
                           const struct matrix *matrix, size_t panel, size_t n_panels, struct tile *tile,
                           float *const sums[PANELS])
{
    struct int8_activations all = int8_slot(work->slots[matrix->slot], step->k, 1);
    const float *floats = matrix->input ? matrix->input : (const float *)(void *)work->slots[matrix->slot];
    for (size_t p = 0; p < n_panels; p++)
        work->kernels->token[matrix->type->index](matrix->panels + (panel + p) * matrix->panel_size, step->k,
                                                  &all, floats, tile, sums[p]);
}

/* sums[t][row] = a panel of floats x tokens `token` … token + n_tokens - 1. */
static void multiply_floats(const struct work *work, const struct matmul_step *step,
                            const struct matrix *matrix, size_t panel, size_t token, size_t n_tokens,
                            struct tile *tile, float *sums)
{
    const struct kernels *kernels = work->kernels;
    size_t k = step->k, tile_tokens = kernels->f32_tile_tokens;
    const float *floats = matrix->input ? matrix->input : (const float *)(void *)work->slots[matrix->slot];
    const uint8_t *packed = matrix->panels + panel * matrix->panel_size;
    for (size_t first = 0; first < k; first += CHUNK, packed += matrix->chunk_size) {
        size_t n = smaller(CHUNK, k - first);
        kernels->unpack[matrix->type->index](matrix->type, packed, n, tile);
        for (size_t t = 0; t < n_tokens; t += tile_tokens) {
            size_t n_beside = smaller(tile_tokens, n_tokens - t);
            kernels->f32_tile(tile->x, floats + (token + t) * k + first * n_beside, n, n_beside,
                              sums + t * PANEL);
        }
    }
}

/* The same for int8, and n_panels of them. */
static void multiply_int8(const struct work *work, const struct matmul_step *step,
                          const struct matrix *matrix, size_t panel, size_t n_panels, size_t token,
                          size_t n_tokens, struct tile *tiles, float *const sums[PANELS])
{
    const struct weight_type *type = matrix->type;
    struct int8_activations all = int8_slot(work->slots[matrix->slot], step->k, step->n_tokens);
    struct int8_part part = {int8_at(&all, step->k, 0, token, 0), .k = step->k, .n_tokens = n_tokens};
    const uint8_t *packed = matrix->panels + panel * matrix->panel_size;
    for (; part.first < part.k; part.first += TILE_CHUNKS * CHUNK) {
        part.n = smaller(TILE_CHUNKS * CHUNK, part.k - part.first);
        struct tile *tile = tiles;
        for (size_t i = 0; i < part.n; i += CHUNK, packed += matrix->chunk_size)
            for (size_t p = 0; p < n_panels; p++)
                work->kernels->unpack[type->index](type, packed + p * matrix->panel_size,
                                                   smaller(CHUNK, part.n - i), tile++);
        work->kernels->int8_tiles(tiles, n_panels, type, &part, sums);
    }
}

/* sums[p][t][row] = panel `panel` + p x tokens `token` … token + n_tokens - 1, the first of a set; 1 or 2 panels. */
static void multiply(const struct work *work, const struct matmul_step *step, const struct matrix *matrix,
                     size_t panel, size_t n_panels, size_t token, size_t n_tokens, struct tile *tiles,
                     float *const sums[PANELS])
{
    if (step->n_tokens == 1 && work->kernels->token[matrix->type->index]) {
        multiply_token(work, step, matrix, panel, n_panels, tiles, sums);
        return;
    }
    for (size_t p = 0; p < n_panels; p++) memset(sums[p], 0, n_tokens * PANEL * sizeof *sums[p]);
    if (matrix->type->kind == TILE_F32)
        for (size_t p = 0; p < n_panels; p++)
            multiply_floats(work, step, matrix, panel + p, token, n_tokens, tiles, sums[p]);
    else
        multiply_int8(work, step, matrix, panel, n_panels, token, n_tokens, tiles, sums);
}

/* What comes behind the sums, and the way out. sums, gate: [n_tokens][PANEL] */
static void finish(const struct work *work, const struct matmul_step *step, size_t panel, size_t token,
                   size_t n_tokens, float *sums, const float *gate)
{
    size_t first = panel * PANEL, n_rows = smaller(PANEL, step->rows - first);
    if (gate) work->kernels->activate(step->activation, 0, 0, gate, sums, sums, n_tokens * PANEL);
    if (step->scale != 1)
        for (size_t i = 0; i < n_tokens * PANEL; i++) sums[i] *= step->scale;
    if (step->bias)
        for (size_t t = 0; t < n_tokens; t++)
            for (size_t r = 0; r < n_rows; r++) sums[t * PANEL + r] += step->bias[first + r];
    if (!gate && step->activation != ENGINE_ACTIVATION_NONE)
        work->kernels->activate(step->activation, 0, 0, sums, NULL, sums, n_tokens * PANEL);
    for (size_t t = 0; t < n_tokens; t++, sums += PANEL) {
        float *out = (float *)(void *)(step->output + (token + t) * step->output_stride) + first;
        if (step->residual)
            work->kernels->add(
                sums,
                (const float *)(const void *)(step->residual + (token + t) * step->residual_stride) + first,
                out, n_rows);
        else if (n_rows == PANEL)
            memcpy(out, sums, PANEL * sizeof *out); /* a length that the compiler knows */
        else
            memcpy(out, sums, n_rows * sizeof *out);
    }
}

static size_t panels_at_once(const struct kernels *kernels, const struct weight_type *type)
{
    return type->kind == TILE_INT8 ? kernels->int8_panels_at_once : 1;
}

/* A task: some panels, some tokens. */
static void run_matmul(const void *args, const struct work *work, size_t task)
{
    const struct matmul_step *step = args;
    struct matmul_scratch scratch = matmul_scratch(work->own);
    size_t n_panels = n_parts(step->rows, PANEL), panel_tasks = n_parts(n_panels, step->panels_per_task);
    size_t panel_begin = task % panel_tasks * step->panels_per_task;
    size_t panel_end = smaller(panel_begin + step->panels_per_task, n_panels);
    size_t token_begin = task / panel_tasks * step->tokens_per_task;
    size_t token_end = smaller(token_begin + step->tokens_per_task, step->n_tokens);
    const struct matrix *weight = &step->matrices[0], *gate = &step->matrices[1];
    size_t at_once = panels_at_once(work->kernels, weight->type);
    for (size_t token = token_begin; token < token_end; token += BLOCK_TOKENS) {
        size_t n_tokens = smaller(BLOCK_TOKENS, token_end - token);
        for (size_t panel = panel_begin, n; panel < panel_end; panel += n) {
            n = smaller(at_once, panel_end - panel);
            multiply(work, step, weight, panel, n, token, n_tokens, scratch.tiles, scratch.sums[0]);
            if (gate->type)
                multiply(work, step, gate, panel, n, token, n_tokens, scratch.tiles, scratch.sums[1]);
            for (size_t p = 0; p < n; p++)
                finish(work, step, panel + p, token, n_tokens, scratch.sums[0][p],
                       gate->type ? scratch.sums[1][p] : NULL);
        }
    }
}

/* ---- The operation --------------------------------------------------------------------------------- */

struct matmul_operands {
    struct view input, output, residual;
    const struct engine_weight *weights[MATRICES]; /* weight, gate */
    const float *bias;
};

static int check_matrix(const struct request *request, const struct engine_tensor *tensor, const char *name,
                        size_t k, size_t rows, const struct engine_weight **weight)
{
    int status = weight_check(request, tensor, name, ENGINE_WEIGHT_MATMUL, weight);
    if (status) return status;
    if (tensor->ne[0] != k || tensor->ne[1] != rows || tensor->ne[2] != 1 || tensor->ne[3] != 1)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "matmul: '%s' must be [%zu, %zu]", name, k, rows);
    return ENGINE_OK;
}

static int check(const struct request *request, const struct engine_op_matmul *args,
                 struct matmul_operands *found)
{
    int status = view_check(request, args->input, "input", VIEW_F32, &found->input);
    if (!status) status = view_check(request, args->output, "output", VIEW_F32, &found->output);
    if (status) return status;
    size_t k = found->input.ne[0], n_tokens = found->input.ne[1], rows = found->output.ne[0];
    status = shape_check(request, &found->input, "input", k, n_tokens, 1, 1);
    if (!status) status = shape_check(request, &found->output, "output", rows, n_tokens, 1, 1);
    if (!status) status = check_matrix(request, args->weight, "weight", k, rows, &found->weights[0]);
    if (!status && args->gate)
        status = check_matrix(request, args->gate, "gate", k, rows, &found->weights[1]);
    if (!status && args->residual) {
        status = view_check(request, args->residual, "residual", VIEW_F32, &found->residual);
        if (!status) status = shape_check(request, &found->residual, "residual", rows, n_tokens, 1, 1);
    }
    if (!status) status = values_check(request, args->bias, "bias", rows, &found->bias);
    if (status) return status;
    if (args->gate && (args->bias || (args->scale != 0 && args->scale != 1)))
        return refuse(request, ENGINE_ERROR_ARGUMENT, "matmul: a gate goes with neither bias nor scale");
    if (!activation_is_plain(args->activation))
        return refuse(request, ENGINE_ERROR_UNSUPPORTED,
                      "matmul: activation %u isn't known, or takes numbers", args->activation);
    return ENGINE_OK;
}

/* For many tokens, tasks small enough that all threads end together, large enough that taking them costs nothing; whole
 * sets of the `at_once` panels that meet the same tokens. */
static size_t divide(struct matmul_step *step, unsigned n_threads, size_t at_once)
{
    size_t n_panels = n_parts(step->rows, PANEL), wanted = 4 * (size_t)n_threads;
    if (n_threads == 1)
        step->panels_per_task = n_panels;
    else if (step->n_tokens == 1) /* which reads memory: the longer in one go, the faster */
        step->panels_per_task = smaller(n_parts(n_panels, 2 * (size_t)n_threads), 64);
    else
        step->panels_per_task = smaller(n_parts(n_panels, wanted), 8);
    if (step->n_tokens > 1) step->panels_per_task = round_up(step->panels_per_task, at_once);
    step->tokens_per_task = step->n_tokens;
    size_t panel_tasks = n_parts(n_panels, step->panels_per_task);
    size_t token_blocks = n_parts(step->n_tokens, BLOCK_TOKENS);
    if (panel_tasks < wanted && token_blocks > 1)
        step->tokens_per_task = n_parts(token_blocks, n_parts(wanted, panel_tasks)) * BLOCK_TOKENS;
    return panel_tasks * n_parts(step->n_tokens, step->tokens_per_task);
}

int op_matmul(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_matmul *args = arguments;
    struct matmul_operands found = {0};
    int status = check(request, args, &found);
    if (status || request->planning) return status;

    size_t k = found.input.ne[0], n_tokens = found.input.ne[1], rows = found.output.ne[0];
    struct matmul_step step = {
        .k = k,
        .rows = rows,
        .n_tokens = n_tokens,
        .bias = found.bias,
        .residual = found.residual.data,
        .output = found.output.data,
        .residual_stride = found.residual.nb[1],
        .output_stride = found.output.nb[1],
        .scale = args->scale == 0 ? 1 : args->scale,
        .activation = args->activation,
    };
    bool reads_input = false;
    for (int i = 0; i < MATRICES && found.weights[i]; i++) {
        const struct engine_weight *weight = found.weights[i];
        struct matrix *matrix = &step.matrices[i];
        *matrix = (struct matrix){.type = weight->type,
                                  .panels = weight->packed,
                                  .panel_size = weight_panel_size(weight->type, k),
                                  .chunk_size = weight->type->chunk_size(weight->type, CHUNK),
                                  .slot = SLOT_INPUT_0};
        if (weight->type->kind == TILE_F32 && n_tokens == 1)
            matrix->input = (const float *)(const void *)found.input.data, reads_input = true;
        else if (!prepare(request, list, weight->type->kind, &found.input,
                          i > 0 && !step.matrices[0].input ? &step.matrices[0].slot : NULL, &matrix->slot))
            return ENGINE_ERROR_MEMORY;
    }
    size_t n_tasks = divide(&step, pool_threads(request->device->pool),
                            panels_at_once(request->device->kernels, found.weights[0]->type));
    struct matmul_step *added = list_add(list, run_matmul, n_tasks, sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reserve_own(list, SCRATCH_SIZE);
    if (reads_input) list_reads(list, &found.input);
    for (int i = 0; i < MATRICES && step.matrices[i].type; i++)
        if (!step.matrices[i].input) list_reads_slot(list, step.matrices[i].slot);
    if (found.residual.data) list_reads(list, &found.residual);
    list_writes(list, &found.output);
    return ENGINE_OK;
}
