/* hunyuan-dense.c: Hunyuan, dense: Llama with rotary positions on halves, and norms on queries and keys after
 * rope. */
#include "arch/decoder.h"
#include "arch/families.h"

static void hunyuan_dense_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->norm_after_rope = true;
    *info = decoder_info(d);
}

static const struct hf_module hunyuan_dense_modules[] = {
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm", "attn_k_norm"},
    {0},
};

static const struct hf_type hunyuan_dense_types[] = {
    {.name = "hunyuan_v1_dense",
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 11008,
     .context = 2048,
     .epsilon = 1e-5,
     .options = {HF_ATTENTION_BIAS}},
    {0},
};

const struct architecture arch_hunyuan_dense = {
    .name = "hunyuan-dense",
    .models = "Hunyuan, dense",
    .size = sizeof(struct decoder),
    .read = hunyuan_dense_read,
    .build = decoder_build,
    .hf = {.types = hunyuan_dense_types, .modules = hunyuan_dense_modules},
};
