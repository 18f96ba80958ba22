/* internlm2.c: InternLM 2: Llama; GGUF files have its fused matrices split. Cai et al., arXiv 2403.17297. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    *info = decoder_info(d);
}

const struct architecture arch_internlm2 = {"internlm2", sizeof(struct decoder), read, decoder_build};
