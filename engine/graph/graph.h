/* graph.h: what a batch computes, as a list of operations over values. Building a graph computes nothing and touches no
 * device. A family of models (arch/) builds it with the functions below; plan.c says which device runs each node;
 * schedule.c lays out memory and copies; execute.c runs it.
 *
 * A graph is built for a shape (how many tokens, how many rows of logits, how long the block tables) and run many times:
 * token ids, positions, slots and block tables are input values, filled before each run. */
#ifndef ENGINE_GRAPH_GRAPH_H
#define ENGINE_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/ops.h"
#include "model/model.h"

enum value_kind { VALUE_ACTIVATION, VALUE_WEIGHT, VALUE_INPUT, VALUE_CACHE };

/* Inputs, all I32. */
enum graph_input {
    INPUT_TOKENS,      /* [n_tokens] */
    INPUT_POSITIONS,   /* [n_tokens] */
    INPUT_SEQUENCES,   /* [n_tokens] */
    INPUT_SLOTS,       /* [n_tokens] */
    INPUT_BLOCK_TABLE, /* [table_width, n_sequences] */
    INPUT_OUTPUT_ROWS, /* [n_outputs]: the tokens whose logits are wanted, ascending */
    INPUT_COUNT
};

struct value {
    struct engine_tensor
        tensor; /* first, so that a node's tensor pointers are value pointers; see value_of */
    enum value_kind kind;
    uint32_t
        index; /* weight: its number in graph.weights; input: enum graph_input; cache: 2 * layer + 1 for v */
    struct value *root;   /* whose storage this is a view of; itself if it has storage of its own */
    uint64_t view_offset; /* bytes from the root's start */
    uint32_t id;          /* its number in graph.values */
};

#define NO_LAYER UINT32_MAX

struct node {
    uint32_t op; /* enum engine_op; 0: fused into another node */
    uint32_t layer;
    uint32_t device; /* set by the plan */
    union op_args args;
};

/* A model tensor in one of its roles. A tied embedding stands here twice: as rows and as the output matrix. */
struct graph_weight {
    const struct model_tensor *tensor;
    struct value *value;
    uint32_t layer; /* NO_LAYER for what is before and behind the layers */
    uint32_t uses;  /* bits of enum engine_weight_use */
};

struct graph_shape {
    uint32_t n_tokens, n_outputs;
    uint32_t n_sequences, table_width; /* of the block table */
    uint32_t cache_type;               /* enum engine_type */
    uint32_t block_size, n_blocks;     /* of the cache */
};

struct graph {
    struct graph_shape shape;
    const struct model *model;
    struct value **values;
    size_t n_values;
    struct node *nodes;
    size_t n_nodes;
    struct graph_weight *weights;
    size_t n_weights;
    struct value *inputs[INPUT_COUNT]; /* NULL: not used by this graph */
    struct value *logits;              /* F32 [n_vocab, n_outputs] */
    uint32_t layer;                    /* of the nodes and weights that are added next */
    int status; /* the first error of a builder function; the message is error_message() */
};

struct graph *graph_create(const struct model *model, const struct graph_shape *shape);
void graph_destroy(struct graph *graph);

static inline struct value *value_of(const struct engine_tensor *tensor)
{
    return (struct value *)(uintptr_t)tensor;
}

/* ---- Building ----------------------------------------------------------------------------------------------------
 * Values belong to the graph. After an error (graph->status) functions return NULL and take NULL, so that a family reads
 * like its paper and checks once at the end. Shapes are checked. */

/* A model tensor of exactly this shape, by a printf-like name; an error if it is missing or has another shape. */
struct value *graph_weight(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name, ...)
    ENGINE_PRINTF(4, 5);
/* The same, but NULL without an error if the model has no such tensor. */
struct value *graph_weight_optional(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name, ...)
    ENGINE_PRINTF(4, 5);
/* The same tensor again in another role, with a place of its own: the tied output matrix. */
struct value *graph_weight_again(struct graph *graph, struct value *weight);

struct value *graph_input(struct graph *graph, enum graph_input input);
/* Keys (which = 0) or values (1) of a layer: [head_dim, block_size, n_kv_heads, n_blocks]. */
struct value *graph_cache(struct graph *graph, uint32_t layer, uint32_t which, uint64_t head_dim,
                          uint64_t n_kv_heads);

struct value *graph_reshape(struct graph *graph, struct value *value, uint64_t ne0, uint64_t ne1,
                            uint64_t ne2);

struct value *graph_get_rows(struct graph *graph, struct value *source, struct value *rows);
/* The columns of the tokens whose logits are wanted: [n, n_tokens] becomes [n, n_outputs]. */
struct value *graph_wanted(struct graph *graph, struct value *value);
struct value *graph_matmul(struct graph *graph, struct value *weight, struct value *input);
struct value *graph_norm(struct graph *graph, struct value *input, struct value *weight, float epsilon);
struct value *graph_add(struct graph *graph, struct value *a, struct value *b);
struct value *graph_activate(struct graph *graph, struct value *input, struct value *factor,
                             uint32_t activation);

struct rope_options {
    uint32_t n_dims, pairs;
    float theta, position_scale;
    struct value *factors; /* or NULL */
};
struct value *graph_rope(struct graph *graph, struct value *input, const struct rope_options *options);
void graph_cache_write(struct graph *graph, struct value *cache, struct value *input);
struct value *graph_attention(struct graph *graph, struct value *q, struct value *k, struct value *v,
                              float scale, uint32_t window);

/* ---- Rewriting ---------------------------------------------------------------------------------------------------- */

/* Says whether a node would run on its device with these arguments. */
typedef bool (*fuse_question)(void *user, uint32_t device, uint32_t op, const union op_args *args);

/* Puts nodes together where their device takes the fused form: activation(gate) * up, bias, residual into matmul. Node
 * devices are set before. */
int graph_fuse(struct graph *graph, fuse_question supports, void *user);

#endif
