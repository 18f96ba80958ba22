/* nomic-bert.c: Nomic Embed: BERT with rope, a gate, and no biases. arXiv 2402.01613. */
#include "arch/encoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void nomic_bert_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    encoder_read(h, d, ENGINE_ROPE_HALVES);
    *info = encoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

void nomic_bert_read_config(struct hf_config *config)
{
    hf_refuse(config, hf_flag(config, config->json, "prenorm", false), "prenorm");
    hf_refuse(config, hf_flag(config, config->json, "rotary_emb_interleaved", false),
              "rotary_emb_interleaved");
    encoder_read_config(config, 2);
}

const struct hf_module nomic_bert_modules[] = {
    {"attn.Wqkv", "attn_qkv"},
    {"attn.out_proj", "attn_output"},
    {"mlp.fc11", "ffn_up"},
    {"mlp.fc12", "ffn_gate"},
    {"mlp.fc2", "ffn_down"},
    {"norm1", "attn_output_norm"},
    {"norm2", "layer_output_norm"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.router.layer", "ffn_gate_inp"},
    {"mlp.experts.mlp.w1", "ffn_up_exps"},
    {"mlp.experts.mlp.w2", "ffn_down_exps"},
    {"mlp.experts", "ffn_exps"}, /* its bias */
    {0},
};

static const struct hf_type nomic_bert_types[] = {
    {.name = "nomic_bert",
     .keys = {.width = "hidden_size|n_embd",
              .layers = "num_hidden_layers|n_layer",
              .heads = "num_attention_heads|n_head",
              .kv_heads = HF_UNREAD,
              .ff = "intermediate_size|n_inner",
              .context = "max_trained_positions|max_position_embeddings|n_positions",
              .epsilon = "layer_norm_eps|layer_norm_epsilon",
              .activation = "hidden_act|activation_function",
              .theta = "rope_theta|rotary_emb_base",
              .part = "rotary_emb_fraction"},
     .width = 768,
     .layers = 12,
     .heads = 12,
     .ff = 3072,
     .context = 2048,
     .epsilon = 1e-12,
     .theta = 1e3,
     .keeps_rotary = true,
     .read = nomic_bert_read_config},
    {0},
};

const struct architecture arch_nomic_bert = {
    .name = "nomic-bert",
    .models = "Nomic Embed 1, 1.5",
    .kind = ARCH_ENCODER,
    .size = sizeof(struct decoder),
    .read = nomic_bert_read,
    .build = encoder_build,
    .hf = {.types = nomic_bert_types,
           .modules = nomic_bert_modules,
           .outer = encoder_outer,
           .has_layer_norms = true},
};
