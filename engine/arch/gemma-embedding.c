/* gemma-embedding.c: EmbeddingGemma: Gemma 3 whose attention sees the whole text, in five of six layers half of
 * attention.sliding_window to either side. What sentence-transformers calls Dense follows the last norm, token by token:
 * it is linear, so a mean over the tokens may come before or after it. arXiv 2509.20354. */
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

/* The product with a head's matrix, which may have any number of rows. */
static struct value *dense(struct graph *g, const char *name, struct value *x)
{
    const struct model_tensor *weight = graph_find(g, "%s.weight", name);
    if (!weight || !x) return x;
    return graph_matmul(g, graph_weight(g, x->tensor.ne[0], weight->ne[1], "%s.weight", name), x);
}

static void build(struct graph *g, const void *hparams)
{
    const struct decoder *d = hparams;
    struct value *x = decoder_norm(g, d, "output_norm", decoder_build_layers(g, d));
    x = dense(g, "dense_3", dense(g, "dense_2", x));
    if (x && x->tensor.ne[0] != d->n_embd)
        graph_fail(g, "the tensor dense_3.weight gives %llu values, but embedding_length is %u",
                   (unsigned long long)x->tensor.ne[0], d->n_embd);
    encoder_build_states(g, d, x);
}

const struct architecture arch_gemma_embedding = {"gemma-embedding", sizeof(struct gemma_embedding), read,
                                                  build};
