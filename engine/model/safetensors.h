/* safetensors.h: reads a file in the safetensors format
 * (https://github.com/huggingface/safetensors, "Format"): eight bytes with the length of a header, the header
 * in JSON, then the data of the tensors. Everything is checked against the file, which stays mapped until it
 * is closed. */
#ifndef ENGINE_MODEL_SAFETENSORS_H
#define ENGINE_MODEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAFETENSORS_MAX_DIMS 8

struct safetensors_tensor {
    const char *name;      /* without control characters */
    const char *type_name; /* as the file writes it: "BF16" */
    uint32_t type;         /* enum engine_type; SAFETENSORS_OTHER_TYPE if the engine has no such type */
    uint32_t n_dims;       /* 0: a single number */
    uint64_t ne[SAFETENSORS_MAX_DIMS]; /* the file's order: the last one is that of adjacent values */
    const void *data;                  /* [size], aligned to nothing */
    uint64_t size;                     /* bytes */
};
#define SAFETENSORS_OTHER_TYPE UINT32_MAX

struct safetensors;

/* Opens and checks a file. ENGINE_ERROR_DATA with a message that names the file: it is damaged or not of this
 * format; ENGINE_ERROR: it cannot be read. */
int safetensors_open(const char *path, struct safetensors **file);
void safetensors_close(struct safetensors *file);

uint64_t safetensors_file_size(const struct safetensors *file);
/* Whether these bytes are in the mapped file. */
bool safetensors_contains(const struct safetensors *file, const void *data, uint64_t size);

size_t safetensors_count(const struct safetensors *file);
/* In the header's order. */
const struct safetensors_tensor *safetensors_at(const struct safetensors *file, size_t index);
/* NULL if there is none. */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);

#endif
