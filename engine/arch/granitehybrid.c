/* granitehybrid.c: Granite 4: Granite, dense or with experts, in which most layers have a Mamba 2 block instead of
 * attention. Usually without positions. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "arch/ssm.h"

struct granitehybrid {
    struct decoder decoder;
    struct ssm ssm;
};

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct granitehybrid *granite = hparams;
    struct decoder *d = &granite->decoder;
    d->is_hybrid = true;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    granite_read_scales(h, d);
    granite_read_lengths(h, d);
    *info = decoder_info(d);
    for (uint32_t i = 0; i < d->n_layers; i++) info->has_states |= d->layers[i].is_recurrent;
    if (info->has_states) ssm_read(h, &granite->ssm, true);
}

static struct value *mix(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct granitehybrid *granite = (const struct granitehybrid *)d;
    return d->layers[g->layer].is_recurrent ? ssm_mamba2(g, d, &granite->ssm, x) : decoder_attention(g, d, x);
}

static void build(struct graph *g, const void *hparams)
{
    decoder_build_mixed(g, hparams, mix);
}

const struct architecture arch_granitehybrid = {"granitehybrid", sizeof(struct granitehybrid), read, build};
