/* hunyuan-moe.c: Hunyuan A13B: norms on heads after rope, mixtures of experts with a shared expert. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->norm_after_rope = true;
    *info = decoder_info(d);
}

const struct architecture arch_hunyuan_moe = {"hunyuan-moe", sizeof(struct decoder), read, decoder_build};
