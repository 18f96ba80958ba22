/* starcoder2.c: StarCoder 2: GPT-2 with rotary positions and grouped queries. Lozhkov et al., arXiv
 * 2402.19173. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    decoder_read_windows(h, d, 1, false);
    /* The file doesn't give the window. All published models have a window of 4096 and a context of 16384. */
    if (!hparams_has(h, "attention.sliding_window") && d->n_context == 16384)
        for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].window = 4096;
    else if (!hparams_has(h, "attention.sliding_window"))
        decoder_warn(h, "the file does not say whether the model has a sliding window; assuming none");
    *info = decoder_info(d);
}

const struct architecture arch_starcoder2 = {"starcoder2", sizeof(struct decoder), read, decoder_build};
