/* cases.h: operations on random data, run by a backend and compared with reference.h. Fields that are 0 ask
 * for nothing beyond the plain operation. Each function returns the output, dense, in new memory, so that
 * results can also be compared with each other. It stops if results are too far off, or if the backend
 * doesn't claim the operation. */
#ifndef ENGINE_CHECK_CASES_H
#define ENGINE_CHECK_CASES_H

#include "check/fixture.h"

struct matmul_case {
    uint32_t type; /* of weight and gate */
    uint32_t k, rows, tokens;
    bool gate, bias, residual, in_place; /* in_place: the output is the residual's tensor */
    uint32_t activation;
    float scale;
    uint32_t gap;          /* bytes after each row of input and output */
    uint32_t gate_type;    /* another type for the gate; only with gate, 0 (F32) means `type` */
    double input_rounding; /* relative, allowed for inputs of weights that aren't quantised */
    uint32_t plane_gap;    /* bytes after each token's columns of input and output, if they have several */
    /* n_matrices: matrices of a weight of three dimensions; 0: the weight has two. With n_used 0, there are
     * as many heads, and each has its own matrix. Otherwise n_used are chosen for each token; those that no
     * token chooses are full of NaNs. */
    uint32_t n_matrices, n_used;
    /* All tokens choose one of them, few the others, and none the upper half unless they must. */
    bool uneven;
    bool one_each;     /* the input has one column for each token */
    bool mix;          /* else there is no residual */
    bool data_is_kept; /* of weight and gate */
};

struct rows_case {
    uint32_t op; /* NORM, ADD, MUL, ACTIVATE */
    uint32_t n, tokens, planes;
    bool second;    /* ADD, MUL: b is one row; NORM: a weight; ACTIVATE: a factor */
    bool is_weight; /* ADD, MUL with second: b is a weight */
    bool in_place;
    struct fixture_gaps gaps;
    uint32_t activation;
    float epsilon;
    bool single;                     /* ADD, MUL: b is one number for each of a's rows */
    uint32_t kind;                   /* NORM: enum engine_norm_kind */
    bool bias;                       /* NORM */
    float limit, alpha, beta, gamma; /* ACTIVATE */
};

struct rope_case {
    uint32_t head_dim, n_heads, tokens, n_dims, pairs;
    bool factors, in_place;
    float theta, position_scale;
    uint32_t most_position;
    struct fixture_gaps gaps;
    float magnitude;
};

struct get_rows_case {
    uint32_t type, n, n_rows, count;
    uint32_t uses; /* of the weight; 0: the source is an activation */
    bool data_is_kept;
    uint32_t gap; /* bytes after each row of activations */
};
float *run_get_rows_case(struct fixture *fixture, const struct get_rows_case *c);

/* Keys and values of n_sequences sequences of different lengths are in a cache whose blocks are in random
 * order. The last `tokens` positions of each attend, interleaved. */
struct attention_case {
    uint32_t k_type, v_type;
    uint32_t head_dim, n_heads, n_kv_heads, block_size;
    uint32_t n_sequences, length; /* sequence s has length + 7 s positions */
    uint32_t tokens;              /* of each sequence, at most its length */
    uint32_t window;
    struct fixture_gaps gaps;       /* of q, the output, and what is written to a cache */
    struct fixture_gaps cache_gaps; /* of k and v */
    uint32_t table_gap;             /* bytes after each column of the block table */
    bool leave_out;                 /* some tokens have position -1 */
    float scale;                    /* 0: 1 / sqrt(head_dim) */
    float size;         /* 0: scores are small; else about this large, and all positive or negative */
    uint32_t value_dim; /* 0: head_dim */
    bool shared;        /* v is the first value_dim values of k, in its memory; v_type is then k_type */
    bool slopes, sinks;
    float softcap;
    uint32_t chunk;
    bool weights;          /* also wanted */
    bool ahead;            /* tokens see beyond their own position, some to the end of their sequence */
    uint32_t distances;    /* with a bias for each distance up to this one; 0: none */
    uint32_t n_picked;     /* each token sees no more than so many, at random, some none; 0: all */
    bool earlier, logsums; /* after another attention; those of this one are wanted */
    bool spoiled; /* what the cache holds of the last sequence is no number: the others don't notice */
};

/* Writes the keys of such a case into a cache of its k_type. The cache must then hold what that type gives,
 * and nothing else may change. */
void run_cache_write_case(struct fixture *fixture, const struct attention_case *c);

/* Picks from such sequences, whose keys have one head. */
struct pick_case {
    uint32_t k_type;
    uint32_t head_dim, n_heads, block_size;
    uint32_t n_sequences, length, tokens; /* as above */
    uint32_t n_picked;
    struct fixture_gaps gaps, cache_gaps;
    uint32_t table_gap;
    bool leave_out;
    bool ties; /* many scores are zero, of some tokens all */
};

struct route_case {
    uint32_t n_experts, n_used, tokens;
    uint32_t function, n_groups, n_groups_used, group_score; /* as in engine_op_route */
    bool bias, normalise;
    float floor, scale;
    float size;   /* of the logits; 0: 1 */
    bool ties;    /* many logits are equal, others nearly so */
    uint32_t gap; /* bytes after each row */
    bool given;   /* experts, some twice in a token's row */
};

struct concat_case {
    uint32_t n_a, n_b, n_heads, tokens;
    bool one_each; /* b has one row for each token */
    struct fixture_gaps gaps;
};

/* Runs of tokens with states 2, 0, 3, …, of which there are more than runs; every second one begins at
 * position 0. Tokens without a state come last. `run`: tokens of each run. The states must be right as
 * well. */
struct conv_case {
    uint32_t n, taps, n_runs, run, n_without;
    struct fixture_gaps gaps;
};

struct scan_case {
    uint32_t key_dim, value_dim, n_heads, n_groups;
    uint32_t n_runs, run, n_without;
    enum { SCAN_NO_DECAY, SCAN_DECAY_HEAD, SCAN_DECAY_KEYS, SCAN_RATES } decay;
    bool delta, erase, bonus;
    bool same; /* a and b are the tensor k */
    float scale;
    struct fixture_gaps gaps;
};

/* no_weights: n_out is n_in; addend: with scales for each token, or of_weight. */
struct mix_case {
    uint32_t n, n_in, n_out, tokens;
    bool no_weights, addend, of_weight;
    struct fixture_gaps gaps;
};

struct hyper_case {
    uint32_t n, n_iterations, tokens;
    bool whole;          /* n (n + 2) inputs */
    float epsilon, size; /* size: of the inputs */
    uint32_t gap;
};

/* Sequences of length + 5 s positions, the last `tokens` of each in the batch, whose blocks are in a random
 * order. Some tokens are left out. */
struct pool_case {
    uint32_t type, n, n_series, period, block_size, n_sequences, length, tokens;
    float size; /* of the scores */
    struct fixture_gaps gaps;
};

/* Types that are checked by hashes of their blocks' values, see case-hashed.c. */
struct hashed_type {
    uint32_t type;
    const char *name;
    size_t length, size; /* of a block: values, bytes */
    int scales[2];       /* bytes with the upper part of a scale; -1: none */
    uint64_t hash;       /* FNV-1a of the values as float32, zeros all positive */
};
const struct hashed_type *hashed_type_at(size_t index); /* NULL after the last */

struct hashed_case {
    const struct hashed_type *type;
    uint32_t uses;   /* of get rows */
    uint32_t tokens; /* of matmul */
    /* Of matmul: 0, or the number of the weight's matrices, each token's expert being the next; divides
     * 256. */
    uint32_t matrices;
    uint32_t k; /* of matmul: the length of a row, a divisor of 32,768; 0: 1,024 */
};
void run_hashed_rows_case(struct fixture *fixture, const struct hashed_case *c);
void run_hashed_matmul_case(struct fixture *fixture, const struct hashed_case *c);

/* ---- Cases of any kind, in groups ------------------------------------------------------------------ */

#define CASE_KINDS(KIND)                                                                                     \
    KIND(MATMUL, matmul)                                                                                     \
    KIND(ROWS, rows)                                                                                         \
    KIND(ROPE, rope)                                                                                         \
    KIND(ATTENTION, attention)                                                                               \
    KIND(PICK, pick)                                                                                         \
    KIND(ROUTE, route)                                                                                       \
    KIND(CONCAT, concat)                                                                                     \
    KIND(CONV, conv)                                                                                         \
    KIND(SCAN, scan)                                                                                         \
    KIND(MIX, mix)                                                                                           \
    KIND(HYPER, hyper)                                                                                       \
    KIND(POOL, pool)

/* Each kind's function runs a case and returns the output: of a router the weights, after its ids have been
 * found to be a choice that the operation allows; of picked positions, once they are found to be, their exact
 * scores. The other one says how many floats that is. */
#define FUNCTIONS(number, name)                                                                              \
    float *run_##name##_case(struct fixture *fixture, const struct name##_case *c);                          \
    size_t name##_case_size(const struct name##_case *c);
CASE_KINDS(FUNCTIONS)
#undef FUNCTIONS

#define NUMBER(number, name) CASE_##number,
enum case_kind { CASE_KINDS(NUMBER) };
#undef NUMBER

struct some_case {
    enum case_kind kind;
    const char *form; /* what a plugin may or may not claim; NULL: the group has only one form */
    bool again;       /* differs from the previous case only in what changes from run to run */
#define MEMBER(number, name) struct name##_case name;
    union {
        CASE_KINDS(MEMBER)
    } as;
#undef MEMBER
};
typedef void case_visitor(void *user, const struct some_case *c);

float *run_some_case(struct fixture *fixture, const struct some_case *c);
size_t some_case_size(const struct some_case *c);

/* A row of the suite's table. */
struct case_group {
    const char *area, *name;
    void (*each)(const struct case_group *group, case_visitor *visit, void *user);
    uint32_t argument; /* for `each`: a type, an operation, … */
};
typedef void group_visitor(void *user, const struct case_group *group);

/* What plugin-api.h has added since version 1.0: one list for the conformance suite, which tries what a
 * plugin claims, and for the tests of our own backends. By file below. */
void each_case_group(group_visitor *visit, void *user);
void each_rows_group(group_visitor *visit, void *user);
void each_attention_group(group_visitor *visit, void *user);
void each_pick_group(group_visitor *visit, void *user);
void each_block_group(group_visitor *visit, void *user);
void each_stream_group(group_visitor *visit, void *user);
void each_matmul_group(group_visitor *visit, void *user);
/* Shapes as large as those of models, of operations that no type of weights multiplies. */
void each_large_group(group_visitor *visit, void *user);
void each_large_rows_group(group_visitor *visit, void *user);
void each_large_block_group(group_visitor *visit, void *user);

#endif
