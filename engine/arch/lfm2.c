/* lfm2.c: LFM 2: most layers have a short convolution between two gates instead of attention, which has a norm on each
 * head of queries and keys. The file calls the norm before the logits token_embd_norm. arXiv 2511.23404. */
#include "arch/decoder.h"
#include "arch/families.h"

struct lfm2 {
    struct decoder decoder;
    uint32_t n_taps; /* of the convolution */
};

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct lfm2 *lfm2 = hparams;
    struct decoder *d = &lfm2->decoder;
    d->is_hybrid = true;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->output_norm = "token_embd_norm";
    *info = decoder_info(d);
    for (uint32_t i = 0; i < d->n_layers; i++) info->has_states |= d->layers[i].is_recurrent;
    if (!info->has_states) return;
    lfm2->n_taps = hparams_count_required(h, "shortconv.l_cache");
    if (lfm2->n_taps < 2 || lfm2->n_taps > 16)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "shortconv.l_cache is %u; supported are 2 to 16",
                     lfm2->n_taps);
}

/* out(c * conv(b * x)), where b, c and x are thirds of a product with the input. */
static struct value *convolve(struct graph *g, const struct decoder *d, uint64_t n_taps, struct value *input)
{
    const uint64_t n = d->n_embd;
    struct value *all = decoder_linear(g, "shortconv.in_proj", n, 3 * n, input);
    struct value *b = graph_slice(g, all, 0, n), *c = graph_slice(g, all, n, n);
    struct value *weight = graph_values(g, n_taps, n, "blk.%u.shortconv.conv.weight", g->layer);
    struct value *bias = graph_values_optional(g, n, 1, "blk.%u.shortconv.conv.bias", g->layer);
    struct value *x = graph_mul(g, b, graph_slice(g, all, 2 * n, n));
    x = graph_conv(g, x, weight, graph_state(g, n, n_taps - 1, 0));
    if (bias) x = graph_add(g, x, bias);
    return decoder_linear(g, "shortconv.out_proj", n, n, decoder_layer_output(g, d, graph_mul(g, c, x)));
}

static struct value *mix(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct lfm2 *lfm2 = (const struct lfm2 *)d;
    return d->layers[g->layer].is_recurrent ? convolve(g, d, lfm2->n_taps, x) : decoder_attention(g, d, x);
}

static void build(struct graph *g, const void *hparams)
{
    decoder_build_mixed(g, hparams, mix);
}

const struct architecture arch_lfm2 = {"lfm2", sizeof(struct lfm2), read, build};
