/* sound.c: see sound.h. */
#include "sound.h"

#include <stdio.h>
#include <stdlib.h>

#include "gguf-writer.h"
#include "llama2c-writer.h"
#include "model/metadata.h"

static const struct llama2c_shape small = {32, 32, 2, 2, 1, TINY_LLAMA_MIN_VOCAB, 16, false};

static struct tiny_llama tiny(uint32_t type)
{
    return (struct tiny_llama){.seed = 1,
                               .type = type,
                               .n_layers = 2,
                               .n_embd = 32,
                               .n_heads = 2,
                               .n_kv_heads = 1,
                               .n_ff = 32,
                               .n_vocab = TINY_LLAMA_MIN_VOCAB,
                               .n_context = 16};
}

/* A value of each type, and an array of each. */
static void add_all_types(struct gguf_writer *writer)
{
    static const uint32_t types[] = {METADATA_U8,  METADATA_I8,  METADATA_U16, METADATA_I16, METADATA_I32,
                                     METADATA_F32, METADATA_U64, METADATA_I64, METADATA_F64, METADATA_BOOL};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        uint8_t array[12 + 3 * 8] = {(uint8_t)types[i], 0, 0, 0, 3};
        char key[16];
        snprintf(key, sizeof key, "array.%zu", i);
        gguf_add_raw(writer, key, METADATA_ARRAY, array, 12 + 3 * metadata_element_size(types[i]));
        snprintf(key, sizeof key, "value.%zu", i);
        gguf_add_raw(writer, key, types[i], array + 12, metadata_element_size(types[i]));
    }
}

struct base *sound_gguf(const char *name, uint32_t version, uint32_t type)
{
    struct gguf_writer *writer = gguf_create(version);
    struct tiny_llama config = tiny(type);
    size_t size;
    gguf_add_u32(writer, "general.alignment", 32);
    add_all_types(writer);
    gguf_add_tiny_llama(writer, &config);
    uint8_t *bytes = gguf_bytes(writer, &size);
    gguf_destroy(writer);
    return base_gguf(name, bytes, size);
}

struct base *sound_llama2c(const char *name, uint32_t version, uint32_t n_group)
{
    size_t size;
    float *weights = llama2c_random_weights(&small, 1);
    uint8_t *bytes = llama2c_checkpoint(&small, weights, version, n_group, &size);
    free(weights);
    return base_llama2c(name, bytes, size);
}

struct base *sound_tokenizer(const char *name)
{
    size_t size;
    uint8_t *bytes = llama2c_tokenizer(small.n_vocab, &size);
    return base_tokenizer(name, bytes, size);
}
