/* adapters.c: adds low-rank adapters (adapter/adapter.h) to the results of a graph's weights: after W x the
 * products A x and B (A x) and a sum. The factors are weights of the graph that are placed with W. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "graph/internal.h"
#include "model/types.h"

/* A part of an adapter as it applies to a weight. */
struct change {
    const struct adapter_part *part;
    uint64_t first_row; /* of B, if the weight is only some rows of the part's target */
    uint64_t n_rows;    /* of the target */
};

/* Whether a derived tensor is rows of the matrix that it comes from, not a copy in another form. */
static bool is_within(const struct model_tensor *tensor, const struct model_tensor *whole)
{
    uintptr_t start = (uintptr_t)tensor->data, from = (uintptr_t)whole->data;
    if (whole->ne[2] != 1) return false;
    if (whole->maker) return tensor->maker == whole->maker;
    return whole->data && start >= from && start - from < whole->size;
}

/* Finds what an adapter changes of a weight: of the tensor that it is cut from, if any, or of itself. A tied
 * output matrix has its own name, because a table of rows is not changed as a matrix. */
static bool find_change(const struct adapter *adapter, const struct model_tensor *tensor, bool is_rows,
                        struct change *change)
{
    const char *name = tensor->name;
    const struct model_tensor *whole = tensor->source;
    *change = (struct change){.n_rows = tensor->ne[1]};
    if (!is_rows && strcmp(name, "token_embd.weight") == 0) name = "output.weight";
    if (whole && is_within(tensor, whole)) change->part = adapter_find(adapter, whole->name);
    if (change->part) {
        change->first_row = tensor->first_row - whole->first_row;
        change->n_rows = whole->ne[1];
    } else {
        change->part = adapter_find(adapter, name);
    }
    return change->part && change->part->is_rows == is_rows;
}

/* Whether the factors have the shape of the weight. */
static bool adapters_fits(struct graph *graph, const struct adapter *adapter, const struct change *change,
                          const struct value *weight)
{
    const struct adapter_part *part = change->part;
    const uint64_t *w = weight->tensor.ne, *a = part->a.ne, *b = part->b.ne;
    bool same =
        part->is_rows ? a[1] == w[1] && b[1] == w[0] : a[0] == w[0] && b[1] == change->n_rows && a[2] == w[2];
    if (same) return true;
    uint64_t n_in = part->is_rows ? b[1] : a[0], n_out = part->is_rows ? a[1] : b[1];
    graph->status = error_raise(ENGINE_ERROR_DATA,
                                "%s is an adapter of another model: it changes %s of %" PRIu64 " x %" PRIu64
                                " x %" PRIu64 ", which in %s is %" PRIu64 " x %" PRIu64 " x %" PRIu64,
                                adapter->path, part->target, n_in, n_out, a[2], model_path(graph->model),
                                w[0], change->n_rows, w[2]);
    return false;
}

/* Adds a factor as a weight that is placed with the one that it changes. */
static struct value *add_factor(struct graph *graph, const struct model_tensor *tensor,
                                const struct value *weight)
{
    struct value *factor = graph_add_weight(graph, tensor);
    if (factor) graph->weights[factor->index].changes = weight->index;
    return factor;
}

/* The rows of B for the rows that the weight has. */
static const struct model_tensor *rows_of_b(struct graph *graph, const struct change *change, size_t number,
                                            const struct model_tensor *tensor)
{
    const struct adapter_part *part = change->part;
    char name[160];
    if (part->is_rows || tensor->ne[1] == change->n_rows) return &part->b;
    snprintf(name, sizeof name, "%s.lora_b of adapter %zu", tensor->name, number);
    const struct model_tensor *rows = derived_find(graph->derived, name);
    if (!rows)
        rows = derived_view(graph->derived, &part->b, change->first_row,
                            (uint64_t[3]){part->b.ne[0], tensor->ne[1], 1}, name);
    if (!rows) graph->status = ENGINE_ERROR_MEMORY;
    return rows;
}

/* `output` plus what one adapter adds. */
static struct value *adapters_apply(struct graph *graph, size_t number, const struct adapted *adapted,
                                    const struct change *change, struct value *output)
{
    const struct model_tensor *tensor = graph->weights[adapted->weight->index].tensor;
    float scale = change->part->scale * graph->adapters[number].scale;
    if (!adapters_fits(graph, graph->adapters[number].adapter, change, adapted->weight)) return NULL;
    const struct model_tensor *rows = rows_of_b(graph, change, number, tensor);
    if (!rows) return NULL;
    struct value *a = add_factor(graph, &change->part->a, adapted->weight);
    struct value *b = add_factor(graph, rows, adapted->weight);
    if (scale == 0) return output;
    struct value *low, *added;
    if (adapted->routes) {
        low = graph_matmul_experts(graph, a, NULL, adapted->input, adapted->routes, false);
        added = graph_matmul_experts(graph, b, NULL, low, adapted->routes, adapted->mix);
    } else {
        low = adapted->is_rows ? graph_get_rows(graph, a, adapted->input)
                               : graph_matmul(graph, a, adapted->input);
        added = graph_matmul(graph, b, low);
    }
    return graph_add(graph, output, graph_scale(graph, added, scale));
}

struct value *graph_adapt(struct graph *graph, const struct adapted *adapted, struct value *output)
{
    if (adapted->weight->kind != VALUE_WEIGHT) return output;
    const struct graph_weight *weight = &graph->weights[adapted->weight->index];
    const struct model_tensor *tensor = weight->tensor;
    if (weight->changes != NO_WEIGHT) return output; /* a factor itself */
    for (size_t i = 0; i < graph->n_adapters && output; i++) {
        struct change change;
        if (find_change(graph->adapters[i].adapter, tensor, adapted->is_rows, &change))
            output = adapters_apply(graph, i, adapted, &change, output);
    }
    return output;
}
