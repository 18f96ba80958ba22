/* glm4.c: GLM 4 (0414): norms around each block, rotary positions on adjacent pairs of half a head, gate
 * and up in one matrix. */
#include "arch/decoder.h"
#include "arch/families.h"

static void glm4_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    d->norms = NORMS_AROUND;
    *info = decoder_info(d);
}

static const struct hf_module glm4_modules[] = {
    {"post_self_attn_layernorm", "post_attention_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"},
    {0},
};

static const struct hf_type glm4_types[] = {
    {.name = "glm4",
     .width = 4096,
     .layers = 40,
     .heads = 32,
     .kv_heads = 2,
     .head_dim = 128,
     .ff = 13696,
     .context = 131072,
     .epsilon = 1.5625e-7,
     .rotary = 0.5,
     .options = {{"attention_bias", true, HF_QKV}}},
    {0},
};

const struct architecture arch_glm4 = {
    .name = "glm4",
    .models = "GLM 4 (0414)",
    .size = sizeof(struct decoder),
    .read = glm4_read,
    .build = decoder_build,
    .hf = {.types = glm4_types, .modules = glm4_modules},
};
