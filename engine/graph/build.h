/* build.h: what the files that build graphs share: graph.c (lists), values.c (what nodes work on), nodes.c (nodes). */
#ifndef ENGINE_GRAPH_BUILD_H
#define ENGINE_GRAPH_BUILD_H

#include "graph/graph.h"

/* Makes room for one more element of an array whose capacity is the power of two that holds its count. False after an
 * error, also an earlier one. */
bool graph_grow(struct graph *graph, void **array, size_t count, size_t size);

/* A dense value of this type and shape; NULL after an error. */
struct value *graph_add_value(struct graph *graph, enum value_kind kind, uint32_t type, const uint64_t ne[4]);

#endif
