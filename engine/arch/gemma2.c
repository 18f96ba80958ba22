/* gemma2.c: Gemma 2: Gemma with norms around each block, a sliding window in every other layer, and soft caps
 * on scores and logits. arXiv 2408.00118. */
#include <math.h>

#include "arch/decoder.h"
#include "arch/families.h"

/* Files don't have query_pre_attn_scalar: it is the head's size in the 2B and 9B models, and
 * n_embd / n_heads in the 27B model. */
static void assume_query_scale(const struct hparams *h, struct decoder *d)
{
    if (d->n_layers == 46 && d->n_embd == 4608)
        d->attention_scale = 1 / sqrtf((float)d->n_embd / (float)d->layers[0].n_heads);
    else if (d->n_layers != 26 && d->n_layers != 42)
        decoder_warn(
            h, "the file does not give the scale of queries; assuming 1 / sqrt(%u), from the size of heads",
            d->head_dim);
}

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->norms = NORMS_AROUND;
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    d->embedding_scale = sqrtf((float)d->n_embd);
    d->attention_softcap = hparams_float_from_0(h, "attn_logit_softcapping", 50);
    d->logit_softcap = hparams_float_from_0(h, "final_logit_softcapping", 30);
    decoder_read_windows(h, d, 2, false);
    if (!hparams_has(h, "attention.scale")) assume_query_scale(h, d);
    *info = decoder_info(d);
}

const struct architecture arch_gemma2 = {"gemma2", sizeof(struct decoder), read, decoder_build};
