/* watch.c: see watch.h. */
#include "context/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static int hand_out(const struct part_watcher *part, const struct engine_watched *value)
{
    int stopped = part->watch->take(part->watch->user, value);
    return stopped ? error_raise(ENGINE_ERROR, "the batch was stopped") : ENGINE_OK;
}

static int take_watched(const struct watcher *watcher, const struct graph_watch *watch, const float *data)
{
    const struct part_watcher *part = (const struct part_watcher *)(const void *)watcher;
    bool lens = watch->kind == WATCH_LENS;
    if (watch->kind == WATCH_STATES) {
        if (!part->states) return ENGINE_OK;
        size_t n_embd = (size_t)watch->value->tensor.ne[0];
        memcpy(part->states + part->first * n_embd, data, part->n_tokens * n_embd * sizeof *data);
        return ENGINE_OK;
    }
    struct engine_watched known = {
        .struct_size = sizeof known,
        .kind = watch->kind,
        .layer = watch->layer,
        .data = data,
        .first = lens ? part->first_wanted : part->first,
    };
    memcpy(known.ne, watch->value->tensor.ne, sizeof known.ne);
    /* without what only fills the shape */
    known.ne[watch->kind == WATCH_ATTENTION ? 2 : 1] = lens ? part->n_wanted : part->n_tokens;
    return lens && part->n_wanted == 0 ? ENGINE_OK : hand_out(part, &known);
}

/* ---- Inputs of products -------------------------------------------------------------------------------- */

/* The tensor of the model that a weight is, or NULL if it is rows of a matrix but not the first: they have the same
 * input. */
static const struct model_tensor *matrix_of(const struct model_tensor *tensor)
{
    const struct model_tensor *whole = tensor->source;
    if (!whole) return tensor;
    bool first = tensor->ne[0] == whole->ne[0] && tensor->ne[2] == whole->ne[2] &&
                 tensor->type == whole->type && tensor->first_row == whole->first_row;
    return first ? whole : NULL;
}

/* Copies the rows of an input that lie apart. */
static int pack(const struct engine_tensor *tensor, uint64_t n_rows, const uint8_t *data, float **packed)
{
    uint64_t row = tensor->ne[0] * sizeof(float);
    uint8_t *to = malloc((size_t)(row * n_rows));
    *packed = (float *)(void *)to;
    if (!to) return error_memory("watched values");
    for (uint64_t i = 0; i < n_rows; i++)
        memcpy(to + i * row, data + i % tensor->ne[1] * tensor->nb[1] + i / tensor->ne[1] * tensor->nb[2],
               (size_t)row);
    return ENGINE_OK;
}

static int take_input(const struct watcher *watcher, const struct graph *graph, const struct node *node,
                      const uint8_t *data, const int32_t *experts)
{
    const struct part_watcher *part = (const struct part_watcher *)(const void *)watcher;
    const struct engine_op_matmul *args = &node->args.matmul;
    const struct engine_tensor *input = args->input, *weights[] = {args->weight, args->gate};
    bool wanted = node->layer == NO_LAYER && graph->logits,
         per_matrix = args->experts || args->weight->ne[2] > 1;
    uint64_t n = wanted ? part->n_wanted : part->n_tokens, n_rows = per_matrix ? input->ne[1] : 1;
    float *packed = NULL;
    if (n == 0) return ENGINE_OK;
    bool dense = input->nb[1] == input->ne[0] * sizeof(float) && input->nb[2] == input->nb[1] * input->ne[1];
    int status = dense ? ENGINE_OK : pack(input, n * n_rows, data, &packed);
    for (size_t i = 0; i < 2 && weights[i] && !status; i++) {
        const struct model_tensor *matrix = matrix_of(graph->weights[value_of(weights[i])->index].tensor);
        const struct engine_watched known = {
            .struct_size = sizeof known,
            .kind = WATCH_INPUTS,
            .layer = node->layer,
            .ne = {input->ne[0], n_rows, n},
            .data = packed ? packed : (const float *)(const void *)data,
            .first = wanted ? part->first_wanted : part->first,
            .weight = matrix ? matrix->name : NULL,
            .n_matrices = weights[i]->ne[2],
            .experts = experts,
            .n_used = experts ? (uint32_t)args->experts->ne[0] : 0,
        };
        if (matrix) status = hand_out(part, &known);
    }
    free(packed);
    return status;
}

void part_watcher_begin(struct part_watcher *part)
{
    part->watcher = (struct watcher){take_watched, take_input};
}
