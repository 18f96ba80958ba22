/* graph.c: creates and destroys graphs, and grows their lists while they are built. See graph.h. */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "graph/build.h"

struct graph *graph_create(const struct model *model, struct derived *derived,
                           const struct graph_shape *shape)
{
    struct graph *graph = calloc(1, sizeof *graph);
    if (!graph) {
        error_memory("graph");
        return NULL;
    }
    graph->model = model;
    graph->derived = derived;
    graph->shape = *shape;
    graph->layer = NO_LAYER;
    return graph;
}

void graph_destroy(struct graph *graph)
{
    if (!graph) return;
    for (size_t i = 0; i < graph->n_values; i++) free(graph->values[i]);
    free(graph->values);
    free(graph->nodes);
    free(graph->weights);
    free(graph->caches);
    free(graph->watches);
    free(graph);
}

void graph_fail(struct graph *graph, const char *format, ...)
{
    char message[256], layer[32] = "";
    va_list args;
    if (graph->status) return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (graph->layer != NO_LAYER) snprintf(layer, sizeof layer, " layer %u:", graph->layer);
    graph->status = error_raise(ENGINE_ERROR_DATA, "%s:%s %s", model_path(graph->model), layer, message);
}

bool graph_grow(struct graph *graph, void **array, size_t count, size_t size)
{
    if (graph->status) return false;
    if (count & (count - 1)) return true;
    void *grown = realloc(*array, (count ? 2 * count : 1) * size);
    if (!grown) {
        graph->status = error_memory("graph");
        return false;
    }
    *array = grown;
    return true;
}
