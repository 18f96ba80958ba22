/* rwkv.c: see rwkv.h. */
#include "arch/rwkv.h"

#include <stdio.h>

#define HEAD_EPSILON 64e-5f

void rwkv_read(struct hparams *h, struct rwkv *rwkv, struct arch_info *info)
{
    struct decoder *d = &rwkv->decoder;
    decoder_read_without_attention(h, d, ENGINE_NORM_LAYER);
    rwkv->head = hparams_count_required(h, "wkv.head_size");
    rwkv->n_ff = hparams_count_required(h, "feed_forward_length");
    rwkv->rescale = hparams_count(h, "rescale_every_n_layers", 0);
    if (!h->status && (rwkv->head > 256 || d->n_embd % rwkv->head != 0))
        hparams_fail(h, rwkv->head > 256 ? ENGINE_ERROR_UNSUPPORTED : ENGINE_ERROR_DATA,
                     "wkv.head_size is %u; it must be up to 256 and divide embedding_length %u", rwkv->head,
                     d->n_embd);
    rwkv->n_heads = h->status ? 1 : d->n_embd / rwkv->head;
    *info = decoder_info(d);
    info->has_states = true;
}

/* A convolution's weights: 1 for the token before, -1 for the token itself. */
static void fill_shift(const void *user, float *values, uint64_t n)
{
    (void)user;
    for (uint64_t i = 0; i < n; i++) values[i] = i % 2 ? -1 : 1;
}

struct value *rwkv_shift(struct graph *g, const struct rwkv *rwkv, struct value *x)
{
    uint64_t n = rwkv->decoder.n_embd;
    struct value *weight = graph_number_rows(g, 2, n, "token_shift", fill_shift, NULL);
    return graph_conv(g, x, weight, graph_state(g, n, 1, 0));
}

struct value *rwkv_mix(struct graph *g, const struct rwkv *rwkv, const char *name, struct value *x,
                       struct value *shift)
{
    struct value *share = graph_values(g, rwkv->decoder.n_embd, 1, "blk.%u.%s.weight", g->layer, name);
    return graph_add(g, x, graph_mul(g, shift, share));
}

struct value *rwkv_share(struct graph *g, const struct rwkv *rwkv, uint32_t i, uint32_t n)
{
    char name[64];
    const uint64_t width = rwkv->decoder.n_embd;
    const struct model_tensor *all = graph_find(g, "blk.%u.time_mix_lerp_fused.weight", g->layer);
    if (!all || all->ne[0] != width || all->ne[1] * all->ne[2] * all->ne[3] != n) {
        graph_fail(g, "the tensor blk.%u.time_mix_lerp_fused.weight is missing, or not %u rows of %u values",
                   g->layer, n, rwkv->decoder.n_embd);
        return NULL;
    }
    snprintf(name, sizeof name, "blk.%u.time_mix_lerp_%u", g->layer, i);
    return graph_values_part(g, all, i * width, width, name);
}

struct value *rwkv_low_rank(struct graph *g, const struct rwkv *rwkv, const char *name, uint32_t activation,
                            struct value *input)
{
    char down[48], up[48];
    snprintf(down, sizeof down, "%s1", name);
    snprintf(up, sizeof up, "%s2", name);
    const struct model_tensor *tensor = graph_find(g, "blk.%u.%s.weight", g->layer, down);
    uint64_t n = rwkv->decoder.n_embd, rank = tensor ? tensor->ne[1] : 1;
    struct value *low = decoder_linear(g, down, n, rank, input);
    if (activation) low = graph_activate(g, low, NULL, activation);
    return decoder_linear(g, up, rank, n, low);
}

struct value *rwkv_heads(struct graph *g, const struct rwkv *rwkv, struct value *x)
{
    return graph_reshape(g, x, rwkv->head, rwkv->n_heads, g->shape.n_tokens);
}

struct value *rwkv_scan(struct graph *g, const struct rwkv *rwkv, const struct scan_operands *operands)
{
    return graph_scan(g, operands, graph_state(g, rwkv->head, rwkv->head, rwkv->n_heads));
}

struct value *rwkv_head_norm(struct graph *g, const struct rwkv *rwkv, struct value *heads)
{
    const uint64_t n = rwkv->decoder.n_embd;
    struct value *y = graph_norm(g, heads, NULL, NULL, ENGINE_NORM_LAYER, HEAD_EPSILON);
    y = graph_reshape(g, y, n, g->shape.n_tokens, 1);
    y = graph_mul(g, y, graph_values(g, n, 1, "blk.%u.time_mix_ln.weight", g->layer));
    return graph_add(g, y, graph_values(g, n, 1, "blk.%u.time_mix_ln.bias", g->layer));
}

struct value *rwkv_linear(struct graph *g, const struct rwkv *rwkv, const char *name, struct value *x)
{
    return decoder_linear(g, name, rwkv->decoder.n_embd, rwkv->decoder.n_embd, x);
}

struct value *rwkv_layer_end(struct graph *g, const struct rwkv *rwkv, struct value *x,
                             rwkv_block channel_mix)
{
    const struct decoder *d = &rwkv->decoder;
    struct value *block = channel_mix(g, rwkv, decoder_norm(g, d, "attn_norm_2", x));
    x = graph_add(g, decoder_layer_output(g, d, x), block);
    if (rwkv->rescale > 0 && (g->layer + 1) % rwkv->rescale == 0) x = graph_scale(g, x, 0.5f);
    return decoder_layer_end(g, d, x);
}
