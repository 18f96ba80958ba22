/* phi3.c: Phi 3, 3.5 and 4: Llama with fused matrices, rotary positions on halves, a sliding window in all
 * layers, and longrope (arXiv 2402.13753) in the long-context models. Abdin et al., arXiv 2404.14219. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    decoder_read_windows(h, d, 1, false);
    *info = decoder_info(d);
}

const struct architecture arch_phi3 = {"phi3", sizeof(struct decoder), read, decoder_build};
