/* gemma-embedding.c: EmbeddingGemma: Gemma 3 whose attention sees the whole text, in five of six layers half of
 * attention.sliding_window to either side. The matrices dense_2 and dense_3 follow the pooling
 * (engine/embedding/dense.h). arXiv 2509.20354. */
#include <math.h>

#include "arch/encoder.h"
#include "arch/families.h"

struct gemma_embedding {
    struct decoder decoder;
    struct rope local; /* of the layers with a sliding window */
};

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct gemma_embedding *gemma = hparams;
    struct decoder *d = &gemma->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->both_ways = true;
    d->norms = NORMS_AROUND;
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    d->embedding_scale = sqrtf((float)d->n_embd);
    decoder_read_windows(h, d, 6, false);
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (d->layers[i].window > 0) d->layers[i].window = d->layers[i].window / 2 + 1;
    decoder_local_rope(d, &gemma->local, hparams_float_above_0(h, "rope.freq_base_swa", 10000));
    *info = encoder_info(d);
}

static void build(struct graph *g, const void *hparams)
{
    const struct decoder *d = hparams;
    encoder_build_states(g, d, decoder_norm(g, d, "output_norm", decoder_build_layers(g, d)));
}

const struct architecture arch_gemma_embedding = {"gemma-embedding", sizeof(struct gemma_embedding), read,
                                                  build};
