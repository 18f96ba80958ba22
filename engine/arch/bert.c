/* bert.c: BERT (arXiv 1810.04805), and what has its graph: RoBERTa, XLM-RoBERTa, DistilBERT. Learnt positions, norms
 * after each sum. */
#include "arch/encoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    encoder_read(h, d, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL;
    if (d->n_positions == 0) hparams_fail(h, ENGINE_ERROR_DATA, "the tensor position_embd.weight is missing");
    *info = encoder_info(d);
}

const struct architecture arch_bert = {"bert", sizeof(struct decoder), read, encoder_build};
