/* see.c: runs an eye's graph on a piece of a picture. An eye is an encoder whose tokens are patches: its
 * cache holds one piece, and every patch sees all of it, or in some layers the part that it is in. */
#include <stddef.h>
#include <string.h>

#include "arch/sight.h"
#include "base/error.h"
#include "common/assert.h"
#include "context/context.h"

/* Takes the rows that come out. */
struct see_watcher {
    struct watcher watcher; /* first: a watcher is a see_watcher */
    float *features;        /* [n_rows, width] */
    size_t n_rows;
    uint32_t width;
};
_Static_assert(offsetof(struct see_watcher, watcher) == 0, "a watcher is a see_watcher");

static int take_features(const struct watcher *watcher, const struct graph_watch *watch, const float *data)
{
    const struct see_watcher *see = (const struct see_watcher *)(const void *)watcher;
    const uint64_t *ne = watch->value->tensor.ne;
    ENGINE_ASSERT(watch->kind == WATCH_STATES);
    if (ne[0] != see->width || ne[1] < see->n_rows)
        return error_raise(ENGINE_ERROR_DATA, "the eye makes other rows than its family says");
    memcpy(see->features, data, see->n_rows * (size_t)ne[0] * sizeof *data);
    return ENGINE_OK;
}

/* All patches, and behind them what fills the shape. */
static void write_inputs(const struct engine_context *context, const struct sight_piece *piece,
                         const struct shape_key *key)
{
    int32_t *const *inputs = context->inputs;
    const uint32_t n = piece->n_patches;
    for (uint32_t i = 0; i < n; i++) {
        inputs[INPUT_SEQUENCES][i] = 0;
        inputs[INPUT_SLOTS][i] = inputs[INPUT_POSITIONS][i] = (int32_t)i;
        inputs[INPUT_LAST_POSITIONS][i] = (int32_t)n - 1;
        inputs[INPUT_POSITION_ROWS][i] = piece->places ? piece->places[i] : 0;
        for (int a = 0; a < 2; a++) inputs[INPUT_AXES + 1 + a][i] = piece->axes[a] ? piece->axes[a][i] : 0;
        inputs[INPUT_WINDOW_SLOTS][i] = piece->positions ? piece->positions[i] : (int32_t)i;
    }
    memcpy(inputs[INPUT_ROWS], piece->patches, (size_t)n * context->plan->info.row_width * sizeof(float));
    fill_shape(inputs, n, 0, key);
    for (uint32_t i = 0; i < key->n_tokens; i++) {
        if (i >= n) inputs[INPUT_LAST_POSITIONS][i] = -1;
        inputs[INPUT_REACH][i] = i < n ? inputs[INPUT_WINDOW_SLOTS][i] : -1;
        inputs[INPUT_REACH][key->n_tokens + i] = i >= n         ? -1
                                                 : piece->lasts ? piece->lasts[i]
                                                                : (int32_t)n - 1;
    }
    for (uint32_t i = 0; i < key->table_width; i++)
        inputs[INPUT_BLOCK_TABLE][i] = inputs[INPUT_WINDOW_TABLE][i] = (int32_t)i;
}

int context_see(struct engine_context *context, const struct sight_piece *piece, float *features)
{
    const struct engine_plan *plan = context->plan;
    struct see_watcher see = {{take_features, NULL}, features, piece->n_rows, plan->info.n_embd};
    struct prepared *prepared;
    /* Rows are merged from so many patches; the shape holds whole ones. */
    const uint32_t merged = plan->info.n_merged;
    struct shape_key key = {
        .n_tokens = (piece->n_patches + merged - 1) / merged * merged, .n_outputs = 1, .chunk = piece->chunk};
    ENGINE_ASSERT(piece->n_patches > 0 && (uint64_t)merged * piece->n_rows <= piece->n_patches);
    /* How many there are follows from the eye's file and from the picture. */
    if (key.n_tokens > plan->n_batch)
        return error_raise(ENGINE_ERROR_DATA, "a picture of %u patches, of which the eye takes %u at once",
                           piece->n_patches, plan->n_batch);
    key.table_width = plan_table_width(plan, kv_blocks_for(plan->n_context));
    int status = batch_make_rows(context);
    if (status) return status;
    write_inputs(context, piece, &key);
    status = prepared_for(context, &key, &prepared);
    if (status) return status;
    return prepared_run(&context->executor, prepared, (const void *const *)context->inputs, NULL, 0,
                        &see.watcher);
}
