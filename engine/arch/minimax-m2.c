/* minimax-m2.c: MiniMax M2: norms over the whole width of queries and keys, rope on half of each head, and
 * mixtures of experts chosen by sigmoids with a bias, the chosen weights normalised. */
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void minimax_m2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, true);
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* What config.json may say that transformers doesn't read, and no published model says. */
static void refuse_others(struct hf_config *config)
{
    const json_t *json = config->json, *kinds = hf_get(json, "attn_type_list"), *kind;
    const char *score = hf_text(config, json, "scoring_func"), *norm = hf_text(config, json, "qk_norm_type");
    size_t i;
    hf_refuse(config, score && strcmp(score, "sigmoid") != 0, "a scoring_func but sigmoid");
    hf_refuse(config, norm && strcmp(norm, "per_layer") != 0, "a qk_norm_type but per_layer");
    hf_refuse(config, !hf_flag(config, json, "use_routing_bias", true), "use_routing_bias: false");
    hf_refuse(config, hf_count(config, json, "shared_intermediate_size", 0) > 0, "shared_intermediate_size");
    json_array_foreach(kinds, i, kind)
    {
        hf_refuse(config, json_integer_value(kind) != 1, "an attn_type_list with other types than 1");
    }
}

/* The published config.json gives the rotated values of a head as a number of them. */
static void minimax_m2_read_config(struct hf_config *config)
{
    static const char part[] = "partial_rotary_factor";
    const json_t *json = config->json;
    refuse_others(config);
    if (!hf_get(json, part) && !hf_get(hf_get(json, "rope_scaling|rope_parameters"), part))
        config->n_rope = hf_count(config, json, "rotary_dim", 0);
    hf_put_count(config, "expert_gating_func", 2);
}

static const struct hf_key minimax_m2_numbers[] = {
    {"num_experts|num_local_experts", "expert_count", HF_COUNT, 256},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"intermediate_size", "expert_feed_forward_length", HF_COUNT, 1536},
    {0},
};

static const struct hf_module minimax_m2_modules[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.experts.#.w1", "ffn_gate_exps"},
    {"block_sparse_moe.experts.#.w3", "ffn_up_exps"},
    {"block_sparse_moe.experts.#.w2", "ffn_down_exps"},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.e_score_correction_bias", "exp_probs_b.bias"},
    {0},
};

static const struct hf_type minimax_m2_types[] = {
    {.name = "minimax_m2",
     .width = 3072,
     .layers = 62,
     .heads = 48,
     .kv_heads = 8,
     .head_dim = 128,
     .ff = 1536,
     .context = 196608,
     .keeps_rotary = true,
     .theta = 5e6,
     .numbers = minimax_m2_numbers,
     .options = {{"use_qk_norm", true, HF_QK_NORMS}},
     .read = minimax_m2_read_config},
    {0},
};

const struct architecture arch_minimax_m2 = {
    .name = "minimax-m2",
    .models = "MiniMax M2",
    .size = sizeof(struct decoder),
    .read = minimax_m2_read,
    .build = decoder_build,
    .hf = {.types = minimax_m2_types, .modules = minimax_m2_modules},
};
