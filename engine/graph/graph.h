/* graph.h: what a batch computes, as a list of operations over values. Building a graph computes nothing and touches no
 * device. A family of models (arch/) builds it with the functions below; plan/assign.c says which device runs each node;
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
#include "model/derived.h"
#include "model/model.h"

enum value_kind { VALUE_ACTIVATION, VALUE_WEIGHT, VALUE_INPUT, VALUE_CACHE };

/* Inputs: I32 but where another type is named. */
enum graph_input {
    INPUT_TOKENS,        /* [n_tokens] */
    INPUT_POSITIONS,     /* [n_tokens]; -1: only there to fill the shape */
    INPUT_POSITION_ROWS, /* [n_tokens]: rows of learnt positions: the position, or any where that is -1 */
    INPUT_SEQUENCES,     /* [n_tokens] */
    INPUT_SLOTS,         /* [n_tokens] */
    INPUT_BLOCK_TABLE,   /* [table_width, n_sequences] */
    INPUT_OUTPUT_ROWS,   /* [n_outputs]: the tokens whose logits are wanted, ascending */
    INPUT_QUERY_SCALES,  /* F32 [1, n_tokens]: of families whose queries grow with the position */
    INPUT_COUNT
};

struct value {
    struct engine_tensor
        tensor; /* first, so that a node's tensor pointers are value pointers; see value_of */
    enum value_kind kind;
    uint32_t index; /* weight: its number in graph.weights; input: enum graph_input; cache: in graph.caches */
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
    uint32_t layer; /* NO_LAYER for what is before and after the layers */
    uint32_t uses;  /* bits of enum engine_weight_use */
    /* Of the tensor's matrices a token reads so many: fewer than there are for experts. 0: all. */
    uint32_t matrices_read;
};

/* What a layer keeps of each position, declared by the family: keys, values, or what both come from. */
struct graph_cache {
    struct value *value; /* [width, block_size, n_heads, n_blocks] */
    uint32_t layer;
};

struct graph_shape {
    uint32_t n_tokens, n_outputs;
    uint32_t n_sequences, table_width; /* of the block table */
    uint32_t cache_type;               /* enum engine_type */
    uint32_t block_size, n_blocks;     /* of the cache */
    uint32_t n_context;                /* positions that a sequence may have */
};

struct graph {
    struct graph_shape shape;
    const struct model *model;
    struct derived *derived; /* weights that the file doesn't have as they are; not owned */
    struct value **values;
    size_t n_values;
    struct node *nodes;
    size_t n_nodes;
    struct graph_weight *weights;
    size_t n_weights;
    struct graph_cache *caches;
    size_t n_caches;
    struct value *inputs[INPUT_COUNT]; /* NULL: not used by this graph */
    struct value *logits;              /* F32 [n_vocab, n_outputs] */
    uint32_t layer;                    /* of the nodes and weights that are added next */
    int status; /* the first error of a builder function; the message is error_message() */
};

struct graph *graph_create(const struct model *model, struct derived *derived,
                           const struct graph_shape *shape);
void graph_destroy(struct graph *graph);

static inline struct value *value_of(const struct engine_tensor *tensor)
{
    return (struct value *)(uintptr_t)tensor;
}

/* ---- Building ----------------------------------------------------------------------------------------------------
 * Values belong to the graph. After an error (graph->status) functions return NULL and take NULL, so that a family reads
 * like its paper and checks once at the end. Shapes are checked; a message names the tensor, or layer and operation. */

/* Ends building with an error of the model's file: the message begins with its path and the layer. */
void graph_fail(struct graph *graph, const char *format, ...) ENGINE_PRINTF(2, 3);

/* ---- Values (values.c) ---- */

/* A model tensor of exactly this shape, by a printf-like name; an error if it is missing or has another shape. */
struct value *graph_weight(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name, ...)
    ENGINE_PRINTF(4, 5);
/* The same, but NULL without an error if the model has no such tensor. Ask with `if` before it is used. */
struct value *graph_weight_optional(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name, ...)
    ENGINE_PRINTF(4, 5);
/* `n` matrices of [k, rows], one for each expert or head. */
struct value *graph_matrices(struct graph *graph, uint64_t k, uint64_t rows, uint64_t n, const char *name,
                             ...) ENGINE_PRINTF(5, 6);
/* A norm's weight, biases, factors: ne0 x ne1 numbers of a tensor of that many, whatever its dimensions and its type of
 * float, as F32. */
struct value *graph_values(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name, ...)
    ENGINE_PRINTF(4, 5);
struct value *graph_values_optional(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name, ...)
    ENGINE_PRINTF(4, 5);

/* Rows `first` … `first + ne1 - 1` of the model tensor `source`, which has rows of ne0, as a weight called `name`. */
struct value *graph_rows(struct graph *graph, const struct model_tensor *source, uint64_t first, uint64_t ne0,
                         uint64_t ne1, const char *name);
/* Values `first` … `first + n - 1` of the model tensor `source`, in float32, as a weight called `name`. */
struct value *graph_values_part(struct graph *graph, const struct model_tensor *source, uint64_t first,
                                uint64_t n, const char *name);
/* The tensors `parts` of shape [k, rows] as one weight [k, rows, n] called `name`. */
struct value *graph_stack(struct graph *graph, const struct model_tensor *const *parts, uint64_t k,
                          uint64_t rows, uint64_t n, const char *name);
/* n numbers that `fill` works out when the weight of this name is first asked for. */
struct value *graph_numbers(struct graph *graph, uint64_t n, const char *name,
                            void (*fill)(const void *user, float *values, uint64_t n), const void *user);

/* The model's tensor of a printf-like name, or NULL: for families whose files come in several forms. */
const struct model_tensor *graph_find(const struct graph *graph, const char *name, ...) ENGINE_PRINTF(2, 3);

struct value *graph_input(struct graph *graph, enum graph_input input);

/* Declares a cache of this layer: rows of `width` for each of n_heads heads. */
struct value *graph_cache(struct graph *graph, uint64_t width, uint64_t n_heads);

/* A view of a dense value in another shape of as many elements; of rows with gaps, [n, columns] -> [n / k, k, columns]. */
struct value *graph_reshape(struct graph *graph, struct value *value, uint64_t ne0, uint64_t ne1,
                            uint64_t ne2);
/* A view of elements first … first + n - 1 of each row; of a cache too. */
struct value *graph_slice(struct graph *graph, struct value *value, uint64_t first, uint64_t n);

/* ---- Operations (nodes.c) ---- */

struct value *graph_get_rows(struct graph *graph, struct value *source, struct value *rows);
/* The columns of the tokens whose logits are wanted: [n, n_tokens] becomes [n, n_outputs]. */
struct value *graph_wanted(struct graph *graph, struct value *value);

struct value *graph_matmul(struct graph *graph, struct value *weight, struct value *input);
/* Matrix h of the weight meets column h: [k, n, columns] becomes [rows, n, columns]. */
struct value *graph_matmul_heads(struct graph *graph, struct value *weight, struct value *input);

/* Which experts each column goes to, and how much they count. */
struct routes {
    struct value *ids;     /* I32 [n_used, columns] */
    struct value *weights; /* F32 [n_used, columns] */
};
/* The matrices of the chosen experts: input [k, columns] or [k, n_used, columns]; bias [rows, n] or NULL. With `mix`
 * the results are weighed and summed up: [rows, columns], else [rows, n_used, columns]. */
struct value *graph_matmul_experts(struct graph *graph, struct value *weight, struct value *bias,
                                   struct value *input, const struct routes *routes, bool mix);

struct route_options {
    uint32_t n_used;
    uint32_t function; /* enum engine_route_function */
    uint32_t n_groups, n_groups_used, group_score;
    bool normalise;
    float floor, scale;
    struct value *bias; /* or NULL */
};
struct routes graph_route(struct graph *graph, struct value *logits, const struct route_options *options);

/* kind: enum engine_norm_kind; weight and bias may be NULL: ones, none. */
struct value *graph_norm(struct graph *graph, struct value *input, struct value *weight, struct value *bias,
                         uint32_t kind, float epsilon);
/* b: a's shape, one row for all of a's, or one number for each. */
struct value *graph_add(struct graph *graph, struct value *a, struct value *b);
struct value *graph_mul(struct graph *graph, struct value *a, struct value *b);
/* Times a number: by the matmul that makes the value if nothing has read it yet, else by a row of constants. */
struct value *graph_scale(struct graph *graph, struct value *value, float factor);
/* activation(input), times factor unless that is NULL. */
struct value *graph_activate(struct graph *graph, struct value *input, struct value *factor,
                             uint32_t activation);
/* The same for activations that take numbers. */
struct value *graph_activate_limited(struct graph *graph, struct value *input, struct value *factor,
                                     uint32_t activation, float limit, float alpha);
/* Rows of a and b one after the other; b may have one for all heads of a token. */
struct value *graph_concat(struct graph *graph, struct value *a, struct value *b);

struct rope_options {
    uint32_t n_dims, pairs;
    float theta, position_scale, magnitude;
    struct value *factors; /* or NULL */
};
struct value *graph_rope(struct graph *graph, struct value *input, const struct rope_options *options);
void graph_cache_write(struct graph *graph, struct value *cache, struct value *input);

struct attention_options {
    float scale, softcap;
    uint32_t window, chunk;
    struct value *slopes, *sinks; /* or NULL */
};
struct value *graph_attention(struct graph *graph, struct value *q, struct value *k, struct value *v,
                              const struct attention_options *options);

/* ---- Rewriting ---------------------------------------------------------------------------------------------------- */

/* Says whether a node would run on its device with these arguments. */
typedef bool (*fuse_question)(void *user, uint32_t device, uint32_t op, const union op_args *args);

/* Puts nodes together where their device takes the fused form: activation(gate) * up, bias, activation, residual into
 * matmul. Devices of nodes are set before. */
int graph_fuse(struct graph *graph, fuse_question supports, void *user);

#endif
