/* file.h: an open model file, as model.c and the readers of formats see it. Nobody outside this folder
 * includes it. */
#ifndef ENGINE_MODEL_FILE_H
#define ENGINE_MODEL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "model/metadata.h"
#include "model/model.h"
#include "model/names.h"

struct model {
    char *path;
    char format[32];
    const uint8_t *data; /* [size], the file, mapped */
    uint64_t size;
    struct metadata *metadata;
    struct model_tensor *tensors; /* [n_tensors] */
    size_t n_tensors;
    struct names names; /* of the tensors */
    void *converted;    /* data of tensors that are not in the file as they are handed out; or NULL */
};

/* Files map little-endian numbers straight into memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "model files are read on little-endian machines");

/* A reader fills metadata (up to metadata_finish), tensors and format. On failure model_close cleans up what
 * it left. */
int gguf_read(struct model *model);
int llama2c_read(struct model *model, const char *tokenizer_path);

/* The vocabulary of a llama2.c tokenizer file of n_tokens tokens, under GGUF's names. */
int llama2c_read_tokenizer(const char *path, size_t n_tokens, struct metadata *metadata);

/* Room for a model's tensors. ENGINE_ERROR_MEMORY. */
int model_reserve_tensors(struct model *model, size_t count);

/* A file mapped into memory, and its end. *data is NULL for an empty file. Fails, naming the file, for what
 * can't be opened and for what is no regular file. */
int model_map_file(const char *path, const uint8_t **data, uint64_t *size);
void model_unmap_file(const uint8_t *data, uint64_t size);

#endif
