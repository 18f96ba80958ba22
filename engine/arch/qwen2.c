/* qwen2.c: Qwen 2 and 2.5: Llama with biases on queries, keys and values, and rotary positions on halves.
 * Published models disable their sliding window. Yang et al., arXiv 2407.10671. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    *info = decoder_info(d);
}

const struct architecture arch_qwen2 = {"qwen2", sizeof(struct decoder), read, decoder_build};
