/* afmoe.c: Arcee's Trinity: three of four layers have a sliding window and rope, the fourth has neither.
 * Norms stand around blocks and on heads, and what attention gives has a gate. After the first layers,
 * mixtures are chosen by sigmoids with a bias, as in DeepSeek-V3. */
#include <math.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void afmoe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, true);
    d->norms = NORMS_AROUND;
    d->attention_gate = ENGINE_ACTIVATION_SIGMOID;
    d->embedding_scale = hparams_float_above_0(h, "embedding_scale", sqrtf((float)d->n_embd));
    decoder_read_windows(h, d, 4, false);
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (!d->layers[i].slides) d->layers[i].rope = NULL;
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void afmoe_read_config(struct hf_config *config)
{
    bool scales = hf_flag(config, config->json, "mup_enabled", false);
    hf_put_float(config, "embedding_scale", scales ? sqrt(config->n_embd) : 1);
    hf_put_count(config, "expert_gating_func", 2);
}

static const struct hf_key afmoe_numbers[] = {
    {"num_experts", "expert_count", HF_COUNT, 64},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 6},
    {"num_shared_experts", "expert_shared_count", HF_COUNT, 2},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1408},
    {"num_dense_layers", "leading_dense_block_count", HF_COUNT, 1},
    {"route_scale", "expert_weights_scale", HF_FLOAT, 1},
    {0},
};

static const struct hf_module afmoe_modules[] = {
    {"self_attn.gate_proj", "attn_gate"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_mlp_layernorm", "ffn_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"},
    {"mlp.router.gate", "ffn_gate_inp"},
    {"mlp.expert_bias", "exp_probs_b.bias"},
    {0},
};

static const struct hf_type afmoe_types[] = {
    {.name = "afmoe",
     .keys = {.window_period = "global_attn_every_n_layers", .layer_types = "layer_types"},
     .width = 2048,
     .layers = 32,
     .heads = 16,
     .head_dim = 128,
     .ff = 6144,
     .context = 16384,
     .epsilon = 1e-5,
     .windows = HF_WINDOWS_PERIOD,
     .window = 1024,
     .window_period = 4,
     .numbers = afmoe_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = afmoe_read_config},
    {0},
};

static const struct arch_missing afmoe_missing[] = {
    {"layers with windows, the router's function, and the scale of embeddings",
     "three of four, sigmoids, the root of the width, as published", ""},
    {0},
};

const struct architecture arch_afmoe = {
    .name = "afmoe",
    .models = "Trinity Nano, Mini, Large",
    .missing = afmoe_missing,
    .size = sizeof(struct decoder),
    .read = afmoe_read,
    .build = decoder_build,
    .hf = {.types = afmoe_types, .modules = afmoe_modules},
};
