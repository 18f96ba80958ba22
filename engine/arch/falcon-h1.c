/* falcon-h1.c: Falcon-H1: the block of each layer is the sum of attention and of a Mamba 2 block, which read the same
 * input. Its many multipliers are in the file's weights. arXiv 2507.22448. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "arch/ssm.h"

struct falcon_h1 {
    struct decoder decoder;
    struct ssm ssm;
};

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct falcon_h1 *falcon = hparams;
    decoder_read(h, &falcon->decoder, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    ssm_read(h, &falcon->ssm, true);
    *info = decoder_info(&falcon->decoder);
    info->has_states = true;
}

static struct value *mix(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct falcon_h1 *falcon = (const struct falcon_h1 *)d;
    return graph_add(g, ssm_mamba2(g, d, &falcon->ssm, x), decoder_attention(g, d, x));
}

static void build(struct graph *g, const void *hparams)
{
    decoder_build_mixed(g, hparams, mix);
}

const struct architecture arch_falcon_h1 = {"falcon-h1", sizeof(struct falcon_h1), read, build};
