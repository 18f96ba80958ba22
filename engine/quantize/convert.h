/* convert.h: converts tensors to other types on all threads, and passes the bytes on in the file's order. */
#ifndef ENGINE_QUANTIZE_CONVERT_H
#define ENGINE_QUANTIZE_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

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
