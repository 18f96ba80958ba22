/* bloom.c: BLOOM: GPT-2 with ALiBi in place of learnt positions and a norm on the embedding. Workshop,
 * arXiv 2211.05100. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void bloom_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    d->alibi_bias = 8;
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL;
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void bloom_read_config(struct hf_config *config)
{
    hf_refuse(config, hf_flag(config, config->json, "apply_residual_connection_post_layernorm", false),
              "apply_residual_connection_post_layernorm");
}

static const struct hf_type bloom_types[] = {
    {.name = "bloom",
     .keys = {.width = "n_embed|hidden_size",
              .layers = "num_hidden_layers|n_layer",
              .heads = "num_attention_heads|n_head",
              .kv_heads = HF_UNREAD,
              .head_dim = HF_UNREAD,
              .ff = HF_UNREAD,
              .context = "seq_length",
              .epsilon = "layer_norm_epsilon",
              .activation = HF_UNREAD},
     .width = 64,
     .layers = 2,
     .heads = 8,
     .context = 2048,
     .epsilon = 1e-5,
     .activation = "gelu_pytorch_tanh",
     .is_tied = true,
     .has_no_rope = true,
     .read = bloom_read_config},
    {0},
};

static const struct arch_missing bloom_missing[] = {
    {"ALiBi's slopes", "8, as in all published models", ""},
    {0},
};

const struct architecture arch_bloom = {
    .name = "bloom",
    .models = "BLOOM",
    .missing = bloom_missing,
    .size = sizeof(struct decoder),
    .read = bloom_read,
    .build = decoder_build,
    .hf = {.types = bloom_types, .modules = gptneox_modules, .groups_qkv = true, .has_layer_norms = true},
};
