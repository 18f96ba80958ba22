/* graph.h: the computation of a batch, as a list of operations over values. Building a graph computes nothing
 * and touches no device. A model family (arch/) builds it with the functions below; plan/assign.c chooses the
 * device of each node; schedule.c lays out memory and copies; execute.c runs it.
 *
 * A graph is built for a shape (number of tokens, rows of logits, width of the block tables) and run many
 * times. Token ids, positions, slots and block tables are input values, written before each run. */
#ifndef ENGINE_GRAPH_GRAPH_H
#define ENGINE_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapter/adapter.h"
#include "common/ops.h"
#include "model/derived.h"
#include "model/model.h"

enum value_kind { VALUE_ACTIVATION, VALUE_WEIGHT, VALUE_INPUT, VALUE_CACHE };

/* Lengths of pooled blocks that a model may have, see arch_info.periods. */
#define GRAPH_PERIODS 2

/* Dimensions of the positions of pictures. */
#define GRAPH_AXES 3

/* What a text with pictures has besides tokens, bits of graph_shape.pictures. */
enum graph_pictures {
    PICTURES_ROWS = 1, /* INPUT_ROWS */
    /* Of models whose positions have dimensions: the positions of text differ from the numbers of its tokens
     * (the first of INPUT_AXES has them); and those of pictures have three dimensions. */
    PICTURES_MOVED = 2,
    PICTURES_AXES = 4,
    PICTURES_SPANS = 8, /* tokens of a picture see each other: INPUT_REACH says how far */
};

/* Inputs: I32 unless another type is given. */
enum graph_input {
    INPUT_TOKENS,        /* [n_tokens] */
    INPUT_POSITIONS,     /* [n_tokens]; -1: only fills the shape */
    INPUT_POSITION_ROWS, /* [n_tokens]: rows of learnt positions: the position, or any row if it is -1 */
    /* [n_tokens]: the last position of the token's sequence, or -1. Attention from there sees the whole
     * text. */
    INPUT_LAST_POSITIONS,
    /* [n_tokens, 2]: the token's position and the last one that it sees: arch_info.n_ahead later, or its
     * text's end */
    INPUT_REACH,
    INPUT_TOKEN_TYPES,  /* [n_tokens]: rows of token_types */
    INPUT_SEQUENCES,    /* [n_tokens] */
    INPUT_SLOTS,        /* [n_tokens] */
    INPUT_BLOCK_TABLE,  /* [table_width, n_sequences] */
    INPUT_WINDOW_SLOTS, /* [n_tokens]: in caches of layers with a window, if these have blocks of their own */
    INPUT_WINDOW_TABLE, /* [table_width, n_sequences]; entries before the window mean nothing */
    INPUT_OUTPUT_ROWS,  /* [n_outputs]: the tokens whose logits are wanted, ascending */
    INPUT_QUERY_SCALES, /* F32 [1, n_tokens]: for families that scale queries by position */
    INPUT_STATES, /* [n_tokens]: the number of the state of the token's sequence; -1: only fills the shape */
    /* Of models with an encoder and a decoder, see graph_shape.encodes: what the encoder leaves of a
     * sequence's text. */
    INPUT_SOURCE_SLOTS, /* [n_tokens]: where it is kept */
    INPUT_SOURCE_TABLE, /* [source_width, n_sequences] */
    INPUT_SOURCE_LAST,  /* [n_tokens]: the last position of the source of the token's sequence, or -1 */
    /* Of caches of pooled rows, see graph_pooled_cache: one input for each of GRAPH_PERIODS. */
    INPUT_POOLED_SLOTS, /* [n_tokens]: where the row of the block that the token ends is kept, or -1 */
    INPUT_POOLED_LAST = INPUT_POOLED_SLOTS + GRAPH_PERIODS, /* [n_tokens]: the last row that it sees, or -1 */
    INPUT_POOLED_STARTS = INPUT_POOLED_LAST + GRAPH_PERIODS, /* [n_tokens]: the first position of its block */
    INPUT_POOLED_TABLE = INPUT_POOLED_STARTS + GRAPH_PERIODS, /* [rows, n_sequences] */
    /* Rows of numbers in the place of tokens: an eye's patches, and in a text what pictures have become. */
    INPUT_ROWS = INPUT_POOLED_TABLE + GRAPH_PERIODS, /* F32 [graph_shape.row_width, n_tokens] */
    INPUT_IS_TOKEN, /* F32 [1, n_tokens]: 1 where the token counts, 0 where the row does */
    /* Positions of three dimensions, one input for each: time, row, column */
    INPUT_AXES, /* [n_tokens] */
    INPUT_COUNT = INPUT_AXES + GRAPH_AXES
};

struct value {
    /* First, so that a node's tensor pointers are value pointers, see value_of. */
    struct engine_tensor tensor;
    enum value_kind kind;
    /* Weight: its index in graph.weights; input: enum graph_input; cache: its index in graph.caches. */
    uint32_t index;
    struct value *root;   /* the value whose storage this views, or itself */
    uint64_t view_offset; /* bytes from the start of the root */
    uint32_t id;          /* its index in graph.values */
};

#define NO_LAYER UINT32_MAX

struct node {
    uint32_t op; /* enum engine_op; 0: fused into another node */
    uint32_t layer;
    uint32_t device; /* set by the plan */
    union op_args args;
};

/* A model tensor in one of its roles. A tied embedding is listed twice: as rows and as the output matrix. */
struct graph_weight {
    const struct model_tensor *tensor;
    struct value *value;
    uint32_t layer; /* NO_LAYER before and after the layers */
    uint32_t uses;  /* bits of enum engine_weight_use */
    /* The number of matrices of the tensor that a token reads: with experts, fewer than there are. 0: all. */
    uint32_t matrices_read;
    /* Of an adapter's factors: the weight that they change; else NO_WEIGHT. They are where it is. */
    uint32_t changes;
};
#define NO_WEIGHT UINT32_MAX

/* An adapter and the scale that it is applied with. With 0 its weights are listed, so that all graphs of a
 * model have the same weights, but no operation uses them. */
struct graph_adapter {
    const struct adapter *adapter;
    float scale;
};

/* Whose positions a cache holds. */
enum graph_pool {
    POOL_SEQUENCES, /* those of sequences as they grow */
    /* The encoder's: of the texts of one batch, F32. Has the block table and slots of POOL_SEQUENCES. */
    POOL_TEXT,
    POOL_SOURCE /* of the texts that the decoder's sequences are about, as long as those exist */
};

/* What a layer stores for each position, declared by the family: keys, values, or what both are computed
 * from. */
struct graph_cache {
    /* [width, block_size, n_heads, n_blocks or n_window_blocks]; states: F32 [.., n_states]. */
    struct value *value;
    uint32_t layer;
    bool windowed;   /* has INPUT_WINDOW_SLOTS and INPUT_WINDOW_TABLE */
    bool is_state;   /* what a sequence keeps at any length, see graph_state */
    uint32_t period; /* of graph.periods: its number plus 1, see graph_pooled_cache; 0: a row is a position */
    enum graph_pool pool;
};

/* Values that a run also hands out; bits. See enum engine_watch in engine.h, whose values these are;
 * WATCH_STATES, the states of all tokens after the final norm, is for engine_batch.states. */
enum watch_kind {
    WATCH_ATTENTION = 1,
    WATCH_HIDDEN = 2,
    WATCH_LENS = 4,
    WATCH_INPUTS = 8, /* of products: not in graph.watches, see schedule.h */
    WATCH_STATES = 1 << 16
};
/* The kinds for which all tokens go through the last layer. */
#define WATCH_ALL_TOKENS (WATCH_HIDDEN | WATCH_STATES | WATCH_INPUTS)

struct graph_watch {
    struct value *value; /* a root: F32, dense */
    uint32_t kind, layer;
};

struct graph_shape {
    uint32_t n_tokens, n_outputs;
    uint32_t n_sequences, table_width; /* of the block table */
    uint32_t cache_type;               /* enum engine_type */
    uint32_t block_size, n_blocks;     /* of the cache */
    uint32_t n_window_blocks; /* of the caches of layers with a window; 0: they are like the others */
    uint32_t n_states;        /* of sequences, and their snapshots */
    uint32_t n_context;       /* positions that a sequence may have */
    /* A model with an encoder and a decoder has two graphs with the same weights and caches. This one is the
     * encoder's: its tokens are whole source texts, and it fills the caches of POOL_SOURCE. */
    bool encodes;
    uint32_t source_width;                   /* of INPUT_SOURCE_TABLE */
    uint32_t n_text_blocks, n_source_blocks; /* of the pools */
    uint32_t watch;                          /* bits of enum watch_kind: the values that a run hands out */
    uint32_t watch_layer, watch_n_layers;    /* the layers whose attention it hands out */
    uint32_t pictures;                       /* bits of enum graph_pictures; 0: there are none */
    uint32_t row_width;                      /* of INPUT_ROWS */
    uint32_t chunk; /* of an eye whose layers see parts of a picture: positions of a part */
};

struct graph {
    struct graph_shape shape;
    const struct model *model;
    struct derived *derived;              /* weights that the file lacks in this form; not owned */
    const struct graph_adapter *adapters; /* [n_adapters]; not owned. Set before anything is built. */
    size_t n_adapters;
    struct value **values;
    size_t n_values;
    struct node *nodes;
    size_t n_nodes;
    struct graph_weight *weights;
    size_t n_weights;
    struct graph_cache *caches;
    size_t n_caches;
    struct graph_watch *watches;
    size_t n_watches;
    struct value *inputs[INPUT_COUNT]; /* NULL: not used by this graph */
    struct value *logits;              /* F32 [n_vocab, n_outputs]; NULL: an encoder's graph */
    uint32_t periods[GRAPH_PERIODS];   /* positions of a pooled row */
    uint32_t layer;                    /* layer of the nodes and weights added next */
    /* Names of tensors in layers begin with this; NULL: with nothing. They count layers from `part_layer`
     * on. */
    const char *part;
    uint32_t part_layer;
    /* Operations are shaped and weights listed, but no nodes added: they are of the model's other graph. */
    bool is_other;
    int status; /* the first error of a builder function; error_message() has the message */
};

struct graph *graph_create(const struct model *model, struct derived *derived,
                           const struct graph_shape *shape);
void graph_destroy(struct graph *graph);

static inline struct value *value_of(const struct engine_tensor *tensor)
{
    return (struct value *)(uintptr_t)tensor;
}

/* ---- Building ------------------------------------------------------------------------------------------
 * Values belong to the graph. After an error (graph->status), functions return NULL and accept NULL, so a
 * family reads like its paper and checks once at the end. Shapes are checked; a message names the tensor, or
 * the layer and operation. */

/* Ends building with an error in the model's file. The message begins with the file's path and the layer. */
void graph_fail(struct graph *graph, const char *format, ...) ENGINE_PRINTF(2, 3);

/* ---- Values (values.c) ---- */

/* The model tensor with this printf-like name and exactly this shape. It is an error if there is none. */
struct value *graph_weight(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name, ...)
    ENGINE_PRINTF(4, 5);
/* The same, but NULL without an error if the model has no such tensor. Test the result before using it. */
struct value *graph_weight_optional(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name, ...)
    ENGINE_PRINTF(4, 5);
/* `n` matrices of shape [k, rows], one for each expert or head. */
struct value *graph_matrices(struct graph *graph, uint64_t k, uint64_t rows, uint64_t n, const char *name,
                             ...) ENGINE_PRINTF(5, 6);
/* The weight of a norm, biases, factors: all ne0 x ne1 numbers of a tensor, as F32. The tensor may have any
 * dimensions and any float type. */
struct value *graph_values(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name, ...)
    ENGINE_PRINTF(4, 5);
struct value *graph_values_optional(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name, ...)
    ENGINE_PRINTF(4, 5);

/* The n values of a tensor, each `times` times, as F32 [n * times]. */
struct value *graph_values_repeated(struct graph *graph, uint64_t n, uint64_t times, const char *tensor_name);

/* Columns of a tensor [ne0, ne1] as rows: F32 [n, ne0], value i of row r is value r of the tensor's row
 * index[i]. It is made when the weight `name` is first requested. */
struct value *graph_values_by_index(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *tensor_name,
                                    const uint32_t *index, uint64_t n, const char *name);

/* Rows `first` … `first + ne1 - 1` of the model tensor `source`, whose rows have ne0 elements, as a weight
 * named `name`. Of several matrices, rows are counted through. */
struct value *graph_rows(struct graph *graph, const struct model_tensor *source, uint64_t first, uint64_t ne0,
                         uint64_t ne1, const char *name);
/* Values `first` … `first + n - 1` of the model tensor `source`, as F32, as a weight named `name`. */
struct value *graph_values_part(struct graph *graph, const struct model_tensor *source, uint64_t first,
                                uint64_t n, const char *name);
/* The tensors `parts`, each of shape [k, rows], as one weight [k, rows, n] named `name`. */
struct value *graph_stack(struct graph *graph, const struct model_tensor *const *parts, uint64_t k,
                          uint64_t rows, uint64_t n, const char *name);
/* n numbers that `fill` computes when the weight of this name is first requested. */
struct value *graph_numbers(struct graph *graph, uint64_t n, const char *name,
                            void (*fill)(const void *user, float *values, uint64_t n), const void *user);
/* The same as ne1 rows of ne0; `fill` gets all of them. */
struct value *graph_number_rows(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name,
                                void (*fill)(const void *user, float *values, uint64_t n), const void *user);

/* The model tensor with this printf-like name, or NULL. For families whose files have several forms. */
const struct model_tensor *graph_find(const struct graph *graph, const char *name, ...) ENGINE_PRINTF(2, 3);

struct value *graph_input(struct graph *graph, enum graph_input input);

/* Declares a cache of the current layer: rows of `width` for each of n_heads heads. `windowed`: tokens see no
 * more of it than arch_info.window says. */
struct value *graph_cache(struct graph *graph, uint64_t width, uint64_t n_heads, bool windowed);

/* The same for a cache of another pool than that of sequences. */
struct value *graph_pool_cache(struct graph *graph, uint64_t width, uint64_t n_heads, enum graph_pool pool);

/* Declares a cache of rows that graph_pool_blocks gives: one for each block of `period` positions, a divisor
 * or a multiple of the cache's block size. `number`: of that period, below GRAPH_PERIODS. It is kept where
 * the last position of the block is. */
struct value *graph_pooled_cache(struct graph *graph, uint64_t width, uint32_t period, uint32_t number);

/* Cache `number` of an earlier layer, in the order in which it has declared them. The nodes that use it run
 * where it is. */
struct value *graph_cache_of(struct graph *graph, uint32_t layer, size_t number);

/* Declares a state of the current layer, for graph_conv or graph_scan: [ne0, ne1] numbers for each sequence,
 * or [ne0, ne1, ne2] unless ne2 is 0. */
struct value *graph_state(struct graph *graph, uint64_t ne0, uint64_t ne1, uint64_t ne2);

/* Hands out `value`, which an operation makes, in every run. kind: one bit of enum watch_kind. */
void graph_watch(struct graph *graph, uint32_t kind, uint32_t layer, struct value *value);

/* A view of a dense value in another shape with the same number of elements. A value of rows with gaps can
 * only go from [n, columns] to [n / k, k, columns]. */
struct value *graph_reshape(struct graph *graph, struct value *value, uint64_t ne0, uint64_t ne1,
                            uint64_t ne2);
/* A table of whole numbers (I32) [ne0, ne1], each from 0 to `end` - 1, as F32. */
struct value *graph_table(struct graph *graph, uint64_t ne0, uint64_t ne1, uint32_t end, const char *name,
                          ...) ENGINE_PRINTF(5, 6);

/* The rows of a matrix [k, rows * n] as n matrices [k, rows], as a weight named `name`. */
struct value *graph_split_rows(struct graph *graph, const struct model_tensor *source, uint64_t k,
                               uint64_t rows, uint64_t n, const char *name);

/* A view of elements first … first + n - 1 of each row. Also works on caches. */
struct value *graph_slice(struct graph *graph, struct value *value, uint64_t first, uint64_t n);

/* ---- Operations (nodes.c) ---- */

/* These and the products below include what the graph's adapters add, if the source or weight is a model's
 * tensor (adapters.c). */
struct value *graph_get_rows(struct graph *graph, struct value *source, struct value *rows);
/* The columns of the tokens whose logits are wanted: from [n, n_tokens] to [n, n_outputs]. */
struct value *graph_wanted(struct graph *graph, struct value *value);

struct value *graph_matmul(struct graph *graph, struct value *weight, struct value *input);
/* Multiplies column h by matrix h of the weight: from [k, n, columns] to [rows, n, columns]. */
struct value *graph_matmul_heads(struct graph *graph, struct value *weight, struct value *input);

/* The experts of each column, and their weights. */
struct routes {
    struct value *ids;     /* I32 [n_used, columns] */
    struct value *weights; /* F32 [n_used, columns] */
};
/* Multiplies by the matrices of the chosen experts. Input: [k, columns] or [k, n_used, columns]; bias: [rows,
 * n] or NULL. With `mix`, the result is the weighted sum [rows, columns], else [rows, n_used, columns]. */
struct value *graph_matmul_experts(struct graph *graph, struct value *weight, struct value *bias,
                                   struct value *input, const struct routes *routes, bool mix);

struct route_options {
    uint32_t n_used;
    uint32_t function; /* enum engine_route_function */
    uint32_t n_groups, n_groups_used, group_score;
    bool normalise;
    float floor, scale;
    struct value *bias;   /* or NULL */
    struct value *chosen; /* [n_used, columns]: the experts, as numbers; NULL: the best are chosen */
};
struct routes graph_route(struct graph *graph, struct value *logits, const struct route_options *options);

/* kind: enum engine_norm_kind. A NULL weight means ones, a NULL bias none. */
struct value *graph_norm(struct graph *graph, struct value *input, struct value *weight, struct value *bias,
                         uint32_t kind, float epsilon);
/* b has a's shape, or is one row for all rows of a, or one number for each row of a. */
struct value *graph_add(struct graph *graph, struct value *a, struct value *b);
struct value *graph_mul(struct graph *graph, struct value *a, struct value *b);
/* Multiplies by a number. If nothing has read the value yet, the matmul that produces it does the scaling;
 * else a row of constants. */
struct value *graph_scale(struct graph *graph, struct value *value, float factor);
/* A row of n equal numbers. */
struct value *graph_constant(struct graph *graph, uint64_t n, float number);
/* activation(input), times factor unless it is NULL. */
struct value *graph_activate(struct graph *graph, struct value *input, struct value *factor,
                             uint32_t activation);
/* The same for activations with parameters. */
struct value *graph_activate_limited(struct graph *graph, struct value *input, struct value *factor,
                                     uint32_t activation, float limit, float alpha);
/* The same with every number of an activation. */
struct curve_options {
    float limit, alpha, beta, gamma;
};
struct value *graph_activate_curve(struct graph *graph, struct value *input, struct value *factor,
                                   uint32_t activation, const struct curve_options *options);

/* Sums of streams [n, n_in, columns] by weights [n_in, n_out, columns], or the streams themselves with NULL,
 * plus addend [n, columns] by scales [n_out, columns], or a weight [n_out], unless both are NULL. */
struct value *graph_mix(struct graph *graph, struct value *streams, struct value *weights,
                        struct value *addend, struct value *scales);

struct hyper_options {
    uint32_t n, n_iterations;
    float epsilon;
    struct value *scale, *base;
};
/* The weights of hyper-connections: input and output [n or n (n + 2), columns], see ENGINE_OP_HYPER. */
struct value *graph_hyper(struct graph *graph, struct value *input, const struct hyper_options *options);

/* Joins the rows of a and b. b may have one row for all heads of a token. */
struct value *graph_concat(struct graph *graph, struct value *a, struct value *b);
/* Joins the rows of `n` parts, one or more; of `n` copies of the input. */
struct value *graph_join(struct graph *graph, struct value *const *parts, uint32_t n);
struct value *graph_repeat(struct graph *graph, struct value *input, uint32_t n);

struct rope_options {
    uint32_t n_dims, pairs;
    float theta, position_scale, magnitude;
    struct value *factors;      /* or NULL */
    enum graph_input positions; /* 0: INPUT_POSITIONS */
};
struct value *graph_rope(struct graph *graph, struct value *input, const struct rope_options *options);
void graph_cache_write(struct graph *graph, struct value *cache, struct value *input);

struct attention_options {
    float scale, softcap;
    uint32_t window, chunk;
    struct value *slopes, *sinks; /* or NULL */
    struct value *distance_bias;  /* or NULL */
    struct value *picked;         /* I32 [n, n_tokens], the positions that tokens see; or NULL: all */
    bool both_ways;               /* tokens see all of their sequence, which the batch has as a whole */
    /* What an attention to another cache has given, or NULL; it had no sinks. */
    struct value *earlier, *earlier_logsums;
    struct value **logsums; /* gets those of this one, unless it is NULL */
};
/* Also hands out the weights if the shape asks for those of the current layer. */
struct value *graph_attention(struct graph *graph, struct value *q, struct value *k, struct value *v,
                              const struct attention_options *options);

/* The n positions of each token's sequence, up to its own, that an indexer scores highest, I32 [n, n_tokens];
 * see ENGINE_OP_PICK. q: [dim, n_heads, n_tokens]; weights: [n_heads, n_tokens]; k: a cache of one head. */
struct value *graph_pick(struct graph *graph, struct value *q, struct value *weights, struct value *k,
                         uint64_t n);
/* What the last graph_pick has returned, for layers that share its choice; NULL: there was none. */
struct value *graph_last_picked(const struct graph *graph);

/* Each block of positions of a cache [n, .., 2 or 4, ..] as one row, for the tokens that end one; zeros for
 * others: [n, n_tokens]. bias: [n or 2 n, period], see ENGINE_OP_POOL. */
struct value *graph_pool_blocks(struct graph *graph, struct value *cache, struct value *bias);

/* Causal convolution of each channel: input [n, n_tokens], weight [taps, n], state [n, taps - 1]. */
struct value *graph_conv(struct graph *graph, struct value *input, struct value *weight, struct value *state);

/* Operands of a linear recurrence; see ENGINE_OP_SCAN for shapes and formula. */
struct scan_operands {
    struct value *q, *k, *v;
    struct value *decay, *rates; /* or NULL */
    struct value *a, *b, *erase; /* or NULL */
    struct value *bonus;         /* or NULL */
    float scale;                 /* 0: 1 */
};
/* Returns [value_dim, n_heads, n_tokens]. state: [value_dim, key_dim, n_heads]. */
struct value *graph_scan(struct graph *graph, const struct scan_operands *operands, struct value *state);

/* ---- Rewriting ----------------------------------------------------------------------------------------- */

/* Returns whether a node could run on its device with these arguments. */
typedef bool (*fuse_question)(void *user, uint32_t device, uint32_t op, const union op_args *args);

/* Fuses nodes where their device supports the fused form: activation(gate) * up, bias, activation and
 * residual into matmul. The nodes already have their devices. */
int graph_fuse(struct graph *graph, fuse_question supports, void *user);

#endif
