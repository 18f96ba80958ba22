/* mpt.c: MPT: GPT-2 with ALiBi (or learnt positions) and, in most of its models, without biases. Some clamp
 * queries, keys and values, or norm them over their whole width. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    d->alibi_bias = hparams_float_from_0(h, "attention.max_alibi_bias", 0);
    d->clamp_qkv = hparams_float_from_0(h, "attention.clamp_kqv", 0);
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL;
    if (model_tensor_find(h->model, "blk.0.ffn.act.scales"))
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED,
                     "MPT with activation scales (ffn.act.scales) is not supported");
    if (d->alibi_bias == 0 && d->n_positions == 0)
        hparams_fail(h, ENGINE_ERROR_DATA, "the model has neither ALiBi nor position_embd.weight");
    *info = decoder_info(d);
}

const struct architecture arch_mpt = {"mpt", sizeof(struct decoder), read, decoder_build};
