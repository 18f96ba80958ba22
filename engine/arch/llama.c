/* llama.c: LLaMA and similar models (Llama 1 to 3, Mistral, TinyLlama, Mixtral, …): a transformer with RMS
 * norms before each block, rotary positions on adjacent pairs, grouped-query attention and a SiLU-gated
 * feed-forward network, or a mixture of those. Touvron et al., arXiv 2302.13971 and 2307.09288; Jiang et al.,
 * arXiv 2401.04088. */
#include "arch/decoder.h"
#include "arch/families.h"

/* Converters don't write Mistral's window, and label its files as Llama. */
static void assume_window(struct hparams *h, struct decoder *d)
{
    uint32_t n_heads = d->layers[0].n_heads;
    bool is_mistral_7b = d->n_layers == 32 && d->n_embd == 4096 && d->layers[0].n_ff == 14336 &&
                         d->layers[0].n_kv_heads == 8 && d->n_context == 32768;
    if (is_mistral_7b &&
        d->rope.theta == 10000) /* version 0.1; later ones have another theta and no window */
        for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].window = 4096;
    else if (n_heads > 0 && d->head_dim != d->n_embd / n_heads)
        decoder_warn(h,
                     "heads of %u values are typical of Mistral; if the model has a sliding window, the file "
                     "does not say so; assuming none",
                     d->head_dim);
}

static void llama_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    decoder_read_windows(h, d, 1, false);
    if (!hparams_has(h, "attention.sliding_window")) assume_window(h, d);
    *info = decoder_info(d);
}

static const struct hf_key mixtral_numbers[] = {
    {"num_experts|num_local_experts", "expert_count", HF_COUNT, 8},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 2},
    {0},
};

const struct hf_module mixtral_modules[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.experts.#.w1", "ffn_gate_exps"},
    {"block_sparse_moe.experts.#.w3", "ffn_up_exps"},
    {"block_sparse_moe.experts.#.w2", "ffn_down_exps"},
    {"mlp.experts.#.w1", "ffn_gate_exps"},
    {"mlp.experts.#.w3", "ffn_up_exps"},
    {"mlp.experts.#.w2", "ffn_down_exps"},
    {0},
};

static const struct hf_type llama_types[] = {
    {.name = "llama",
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 11008,
     .context = 2048,
     .options = {HF_ATTENTION_BIAS, HF_MLP_BIAS}},
    {.name = "mistral",
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .kv_heads = 8,
     .ff = 14336,
     .context = 131072,
     .windows = HF_WINDOWS_ALL,
     .window = 4096},
    {.name = "mixtral",
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .kv_heads = 8,
     .ff = 14336,
     .context = 131072,
     .epsilon = 1e-5,
     .theta = 1e6,
     .windows = HF_WINDOWS_ALL,
     .numbers = mixtral_numbers},
    {0},
};

static const struct arch_missing llama_missing[] = {
    {"Mistral's sliding window", "the shape of Mistral 7B v0.1: 4096",
     "a warning if heads aren't n_embd / n_heads wide, which may be a Mistral; no window"},
    {0},
};

const struct architecture arch_llama = {
    .name = "llama",
    .models = "Llama 1 to 3, Mistral, TinyLlama, Mixtral, and models built like them",
    .missing = llama_missing,
    .size = sizeof(struct decoder),
    .read = llama_read,
    .build = decoder_build,
    .hf = {.types = llama_types, .modules = mixtral_modules, .pairs_adjacent = true},
    .quantize = {.n_layers = 80, .needs_groups = true},
};
