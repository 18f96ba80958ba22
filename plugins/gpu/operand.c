/* operand.c: see operand.h. The operands of each operation, and how their shapes have to fit. */
#include "operand.h"

#include <string.h>

#include "common/sized.h"
#include "tensor.h"

/* Of a convolution, as plugin-api.h says; of a scan: keys, and heads and values that fit the numbers of
 * workgroups that every device has. */
enum { MOST_TAPS = 16, MOST_KEYS = 256, MOST_HEADS = 65535, MOST_VALUES = 1 << 20 };

struct op {
    const char *name;
    size_t size;
    struct gpu_operand operands[GPU_MAX_OPERANDS + 1]; /* ended by one without a name */
    int (*check)(const struct gpu_request *request, struct gpu_call *call);
};

static bool same_shape(const struct gpu_view *a, const struct gpu_view *b)
{
    return memcmp(a->ne, b->ne, sizeof a->ne) == 0;
}

static bool has_shape(const struct gpu_view *view, uint64_t ne0, uint64_t ne1, uint64_t ne2, uint64_t ne3)
{
    return view->ne[0] == ne0 && view->ne[1] == ne1 && view->ne[2] == ne2 && view->ne[3] == ne3;
}

#define SHAPES(request)                                                                                      \
    gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "%s: the shapes do not match", (request)->op)

/* Activations that can follow a matrix product. */
static bool is_plain(uint32_t activation)
{
    return activation <= ENGINE_ACTIVATION_SOFTPLUS;
}

static int check_fused_activation(const struct gpu_request *request, uint32_t activation)
{
    if (is_plain(activation)) return ENGINE_OK;
    return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: activation %u cannot follow it", request->op,
                      activation);
}

static bool matrix_fits(const struct gpu_view *v)
{
    const struct gpu_view *weight = &v[GPU_MATMUL_WEIGHT];
    uint64_t rows = weight->ne[1], tokens = v[GPU_MATMUL_INPUT].ne[1];
    return has_shape(&v[GPU_MATMUL_INPUT], weight->ne[0], tokens, 1, 1) &&
           has_shape(&v[GPU_MATMUL_OUTPUT], rows, tokens, 1, 1) && !v[GPU_MATMUL_MIX].present &&
           (!v[GPU_MATMUL_RESIDUAL].present || has_shape(&v[GPU_MATMUL_RESIDUAL], rows, tokens, 1, 1)) &&
           (!v[GPU_MATMUL_BIAS].present || has_shape(&v[GPU_MATMUL_BIAS], rows, 1, 1, 1));
}

static bool heads_fit(const struct gpu_view *v)
{
    const struct gpu_view *weight = &v[GPU_MATMUL_WEIGHT];
    uint64_t tokens = v[GPU_MATMUL_INPUT].ne[2], n = weight->ne[2];
    return has_shape(&v[GPU_MATMUL_INPUT], weight->ne[0], n, tokens, 1) &&
           has_shape(&v[GPU_MATMUL_OUTPUT], weight->ne[1], n, tokens, 1) && !v[GPU_MATMUL_GATE].present &&
           !v[GPU_MATMUL_BIAS].present && !v[GPU_MATMUL_RESIDUAL].present && !v[GPU_MATMUL_MIX].present;
}

static bool experts_fit(const struct gpu_view *v)
{
    const struct gpu_view *weight = &v[GPU_MATMUL_WEIGHT], *experts = &v[GPU_MATMUL_EXPERTS];
    const struct gpu_view *input = &v[GPU_MATMUL_INPUT], *output = &v[GPU_MATMUL_OUTPUT];
    const struct gpu_view *residual = &v[GPU_MATMUL_RESIDUAL], *bias = &v[GPU_MATMUL_BIAS];
    uint64_t rows = weight->ne[1], n = weight->ne[2], n_used = experts->ne[0], tokens = experts->ne[1];
    if (!has_shape(experts, n_used, tokens, 1, 1) || n_used > n ||
        !has_shape(input, weight->ne[0], input->ne[1] == 1 ? 1 : n_used, tokens, 1) ||
        (bias->present && !has_shape(bias, rows, n, 1, 1)))
        return false;
    if (!v[GPU_MATMUL_MIX].present) return has_shape(output, rows, n_used, tokens, 1) && !residual->present;
    return has_shape(&v[GPU_MATMUL_MIX], n_used, tokens, 1, 1) && has_shape(output, rows, tokens, 1, 1) &&
           (!residual->present || has_shape(residual, rows, tokens, 1, 1));
}

/* Whether a weight was made for this use. One matrix for one token may be of either use. */
static bool has_use(const struct gpu_call *call, const struct gpu_view *view)
{
    const struct gpu_weight *weight = (const void *)view->weight;
    bool either =
        view->ne[2] == 1 && call->views[GPU_MATMUL_INPUT].ne[1] == 1 && call->matrices == GPU_ONE_MATRIX;
    return !weight || either ||
           weight->uses & (call->matrices == GPU_ONE_MATRIX ? ENGINE_WEIGHT_MATMUL : ENGINE_WEIGHT_MATRICES);
}

static int check_matmul(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *weight = &v[GPU_MATMUL_WEIGHT], *gate = &v[GPU_MATMUL_GATE];
    const struct engine_op_matmul *args = &call->args.matmul;
    bool of_heads = weight->ne[2] > 1 || v[GPU_MATMUL_INPUT].ne[2] > 1;
    call->matrices = v[GPU_MATMUL_EXPERTS].present ? GPU_MATRIX_PER_EXPERT
                     : of_heads                    ? GPU_MATRIX_PER_HEAD
                                                   : GPU_ONE_MATRIX;
    bool fits = call->matrices == GPU_MATRIX_PER_EXPERT ? experts_fit(v)
                : call->matrices == GPU_MATRIX_PER_HEAD
                    ? heads_fit(v) && args->activation == ENGINE_ACTIVATION_NONE
                    : matrix_fits(v);
    if (!fits || weight->ne[3] != 1) return SHAPES(request);
    if (gate->present && (!same_shape(gate, weight) || v[GPU_MATMUL_BIAS].present || args->scale != 0))
        return SHAPES(request);
    if (gate->present && gate->type != weight->type)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "matmul: weight and gate have different types");
    if (call->matrices == GPU_MATRIX_PER_EXPERT && weight->ne[2] > request->limits->max_experts)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "matmul: %llu experts are too many",
                          (unsigned long long)weight->ne[2]);
    if (!has_use(call, weight) || !has_use(call, gate))
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "matmul: a weight was created for another use");
    return check_fused_activation(request, args->activation);
}

/* Bytes of a row without gaps. */
static uint64_t row_size(const struct gpu_view *view)
{
    uint32_t length = 1, size = 0;
    gpu_type_block(view->type, &length, &size);
    return view->ne[0] / length * size;
}

/* Kernels number a cache's rows: whether each begins `step` bytes after the one before. */
static bool has_step(const struct gpu_view *view, uint64_t step)
{
    for (int i = 1; i < 4; i++) {
        if (view->ne[i] > 1 && view->nb[i] != step) return false;
        step *= view->ne[i];
    }
    return true;
}

static int check_cache(const struct gpu_request *request, const struct gpu_view *cache, uint64_t step)
{
    uint64_t rows = cache->ne[1] * cache->ne[2];
    if (!has_step(cache, step))
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: a cache with gaps is not supported",
                          request->op);
    if (cache->type == ENGINE_TYPE_F16 && cache->ne[0] % 2 != 0)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED,
                          "%s: odd head dimensions are not supported in float16", request->op);
    if (rows > MAX_ELEMENTS || cache->ne[0] > request->limits->max_head_dim)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: heads of %llu values are too large",
                          request->op, (unsigned long long)cache->ne[0]);
    return ENGINE_OK;
}

static bool has_values(const struct gpu_view *view, uint64_t n)
{
    return !view->present || has_shape(view, n, 1, 1, 1);
}

/* Biases of each head by distance, both ways; none beside slopes, which are the same by another name. */
static bool has_biases(const struct gpu_view *biases, const struct gpu_view *slopes, uint64_t n_heads)
{
    if (!biases->present) return true;
    return !slopes->present && biases->ne[0] % 2 == 1 && has_shape(biases, biases->ne[0], n_heads, 1, 1);
}

static int check_attention(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *views = call->views, *q = &views[GPU_ATTENTION_Q], *k = &views[GPU_ATTENTION_K];
    const struct gpu_view *v = &views[GPU_ATTENTION_V], *table = &views[GPU_ATTENTION_BLOCK_TABLE];
    const struct engine_op_attention *args = &call->args.attention;
    uint64_t tokens = q->ne[2];
    if (q->ne[3] != 1 || q->ne[0] != k->ne[0] || q->ne[1] % k->ne[2] != 0 ||
        !has_shape(v, v->ne[0], k->ne[1], k->ne[2], k->ne[3]) ||
        !has_shape(&views[GPU_ATTENTION_OUTPUT], v->ne[0], q->ne[1], tokens, 1) ||
        !has_shape(&views[GPU_ATTENTION_SEQUENCES], tokens, 1, 1, 1) ||
        !has_shape(&views[GPU_ATTENTION_POSITIONS], tokens, views[GPU_ATTENTION_POSITIONS].ne[1] == 2 ? 2 : 1,
                   1, 1) ||
        table->ne[2] != 1 || table->ne[3] != 1 || !has_values(&views[GPU_ATTENTION_SLOPES], q->ne[1]) ||
        !has_values(&views[GPU_ATTENTION_SINKS], q->ne[1]) ||
        !has_biases(&views[GPU_ATTENTION_BIASES], &views[GPU_ATTENTION_SLOPES], q->ne[1]))
        return SHAPES(request);
    if (views[GPU_ATTENTION_WEIGHTS].present)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "attention: weights are not supported");
    if (!(args->softcap >= 0) || (args->chunk > 0 && args->window > 0))
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT,
                          "attention: softcap is negative, or chunk and window are combined");
    call->key_step = row_size(k);
    call->value_step =
        has_step(v, row_size(v)) || v->type != k->type || v->ne[0] > k->ne[0] ? row_size(v) : call->key_step;
    int status = check_cache(request, k, call->key_step);
    return status ? status : check_cache(request, v, call->value_step);
}

static int check_cache_write(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *input = &call->views[GPU_CACHE_WRITE_INPUT],
                          *cache = &call->views[GPU_CACHE_WRITE_CACHE];
    if (input->ne[0] != cache->ne[0] || input->ne[1] != cache->ne[2] || input->ne[3] != 1 ||
        !has_shape(&call->views[GPU_CACHE_WRITE_SLOTS], input->ne[2], 1, 1, 1))
        return SHAPES(request);
    return check_cache(request, cache, row_size(cache));
}

static int check_reserved(const struct gpu_request *request, uint32_t reserved)
{
    if (reserved == 0) return ENGINE_OK;
    return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: the arguments are from a later version",
                      request->op);
}

static int check_rope(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[GPU_ROPE_INPUT];
    const struct engine_op_rope *args = &call->args.rope;
    if (input->ne[3] != 1 || !same_shape(input, &v[GPU_ROPE_OUTPUT]) || args->n_dims % 2 != 0 ||
        args->n_dims == 0 || args->n_dims > input->ne[0] ||
        !has_shape(&v[GPU_ROPE_POSITIONS], input->ne[2], 1, 1, 1) ||
        (v[GPU_ROPE_FACTORS].present && !has_shape(&v[GPU_ROPE_FACTORS], args->n_dims / 2, 1, 1, 1)))
        return SHAPES(request);
    if (args->pairs != ENGINE_ROPE_ADJACENT && args->pairs != ENGINE_ROPE_HALVES)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "rope: unknown pairs %u", args->pairs);
    return check_reserved(request, args->reserved);
}

static int check_norm(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[GPU_NORM_INPUT];
    if (!same_shape(input, &v[GPU_NORM_OUTPUT]) || input->ne[3] != 1 ||
        !has_values(&v[GPU_NORM_WEIGHT], input->ne[0]) || !has_values(&v[GPU_NORM_BIAS], input->ne[0]))
        return SHAPES(request);
    if (call->args.norm.kind != ENGINE_NORM_RMS && call->args.norm.kind != ENGINE_NORM_LAYER)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "norm: unknown kind %u", call->args.norm.kind);
    return ENGINE_OK;
}

static int check_get_rows(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *v = call->views;
    uint64_t count = v[GPU_GET_ROWS_ROWS].ne[0];
    if (v[GPU_GET_ROWS_SOURCE].ne[2] != 1 || v[GPU_GET_ROWS_SOURCE].ne[3] != 1 ||
        !has_shape(&v[GPU_GET_ROWS_ROWS], count, 1, 1, 1) ||
        !has_shape(&v[GPU_GET_ROWS_OUTPUT], v[GPU_GET_ROWS_SOURCE].ne[0], count, 1, 1))
        return SHAPES(request);
    return ENGINE_OK;
}

static int check_binary(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *a = &call->views[GPU_BINARY_A], *b = &call->views[GPU_BINARY_B];
    bool of_shape = same_shape(a, b) || has_shape(b, 1, a->ne[1], a->ne[2], 1);
    if (a->ne[3] != 1 || !same_shape(a, &call->views[GPU_BINARY_OUTPUT]) ||
        !((of_shape && !b->is_weight) || has_shape(b, a->ne[0], 1, 1, 1)))
        return SHAPES(request);
    return ENGINE_OK;
}

static int check_activate(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *input = &call->views[GPU_ACTIVATE_INPUT],
                          *factor = &call->views[GPU_ACTIVATE_FACTOR];
    if (input->ne[3] != 1 || !same_shape(input, &call->views[GPU_ACTIVATE_OUTPUT]) ||
        (factor->present && !same_shape(input, factor)))
        return SHAPES(request);
    const struct engine_op_activate *args = &call->args.activate;
    if (args->activation > ENGINE_ACTIVATION_EXP)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "activate: unknown activation %u",
                          args->activation);
    bool is_gated_unit = args->activation == ENGINE_ACTIVATION_SWIGLU_CLAMPED;
    bool takes_limit = !is_plain(args->activation) && args->activation != ENGINE_ACTIVATION_EXP;
    if ((!takes_limit ? args->limit != 0 : !(args->limit > 0)) || (!is_gated_unit && args->alpha != 0) ||
        (is_gated_unit && !factor->present))
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT,
                          "activate: limit, alpha or factor do not suit activation %u", args->activation);
    return check_reserved(request, args->reserved);
}

static int check_route(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *v = call->views;
    const struct engine_op_route *args = &call->args.route;
    uint64_t n = v[GPU_ROUTE_LOGITS].ne[0], tokens = v[GPU_ROUTE_LOGITS].ne[1],
             n_used = v[GPU_ROUTE_IDS].ne[0];
    if (!has_shape(&v[GPU_ROUTE_LOGITS], n, tokens, 1, 1) || !has_values(&v[GPU_ROUTE_BIAS], n) ||
        !has_shape(&v[GPU_ROUTE_IDS], n_used, tokens, 1, 1) ||
        !has_shape(&v[GPU_ROUTE_WEIGHTS], n_used, tokens, 1, 1) || n_used > n)
        return SHAPES(request);
    if (args->function > ENGINE_ROUTE_SIGMOID || args->group_score > ENGINE_ROUTE_GROUP_TOP2)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "route: unknown function");
    if (n > request->limits->max_experts)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "route: %llu experts are too many",
                          (unsigned long long)n);
    uint64_t group = args->n_groups > 1 ? n / args->n_groups : n;
    if ((args->n_groups > 1 && (n % args->n_groups != 0 || n_used > group * args->n_groups_used)) ||
        args->n_groups_used > args->n_groups ||
        (args->n_groups > 0 && args->group_score == ENGINE_ROUTE_GROUP_TOP2 && group < 2))
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "route: the groups do not suit the experts");
    if (args->normalise > 1 || !(args->floor >= 0))
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "route: normalise or floor are out of range");
    return check_reserved(request, args->reserved);
}

static int check_concat(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *a = &call->views[GPU_CONCAT_A], *b = &call->views[GPU_CONCAT_B];
    if (a->ne[3] != 1 || !has_shape(b, b->ne[0], b->ne[1] == 1 ? 1 : a->ne[1], a->ne[2], 1) ||
        !has_shape(&call->views[GPU_CONCAT_OUTPUT], a->ne[0] + b->ne[0], a->ne[1], a->ne[2], 1))
        return SHAPES(request);
    return ENGINE_OK;
}

/* Whether there is one of a number of states for each token, and a position. */
static bool numbers_fit(const struct gpu_view *positions, const struct gpu_view *states, uint64_t tokens)
{
    return has_shape(positions, tokens, 1, 1, 1) && has_shape(states, tokens, 1, 1, 1);
}

static int check_state(const struct gpu_request *request, const struct gpu_view *state)
{
    if (has_step(state, row_size(state))) return ENGINE_OK;
    return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: the state has gaps", request->op);
}

static int check_conv(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[GPU_CONV_INPUT], *state = &v[GPU_CONV_STATE];
    uint64_t n = input->ne[0], tokens = input->ne[1], taps = v[GPU_CONV_WEIGHT].ne[0];
    if (taps < 2 || taps > MOST_TAPS)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "conv: %llu taps", (unsigned long long)taps);
    if (!has_shape(input, n, tokens, 1, 1) || !has_shape(&v[GPU_CONV_OUTPUT], n, tokens, 1, 1) ||
        !has_shape(&v[GPU_CONV_WEIGHT], taps, n, 1, 1) ||
        !numbers_fit(&v[GPU_CONV_POSITIONS], &v[GPU_CONV_STATES], tokens) ||
        !has_shape(state, n, taps - 1, state->ne[2], 1))
        return SHAPES(request);
    return check_state(request, state);
}

static bool scan_fits(const struct gpu_view *v)
{
    const struct gpu_view *q = &v[GPU_SCAN_Q], *values = &v[GPU_SCAN_V], *decay = &v[GPU_SCAN_DECAY];
    uint64_t keys = q->ne[0], tokens = q->ne[2], n = values->ne[0], heads = values->ne[1];
    uint64_t n_decay = v[GPU_SCAN_RATES].present ? n : decay->ne[0] == 1 ? 1 : keys;
    return q->ne[3] == 1 && heads % q->ne[1] == 0 && same_shape(q, &v[GPU_SCAN_K]) &&
           has_shape(values, n, heads, tokens, 1) && same_shape(values, &v[GPU_SCAN_OUTPUT]) &&
           (!v[GPU_SCAN_A].present || (same_shape(q, &v[GPU_SCAN_A]) && same_shape(q, &v[GPU_SCAN_B]))) &&
           (!v[GPU_SCAN_ERASE].present || has_shape(&v[GPU_SCAN_ERASE], 1, heads, tokens, 1)) &&
           (!decay->present || has_shape(decay, n_decay, heads, tokens, 1)) &&
           (!v[GPU_SCAN_RATES].present || has_shape(&v[GPU_SCAN_RATES], keys, n * heads, 1, 1)) &&
           (!v[GPU_SCAN_BONUS].present || has_shape(&v[GPU_SCAN_BONUS], keys, heads, 1, 1)) &&
           numbers_fit(&v[GPU_SCAN_POSITIONS], &v[GPU_SCAN_STATES], tokens) &&
           has_shape(&v[GPU_SCAN_STATE], n, keys, heads, v[GPU_SCAN_STATE].ne[3]);
}

static int check_scan(const struct gpu_request *request, struct gpu_call *call)
{
    const struct gpu_view *v = call->views;
    if (v[GPU_SCAN_A].present != v[GPU_SCAN_B].present ||
        (v[GPU_SCAN_ERASE].present && !v[GPU_SCAN_A].present) ||
        (v[GPU_SCAN_RATES].present && !v[GPU_SCAN_DECAY].present))
        return gpu_refuse(request, ENGINE_ERROR_ARGUMENT,
                          "scan: a or b, what erase belongs to, or the decay of rates is missing");
    if (!scan_fits(v)) return SHAPES(request);
    if (v[GPU_SCAN_Q].ne[0] > MOST_KEYS || v[GPU_SCAN_V].ne[0] > MOST_VALUES ||
        v[GPU_SCAN_V].ne[1] > MOST_HEADS)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "scan: too many keys, values or heads");
    int status = check_state(request, &v[GPU_SCAN_STATE]);
    return status ? status : check_reserved(request, call->args.scan.reserved);
}

/* ---- The table ----------------------------------------------------------------------------------------- */

#define AT(type, field, ...)                                                                                 \
    {                                                                                                        \
#field, offsetof(struct type, field), __VA_ARGS__                                                    \
    }

#define MATMUL_USES (ENGINE_WEIGHT_MATMUL | ENGINE_WEIGHT_MATRICES)

static const struct op ops[] = {
    [ENGINE_OP_MATMUL] = {"matmul",
                          sizeof(struct engine_op_matmul),
                          {AT(engine_op_matmul, weight, IS_WEIGHT | ANY_TYPE, MATMUL_USES),
                           AT(engine_op_matmul, input, IN_BUFFER, 0),
                           AT(engine_op_matmul, output, IN_BUFFER, 0),
                           AT(engine_op_matmul, gate, IS_WEIGHT | ANY_TYPE | OPTIONAL, MATMUL_USES),
                           AT(engine_op_matmul, bias, IS_WEIGHT | OPTIONAL, ENGINE_WEIGHT_VALUES),
                           AT(engine_op_matmul, residual, IN_BUFFER | OPTIONAL, 0),
                           AT(engine_op_matmul, experts, IN_BUFFER | IS_I32 | OPTIONAL, 0),
                           AT(engine_op_matmul, mix, IN_BUFFER | OPTIONAL, 0)},
                          check_matmul},
    [ENGINE_OP_ATTENTION] = {"attention",
                             sizeof(struct engine_op_attention),
                             {AT(engine_op_attention, q, IN_BUFFER, 0),
                              AT(engine_op_attention, k, IN_BUFFER | IS_CACHE, 0),
                              AT(engine_op_attention, v, IN_BUFFER | IS_CACHE, 0),
                              AT(engine_op_attention, block_table, IN_BUFFER | IS_I32, 0),
                              AT(engine_op_attention, sequences, IN_BUFFER | IS_I32, 0),
                              AT(engine_op_attention, positions, IN_BUFFER | IS_I32, 0),
                              AT(engine_op_attention, output, IN_BUFFER, 0),
                              AT(engine_op_attention, slopes, IS_WEIGHT | OPTIONAL, ENGINE_WEIGHT_VALUES),
                              AT(engine_op_attention, sinks, IS_WEIGHT | OPTIONAL, ENGINE_WEIGHT_VALUES),
                              AT(engine_op_attention, weights, IN_BUFFER | OPTIONAL, 0),
                              AT(engine_op_attention, distance_bias, IS_WEIGHT | OPTIONAL,
                                 ENGINE_WEIGHT_VALUES)},
                             check_attention},
    [ENGINE_OP_CACHE_WRITE] = {"cache write",
                               sizeof(struct engine_op_cache_write),
                               {AT(engine_op_cache_write, input, IN_BUFFER, 0),
                                AT(engine_op_cache_write, slots, IN_BUFFER | IS_I32, 0),
                                AT(engine_op_cache_write, cache, IN_BUFFER | IS_CACHE, 0)},
                               check_cache_write},
    [ENGINE_OP_ROPE] = {"rope",
                        sizeof(struct engine_op_rope),
                        {AT(engine_op_rope, input, IN_BUFFER, 0),
                         AT(engine_op_rope, positions, IN_BUFFER | IS_I32, 0),
                         AT(engine_op_rope, output, IN_BUFFER, 0),
                         AT(engine_op_rope, factors, IS_WEIGHT | OPTIONAL, ENGINE_WEIGHT_VALUES)},
                        check_rope},
    [ENGINE_OP_NORM] = {"norm",
                        sizeof(struct engine_op_norm),
                        {AT(engine_op_norm, input, IN_BUFFER, 0), AT(engine_op_norm, output, IN_BUFFER, 0),
                         AT(engine_op_norm, weight, IS_WEIGHT | OPTIONAL, ENGINE_WEIGHT_VALUES),
                         AT(engine_op_norm, bias, IS_WEIGHT | OPTIONAL, ENGINE_WEIGHT_VALUES)},
                        check_norm},
    [ENGINE_OP_GET_ROWS] = {"get rows",
                            sizeof(struct engine_op_get_rows),
                            {AT(engine_op_get_rows, source, IN_BUFFER | IS_WEIGHT | ANY_TYPE,
                                ENGINE_WEIGHT_ROWS),
                             AT(engine_op_get_rows, rows, IN_BUFFER | IS_I32, 0),
                             AT(engine_op_get_rows, output, IN_BUFFER, 0)},
                            check_get_rows},
    [ENGINE_OP_ADD] = {"add",
                       sizeof(struct engine_op_binary),
                       {AT(engine_op_binary, a, IN_BUFFER, 0),
                        AT(engine_op_binary, b, IN_BUFFER | IS_WEIGHT, ENGINE_WEIGHT_VALUES),
                        AT(engine_op_binary, output, IN_BUFFER, 0)},
                       check_binary},
    [ENGINE_OP_MUL] = {"mul",
                       sizeof(struct engine_op_binary),
                       {AT(engine_op_binary, a, IN_BUFFER, 0),
                        AT(engine_op_binary, b, IN_BUFFER | IS_WEIGHT, ENGINE_WEIGHT_VALUES),
                        AT(engine_op_binary, output, IN_BUFFER, 0)},
                       check_binary},
    [ENGINE_OP_ACTIVATE] = {"activate",
                            sizeof(struct engine_op_activate),
                            {AT(engine_op_activate, input, IN_BUFFER, 0),
                             AT(engine_op_activate, factor, IN_BUFFER | OPTIONAL, 0),
                             AT(engine_op_activate, output, IN_BUFFER, 0)},
                            check_activate},
    [ENGINE_OP_ROUTE] = {"route",
                         sizeof(struct engine_op_route),
                         {AT(engine_op_route, logits, IN_BUFFER, 0),
                          AT(engine_op_route, bias, IS_WEIGHT | OPTIONAL, ENGINE_WEIGHT_VALUES),
                          AT(engine_op_route, ids, IN_BUFFER | IS_I32, 0),
                          AT(engine_op_route, weights, IN_BUFFER, 0)},
                         check_route},
    [ENGINE_OP_CONCAT] = {"concat",
                          sizeof(struct engine_op_concat),
                          {AT(engine_op_concat, a, IN_BUFFER, 0), AT(engine_op_concat, b, IN_BUFFER, 0),
                           AT(engine_op_concat, output, IN_BUFFER, 0)},
                          check_concat},
    [ENGINE_OP_CONV] = {"conv",
                        sizeof(struct engine_op_conv),
                        {AT(engine_op_conv, input, IN_BUFFER, 0),
                         AT(engine_op_conv, weight, IS_WEIGHT, ENGINE_WEIGHT_VALUES),
                         AT(engine_op_conv, positions, IN_BUFFER | IS_I32, 0),
                         AT(engine_op_conv, states, IN_BUFFER | IS_I32, 0),
                         AT(engine_op_conv, state, IN_BUFFER, 0), AT(engine_op_conv, output, IN_BUFFER, 0)},
                        check_conv},
    [ENGINE_OP_SCAN] = {"scan",
                        sizeof(struct engine_op_scan),
                        {AT(engine_op_scan, q, IN_BUFFER, 0), AT(engine_op_scan, k, IN_BUFFER, 0),
                         AT(engine_op_scan, v, IN_BUFFER, 0),
                         AT(engine_op_scan, decay, IN_BUFFER | OPTIONAL, 0),
                         AT(engine_op_scan, rates, IS_WEIGHT | OPTIONAL, ENGINE_WEIGHT_VALUES),
                         AT(engine_op_scan, a, IN_BUFFER | OPTIONAL, 0),
                         AT(engine_op_scan, b, IN_BUFFER | OPTIONAL, 0),
                         AT(engine_op_scan, erase, IN_BUFFER | OPTIONAL, 0),
                         AT(engine_op_scan, bonus, IS_WEIGHT | OPTIONAL, ENGINE_WEIGHT_VALUES),
                         AT(engine_op_scan, positions, IN_BUFFER | IS_I32, 0),
                         AT(engine_op_scan, states, IN_BUFFER | IS_I32, 0),
                         AT(engine_op_scan, state, IN_BUFFER, 0), AT(engine_op_scan, output, IN_BUFFER, 0)},
                        check_scan},
};

int gpu_check(struct gpu_request *request, uint32_t op, const void *args, struct gpu_call *call)
{
    request->op = "operation";
    if (op >= sizeof ops / sizeof *ops || !ops[op].name)
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "unknown operation %u", op);
    const struct op *info = &ops[op];
    request->op = info->name;
    size_t size = args ? *(const size_t *)args : 0;
    if (size < sizeof size) return gpu_refuse(request, ENGINE_ERROR_ARGUMENT, "%s: no arguments", info->name);
    if (size > info->size && !sized_rest_is_zero(args, info->size))
        return gpu_refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: the arguments are from a later version",
                          info->name);
    memset(call, 0, sizeof *call);
    call->op = op;
    memcpy(&call->args, args, size < info->size ? size : info->size);
    for (size_t i = 0; i < GPU_MAX_OPERANDS && info->operands[i].name; i++) {
        const struct engine_tensor *tensor;
        memcpy(&tensor, (const char *)&call->args + info->operands[i].offset,
               sizeof(const struct engine_tensor *));
        int status = gpu_check_tensor(request, &info->operands[i], tensor, &call->views[i]);
        if (status) return status;
    }
    return info->check(request, call);
}
