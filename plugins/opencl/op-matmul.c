/* op-matmul.c: matmul, of one matrix, or of several (a mixture of experts, one for each head). Scratch memory
 * holds the data that kernels pass on:
 *
 *   the tiles of the input: 32 values for each chunk and column, followed, if these are bytes, by 16 bytes
 *     about each
 *   the table of tiles, if columns are sorted by matrix (kernels/experts.cl)
 *   the products of a token's experts, before they are mixed
 *
 * With several matrices a column is a token and a slot (of a chosen expert, of a head). Few columns are
 * multiplied one by one; many are sorted first, so that a matrix is read once for a whole tile.
 *
 * Work-groups for up to MAX_FEW columns divide k among SHARES work-items for each row and read columns from
 * the caches; the more columns there are, the more rows share them. Those for more columns pass them through
 * local memory, and a work-item walks through all of k. These walk too slowly for few columns: a matrix of
 * 4096 rows has only 32 of them. */
#include <stdio.h>

#include "builder.h"

#define CHUNK      32
#define SHARES     16u /* work-items that share out a long sum, where few columns are multiplied */
#define GROUP_ROWS 128
#define MAX_FEW    16 /* of a tile, except that integers in vectors take twice as many */
#define SMALL_TILE 8  /* columns, where matrices have few */

/* How a matmul is cut up. */
struct matmul_form {
    uint32_t type; /* of the weight */
    bool integers;
    bool is_sorted;         /* columns by matrix */
    uint32_t tokens;        /* columns of a tile */
    uint32_t rows;          /* of a work-group for few columns; 0: other kernels */
    uint64_t n_slots;       /* of the output; 1 for one matrix */
    uint64_t n_columns;     /* slots of all tokens */
    uint64_t input_slots;   /* of the input: 1 where a column of it serves all slots */
    uint64_t n_tiles;       /* of columns of the output, */
    uint64_t n_places;      /* and columns that are put into tiles */
    uint64_t n_chunks;      /* of 32 values of a column */
    uint64_t about;         /* where these parts of scratch memory begin, in bytes */
    uint64_t tiles, places; /* the table's: tiles, and columns */
    uint64_t counts;
    uint64_t products;
    uint64_t size; /* of them all */
};

static bool is_plain(uint32_t type)
{
    return type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_F16 || type == ENGINE_TYPE_BF16;
}

/* Matrices with which rounded inputs save nothing worth their error; the CPU plugin takes the same ones. */
static bool is_small(const struct gpu_view *weight)
{
    enum { MAX_COLUMNS = 256, MAX_VALUES = 1 << 18 };
    return weight->ne[0] <= MAX_COLUMNS && weight->ne[1] * weight->ne[2] <= MAX_VALUES / weight->ne[0];
}

/* Takes `size` bytes of scratch memory. Returns where they begin. */
static uint64_t take(struct matmul_form *form, uint64_t size)
{
    uint64_t begin = form->size;
    form->size += (size + 63) / 64 * 64;
    return begin;
}

/* A power of two: at least n, if `most` is. */
static uint32_t rounded_up(uint64_t n, uint32_t most)
{
    uint32_t power = 1;
    while (power < n && power < most) power *= 2;
    return power;
}

/* Rows of a work-group for few columns. Groups should not be fewer than a large GPU has processors. */
static uint32_t few_rows(const struct engine_device *device, uint32_t tokens, uint64_t n_panels)
{
    enum { LEAST = 8, PROCESSORS = 128 };
    uint32_t rows = LEAST;
    while (rows < device->few_rows && rows < 4 * tokens &&
           n_panels * PANEL_ROWS / (UINT64_C(2) * rows) >= PROCESSORS)
        rows *= 2;
    return rows;
}

/* Tiles that columns fill, or that have room for twice the columns that experts have on average. Kernels for
 * vectors compute only the columns that exist, so tiles of integers are large if there are two or more.
 * n_matrices: 0 if there is one for all columns; n_panels: of all. */
static void choose_tiles(const struct engine_device *device, uint64_t n_matrices, uint64_t n_panels,
                         struct matmul_form *form)
{
    uint32_t most = device->vectors && form->integers ? 2 * MAX_FEW : MAX_FEW;
    uint64_t each = n_matrices > 0 ? form->n_columns / n_matrices : form->n_columns;
    uint64_t room = n_matrices > 0 ? 2 * each : each;
    form->is_sorted = n_matrices > 0 && each >= 2;
    if (each <= 1)
        form->tokens = 1;
    else if (device->vectors && form->is_sorted)
        form->tokens = room < most ? SMALL_TILE : most;
    else if (device->vectors && form->integers)
        form->tokens = most;
    else
        form->tokens = rounded_up(room, most);
    if (!device->vectors && (form->tokens == 1 || room <= MAX_FEW))
        form->rows = few_rows(device, form->tokens, n_panels);
    form->n_tiles = (form->n_columns + form->tokens - 1) / form->tokens;
    if (form->is_sorted) form->n_tiles = form->n_columns / form->tokens + n_matrices;
    form->n_places = form->n_tiles * form->tokens;
    if (n_matrices > 0 && !form->is_sorted)
        form->n_places = form->n_columns / form->n_slots * form->input_slots;
}

static struct matmul_form matmul_form(const struct engine_device *device, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[OPERAND(matmul, input)],
                          *weight = &v[OPERAND(matmul, weight)];
    bool one = call->matrices == OP_ONE_MATRIX;
    struct matmul_form form = {.type = weight->type, .n_slots = 1, .input_slots = 1};
    form.integers = device->integers && !is_plain(form.type) && (device->small_integers || !is_small(weight));
    form.n_chunks = (input->ne[0] + CHUNK - 1) / CHUNK;
    if (!one) {
        form.n_slots =
            call->matrices == OP_MATRIX_PER_HEAD ? weight->ne[2] : v[OPERAND(matmul, experts)].ne[0];
        form.input_slots = input->ne[1];
    }
    form.n_columns = one ? input->ne[1] : form.n_slots * input->ne[2];
    uint64_t n_panels = (weight->ne[1] + PANEL_ROWS - 1) / PANEL_ROWS * weight->ne[2];
    choose_tiles(device, one ? 0 : weight->ne[2], n_panels, &form);
    uint64_t chunks = form.n_places * form.n_chunks;
    take(&form, chunks * CHUNK * (form.integers ? 1 : sizeof(float)));
    form.about = take(&form, form.integers ? chunks * 16 : 0);
    form.tiles = take(&form, form.is_sorted ? form.n_tiles * 8 : 0);
    form.places = take(&form, form.is_sorted ? form.n_places * 4 : 0);
    form.counts = take(&form, form.is_sorted ? weight->ne[2] * 4 : 0);
    form.products =
        take(&form, v[OPERAND(matmul, mix)].present ? form.n_columns * weight->ne[1] * sizeof(float) : 0);
    return form;
}

uint64_t matmul_memory(const struct engine_device *device, const struct gpu_call *call)
{
    return matmul_form(device, call).size;
}

/* ---- What comes before the products -------------------------------------------------------------------- */

/* Makes the table of tiles. */
static int sort_columns(const struct builder *builder, const struct gpu_call *call,
                        const struct matmul_form *form)
{
    struct builder sort = another(builder);
    const struct gpu_view *experts = &call->views[OPERAND(matmul, experts)];
    struct {
        uint32_t n_columns, n_slots;
        uint32_t n_matrices, n_tiles, tile;
        uint32_t has_ids, ids_offset, ids_stride;
        uint32_t tiles_offset, columns_offset, counts_offset;
    } p = {.n_columns = (uint32_t)form->n_columns,
           .n_slots = (uint32_t)form->n_slots,
           .n_matrices = (uint32_t)call->views[OPERAND(matmul, weight)].ne[2],
           .n_tiles = (uint32_t)form->n_tiles,
           .tile = form->tokens,
           .has_ids = experts->present,
           .ids_stride = experts->present ? stride(experts, 1) : 0,
           .tiles_offset = (uint32_t)(form->tiles / 4),
           .columns_offset = (uint32_t)(form->places / 4),
           .counts_offset = (uint32_t)(form->counts / 4)};
    p.ids_offset = experts->present ? add_view(&sort, experts) : add_memory(&sort, NULL);
    add_scratch(&sort, form->size);
    set_parameters(&sort, &p, sizeof p);
    set_size(&sort, 1, 1, 1, builder->device->vectors ? 1 : GROUP, 1);
    int status = get_group_kernel(&sort, SOURCE_EXPERTS, "sort_columns");
    return status ? status : finish(&sort);
}

/* Puts the columns into tiles. */
static int tile_inputs(const struct builder *builder, const struct gpu_call *call,
                       const struct matmul_form *form)
{
    const struct gpu_view *input = &call->views[OPERAND(matmul, input)];
    struct builder tiles = another(builder);
    bool one = call->matrices == OP_ONE_MATRIX;
    struct {
        uint32_t k, n_places, n_chunks, tile;
        uint32_t n_slots;
        uint32_t input_offset, stride1, stride2;
        uint32_t about_offset;
        uint32_t is_sorted, columns_offset;
    } p = {.k = (uint32_t)input->ne[0],
           .n_places = (uint32_t)(form->is_sorted ? form->n_places : input->ne[1] * input->ne[2]),
           .n_chunks = (uint32_t)form->n_chunks,
           .tile = form->tokens,
           .n_slots = (uint32_t)(form->is_sorted ? form->n_slots : form->input_slots),
           .stride1 = one ? 0 : stride(input, 1),
           .stride2 = one ? stride(input, 1) : stride(input, 2),
           .about_offset = (uint32_t)(form->about / 16),
           .is_sorted = form->is_sorted,
           .columns_offset = (uint32_t)(form->places / 4)};
    p.input_offset = add_view(&tiles, input);
    add_scratch(&tiles, form->size);
    add_scratch(&tiles, form->size);
    if (form->integers) add_scratch(&tiles, form->size);
    set_parameters(&tiles, &p, sizeof p);
    spread(&tiles, (uint64_t)p.n_chunks * p.n_places);
    int status = get_kernel(&tiles, SOURCE_INPUTS, "", form->integers ? "tile_bytes" : "tile_floats",
                            builder->device->vectors ? 1 : GROUP);
    return status ? status : finish(&tiles);
}

/* ---- The sum over a token's experts -------------------------------------------------------------------- */

static int mix(const struct builder *builder, const struct gpu_call *call, const struct matmul_form *form)
{
    struct builder sum = another(builder);
    const struct gpu_view *v = call->views, *weights = &v[OPERAND(matmul, mix)],
                          *output = &v[OPERAND(matmul, output)];
    const struct gpu_view *residual = &v[OPERAND(matmul, residual)];
    struct {
        uint32_t rows, n_tokens, n_slots;
        uint32_t products_offset, mix_offset, mix_stride, residual_offset, residual_stride;
        uint32_t output_offset, output_stride;
        uint32_t has_residual;
    } p = {.rows = (uint32_t)output->ne[0],
           .n_tokens = (uint32_t)output->ne[1],
           .n_slots = (uint32_t)form->n_slots,
           .products_offset = (uint32_t)(form->products / 4),
           .mix_stride = stride(weights, 1),
           .residual_stride = residual->present ? stride(residual, 1) : 0,
           .output_stride = stride(output, 1),
           .has_residual = residual->present};
    add_scratch(&sum, form->size);
    p.mix_offset = add_view(&sum, weights);
    p.residual_offset = residual->present ? add_view(&sum, residual) : add_memory(&sum, NULL);
    p.output_offset = add_view(&sum, output);
    set_parameters(&sum, &p, sizeof p);
    spread(&sum, output->ne[0] * output->ne[1]);
    int status = get_group_kernel(&sum, SOURCE_EXPERTS, "mix_experts");
    return status ? status : finish(&sum);
}

/* ---- The products -------------------------------------------------------------------------------------- */

struct matmul_parameters {
    uint32_t n_chunks, rows, n_columns;
    uint32_t first_panel, n_panels, matrix_panels;
    uint32_t output_offset, stride1, stride2;
    uint32_t residual_offset, residual_stride;
    uint32_t about_offset;
    uint32_t n_slots, n_shared;
    uint32_t ids_offset, ids_stride;
    uint32_t tiles_offset, columns_offset;
    uint32_t has_gate, has_bias, has_residual, has_ids, activation;
    float scale;
};

static int get_form(struct builder *builder, const struct gpu_call *call, const struct matmul_form *form)
{
    char options[160], rows[48] = "";
    const struct gpu_view *gate = &call->views[OPERAND(matmul, gate)];
    size_t group = builder->device->vectors ? 1 : form->rows > 0 ? form->rows * SHARES : GROUP_ROWS;
    int length = form->rows > 0 ? snprintf(rows, sizeof rows, " -DROWS=%u", form->rows) : 0;
    if (!builder->device->vectors)
        snprintf(rows + length, sizeof rows - (size_t)length, " -DGATED=%d -DKIND=%u", gate->present,
                 call->args.matmul.activation);
    snprintf(options, sizeof options, "-DTYPE=%u -DTOKENS=%u%s%s %s", form->type, form->tokens, rows,
             call->matrices == OP_ONE_MATRIX ? "" : " -DMATRICES",
             form->integers ? "-DINTEGERS -DINPUT=int -DINPUT_WORDS=8" : "-DINPUT=float -DINPUT_WORDS=32");
    return get_kernel(builder, SOURCE_MATMUL, options, "matmul", group);
}

/* Work-groups for few columns have fewer rows from then on if a kernel's turn out to be too large. */
static int get_matmul(struct builder *builder, const struct gpu_call *call, struct matmul_form *form)
{
    struct engine_device *device = builder->device;
    int status = get_form(builder, call, form);
    for (; status && device->groups_are_too_large && form->rows > 8; status = get_form(builder, call, form)) {
        device->groups_are_too_large = false;
        device->few_rows = form->rows /= 2;
    }
    return status;
}

/* Where products go: the output, or scratch memory until they are mixed. */
static void set_output(const struct gpu_call *call, const struct matmul_form *form,
                       struct matmul_parameters *p)
{
    const struct gpu_view *output = &call->views[OPERAND(matmul, output)];
    if (call->views[OPERAND(matmul, mix)].present) {
        p->output_offset = (uint32_t)(form->products / 4);
        p->stride1 = p->rows;
        p->stride2 = p->rows * p->n_slots;
        return;
    }
    p->output_offset = (uint32_t)(output->offset / 4);
    p->stride1 = stride(output, 1);
    p->stride2 = call->matrices == OP_ONE_MATRIX ? p->stride1 : stride(output, 2);
}

static void size_matmul(struct builder *builder, const struct matmul_form *form, uint64_t panels)
{
    size_t tiles = (size_t)form->n_tiles;
    if (builder->device->vectors)
        set_size(builder, 2, tiles, (size_t)panels, 1, 1);
    else if (form->rows > 0)
        set_size(builder, 2, (size_t)panels * (PANEL_ROWS / form->rows), tiles, (size_t)form->rows * SHARES,
                 1);
    else
        set_size(builder, 2, (size_t)(panels * PANEL_ROWS + GROUP_ROWS - 1) / GROUP_ROWS, tiles, GROUP_ROWS,
                 1);
}

static int multiply_part(struct builder *builder, const struct gpu_call *call, const struct matmul_form *form,
                         uint32_t number, struct matmul_parameters *p)
{
    const struct gpu_view *v = call->views, *residual = &v[OPERAND(matmul, residual)],
                          *bias = &v[OPERAND(matmul, bias)];
    const struct gpu_view *experts = &v[OPERAND(matmul, experts)];
    const struct engine_weight *gate = v[OPERAND(matmul, gate)].weight;
    const struct weight_part *part = &v[OPERAND(matmul, weight)].weight->parts[number];
    builder->launch.n_memories = 0;
    builder->launch.scratch = 0;
    add_memory(builder, part->memory);
    add_memory(builder, gate ? gate->parts[number].memory : NULL);
    add_scratch(builder, form->size);
    add_scratch(builder, form->size);
    add_values(builder, bias);
    add_memory(builder, p->has_residual ? residual->buffer->memory : NULL);
    if (v[OPERAND(matmul, mix)].present)
        add_scratch(builder, form->size);
    else
        add_memory(builder, v[OPERAND(matmul, output)].buffer->memory);
    if (form->is_sorted)
        add_scratch(builder, form->size);
    else
        add_memory(builder, experts->present ? experts->buffer->memory : NULL);
    p->first_panel = (uint32_t)part->first_panel;
    p->n_panels = (uint32_t)part->n_panels;
    set_parameters(builder, p, sizeof *p);
    size_matmul(builder, form, call->matrices == OP_ONE_MATRIX ? part->n_panels : (uint64_t)p->matrix_panels);
    return finish(builder);
}

int matmul(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *residual = &v[OPERAND(matmul, residual)];
    const struct gpu_view *experts = &v[OPERAND(matmul, experts)];
    const struct engine_weight *weight = v[OPERAND(matmul, weight)].weight;
    bool is_mixed = v[OPERAND(matmul, mix)].present;
    struct matmul_form form = matmul_form(builder->device, call);
    struct matmul_parameters p = {.n_chunks = (uint32_t)form.n_chunks,
                                  .rows = (uint32_t)weight->base.ne[1],
                                  .n_columns = (uint32_t)form.n_columns,
                                  .matrix_panels =
                                      (uint32_t)((weight->base.ne[1] + PANEL_ROWS - 1) / PANEL_ROWS),
                                  .residual_offset = (uint32_t)(residual->offset / 4),
                                  .residual_stride = residual->present ? stride(residual, 1) : 0,
                                  .about_offset = (uint32_t)(form.about / 16),
                                  .n_slots = (uint32_t)form.n_slots,
                                  .n_shared = (uint32_t)(form.n_slots / form.input_slots),
                                  .ids_offset = (uint32_t)(experts->offset / 4),
                                  .ids_stride = experts->present ? stride(experts, 1) : 0,
                                  .tiles_offset = (uint32_t)(form.tiles / 4),
                                  .columns_offset = (uint32_t)(form.places / 4),
                                  .has_gate = v[OPERAND(matmul, gate)].present,
                                  .has_bias = v[OPERAND(matmul, bias)].present,
                                  .has_residual = residual->present && !is_mixed,
                                  .has_ids = experts->present,
                                  .activation = call->args.matmul.activation,
                                  .scale = call->args.matmul.scale == 0 ? 1 : call->args.matmul.scale};
    if (form.n_columns > UINT32_MAX / 2 || form.size / 4 > UINT32_MAX)
        return opencl_host->fail(ENGINE_ERROR_UNSUPPORTED, "matmul: too many columns");
    set_output(call, &form, &p);
    int status = get_matmul(builder, call, &form);
    if (!status && form.is_sorted) status = sort_columns(builder, call, &form);
    if (!status) status = tile_inputs(builder, call, &form);
    for (uint32_t i = 0; i < weight->n_parts && !status; i++)
        status = multiply_part(builder, call, &form, i, &p);
    return status || !is_mixed ? status : mix(builder, call, &form);
}
