/* nomic-bert-moe.c: Nomic Embed 2: BERT with rope. Every moe_every_n_layers-th layer has a mixture of experts without gates.
 * arXiv 2502.07972. */
#include "arch/encoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    encoder_read(h, d, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    d->experts.activation = d->activation;
    d->experts.has_no_gates = true;
    experts_read_router(h, d, ENGINE_ROUTE_SOFTMAX, false);
    uint32_t step = hparams_count_required(h, "moe_every_n_layers");
    if (!h->status && d->experts.n == 0)
        hparams_fail(h, ENGINE_ERROR_DATA, "expert_count is missing from the metadata, or 0");
    for (uint32_t i = 0; i < d->n_layers && !h->status; i++) d->layers[i].is_mixture = i % step == 1 % step;
    *info = encoder_info(d);
}

const struct architecture arch_nomic_bert_moe = {"nomic-bert-moe", sizeof(struct decoder), read,
                                                 encoder_build};
