/* reference.h: the result of each operation, in double precision and as plainly as possible, and how far a
 * backend may deviate from it: plugin-api.h's formulas and tolerances. */
#ifndef ENGINE_CHECK_REFERENCE_H
#define ENGINE_CHECK_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

/* A value and how far off a result may be. */
struct expected {
    double value, bound;
};

/* ---- Matmul ---- */

bool reference_is_quantised(uint32_t type);

/* A row of a weight of some type times a column, both [k]. `rounding`: relative, allowed for inputs of
 * weights that aren't quantised. */
struct expected reference_dot(uint32_t type, const double *weight, const float *input, size_t k,
                              double rounding);

/* The result of ENGINE_OP_MATMUL's later steps on a product, and the gate's product if there is a gate.
 * Pointers are to single values or NULL. */
struct expected reference_matmul(struct expected product, const struct expected *gate, uint32_t activation,
                                 float scale, const float *bias, const float *residual);
/* The weighted sum of n such results, [n], plus a residual. */
struct expected reference_mix(const struct expected *results, const float *mix, size_t n,
                              const float *residual);
/* How far a whole product of 64 values or more may be off: the root mean square, relative to the
 * product's. */
double reference_matmul_share(bool quantised, double rounding);

/* ---- Rows ---- */

/* activation(x), times the factor unless that is NULL (clamped for SWIGLU_CLAMPED, plus 1, and SILU_CLAMPED,
 * which require one). Of args it reads the activation and the numbers. */
struct expected reference_activate(const struct engine_op_activate *args, double x, const float *factor);
/* A row of n values, normed. `weight`, `bias`: [n] or NULL. */
void reference_norm(uint32_t kind, const float *row, size_t n, float epsilon, const float *weight,
                    const float *bias, struct expected *out);
/* Bound for add and mul. */
double reference_row_bound(double value);

/* Turns the pair (a, b) of pair number i: *a and *b become the results. */
void reference_turn(double *a, double *b, double position, double position_scale, double theta, double n_dims,
                    size_t pair, double factor);
double reference_turn_bound(double a, double b);

/* ---- Attention ---- */

/* A row of n values as a cache of a type (F32, F16, Q8_0) stores it, by plugin-api.h's rule. */
void reference_cache_row(uint32_t type, const float *values, size_t n, uint8_t *bytes);

/* One head of one token, and the positions that it sees. */
struct seen {
    const double *keys, *values;     /* row j is that of position j */
    size_t n;                        /* positions */
    size_t n_ahead;                  /* how many of them come after the token's own */
    size_t key_stride, value_stride; /* elements from one row to the next */
    size_t dim, value_dim;
    double scale, softcap, slope; /* softcap 0: none */
    const float *sink;            /* NULL: none */
    const float *biases;          /* [2 * n_biases + 1] by distance; NULL: none */
    int64_t n_biases;
    const bool *hidden;   /* [n] positions that are not seen after all; NULL: none */
    const float *earlier; /* [value_dim]; NULL: none */
    double earlier_logsum;
};
/* `out` has room for value_dim, `weights` for n; zeros if nothing is seen. *size: the largest sum of |scale *
 * q * key| + slope * distance + |bias|, and |earlier_logsum|. Returns the logsum. */
double reference_attend(const float *q, const struct seen *seen, double *out, double *weights, double *size);
/* How far a value may be off if no value summed is larger than `largest`, and no position's sum is larger
 * than `size`. */
double reference_attention_bound(double largest, double size);

/* ---- Pick ---- */

/* The score of a position whose key is [dim]. q: [dim, n_heads]; weights: [n_heads]. *is_zero: no product
 * comes near to being above zero. */
struct expected reference_score(const float *q, const float *weights, size_t n_heads, const double *key,
                                size_t dim, bool *is_zero);
/* Whether `picked`, [n_picked], is a choice that the operation allows from n positions. */
bool reference_pick_allows(const struct expected *scores, const bool *is_zero, size_t n,
                           const int32_t *picked, size_t n_picked);

/* ---- Route ---- */

/* For one token: p[n_experts], the experts' weights, and c[n_experts], the basis of the choice. `bias`:
 * [n_experts] or NULL. */
void reference_route(const struct engine_op_route *args, size_t n_experts, const float *logits,
                     const float *bias, double *p, double *c);
/* Whether `ids`, [n_used], is a choice that the operation allows. */
bool reference_route_allows(const struct engine_op_route *args, size_t n_experts, const double *c,
                            const int32_t *ids, size_t n_used);
/* The experts of a token whose experts are given, and how often each counts. */
void reference_route_given(const float *given, size_t n_used, int32_t *ids, double *times);
/* The weights of a choice, [n_used]. `times`: NULL: each counts once. */
void reference_route_weights(const struct engine_op_route *args, const double *p, const int32_t *ids,
                             const double *times, size_t n_used, struct expected *out);

/* ---- Streams ---- */

/* The sum of n numbers by weights, as ENGINE_OP_MIX makes it, and ENGINE_OP_CONV for a channel and token. */
struct expected reference_sum(const float *numbers, const float *weights, size_t n);
/* A token of ENGINE_OP_HYPER: `width` numbers x, and base and output; scale. */
void reference_hyper(const struct engine_op_hyper *args, size_t width, const float *x, const float *scale,
                     const float *base, struct expected *out);
/* Values [n] by the softmax of scores [n]. `largest`: the largest |score| + |bias|, `value`: the largest
 * |value|. */
struct expected reference_pool(const double *values, const double *scores, size_t n, double largest,
                               double value);

/* ---- States ---- */

/* A token of one column of a head of ENGINE_OP_SCAN. S and its bound's M, both [key_dim], become those after
 * the token. q, k, a, b, bonus: [key_dim]; a (with b) and bonus may be NULL. w: [key_dim]. */
struct scanned {
    const float *q, *k, *a, *b, *bonus;
    const double *w;
    double v, erase, scale;
    size_t key_dim;
};
struct expected reference_scan(const struct scanned *token, double *state, double *sizes);
double reference_scan_bound(double size);

#endif
