/* convert.h: turns tensors into other types on all threads, and hands the bytes on in the file's order. */
#ifndef ENGINE_QUANTIZE_CONVERT_H
#define ENGINE_QUANTIZE_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* A tensor of the new file. Where `type` is the source's own, its bytes are copied; otherwise the source is F32, F16 or
 * BF16, and encoder_of knows `type`. */
struct conversion {
    const struct model_tensor *from;
    uint32_t type;
    uint64_t size;   /* bytes of the new tensor */
    uint64_t behind; /* zeros that follow it */
};

struct convert_calls {
    int (*write)(void *user, const void *data, size_t size);    /* not 0 stops: an error with a message */
    int (*progress)(void *user, uint64_t done, uint64_t total); /* bytes read; not 0 stops. Or NULL */
    void *user;
};

/* n zeros to calls->write. */
int quantize_write_zeros(const struct convert_calls *calls, uint64_t n);

/* The bytes of all tensors, one after the other. Memory: less than a megabyte for each thread; pages of the
 * model that have been read are given back. ENGINE_ERROR_DATA: a value that the new type can't hold. */
int quantize_convert(const struct model *model, const struct conversion *conversions, size_t n,
                     uint32_t n_threads, const struct convert_calls *calls);

#endif
