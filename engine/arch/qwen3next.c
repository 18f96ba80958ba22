/* qwen3next.c: Qwen 3 Next: three of four layers have a gated delta net (arXiv 2412.06464) instead of
 * attention, whose output has a gate. Feed-forward networks are Qwen 2's mixtures. */
#include <math.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

struct qwen3next {
    struct decoder decoder;
    uint32_t n_conv, key_dim, value_dim, n_key_heads, n_value_heads; /* of the delta net */
};

/* Which layers have no attention. */
static void read_layers(struct hparams *h, struct decoder *d)
{
    uint32_t interval = hparams_count(h, "full_attention_interval", 4);
    bool is_listed = hparams_has(h, "attention.recurrent_layers");
    for (uint32_t i = 0; i < d->n_layers; i++)
        d->layers[i].is_recurrent = is_listed
                                        ? hparams_count_at(h, "attention.recurrent_layers", i, d->n_layers, 0)
                                        : interval == 0 || (i + 1) % interval != 0;
}

static void qwen3next_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct qwen3next *qwen = hparams;
    struct decoder *d = &qwen->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    read_layers(h, d);
    d->ffn_norm = "post_attention_norm";
    uint32_t n_inner = hparams_count_required(h, "ssm.inner_size");
    qwen->n_conv = hparams_count_required(h, "ssm.conv_kernel");
    qwen->key_dim = hparams_count_required(h, "ssm.state_size");
    qwen->n_key_heads = hparams_count_required(h, "ssm.group_count");
    qwen->n_value_heads = hparams_count_required(h, "ssm.time_step_rank");
    qwen->value_dim = n_inner / qwen->n_value_heads;
    *info = decoder_info(d);
    info->has_states = true;
    if (h->status) return;
    if (qwen->n_conv < 2 || qwen->n_conv > 16 || qwen->key_dim > 256 || qwen->n_value_heads > 65536 ||
        n_inner > 1u << 24)
        hparams_fail(
            h, ENGINE_ERROR_UNSUPPORTED,
            "ssm: inner_size %u, state_size %u, conv_kernel %u, time_step_rank %u; supported are up to "
            "256 keys and 2 to 16 taps",
            n_inner, qwen->key_dim, qwen->n_conv, qwen->n_value_heads);
    else if (n_inner % qwen->n_value_heads != 0 || qwen->n_value_heads % qwen->n_key_heads != 0)
        hparams_fail(h, ENGINE_ERROR_DATA,
                     "ssm: inner_size %u, time_step_rank %u and group_count %u don't go together", n_inner,
                     qwen->n_value_heads, qwen->n_key_heads);
}

/* ---- The delta net ------------------------------------------------------------------------------------- */

/* factor * x / sqrt(|x|^2 + 1e-6), for each head of queries or keys. */
static struct value *unit(struct graph *g, const struct qwen3next *qwen, struct value *x, float factor)
{
    uint64_t n = qwen->key_dim;
    x = graph_reshape(g, x, n, qwen->n_key_heads, g->shape.n_tokens);
    return graph_norm(g, x, graph_constant(g, n, factor / sqrtf((float)n)), NULL, ENGINE_NORM_RMS,
                      1e-6f / (float)n);
}

/* The numbers of each value head that a product has `part` of for each key head: [1, n_value_heads,
 * n_tokens]. */
static struct value *head_numbers(struct graph *g, const struct qwen3next *qwen, struct value *all,
                                  uint64_t part)
{
    uint64_t n_each = qwen->n_value_heads / qwen->n_key_heads, n_tokens = g->shape.n_tokens;
    all = graph_reshape(g, all, 2 * n_each, qwen->n_key_heads, n_tokens);
    struct value *numbers = graph_slice(g, all, part * n_each, n_each);
    numbers = graph_mul(g, numbers, graph_constant(g, n_each, 1)); /* without gaps */
    return graph_reshape(g, numbers, qwen->n_value_heads, n_tokens, 1);
}

static struct value *convolve(struct graph *g, const struct qwen3next *qwen, uint64_t n, struct value *x)
{
    struct value *weight = graph_values(g, qwen->n_conv, n, "blk.%u.ssm_conv1d.weight", g->layer);
    x = graph_conv(g, x, weight, graph_state(g, n, qwen->n_conv - 1, 0));
    return graph_activate(g, x, NULL, ENGINE_ACTIVATION_SILU);
}

/* S = e^g S + k beta (v - (e^g S)^T k)^T: the old value of a key gives way to the new one by the share
 * beta. */
static struct value *delta_net(struct graph *g, const struct qwen3next *qwen, struct value *x)
{
    const struct decoder *d = &qwen->decoder;
    const uint64_t n_heads = qwen->n_value_heads, n_tokens = g->shape.n_tokens, n_values = qwen->value_dim;
    const uint64_t n_keys = (uint64_t)qwen->n_key_heads * qwen->key_dim, n = n_heads * n_values;
    struct value *z = decoder_linear(g, "attn_gate", d->n_embd, n, x);
    struct value *ba = decoder_linear(g, "ssm_ba", d->n_embd, 2 * n_heads, x);
    struct value *all = decoder_linear(g, "attn_qkv", d->n_embd, 2 * n_keys + n, x);
    all = convolve(g, qwen, 2 * n_keys + n, all);
    struct value *q = unit(g, qwen, graph_slice(g, all, 0, n_keys), 1 / sqrtf((float)qwen->key_dim));
    struct value *k = unit(g, qwen, graph_slice(g, all, n_keys, n_keys), 1);
    struct value *v = graph_reshape(g, graph_slice(g, all, 2 * n_keys, n), n_values, n_heads, n_tokens);
    struct value *beta = graph_activate(g, head_numbers(g, qwen, ba, 0), NULL, ENGINE_ACTIVATION_SIGMOID);
    struct value *dt = graph_add(g, head_numbers(g, qwen, ba, 1),
                                 graph_values(g, n_heads, 1, "blk.%u.ssm_dt.bias", g->layer));
    dt = graph_activate(g, dt, NULL, ENGINE_ACTIVATION_SOFTPLUS);
    struct value *decay = graph_mul(g, dt, graph_values(g, n_heads, 1, "blk.%u.ssm_a", g->layer));
    struct value *erase = graph_activate(g, decay, NULL, ENGINE_ACTIVATION_EXP);
    erase = graph_mul(g, graph_mul(g, erase, beta), graph_constant(g, n_heads, -1));
    beta = graph_reshape(g, beta, 1, n_heads, n_tokens);
    const struct scan_operands operands = {
        .q = q,
        .k = k,
        .v = graph_mul(g, v, beta),
        .decay = graph_reshape(g, decay, 1, n_heads, n_tokens),
        .a = k,
        .b = k,
        .erase = graph_reshape(g, erase, 1, n_heads, n_tokens),
    };
    struct value *y = graph_scan(g, &operands, graph_state(g, n_values, qwen->key_dim, n_heads));
    struct value *norm = graph_values(g, n_values, 1, "blk.%u.ssm_norm.weight", g->layer);
    y = graph_norm(g, y, norm, NULL, ENGINE_NORM_RMS, d->epsilon);
    y = graph_activate(g, z, graph_reshape(g, y, n, n_tokens, 1), ENGINE_ACTIVATION_SILU);
    return decoder_linear(g, "ssm_out", n, d->n_embd, decoder_layer_output(g, d, y));
}

/* ---- Attention with a gate ----------------------------------------------------------------------------- */

/* The matrix attn_q gives the query of each head, and then its gate. */
static struct value *gated_attention(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct decoder_layer *layer = &d->layers[g->layer];
    const uint64_t n = layer->n_heads, n_kv = layer->n_kv_heads, dim = d->head_dim,
                   n_tokens = g->shape.n_tokens;
    struct value *factors = rope_factors(g, layer->rope);
    struct value *both = decoder_linear(g, "attn_q", d->n_embd, 2 * dim * n, x);
    both = graph_reshape(g, both, 2 * dim, n, n_tokens);
    struct value *gate = graph_activate(g, graph_slice(g, both, dim, dim), NULL, ENGINE_ACTIVATION_SIGMOID);
    struct value *q = decoder_norm(g, d, "attn_q_norm", graph_slice(g, both, 0, dim));
    struct value *k = decoder_linear(g, "attn_k", d->n_embd, dim * n_kv, x);
    struct value *v = decoder_linear(g, "attn_v", d->n_embd, d->value_dim * n_kv, x);
    k = decoder_norm(g, d, "attn_k_norm", graph_reshape(g, k, dim, n_kv, n_tokens));
    const struct heads heads = {
        .q = decoder_rotate(g, layer->rope, factors, q),
        .k = decoder_rotate(g, layer->rope, factors, k),
        .v = graph_reshape(g, v, d->value_dim, n_kv, n_tokens),
    };
    struct value *out = decoder_attend(g, d, &heads);
    gate = decoder_layer_output(g, d, graph_reshape(g, gate, dim * n, n_tokens, 1));
    return decoder_linear(g, "attn_output", d->value_dim * n, d->n_embd, graph_mul(g, out, gate));
}

static struct value *qwen3next_mix(struct graph *g, const struct decoder *d, struct value *x)
{
    return d->layers[g->layer].is_recurrent ? delta_net(g, (const struct qwen3next *)d, x)
                                            : gated_attention(g, d, x);
}

static void qwen3next_build(struct graph *g, const void *hparams)
{
    decoder_build_mixed(g, hparams, qwen3next_mix);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void qwen3next_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    hf_refuse_activation(config);
    config->key_dim = hf_count(config, json, "linear_key_head_dim", 128);
    config->value_dim = hf_count(config, json, "linear_value_head_dim", 128);
    config->n_key_heads = hf_count(config, json, "linear_num_key_heads", 16);
    config->n_value_heads = hf_count(config, json, "linear_num_value_heads", 32);
    if (config->n_key_heads == 0 || config->n_value_heads % config->n_key_heads != 0 ||
        (uint64_t)config->n_value_heads * config->value_dim > INT32_MAX)
        hf_fail(config, ENGINE_ERROR_DATA, "linear_num_value_heads %u does not suit linear_num_key_heads %u",
                config->n_value_heads, config->n_key_heads);
    hf_refuse(config, json_array_size(hf_get(json, "mlp_only_layers")) > 0, "mlp_only_layers in qwen3_next");
    hf_read_recurrent_layers(config, "linear_attention", "full_attention",
                             hf_count(config, json, "full_attention_interval", 4));
    if (config->status) return;
    hf_put_count(config, "ssm.state_size", config->key_dim);
    hf_put_count(config, "ssm.group_count", config->n_key_heads);
    hf_put_count(config, "ssm.time_step_rank", config->n_value_heads);
    hf_put_count(config, "ssm.inner_size", config->n_value_heads * config->value_dim);
    hf_put_layer_flags(config, "attention.recurrent_layers", config->is_recurrent);
}

static const struct hf_key qwen3next_numbers[] = {
    {"num_experts", "expert_count", HF_COUNT, 512},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 10},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 512},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 512},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 1},
    {"decoder_sparse_step", "interleave_moe_layer_step", HF_COUNT, 1},
    {"full_attention_interval", "full_attention_interval", HF_COUNT, 4},
    {"linear_conv_kernel_dim", "ssm.conv_kernel", HF_COUNT, 4},
    {0},
};

static const struct hf_module qwen3next_modules[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"linear_attn.in_proj_qkvz", "attn_qkvz"},
    {"linear_attn.in_proj_ba", "ssm_ba"},
    {"linear_attn.conv1d", "ssm_conv1d"},
    {"linear_attn.dt", "ssm_dt"}, /* dt_bias */
    {"linear_attn.A_log", "ssm_a."},
    {"linear_attn.norm", "ssm_norm"},
    {"linear_attn.out_proj", "ssm_out"},
    {0},
};

static const struct hf_form qwen3next_forms[] = {
    {.tensor = "attn_qkvz", .kind = FORM_QKVZ, .outputs = {"attn_qkv", "attn_gate"}},
    {0},
};

static const struct hf_type qwen3next_types[] = {
    {.name = "qwen3_next",
     .keys = {.layer_types = "layer_types"},
     .width = 2048,
     .layers = 48,
     .heads = 16,
     .kv_heads = 2,
     .head_dim = 256,
     .ff = 5632,
     .context = 32768,
     .rotary = 0.25,
     .numbers = qwen3next_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = qwen3next_read_config},
    {0},
};

const struct architecture arch_qwen3next = {
    .name = "qwen3next",
    .models = "Qwen 3 Next: a hybrid of recurrent layers and layers with attention",
    .size = sizeof(struct qwen3next),
    .read = qwen3next_read,
    .build = qwen3next_build,
    .hf = {.types = qwen3next_types,
           .modules = qwen3next_modules,
           .forms = qwen3next_forms,
           .norms_add_one = true},
};
