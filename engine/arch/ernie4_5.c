/* ernie4_5.c: ERNIE 4.5, dense: Llama, rotary positions on adjacent pairs as published. */
#include "arch/decoder.h"
#include "arch/families.h"

static void ernie4_5_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    *info = decoder_info(d);
}

static const struct hf_type ernie4_5_types[] = {
    {.name = "ernie4_5",
     .width = 1024,
     .layers = 18,
     .heads = 16,
     .kv_heads = 2,
     .head_dim = 128,
     .ff = 3072,
     .context = 131072,
     .epsilon = 1e-5,
     .is_tied = true,
     .theta = 5e5,
     .options = {{"use_bias", false, HF_ATTENTION "|" HF_MLP}}},
    {0},
};

const struct architecture arch_ernie4_5 = {
    .name = "ernie4_5",
    .models = "ERNIE 4.5, dense",
    .size = sizeof(struct decoder),
    .read = ernie4_5_read,
    .build = decoder_build,
    .hf = {.types = ernie4_5_types},
};
