/* gemma.c: Gemma: Llama with an embedding scaled by sqrt(n_embd), GELU in place of SiLU and rotary positions
 * on halves. Its norms add 1 to their weights; the weights in the file include it. arXiv 2403.08295. */
#include <math.h>

#include "arch/decoder.h"
#include "arch/families.h"

static void gemma_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    d->embedding_scale = sqrtf((float)d->n_embd);
    *info = decoder_info(d);
}

static const struct hf_type gemma_types[] = {
    {.name = "gemma",
     .width = 3072,
     .layers = 28,
     .heads = 16,
     .kv_heads = 16,
     .head_dim = 256,
     .ff = 24576,
     .context = 8192,
     .activation = "gelu_pytorch_tanh",
     .is_tied = true,
     .options = {HF_ATTENTION_BIAS}},
    {0},
};

const struct architecture arch_gemma = {
    .name = "gemma",
    .models = "Gemma 1",
    .size = sizeof(struct decoder),
    .read = gemma_read,
    .build = decoder_build,
    .hf = {.types = gemma_types, .norms_add_one = true},
};
