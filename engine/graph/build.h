/* build.h: shared by the files that build graphs: graph.c (lists), values.c (operands), nodes.c (nodes). */
#ifndef ENGINE_GRAPH_BUILD_H
#define ENGINE_GRAPH_BUILD_H

#include "graph/graph.h"

/* Makes room for one more element in an array whose capacity is its count rounded up to a power of two. False
 * after an error, including an earlier one. */
bool graph_grow(struct graph *graph, void **array, size_t count, size_t size);

/* A dense value of this type and shape; NULL after an error. */
struct value *graph_add_value(struct graph *graph, enum value_kind kind, uint32_t type, const uint64_t ne[4]);

#endif
