/* ops.c: see ops.h. */
#include "common/ops.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Shapes -------------------------------------------------------------------------------------------- */

/* Whether a tensor has this shape, or is absent. */
static bool is(const struct engine_tensor *a, uint64_t ne0, uint64_t ne1, uint64_t ne2, uint64_t ne3)
{
    return !a || (a->ne[0] == ne0 && a->ne[1] == ne1 && a->ne[2] == ne2 && a->ne[3] == ne3);
}

/* Whether a tensor has the shape of another one, or is absent. */
static bool is_like(const struct engine_tensor *a, const struct engine_tensor *b)
{
    return is(a, b->ne[0], b->ne[1], b->ne[2], b->ne[3]);
}

static const char *unless(bool fits)
{
    return fits ? NULL : "the shapes do not match";
}

static bool one_matrix_fits(const struct engine_op_matmul *o)
{
    uint64_t k = o->weight->ne[0], rows = o->weight->ne[1], tokens = o->input->ne[1];
    return is(o->input, k, tokens, 1, 1) && is(o->output, rows, tokens, 1, 1) &&
           is(o->residual, rows, tokens, 1, 1) && is(o->bias, rows, 1, 1, 1);
}

static bool heads_fit(const struct engine_op_matmul *o)
{
    uint64_t k = o->weight->ne[0], rows = o->weight->ne[1], n = o->weight->ne[2], tokens = o->input->ne[2];
    return is(o->input, k, n, tokens, 1) && is(o->output, rows, n, tokens, 1);
}

static bool experts_fit(const struct engine_op_matmul *o)
{
    uint64_t k = o->weight->ne[0], rows = o->weight->ne[1], n = o->weight->ne[2];
    uint64_t n_used = o->experts->ne[0], tokens = o->experts->ne[1];
    if (!is(o->experts, n_used, tokens, 1, 1) || n_used > n || !is(o->bias, rows, n, 1, 1) ||
        !is(o->input, k, o->input->ne[1] == 1 ? 1 : n_used, tokens, 1))
        return false;
    if (!o->mix) return is(o->output, rows, n_used, tokens, 1);
    return is(o->mix, n_used, tokens, 1, 1) && is(o->output, rows, tokens, 1, 1) &&
           is(o->residual, rows, tokens, 1, 1);
}

enum op_matrices op_matrices(const struct engine_op_matmul *o)
{
    if (o->experts) return OP_MATRIX_PER_EXPERT;
    return o->weight->ne[2] > 1 || o->input->ne[2] > 1 ? OP_MATRIX_PER_HEAD : OP_ONE_MATRIX;
}

static const char *matmul_misfit(const union op_args *args)
{
    const struct engine_op_matmul *o = &args->matmul;
    enum op_matrices matrices = op_matrices(o);
    if (o->mix && !o->experts) return "a mix needs experts";
    if (o->residual && o->experts && !o->mix) return "a residual beside experts needs a mix";
    if (matrices == OP_MATRIX_PER_HEAD && (o->gate || o->bias || o->residual || o->activation))
        return "with a matrix for each head, nothing but scale is allowed";
    if (o->gate && (o->bias || (o->scale != 0 && o->scale != 1)))
        return "a gate cannot be combined with bias or scale";
    return unless(o->weight->ne[3] == 1 && is_like(o->gate, o->weight) &&
                  (matrices == OP_MATRIX_PER_EXPERT ? experts_fit(o)
                   : matrices == OP_MATRIX_PER_HEAD ? heads_fit(o)
                                                    : one_matrix_fits(o)));
}

static const char *attention_misfit(const union op_args *args)
{
    const struct engine_op_attention *o = &args->attention;
    const uint64_t *q = o->q->ne, *k = o->k->ne, n_heads = q[1], tokens = q[2];
    if (k[2] == 0 || n_heads % k[2] != 0) return "the heads cannot share those of the keys evenly";
    return unless(
        q[3] == 1 && q[0] == k[0] && is(o->v, o->v->ne[0], k[1], k[2], k[3]) &&
        is(o->output, o->v->ne[0], n_heads, tokens, 1) && is(o->sequences, tokens, 1, 1, 1) &&
        is(o->positions, tokens, o->positions->ne[1] == 2 ? 2 : 1, 1, 1) && o->block_table->ne[2] == 1 &&
        o->block_table->ne[3] == 1 && is(o->slopes, n_heads, 1, 1, 1) && is(o->sinks, n_heads, 1, 1, 1) &&
        (!o->weights || is(o->weights, o->weights->ne[0], n_heads, tokens, 1)) &&
        (!o->picked || is(o->picked, o->picked->ne[0], tokens, 1, 1)) && !o->earlier == !o->earlier_logsums &&
        is_like(o->earlier, o->output) && is(o->earlier_logsums, n_heads, tokens, 1, 1) &&
        is(o->logsums, n_heads, tokens, 1, 1) && !(o->weights && (o->earlier || o->logsums)) &&
        (!o->distance_bias || (!o->slopes && o->distance_bias->ne[0] % 2 == 1 &&
                               is(o->distance_bias, o->distance_bias->ne[0], n_heads, 1, 1))));
}

static const char *cache_write_misfit(const union op_args *args)
{
    const struct engine_op_cache_write *o = &args->cache_write;
    return unless(is(o->input, o->cache->ne[0], o->cache->ne[2], o->input->ne[2], 1) &&
                  is(o->slots, o->input->ne[2], 1, 1, 1));
}

static const char *rope_misfit(const union op_args *args)
{
    const struct engine_op_rope *o = &args->rope;
    if (o->n_dims == 0 || o->n_dims % 2 != 0 || o->n_dims > o->input->ne[0])
        return "the number of rotated dimensions is odd, or no part of a head";
    return unless(o->input->ne[3] == 1 && is_like(o->output, o->input) &&
                  is(o->positions, o->input->ne[2], 1, 1, 1) && is(o->factors, o->n_dims / 2, 1, 1, 1));
}

static const char *norm_misfit(const union op_args *args)
{
    const struct engine_op_norm *o = &args->norm;
    uint64_t n = o->input->ne[0];
    return unless(o->input->ne[3] == 1 && is_like(o->output, o->input) && is(o->weight, n, 1, 1, 1) &&
                  is(o->bias, n, 1, 1, 1));
}

static const char *get_rows_misfit(const union op_args *args)
{
    const struct engine_op_get_rows *o = &args->get_rows;
    uint64_t count = o->rows->ne[0];
    return unless(o->source->ne[2] == 1 && o->source->ne[3] == 1 && is(o->rows, count, 1, 1, 1) &&
                  is(o->output, o->source->ne[0], count, 1, 1));
}

static const char *binary_misfit(const union op_args *args)
{
    const struct engine_op_binary *o = &args->binary;
    const uint64_t *a = o->a->ne;
    bool is_row = is(o->b, a[0], 1, 1, 1), is_activation = !o->b->weight;
    return unless(a[3] == 1 && is_like(o->output, o->a) &&
                  (is_row || (is_activation && (is_like(o->b, o->a) || is(o->b, 1, a[1], a[2], 1)))));
}

static const char *activate_misfit(const union op_args *args)
{
    const struct engine_op_activate *o = &args->activate;
    return unless(o->input->ne[3] == 1 && is_like(o->output, o->input) && is_like(o->factor, o->input));
}

static const char *route_misfit(const union op_args *args)
{
    const struct engine_op_route *o = &args->route;
    uint64_t n = o->logits->ne[0], tokens = o->logits->ne[1], n_used = o->ids->ne[0];
    if (n_used > n) return "more experts would be used than there are";
    return unless(is(o->logits, n, tokens, 1, 1) && is(o->bias, n, 1, 1, 1) &&
                  is(o->ids, n_used, tokens, 1, 1) && is(o->weights, n_used, tokens, 1, 1) &&
                  is(o->chosen, n_used, tokens, 1, 1) && !(o->chosen && (o->bias || o->n_groups > 1)));
}

static const char *concat_misfit(const union op_args *args)
{
    const struct engine_op_concat *o = &args->concat;
    const uint64_t *a = o->a->ne, *b = o->b->ne;
    return unless(a[3] == 1 && is(o->b, b[0], b[1] == 1 ? 1 : a[1], a[2], 1) &&
                  is(o->output, a[0] + b[0], a[1], a[2], 1));
}

static const char *conv_misfit(const union op_args *args)
{
    const struct engine_op_conv *o = &args->conv;
    uint64_t n = o->input->ne[0], tokens = o->input->ne[1], taps = o->weight->ne[0];
    if (taps < OP_MIN_TAPS || taps > OP_MAX_TAPS) return "a convolution has 2 to 16 taps";
    return unless(is(o->input, n, tokens, 1, 1) && is(o->output, n, tokens, 1, 1) &&
                  is(o->weight, taps, n, 1, 1) && is(o->positions, tokens, 1, 1, 1) &&
                  is(o->states, tokens, 1, 1, 1) && is(o->state, n, taps - 1, o->state->ne[2], 1));
}

static const char *scan_misfit(const union op_args *args)
{
    const struct engine_op_scan *o = &args->scan;
    uint64_t n_keys = o->q->ne[0], n_groups = o->q->ne[1], tokens = o->q->ne[2];
    uint64_t n_values = o->v->ne[0], n_heads = o->v->ne[1];
    if (!o->a != !o->b || (o->erase && !o->a) || (o->rates && !o->decay))
        return "a or b, what erase belongs to, or the decay of rates is missing";
    if (n_keys > OP_MAX_KEYS) return "a scan has at most 256 keys";
    if (n_groups == 0 || n_heads % n_groups != 0) return "the heads cannot share the groups evenly";
    uint64_t n_decay = o->rates ? n_values : o->decay && o->decay->ne[0] == 1 ? 1 : n_keys;
    return unless(o->q->ne[3] == 1 && is_like(o->k, o->q) && is_like(o->a, o->q) && is_like(o->b, o->q) &&
                  is(o->v, n_values, n_heads, tokens, 1) && is_like(o->output, o->v) &&
                  is(o->erase, 1, n_heads, tokens, 1) && is(o->decay, n_decay, n_heads, tokens, 1) &&
                  is(o->rates, n_keys, n_values * n_heads, 1, 1) && is(o->bonus, n_keys, n_heads, 1, 1) &&
                  is(o->positions, tokens, 1, 1, 1) && is(o->states, tokens, 1, 1, 1) &&
                  is(o->state, n_values, n_keys, n_heads, o->state->ne[3]));
}

static const char *pick_misfit(const union op_args *args)
{
    const struct engine_op_pick *o = &args->pick;
    const uint64_t *q = o->q->ne, *k = o->k->ne, n_heads = q[1], tokens = q[2];
    return unless(q[3] == 1 && q[0] == k[0] && k[2] == 1 && is(o->weights, n_heads, tokens, 1, 1) &&
                  o->block_table->ne[2] == 1 && o->block_table->ne[3] == 1 &&
                  is(o->sequences, tokens, 1, 1, 1) && is(o->positions, tokens, 1, 1, 1) &&
                  is(o->picked, o->picked->ne[0], tokens, 1, 1));
}

static const char *mix_misfit(const union op_args *args)
{
    const struct engine_op_mix *o = &args->mix;
    uint64_t n = o->input->ne[0], n_in = o->input->ne[1], tokens = o->input->ne[2], n_out = o->output->ne[1];
    if (!o->addend != !o->scales) return "an addend needs scales, and they need it";
    return unless(is(o->input, n, n_in, tokens, 1) && is(o->output, n, n_out, tokens, 1) &&
                  is(o->weights, n_in, n_out, tokens, 1) && (o->weights || n_in == n_out) &&
                  is(o->addend, n, tokens, 1, 1) &&
                  (is(o->scales, n_out, 1, 1, 1) || is(o->scales, n_out, tokens, 1, 1)));
}

static const char *hyper_misfit(const union op_args *args)
{
    const struct engine_op_hyper *o = &args->hyper;
    uint64_t n = o->n, width = o->input->ne[0], tokens = o->input->ne[1];
    bool whole = width != n;
    return unless(n > 0 && n <= OP_MAX_STREAMS && width == (whole ? n * (n + 2) : n) &&
                  is(o->input, width, tokens, 1, 1) && is_like(o->output, o->input) &&
                  is(o->scale, whole ? 3 : 1, 1, 1, 1) && is(o->base, width, 1, 1, 1));
}

static const char *pool_misfit(const union op_args *args)
{
    const struct engine_op_pool *o = &args->pool;
    const uint64_t *cache = o->cache->ne, tokens = o->positions->ne[0];
    if (cache[2] != 2 && cache[2] != 4) return "a pooled cache has 2 or 4 rows for each position";
    return unless(is(o->bias, cache[0] * cache[2] / 2, o->bias->ne[1], 1, 1) &&
                  is(o->positions, tokens, 1, 1, 1) && is(o->sequences, tokens, 1, 1, 1) &&
                  o->block_table->ne[2] == 1 && o->block_table->ne[3] == 1 &&
                  is(o->output, cache[0], tokens, 1, 1));
}

/* ---- The table ----------------------------------------------------------------------------------------- */

#define OPERAND_ROW(args, field, ...) {#field, offsetof(struct engine_op_##args, field), __VA_ARGS__},
#define ROW(number, name, title, args)                                                                       \
    [ENGINE_OP_##number] = {                                                                                 \
        #name, title, sizeof(struct engine_op_##args), {OPERANDS_OF_##args(OPERAND_ROW)}, args##_misfit},

static const struct op_info infos[] = {OPERATIONS(ROW)};

const struct op_info *op_info(uint32_t op)
{
    return op < sizeof infos / sizeof *infos && infos[op].name ? &infos[op] : NULL;
}

const struct op_operand *op_operands(uint32_t op)
{
    static const struct op_operand none[OP_MAX_OPERANDS + 1];
    return op_info(op) ? op_info(op)->operands : none;
}

bool op_has(uint32_t op, unsigned flags, enum op_role role)
{
    for (const struct op_operand *operand = op_operands(op); operand->name; operand++)
        if (operand->flags & flags && operand->role & role) return true;
    return false;
}

bool op_takes(const struct op_operand *operand, uint32_t type)
{
    unsigned bit = type == ENGINE_TYPE_F32    ? OP_F32
                   : type == ENGINE_TYPE_I32  ? OP_I32
                   : type == ENGINE_TYPE_F16  ? OP_F16
                   : type == ENGINE_TYPE_Q8_0 ? OP_Q8_0
                                              : 0;
    return operand->types & bit;
}

const char *op_misfit(uint32_t op, const union op_args *args)
{
    const struct op_info *info = op_info(op);
    if (!info) return "it is no operation";
    for (const struct op_operand *operand = info->operands; operand->name; operand++)
        if (!(operand->flags & OP_OPTIONAL) && !op_given(args, operand)) return "an operand is missing";
    return info->misfit(args);
}

/* "[64, 20]": without the dimensions of 1 at its end. */
static int print_shape(const struct engine_tensor *tensor, const char *before, char *text, size_t size)
{
    const uint64_t *ne = tensor->ne;
    int n_dims = ne[3] != 1 ? 4 : ne[2] != 1 ? 3 : ne[1] != 1 ? 2 : 1;
    int at = snprintf(text, size, "%s [%" PRIu64, before, ne[0]);
    for (int i = 1; i < n_dims && at >= 0 && (size_t)at < size; i++)
        at += snprintf(text + at, size - (size_t)at, ", %" PRIu64, ne[i]);
    if (at >= 0 && (size_t)at < size) at += snprintf(text + at, size - (size_t)at, "]");
    return at;
}

void op_print_shapes(uint32_t op, const union op_args *args, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (const struct op_operand *operand = op_operands(op); operand->name; operand++) {
        const struct engine_tensor *tensor = op_given(args, operand);
        char name[32];
        if (!tensor) continue;
        snprintf(name, sizeof name, "%s%s", at ? ", " : "", operand->name);
        int n = print_shape(tensor, name, text + at, size - at);
        if (n < 0 || (size_t)n >= size - at) return;
        at += (size_t)n;
    }
}
