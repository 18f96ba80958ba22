/* rwkv7.c: RWKV 7: heads whose state follows a delta rule, S = S diag(w) - S k' (k' a)^T + v k^T, where k'
 * is the key at unit length, and a how much of what it stood for is replaced. arXiv 2503.14456. */
#include <math.h>

#include "arch/families.h"
#include "arch/rwkv.h"

static void rwkv7_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    rwkv_read(h, hparams, info);
}

enum { N_SHARES = 6 }; /* of time_mix_lerp_fused: r, w, k, v, a, g */

static struct value *mixed(struct graph *g, const struct rwkv *rwkv, uint32_t i, struct value *x,
                           struct value *shift)
{
    return graph_add(g, x, graph_mul(g, shift, rwkv_share(g, rwkv, i, N_SHARES)));
}

/* sigmoid(NAME0 + a product of low rank) */
static struct value *gate(struct graph *g, const struct rwkv *rwkv, const char *name, struct value *low_rank)
{
    struct value *base = graph_values(g, rwkv->decoder.n_embd, 1, "blk.%u.%s0.weight", g->layer, name);
    return graph_activate(g, graph_add(g, low_rank, base), NULL, ENGINE_ACTIVATION_SIGMOID);
}

/* The sums of each head's values: [1, n_heads, n_tokens]. */
static struct value *head_sums(struct graph *g, const struct rwkv *rwkv, struct value *x)
{
    uint64_t n = (uint64_t)rwkv->n_heads * g->shape.n_tokens;
    struct value *ones = graph_constant(g, rwkv->head, 1);
    struct value *sums = graph_matmul(g, ones, graph_reshape(g, x, rwkv->head, n, 1));
    return graph_reshape(g, sums, 1, rwkv->n_heads, g->shape.n_tokens);
}

/* The key at unit length, for each head. */
static struct value *unit_key(struct graph *g, const struct rwkv *rwkv, struct value *k)
{
    const float length = 1 / sqrtf((float)rwkv->head), least = 1e-24f / (float)rwkv->head;
    k = graph_mul(g, k, graph_values(g, rwkv->decoder.n_embd, 1, "blk.%u.time_mix_k_k.weight", g->layer));
    struct value *weight = graph_constant(g, rwkv->head, length);
    return graph_norm(g, rwkv_heads(g, rwkv, k), weight, NULL, ENGINE_NORM_RMS, least);
}

/* k + (a - 1) * k * k_a: what a key that replaces less adds. */
static struct value *added_key(struct graph *g, const struct rwkv *rwkv, struct value *k, struct value *a)
{
    const uint64_t n = rwkv->decoder.n_embd;
    struct value *part = graph_mul(g, k, graph_values(g, n, 1, "blk.%u.time_mix_k_a.weight", g->layer));
    struct value *less = graph_add(g, a, graph_constant(g, n, -1));
    return graph_add(g, k, graph_mul(g, less, part));
}

/* The first layer's values, with which those of later ones are mixed, are kept by the caller in *first. */
static struct value *time_mix(struct graph *g, const struct rwkv *rwkv, struct value *x, struct value **first)
{
    const float rate = -0.60653066f; /* -exp(-1/2) */
    const uint64_t n = rwkv->decoder.n_embd, n_tokens = g->shape.n_tokens;
    struct value *shift = rwkv_shift(g, rwkv, x);
    struct value *r = rwkv_linear(g, rwkv, "time_mix_receptance", mixed(g, rwkv, 0, x, shift));
    struct value *w =
        rwkv_low_rank(g, rwkv, "time_mix_w", ENGINE_ACTIVATION_TANH, mixed(g, rwkv, 1, x, shift));
    struct value *k = rwkv_linear(g, rwkv, "time_mix_key", mixed(g, rwkv, 2, x, shift));
    struct value *to_v = mixed(g, rwkv, 3, x, shift);
    struct value *v = rwkv_linear(g, rwkv, "time_mix_value", to_v);
    struct value *a = rwkv_low_rank(g, rwkv, "time_mix_a", 0, mixed(g, rwkv, 4, x, shift));
    struct value *out_gate =
        rwkv_low_rank(g, rwkv, "time_mix_g", ENGINE_ACTIVATION_SIGMOID, mixed(g, rwkv, 5, x, shift));
    struct value *minus_row = graph_constant(g, n, -1);
    w = graph_mul(g, gate(g, rwkv, "time_mix_w", w), graph_constant(g, n, rate));
    a = gate(g, rwkv, "time_mix_a", a);
    if (*first) {
        struct value *share = gate(g, rwkv, "time_mix_v", rwkv_low_rank(g, rwkv, "time_mix_v", 0, to_v));
        struct value *difference = graph_add(g, *first, graph_mul(g, v, minus_row));
        v = graph_add(g, v, graph_mul(g, difference, share));
    } else {
        *first = v;
    }
    struct value *unit = unit_key(g, rwkv, k);
    k = added_key(g, rwkv, k, a);
    struct value *away = graph_mul(g, graph_reshape(g, unit, n, n_tokens, 1), minus_row);
    const struct scan_operands operands = {
        .q = rwkv_heads(g, rwkv, r),
        .k = rwkv_heads(g, rwkv, k),
        .v = rwkv_heads(g, rwkv, v),
        .decay = rwkv_heads(g, rwkv, w),
        .a = rwkv_heads(g, rwkv, away),
        .b = graph_mul(g, unit, rwkv_heads(g, rwkv, a)),
    };
    struct value *y = rwkv_head_norm(g, rwkv, rwkv_scan(g, rwkv, &operands));
    struct value *own =
        graph_mul(g, graph_mul(g, r, k), graph_values(g, n, 1, "blk.%u.time_mix_r_k.weight", g->layer));
    own = graph_mul(g, rwkv_heads(g, rwkv, v), head_sums(g, rwkv, own));
    y = graph_mul(g, graph_add(g, y, graph_reshape(g, own, n, n_tokens, 1)), out_gate);
    return rwkv_linear(g, rwkv, "time_mix_output", y);
}

static struct value *channel_mix(struct graph *g, const struct rwkv *rwkv, struct value *x)
{
    const struct decoder *d = &rwkv->decoder;
    struct value *mix = rwkv_mix(g, rwkv, "channel_mix_lerp_k", x, rwkv_shift(g, rwkv, x));
    struct value *k =
        decoder_linear(g, "channel_mix_key", d->n_embd, rwkv->n_ff, decoder_layer_output(g, d, mix));
    k = graph_activate(g, k, NULL, ENGINE_ACTIVATION_RELU_SQUARED);
    return decoder_linear(g, "channel_mix_value", rwkv->n_ff, d->n_embd, k);
}

static void rwkv7_build(struct graph *g, const void *hparams)
{
    const struct rwkv *rwkv = hparams;
    const struct decoder *d = &rwkv->decoder;
    struct value *x = decoder_embed(g, d), *first = NULL;
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        x = graph_add(g, x, time_mix(g, rwkv, decoder_norm(g, d, "attn_norm", x), &first));
        x = rwkv_layer_end(g, rwkv, x, channel_mix);
    }
    decoder_build_logits(g, d, x);
}

static const struct hf_type rwkv7_types[] = {{.name = "rwkv7", .refusal = "supported only as GGUF files"},
                                             {0}};

const struct architecture arch_rwkv7 = {
    .name = "rwkv7",
    .models = "RWKV 7 (Goose): recurrent",
    .size = sizeof(struct rwkv),
    .read = rwkv7_read,
    .build = rwkv7_build,
    .hf = {.types = rwkv7_types},
};
