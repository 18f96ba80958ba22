/* nomic-bert.c: Nomic Embed: BERT with rope, a gate, and no biases. arXiv 2402.01613. */
#include "arch/encoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    encoder_read(h, d, ENGINE_ROPE_HALVES);
    *info = encoder_info(d);
}

const struct architecture arch_nomic_bert = {"nomic-bert", sizeof(struct decoder), read, encoder_build};
