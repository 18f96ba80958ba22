/* ssm.c: see ssm.h. */
#include "arch/ssm.h"
#include "model/hf/config.h"

#include <stdio.h>

void ssm_read(struct hparams *h, struct ssm *ssm, bool has_heads)
{
    ssm->n_inner = hparams_count_required(h, "ssm.inner_size");
    ssm->n_state = hparams_count_required(h, "ssm.state_size");
    ssm->n_conv = hparams_count_required(h, "ssm.conv_kernel");
    ssm->n_rank = hparams_count_required(h, "ssm.time_step_rank");
    ssm->n_groups = has_heads ? hparams_count_required(h, "ssm.group_count") : 1;
    if (hparams_flag(h, "ssm.dt_b_c_rms", false))
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "Falcon Mamba (ssm.dt_b_c_rms) is not supported");
    uint32_t heads = ssm->n_rank, groups = ssm->n_groups;
    if (h->status) return;
    if (ssm->n_inner > 1u << 24 || ssm->n_state > 256 || ssm->n_conv < 2 || ssm->n_conv > 16 ||
        heads > 1u << 20)
        hparams_fail(
            h, ENGINE_ERROR_UNSUPPORTED,
            "ssm: inner_size %u, state_size %u, conv_kernel %u, time_step_rank %u; supported are up to "
            "256 states and 2 to 16 taps",
            ssm->n_inner, ssm->n_state, ssm->n_conv, heads);
    else if (has_heads && (ssm->n_inner % heads != 0 || heads % groups != 0))
        hparams_fail(h, ENGINE_ERROR_DATA,
                     "ssm: inner_size %u, time_step_rank %u and group_count %u don't go together",
                     ssm->n_inner, heads, groups);
}

/* silu(conv(x) + bias), for n channels. */
static struct value *convolve(struct graph *g, const struct ssm *ssm, uint64_t n, struct value *x)
{
    struct value *state = graph_state(g, n, ssm->n_conv - 1, 0);
    struct value *weight = graph_values(g, ssm->n_conv, n, "blk.%u.ssm_conv1d.weight", g->layer);
    struct value *bias = graph_values_optional(g, n, 1, "blk.%u.ssm_conv1d.bias", g->layer);
    x = graph_conv(g, x, weight, state);
    if (bias) x = graph_add(g, x, bias);
    return graph_activate(g, x, NULL, ENGINE_ACTIVATION_SILU);
}

/* The output matrix, for the columns that are needed. */
static struct value *project(struct graph *g, const struct decoder *d, const struct ssm *ssm, struct value *y)
{
    return decoder_linear(g, "ssm_out", ssm->n_inner, d->n_embd, decoder_layer_output(g, d, y));
}

struct value *ssm_mamba(struct graph *g, const struct decoder *d, const struct ssm *ssm, struct value *x)
{
    const uint64_t n = ssm->n_inner, n_state = ssm->n_state, rank = ssm->n_rank, n_tokens = g->shape.n_tokens;
    struct value *xz = decoder_linear(g, "ssm_in", d->n_embd, 2 * n, x);
    struct value *z = graph_slice(g, xz, n, n);
    x = convolve(g, ssm, n, graph_slice(g, xz, 0, n));
    struct value *steps_keys_queries = decoder_linear(g, "ssm_x", n, rank + 2 * n_state, x);
    struct value *dt = graph_slice(g, steps_keys_queries, 0, rank);
    struct value *k = graph_slice(g, steps_keys_queries, rank, n_state);
    struct value *q = graph_slice(g, steps_keys_queries, rank + n_state, n_state);
    dt = graph_activate(g, decoder_linear(g, "ssm_dt", rank, n, dt), NULL, ENGINE_ACTIVATION_SOFTPLUS);
    const struct scan_operands operands = {
        .q = graph_reshape(g, q, n_state, 1, n_tokens),
        .k = graph_reshape(g, k, n_state, 1, n_tokens),
        .v = graph_reshape(g, graph_mul(g, dt, x), n, 1, n_tokens),
        .decay = graph_reshape(g, dt, n, 1, n_tokens),
        .rates = graph_values(g, n_state, n, "blk.%u.ssm_a", g->layer),
    };
    struct value *y = graph_scan(g, &operands, graph_state(g, n, n_state, 1));
    struct value *skip = graph_mul(g, x, graph_values(g, n, 1, "blk.%u.ssm_d", g->layer));
    y = graph_add(g, graph_reshape(g, y, n, n_tokens, 1), skip);
    return project(g, d, ssm, graph_activate(g, z, y, ENGINE_ACTIVATION_SILU));
}

/* max(x, least) of rows [n]. */
static struct value *at_least(struct graph *g, float least, uint64_t n, struct value *x)
{
    x = graph_add(g, x, graph_constant(g, n, -least));
    return graph_add(g, graph_activate(g, x, NULL, ENGINE_ACTIVATION_RELU), graph_constant(g, n, least));
}

/* ssm_d, a number for each head, for all of its values. */
static struct value *skip_weights(struct graph *g, const struct ssm *ssm)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%u.ssm_d", g->layer);
    return graph_values_repeated(g, ssm->n_rank, ssm->n_inner / ssm->n_rank, name);
}

struct value *ssm_mamba2(struct graph *g, const struct decoder *d, const struct ssm *ssm, struct value *x)
{
    const uint64_t n = ssm->n_inner, n_heads = ssm->n_rank, head = n / n_heads, n_tokens = g->shape.n_tokens;
    const uint64_t n_keys = (uint64_t)ssm->n_groups * ssm->n_state, n_conv = n + 2 * n_keys;
    struct value *all = decoder_linear(g, "ssm_in", d->n_embd, n + n_conv + n_heads, x);
    struct value *z = graph_slice(g, all, 0, n), *dt = graph_slice(g, all, n + n_conv, n_heads);
    struct value *xkq = convolve(g, ssm, n_conv, graph_slice(g, all, n, n_conv));
    x = graph_slice(g, xkq, 0, n);
    struct value *k = graph_slice(g, xkq, n, n_keys), *q = graph_slice(g, xkq, n + n_keys, n_keys);
    dt = graph_add(g, dt, graph_values(g, n_heads, 1, "blk.%u.ssm_dt.bias", g->layer));
    dt = graph_activate(g, dt, NULL, ENGINE_ACTIVATION_SOFTPLUS);
    if (ssm->least_step > 0) dt = at_least(g, ssm->least_step, n_heads, dt);
    struct value *decay = graph_mul(g, dt, graph_values(g, n_heads, 1, "blk.%u.ssm_a", g->layer));
    const struct scan_operands operands = {
        .q = graph_reshape(g, q, ssm->n_state, ssm->n_groups, n_tokens),
        .k = graph_reshape(g, k, ssm->n_state, ssm->n_groups, n_tokens),
        .v = graph_mul(g, graph_reshape(g, x, head, n_heads, n_tokens),
                       graph_reshape(g, dt, 1, n_heads, n_tokens)),
        .decay = graph_reshape(g, decay, 1, n_heads, n_tokens),
    };
    struct value *y = graph_scan(g, &operands, graph_state(g, head, ssm->n_state, n_heads));
    y = graph_add(g, graph_reshape(g, y, n, n_tokens, 1), graph_mul(g, x, skip_weights(g, ssm)));
    y = graph_activate(g, z, y, ENGINE_ACTIVATION_SILU);
    if (graph_find(g, "blk.%u.ssm_norm.weight", g->layer)) {
        struct value *weight = graph_values(g, n, 1, "blk.%u.ssm_norm.weight", g->layer);
        y = graph_reshape(g, y, n / ssm->n_groups, ssm->n_groups, n_tokens);
        y = graph_norm(g, y, NULL, NULL, ENGINE_NORM_RMS, d->epsilon);
        y = graph_mul(g, graph_reshape(g, y, n, n_tokens, 1), weight);
    }
    return project(g, d, ssm, y);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

uint32_t ssm_expanded(struct hf_config *config, const char *name)
{
    uint64_t size = (uint64_t)hf_count(config, config->json, name, 2) * config->n_embd;
    if (size > INT32_MAX) hf_fail(config, ENGINE_ERROR_DATA, "%s times hidden_size is not a count", name);
    return size > INT32_MAX ? 0 : (uint32_t)size;
}

void ssm_refuse_limit(struct hf_config *config)
{
    const json_t *limit = hf_get(config->json, "time_step_limit");
    hf_refuse(config,
              json_number_value(json_array_get(limit, 0)) > 0 || json_is_number(json_array_get(limit, 1)),
              "a time_step_limit");
}

void ssm_read_config(struct hf_config *config, uint32_t inner)
{
    const json_t *json = config->json;
    config->n_groups = hf_count(config, json, "mamba_n_groups", 1);
    hf_put_count(config, "ssm.group_count", config->n_groups);
    hf_put_count(config, "ssm.inner_size", inner);
    ssm_refuse_limit(config);
    hf_refuse_activation(config);
}
