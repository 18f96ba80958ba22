/* smollm3.c: SmolLM 3: Llama; every fourth layer has no positions (NoPE, arXiv 2501.18795). */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    for (uint32_t i = 3; i < d->n_layers && !hparams_has(h, "rope.layers"); i += 4) d->layers[i].rope = NULL;
    *info = decoder_info(d);
}

const struct architecture arch_smollm3 = {"smollm3", sizeof(struct decoder), read, decoder_build};
