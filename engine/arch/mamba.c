/* mamba.c: Mamba (Gu and Dao, arXiv 2312.00752) and Mamba 2 (arXiv 2405.21060): layers of one
 * block each, without attention. */
#include "arch/families.h"
#include "arch/ssm.h"

struct mamba {
    struct decoder decoder;
    struct ssm ssm;
    struct value *(*block)(struct graph *g, const struct decoder *d, const struct ssm *ssm, struct value *x);
};

static void build(struct graph *g, const void *hparams)
{
    const struct mamba *mamba = hparams;
    const struct decoder *d = &mamba->decoder;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *block = mamba->block(g, d, &mamba->ssm, decoder_norm(g, d, "attn_norm", x));
        x = decoder_layer_end(g, d, decoder_add_block(g, d, decoder_layer_output(g, d, x), block));
    }
    decoder_build_logits(g, d, x);
}

static void read(struct hparams *h, struct mamba *mamba, struct arch_info *info, bool has_heads)
{
    decoder_read_without_attention(h, &mamba->decoder, ENGINE_NORM_RMS);
    ssm_read(h, &mamba->ssm, has_heads);
    mamba->block = has_heads ? ssm_mamba2 : ssm_mamba;
    *info = decoder_info(&mamba->decoder);
    info->has_states = true;
}

static void read_mamba(struct hparams *h, void *hparams, struct arch_info *info)
{
    read(h, hparams, info, false);
}

static void read_mamba2(struct hparams *h, void *hparams, struct arch_info *info)
{
    read(h, hparams, info, true);
}

const struct architecture arch_mamba = {"mamba", sizeof(struct mamba), read_mamba, build};
const struct architecture arch_mamba2 = {"mamba2", sizeof(struct mamba), read_mamba2, build};
