/* exaone.c: EXAONE 3: Llama with rotary positions on halves and Llama 3's factors. arXiv 2408.03541. */
#include "arch/decoder.h"
#include "arch/families.h"

static void exaone_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    *info = decoder_info(d);
}

static const struct hf_module exaone_modules[] = {
    {"attn.attention.q_proj", "attn_q"},
    {"attn.attention.k_proj", "attn_k"},
    {"attn.attention.v_proj", "attn_v"},
    {"attn.attention.out_proj", "attn_output"},
    {"mlp.c_fc_0", "ffn_gate"},
    {"mlp.c_fc_1", "ffn_up"},
    {"ln_1", "attn_norm"},
    {"ln_2", "ffn_norm"},
    {"mlp.c_proj", "ffn_down"},
    {0},
};

static const struct hf_type exaone_types[] = {
    {.name = "exaone",
     .keys = {.layers = "num_layers|num_hidden_layers",
              .head_dim = HF_UNREAD,
              .epsilon = "layer_norm_epsilon",
              .activation = "activation_function",
              .part = HF_UNREAD},
     .width = 2048,
     .layers = 32,
     .heads = 32,
     .context = 2048,
     .epsilon = 1e-5},
    {0},
};

const struct architecture arch_exaone = {
    .name = "exaone",
    .models = "EXAONE 3",
    .size = sizeof(struct decoder),
    .read = exaone_read,
    .build = decoder_build,
    .hf = {.types = exaone_types, .modules = exaone_modules},
};
