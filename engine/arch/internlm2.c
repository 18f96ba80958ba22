/* internlm2.c: InternLM 2: Llama; GGUF files have its fused matrices split. Cai et al., arXiv 2403.17297. */
#include "arch/decoder.h"
#include "arch/families.h"

static void internlm2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    *info = decoder_info(d);
}

static const struct hf_module internlm2_modules[] = {
    {"attention.wo", "attn_output"}, {"attention.wqkv", "attn_qkv"},
    {"attention_norm", "attn_norm"}, {"ffn_norm", "ffn_norm"},
    {"feed_forward.w1", "ffn_gate"}, {"feed_forward.w3", "ffn_up"},
    {"feed_forward.w2", "ffn_down"}, {0},
};

static const struct hf_form internlm2_forms[] = {
    {.tensor = "attn_qkv", .kind = FORM_QKV, .outputs = {"attn_q", "attn_k", "attn_v"}},
    {0},
};

static const struct hf_type internlm2_types[] = {
    {.name = "internlm2",
     .keys = {.head_dim = HF_UNREAD, .part = HF_UNREAD},
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 11008,
     .context = 2048},
    {0},
};

const struct architecture arch_internlm2 = {
    .name = "internlm2",
    .models = "InternLM 2",
    .size = sizeof(struct decoder),
    .read = internlm2_read,
    .build = decoder_build,
    .hf = {.types = internlm2_types,
           .modules = internlm2_modules,
           .forms = internlm2_forms,
           .pairs_adjacent = true,
           .groups_qkv = true},
};
