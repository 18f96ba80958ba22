/* stablelm.c: StableLM 2: Llama with layer norms and rotary positions on a quarter of each head. The 12B
 * model norms each head of queries and keys, and its blocks read the same norm of x: it has no ffn_norm.
 * arXiv 2402.17834. */
#include "arch/decoder.h"
#include "arch/families.h"

static void stablelm_build(struct graph *g, const void *hparams)
{
    const struct decoder *d = hparams;
    if (graph_find(g, "blk.0.ffn_norm.weight"))
        decoder_build(g, d);
    else
        decoder_build_parallel(g, d);
}

static void stablelm_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    *info = decoder_info(d);
}

static const struct hf_key stablelm_numbers[] = {
    {"use_parallel_residual", "use_parallel_residual", HF_FLAG, 0},
    {0},
};

static const struct hf_module stablelm_modules[] = {
    {"self_attn.q_layernorm.norms.#", "attn_q_norm"},
    {"self_attn.k_layernorm.norms.#", "attn_k_norm"},
    {0},
};

static const struct hf_type stablelm_types[] = {
    {.name = "stablelm",
     .width = 2560,
     .layers = 32,
     .heads = 32,
     .kv_heads = 32,
     .ff = 6912,
     .context = 4096,
     .epsilon = 1e-5,
     .rotary = 0.25,
     .numbers = stablelm_numbers,
     .options = {{"use_qkv_bias", false, HF_QKV}, {"qk_layernorm", false, HF_QK_NORMS}}},
    {0},
};

const struct architecture arch_stablelm = {
    .name = "stablelm",
    .models = "StableLM 2",
    .size = sizeof(struct decoder),
    .read = stablelm_read,
    .build = stablelm_build,
    .hf = {.types = stablelm_types, .modules = stablelm_modules, .has_layer_norms = true},
};
