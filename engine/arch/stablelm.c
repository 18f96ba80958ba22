/* stablelm.c: StableLM 2: Llama with layer norms and rotary positions on a quarter of each head. The 12B
 * model norms each head of queries and keys, and its blocks read the same norm of x: it has no ffn_norm.
 * arXiv 2402.17834. */
#include "arch/decoder.h"
#include "arch/families.h"

static void build(struct graph *g, const void *hparams)
{
    const struct decoder *d = hparams;
    if (graph_find(g, "blk.0.ffn_norm.weight"))
        decoder_build(g, d);
    else
        decoder_build_parallel(g, d);
}

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    *info = decoder_info(d);
}

const struct architecture arch_stablelm = {"stablelm", sizeof(struct decoder), read, build};
