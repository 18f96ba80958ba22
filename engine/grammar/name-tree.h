/* name-tree.h: the names that may come next in an object, as a tree by their first bytes, so that a text is followed
 * in one place of the grammar however many names there are.
 *
 * Trees never change: adding a name makes a new tree, which shares all but the way to that name. So an object has a
 * tree for each of its places at little cost. */
#ifndef ENGINE_GRAMMAR_NAME_TREE_H
#define ENGINE_GRAMMAR_NAME_TREE_H

#include "grammar/schema.h"

#define NAME_TREE_EMPTY UINT32_MAX

struct name_edge {
    const char *text; /* [length] */
    uint32_t length;
    uint32_t node; /* NAME_TREE_EMPTY: the name ends here */
    uint32_t rule; /* of the node, or of what comes after the name */
};

struct name_node {
    uint32_t first, count; /* edges, whose texts begin with different bytes */
    uint32_t rule;
};

struct name_trees {
    struct schema_reader *reader;
    struct name_node *nodes; /* [n_nodes] */
    size_t n_nodes, node_capacity;
    struct name_edge *edges; /* [n_edges] */
    size_t n_edges, edge_capacity;
};

/* The tree of the names of `tree` and one more: `text`, which lives as long as the trees, is no beginning of another
 * name, nor the other way round; `rule` comes after it. */
uint32_t name_tree_add(struct name_trees *trees, uint32_t tree, const char *text, size_t length,
                       uint32_t rule);
/* What a tree stands for. */
uint32_t name_tree_expr(const struct name_trees *trees, uint32_t tree);
void name_trees_free(struct name_trees *trees);

#endif
