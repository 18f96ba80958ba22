/* delta-net.c: see delta-net.h. */
#include "arch/delta-net.h"

#include <math.h>
#include <string.h>

#include "model/hf/config.h"

/* Which layers have no attention. */
static void read_recurrent_layers(struct hparams *h, struct decoder *d)
{
    uint32_t interval = hparams_count(h, "full_attention_interval", 4);
    bool is_listed = hparams_has(h, "attention.recurrent_layers");
    for (uint32_t i = 0; i < d->n_layers; i++)
        d->layers[i].is_recurrent = is_listed
                                        ? hparams_count_at(h, "attention.recurrent_layers", i, d->n_layers, 0)
                                        : interval == 0 || (i + 1) % interval != 0;
}

void delta_net_read(struct hparams *h, void *delta_net, struct arch_info *info)
{
    struct delta_net *net = delta_net;
    struct decoder *d = &net->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    read_recurrent_layers(h, d);
    d->ffn_norm = "post_attention_norm";
    uint32_t n_inner = hparams_count_required(h, "ssm.inner_size");
    net->n_conv = hparams_count_required(h, "ssm.conv_kernel");
    net->key_dim = hparams_count_required(h, "ssm.state_size");
    net->n_key_heads = hparams_count_required(h, "ssm.group_count");
    net->n_value_heads = hparams_count_required(h, "ssm.time_step_rank");
    net->value_dim = n_inner / net->n_value_heads;
    decoder_read_sections(h, d, true);
    *info = decoder_info(d);
    info->has_states = true;
    if (h->status) return;
    if (net->n_conv < 2 || net->n_conv > 16 || net->key_dim > 256 || net->n_value_heads > 65536 ||
        n_inner > 1u << 24)
        hparams_fail(
            h, ENGINE_ERROR_UNSUPPORTED,
            "ssm: inner_size %u, state_size %u, conv_kernel %u, time_step_rank %u; supported are up to "
            "256 keys and 2 to 16 taps",
            n_inner, net->key_dim, net->n_conv, net->n_value_heads);
    else if (n_inner % net->n_value_heads != 0 || net->n_value_heads % net->n_key_heads != 0)
        hparams_fail(h, ENGINE_ERROR_DATA,
                     "ssm: inner_size %u, time_step_rank %u and group_count %u don't go together", n_inner,
                     net->n_value_heads, net->n_key_heads);
}

/* ---- The delta net ------------------------------------------------------------------------------------- */

/* factor * x / sqrt(|x|^2 + 1e-6), for each head of queries or keys. */
static struct value *unit(struct graph *g, const struct delta_net *net, struct value *x, float factor)
{
    uint64_t n = net->key_dim;
    x = graph_reshape(g, x, n, net->n_key_heads, g->shape.n_tokens);
    return graph_norm(g, x, graph_constant(g, n, factor / sqrtf((float)n)), NULL, ENGINE_NORM_RMS,
                      1e-6f / (float)n);
}

/* Queries or keys for each value head, in the place of those that value heads share. */
static struct value *tile(struct graph *g, const struct delta_net *net, struct value *x)
{
    const uint64_t n = (uint64_t)net->n_key_heads * net->key_dim, n_tokens = g->shape.n_tokens;
    if (!net->is_tiled || net->n_value_heads == net->n_key_heads) return x;
    x = graph_repeat(g, graph_reshape(g, x, n, 1, n_tokens), net->n_value_heads / net->n_key_heads);
    return graph_reshape(g, x, net->key_dim, net->n_value_heads, n_tokens);
}

/* The numbers of each value head that a product has `part` of for each key head: [n_value_heads,
 * n_tokens]. */
static struct value *head_numbers(struct graph *g, const struct delta_net *net, struct value *all,
                                  uint64_t part)
{
    uint64_t n_each = net->n_value_heads / net->n_key_heads, n_tokens = g->shape.n_tokens;
    all = graph_reshape(g, all, 2 * n_each, net->n_key_heads, n_tokens);
    struct value *numbers = graph_slice(g, all, part * n_each, n_each);
    numbers = graph_mul(g, numbers, graph_constant(g, n_each, 1)); /* without gaps */
    return graph_reshape(g, numbers, net->n_value_heads, n_tokens, 1);
}

/* Beta and the time steps of the value heads, before their activations, from one matrix or two:
 * [n_value_heads, n_tokens] each. */
static void project_steps(struct graph *g, const struct delta_net *net, struct value *x, struct value **beta,
                          struct value **dt)
{
    const uint64_t n = net->decoder.n_embd;
    if (decoder_has_weight(g, "ssm_ba")) {
        struct value *both = decoder_linear(g, "ssm_ba", n, 2 * (uint64_t)net->n_value_heads, x);
        *beta = head_numbers(g, net, both, 0);
        *dt = head_numbers(g, net, both, 1);
    } else {
        *beta = decoder_linear(g, "ssm_beta", n, net->n_value_heads, x);
        *dt = decoder_linear(g, "ssm_alpha", n, net->n_value_heads, x);
    }
}

static struct value *convolve(struct graph *g, const struct delta_net *net, uint64_t n, struct value *x)
{
    struct value *weight = graph_values(g, net->n_conv, n, "blk.%u.ssm_conv1d.weight", g->layer);
    x = graph_conv(g, x, weight, graph_state(g, n, net->n_conv - 1, 0));
    return graph_activate(g, x, NULL, ENGINE_ACTIVATION_SILU);
}

/* S = e^g S + k beta (v - (e^g S)^T k)^T: the old value of a key gives way to the new one by the share
 * beta. */
static struct value *delta_net(struct graph *g, const struct delta_net *net, struct value *x)
{
    const struct decoder *d = &net->decoder;
    const uint64_t n_heads = net->n_value_heads, n_tokens = g->shape.n_tokens, n_values = net->value_dim;
    const uint64_t n_keys = (uint64_t)net->n_key_heads * net->key_dim, n = n_heads * n_values;
    struct value *z = decoder_linear(g, "attn_gate", d->n_embd, n, x);
    struct value *beta, *dt;
    project_steps(g, net, x, &beta, &dt);
    struct value *all = decoder_linear(g, "attn_qkv", d->n_embd, 2 * n_keys + n, x);
    all = convolve(g, net, 2 * n_keys + n, all);
    struct value *q = unit(g, net, graph_slice(g, all, 0, n_keys), 1 / sqrtf((float)net->key_dim));
    struct value *k = unit(g, net, graph_slice(g, all, n_keys, n_keys), 1);
    struct value *v = graph_reshape(g, graph_slice(g, all, 2 * n_keys, n), n_values, n_heads, n_tokens);
    q = tile(g, net, q);
    k = tile(g, net, k);
    beta = graph_activate(g, beta, NULL, ENGINE_ACTIVATION_SIGMOID);
    dt = graph_add(g, dt, graph_values(g, n_heads, 1, "blk.%u.ssm_dt.bias", g->layer));
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
    struct value *y = graph_scan(g, &operands, graph_state(g, n_values, net->key_dim, n_heads));
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

static struct value *delta_net_mix(struct graph *g, const struct decoder *d, struct value *x)
{
    return d->layers[g->layer].is_recurrent ? delta_net(g, (const struct delta_net *)d, x)
                                            : gated_attention(g, d, x);
}

void delta_net_build(struct graph *g, const void *delta_net)
{
    decoder_build_mixed(g, delta_net, delta_net_mix);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* The gates are those of the published models, which transformers takes for granted. */
static void refuse_gates(struct hf_config *config)
{
    const char *gate = hf_text(config, config->json, "output_gate_type");
    hf_refuse_activation(config);
    hf_refuse(config, gate && strcmp(gate, "swish") != 0 && strcmp(gate, "silu") != 0,
              "an output_gate_type but swish");
    hf_refuse(config, !hf_flag(config, config->json, "attn_output_gate", true), "attn_output_gate: false");
}

void delta_net_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    refuse_gates(config);
    hf_refuse(config, json_array_size(hf_get(json, "mlp_only_layers")) > 0,
              "mlp_only_layers in a model with delta nets");
    config->key_dim = hf_count(config, json, "linear_key_head_dim", 128);
    config->value_dim = hf_count(config, json, "linear_value_head_dim", 128);
    config->n_key_heads = hf_count(config, json, "linear_num_key_heads", 16);
    config->n_value_heads = hf_count(config, json, "linear_num_value_heads", 32);
    if (config->n_key_heads == 0 || config->n_value_heads % config->n_key_heads != 0 ||
        (uint64_t)config->n_value_heads * config->value_dim > INT32_MAX)
        hf_fail(config, ENGINE_ERROR_DATA, "linear_num_value_heads %u does not suit linear_num_key_heads %u",
                config->n_value_heads, config->n_key_heads);
    hf_read_recurrent_layers(config, "linear_attention", "full_attention",
                             hf_count(config, json, "full_attention_interval", 4));
    if (config->status) return;
    hf_put_count(config, "ssm.state_size", config->key_dim);
    hf_put_count(config, "ssm.group_count", config->n_key_heads);
    hf_put_count(config, "ssm.time_step_rank", config->n_value_heads);
    hf_put_count(config, "ssm.inner_size", config->n_value_heads * config->value_dim);
    hf_put_layer_flags(config, "attention.recurrent_layers", config->is_recurrent);
}
