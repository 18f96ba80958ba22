/* reference.h: what each operation should give, in double precision and as plainly as can be, and how far a backend may
 * be from it: plugin-api.h's formulas and tolerances. */
#ifndef ENGINE_CHECK_REFERENCE_H
#define ENGINE_CHECK_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value and how far off a result may be. */
struct expected {
    double value, bound;
};

double reference_activation(uint32_t activation, double x);

/* A row of a weight of some type times a column, both [k]. `rounding`: relative, that the backend may do to inputs of
 * weights that aren't quantised. */
struct expected reference_dot(uint32_t type, const double *weight, const float *input, size_t k,
                              double rounding);

/* What ENGINE_OP_MATMUL makes of a product, and of the gate's if that is there. Pointers to single values or NULL. */
struct expected reference_matmul(struct expected product, const struct expected *gate, uint32_t activation,
                                 float scale, const float *bias, const float *residual);
/* How far a whole product, 64 values or more, may be off: root mean square, of its size. */
double reference_matmul_share(bool quantised, double rounding);

bool reference_is_quantised(uint32_t type);

/* 1 / sqrt(mean of squares + epsilon) of a row. */
double reference_rms(const float *row, size_t n, float epsilon);
/* Bound for norm, add, mul and activate. */
double reference_row_bound(double value);

/* Turns the pair (a, b) of pair number i: *a and *b become the results. */
void reference_turn(double *a, double *b, double position, double position_scale, double theta, double n_dims,
                    size_t pair, double factor);
double reference_turn_bound(double a, double b);

/* A row of n values as a cache of a type (F32, F16, Q8_0) keeps it, by plugin-api.h's rule. */
void reference_cache_row(uint32_t type, const float *values, size_t n, uint8_t *bytes);

/* One head of one token: softmax of `scale * q . keys[j]`, j = 0 … n-1, over values[j]; rows of `dim`, `stride` elements
 * from one to the next. `out` has room for dim. *size: the largest sum of |scale * q * keys[j]|. Returns false without memory. */
bool reference_attend(const float *q, const double *keys, const double *values, size_t n, size_t stride,
                      size_t dim, double scale, double *out, double *size);
/* How far a value may be off, where no value that is summed up is larger than `largest`, and no position's sum of
 * |scale * q * key| than `size`. */
double reference_attention_bound(double largest, double size);

#endif
