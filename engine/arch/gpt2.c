/* gpt2.c: GPT-2: layer norms, learnt positions, a feed-forward network without a gate. Radford et al.,
 * Language Models are Unsupervised Multitask Learners, 2019. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void gpt2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL;
    if (d->n_positions == 0) hparams_fail(h, ENGINE_ERROR_DATA, "the tensor position_embd.weight is missing");
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void gpt2_read_config(struct hf_config *config)
{
    hf_refuse(config, hf_flag(config, config->json, "scale_attn_by_inverse_layer_idx", false),
              "scale_attn_by_inverse_layer_idx");
    hf_refuse(config, hf_flag(config, config->json, "add_cross_attention", false), "cross-attention");
    if (!hf_flag(config, config->json, "scale_attn_weights", true))
        hf_put_float(config, "attention.scale", 1);
}

static const struct hf_module gpt2_modules[] = {
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    {"ln_1", "attn_norm"},
    {"ln_2", "ffn_norm"},
    {0},
};

static const struct hf_form gpt2_forms[] = {
    {.tensor = "attn_qkv", .is_transposed = true},
    {.tensor = "attn_output", .is_transposed = true},
    {.tensor = "ffn_up", .is_transposed = true},
    {.tensor = "ffn_down", .is_transposed = true},
    {0},
};

static const struct hf_type gpt2_types[] = {
    {.name = "gpt2",
     .keys = {.width = "hidden_size|n_embd",
              .layers = "num_hidden_layers|n_layer",
              .heads = "num_attention_heads|n_head",
              .kv_heads = HF_UNREAD,
              .head_dim = HF_UNREAD,
              .ff = "n_inner",
              .context = "max_position_embeddings|n_positions",
              .epsilon = "layer_norm_epsilon",
              .activation = "activation_function"},
     .width = 768,
     .layers = 12,
     .heads = 12,
     .context = 1024,
     .epsilon = 1e-5,
     .activation = "gelu_new",
     .is_tied = true,
     .has_no_rope = true,
     .read = gpt2_read_config},
    {0},
};

const struct architecture arch_gpt2 = {
    .name = "gpt2",
    .models = "GPT-2",
    .size = sizeof(struct decoder),
    .read = gpt2_read,
    .build = decoder_build,
    .hf = {.types = gpt2_types, .modules = gpt2_modules, .forms = gpt2_forms, .has_layer_norms = true},
};
