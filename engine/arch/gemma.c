/* gemma.c: Gemma: Llama with an embedding scaled by sqrt(n_embd), GELU in place of SiLU and rotary positions
 * on halves. Its norms add 1 to their weights; the weights in the file include it. arXiv 2403.08295. */
#include <math.h>

#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    d->embedding_scale = sqrtf((float)d->n_embd);
    *info = decoder_info(d);
}

const struct architecture arch_gemma = {"gemma", sizeof(struct decoder), read, decoder_build};
