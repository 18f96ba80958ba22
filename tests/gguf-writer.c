/* gguf-writer.c: see gguf-writer.h. */
#include "gguf-writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/metadata.h"
#include "model/types.h"

struct bytes {
    uint8_t *data; /* [size], room for [capacity] */
    size_t size, capacity;
};

struct gguf_writer {
    uint32_t version;
    size_t alignment;
    uint64_t n_entries, n_tensors;
    struct bytes metadata, list, data;
};

/* ---- Bytes ---- */

static void put(struct bytes *bytes, const void *data, size_t size)
{
    if (bytes->size + size > bytes->capacity) {
        bytes->capacity = (bytes->size + size) * 2;
        bytes->data = realloc(bytes->data, bytes->capacity);
        if (!bytes->data) abort();
    }
    if (size) memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

static void put_u32(struct bytes *bytes, uint32_t value)
{
    put(bytes, &value, sizeof value);
}

static void put_u64(struct bytes *bytes, uint64_t value)
{
    put(bytes, &value, sizeof value);
}

static void put_string(struct bytes *bytes, const char *text)
{
    put_u64(bytes, strlen(text));
    put(bytes, text, strlen(text));
}

static void pad(struct bytes *bytes, size_t alignment)
{
    static const uint8_t zero = 0;
    while (bytes->size % alignment) put(bytes, &zero, 1);
}

/* ---- Files ---- */

struct gguf_writer *gguf_create(uint32_t version)
{
    struct gguf_writer *writer = calloc(1, sizeof *writer);
    if (!writer) abort();
    writer->version = version;
    writer->alignment = 32;
    return writer;
}

void gguf_destroy(struct gguf_writer *writer)
{
    if (!writer) return;
    free(writer->metadata.data);
    free(writer->list.data);
    free(writer->data.data);
    free(writer);
}

void gguf_add_raw(struct gguf_writer *writer, const char *key, uint32_t type, const void *bytes, size_t size)
{
    put_string(&writer->metadata, key);
    put_u32(&writer->metadata, type);
    put(&writer->metadata, bytes, size);
    writer->n_entries++;
}

void gguf_add_u32(struct gguf_writer *writer, const char *key, uint32_t value)
{
    gguf_add_raw(writer, key, METADATA_U32, &value, sizeof value);
}

void gguf_add_f32(struct gguf_writer *writer, const char *key, float value)
{
    gguf_add_raw(writer, key, METADATA_F32, &value, sizeof value);
}

void gguf_add_boolean(struct gguf_writer *writer, const char *key, bool value)
{
    uint8_t byte = value;
    gguf_add_raw(writer, key, METADATA_BOOL, &byte, sizeof byte);
}

void gguf_add_string(struct gguf_writer *writer, const char *key, const char *value)
{
    gguf_add_raw(writer, key, METADATA_STRING, NULL, 0);
    put_string(&writer->metadata, value);
}

static void add_array(struct gguf_writer *writer, const char *key, uint32_t type, size_t count)
{
    gguf_add_raw(writer, key, METADATA_ARRAY, &type, sizeof type);
    put_u64(&writer->metadata, count);
}

void gguf_add_i32s(struct gguf_writer *writer, const char *key, const int32_t *values, size_t count)
{
    add_array(writer, key, METADATA_I32, count);
    put(&writer->metadata, values, count * sizeof *values);
}

void gguf_add_f32s(struct gguf_writer *writer, const char *key, const float *values, size_t count)
{
    add_array(writer, key, METADATA_F32, count);
    put(&writer->metadata, values, count * sizeof *values);
}

void gguf_add_strings(struct gguf_writer *writer, const char *key, const char *const *values, size_t count)
{
    add_array(writer, key, METADATA_STRING, count);
    for (size_t i = 0; i < count; i++) put_string(&writer->metadata, values[i]);
}

void gguf_add_tensor_at(struct gguf_writer *writer, const char *name, uint32_t type, uint32_t n_dims,
                        const uint64_t *ne, uint64_t offset)
{
    put_string(&writer->list, name);
    put_u32(&writer->list, n_dims);
    for (uint32_t d = 0; d < n_dims; d++) put_u64(&writer->list, ne[d]);
    put_u32(&writer->list, type);
    put_u64(&writer->list, offset);
    writer->n_tensors++;
}

void gguf_add_tensor(struct gguf_writer *writer, const char *name, uint32_t type, uint32_t n_dims,
                     const uint64_t *ne, const void *data, size_t size)
{
    pad(&writer->data, writer->alignment);
    gguf_add_tensor_at(writer, name, type, n_dims, ne, writer->data.size);
    put(&writer->data, data, size);
}

void gguf_set_alignment(struct gguf_writer *writer, size_t alignment)
{
    writer->alignment = alignment;
}

uint8_t *gguf_bytes(const struct gguf_writer *writer, size_t *size)
{
    struct bytes file = {0};
    put(&file, "GGUF", 4);
    put_u32(&file, writer->version);
    put_u64(&file, writer->n_tensors);
    put_u64(&file, writer->n_entries);
    put(&file, writer->metadata.data, writer->metadata.size);
    put(&file, writer->list.data, writer->list.size);
    pad(&file, writer->alignment);
    put(&file, writer->data.data, writer->data.size);
    *size = file.size;
    return file.data;
}

bool write_bytes(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    bool written = fwrite(bytes, 1, size, file) == size;
    return (fclose(file) == 0) && written;
}

bool gguf_save(const struct gguf_writer *writer, const char *path)
{
    size_t size;
    uint8_t *bytes = gguf_bytes(writer, &size);
    bool written = write_bytes(path, bytes, size);
    free(bytes);
    return written;
}

/* ---- Random numbers and types ---- */

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

float random_float(uint64_t *state, float limit)
{
    return ((float)(random_next(state) >> 40) / 8388608.0f - 1.0f) * limit;
}

uint16_t float_to_half(float value)
{
    uint32_t bits, sign;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    float magnitude = fabsf(value);
    if (isnan(value)) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 65520) return (uint16_t)(sign | 0x7c00);
    int exponent;
    frexpf(magnitude, &exponent); /* magnitude < 2^exponent */
    int step = exponent < -13 || magnitude == 0 ? -24 : exponent - 11;
    uint32_t steps = (uint32_t)rintf(ldexpf(magnitude, -step)); /* exact except for the rounding: 0 … 2048 */
    return (uint16_t)(sign | (steps + (step == -24 ? 0 : (uint32_t)(step + 24) << 10)));
}

float half_to_float(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    float magnitude = exponent == 31  ? (mantissa ? NAN : INFINITY)
                      : exponent == 0 ? ldexpf((float)mantissa, -24)
                                      : ldexpf((float)(mantissa + 1024), exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

static uint16_t to_bfloat(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Blocks of a float16 scale d and 32 int8: x = d * q. */
static void encode_q8_0(const float *x, uint8_t *out)
{
    float limit = 0;
    for (size_t i = 0; i < 32; i++) limit = fmaxf(limit, fabsf(x[i]));
    uint16_t half = float_to_half(limit / 127);
    memcpy(out, &half, sizeof half);
    for (size_t i = 0; i < 32; i++) {
        int8_t q = (int8_t)(limit > 0 ? roundf(x[i] * (127 / limit)) : 0);
        memcpy(out + 2 + i, &q, 1);
    }
}

/* Blocks of a float16 scale d and 32 four-bit numbers, the first 16 in the low halves: x = d * (q - 8). */
static void encode_q4_0(const float *x, uint8_t *out)
{
    float extreme = 0;
    for (size_t i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
    float d = extreme / -8;
    uint16_t half = float_to_half(d);
    memcpy(out, &half, sizeof half);
    for (size_t i = 0; i < 16; i++) {
        uint8_t q[2];
        for (size_t j = 0; j < 2; j++)
            q[j] = (uint8_t)(d != 0 ? fminf(15, floorf(x[i + 16 * j] / d + 8.5f)) : 8);
        out[2 + i] = (uint8_t)(q[0] | q[1] << 4);
    }
}

void encode_row(uint32_t type, const float *values, size_t n, void *out)
{
    uint16_t *halves = out;
    switch (type) {
    case ENGINE_TYPE_F32: memcpy(out, values, n * sizeof *values); break;
    case ENGINE_TYPE_F16:
        for (size_t i = 0; i < n; i++) halves[i] = float_to_half(values[i]);
        break;
    case ENGINE_TYPE_BF16:
        for (size_t i = 0; i < n; i++) halves[i] = to_bfloat(values[i]);
        break;
    case ENGINE_TYPE_Q8_0:
        for (size_t i = 0; i < n; i += 32) encode_q8_0(values + i, (uint8_t *)out + i / 32 * 34);
        break;
    case ENGINE_TYPE_Q4_0:
        for (size_t i = 0; i < n; i += 32) encode_q4_0(values + i, (uint8_t *)out + i / 32 * 18);
        break;
    default: abort();
    }
}

/* ---- A model ---- */

static void add_random_tensor(struct gguf_writer *writer, uint64_t *state, const char *name, uint32_t type,
                              uint64_t k, uint64_t rows)
{
    float values[4096];
    uint64_t row_size;
    if (k > sizeof values / sizeof values[0] || !type_row_size(type, k, &row_size)) abort();
    uint8_t *data = malloc(row_size * rows);
    if (!data) abort();
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t i = 0; i < k; i++) values[i] = random_float(state, sqrtf(3.0f / (float)k));
        encode_row(type, values, k, data + row * row_size);
    }
    gguf_add_tensor(writer, name, type, 2, (uint64_t[]){k, rows}, data, row_size * rows);
    free(data);
}

static void add_random_norm(struct gguf_writer *writer, uint64_t *state, const char *name, uint64_t k)
{
    float values[4096];
    for (uint64_t i = 0; i < k; i++) values[i] = 1 + random_float(state, 0.2f);
    gguf_add_tensor(writer, name, ENGINE_TYPE_F32, 1, &k, values, k * sizeof values[0]);
}

static void add_layer(struct gguf_writer *writer, uint64_t *state, const struct tiny_llama *c, uint32_t layer)
{
    uint64_t n_embd = c->n_embd, kv_dim = c->n_embd / c->n_heads * c->n_kv_heads;
    const struct {
        const char *name;
        uint64_t k, rows; /* 0 rows: a norm */
    } tensors[] = {
        {"attn_norm", n_embd, 0},      {"attn_q", n_embd, n_embd},      {"attn_k", n_embd, kv_dim},
        {"attn_v", n_embd, kv_dim},    {"attn_output", n_embd, n_embd}, {"ffn_norm", n_embd, 0},
        {"ffn_gate", n_embd, c->n_ff}, {"ffn_down", c->n_ff, n_embd},   {"ffn_up", n_embd, c->n_ff},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%" PRIu32 ".%s.weight", layer, tensors[i].name);
        if (tensors[i].rows)
            add_random_tensor(writer, state, name, c->type, tensors[i].k, tensors[i].rows);
        else
            add_random_norm(writer, state, name, tensors[i].k);
    }
}

void tiny_llama_token(uint32_t id, char text[16])
{
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    static const char *const pairs[] = {"th", "he", "\xe2\x96\x81t", "in"};
    if (id < 3)
        snprintf(text, 16, "%s", special[id]);
    else if (id < 259)
        snprintf(text, 16, "<0x%02X>", id - 3);
    else if (id == 259)
        snprintf(text, 16, "\xe2\x96\x81"); /* U+2581, a space */
    else if (id < 286)
        snprintf(text, 16, "%c", (char)('a' + id - 260));
    else if (id < 290)
        snprintf(text, 16, "%s", pairs[id - 286]);
    else
        snprintf(text, 16, "#%" PRIu32, id);
}

float tiny_llama_score(uint32_t id)
{
    return id < 259 ? 0 : -(float)(id - 259);
}

void gguf_add_tiny_llama_vocabulary(struct gguf_writer *writer, uint32_t n_tokens)
{
    char(*texts)[16] = calloc(n_tokens, sizeof *texts);
    const char **tokens = calloc(n_tokens, sizeof *tokens);
    float *scores = calloc(n_tokens, sizeof *scores);
    int32_t *kinds = calloc(n_tokens, sizeof *kinds);
    if (!texts || !tokens || !scores || !kinds || n_tokens < TINY_LLAMA_MIN_VOCAB) abort();
    for (uint32_t id = 0; id < n_tokens; id++) {
        kinds[id] = id == 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1; /* unknown, control, byte, normal */
        scores[id] = tiny_llama_score(id);
        tiny_llama_token(id, texts[id]);
        tokens[id] = texts[id];
    }
    gguf_add_string(writer, "tokenizer.ggml.model", "llama");
    gguf_add_strings(writer, "tokenizer.ggml.tokens", tokens, n_tokens);
    gguf_add_f32s(writer, "tokenizer.ggml.scores", scores, n_tokens);
    gguf_add_i32s(writer, "tokenizer.ggml.token_type", kinds, n_tokens);
    gguf_add_u32(writer, "tokenizer.ggml.bos_token_id", 1);
    gguf_add_u32(writer, "tokenizer.ggml.eos_token_id", 2);
    gguf_add_u32(writer, "tokenizer.ggml.unknown_token_id", 0);
    free(kinds);
    free(scores);
    free(tokens);
    free(texts);
}

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
    return value ? value : otherwise;
}

void gguf_add_tiny_llama(struct gguf_writer *writer, const struct tiny_llama *config)
{
    struct tiny_llama c = {
        .seed = config->seed,
        .type = config->type,
        .n_layers = or_default(config->n_layers, 2),
        .n_embd = or_default(config->n_embd, 64),
        .n_heads = or_default(config->n_heads, 4),
        .n_kv_heads = or_default(config->n_kv_heads, 2),
        .n_ff = or_default(config->n_ff, 96),
        .n_vocab = or_default(config->n_vocab, 320),
        .n_tokens = or_default(config->n_tokens, or_default(config->n_vocab, 320)),
        .n_context = or_default(config->n_context, 128),
        .tied = config->tied,
    };
    uint64_t state = c.seed;
    gguf_add_string(writer, "general.architecture", "llama");
    gguf_add_string(writer, "general.name", "tiny llama");
    gguf_add_u32(writer, "llama.context_length", c.n_context);
    gguf_add_u32(writer, "llama.embedding_length", c.n_embd);
    gguf_add_u32(writer, "llama.block_count", c.n_layers);
    gguf_add_u32(writer, "llama.feed_forward_length", c.n_ff);
    gguf_add_u32(writer, "llama.attention.head_count", c.n_heads);
    gguf_add_u32(writer, "llama.attention.head_count_kv", c.n_kv_heads);
    gguf_add_u32(writer, "llama.rope.dimension_count", c.n_embd / c.n_heads);
    gguf_add_f32(writer, "llama.rope.freq_base", 10000);
    gguf_add_f32(writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_add_u32(writer, "llama.vocab_size", c.n_vocab);
    if (config->window > 0) gguf_add_u32(writer, "llama.attention.sliding_window", config->window);
    if (config->window_period > 0)
        gguf_add_u32(writer, "llama.attention.sliding_window_pattern", config->window_period);
    gguf_add_tiny_llama_vocabulary(writer, c.n_tokens);

    add_random_tensor(writer, &state, "token_embd.weight", c.type, c.n_embd, c.n_vocab);
    for (uint32_t layer = 0; layer < c.n_layers; layer++) add_layer(writer, &state, &c, layer);
    add_random_norm(writer, &state, "output_norm.weight", c.n_embd);
    if (!c.tied) add_random_tensor(writer, &state, "output.weight", c.type, c.n_embd, c.n_vocab);
}

bool write_tiny_llama(const char *path, const struct tiny_llama *config)
{
    struct gguf_writer *writer = gguf_create(3);
    gguf_add_tiny_llama(writer, config);
    bool written = gguf_save(writer, path);
    gguf_destroy(writer);
    return written;
}
