/* attention.h: template of the attention kernels. Expects vec-*.h, vec.h. */

enum { SCORE_KEYS = 4 };

/* Rows of keys or values, `stride` bytes apart: float32, or F16 as the cache holds them. */
struct kv_rows {
    const uint8_t *first;
    size_t stride;
    bool f16;
};

FLATTEN struct kv_rows float_rows(const float *rows, size_t n)
{
    return (struct kv_rows){(const uint8_t *)rows, n * sizeof *rows, false};
}

FLATTEN vf kv_load(const struct kv_rows rows, size_t row, size_t i)
{
    const uint8_t *at = rows.first + row * rows.stride;
    return rows.f16 ? vf_from_f16(at + 2 * i) : vf_load((const float *)(const void *)at + i);
}

/* Scores of SCORE_ROWS queries and SCORE_KEYS keys. */
FLATTEN void block_scores(const float *q, const struct kv_rows keys, size_t first_key, size_t n, float scale,
                          float *scores, size_t scores_stride)
{
    vf sum[SCORE_ROWS][SCORE_KEYS][PARTS];
    UNROLL for (size_t i = 0; i < SCORE_ROWS; i++) UNROLL for (size_t j = 0; j < SCORE_KEYS; j++)
        UNROLL for (size_t p = 0; p < PARTS; p++) sum[i][j][p] = vf_zero();
    for (size_t d = 0; d < n; d += PANEL) UNROLL for (size_t p = 0; p < PARTS; p++)
        {
            vf key[SCORE_KEYS];
            UNROLL for (size_t j = 0; j < SCORE_KEYS; j++) key[j] =
                kv_load(keys, first_key + j, d + p * LANES);
            UNROLL for (size_t i = 0; i < SCORE_ROWS; i++)
            {
                vf query = vf_load(q + i * n + d + p * LANES);
                UNROLL for (size_t j = 0; j < SCORE_KEYS; j++) sum[i][j][p] =
                    vf_fma(query, key[j], sum[i][j][p]);
            }
        }
    four_sums sums[SCORE_ROWS];
    vec_sums(sum, sums);
    UNROLL for (size_t i = 0; i < SCORE_ROWS; i++) store_scaled(scores + i * scores_stride, sums[i], scale);
}

FLATTEN float score(const float *q, const struct kv_rows keys, size_t key, size_t n, float scale)
{
    vf sum[PARTS];
    UNROLL for (size_t p = 0; p < PARTS; p++) sum[p] = vf_zero();
    for (size_t d = 0; d < n; d += PANEL)
        UNROLL for (size_t p = 0; p < PARTS; p++) sum[p] =
            vf_fma(vf_load(q + d + p * LANES), kv_load(keys, key, d + p * LANES), sum[p]);
    return vec_sum(sum) * scale;
}

FLATTEN void scores_of(const float *q, size_t n_q, const struct kv_rows keys, size_t n_keys, size_t n,
                       float scale, float *scores, size_t scores_stride)
{
    size_t whole_rows = n_q / SCORE_ROWS * SCORE_ROWS, whole_keys = n_keys / SCORE_KEYS * SCORE_KEYS;
    for (size_t i = 0; i < whole_rows; i += SCORE_ROWS)
        for (size_t j = 0; j < whole_keys; j += SCORE_KEYS)
            block_scores(q + i * n, keys, j, n, scale, scores + i * scores_stride + j, scores_stride);
    for (size_t i = 0; i < n_q; i++)
        for (size_t j = i < whole_rows ? whole_keys : 0; j < n_keys; j++)
            scores[i * scores_stride + j] = score(q + i * n, keys, j, n, scale);
}

static void attention_scores(const float *q, size_t n_q, const float *keys, size_t n_keys, size_t n,
                             float scale, float *scores, size_t scores_stride)
{
    scores_of(q, n_q, float_rows(keys, n), n_keys, n, scale, scores, scores_stride);
}

static void attention_scores_f16(const float *q, size_t n_q, const uint8_t *keys, size_t stride,
                                 size_t n_keys, size_t n, float scale, float *scores, size_t scores_stride)
{
    scores_of(q, n_q, (struct kv_rows){keys, stride, true}, n_keys, n, scale, scores, scores_stride);
}

/* out[j] = sum over rows of weights[row] * max(0, row[j]) */
static void sum_positive(const float *rows, size_t stride, const float *weights, size_t n_rows, size_t n,
                         float *out)
{
    for (size_t j = 0; j < n; j += PANEL) {
        vf sum[PARTS];
        UNROLL for (size_t p = 0; p < PARTS; p++) sum[p] = vf_zero();
        for (size_t i = 0; i < n_rows; i++) {
            vf weight = vf_set1(weights[i]);
            UNROLL for (size_t p = 0; p < PARTS; p++) sum[p] =
                vf_fma(weight, vf_max(vf_load(rows + i * stride + j + p * LANES), vf_zero()), sum[p]);
        }
        UNROLL for (size_t p = 0; p < PARTS; p++) vf_store(out + j + p * LANES, sum[p]);
    }
}

static void subtract_slope(float *scores, size_t n, float slope, float distance)
{
    static const float lanes[PANEL] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vf s = vf_set1(slope), d = vf_set1(distance);
    for (size_t j = 0; j < n; j += PANEL, d = vf_sub(d, vf_set1((float)PANEL)))
        UNROLL for (size_t p = 0; p < PARTS; p++)
        {
            float *at = scores + j + p * LANES;
            vf_store(at, vf_sub(vf_load(at), vf_mul(s, vf_abs(vf_sub(d, vf_load(lanes + p * LANES))))));
        }
}

static float softmax(float *scores, size_t n, float *max)
{
    vf most[PARTS], sum[PARTS];
    UNROLL for (size_t p = 0; p < PARTS; p++)
    {
        most[p] = vf_set1(-INFINITY);
        sum[p] = vf_zero();
    }
    for (size_t j = 0; j < n; j += PANEL)
        UNROLL for (size_t p = 0; p < PARTS; p++) most[p] = vf_max(vf_load(scores + j + p * LANES), most[p]);
    *max = vec_max(most);
    vf subtract = vf_set1(*max);
    for (size_t j = 0; j < n; j += PANEL) UNROLL for (size_t p = 0; p < PARTS; p++)
        {
            vf e = vf_exp(vf_sub(vf_load(scores + j + p * LANES), subtract));
            sum[p] = vf_add(sum[p], e);
            vf_store(scores + j + p * LANES, e);
        }
    return vec_sum(sum);
}

/* LANES * n_vectors values, from number `first` on, of n_rows queries. */
FLATTEN void block_values(const float *weights, size_t weights_stride, const struct kv_rows values,
                          size_t n_values, size_t first, size_t n, float *out, const size_t n_rows,
                          const size_t n_vectors)
{
    vf sum[4][4];
    UNROLL for (size_t i = 0; i < n_rows; i++) UNROLL for (size_t v = 0; v < n_vectors; v++) sum[i][v] =
        vf_load(out + i * n + first + v * LANES);
    for (size_t j = 0; j < n_values; j++) {
        vf value[4];
        UNROLL for (size_t v = 0; v < n_vectors; v++) value[v] = kv_load(values, j, first + v * LANES);
        UNROLL for (size_t i = 0; i < n_rows; i++)
        {
            vf weight = vf_set1(weights[i * weights_stride + j]);
            UNROLL for (size_t v = 0; v < n_vectors; v++) sum[i][v] = vf_fma(weight, value[v], sum[i][v]);
        }
    }
    UNROLL for (size_t i = 0; i < n_rows; i++) UNROLL for (size_t v = 0; v < n_vectors; v++)
        vf_store(out + i * n + first + v * LANES, sum[i][v]);
}

FLATTEN void values_of(const float *weights, size_t weights_stride, size_t n_q, const struct kv_rows values,
                       size_t n_values, size_t n, float *out)
{
    size_t i = 0;
    for (; i < n_q; i += VALUE_ROWS, weights += VALUE_ROWS * weights_stride, out += VALUE_ROWS * n) {
        if (n_q - i < VALUE_ROWS) break;
        size_t d = 0;
        for (; d + 4 * LANES <= n; d += 4 * LANES)
            block_values(weights, weights_stride, values, n_values, d, n, out, VALUE_ROWS, 4);
        for (; d < n; d += LANES)
            block_values(weights, weights_stride, values, n_values, d, n, out, VALUE_ROWS, 1);
    }
    for (; i < n_q; i++, weights += weights_stride, out += n) {
        size_t d = 0;
        for (; d + 4 * LANES <= n; d += 4 * LANES)
            block_values(weights, weights_stride, values, n_values, d, n, out, 1, 4);
        for (; d < n; d += LANES) block_values(weights, weights_stride, values, n_values, d, n, out, 1, 1);
    }
}

static void attention_values(const float *weights, size_t weights_stride, size_t n_q, const float *values,
                             size_t n_values, size_t n, float *out)
{
    values_of(weights, weights_stride, n_q, float_rows(values, n), n_values, n, out);
}

static void attention_values_f16(const float *weights, size_t weights_stride, size_t n_q,
                                 const uint8_t *values, size_t stride, size_t n_values, size_t n, float *out)
{
    values_of(weights, weights_stride, n_q, (struct kv_rows){values, stride, true}, n_values, n, out);
}
