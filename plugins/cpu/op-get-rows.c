/* op-get-rows.c: rows of a weight (the embedding lookup) or of an activation, as float32. */
#include <string.h>

#include "kernels.h"
#include "ops.h"
#include "types.h"

struct get_rows_step {
    struct view source; /* an activation; data NULL where it is a weight */
    const struct engine_weight *weight;
    struct view rows, output;
    size_t n_rows; /* of the source */
};

/* Picks row `row` of a packed weight. */
static void packed_row(const struct engine_weight *weight, const struct work *work, size_t row, float *out)
{
    const struct weight_type *type = weight->packed_type;
    struct tile tile = tile_in(work->own);
    size_t lane = row % PANEL;
    const uint8_t *chunk = weight->packed + row / PANEL * weight_panel_size(type, weight->k);
    for (size_t first = 0; first < weight->k; first += CHUNK, chunk += type->chunk_size(type, CHUNK)) {
        size_t n = smaller(CHUNK, weight->k - first);
        work->kernels->unpack[type->index](type, chunk, n, &tile);
        for (size_t i = 0; i < n && type->kind == TILE_F32; i++) out[first + i] = tile.x[i * PANEL + lane];
        for (size_t i = 0; i < n && type->kind == TILE_INT8; i++) {
            int q = tile_code(&tile, i, lane) - type->format->offset;
            size_t sub = i / type->format->sub * PANEL + lane;
            out[first + i] = (float)q * tile.scales[sub] + (tile.mins ? tile.mins[sub] : 0);
        }
    }
}

/* A task: one row. */
static void run_get_rows(const void *args, const struct work *work, size_t task)
{
    const struct get_rows_step *step = args;
    int32_t row = ((const int32_t *)(const void *)step->rows.data)[task];
    float *out = view_row(&step->output, task, 0, 0);
    size_t n = step->output.ne[0];
    if (row < 0 || (size_t)row >= step->n_rows) {
        work_fail(work, "get rows: a row number is out of range");
        memset(out, 0, n * sizeof *out);
    } else if (!step->weight) {
        memcpy(out, view_row(&step->source, (size_t)row, 0, 0), n * sizeof *out);
    } else if (step->weight->plain) {
        const struct weight_type *type = step->weight->type;
        weight_to_float(type, step->weight->plain + (size_t)row * weight_row_size(type, n), n, out);
    } else {
        packed_row(step->weight, work, (size_t)row, out);
    }
}

int op_get_rows(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_get_rows *args = arguments;
    struct get_rows_step step = {0};
    int status = view_check(request, args->rows, "rows", VIEW_I32, &step.rows);
    if (!status) status = view_check(request, args->output, "output", VIEW_F32, &step.output);
    if (status) return status;
    /* While planning handles are absent: a type that only weights can have is a weight; an F32 source may be
     * either, both are possible. */
    const struct engine_tensor *source = args->source;
    bool is_view = request->planning ? source->type == ENGINE_TYPE_F32 : !source->weight;
    if (is_view)
        status = view_check(request, source, "source", VIEW_F32, &step.source);
    else
        status = weight_check(request, source, "source", ENGINE_WEIGHT_ROWS, &step.weight);
    if (status) return status;
    if (request->planning) return ENGINE_OK;

    step.n_rows = source->ne[1];
    struct get_rows_step *added = list_add(list, run_get_rows, step.rows.ne[0], sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reserve_own(list, TILE_STORE_SIZE);
    list_reads(list, &step.rows);
    if (is_view) list_reads(list, &step.source);
    list_writes(list, &step.output);
    return ENGINE_OK;
}
