/* scan.h: template of the kernels of convolutions and recurrences. Expects vec-*.h, vec.h. A sum over keys has
 * four parts (i % 4), added as (0 + 1) + (2 + 3), or is added up in groups of four, whatever the vector. */
#define SCAN_ROWS 4 /* rows of the state in registers */

static void weighted_rows(const float *const *rows, const float *weights, size_t stride, size_t n_rows,
                          size_t n, float *out)
{
    for (size_t c = 0; c < n; c += LANES) {
        bool end = n - c < LANES;
        vf sum = vf_zero();
        for (size_t i = 0; i < n_rows; i++)
            sum = vf_fma(end ? vf_load_end(rows[i] + c, n - c) : vf_load(rows[i] + c),
                         vf_load(weights + i * stride + c), sum);
        if (end)
            vf_store_end(out + c, n - c, sum);
        else
            vf_store(out + c, sum);
    }
}

static void exponentials(const float *x, float *out, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(out + i, vf_exp(vf_load(x + i)));
    if (i < n) vf_store_end(out + i, n - i, vf_exp(vf_load_end(x + i, n - i)));
}

/* What multiplies row i of the state at token t, lanes `part` … */
static inline vf scan_decay(const struct scan_piece *x, size_t t, size_t i, size_t part)
{
    if (x->rates)
        return vf_exp(vf_mul(vf_load(x->rates + i * PANEL + part), vf_load(x->steps + t * PANEL + part)));
    if (x->n_decay == 0) return vf_set1(1);
    return vf_set1(x->decay[x->n_decay == 1 ? t : t * x->key_dim + i]);
}

/* `n_rows` rows of the state from row `first` on, which stay in registers for all tokens; their share of the
 * output is added to it. */
FLATTEN void scan_rows(const struct scan_piece *x, size_t first, size_t n_rows)
{
    vf s[SCAN_ROWS][PARTS];
    UNROLL for (size_t i = 0; i < n_rows; i++) UNROLL for (size_t p = 0; p < PARTS; p++) s[i][p] =
        vf_load(x->state + (first + i) * PANEL + p * LANES);
    for (size_t t = 0; t < x->n_tokens; t++) {
        const float *k = x->k + t * x->k_stride + first, *q = x->q + t * x->q_stride + first;
        UNROLL for (size_t p = 0; p < PARTS; p++)
        {
            vf v = vf_load(x->v + t * PANEL + p * LANES), sum = vf_zero();
            UNROLL for (size_t i = 0; i < n_rows; i++)
            {
                vf new = vf_mul(vf_set1(k[i]), v), w = scan_decay(x, t, first + i, p * LANES);
                if (x->bonus)
                    sum = vf_fma(vf_set1(q[i]), vf_fma(vf_set1(x->bonus[first + i]), new, s[i][p]), sum);
                s[i][p] = vf_fma(w, s[i][p], new);
                if (!x->bonus) sum = vf_fma(vf_set1(q[i]), s[i][p], sum);
            }
            float *out = x->out + t * PANEL + p * LANES;
            vf_store(out, vf_add(vf_load(out), sum));
        }
    }
    UNROLL for (size_t i = 0; i < n_rows; i++) UNROLL for (size_t p = 0; p < PARTS; p++)
        vf_store(x->state + (first + i) * PANEL + p * LANES, s[i][p]);
}

/* With a and b: every row of the state is needed before any can change. */
static void scan_delta(const struct scan_piece *x)
{
    for (size_t t = 0; t < x->n_tokens; t++) {
        const float *k = x->k + t * x->k_stride, *q = x->q + t * x->q_stride, *a = x->a + t * x->a_stride,
                    *b = x->b + t * x->b_stride;
        vf e[4][PARTS], sum[4][PARTS], v[PARTS];
        UNROLL for (size_t j = 0; j < 4; j++) UNROLL for (size_t p = 0; p < PARTS; p++) e[j][p] = sum[j][p] =
            vf_zero();
        size_t i = 0;
        for (; i + 4 <= x->key_dim; i += 4)
            UNROLL for (size_t j = 0; j < 4; j++) UNROLL for (size_t p = 0; p < PARTS; p++) e[j][p] =
                vf_fma(vf_set1(a[i + j]), vf_load(x->state + (i + j) * PANEL + p * LANES), e[j][p]);
        for (; i < x->key_dim; i++)
            UNROLL for (size_t p = 0; p < PARTS; p++) e[0][p] =
                vf_fma(vf_set1(a[i]), vf_load(x->state + i * PANEL + p * LANES), e[0][p]);
        UNROLL for (size_t p = 0; p < PARTS; p++)
        {
            e[0][p] =
                vf_mul(vf_set1(x->erase[t]), vf_add(vf_add(e[0][p], e[1][p]), vf_add(e[2][p], e[3][p])));
            v[p] = vf_load(x->v + t * PANEL + p * LANES);
        }
        for (i = 0; i < x->key_dim; i++) UNROLL for (size_t p = 0; p < PARTS; p++)
            {
                float *state = x->state + i * PANEL + p * LANES;
                vf s = vf_load(state), new = vf_mul(vf_set1(k[i]), v[p]);
                if (x->bonus)
                    sum[i % 4][p] =
                        vf_fma(vf_set1(q[i]), vf_fma(vf_set1(x->bonus[i]), new, s), sum[i % 4][p]);
                s = vf_fma(scan_decay(x, t, i, p * LANES), s, vf_fma(vf_set1(b[i]), e[0][p], new));
                vf_store(state, s);
                if (!x->bonus) sum[i % 4][p] = vf_fma(vf_set1(q[i]), s, sum[i % 4][p]);
            }
        UNROLL for (size_t p = 0; p < PARTS; p++)
            vf_store(x->out + t * PANEL + p * LANES,
                     vf_add(vf_add(sum[0][p], sum[1][p]), vf_add(sum[2][p], sum[3][p])));
    }
}

static void scan(const struct scan_piece *x)
{
    size_t n = x->n_tokens * PANEL, i = 0;
    if (x->a) {
        scan_delta(x);
    } else {
        memset(x->out, 0, n * sizeof *x->out);
        for (; i + SCAN_ROWS <= x->key_dim; i += SCAN_ROWS) scan_rows(x, i, SCAN_ROWS);
        for (; i < x->key_dim; i++) scan_rows(x, i, 1);
    }
    if (x->scale != 1) mul_number(x->out, x->scale, x->out, n);
}
