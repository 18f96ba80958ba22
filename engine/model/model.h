/* model.h: a model of any format, a file or a directory, as metadata and tensors. gguf.c, llama2c.c and hf/
 * fill it; only this folder knows file formats. All contents have been checked against the files. */
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/metadata.h"

/* Bytes of a mapped file. */
struct model_bytes {
    const void *data;
    uint64_t size;
};

/* Makes the rows of a tensor that the file has in another form: in another order, or in another type. */
struct model_maker {
    /* Writes rows first … first + n - 1, counted through all matrices of the tensor. On any thread. */
    void (*make)(const struct model_maker *maker, uint64_t first, uint64_t n, uint8_t *rows);
    /* The same for many rows that take long to make: on several threads, with an error, and releasing what
     * has been read. NULL: `make` does it. */
    int (*load)(const struct model_maker *maker, uint64_t first, uint64_t n, uint8_t *rows);
    const struct model_bytes *sources; /* [n_sources], what it reads */
    size_t n_sources;
};

struct model_tensor {
    const char *name;
    uint32_t type; /* enum engine_type, one that type_info knows */
    uint32_t n_dims;
    uint64_t ne[4];
    const void *data; /* dense rows, readable until model_close; NULL if `parts` or `maker` have them */
    uint64_t size;    /* bytes */
    const struct model_tensor *source; /* the tensor whose values it has, see derived.h; NULL: its own */
    /* [n_parts] matrices that form this tensor, see derived.h; NULL: none */
    const struct model_tensor *const *parts;
    size_t n_parts;
    const struct model_maker *maker; /* makes the rows when they are needed; NULL: they need not be made */
    uint64_t first_row;              /* the tensor begins with this row of its maker, or of its source */
    /* the blocks are values that the model was trained or published with: products should not round their
     * inputs */
    bool is_exact;
};

struct model;

/* Opens a file, or a directory as Hugging Face publishes them, maps it into memory and checks it.
 * `tokenizer_path` is llama2.c's tokenizer.bin or NULL; its
 * vocabulary becomes metadata under GGUF's names. ENGINE_ERROR_DATA with a message that names the file. */
int model_open(const char *path, const char *tokenizer_path, struct model **model);
/* The same of the eye in a directory, which has the names of llama.cpp's mmproj files. */
int model_open_eye(const char *path, struct model **model);
void model_close(struct model *model);

/* Gives a key of the metadata the value of "KEY=TYPE:VALUE", whose TYPE is int, float, bool or str. A key
 * that begins with a dot has general.architecture before it. Call it before anything reads the metadata.
 * ENGINE_ERROR_ARGUMENT: the text has another form. */
int model_override(struct model *model, const char *text);

const char *model_path(const struct model *model);
bool model_is_directory(const struct model *model);
const char *model_format(const struct model *model); /* "GGUF 3", "llama2.c version 0", "Hugging Face" */
uint64_t model_file_size(const struct model *model); /* of all files with tensors */
const struct metadata *model_metadata(const struct model *model);

size_t model_tensor_count(const struct model *model);
/* In the file's order. */
const struct model_tensor *model_tensor_at(const struct model *model, size_t index);
/* NULL if there is none. */
const struct model_tensor *model_tensor_find(const struct model *model, const char *name);

/* Copies rows first … first + n - 1 of a tensor, counted through all of its matrices. */
void model_tensor_read(const struct model_tensor *tensor, uint64_t first, uint64_t n, uint8_t *rows);

/* A tensor's data in one piece, in *data: its own, or made in new memory on up to n_threads threads.
 * *gathered receives that memory, which the caller frees, else NULL. ENGINE_ERROR_MEMORY;
 * ENGINE_ERROR_DATA: it cannot be made of the file's values. */
int model_tensor_gather(const struct model_tensor *tensor, uint32_t n_threads, const void **data,
                        void **gathered);

/* Call it when the bytes of a tensor will not be needed soon: its pages may leave memory. They are read again
 * if used. */
void model_tensor_release(const struct model *model, const struct model_tensor *tensor);

/* Memory that lives as long as the model; NULL if there is none left. */
void *model_allocate(struct model *model, size_t size);

/* Lets products round their inputs for all tensors, as for those of a file. */
void model_allow_rounding(struct model *model);
/* Gives a tensor another type, with rows that `maker` makes, which lives as long as the model. */
void model_tensor_convert(struct model *model, const struct model_tensor *tensor, uint32_t type,
                          const struct model_maker *maker);

#endif
