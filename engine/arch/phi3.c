/* phi3.c: Phi 3, 3.5 and 4: Llama with fused matrices, rotary positions on halves, a sliding window in all
 * layers, and longrope (arXiv 2402.13753) in the long-context models. Abdin et al., arXiv 2404.14219. */
#include "arch/decoder.h"
#include "arch/families.h"

static void phi3_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    decoder_read_windows(h, d, 1, false);
    *info = decoder_info(d);
}

static const struct hf_type phi3_types[] = {
    {.name = "phi3",
     .width = 3072,
     .layers = 32,
     .heads = 32,
     .ff = 8192,
     .context = 4096,
     .epsilon = 1e-5,
     .original_context = 4096,
     .keeps_rotary = true,
     .windows = HF_WINDOWS_ALL},
    {0},
};

static const struct arch_missing phi3_missing[] = {
    {"which longrope factors to use",
     "the context: the long ones if `-c` is larger than the original context, for the whole text", ""},
    {0},
};

const struct architecture arch_phi3 = {
    .name = "phi3",
    .models = "Phi 3, 3.5, 4",
    .missing = phi3_missing,
    .size = sizeof(struct decoder),
    .read = phi3_read,
    .build = decoder_build,
    .hf = {.types = phi3_types, .writes_original_context = true},
    .tokenizer = {.strip_right_but = "<s> <unk> <|endoftext|>", .names = {"phi-3", "phi3"}},
};
