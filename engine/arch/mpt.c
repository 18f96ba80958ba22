/* mpt.c: MPT: GPT-2 with ALiBi (or learnt positions) and, in most of its models, without biases. Some clamp
 * queries, keys and values, or norm them over their whole width. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void mpt_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    d->alibi_bias = hparams_float_from_0(h, "attention.max_alibi_bias", 0);
    d->clamp_qkv = hparams_float_from_0(h, "attention.clamp_kqv", 0);
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL;
    if (model_tensor_find(h->model, "blk.0.ffn.act.scales"))
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED,
                     "MPT with activation scales (ffn.act.scales) is not supported");
    if (d->alibi_bias == 0 && d->n_positions == 0)
        hparams_fail(h, ENGINE_ERROR_DATA, "the model has neither ALiBi nor position_embd.weight");
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void mpt_read_config(struct hf_config *config)
{
    const json_t *attention = hf_get(config->json, "attn_config");
    hf_refuse(config, !hf_flag(config, attention, "alibi", true), "MPT without ALiBi");
    hf_refuse(config, hf_flag(config, attention, "qk_ln", false), "MPT with qk_ln");
    hf_put_float(config, "attention.max_alibi_bias", hf_number(config, attention, "alibi_bias_max", 8));
    hf_put_float(config, "attention.clamp_kqv", hf_number(config, attention, "clip_qkv", 0));
    if (hf_get(attention, "softmax_scale"))
        hf_put_float(config, "attention.scale", hf_number(config, attention, "softmax_scale", 1));
}

static const struct hf_module mpt_modules[] = {
    {"attn.Wqkv", "attn_qkv"},
    {"attn.out_proj", "attn_output"},
    {"ffn.up_proj", "ffn_up"},
    {"ffn.down_proj", "ffn_down"},
    {"norm_1", "attn_norm"},
    {"norm_2", "ffn_norm"},
    {0},
};

static const struct hf_type mpt_types[] = {
    {.name = "mpt",
     .keys = {.width = "hidden_size|d_model",
              .layers = "num_hidden_layers|n_layers",
              .heads = "num_attention_heads|n_heads",
              .kv_heads = HF_UNREAD,
              .head_dim = HF_UNREAD,
              .ff = HF_UNREAD,
              .context = "max_seq_len",
              .epsilon = "layer_norm_epsilon",
              .activation = HF_UNREAD},
     .width = 2048,
     .layers = 24,
     .heads = 16,
     .context = 2048,
     .epsilon = 1e-5,
     .activation = "gelu",
     .is_tied = true,
     .has_no_rope = true,
     .read = mpt_read_config},
    {0},
};

const struct architecture arch_mpt = {
    .name = "mpt",
    .models = "MPT",
    .size = sizeof(struct decoder),
    .read = mpt_read,
    .build = decoder_build,
    .hf = {.types = mpt_types, .modules = mpt_modules, .has_layer_norms = true},
};
