/* gptneox.c: GPT-NeoX, Pythia, Dolly: attention and feed-forward network read the same x, each through its
 * own norm; in RedPajama-INCITE one follows the other. Black et al., arXiv 2204.06745. */
#include "arch/decoder.h"
#include "arch/families.h"

struct gptneox {
    struct decoder decoder;
    bool parallel;
};

static void build(struct graph *g, const void *hparams)
{
    const struct gptneox *neox = hparams;
    const struct decoder *d = &neox->decoder;
    if (!neox->parallel) {
        decoder_build(g, d);
        return;
    }
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++)
        x = decoder_parallel_layer(g, d, x, decoder_norm(g, d, "attn_norm", x),
                                   decoder_norm(g, d, "ffn_norm", x));
    decoder_build_logits(g, d, x);
}

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct gptneox *neox = hparams;
    struct decoder *d = &neox->decoder;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    /* No key says which GELU. Of the published models, only GPT-NeoX-20B uses the approximation. */
    bool is_20b = d->n_embd == 6144 && d->n_layers == 44;
    d->activation =
        decoder_read_activation(h, is_20b ? ENGINE_ACTIVATION_GELU_TANH : ENGINE_ACTIVATION_GELU_ERF);
    neox->parallel = hparams_flag(h, "use_parallel_residual", true);
    *info = decoder_info(d);
}

const struct architecture arch_gptneox = {"gptneox", sizeof(struct gptneox), read, build};
