/* int8.h: template of the matmul kernels of integer types: chunks to tiles, tiles times many tokens, chunks
 * times one. The layout of chunks is described in pack.h. Expects vec-*.h, vec.h, tiles.h.
 * INT8_PARTS is how many vectors of a row are multiplied at once: they share the broadcast activations.
 *
 * The same code multiplies tiles and chunks: a tile is a chunk whose codes have 8 bits. `format` is a
 * constant in every copy. */
#include "half.h"
#include "pack.h"
#include "scalar.h"

/* ---- Chunks ---------------------------------------------------------------------------------------- */

/* The bytes of columns 4 j … 4 j + 3 of a group, for LANES rows; `group` points at these rows. */
FLATTEN vb weight_bytes(const struct format *format, const uint8_t *group, const size_t j)
{
    const uint8_t *behind = group + GROUP * PANEL / 8 * (size_t)format->base;
    const size_t row = PANEL * 4; /* bytes of a [PANEL][4] */
    vb q;
    switch (format->base) {
    case 8: return vb_load(group + j * row);
    case 4: q = vb_bits(vb_load(group + j % 4 * row), j / 4 * 4, 4, 0); break;
    default: q = vb_bits(vb_load(group + j / 4 * row), j % 4 * 2, 2, 0); break;
    }
    if (format->high == 1) q = vb_or(q, vb_bits(vb_load(behind), (unsigned)j, 1, format->base));
    if (format->high == 2) q = vb_or(q, vb_bits(vb_load(behind + j / 4 * row), j % 4 * 2, 2, format->base));
    return format->values ? vb_lookup(q, format->values) : q;
}

/* Writes the scales and mins of a chunk to the tile's stores. */
FLATTEN void unpack_scales(const struct format *format, const uint8_t *chunk, const size_t n,
                           struct tile *tile)
{
    const struct chunk_layout layout = chunk_layout(format, n);
    const bool small = format->block == 32, nibbles = format->scales == SCALES_NIBBLES;
    float *scales = tile->scales_store, *mins = tile->mins_store;
    tile->scales = scales;
    tile->mins = format->mins ? mins : NULL;
    if (small) {
        for (size_t i = 0; i < n / 32 * PANEL; i += LANES) {
            if (format->scales == SCALES_POWER)
                for (size_t r = i; r < i + LANES; r++) scales[r] = engine_power_to_f32(chunk[r]);
            else
                vf_store(scales + i, vf_from_f16(chunk + 2 * i));
            if (format->mins) vf_store(mins + i, vf_sub(vf_zero(), vf_from_f16(chunk + layout.dmin + 2 * i)));
        }
        return;
    }
    for (size_t part = 0; part < PANEL; part += LANES) {
        vf d = vf_from_f16(chunk + 2 * part), dmin = vf_zero();
        if (format->mins) dmin = vf_sub(vf_zero(), vf_from_f16(chunk + layout.dmin + 2 * part));
        for (size_t i = part; i < n / format->sub * PANEL; i += PANEL) {
            uint8_t low[LANES], high[LANES];
            const uint8_t *scale = chunk + layout.scales + i, *min = chunk + layout.mins + i;
            for (size_t r = 0; nibbles && r < LANES; r++) {
                low[r] = scale[r] & 15;
                high[r] = scale[r] >> 4;
            }
            vf_store(scales + i, vf_mul(d, vf_from_i8(nibbles ? low : scale)));
            if (format->mins) vf_store(mins + i, vf_mul(dmin, vf_from_i8(nibbles ? high : min)));
        }
    }
}

/* Whether tiles point to the codes in the chunk. Pairs of tiles do so for nibbles too: masking them again for
 * every few tokens costs less than storing bytes once and loading them. */
FLATTEN bool stays_packed(const struct format *format)
{
#ifdef INT8_TILE_PAIRS
    if (format->base == 4 && !format->high && !format->values) return true;
#endif
    return format->base == 8;
}

FLATTEN void unpack_chunk(const struct format *format, const uint8_t *chunk, const size_t n,
                          struct tile *tile)
{
    unpack_scales(format, chunk, n, tile);
    const uint8_t *quants = chunk + chunk_layout(format, n).quants;
    tile->q = quants;
    tile->nibbles = format->base == 4 && stays_packed(format);
    if (stays_packed(format)) return;
    uint8_t *q = tile->q_store;
    for (size_t i = 0; i < n; i += GROUP, quants += group_size(format), q += GROUP * PANEL)
        for (size_t part = 0; part < PANEL * 4; part += LANES * 4)
            UNROLL for (size_t j = 0; j < GROUP / 4; j++)
                vb_store(q + j * PANEL * 4 + part, weight_bytes(format, quants + part, j));
    tile->q = tile->q_store;
}

#define X(NAME, name)                                                                                        \
    static void unpack_##name(const struct weight_type *type, const uint8_t *chunk, size_t n,                \
                              struct tile *tile)                                                             \
    {                                                                                                        \
        (void)type;                                                                                          \
        unpack_chunk(&format_##name, chunk, n, tile);                                                        \
    }
PACKED_TYPES(X)
#undef X

/* Activations of the columns CHUNK further on. */
FLATTEN struct int8_activations int8_next_chunk(struct int8_activations at, const size_t n_tokens)
{
    size_t n_scales = CHUNK / GROUP * n_tokens;
    return (struct int8_activations){
        at.q + CHUNK * n_tokens, at.scales + n_scales, {at.minus[0] + n_scales, at.minus[1] + 2 * n_scales}};
}

/* Memory to prefetch while other memory is multiplied: the lines of a chunk are divided among the sets of
 * tokens that are multiplied with the previous chunk, a number for each group of columns. */
struct ahead {
    size_t lines, first, all; /* first: lines for each group that earlier sets have prefetched */
};

static inline struct ahead ahead_of(const struct tile *tile, size_t n_tokens, size_t set)
{
    size_t n_sets = (n_tokens + set - 1) / set;
    return (struct ahead){.lines = (tile->ahead_lines + n_sets - 1) / n_sets, .all = tile->ahead_lines};
}

static inline struct ahead ahead_next(struct ahead ahead)
{
    ahead.first += ahead.lines;
    if (ahead.first >= ahead.all) ahead.lines = 0;
    return ahead;
}

FLATTEN const uint8_t *ahead_at(const uint8_t *next, const struct ahead ahead, size_t group)
{
    return next + (ahead.first * (CHUNK / GROUP) + group * ahead.lines) * 64;
}

/* ---- Products -------------------------------------------------------------------------------------- */

static inline int32_t load_four(const int8_t *from)
{
    int32_t four;
    memcpy(&four, from, 4);
    return four;
}

/* How many sums of two products fit into an int16 without overflow, for q up to `most`, if sums aren't made
 * in 32 bits at once; 0: products take q - 128 instead of q, which has all 8 bits (and offset is 128). */
static inline size_t sums_in_16_bits(unsigned most)
{
    if (most > VEC_MAX) return 0;
    return VEC_DOT4 || most <= 15 ? 8 : most > 63 ? 1 : most > 31 ? 2 : 4;
}

/* The integer sums of columns 4 begin … 4 end - 1 of a group: sum[p][t] += weights x activations. */
#if VEC_DOT4 == 1
FLATTEN void vb_dot4_tokens(vi *sum, vb w, const int8_t *activations, const size_t n_tokens)
{
    UNROLL for (size_t t = 0; t < n_tokens; t++) sum[t] = vb_dot4(sum[t], w, load_four(activations + t * 4));
}
#endif

#if VEC_DOT4
FLATTEN void integer_sums(const struct format *format, const uint8_t *group, const size_t begin,
                          const size_t end, const int8_t *activations, const size_t n_tokens,
                          const size_t pairs, vi sum[INT8_PARTS][TILE_TOKENS])
{
    UNROLL for (size_t j = begin; j < end; j++) UNROLL for (size_t p = 0; p < INT8_PARTS; p++)
    {
        vb w = weight_bytes(format, group + p * LANES * 4, j);
        vb_dot4_tokens(sum[p], pairs ? w : vb_flip_signs(w), activations + j * n_tokens * 4, n_tokens);
    }
}
#else
FLATTEN void integer_sums(const struct format *format, const uint8_t *group, const size_t begin,
                          const size_t end, const int8_t *activations, const size_t n_tokens,
                          const size_t pairs, vi sum[INT8_PARTS][TILE_TOKENS])
{
    const size_t all = end - begin, run = pairs == 0 ? 1 : pairs < all ? pairs : all;
    UNROLL for (size_t first = begin; first < end; first += run)
    {
        vb short_sum[INT8_PARTS][TILE_TOKENS];
        UNROLL for (size_t j = first; j < first + run; j++)
        {
            vb w[INT8_PARTS];
            UNROLL for (size_t p = 0; p < INT8_PARTS; p++)
            {
                w[p] = weight_bytes(format, group + p * LANES * 4, j);
                if (!pairs) w[p] = vb_flip_signs(w[p]); /* q - 128 */
            }
            UNROLL for (size_t t = 0; t < n_tokens; t++)
            {
                vb a = vi_set1(load_four(activations + (j * n_tokens + t) * 4));
                UNROLL for (size_t p = 0; p < INT8_PARTS; p++)
                {
                    vb two = pairs ? vb_dot2(w[p], a) : vb_dot2_signed(w[p], a);
                    short_sum[p][t] = j == first ? two : vb_add16(short_sum[p][t], two);
                    if (run > 1) KEEP_VECTOR(short_sum[p][t]);
                }
            }
        }
        UNROLL for (size_t t = 0; t < n_tokens; t++) UNROLL for (size_t p = 0; p < INT8_PARTS; p++)
        {
            sum[p][t] = vi_add(sum[p][t], vb_widen(short_sum[p][t]));
            if (run == 1) KEEP_VECTOR(sum[p][t]);
        }
    }
}
#endif

/* Values made from the sums of activations, each [n / sub][n_tokens]. */
struct token_sums {
    _Alignas(64) int32_t start[CHUNK / 16 * TILE_TOKENS]; /* sum of (q - offset) * a = start + sum of q * a */
    _Alignas(64) float values[CHUNK / 16 * TILE_TOKENS];  /* multiplied with mins */
};

FLATTEN void sum_tokens(struct token_sums *to, const int offset, const bool mins,
                        const struct int8_activations *activations, const size_t n, const size_t n_tokens,
                        const size_t sub)
{
    const size_t per_group = GROUP / sub;
    const int32_t *minus = activations->minus[per_group - 1];
    for (size_t i = 0; i < n / sub * n_tokens; i++) to->start[i] = offset * minus[i];
    if (!mins) return;
    for (size_t s = 0; s < n / sub; s += per_group, minus += per_group * n_tokens)
        for (size_t i = 0; i < per_group * n_tokens; i++)
            to->values[s * n_tokens + i] =
                (float)-minus[i] * activations->scales[s / per_group * n_tokens + i % n_tokens];
}

/* sums[t][row] += n columns x activations. The codes of the columns are at `quants`, scales and mins (if any)
 * in the tile. next: memory to be prefetched meanwhile. */
FLATTEN void int8_columns(const struct format *format, const uint8_t *quants, const struct tile *tile,
                          int offset, const struct int8_activations *activations, const size_t n,
                          const size_t n_tokens, const size_t sub, const size_t pairs, const bool mins,
                          const uint8_t *next, const struct ahead ahead, float *sums)
{
    struct token_sums token_sums;
    if (pairs == 0) offset = 0; /* flipping signs subtracts it */
    sum_tokens(&token_sums, offset, mins, activations, n, n_tokens, sub);
    const size_t per_group = GROUP / sub;
    for (size_t part = 0; part < PANEL; part += LANES * INT8_PARTS) {
        vf total[INT8_PARTS][TILE_TOKENS];
        UNROLL for (size_t p = 0; p < INT8_PARTS; p++) UNROLL for (size_t t = 0; t < n_tokens; t++)
            total[p][t] = vf_load(sums + t * PANEL + part + p * LANES);
        for (size_t g = 0; g < n / GROUP; g++) {
            const float *scales = activations->scales + g * n_tokens;
            const uint8_t *group = quants + g * group_size(format) + part * 4;
            const int8_t *q = activations->q + g * GROUP * n_tokens;
            KEEP_POINTER(scales);
            KEEP_POINTER(group);
            KEEP_POINTER(q);
            if (part == 0) prefetch_lines(ahead_at(next, ahead, g), ahead.lines);
            UNROLL for (size_t h = 0; h < per_group; h++)
            {
                size_t s = g * per_group + h;
                vi sum[INT8_PARTS][TILE_TOKENS];
                vf scale[INT8_PARTS];
                UNROLL for (size_t p = 0; p < INT8_PARTS; p++) UNROLL for (size_t t = 0; t < n_tokens; t++)
                    sum[p][t] = vi_set1(token_sums.start[s * n_tokens + t]);
                integer_sums(format, group, h * sub / 4, (h + 1) * sub / 4, q, n_tokens, pairs, sum);
                UNROLL for (size_t p = 0; p < INT8_PARTS; p++) scale[p] =
                    vf_load(tile->scales + s * PANEL + part + p * LANES);
                UNROLL for (size_t t = 0; t < n_tokens; t++) UNROLL for (size_t p = 0; p < INT8_PARTS; p++)
                    total[p][t] =
                        vf_fma(vi_to_vf(sum[p][t]), vf_mul(scale[p], vf_set1(scales[t])), total[p][t]);
                if (!mins) continue;
                UNROLL for (size_t p = 0; p < INT8_PARTS; p++)
                {
                    vf min = vf_load(tile->mins + s * PANEL + part + p * LANES);
                    UNROLL for (size_t t = 0; t < n_tokens; t++) total[p][t] =
                        vf_fma(min, vf_set1(token_sums.values[s * n_tokens + t]), total[p][t]);
                }
            }
        }
        UNROLL for (size_t p = 0; p < INT8_PARTS; p++) UNROLL for (size_t t = 0; t < n_tokens; t++)
            vf_store(sums + t * PANEL + part + p * LANES, total[p][t]);
    }
}

/* ---- Many tokens: tiles ---------------------------------------------------------------------------- */

#ifdef INT8_TILE_PAIRS
/* Two panels: each broadcast activation serves both, which halves the loads. tiles: [chunk][panel], for n
 * columns in all. Sums of up to INT8_TILE_TOKENS tokens stay in registers until the last of them; those of
 * more are in memory, so that registers hold the whole numbers. */
FLATTEN void int8_pair_columns(const struct format *format, const struct tile *const tiles[][2], int offset,
                               struct int8_activations at, const size_t n, const size_t n_tokens,
                               const size_t sub, const bool mins, const struct ahead ahead,
                               float *const sums[2])
{
    const size_t per_group = GROUP / sub;
    struct token_sums token_sums;
    const bool kept = n_tokens <= INT8_TILE_TOKENS;
    float *const to[2] = {sums[0], sums[1]};
    vf total[2][TILE_TOKENS]; /* if kept */
    if (kept)
        UNROLL for (size_t p = 0; p < 2; p++) UNROLL for (size_t t = 0; t < n_tokens; t++) total[p][t] =
            vf_load(to[p] + t * PANEL);
    for (size_t first = 0; first < n; first += CHUNK, tiles++, at = int8_next_chunk(at, n_tokens)) {
        const struct tile *const tile[2] = {tiles[0][0], tiles[0][1]};
        size_t n_here = smaller(CHUNK, n - first);
        sum_tokens(&token_sums, offset, mins, &at, n_here, n_tokens, sub);
        for (size_t s = 0; s < n_here / sub; s++) {
            const int8_t *a = at.q + s * sub * n_tokens;
            const float *scales = at.scales + s / per_group * n_tokens;
            if (s % per_group == 0)
                UNROLL for (size_t p = 0; p < 2; p++)
                    prefetch_lines_near(ahead_at(tile[p]->ahead, ahead, s / per_group), ahead.lines);
            vi sum[2][TILE_TOKENS];
            UNROLL for (size_t t = 0; t < n_tokens; t++) sum[0][t] = sum[1][t] =
                mins ? vi_zero() : vi_set1(token_sums.start[s * n_tokens + t]);
            UNROLL for (size_t j = 0; j < sub / 4; j++)
            {
                vb w[2];
                UNROLL for (size_t p = 0; p < 2; p++) w[p] = weight_bytes(
                    format, tile[p]->q + s / per_group * group_size(format), s % per_group * sub / 4 + j);
                UNROLL for (size_t t = 0; t < n_tokens; t++)
                {
                    int32_t four = load_four(a + (j * n_tokens + t) * 4);
                    UNROLL for (size_t p = 0; p < 2; p++) sum[p][t] = vb_dot4(sum[p][t], w[p], four);
                }
            }
            UNROLL for (size_t p = 0; p < 2; p++)
            {
                vf scale = vf_load(tile[p]->scales + s * PANEL), min = vf_zero();
                if (mins) min = vf_load(tile[p]->mins + s * PANEL);
                UNROLL for (size_t t = 0; t < n_tokens; t++)
                {
                    vf all = kept ? total[p][t] : vf_load(to[p] + t * PANEL);
                    all = vf_fma(vi_to_vf(sum[p][t]), vf_mul(scale, vf_set1(scales[t])), all);
                    if (mins) all = vf_fma(min, vf_set1(token_sums.values[s * n_tokens + t]), all);
                    if (kept)
                        total[p][t] = all;
                    else
                        vf_store(to[p] + t * PANEL, all);
                }
            }
        }
    }
    if (!kept) return;
    UNROLL for (size_t p = 0; p < 2; p++) UNROLL for (size_t t = 0; t < n_tokens; t++)
        vf_store(to[p] + t * PANEL, total[p][t]);
}

typedef void int8_pair(const struct tile *const tiles[][2], int offset, const struct int8_activations *at,
                       size_t n, size_t n_tokens, struct ahead ahead, float *const sums[2]);
#define INT8_PAIR(name, most)                                                                                \
    static void name(const struct tile *const tiles[][2], int offset, const struct int8_activations *at,     \
                     size_t n, size_t n_tokens, struct ahead ahead, float *const sums[2])                    \
    {                                                                                                        \
        FOR_TOKENS(most, n_tokens, name##_call)                                                              \
    }
#define PAIR_CALL(format, count, sub, mins)                                                                  \
    int8_pair_columns(&format, tiles, offset, *at, n, count, sub, mins, ahead, sums)

#define int8_pair_32_call(count)           PAIR_CALL(format_raw32, count, 32, false)
#define int8_pair_16_call(count)           PAIR_CALL(format_raw32, count, 16, false)
#define int8_pair_32_mins_call(count)      PAIR_CALL(format_raw32, count, 32, true)
#define int8_pair_16_mins_call(count)      PAIR_CALL(format_raw32, count, 16, true)
#define int8_pair_nibbles_call(count)      PAIR_CALL(format_q4_0, count, 32, false)
#define int8_pair_nibbles_mins_call(count) PAIR_CALL(format_q4_0, count, 32, true)
INT8_PAIR(int8_pair_32, INT8_TILE_TOKENS)
INT8_PAIR(int8_pair_16, INT8_TILE_TOKENS)
INT8_PAIR(int8_pair_32_mins, INT8_TILE_TOKENS)
INT8_PAIR(int8_pair_16_mins, INT8_TILE_TOKENS)
INT8_PAIR(int8_pair_nibbles, NIBBLE_TILE_TOKENS)
INT8_PAIR(int8_pair_nibbles_mins, INT8_TILE_TOKENS)

/* A panel without a partner is multiplied as both panels of a pair. */
#define INT8_PANELS_AT_ONCE 2
static void int8_tiles(const struct tile *tiles, size_t n_panels, const struct weight_type *type,
                       const struct int8_part *part, float *const *sums)
{
    const struct format *format = type->format;
    bool mins = tiles[0].mins != NULL;
    int8_pair *pair = mins ? int8_pair_32_mins : int8_pair_32;
    if (format->sub == 16) pair = mins ? int8_pair_16_mins : int8_pair_16;
    if (tiles[0].nibbles) pair = mins ? int8_pair_nibbles_mins : int8_pair_nibbles;
    const size_t set = tiles[0].nibbles && !mins ? NIBBLE_TILE_TOKENS : INT8_TILE_TOKENS;

    const struct tile *pairs[TILE_CHUNKS][2];
    for (size_t c = 0; c * CHUNK < part->n; c++, tiles += n_panels) {
        pairs[c][0] = &tiles[0];
        pairs[c][1] = &tiles[n_panels - 1];
    }
    float unused[NIBBLE_TILE_TOKENS * PANEL];
    if (n_panels == 1) memset(unused, 0, sizeof unused);
    struct ahead ahead = ahead_of(pairs[0][0], part->n_tokens, set);
    for (size_t t = 0, n_beside; t < part->n_tokens; t += n_beside, ahead = ahead_next(ahead)) {
        n_beside = smaller(set, part->n_tokens - t);
        struct int8_activations at = int8_at(&part->all, part->k, part->first, t, n_beside);
        float *const to[2] = {sums[0] + t * PANEL, n_panels == 2 ? sums[1] + t * PANEL : unused};
        pair((const struct tile *const(*)[2])pairs, format->offset, &at, part->n, n_beside, ahead, to);
    }
}

#else
/* A function for each way in which types differ here. */
#define INT8_TILE(name, sub, pairs)                                                                          \
    static void name(const struct tile *tile, int offset, const struct int8_activations *activations,        \
                     size_t n, size_t n_tokens, struct ahead ahead, float *sums)                             \
    {                                                                                                        \
        FOR_TOKENS(INT8_TILE_TOKENS, n_tokens, name##_call)                                                  \
    }
#define TILE_CALL(count, sub, pairs)                                                                         \
    int8_columns(&format_raw32, tile->q, tile, offset, activations, n, count, sub, pairs,                    \
                 tile->mins != NULL, tile->ahead, ahead, sums)

#define int8_tile_32_8_call(count) TILE_CALL(count, 32, 8)
#define int8_tile_16_8_call(count) TILE_CALL(count, 16, 8)
INT8_TILE(int8_tile_32_8, 32, 8)
INT8_TILE(int8_tile_16_8, 16, 8)
#if VEC_MAX < 255
#define int8_tile_32_0_call(count) TILE_CALL(count, 32, 0)
#define int8_tile_16_0_call(count) TILE_CALL(count, 16, 0)
INT8_TILE(int8_tile_32_0, 32, 0)
INT8_TILE(int8_tile_16_0, 16, 0)
#endif
#if !VEC_DOT4
#define int8_tile_32_4_call(count) TILE_CALL(count, 32, 4)
#define int8_tile_16_2_call(count) TILE_CALL(count, 16, 2)
INT8_TILE(int8_tile_32_4, 32, 4)
INT8_TILE(int8_tile_16_2, 16, 2)
#endif

#define INT8_PANELS_AT_ONCE 1
#define NIBBLE_TILE_TOKENS  INT8_TILE_TOKENS
static void int8_tiles(const struct tile *tiles, size_t n_panels, const struct weight_type *type,
                       const struct int8_part *part, float *const *sums)
{
    (void)n_panels; /* 1 */
    const struct format *format = type->format;
    bool narrow = format->sub == 16;
    void (*tile_of)(const struct tile *tile, int offset, const struct int8_activations *at, size_t n,
                    size_t n_tokens, struct ahead ahead, float *sums) =
        narrow ? int8_tile_16_8 : int8_tile_32_8;
#if VEC_MAX < 255
    if (format->most > VEC_MAX) tile_of = narrow ? int8_tile_16_0 : int8_tile_32_0;
#endif
#if !VEC_DOT4
    size_t pairs = sums_in_16_bits(format->most);
    if (pairs == 4) tile_of = int8_tile_32_4;
    if (pairs == 2) tile_of = int8_tile_16_2;
#endif
    struct ahead ahead = ahead_of(&tiles[0], part->n_tokens, INT8_TILE_TOKENS);
    for (size_t t = 0, n_beside; t < part->n_tokens; t += n_beside, ahead = ahead_next(ahead)) {
        n_beside = smaller(INT8_TILE_TOKENS, part->n_tokens - t);
        struct int8_activations at = int8_at(&part->all, part->k, part->first, t, n_beside);
        for (size_t i = 0; i < part->n; i += CHUNK, at = int8_next_chunk(at, n_beside))
            tile_of(&tiles[i / CHUNK], format->offset, &at, smaller(CHUNK, part->n - i), n_beside, ahead,
                    sums[0] + t * PANEL);
    }
}
#endif

/* ---- A few tokens: chunks -------------------------------------------------------------------------- */

FLATTEN void few_chunk(const struct format *format, const uint8_t *chunk,
                       const struct int8_activations *activations, const size_t n, const size_t n_tokens,
                       struct tile *tile, float *sums)
{
    const struct chunk_layout layout = chunk_layout(format, n);
    prefetch_lines(chunk + PREFETCH_AHEAD, layout.quants / 64);
    unpack_scales(format, chunk, n, tile);
    int8_columns(format, chunk + layout.quants, tile, format->offset, activations, n, n_tokens, format->sub,
                 sums_in_16_bits(format->most), format->mins, chunk + layout.quants + PREFETCH_AHEAD,
                 (struct ahead){.lines = group_size(format) / 64}, sums);
}

FLATTEN void few_columns(const struct format *format, const uint8_t *panel, size_t k,
                         const struct int8_activations *activations, const size_t n_tokens, struct tile *tile,
                         float *sums)
{
    memset(sums, 0, n_tokens * PANEL * sizeof *sums);
    struct int8_activations at = *activations;
    for (; k >= CHUNK; k -= CHUNK, panel += chunk_layout(format, CHUNK).size) {
        few_chunk(format, panel, &at, CHUNK, n_tokens, tile, sums);
        at = int8_next_chunk(at, n_tokens);
    }
    if (k > 0) few_chunk(format, panel, &at, k, n_tokens, tile, sums);
}

#define FEW_CALL(count) few_columns(format, panel, k, activations, count, tile, sums)
#define X(NAME, name)                                                                                        \
    static void few_##name(const uint8_t *panel, size_t k, const struct int8_activations *activations,       \
                           const float *input, size_t n_tokens, struct tile *tile, float *sums)              \
    {                                                                                                        \
        const struct format *const format = &format_##name;                                                  \
        (void)input;                                                                                         \
        FOR_TOKENS(INT8_FEW_TOKENS, n_tokens, FEW_CALL)                                                      \
    }
PACKED_TYPES(X)
#undef X
#undef FEW_CALL
