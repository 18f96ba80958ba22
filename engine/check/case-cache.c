/* case-cache.c: see case-cache.h. */
#include "check/case-cache.h"

#include <math.h>
#include <string.h>

#include "check/formats.h"
#include "check/reference.h"

uint32_t case_length(const struct attention_case *c, uint32_t sequence)
{
    return c->length + 7 * sequence;
}

void case_lay_out(struct fixture *fixture, const struct attention_case *c, uint64_t *seed,
                  struct case_batch *batch)
{
    batch->starts = fixture_room(fixture, c->n_sequences, sizeof *batch->starts);
    for (uint32_t s = 0; s < c->n_sequences; s++) {
        batch->starts[s] = batch->n_positions;
        batch->n_positions += case_length(c, s);
        uint32_t blocks = (case_length(c, s) + c->block_size - 1) / c->block_size;
        batch->n_blocks += blocks;
        if (blocks > batch->max_blocks) batch->max_blocks = blocks;
    }
    batch->n_blocks++;
    int32_t *order = fixture_room(fixture, batch->n_blocks, sizeof *order);
    for (uint32_t i = 0; i < batch->n_blocks; i++) order[i] = (int32_t)i;
    for (uint32_t i = batch->n_blocks - 1; i > 0; i--) {
        uint32_t j = random_bits(seed) % (i + 1);
        int32_t swap = order[i];
        order[i] = order[j], order[j] = swap;
    }
    batch->block_table =
        fixture_room(fixture, (size_t)batch->max_blocks * c->n_sequences, sizeof *batch->block_table);
    batch->slots = fixture_room(fixture, batch->n_positions, sizeof *batch->slots);
    memset(batch->block_table, 0x7f, (size_t)batch->max_blocks * c->n_sequences * sizeof *batch->block_table);
    uint32_t next = 0;
    for (uint32_t s = 0; s < c->n_sequences; s++)
        for (uint32_t p = 0; p < case_length(c, s); p++) {
            int32_t *block = &batch->block_table[s * batch->max_blocks + p / c->block_size];
            if (p % c->block_size == 0) *block = order[next++];
            batch->slots[batch->starts[s] + p] =
                *block * (int32_t)c->block_size + (int32_t)(p % c->block_size);
        }
}

void case_choose_tokens(struct fixture *fixture, const struct attention_case *c, struct case_batch *batch)
{
    enum { PIECE = 5 };
    batch->n_tokens = c->tokens * c->n_sequences;
    batch->sequences = fixture_room(fixture, batch->n_tokens, sizeof *batch->sequences);
    batch->positions = fixture_room(fixture, 2 * (size_t)batch->n_tokens, sizeof *batch->positions);
    uint32_t t = 0;
    for (uint32_t from = 0; from < c->tokens; from += PIECE)
        for (uint32_t s = 0; s < c->n_sequences; s++)
            for (uint32_t i = from; i < from + PIECE && i < c->tokens; i++, t++) {
                batch->sequences[t] = (int32_t)s;
                batch->positions[t] = (int32_t)(case_length(c, s) - c->tokens + i);
                int32_t *last = &batch->positions[batch->n_tokens + t];
                *last = batch->positions[t];
                if (c->ahead) *last += (int32_t)(t % 4 * 9);
                if (c->ahead && (t % 5 == 0 || *last >= (int32_t)case_length(c, s)))
                    *last = (int32_t)case_length(c, s) - 1;
                if (c->leave_out && t % 7 == 3) batch->positions[t] = -1;
            }
}

size_t case_row_of(const struct attention_case *c, int32_t slot, uint32_t head)
{
    size_t block = (size_t)slot / c->block_size, within = (size_t)slot % c->block_size;
    return (block * c->n_kv_heads + head) * c->block_size + within;
}

uint8_t *case_cache_bytes(struct fixture *fixture, const struct attention_case *c,
                          const struct case_batch *batch, struct case_cache *cache)
{
    size_t dim = cache->dim, row = format_bytes(cache->type, dim);
    size_t n_rows = (size_t)c->block_size * c->n_kv_heads * batch->n_blocks;
    uint8_t *bytes = fixture_room(fixture, n_rows, row);
    memset(bytes, 0xff, n_rows * row);
    cache->kept = fixture_room(fixture, dim * c->n_kv_heads * batch->n_positions, sizeof *cache->kept);
    const struct format *format = format_of(cache->type);
    for (uint32_t p = 0; p < batch->n_positions; p++)
        for (uint32_t head = 0; head < c->n_kv_heads; head++) {
            size_t first = ((size_t)p * c->n_kv_heads + head) * dim;
            uint8_t *at = bytes + case_row_of(c, batch->slots[p], head) * row;
            reference_cache_row(cache->type, cache->values + first, dim, at);
            for (size_t d = 0; d < dim; d += format->block_length, at += format->block_size)
                block_values(format, at, cache->kept + first + d);
            for (size_t d = first; d < first + dim; d++)
                cache->largest = fmax(cache->largest, fabs(cache->kept[d]));
            if (c->spoiled && p >= batch->starts[c->n_sequences - 1])
                memset(bytes + case_row_of(c, batch->slots[p], head) * row, 0xff, row);
        }
    return bytes;
}

struct engine_tensor *case_cache_tensor(struct fixture *fixture, const struct attention_case *c,
                                        const struct case_batch *batch, const struct case_cache *cache,
                                        const uint8_t *bytes)
{
    struct fixture_gaps gaps = c->cache_gaps;
    uint64_t ne[4] = {cache->dim, c->block_size, c->n_kv_heads, batch->n_blocks};
    if (cache->type == ENGINE_TYPE_F32) gaps.row *= 2, gaps.plane *= 2, gaps.volume *= 2;
    return fixture_view(fixture, cache->type, ne, &gaps, bytes);
}

struct case_cache case_make_cache(struct fixture *fixture, const struct attention_case *c,
                                  const struct case_batch *batch, uint32_t type, uint32_t dim, uint64_t *seed,
                                  float common)
{
    struct case_cache cache = {.type = type, .dim = dim};
    size_t n = (size_t)dim * c->n_kv_heads * batch->n_positions;
    cache.values = fixture_hold(fixture, random_floats(seed, n));
    for (size_t i = 0; i < n && common != 0; i += dim) cache.values[i] = common;
    cache.tensor = case_cache_tensor(fixture, c, batch, &cache, case_cache_bytes(fixture, c, batch, &cache));
    return cache;
}
