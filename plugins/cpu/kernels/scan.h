/* scan.h: template of the kernels of convolutions and recurrences. Expects vec-*.h, vec.h.
 *
 * Columns of a state are independent, so each kind of vector takes as many at once as its registers hold.
 * Sums have one order for all of them, however many tokens a call is given: a sum over keys for the output
 * begins with the first key; under the delta rule, sums have four parts (i % 4), added as (0 + 1) + (2 +
 * 3). */
#define SCAN_ROWS  (LANES == 8 ? SCAN_KEYS / 2 : SCAN_KEYS) /* rows of the state in registers */
#define SCAN_PARTS ((size_t)2)                              /* vectors of a row in registers */
#define SCAN_STEP  (SCAN_PARTS * LANES)                     /* columns of these */
#define EACH_PART  UNROLL for (size_t p = 0; p < SCAN_PARTS; p++)

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

/* What multiplies row i of the state at token t, columns from `column` on. */
FLATTEN vf scan_decay(const struct scan_piece *x, const enum decay decay, size_t t, size_t i, size_t column)
{
    if (decay == DECAY_RATES)
        return vf_exp(vf_mul(vf_load(x->rates + i * SCAN_COLUMNS + column),
                             vf_load(x->steps + t * SCAN_COLUMNS + column)));
    if (decay == DECAY_NONE) return vf_set1(1);
    return vf_set1(x->decay[decay == DECAY_HEAD ? t : t * x->key_dim + i]);
}

/* `n_rows` rows of the state from row `first` on, all of the same SCAN_KEYS, and SCAN_STEP columns from
 * `column` on, which stay in registers for all tokens; their share of the output is added to it. */
FLATTEN void scan_rows(const struct scan_piece *x, const enum decay decay, const bool bonus, size_t first,
                       const size_t n_rows, size_t column)
{
    vf s[SCAN_ROWS][SCAN_PARTS];
    float *state = x->state + first * x->state_stride + column;
    UNROLL for (size_t i = 0; i < n_rows; i++) EACH_PART s[i][p] =
        vf_load(state + i * x->state_stride + p * LANES);
    const size_t at = first / SCAN_KEYS * x->keys_stride + first % SCAN_KEYS;
    const float *k = x->k + at, *q = x->q + at, *own = bonus ? x->bonus + first : NULL;
    const float *values = x->v + column;
    float *out = x->out + column;
    for (size_t t = 0; t < x->n_tokens; t++) {
        vf v[SCAN_PARTS], sum[SCAN_PARTS];
        EACH_PART v[p] = vf_load(values + p * LANES), sum[p] = first ? vf_load(out + p * LANES) : vf_zero();
        UNROLL for (size_t i = 0; i < n_rows; i++)
        {
            const vf key = vf_set1(k[i]), query = vf_set1(q[i]);
            EACH_PART
            {
                vf new = vf_mul(key, v[p]), w = scan_decay(x, decay, t, first + i, column + p * LANES);
                if (bonus) sum[p] = vf_fma(query, vf_fma(vf_set1(own[i]), new, s[i][p]), sum[p]);
                s[i][p] = vf_fma(w, s[i][p], new);
                if (!bonus) sum[p] = vf_fma(query, s[i][p], sum[p]);
            }
        }
        EACH_PART vf_store(out + p * LANES, sum[p]);
        k += x->k_stride, q += x->q_stride, values += SCAN_COLUMNS, out += SCAN_COLUMNS;
    }
    UNROLL for (size_t i = 0; i < n_rows; i++)
        EACH_PART vf_store(state + i * x->state_stride + p * LANES, s[i][p]);
}

FLATTEN void scan_plain(const struct scan_piece *x, const enum decay decay, const bool bonus)
{
    size_t i = 0;
    for (; i + SCAN_ROWS <= x->key_dim; i += SCAN_ROWS)
        for (size_t c = 0; c < SCAN_COLUMNS; c += SCAN_STEP) scan_rows(x, decay, bonus, i, SCAN_ROWS, c);
    for (; i < x->key_dim; i++)
        for (size_t c = 0; c < SCAN_COLUMNS; c += SCAN_STEP) scan_rows(x, decay, bonus, i, 1, c);
}

/* A token under the delta rule and SCAN_STEP columns. */
struct delta_token {
    const struct scan_piece *x;
    size_t t, column;
    const float *k, *q, *b;
    const float *next;               /* what reads the rows for the next token */
    vf w;                            /* the decay, if it is the head's */
    vf v[SCAN_PARTS], e[SCAN_PARTS]; /* what k and b multiply */
    vf sum[4][SCAN_PARTS], erased[4][SCAN_PARTS];
};

/* Which of the delta rule's kernels: whether b is k (v is then added to e), and whether a token follows. */
struct delta_form {
    enum decay decay;
    bool bonus, same, next;
};

/* Row i of the state after the token; `part` is i % 4. */
FLATTEN void delta_row(struct delta_token *token, const struct delta_form form, float *row, size_t i,
                       const size_t part)
{
    const struct scan_piece *x = token->x;
    const vf k = vf_set1(token->k[i]), q = vf_set1(token->q[i]);
    const vf b = form.same ? k : vf_set1(token->b[i]), next = form.next ? vf_set1(token->next[i]) : vf_zero();
    const vf w = form.decay == DECAY_KEYS ? scan_decay(x, DECAY_KEYS, token->t, i, 0) : token->w;
    EACH_PART
    {
        vf s = vf_load(row + p * LANES);
        vf new = vf_mul(k, form.same ? token->e[p] : token->v[p]);
        if (form.bonus)
            token->sum[part][p] = vf_fma(q, vf_fma(vf_set1(x->bonus[i]), new, s), token->sum[part][p]);
        if (!form.same) new = vf_fma(b, token->e[p], new);
        if (form.decay == DECAY_RATES)
            s = vf_fma(scan_decay(x, DECAY_RATES, token->t, i, token->column + p * LANES), s, new);
        else if (form.decay == DECAY_NONE)
            s = vf_add(s, new);
        else
            s = vf_fma(w, s, new);
        vf_store(row + p * LANES, s);
        if (!form.bonus) token->sum[part][p] = vf_fma(q, s, token->sum[part][p]);
        if (form.next) token->erased[part][p] = vf_fma(next, s, token->erased[part][p]);
    }
}

FLATTEN void delta_rows(struct delta_token *token, const struct delta_form form)
{
    const size_t n = token->x->key_dim, stride = token->x->state_stride;
    float *row = token->x->state + token->column;
    size_t i = 0;
    UNROLL for (size_t j = 0; j < 4; j++) EACH_PART token->sum[j][p] = token->erased[j][p] = vf_zero();
    for (; i + 4 <= n; i += 4, row += 4 * stride)
        UNROLL for (size_t j = 0; j < 4; j++) delta_row(token, form, row + j * stride, i + j, j);
    UNROLL for (size_t j = 0; j < 3; j++) if (i + j < n) delta_row(token, form, row + j * stride, i + j, j);
}

/* The sums over the state before the first token. */
FLATTEN void delta_begin(const struct scan_piece *x, size_t column, vf erased[4][SCAN_PARTS])
{
    const size_t n = x->key_dim, stride = x->state_stride;
    const float *row = x->state + column;
    size_t i = 0;
    UNROLL for (size_t j = 0; j < 4; j++) EACH_PART erased[j][p] = vf_zero();
    for (; i + 4 <= n; i += 4, row += 4 * stride)
        UNROLL for (size_t j = 0; j < 4; j++) EACH_PART erased[j][p] =
            vf_fma(vf_set1(x->a[i + j]), vf_load(row + j * stride + p * LANES), erased[j][p]);
    UNROLL for (size_t j = 0; j < 3; j++) if (i + j < n) EACH_PART erased[j][p] =
        vf_fma(vf_set1(x->a[i + j]), vf_load(row + j * stride + p * LANES), erased[j][p]);
}

FLATTEN vf delta_sum(const vf parts[4][SCAN_PARTS], size_t p)
{
    return vf_add(vf_add(parts[0][p], parts[1][p]), vf_add(parts[2][p], parts[3][p]));
}

FLATTEN void delta_columns(const struct scan_piece *x, const enum decay decay, const bool bonus,
                           const bool same, size_t column)
{
    struct delta_token token = {.x = x, .column = column};
    delta_begin(x, column, token.erased);
    for (size_t t = 0; t < x->n_tokens; t++) {
        const bool is_last = t + 1 == x->n_tokens;
        token.t = t;
        token.k = x->k + t * x->k_stride, token.q = x->q + t * x->q_stride;
        token.b = x->b + t * x->b_stride, token.next = x->a + (is_last ? 0 : t + 1) * x->a_stride;
        token.w = decay == DECAY_HEAD ? scan_decay(x, decay, t, 0, 0) : vf_zero();
        EACH_PART
        {
            token.v[p] = vf_load(x->v + t * SCAN_COLUMNS + column + p * LANES);
            token.e[p] = vf_mul(vf_set1(x->erase[t]), delta_sum(token.erased, p));
            if (same) token.e[p] = vf_add(token.e[p], token.v[p]);
        }
        if (is_last)
            delta_rows(&token, (struct delta_form){decay, bonus, same, false});
        else
            delta_rows(&token, (struct delta_form){decay, bonus, same, true});
        float *out = x->out + t * SCAN_COLUMNS + column;
        EACH_PART vf_store(out + p * LANES, delta_sum(token.sum, p));
    }
}

/* With a and b: every row of the state is needed before any can change. While a token changes the rows, they
 * are read for the next one. */
FLATTEN void scan_delta(const struct scan_piece *x, const enum decay decay, const bool bonus, const bool same)
{
    for (size_t c = 0; c < SCAN_COLUMNS; c += SCAN_STEP) delta_columns(x, decay, bonus, same, c);
}

FLATTEN void scan_by(const struct scan_piece *x, const enum decay decay)
{
    if (x->a && x->bonus)
        scan_delta(x, decay, true, false);
    else if (x->a && x->b == x->k && x->b_stride == x->k_stride)
        scan_delta(x, decay, false, true);
    else if (x->a)
        scan_delta(x, decay, false, false);
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
    if (x->scale != 1) mul_number(x->out, x->scale, x->out, x->n_tokens * SCAN_COLUMNS);
}
