/* test-llama2c.c: llama2.c's checkpoints, all versions, and its tokenizer file. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "files.h"
#include "gguf-writer.h"
#include "llama2c-writer.h"
#include "model/model.h"

static char path[256], tokenizer_path[256];
static const struct llama2c_shape small = {64, 96, 2, 4, 2, 320, 16, true};

static void make_paths(void)
{
    snprintf(path, sizeof path, "%s/test-llama2c-%ld.bin", TEST_BINARY_DIR, (long)getpid());
    snprintf(tokenizer_path, sizeof tokenizer_path, "%s/test-llama2c-%ld.tok", TEST_BINARY_DIR,
             (long)getpid());
}

static void remove_files(void)
{
    unlink(path);
    unlink(tokenizer_path);
}

TestSuite(llama2c, .init = make_paths, .fini = remove_files);

/* Writes a checkpoint of these weights and opens it. */
static struct model *open_checkpoint(const struct llama2c_shape *shape, const float *weights,
                                     uint32_t version, uint32_t n_group)
{
    struct model *model = NULL;
    size_t size;
    uint8_t *bytes = llama2c_checkpoint(shape, weights, version, n_group, &size);
    cr_assert(write_bytes(path, bytes, size));
    free(bytes);
    cr_assert(model_open(path, NULL, &model) == ENGINE_OK, "%s", error_message());
    return model;
}

/* All tensors of one are in the other, bit for bit. */
static void expect_same_tensors(const struct model *model, const struct model *other)
{
    for (size_t i = 0; i < model_tensor_count(model); i++) {
        const struct model_tensor *a = model_tensor_at(model, i), *b = model_tensor_find(other, a->name);
        cr_assert(b, "no %s", a->name);
        cr_assert(a->type == b->type && a->n_dims == b->n_dims && memcmp(a->ne, b->ne, sizeof a->ne) == 0,
                  "%s", a->name);
        cr_assert(a->size == b->size && memcmp(a->data, b->data, a->size) == 0, "%s differs", a->name);
    }
}

static int64_t number(const struct model *model, const char *key)
{
    int64_t value = -1;
    metadata_integer(model_metadata(model), key, &value);
    return value;
}

/* ---- Checkpoints ---- */

Test(llama2c, version_0)
{
    float *weights = llama2c_random_weights(&small, 1);
    struct model *model = open_checkpoint(&small, weights, 0, 0);
    cr_assert_str_eq(model_format(model), "llama2.c version 0");
    cr_assert(model_tensor_count(model) == 2 * 9 + 2);
    cr_assert(model_tensor_find(model, "output.weight") == NULL);

    const struct model_tensor *embedding = model_tensor_find(model, "token_embd.weight");
    cr_assert(embedding->ne[0] == 64 && embedding->ne[1] == 320 && embedding->n_dims == 2);
    cr_assert(memcmp(embedding->data, weights, 64 * 320 * sizeof(float)) == 0);
    /* embedding, two attn_norm, then wq of layer 0 and 1 */
    const struct model_tensor *q = model_tensor_find(model, "blk.1.attn_q.weight");
    cr_assert(memcmp(q->data, weights + 64 * 320 + 2 * 64 + 64 * 64, 64 * 64 * sizeof(float)) == 0);
    const struct model_tensor *k = model_tensor_find(model, "blk.0.attn_k.weight");
    cr_assert(k->ne[0] == 64 && k->ne[1] == 32);
    const struct model_tensor *down = model_tensor_find(model, "blk.0.ffn_down.weight");
    cr_assert(down->ne[0] == 96 && down->ne[1] == 64);

    struct engine_string text;
    double real;
    const struct metadata *metadata = model_metadata(model);
    cr_assert(metadata_string(metadata, "general.architecture", &text) && memcmp(text.data, "llama", 5) == 0);
    cr_assert(number(model, "llama.embedding_length") == 64 &&
              number(model, "llama.feed_forward_length") == 96);
    cr_assert(number(model, "llama.block_count") == 2 && number(model, "llama.attention.head_count") == 4);
    cr_assert(number(model, "llama.attention.head_count_kv") == 2 &&
              number(model, "llama.vocab_size") == 320);
    cr_assert(number(model, "llama.context_length") == 16 &&
              number(model, "llama.rope.dimension_count") == 16);
    cr_assert(metadata_float(metadata, "llama.rope.freq_base", &real) && real == 10000);
    cr_assert(metadata_float(metadata, "llama.attention.layer_norm_rms_epsilon", &real) && real == 1e-5f);
    cr_assert(metadata_find(metadata, "tokenizer.ggml.model") == NULL);
    model_close(model);
    free(weights);
}

Test(llama2c, versions_agree)
{
    struct llama2c_shape shape = small;
    for (int tied = 0; tied < 2; tied++) {
        shape.tied = tied;
        float *weights = llama2c_random_weights(&shape, 2);
        struct model *legacy = open_checkpoint(&shape, weights, 0, 0);
        unlink(path); /* it stays mapped */
        struct model *model = open_checkpoint(&shape, weights, 1, 0);
        cr_assert_str_eq(model_format(model), "llama2.c version 1");
        cr_assert(model_tensor_count(model) == 2 * 9 + 3 - (size_t)tied);
        cr_assert((model_tensor_find(model, "output.weight") == NULL) == (tied != 0));
        expect_same_tensors(legacy, model);
        expect_same_tensors(model, legacy);
        model_close(model);
        model_close(legacy);
        free(weights);
    }
}

/* The group's int8 and scale that version 2 makes of `weights`, multiplied out. */
static void dequantize(const float *weights, size_t n_group, float *out)
{
    float limit = 0;
    for (size_t i = 0; i < n_group; i++) limit = fmaxf(limit, fabsf(weights[i]));
    float scale = limit / 127;
    for (size_t i = 0; i < n_group; i++) out[i] = (float)(int8_t)roundf(weights[i] / scale) * scale;
}

Test(llama2c, version_2_as_float)
{
    const struct llama2c_shape shape = {96, 100, 1, 2, 1, 320, 16, true}; /* rows of 100 cut groups in two */
    float *weights = llama2c_random_weights(&shape, 3), expected[48];
    const uint32_t groups[] = {8, 48};
    for (size_t g = 0; g < 2; g++) {
        struct model *model = open_checkpoint(&shape, weights, 2, groups[g]);
        const struct model_tensor *embedding = model_tensor_find(model, "token_embd.weight");
        cr_assert(embedding->type == ENGINE_TYPE_F32 && embedding->size == 96 * 320 * sizeof(float));
        for (size_t i = 0; i < 96 * 320; i += groups[g]) {
            dequantize(weights + i, groups[g], expected);
            cr_assert(memcmp((const float *)embedding->data + i, expected, groups[g] * sizeof(float)) == 0,
                      "group of %" PRIu32, groups[g]);
        }
        const struct model_tensor *norm = model_tensor_find(model, "output_norm.weight");
        cr_assert(norm->type == ENGINE_TYPE_F32 && norm->size == 96 * sizeof(float));
        model_close(model);
    }

    /* Groups of 96 hold blocks of 32, but only rows of a multiple of 32 can be cut into them. */
    struct model *model = open_checkpoint(&shape, weights, 2, 96);
    cr_assert(model_tensor_find(model, "blk.0.ffn_gate.weight")->type == ENGINE_TYPE_Q8_0);
    cr_assert(model_tensor_find(model, "blk.0.ffn_down.weight")->type == ENGINE_TYPE_F32);
    model_close(model);
    free(weights);
}

Test(llama2c, version_2_as_q8_0)
{
    float *weights = llama2c_random_weights(&small, 4), expected[64];
    struct model *model = open_checkpoint(&small, weights, 2, 64);
    const struct model_tensor *embedding = model_tensor_find(model, "token_embd.weight");
    cr_assert(embedding->type == ENGINE_TYPE_Q8_0 && embedding->size == 64 * 320 / 32 * 34);
    for (size_t i = 0; i < 64 * 320; i++) {
        const uint8_t *block = (const uint8_t *)embedding->data + i / 32 * 34;
        uint16_t half;
        memcpy(&half, block, 2);
        if (i % 64 == 0) dequantize(weights + i, 64, expected);
        float value = half_to_float(half) * (float)(int8_t)block[2 + i % 32];
        cr_assert(fabsf(value - expected[i % 64]) <= fabsf(expected[i % 64]) / 2048, "weight %zu", i);
    }
    model_tensor_release(model, embedding); /* must not lose what is nowhere else */
    cr_assert(((const uint8_t *)embedding->data)[1] != 0);
    model_close(model);

    /* A scale that float16 can't hold keeps its tensor, and only that, in float32. */
    weights[5] = 1e9f;
    model = open_checkpoint(&small, weights, 2, 32);
    cr_assert(model_tensor_find(model, "token_embd.weight")->type == ENGINE_TYPE_F32);
    cr_assert(model_tensor_find(model, "blk.0.attn_q.weight")->type == ENGINE_TYPE_Q8_0);
    model_close(model);
    free(weights);
}

/* Opens `bytes` as a checkpoint and expects a message with the file's name and `words` in it. */
static void expect_refusal(const uint8_t *bytes, size_t size, const char *words)
{
    struct model *model = NULL;
    cr_assert(write_bytes(path, bytes, size));
    cr_assert(model_open(path, NULL, &model) != ENGINE_OK, "opened in spite of: %s", words);
    cr_assert(strstr(error_message(), path) && strstr(error_message(), words), "expected \"%s\" in: %s",
              words, error_message());
}

Test(llama2c, refused)
{
    float *weights = llama2c_random_weights(&small, 5);
    size_t size;
    uint8_t *bytes = llama2c_checkpoint(&small, weights, 0, 0, &size);
    expect_refusal(bytes, 27, "neither a GGUF file nor a complete llama2.c checkpoint");
    expect_refusal(bytes, size - 1,
                   "neither a GGUF file nor a complete llama2.c checkpoint (which would have");
    bytes[12] = 3; /* heads that don't divide 64 */
    expect_refusal(bytes, size, "neither");
    bytes[12] = 0;
    expect_refusal(bytes, size, "neither");
    free(bytes);

    bytes = llama2c_checkpoint(&small, weights, 2, 32, &size);
    expect_refusal(bytes, 255, "ends within its header");
    expect_refusal(bytes, size - 1, "it is truncated or damaged");
    memcpy(bytes + 4, &(uint32_t){3}, 4);
    expect_refusal(bytes, size, "version 3; this engine reads 0, 1 and 2");
    memcpy(bytes + 4, &(uint32_t){2}, 4);
    memset(bytes + 37, 0, 4);
    expect_refusal(bytes, size, "its groups have 0 weights");
    memcpy(bytes + 37, &(uint32_t){7}, 4);
    expect_refusal(bytes, size, "describes an impossible model");
    memset(bytes + 8, 0xff, 4);
    expect_refusal(bytes, size, "does not describe a Llama model");
    free(bytes);

    bytes = llama2c_checkpoint(&small, weights, 2, 32, &size);
    memcpy(bytes + size - 4, &(uint32_t){0x7fc00000}, 4); /* NaN as the last scale */
    expect_refusal(bytes, size, "blk.1.ffn_up.weight has a scale that is not a number");
    free(bytes);
    free(weights);
}

/* ---- Tokenizers ---- */

/* Writes a checkpoint and `tokenizer`, and opens both. */
static int open_with_tokenizer(const uint8_t *tokenizer, size_t tokenizer_size, struct model **model)
{
    float *weights = llama2c_random_weights(&small, 6);
    size_t size;
    uint8_t *bytes = llama2c_checkpoint(&small, weights, 1, 0, &size);
    cr_assert(write_bytes(path, bytes, size) && write_bytes(tokenizer_path, tokenizer, tokenizer_size));
    free(bytes);
    free(weights);
    return model_open(path, tokenizer_path, model);
}

Test(llama2c, tokenizer)
{
    struct model *model = NULL;
    size_t size;
    uint8_t *tokenizer = llama2c_tokenizer(320, &size);
    cr_assert(open_with_tokenizer(tokenizer, size, &model) == ENGINE_OK, "%s", error_message());
    free(tokenizer);

    const struct metadata_entry *tokens = metadata_find(model_metadata(model), "tokenizer.ggml.tokens");
    cr_assert(tokens && tokens->is_array && tokens->count == 320);
    const struct engine_string *texts = tokens->values;
    for (uint32_t id = 0; id < 320; id++) {
        char expected[16];
        tiny_llama_token(id, expected);
        cr_assert(texts[id].length == strlen(expected) &&
                      memcmp(texts[id].data, expected, strlen(expected)) == 0,
                  "token %" PRIu32, id);
    }
    int64_t kind;
    const struct metadata_entry *kinds = metadata_find(model_metadata(model), "tokenizer.ggml.token_type");
    const int64_t expected_kinds[][2] = {{0, 2}, {1, 3}, {2, 3}, {3, 6}, {258, 6}, {259, 1}, {319, 1}};
    for (size_t i = 0; i < sizeof expected_kinds / sizeof expected_kinds[0]; i++)
        cr_assert(metadata_entry_integer(kinds, (size_t)expected_kinds[i][0], &kind) &&
                  kind == expected_kinds[i][1]);
    bool add_bos;
    cr_assert(number(model, "tokenizer.ggml.bos_token_id") == 1 &&
              number(model, "tokenizer.ggml.eos_token_id") == 2);
    cr_assert(number(model, "tokenizer.ggml.unknown_token_id") == 0);
    cr_assert(metadata_boolean(model_metadata(model), "tokenizer.ggml.add_bos_token", &add_bos) && add_bos);
    model_close(model);
}

Test(llama2c, tokenizer_refused)
{
    struct model *model = NULL;
    size_t size;
    uint8_t *tokenizer = llama2c_tokenizer(320, &size);
    const struct {
        size_t size;
        const char *words;
    } cuts[] = {
        {0, "too short"},
        {3, "too short"},
        {size - 1, "token 319 has 4 bytes"},
        {size - 5, "has 319 tokens, but the model has 320"},
    };
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        cr_assert(open_with_tokenizer(tokenizer, cuts[i].size, &model) != ENGINE_OK);
        cr_assert(strstr(error_message(), tokenizer_path) && strstr(error_message(), cuts[i].words), "%s",
                  error_message());
    }
    memset(tokenizer + 8, 0xff, 4); /* the first token's length is -1 */
    cr_assert(open_with_tokenizer(tokenizer, size, &model) != ENGINE_OK);
    cr_assert(strstr(error_message(), "token 0 has -1 bytes"), "%s", error_message());
    free(tokenizer);

    tokenizer = llama2c_tokenizer(321, &size);
    cr_assert(open_with_tokenizer(tokenizer, size, &model) != ENGINE_OK);
    cr_assert(strstr(error_message(), "more than the model's 320 tokens"), "%s", error_message());
    free(tokenizer);
    cr_assert(model_open(path, FILES_ABSENT "/tok.bin", &model) != ENGINE_OK);
    cr_assert(strstr(error_message(), "cannot open " FILES_ABSENT "/tok.bin"));
}

/* ---- The same model in both formats ---- */

#define MODELS TEST_SHARED_DIR "/models/"

/* The values of a key are the same. */
static void expect_same_entry(const struct model *model, const struct model *other, const char *key)
{
    const struct metadata_entry *a = metadata_find(model_metadata(model), key);
    const struct metadata_entry *b = metadata_find(model_metadata(other), key);
    cr_assert(a && b, "no %s", key);
    cr_assert(a->type == b->type && a->is_array == b->is_array && a->count == b->count, "%s", key);
    for (size_t i = 0; i < a->count; i++) {
        int64_t integers[2];
        double floats[2];
        if (a->type == METADATA_STRING) {
            struct engine_string left = ((const struct engine_string *)a->values)[i];
            struct engine_string right = ((const struct engine_string *)b->values)[i];
            cr_assert(left.length == right.length && memcmp(left.data, right.data, left.length) == 0,
                      "%s[%zu]", key, i);
        } else if (a->type == METADATA_F32) {
            cr_assert(metadata_entry_float(a, i, &floats[0]) && metadata_entry_float(b, i, &floats[1]));
            cr_assert(memcmp(&floats[0], &floats[1], sizeof floats[0]) == 0, "%s[%zu]", key, i);
        } else {
            cr_assert(metadata_entry_integer(a, i, &integers[0]) &&
                      metadata_entry_integer(b, i, &integers[1]));
            cr_assert(integers[0] == integers[1], "%s[%zu]", key, i);
        }
    }
}

Test(llama2c, stories_as_gguf)
{
    struct model *bin = NULL, *gguf = NULL;
    if (access(MODELS "stories260K.bin", R_OK) != 0) cr_skip_test("no %s", MODELS);
    cr_assert(model_open(MODELS "stories260K.bin", MODELS "tok512.bin", &bin) == ENGINE_OK, "%s",
              error_message());
    cr_assert(model_open(MODELS "stories260K-f32.gguf", NULL, &gguf) == ENGINE_OK, "%s", error_message());
    cr_assert(model_tensor_count(bin) == 47, "no output.weight, which is the embedding");
    expect_same_tensors(bin, gguf);
    for (size_t i = 0; i < metadata_count(model_metadata(gguf)); i++) {
        const char *key = metadata_at(model_metadata(gguf), i)->key;
        if (strcmp(key, "general.name") != 0 && strcmp(key, "general.file_type") != 0)
            expect_same_entry(bin, gguf, key);
    }
    model_close(gguf);
    model_close(bin);
}

Test(llama2c, stories_as_later_versions)
{
    size_t size;
    if (access(MODELS "stories260K.bin", R_OK) != 0) cr_skip_test("no %s", MODELS);
    char *file = files_read(MODELS "stories260K.bin", &size);
    struct llama2c_shape shape;
    struct model *legacy = NULL, *q8 = NULL;
    float *weights = llama2c_parse((uint8_t *)file, size, &shape);
    cr_assert(model_open(MODELS "stories260K.bin", NULL, &legacy) == ENGINE_OK);
    struct model *model = open_checkpoint(&shape, weights, 1, 0);
    expect_same_tensors(model, legacy);
    model_close(model);
    unlink(path);

    /* Our own version 2 of the weights is the one that llama2.c wrote. */
    cr_assert(model_open(MODELS "stories260K-q8.bin", NULL, &q8) == ENGINE_OK, "%s", error_message());
    model = open_checkpoint(&shape, weights, 2, 8);
    expect_same_tensors(model, q8);
    model_close(model);
    model_close(q8);
    model_close(legacy);
    free(weights);
    free(file);
}
