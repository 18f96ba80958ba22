/* backend-attention.c: the paged cache and attention; see backend-cases.h. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend-cases.h"

struct cache {
    uint32_t type;
    float *values;                /* [head_dim, n_kv_heads, position of all sequences] as they are written */
    double *read;                 /* the same as the cache's type keeps them */
    struct engine_tensor *tensor; /* [head_dim, block_size, n_kv_heads, n_blocks] */
};

struct batch {
    uint32_t n_positions, n_blocks, max_blocks, n_tokens;
    uint32_t *starts;               /* [n_sequences] first of each sequence's positions among all */
    int32_t *block_table;           /* [max_blocks, n_sequences] */
    int32_t *slots;                 /* [n_positions] */
    int32_t *sequences, *positions; /* [n_tokens] */
};

static uint32_t length_of(const struct attention_case *c, uint32_t sequence)
{
    return c->length + 7 * sequence;
}

static void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n, size);
    cr_assert(memory);
    return memory;
}

/* Lays the sequences out in blocks, in random order, one block left free. */
static void lay_out(const struct attention_case *c, uint64_t *seed, struct batch *batch)
{
    batch->starts = allocate(c->n_sequences, sizeof *batch->starts);
    for (uint32_t s = 0; s < c->n_sequences; s++) {
        batch->starts[s] = batch->n_positions;
        batch->n_positions += length_of(c, s);
        uint32_t blocks = (length_of(c, s) + c->block_size - 1) / c->block_size;
        batch->n_blocks += blocks;
        if (blocks > batch->max_blocks) batch->max_blocks = blocks;
    }
    batch->n_blocks++;
    int32_t *order = allocate(batch->n_blocks, sizeof *order);
    for (uint32_t i = 0; i < batch->n_blocks; i++) order[i] = (int32_t)i;
    for (uint32_t i = batch->n_blocks - 1; i > 0; i--) {
        uint32_t j = random_bits(seed) % (i + 1);
        int32_t swap = order[i];
        order[i] = order[j], order[j] = swap;
    }
    batch->block_table = allocate((size_t)batch->max_blocks * c->n_sequences, sizeof *batch->block_table);
    batch->slots = allocate(batch->n_positions, sizeof *batch->slots);
    memset(batch->block_table, 0x7f, (size_t)batch->max_blocks * c->n_sequences * sizeof *batch->block_table);
    uint32_t next = 0;
    for (uint32_t s = 0; s < c->n_sequences; s++)
        for (uint32_t p = 0; p < length_of(c, s); p++) {
            int32_t *block = &batch->block_table[s * batch->max_blocks + p / c->block_size];
            if (p % c->block_size == 0) *block = order[next++];
            batch->slots[batch->starts[s] + p] =
                *block * (int32_t)c->block_size + (int32_t)(p % c->block_size);
        }
    free(order);
}

/* The last positions of each sequence, in pieces that take turns. */
static void choose_tokens(const struct attention_case *c, struct batch *batch)
{
    enum { PIECE = 5 };
    batch->n_tokens = c->tokens * c->n_sequences;
    batch->sequences = allocate(batch->n_tokens, sizeof *batch->sequences);
    batch->positions = allocate(batch->n_tokens, sizeof *batch->positions);
    uint32_t t = 0;
    for (uint32_t from = 0; from < c->tokens; from += PIECE)
        for (uint32_t s = 0; s < c->n_sequences; s++)
            for (uint32_t i = from; i < from + PIECE && i < c->tokens; i++, t++) {
                batch->sequences[t] = (int32_t)s;
                batch->positions[t] = (int32_t)(length_of(c, s) - c->tokens + i);
                if (c->leave_out && t % 7 == 3) batch->positions[t] = -1;
            }
}

/* What a row of the cache is after it was written in its type, by the definition in plugin-api.h. */
static void convert(uint32_t type, const float *values, size_t n, double *read)
{
    for (size_t i = 0; i < n; i++) read[i] = (double)values[i];
    if (type == ENGINE_TYPE_F16)
        for (size_t i = 0; i < n; i++) read[i] = half_value(half_of(read[i]));
    for (size_t block = 0; type == ENGINE_TYPE_Q8_0 && block < n; block += 32) {
        double max = 0;
        for (size_t i = block; i < block + 32; i++) max = fmax(max, fabs(read[i]));
        double d = half_value(half_of((double)(float)(max / 127)));
        for (size_t i = block; i < block + 32; i++) read[i] = max > 0 ? d * round(read[i] * 127 / max) : 0;
    }
}

static void fill_cache(struct fixture *fixture, const struct attention_case *c, const struct batch *batch,
                       uint64_t *seed, struct cache *cache)
{
    size_t row = c->head_dim, n = row * c->n_kv_heads * batch->n_positions;
    cache->values = random_floats(seed, n);
    cache->read = allocate(n, sizeof *cache->read);
    for (size_t i = 0; i < n; i += row) convert(cache->type, cache->values + i, row, cache->read + i);
    uint64_t ne[4] = {c->head_dim, c->block_size, c->n_kv_heads, batch->n_blocks};
    cache->tensor = fixture_tensor(fixture, cache->type, ne, NULL);
    struct engine_op_cache_write args = {
        sizeof args, fixture_f32(fixture, row, c->n_kv_heads, batch->n_positions, cache->values),
        fixture_i32(fixture, batch->n_positions, 1, batch->slots), cache->tensor};
    fixture_run(fixture, ENGINE_OP_CACHE_WRITE, &args);
}

/* One head of one token in double precision. */
static void attend(const struct attention_case *c, const struct batch *batch, const struct cache *k,
                   const struct cache *v, size_t token, size_t head, const float *q, double scale,
                   double *out)
{
    size_t kv_head = head / (c->n_heads / c->n_kv_heads), row = c->head_dim;
    int64_t position = batch->positions[token], first = c->window ? position - c->window + 1 : 0;
    size_t start = batch->starts[batch->sequences[token]];
    double *scores = allocate((size_t)position + 1, sizeof *scores), max = -INFINITY, sum = 0;
    for (int64_t j = first > 0 ? first : 0; j <= position; j++) {
        const double *key = k->read + ((start + (size_t)j) * c->n_kv_heads + kv_head) * row;
        for (size_t d = 0; d < row; d++) scores[j] += (double)q[d] * key[d] * scale;
        max = fmax(max, scores[j]);
    }
    for (int64_t j = first > 0 ? first : 0; j <= position; j++) {
        const double *value = v->read + ((start + (size_t)j) * c->n_kv_heads + kv_head) * row;
        double weight = exp(scores[j] - max);
        sum += weight;
        for (size_t d = 0; d < row; d++) out[d] += weight * value[d];
    }
    for (size_t d = 0; d < row; d++) out[d] /= sum;
    free(scores);
}

static void check_attention(const struct attention_case *c, const struct batch *batch, const struct cache *k,
                            const struct cache *v, const float *q, double scale, const float *output)
{
    /* A value on the border between two steps of Q8_0 may come out as either. */
    double bound = k->type == ENGINE_TYPE_Q8_0 || v->type == ENGINE_TYPE_Q8_0 ? 1e-3 : 3e-6;
    double *wanted = allocate(c->head_dim, sizeof *wanted);
    for (size_t i = 0; i < (size_t)batch->n_tokens * c->n_heads; i++) {
        size_t token = i / c->n_heads;
        memset(wanted, 0, c->head_dim * sizeof *wanted);
        if (batch->positions[token] >= 0)
            attend(c, batch, k, v, token, i % c->n_heads, q + i * c->head_dim, scale, wanted);
        for (size_t d = 0; d < c->head_dim; d++) {
            double got = (double)output[i * c->head_dim + d];
            cr_assert(fabs(got - wanted[d]) <= bound,
                      "attention: token %zu, head %zu, value %zu is %.9g, not %.9g", token, i % c->n_heads, d,
                      got, wanted[d]);
        }
    }
    free(wanted);
}

float *run_attention_case(struct fixture *fixture, const struct attention_case *c)
{
    uint64_t seed = c->head_dim + c->length * 11;
    struct batch batch = {0};
    lay_out(c, &seed, &batch);
    choose_tokens(c, &batch);
    struct cache k = {.type = c->k_type}, v = {.type = c->v_type};
    fill_cache(fixture, c, &batch, &seed, &k);
    fill_cache(fixture, c, &batch, &seed, &v);
    float *q = random_floats(&seed, (size_t)c->head_dim * c->n_heads * batch.n_tokens);
    struct engine_op_attention args = {
        .struct_size = sizeof args,
        .q = fixture_strided(fixture, c->head_dim, c->n_heads, batch.n_tokens, c->gap, q),
        .k = k.tensor,
        .v = v.tensor,
        .block_table = fixture_i32(fixture, batch.max_blocks, c->n_sequences, batch.block_table),
        .sequences = fixture_i32(fixture, batch.n_tokens, 1, batch.sequences),
        .positions = fixture_i32(fixture, batch.n_tokens, 1, batch.positions),
        .output = fixture_strided(fixture, c->head_dim, c->n_heads, batch.n_tokens, c->gap, NULL),
        .scale = 1 / sqrtf((float)c->head_dim),
        .window = c->window,
    };
    fixture_run(fixture, ENGINE_OP_ATTENTION, &args);
    float *output = fixture_read(fixture, args.output);
    check_attention(c, &batch, &k, &v, q, (double)args.scale, output);
    free(k.values), free(k.read), free(v.values), free(v.read), free(q);
    free(batch.starts), free(batch.block_table), free(batch.slots), free(batch.sequences),
        free(batch.positions);
    return output;
}
