/* rwkv6.c: RWKV 6: linear attention whose decay depends on the token, and which counts the token itself by
 * a weight of its own, S = S diag(w) + v k^T. How a token's input is mixed with that before it also
 * depends on the token. arXiv 2404.05892. */
#include "arch/families.h"
#include "arch/rwkv.h"

static void rwkv6_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    rwkv_read(h, hparams, info);
}

enum { N_SHARES = 5 }; /* of time_mix_lerp_fused: w, k, v, r, g */

/* How much of the shift each of the five gets: [n_embd * 5, n_tokens], before time_mix_lerp_fused. */
static struct value *shares(struct graph *g, const struct rwkv *rwkv, struct value *x, struct value *shift)
{
    const uint64_t n = rwkv->decoder.n_embd, n_tokens = g->shape.n_tokens;
    const struct model_tensor *tensor = graph_find(g, "blk.%u.time_mix_w2.weight", g->layer);
    uint64_t rank = tensor ? tensor->ne[0] : 1;
    struct value *low = rwkv_mix(g, rwkv, "time_mix_lerp_x", x, shift);
    low = graph_activate(g, decoder_linear(g, "time_mix_w1", n, N_SHARES * rank, low), NULL,
                         ENGINE_ACTIVATION_TANH);
    struct value *all =
        graph_matmul_heads(g, graph_matrices(g, rank, n, N_SHARES, "blk.%u.time_mix_w2.weight", g->layer),
                           graph_reshape(g, low, rank, N_SHARES, n_tokens));
    return graph_reshape(g, all, N_SHARES * n, n_tokens, 1);
}

static struct value *time_mix(struct graph *g, const struct rwkv *rwkv, struct value *x)
{
    const uint64_t n = rwkv->decoder.n_embd;
    struct value *shift = rwkv_shift(g, rwkv, x), *all = shares(g, rwkv, x, shift), *in[N_SHARES];
    for (uint32_t i = 0; i < N_SHARES; i++) {
        struct value *share = graph_add(g, graph_slice(g, all, i * n, n), rwkv_share(g, rwkv, i, N_SHARES));
        in[i] = graph_add(g, x, graph_mul(g, share, shift));
    }
    struct value *k = rwkv_linear(g, rwkv, "time_mix_key", in[1]);
    struct value *v = rwkv_linear(g, rwkv, "time_mix_value", in[2]);
    struct value *r = rwkv_linear(g, rwkv, "time_mix_receptance", in[3]);
    struct value *gate = rwkv_linear(g, rwkv, "time_mix_gate", in[4]);
    struct value *w = rwkv_low_rank(g, rwkv, "time_mix_decay_w", ENGINE_ACTIVATION_TANH, in[0]);
    w = graph_add(g, w, graph_values(g, n, 1, "blk.%u.time_mix_decay.weight", g->layer));
    w = graph_scale(g, graph_activate(g, w, NULL, ENGINE_ACTIVATION_EXP), -1);
    const struct scan_operands operands = {
        .q = rwkv_heads(g, rwkv, r),
        .k = rwkv_heads(g, rwkv, k),
        .v = rwkv_heads(g, rwkv, v),
        .decay = rwkv_heads(g, rwkv, w),
        .bonus = graph_values(g, rwkv->head, rwkv->n_heads, "blk.%u.time_mix_first.weight", g->layer),
    };
    struct value *y = rwkv_head_norm(g, rwkv, rwkv_scan(g, rwkv, &operands));
    return rwkv_linear(g, rwkv, "time_mix_output", graph_activate(g, gate, y, ENGINE_ACTIVATION_SILU));
}

static struct value *channel_mix(struct graph *g, const struct rwkv *rwkv, struct value *x)
{
    const struct decoder *d = &rwkv->decoder;
    struct value *shift = rwkv_shift(g, rwkv, x);
    struct value *to_k = decoder_layer_output(g, d, rwkv_mix(g, rwkv, "channel_mix_lerp_k", x, shift));
    struct value *to_r = decoder_layer_output(g, d, rwkv_mix(g, rwkv, "channel_mix_lerp_r", x, shift));
    struct value *k = decoder_linear(g, "channel_mix_key", d->n_embd, rwkv->n_ff, to_k);
    k = graph_activate(g, k, NULL, ENGINE_ACTIVATION_RELU_SQUARED);
    k = decoder_linear(g, "channel_mix_value", rwkv->n_ff, d->n_embd, k);
    struct value *r = rwkv_linear(g, rwkv, "channel_mix_receptance", to_r);
    return graph_activate(g, r, k, ENGINE_ACTIVATION_SIGMOID);
}

static void rwkv6_build(struct graph *g, const void *hparams)
{
    const struct rwkv *rwkv = hparams;
    const struct decoder *d = &rwkv->decoder;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        x = graph_add(g, x, time_mix(g, rwkv, decoder_norm(g, d, "attn_norm", x)));
        x = rwkv_layer_end(g, rwkv, x, channel_mix);
    }
    decoder_build_logits(g, d, x);
}

static const struct hf_type rwkv6_types[] = {{.name = "rwkv6", .refusal = "supported only as GGUF files"},
                                             {0}};

const struct architecture arch_rwkv6 = {
    .name = "rwkv6",
    .models = "RWKV 6 (Finch): recurrent",
    .size = sizeof(struct rwkv),
    .read = rwkv6_read,
    .build = rwkv6_build,
    .hf = {.types = rwkv6_types},
};
