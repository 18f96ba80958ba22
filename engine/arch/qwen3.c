/* qwen3.c: Qwen 3: Llama with a norm on each head of queries and keys, and rotary positions on halves. Yang et al., arXiv
 * 2505.09388. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    *info = decoder_info(d);
}

const struct architecture arch_qwen3 = {"qwen3", sizeof(struct decoder), read, decoder_build};
