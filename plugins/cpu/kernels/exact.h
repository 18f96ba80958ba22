/* exact.h: template of the kernels of EXACT_TYPES: types of 4 bits, packed as for int8 (pack.h), times inputs
 * that are not rounded. A value is made as float32, which has it exactly, and each run of EXACT_RUN columns
 * is summed by itself, in the same order by few_exact_* as by f32_tile. Expects vec-*.h, vec.h, tiles.h,
 * int8.h. */

enum { EXACT_SCALES = CHUNK / GROUP * PANEL }; /* of a chunk, at most */

/* scales: of a chunk, [n / GROUP][PANEL]. */
FLATTEN void exact_scales(const struct format *format, const uint8_t *chunk, const size_t n, float *scales)
{
    struct tile tile = {.scales_store = scales};
    unpack_scales(format, chunk, n, &tile);
}

/* Column 4 j + c of a group, of LANES rows; `group` points at these rows. */
FLATTEN vf exact_value(const uint8_t *group, const size_t j, const size_t c, const float *values, vf scale)
{
    vb codes = vb_load(group + j % 4 * PANEL * 4);
    return vf_mul(vf_lookup(codes, (unsigned)(8 * c + j / 4 * 4), values), scale);
}

FLATTEN void unpack_exact(const struct format *format, const float *values, const uint8_t *chunk, size_t n,
                          struct tile *tile)
{
    _Alignas(64) float scales[EXACT_SCALES];
    exact_scales(format, chunk, n, scales);
    const uint8_t *group = chunk + chunk_layout(format, n).quants;
    float *x = tile->x_store;
    for (size_t g = 0; g < n / GROUP; g++, group += group_size(format), x += GROUP * PANEL)
        for (size_t part = 0; part < PANEL; part += LANES) {
            vf scale = vf_load(scales + g * PANEL + part);
            UNROLL for (size_t i = 0; i < GROUP; i++)
                vf_store(x + i * PANEL + part, exact_value(group + part * 4, i / 4, i % 4, values, scale));
        }
    tile->x = tile->x_store;
}

/* total += a chunk of n columns x input, n_runs of them at once; the last may be shorter. */
FLATTEN void few_exact_runs(const struct format *format, const float *values, const uint8_t *groups,
                            const float *scales, const float *input, size_t n, const size_t n_runs,
                            vf total[PARTS])
{
    vf sum[4][PARTS];
    UNROLL for (size_t r = 0; r < n_runs; r++) UNROLL for (size_t p = 0; p < PARTS; p++) sum[r][p] =
        vf_zero();
    for (size_t first = 0; first < EXACT_RUN && first < n; first += GROUP)
        UNROLL for (size_t i = 0; i < GROUP; i++) UNROLL for (size_t r = 0; r < n_runs; r++)
        {
            const size_t at = r * EXACT_RUN + first;
            const uint8_t *group = groups + at / GROUP * group_size(format);
            UNROLL for (size_t p = 0; p < PARTS; p++)
            {
                vf scale = vf_load(scales + at / GROUP * PANEL + p * LANES);
                vf x = exact_value(group + p * LANES * 4, i / 4, i % 4, values, scale);
                sum[r][p] = vf_fma(x, vf_set1(input[at + i]), sum[r][p]);
            }
        }
    UNROLL for (size_t r = 0; r < n_runs; r++) UNROLL for (size_t p = 0; p < PARTS; p++) total[p] =
        vf_add(total[p], sum[r][p]);
}

FLATTEN void few_exact(const struct format *format, const float *values, const uint8_t *panel, size_t k,
                       const float *input, float *sums)
{
    vf total[PARTS];
    UNROLL for (size_t p = 0; p < PARTS; p++) total[p] = vf_zero();
    for (size_t n; k > 0; k -= n, input += n, panel += chunk_layout(format, n).size) {
        n = smaller(CHUNK, k);
        _Alignas(64) float scales[EXACT_SCALES];
        const uint8_t *groups = panel + chunk_layout(format, n).quants;
        prefetch_lines(panel + PREFETCH_AHEAD, chunk_layout(format, CHUNK).size / 64);
        exact_scales(format, panel, n, scales);
        if (n == CHUNK) {
            few_exact_runs(format, values, groups, scales, input, n, CHUNK / EXACT_RUN, total);
            continue;
        }
        for (size_t i = 0; i < n; i += EXACT_RUN)
            few_exact_runs(format, values, groups + i / GROUP * group_size(format),
                           scales + i / GROUP * PANEL, input + i, n - i, 1, total);
    }
    UNROLL for (size_t p = 0; p < PARTS; p++) vf_store(sums + p * LANES, total[p]);
}

#define X(NAME, name)                                                                                        \
    static void unpack_exact_##name(const struct weight_type *type, const uint8_t *chunk, size_t n,          \
                                    struct tile *tile)                                                       \
    {                                                                                                        \
        (void)type;                                                                                          \
        unpack_exact(&format_##name, floats_##name, chunk, n, tile);                                         \
    }                                                                                                        \
    static void few_exact_##name(const uint8_t *panel, size_t k, const struct int8_activations *activations, \
                                 const float *input, size_t n_tokens, struct tile *tile, float *sums)        \
    {                                                                                                        \
        (void)activations, (void)n_tokens, (void)tile;                                                       \
        few_exact(&format_##name, floats_##name, panel, k, input, sums);                                     \
    }
EXACT_TYPES(X)
#undef X
