/* qwen3moe.c: Qwen 3 with experts: Qwen 3 whose feed-forward networks are mixtures, the chosen weights
 * normalised. arXiv 2505.09388. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    *info = decoder_info(d);
}

const struct architecture arch_qwen3moe = {"qwen3moe", sizeof(struct decoder), read, decoder_build};
