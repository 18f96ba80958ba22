/* jina-bert-v2.c: Jina Embeddings 2: BERT with ALiBi to both sides instead of positions, and a gate. Models for code also
 * have norms of queries and keys, and a second norm after attention. arXiv 2310.19923. */
#include "arch/encoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    encoder_read(h, d, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    d->alibi_bias = 8; /* files don't say */
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL;
    *info = encoder_info(d);
}

const struct architecture arch_jina_bert_v2 = {"jina-bert-v2", sizeof(struct decoder), read, encoder_build};
