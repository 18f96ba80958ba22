/* llama.c: LLaMA and what is built like it (Llama 1 to 3, Mistral, TinyLlama, Mixtral, …): a transformer with RMS norms
 * before each block, rotary positions on adjacent pairs, grouped-query attention and a SiLU-gated feed-forward network, or
 * a mixture of those. Touvron et al., arXiv 2302.13971 and 2307.09288; Jiang et al., arXiv 2401.04088. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    decoder_read_windows(h, d, 1, false);
    d->attention_scale = hparams_float_above_0(h, "attention.scale", d->attention_scale);
    *info = decoder_info(d);
}

const struct architecture arch_llama = {"llama", sizeof(struct decoder), read, build_decoder};
