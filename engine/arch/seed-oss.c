/* seed-oss.c: Seed-OSS: Llama with biases on queries, keys and values, heads whose size isn't the width by
 * their number, and rotary positions on halves. github.com/ByteDance-Seed/seed-oss. */
#include "arch/decoder.h"
#include "arch/families.h"

static void seed_oss_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->ffn_norm = "post_attention_norm";
    *info = decoder_info(d);
}

static const struct hf_module seed_oss_modules[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {0},
};

static const struct hf_type seed_oss_types[] = {
    {.name = "seed_oss",
     .width = 4096,
     .layers = 64,
     .heads = 80,
     .kv_heads = 8,
     .head_dim = 128,
     .ff = 27648,
     .context = 524288,
     .options = {{"attention_bias", true, HF_QKV},
                 {"attention_out_bias", false, "attn_output"},
                 HF_MLP_BIAS}},
    {0},
};

const struct architecture arch_seed_oss = {
    .name = "seed_oss",
    .models = "Seed-OSS",
    .size = sizeof(struct decoder),
    .read = seed_oss_read,
    .build = decoder_build,
    .hf = {.types = seed_oss_types, .modules = seed_oss_modules},
    .reply = {.reasoning = {"<seed:think>", "</seed:think>"},
              .call = {"<seed:tool_call>", "</seed:tool_call>"}},
};
