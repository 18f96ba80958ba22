/* name-tree.c: see name-tree.h. */
#include "grammar/name-tree.h"

#include <stdlib.h>

#include "grammar/reserve.h"

/* A node of edges [count], which may be those of another node; `replaced` (count: none) becomes `edge`, and with none
 * it is one more. */
static uint32_t add_node(struct name_trees *trees, uint32_t first, uint32_t count, uint32_t replaced,
                         struct name_edge edge)
{
    struct exprs *exprs = trees->reader->exprs;
    uint32_t total = count + (replaced == count);
    if (!reserve(&exprs->status, (void **)&trees->edges, &trees->edge_capacity, trees->n_edges + total,
                 sizeof *trees->edges) ||
        !reserve(&exprs->status, (void **)&trees->nodes, &trees->node_capacity, trees->n_nodes + 1,
                 sizeof *trees->nodes) ||
        !schema_spend(trees->reader, total))
        return NAME_TREE_EMPTY;
    struct name_node node = {(uint32_t)trees->n_edges, total, expr_rule_new(exprs, "names")};
    uint32_t list = expr_alt(exprs);
    for (uint32_t i = 0; i < total; i++) {
        struct name_edge one = i == replaced ? edge : trees->edges[first + i];
        trees->edges[trees->n_edges++] = one;
        expr_add(exprs, list,
                 EXPR_SEQ_OF(exprs, expr_literal(exprs, one.text, one.length), expr_rule(exprs, one.rule)));
    }
    expr_define(exprs, node.rule, list);
    trees->nodes[trees->n_nodes] = node;
    return (uint32_t)trees->n_nodes++;
}

uint32_t name_tree_add(struct name_trees *trees, uint32_t tree, const char *text, size_t length,
                       uint32_t rule)
{
    struct name_edge leaf = {text, (uint32_t)length, NAME_TREE_EMPTY, rule};
    if (trees->reader->exprs->status || tree == NAME_TREE_EMPTY) return add_node(trees, 0, 0, 0, leaf);
    struct name_node node = trees->nodes[tree];
    uint32_t at = 0, same = 0;
    while (at < node.count && trees->edges[node.first + at].text[0] != text[0]) at++;
    if (at == node.count) return add_node(trees, node.first, node.count, at, leaf);
    struct name_edge edge = trees->edges[node.first + at];
    while (same < edge.length && same < length && edge.text[same] == text[same]) same++;
    uint32_t below;
    if (same == edge.length) {
        below = name_tree_add(trees, edge.node, text + same, length - same, rule);
    } else {
        struct name_edge rest = {edge.text + same, edge.length - same, edge.node, edge.rule};
        struct name_edge other = {text + same, (uint32_t)length - same, NAME_TREE_EMPTY, rule};
        below = add_node(trees, 0, 0, 0, rest);
        if (below != NAME_TREE_EMPTY) below = add_node(trees, trees->nodes[below].first, 1, 1, other);
    }
    if (below == NAME_TREE_EMPTY) return below;
    return add_node(trees, node.first, node.count, at,
                    (struct name_edge){edge.text, same, below, trees->nodes[below].rule});
}

uint32_t name_tree_expr(const struct name_trees *trees, uint32_t tree)
{
    struct exprs *exprs = trees->reader->exprs;
    if (exprs->status) return 0;
    return tree == NAME_TREE_EMPTY ? expr_never(exprs) : expr_rule(exprs, trees->nodes[tree].rule);
}

void name_trees_free(struct name_trees *trees)
{
    free(trees->nodes);
    free(trees->edges);
}
