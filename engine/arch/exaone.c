/* exaone.c: EXAONE 3: Llama with rotary positions on halves and Llama 3's factors. arXiv 2408.03541. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    *info = decoder_info(d);
}

const struct architecture arch_exaone = {"exaone", sizeof(struct decoder), read, decoder_build};
