/* llama2c-writer.h: writes llama2.c checkpoints of all versions from one set of weights, and tokenizer files,
 * for tests. Like gguf-writer.h it aborts on the test's own mistakes. */
#ifndef TESTS_LLAMA2C_WRITER_H
#define TESTS_LLAMA2C_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct llama2c_shape {
    uint32_t dim, hidden_dim, n_layers, n_heads, n_kv_heads, n_vocab, n_positions;
    bool tied; /* no output matrix */
};

/* Weights are float32 in the order of version 0, without its rope tables: embedding [n_vocab, dim]; for all
 * layers each attn_norm [dim], wq [dim, dim], wk and wv [kv_dim, dim], wo [dim, dim], ffn_norm [dim],
 * w1 [hidden_dim, dim], w2 [dim, hidden_dim], w3 [hidden_dim, dim]; norm [dim]; if not tied, output
 * [n_vocab, dim]. (Rows first, as in llama2.c.) */
size_t llama2c_weight_count(const struct llama2c_shape *shape);
float *llama2c_random_weights(const struct llama2c_shape *shape, uint64_t seed);

/* The shape and the weights of a version 0 file (a copy that the caller frees). */
float *llama2c_parse(const uint8_t *file, size_t size, struct llama2c_shape *shape);

/* A checkpoint's bytes; the caller frees them. n_group: weights in a group, for version 2. */
uint8_t *llama2c_checkpoint(const struct llama2c_shape *shape, const float *weights, uint32_t version,
                            uint32_t n_group, size_t *size);

/* A tokenizer.bin with the vocabulary of gguf-writer.h's tiny llama; n_tokens >= TINY_LLAMA_MIN_VOCAB. */
uint8_t *llama2c_tokenizer(uint32_t n_tokens, size_t *size);

#endif
