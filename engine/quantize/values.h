/* values.h: values of tensors in another type: a run of them, and whole tensors on all threads, whose
 * bytes are passed on in the order of the new file. */
#ifndef ENGINE_QUANTIZE_VALUES_H
#define ENGINE_QUANTIZE_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

struct engine;

enum values_result { VALUES_OK, VALUES_WRONG, VALUES_NO_MEMORY };

/* Converts values at … at + n - 1 of a tensor, counted through its rows and matrices, to `type`; `at` and
 * n are multiples of both types' block lengths. weights: [matrices, columns], see encode.h, or NULL. x:
 * [n], scratch. The result doesn't depend on how a tensor is cut. VALUES_WRONG: a value is not finite, or
 * too large for the type. */
enum values_result values_convert(const struct model_tensor *tensor, uint32_t type, const float *weights,
                                  uint64_t at, size_t n, float *x, uint8_t *bytes);

/* Values of a tensor, and bytes of n values of a type, a multiple of its block length. */
uint64_t values_count(const struct model_tensor *tensor);
size_t values_size(uint32_t type, uint64_t n);

/* ---- Whole tensors, on all threads --------------------------------------------------------------------- */

/* `wanted`, or if it is 0 the setting `threads`, or as many as the processors available to this process. */
uint32_t threads_count(const struct engine *engine, uint32_t wanted);

/* A tensor of the new file. If `type` is the source's own, its bytes are copied. Otherwise
 * quantize_decodes the source's, and quantize_encoder knows `type`. */
struct conversion {
    const struct model_tensor *from;
    uint32_t type;
    const float *weights; /* as values_convert takes them, or NULL */
    uint64_t size;        /* bytes of the new tensor */
    uint64_t after;       /* zeros that follow it */
};

struct convert_calls {
    /* not 0 stops with an error, whose message is set */
    int (*write)(void *user, const void *data, size_t size);
    int (*progress)(void *user, uint64_t done, uint64_t total); /* bytes read; not 0 stops; may be NULL */
    void *user;
    uint64_t before, total; /* bytes read before this conversion, and by all that are reported together */
};

/* Passes n zeros to calls->write. */
int quantize_write_zeros(const struct convert_calls *calls, uint64_t n);

/* Writes the bytes of all tensors, one after the other. It takes less than a megabyte of memory per thread,
 * and releases pages of the model that have been read. ENGINE_ERROR_DATA: a value that the new type cannot
 * represent. */
int quantize_convert(const struct model *model, const struct conversion *conversions, size_t n,
                     uint32_t n_threads, const struct convert_calls *calls);

#endif
