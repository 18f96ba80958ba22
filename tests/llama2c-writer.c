/* llama2c-writer.c: see llama2c-writer.h. */
#include "llama2c-writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-writer.h"

#define HEADER_SIZE 256
#define MAX_PARTS   12

/* A part of the weights: its place in version 0's order and what it is. */
struct part {
    size_t start, count; /* floats, all layers together */
    size_t n_tensors;
    bool is_norm;
};

struct out {
    uint8_t *data; /* [size], room for [capacity] */
    size_t size, capacity;
};

static void put(struct out *out, const void *data, size_t size)
{
    if (out->size + size > out->capacity) {
        out->capacity = (out->size + size) * 2;
        out->data = realloc(out->data, out->capacity);
        if (!out->data) abort();
    }
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

/* Parts in version 0's order; returns how many. */
static size_t list_parts(const struct llama2c_shape *s, struct part *parts)
{
    size_t dim = s->dim, layers = s->n_layers, hidden = s->hidden_dim;
    size_t kv_dim = dim / s->n_heads * s->n_kv_heads, start = 0, n = 0;
    const struct {
        size_t size, n_tensors;
        bool is_norm;
    } list[MAX_PARTS] = {
        {s->n_vocab * dim, 1, false},
        {dim, layers, true},
        {dim * dim, layers, false},
        {dim * kv_dim, layers, false},
        {dim * kv_dim, layers, false},
        {dim * dim, layers, false},
        {dim, layers, true},
        {dim * hidden, layers, false},
        {dim * hidden, layers, false},
        {dim * hidden, layers, false},
        {dim, 1, true},
        {s->tied ? 0 : s->n_vocab * dim, 1, false},
    };
    for (; n < MAX_PARTS; n++) {
        parts[n] = (struct part){start, list[n].size * list[n].n_tensors, list[n].n_tensors, list[n].is_norm};
        start += parts[n].count;
    }
    return n;
}

size_t llama2c_weight_count(const struct llama2c_shape *shape)
{
    struct part parts[MAX_PARTS];
    size_t n = list_parts(shape, parts);
    return parts[n - 1].start + parts[n - 1].count;
}

float *llama2c_random_weights(const struct llama2c_shape *shape, uint64_t seed)
{
    size_t count = llama2c_weight_count(shape);
    float *weights = malloc(count * sizeof *weights);
    if (!weights) abort();
    struct part parts[MAX_PARTS];
    size_t n = list_parts(shape, parts);
    float limit = sqrtf(3.0f / (float)shape->dim);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < parts[i].count; j++)
            weights[parts[i].start + j] =
                parts[i].is_norm ? 1 + random_float(&seed, 0.2f) : random_float(&seed, limit);
    return weights;
}

static void put_numbers(struct out *out, const struct llama2c_shape *s, bool negative)
{
    int32_t n_vocab = (int32_t)s->n_vocab;
    int32_t numbers[] = {(int32_t)s->dim,        (int32_t)s->hidden_dim, (int32_t)s->n_layers,
                         (int32_t)s->n_heads,    (int32_t)s->n_kv_heads, negative ? -n_vocab : n_vocab,
                         (int32_t)s->n_positions};
    put(out, numbers, sizeof numbers);
}

static void put_version_0(struct out *out, const struct llama2c_shape *shape, const float *weights)
{
    size_t count = llama2c_weight_count(shape);
    size_t output = shape->tied ? 0 : (size_t)shape->n_vocab * shape->dim;
    size_t n_rope = (size_t)shape->n_positions * (shape->dim / shape->n_heads); /* cosines and sines */
    put_numbers(out, shape, !shape->tied);
    put(out, weights, (count - output) * sizeof *weights);
    for (size_t i = 0; i < n_rope; i++) put(out, &(float){0}, sizeof(float));
    put(out, weights + count - output, output * sizeof *weights);
}

/* int8 in groups: the largest of a group becomes 127. First all int8, then all scales. */
static void put_groups(struct out *out, const float *weights, size_t count, size_t n_group)
{
    float *scales = calloc(count / n_group, sizeof *scales);
    if (!scales || count % n_group != 0) abort();
    for (size_t g = 0; g < count / n_group; g++) {
        const float *group = weights + g * n_group;
        float limit = 0;
        for (size_t i = 0; i < n_group; i++) limit = fmaxf(limit, fabsf(group[i]));
        scales[g] = limit / 127;
        for (size_t i = 0; i < n_group; i++) {
            int8_t q = (int8_t)(limit > 0 ? roundf(group[i] / scales[g]) : 0);
            put(out, &q, 1);
        }
    }
    put(out, scales, count / n_group * sizeof *scales);
    free(scales);
}

static void put_later_version(struct out *out, const struct llama2c_shape *shape, const float *weights,
                              uint32_t version, uint32_t n_group)
{
    static const uint8_t zeros[HEADER_SIZE];
    static const size_t order[MAX_PARTS] = {1, 6, 10, 0, 2, 3, 4, 5, 7, 8, 9, 11}; /* norms come first */
    struct part parts[MAX_PARTS];
    uint8_t tied = shape->tied;
    put(out, &(uint32_t){0x616b3432}, 4);
    put(out, &version, 4);
    put_numbers(out, shape, false);
    put(out, &tied, 1);
    if (version == 2) put(out, &n_group, 4);
    put(out, zeros, HEADER_SIZE - out->size);

    size_t n = list_parts(shape, parts);
    for (size_t i = 0; i < n; i++) {
        const struct part *part = &parts[order[i]];
        size_t size = part->count / part->n_tensors;
        if (size == 0) continue; /* no output matrix */
        for (size_t t = 0; t < part->n_tensors; t++) {
            const float *tensor = weights + part->start + t * size;
            if (version == 2 && !part->is_norm)
                put_groups(out, tensor, size, n_group);
            else
                put(out, tensor, size * sizeof *tensor);
        }
    }
}

uint8_t *llama2c_checkpoint(const struct llama2c_shape *shape, const float *weights, uint32_t version,
                            uint32_t n_group, size_t *size)
{
    struct out out = {0};
    if (version == 0)
        put_version_0(&out, shape, weights);
    else
        put_later_version(&out, shape, weights, version, n_group);
    *size = out.size;
    return out.data;
}

float *llama2c_parse(const uint8_t *file, size_t size, struct llama2c_shape *shape)
{
    int32_t numbers[7];
    if (size < sizeof numbers) abort();
    memcpy(numbers, file, sizeof numbers);
    *shape = (struct llama2c_shape){
        .dim = (uint32_t)numbers[0],
        .hidden_dim = (uint32_t)numbers[1],
        .n_layers = (uint32_t)numbers[2],
        .n_heads = (uint32_t)numbers[3],
        .n_kv_heads = (uint32_t)numbers[4],
        .n_vocab = (uint32_t)abs(numbers[5]),
        .n_positions = (uint32_t)numbers[6],
        .tied = numbers[5] > 0,
    };
    size_t count = llama2c_weight_count(shape);
    size_t output = shape->tied ? 0 : (size_t)shape->n_vocab * shape->dim;
    float *weights = malloc(count * sizeof *weights);
    if (!weights || size < sizeof numbers + count * sizeof *weights) abort();
    memcpy(weights, file + sizeof numbers, (count - output) * sizeof *weights);
    if (output)
        memcpy(weights + count - output, file + size - output * sizeof *weights, output * sizeof *weights);
    return weights;
}

uint8_t *llama2c_tokenizer(uint32_t n_tokens, size_t *size)
{
    struct out out = {0};
    put(&out, &(int32_t){6}, 4);
    for (uint32_t id = 0; id < n_tokens; id++) {
        char text[16];
        tiny_llama_token(id, text);
        if (id == 1) strcpy(text, "\n<s>\n");
        if (id == 2) strcpy(text, "\n</s>\n");
        char *mark = strstr(text, "\xe2\x96\x81"); /* U+2581, a space */
        if (mark) {
            *mark = ' ';
            memmove(mark + 1, mark + 3, strlen(mark + 3) + 1);
        }
        float score = tiny_llama_score(id);
        int32_t length = (int32_t)strlen(text);
        put(&out, &score, sizeof score);
        put(&out, &length, sizeof length);
        put(&out, text, (size_t)length);
    }
    *size = out.size;
    return out.data;
}
