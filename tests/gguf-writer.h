/* gguf-writer.h: writes GGUF files for tests, valid and invalid ones: metadata and tensors are written as
 * given, unchecked. Also a small random Llama model, so that tests need no files from elsewhere:
 *
 *   write_tiny_llama("/tmp/x.gguf", &(struct tiny_llama){.seed = 1, .type = ENGINE_TYPE_Q8_0});
 *
 * Use: engine_test(NAME NAME.c gguf-writer.c). If memory is out or sizes are impossible, these functions
 * abort: it's a mistake in the test. */
#ifndef TESTS_GGUF_WRITER_H
#define TESTS_GGUF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

/* ---- Files ---- */

struct gguf_writer;

struct gguf_writer *gguf_create(uint32_t version);
void gguf_destroy(struct gguf_writer *writer);

/* Metadata. */
void gguf_add_u32(struct gguf_writer *writer, const char *key, uint32_t value);
void gguf_add_f32(struct gguf_writer *writer, const char *key, float value);
void gguf_add_boolean(struct gguf_writer *writer, const char *key, bool value);
void gguf_add_string(struct gguf_writer *writer, const char *key, const char *value);
void gguf_add_i32s(struct gguf_writer *writer, const char *key, const int32_t *values, size_t count);
void gguf_add_f32s(struct gguf_writer *writer, const char *key, const float *values, size_t count);
void gguf_add_strings(struct gguf_writer *writer, const char *key, const char *const *values, size_t count);
/* A value of any type (GGUF's number) as the bytes that follow the type in the file. */
void gguf_add_raw(struct gguf_writer *writer, const char *key, uint32_t type, const void *bytes, size_t size);

/* A tensor of `size` bytes, after those before it. */
void gguf_add_tensor(struct gguf_writer *writer, const char *name, uint32_t type, uint32_t n_dims,
                     const uint64_t *ne, const void *data, size_t size);
/* The same with a given offset instead, and no data. */
void gguf_add_tensor_at(struct gguf_writer *writer, const char *name, uint32_t type, uint32_t n_dims,
                        const uint64_t *ne, uint64_t offset);

/* The value of general.alignment, if it isn't 32; add that key as well. A power of two. */
void gguf_set_alignment(struct gguf_writer *writer, size_t alignment);

/* The file's bytes; the caller frees them. */
uint8_t *gguf_bytes(const struct gguf_writer *writer, size_t *size);
/* False (see errno) if it can't be written. */
bool gguf_save(const struct gguf_writer *writer, const char *path);
bool write_bytes(const char *path, const void *bytes, size_t size);

/* ---- A model ---- */

/* A field that is 0 gets the value in its comment. */
struct tiny_llama {
    uint64_t seed;
    uint32_t type;       /* of the matrices: F32, F16, BF16, Q8_0 or Q4_0; norms are F32 */
    uint32_t n_layers;   /* 2 */
    uint32_t n_embd;     /* 64; a multiple of 32 for Q8_0 and Q4_0 */
    uint32_t n_heads;    /* 4 */
    uint32_t n_kv_heads; /* 2 */
    uint32_t n_ff;       /* 96; a multiple of 32 for Q8_0 and Q4_0 */
    uint32_t n_vocab;    /* 320; at least TINY_LLAMA_MIN_VOCAB */
    uint32_t n_tokens;   /* of the vocabulary: n_vocab */
    uint32_t n_context;  /* 128 */
    bool tied;           /* no output.weight */
    uint32_t window;     /* of the layers but each window_period-th; 0: none */
    uint32_t window_period;
};
#define TINY_LLAMA_MIN_VOCAB 290 /* <unk> <s> </s>, 256 bytes, "▁", the letters, a few pairs */

/* Random weights of a size that keeps activations near 1, and a SentencePiece vocabulary. */
void gguf_add_tiny_llama(struct gguf_writer *writer, const struct tiny_llama *config);
bool write_tiny_llama(const char *path, const struct tiny_llama *config);

/* The vocabulary alone; at least TINY_LLAMA_MIN_VOCAB tokens. */
void gguf_add_tiny_llama_vocabulary(struct gguf_writer *writer, uint32_t n_tokens);
/* A token of that vocabulary, and its score. */
void tiny_llama_token(uint32_t id, char text[16]);
float tiny_llama_score(uint32_t id);

/* ---- Random numbers and types ---- */

/* The next number of a sequence that is the same everywhere (splitmix64); *state is the seed at first. */
uint64_t random_next(uint64_t *state);
/* Evenly from -limit to limit. */
float random_float(uint64_t *state, float limit);

/* Encodes `n` values as one of tiny_llama's types; out has room for type_row_size bytes. */
void encode_row(uint32_t type, const float *values, size_t n, void *out);
uint16_t float_to_half(float value); /* to nearest, ties to even */
float half_to_float(uint16_t half);

#endif
