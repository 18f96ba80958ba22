/* internal.h: shared by the files that build graphs: values.c (lists and operands), nodes.c (nodes),
 * adapters.c (what adapters add). */
#ifndef ENGINE_GRAPH_INTERNAL_H
#define ENGINE_GRAPH_INTERNAL_H

#include "graph/graph.h"

/* Makes room for one more element in one of the graph's arrays (array_grow). False after an error, including
 * an earlier one. */
bool graph_grow(struct graph *graph, void *array, size_t count, size_t size);

/* A dense value of this type and shape; NULL after an error. */
struct value *graph_add_value(struct graph *graph, enum value_kind kind, uint32_t type, const uint64_t ne[4]);

/* A tensor as a weight of the graph. */
struct value *graph_add_weight(struct graph *graph, const struct model_tensor *tensor);

/* What a weight was used for when its result `output` was made. */
struct adapted {
    struct value *weight, *input; /* rows: the input is their numbers */
    bool is_rows;
    const struct routes *routes; /* of experts; else NULL */
    bool mix;
};
/* `output`, plus what the graph's adapters add to it. NULL after an error. */
struct value *graph_adapt(struct graph *graph, const struct adapted *adapted, struct value *output);

#endif
