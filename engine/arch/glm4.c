/* glm4.c: GLM 4 (0414): norms around each block, rotary positions on adjacent pairs of half a head, gate and up in one
 * matrix. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    d->norms = NORMS_AROUND;
    *info = decoder_info(d);
}

const struct architecture arch_glm4 = {"glm4", sizeof(struct decoder), read, decoder_build};
