/* ernie4_5.c: ERNIE 4.5, dense: Llama, rotary positions on adjacent pairs as published. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    *info = decoder_info(d);
}

const struct architecture arch_ernie4_5 = {"ernie4_5", sizeof(struct decoder), read, decoder_build};
