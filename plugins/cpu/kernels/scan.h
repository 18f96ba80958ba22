/* scan.h: template of the kernels of convolutions and recurrences. Expects vec-*.h, vec.h. A sum over keys
 * has four parts (i % 4), added as (0 + 1) + (2 + 3), or is added up in groups of four, for every kind of
 * vector. */
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

enum decay { DECAY_NONE, DECAY_HEAD, DECAY_KEYS, DECAY_RATES }; /* a number for the head, for each key */

/* What multiplies row i of the state at token t, lanes `part` … */
FLATTEN vf scan_decay(const struct scan_piece *x, const enum decay decay, size_t t, size_t i, size_t part)
{
    if (decay == DECAY_RATES)
        return vf_exp(vf_mul(vf_load(x->rates + i * PANEL + part), vf_load(x->steps + t * PANEL + part)));
    if (decay == DECAY_NONE) return vf_set1(1);
    return vf_set1(x->decay[decay == DECAY_HEAD ? t : t * x->key_dim + i]);
}

/* `n_rows` rows of the state from row `first` on, which stay in registers for all tokens; their share of the
 * output is added to it. */
FLATTEN void scan_rows(const struct scan_piece *x, const enum decay decay, const bool bonus, size_t first,
                       const size_t n_rows)
{
    vf s[SCAN_ROWS][PARTS];
    UNROLL for (size_t i = 0; i < n_rows; i++) UNROLL for (size_t p = 0; p < PARTS; p++) s[i][p] =
        vf_load(x->state + (first + i) * PANEL + p * LANES);
    const float *k = x->k + first, *q = x->q + first, *own = bonus ? x->bonus + first : NULL;
    const float *values = x->v;
    float *out = x->out;
    for (size_t t = 0; t < x->n_tokens; t++) {
        vf v[PARTS], sum[PARTS];
        UNROLL for (size_t p = 0; p < PARTS; p++) v[p] = vf_load(values + p * LANES), sum[p] = vf_zero();
        UNROLL for (size_t i = 0; i < n_rows; i++) UNROLL for (size_t p = 0; p < PARTS; p++)
        {
            vf new = vf_mul(vf_set1(k[i]), v[p]), w = scan_decay(x, decay, t, first + i, p * LANES);
            if (bonus) sum[p] = vf_fma(vf_set1(q[i]), vf_fma(vf_set1(own[i]), new, s[i][p]), sum[p]);
            s[i][p] = vf_fma(w, s[i][p], new);
            if (!bonus) sum[p] = vf_fma(vf_set1(q[i]), s[i][p], sum[p]);
        }
        UNROLL for (size_t p = 0; p < PARTS; p++)
            vf_store(out + p * LANES, vf_add(vf_load(out + p * LANES), sum[p]));
        k += x->k_stride, q += x->q_stride, values += PANEL, out += PANEL;
    }
    UNROLL for (size_t i = 0; i < n_rows; i++) UNROLL for (size_t p = 0; p < PARTS; p++)
        vf_store(x->state + (first + i) * PANEL + p * LANES, s[i][p]);
}

FLATTEN void scan_plain(const struct scan_piece *x, const enum decay decay, const bool bonus)
{
    size_t i = 0;
    memset(x->out, 0, x->n_tokens * PANEL * sizeof *x->out);
    for (; i + SCAN_ROWS <= x->key_dim; i += SCAN_ROWS) scan_rows(x, decay, bonus, i, SCAN_ROWS);
    for (; i < x->key_dim; i++) scan_rows(x, decay, bonus, i, 1);
}

/* A token under the delta rule: its number in the piece, its keys. */
struct delta_token {
    const struct scan_piece *x;
    size_t t;
    const float *k, *q, *b;
    float *state;
};

/* Row i of the state after the token: v is the token's, e is what `b` multiplies; its share goes to `sum`. */
FLATTEN void delta_row(const struct delta_token *token, const enum decay decay, const bool bonus, size_t i,
                       const vf *e, const vf *v, vf *sum)
{
    UNROLL for (size_t p = 0; p < PARTS; p++)
    {
        float *row = token->state + i * PANEL + p * LANES;
        vf s = vf_load(row), new = vf_mul(vf_set1(token->k[i]), v[p]), q = vf_set1(token->q[i]);
        if (bonus) sum[p] = vf_fma(q, vf_fma(vf_set1(token->x->bonus[i]), new, s), sum[p]);
        vf w = scan_decay(token->x, decay, token->t, i, p * LANES);
        s = vf_fma(w, s, vf_fma(vf_set1(token->b[i]), e[p], new));
        vf_store(row, s);
        if (!bonus) sum[p] = vf_fma(q, s, sum[p]);
    }
}

/* With a and b: every row of the state is needed before any can change. */
FLATTEN void scan_delta(const struct scan_piece *x, const enum decay decay, const bool bonus)
{
    float *const state = x->state;
    const size_t n = x->key_dim;
    for (size_t t = 0; t < x->n_tokens; t++) {
        const float *k = x->k + t * x->k_stride, *q = x->q + t * x->q_stride, *a = x->a + t * x->a_stride,
                    *b = x->b + t * x->b_stride;
        vf e[4][PARTS], sum[4][PARTS], v[PARTS];
        UNROLL for (size_t j = 0; j < 4; j++) UNROLL for (size_t p = 0; p < PARTS; p++) e[j][p] = sum[j][p] =
            vf_zero();
        size_t i = 0;
        for (; i + 4 <= n; i += 4)
            UNROLL for (size_t j = 0; j < 4; j++) UNROLL for (size_t p = 0; p < PARTS; p++) e[j][p] =
                vf_fma(vf_set1(a[i + j]), vf_load(state + (i + j) * PANEL + p * LANES), e[j][p]);
        for (; i < n; i++)
            UNROLL for (size_t p = 0; p < PARTS; p++) e[0][p] =
                vf_fma(vf_set1(a[i]), vf_load(state + i * PANEL + p * LANES), e[0][p]);
        UNROLL for (size_t p = 0; p < PARTS; p++)
        {
            e[0][p] =
                vf_mul(vf_set1(x->erase[t]), vf_add(vf_add(e[0][p], e[1][p]), vf_add(e[2][p], e[3][p])));
            v[p] = vf_load(x->v + t * PANEL + p * LANES);
        }
        const struct delta_token token = {x, t, k, q, b, state};
        for (i = 0; i + 4 <= n; i += 4)
            UNROLL for (size_t j = 0; j < 4; j++) delta_row(&token, decay, bonus, i + j, e[0], v, sum[j]);
        UNROLL for (size_t j = 0; j < 3; j++) if (i + j < n)
            delta_row(&token, decay, bonus, i + j, e[0], v, sum[j]);
        UNROLL for (size_t p = 0; p < PARTS; p++)
            vf_store(x->out + t * PANEL + p * LANES,
                     vf_add(vf_add(sum[0][p], sum[1][p]), vf_add(sum[2][p], sum[3][p])));
    }
}

/* The kernels for one kind of decay. */
FLATTEN void scan_by(const struct scan_piece *x, const enum decay decay)
{
    if (x->a && x->bonus)
        scan_delta(x, decay, true);
    else if (x->a)
        scan_delta(x, decay, false);
    else if (x->bonus)
        scan_plain(x, decay, true);
    else
        scan_plain(x, decay, false);
}

static void scan(const struct scan_piece *x)
{
    if (x->rates)
        scan_by(x, DECAY_RATES);
    else if (x->n_decay > 1)
        scan_by(x, DECAY_KEYS);
    else if (x->n_decay == 1)
        scan_by(x, DECAY_HEAD);
    else
        scan_by(x, DECAY_NONE);
    if (x->scale != 1) mul_number(x->out, x->scale, x->out, x->n_tokens * PANEL);
}
