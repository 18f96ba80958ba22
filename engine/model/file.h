/* file.h: an open model file, as seen by model.c and the readers of formats. Only this folder includes it. */
#ifndef ENGINE_MODEL_FILE_H
#define ENGINE_MODEL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "model/metadata.h"
#include "model/model.h"
#include "model/names.h"

struct safetensors;

struct model {
    char *path;
    char format[32];
    const uint8_t *data; /* [size], the file, mapped; NULL: a directory */
    uint64_t size;
    struct metadata *metadata;
    struct model_tensor *tensors; /* [n_tensors] */
    size_t n_tensors;
    struct names names;          /* of the tensors */
    void *converted;             /* data of tensors that had to be converted; or NULL */
    struct safetensors **shards; /* [n_shards], the files of a directory, whose sizes `size` sums up */
    size_t n_shards;
    struct model **parts; /* [n_parts], the other files of a split GGUF model, whose tensors are here, too */
    size_t n_parts;
    bool has_senses; /* parts that read pictures or sound, which are left out */
};

/* Numbers in mapped files are little-endian and used as they are. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "model files are read on little-endian machines");

/* A reader fills metadata (including metadata_finish), tensors and format. On failure, model_close cleans
 * up. */
int gguf_read(struct model *model); /* and the other parts of a split model */
/* The number of parts, as the name of one says; 1: it isn't a part. */
int64_t gguf_count_parts(const char *path);
/* The name of part `number`, from 0 on, in new memory, from that of another; NULL: out of memory. */
char *gguf_part_path(const char *path, int64_t number, int64_t count);
int gguf_read_file(struct model *model); /* one file alone */
int llama2c_read(struct model *model, const char *tokenizer_path);

/* Reads the vocabulary of a llama2.c tokenizer file of n_tokens tokens, under GGUF's names. */
int llama2c_read_tokenizer(const char *path, size_t n_tokens, struct metadata *metadata);

/* Allocates a model's tensors. ENGINE_ERROR_MEMORY. */
int model_reserve_tensors(struct model *model, size_t count);

/* Map a file into memory, and unmap it. *data is NULL for an empty file. Mapping fails, naming the file, if
 * it cannot be opened or is not a regular file. */
int model_map_file(const char *path, const uint8_t **data, uint64_t *size);
void model_unmap_file(const uint8_t *data, uint64_t size);

#endif
