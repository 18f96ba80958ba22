/* granite.c: Granite 3, dense: Llama with scale factors on the embedding, on the output of blocks, on
 * attention scores and on logits. arXiv 2405.04324. */
#include "arch/decoder.h"
#include "arch/families.h"

void granite_read_scales(struct hparams *h, struct decoder *d)
{
    d->embedding_scale = hparams_float_above_0(h, "embedding_scale", 1);
    d->residual_scale = hparams_float_above_0(h, "residual_scale", 1);
    d->logit_scale = 1 / hparams_float_above_0(h, "logit_scale", 1); /* the file gives a divisor */
    if (hparams_flag(h, "rope.scaling.finetuned", true)) return;
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL; /* Granite 4 without positions */
}

void granite_read_lengths(struct hparams *h, struct decoder *d)
{
    uint32_t n_ff = hparams_count(h, "expert_shared_feed_forward_length", 0);
    for (uint32_t i = 0; i < d->n_layers && d->experts.n == 0 && n_ff > 0; i++) d->layers[i].n_ff = n_ff;
}

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    granite_read_scales(h, d);
    granite_read_lengths(h, d);
    *info = decoder_info(d);
}

const struct architecture arch_granite = {"granite", sizeof(struct decoder), read, decoder_build};
