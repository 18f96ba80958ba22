/* families.c: what config.json says of each family, and transformers' defaults for what it leaves out. See
 * config.h. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "model/hf/config.h"

/* ---- Numbers that only some families have --------------------------------------------------------------- */

static const struct hf_key mixtral_keys[] = {
    {"num_experts|num_local_experts", "expert_count", HF_COUNT, 8},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 2},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key qwen2moe_keys[] = {
    {"num_experts", "expert_count", HF_COUNT, 60},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 4},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1408},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 5632},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 0},
    {"decoder_sparse_step", "interleave_moe_layer_step", HF_COUNT, 1},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key qwen3moe_keys[] = {
    {"num_local_experts|num_experts", "expert_count", HF_COUNT, 128},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 768},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 0},
    {"decoder_sparse_step", "interleave_moe_layer_step", HF_COUNT, 1},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key gemma2_keys[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping", HF_FLOAT_OR_0, 50},
    {"final_logit_softcapping", "final_logit_softcapping", HF_FLOAT_OR_0, 30},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key gemma3_keys[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping", HF_FLOAT_OR_0, 0},
    {"final_logit_softcapping", "final_logit_softcapping", HF_FLOAT_OR_0, 0},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key cohere_keys[] = {
    {"logit_scale", "logit_scale", HF_FLOAT, 0.0625},
    {NULL, NULL, HF_COUNT, 0},
};

#define GRANITE_FACTORS                                                                                      \
    {"attention_multiplier", "attention.scale", HF_FLOAT, 1},                                                \
        {"embedding_multiplier", "embedding_scale", HF_FLOAT, 1},                                            \
        {"residual_multiplier", "residual_scale", HF_FLOAT, 1},                                              \
    {                                                                                                        \
        "logits_scaling", "logit_scale", HF_FLOAT, 1                                                         \
    }
#define GRANITE_EXPERTS                                                                                      \
    {"num_local_experts", "expert_count", HF_COUNT, 8},                                                      \
    {                                                                                                        \
        "num_experts_per_tok", "expert_used_count", HF_COUNT, 2                                              \
    }

static const struct hf_key granite_keys[] = {
    GRANITE_FACTORS,
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key granitemoe_keys[] = {
    GRANITE_FACTORS,
    GRANITE_EXPERTS,
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key granite_shared_keys[] = {
    GRANITE_FACTORS,
    GRANITE_EXPERTS,
    {"shared_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 0},
    {NULL, NULL, HF_COUNT, 0},
};

/* Of Granite 4 without states: what it calls a shared expert is the whole feed-forward network. */
static const struct hf_key granite4_dense_keys[] = {
    GRANITE_FACTORS,
    {"shared_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 1024},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key granite4_moe_keys[] = {
    GRANITE_FACTORS,
    GRANITE_EXPERTS,
    {"shared_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 1024},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key neox_keys[] = {
    {"use_parallel_residual", "use_parallel_residual", HF_FLAG, 1},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key stablelm_keys[] = {
    {"use_parallel_residual", "use_parallel_residual", HF_FLAG, 0},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key gpt_oss_keys[] = {
    {"num_experts|num_local_experts", "expert_count", HF_COUNT, 128},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 4},
    {"intermediate_size", "expert_feed_forward_length", HF_COUNT, 2880},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key glm4moe_keys[] = {
    {"num_local_experts|n_routed_experts", "expert_count", HF_COUNT, 128},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1408},
    {"first_k_dense_replace", "leading_dense_block_count", HF_COUNT, 1},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 1},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1},
    {"n_group", "expert_group_count", HF_COUNT, 1},
    {"topk_group", "expert_group_used_count", HF_COUNT, 1},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key ernie_moe_keys[] = {
    {"num_experts|moe_num_experts", "expert_count", HF_COUNT, 64},
    {"num_experts_per_tok|moe_k", "expert_used_count", HF_COUNT, 6},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1536},
    {"moe_num_shared_experts", "expert_shared_count", HF_COUNT, 2},
    {"moe_layer_start_index", "leading_dense_block_count", HF_COUNT, 1},
    {"moe_layer_interval", "interleave_moe_layer_step", HF_COUNT, 1},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key deepseek2_keys[] = {
    {"q_lora_rank", "attention.q_lora_rank", HF_COUNT_OR_NONE, 1536},
    {"kv_lora_rank", "attention.kv_lora_rank", HF_COUNT, 512},
    {"n_routed_experts", "expert_count", HF_COUNT, 64},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, HF_ABSENT},
    {"n_shared_experts", "expert_shared_count", HF_COUNT_OR_NONE, 2},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1407},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key deepseek3_keys[] = {
    {"q_lora_rank", "attention.q_lora_rank", HF_COUNT_OR_NONE, 1536},
    {"kv_lora_rank", "attention.kv_lora_rank", HF_COUNT, 512},
    {"num_local_experts|n_routed_experts", "expert_count", HF_COUNT, 256},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 2048},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 2.5},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key glm4_lite_keys[] = {
    {"q_lora_rank", "attention.q_lora_rank", HF_COUNT_OR_NONE, 768},
    {"kv_lora_rank", "attention.kv_lora_rank", HF_COUNT, 512},
    {"num_local_experts|n_routed_experts", "expert_count", HF_COUNT, 64},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 4},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1536},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1.8},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key llama4_keys[] = {
    {"num_local_experts", "expert_count", HF_COUNT, 16},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 1},
    {"intermediate_size", "expert_feed_forward_length", HF_COUNT, 8192},
    {"interleave_moe_layer_step", "interleave_moe_layer_step", HF_COUNT, 1},
    {"attention_chunk_size", "attention.sliding_window", HF_COUNT, 8192},
    {"use_qk_norm", "attention.normed_heads", HF_FLAG, 1},
    {"floor_scale", "attention.temperature_length", HF_COUNT, 8192},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key mamba_keys[] = {
    {"conv_kernel", "ssm.conv_kernel", HF_COUNT, 4},
    {"state_size", "ssm.state_size", HF_COUNT, 16},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key mamba2_keys[] = {
    {"conv_kernel", "ssm.conv_kernel", HF_COUNT, 4},
    {"state_size", "ssm.state_size", HF_COUNT, 128},
    {"num_heads", "ssm.time_step_rank", HF_COUNT, 128},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key nomic_moe_keys[] = {
    {"num_experts", "expert_count", HF_COUNT, 8},
    {"moe_top_k", "expert_used_count", HF_COUNT, 2},
    {"moe_every_n_layers", "moe_every_n_layers", HF_COUNT, 2},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key t5_keys[] = {
    {"relative_attention_num_buckets", "attention.relative_buckets_count", HF_COUNT, 32},
    {"relative_attention_max_distance", "attention.relative_max_distance", HF_COUNT, 128},
    {NULL, NULL, HF_COUNT, 0},
};

/* Of Falcon-H1's and Granite 4's Mamba 2 blocks. */
#define MAMBA_KEYS                                                                                           \
    {"mamba_d_conv", "ssm.conv_kernel", HF_COUNT, 4}, {"mamba_d_state", "ssm.state_size", HF_COUNT, 256},    \
    {                                                                                                        \
        "mamba_n_heads", "ssm.time_step_rank", HF_COUNT, 128                                                 \
    }

static const struct hf_key falcon_h1_keys[] = {
    MAMBA_KEYS,
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key granite_hybrid_keys[] = {
    GRANITE_FACTORS,
    GRANITE_EXPERTS,
    {"shared_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 1024},
    MAMBA_KEYS,
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key lfm2_keys[] = {
    {"conv_L_cache", "shortconv.l_cache", HF_COUNT, 3},
    {NULL, NULL, HF_COUNT, 0},
};

static const struct hf_key qwen3next_keys[] = {
    {"num_experts", "expert_count", HF_COUNT, 512},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 10},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 512},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 512},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 1},
    {"decoder_sparse_step", "interleave_moe_layer_step", HF_COUNT, 1},
    {"full_attention_interval", "full_attention_interval", HF_COUNT, 4},
    {"linear_conv_kernel_dim", "ssm.conv_kernel", HF_COUNT, 4},
    {NULL, NULL, HF_COUNT, 0},
};

/* ---- What rows can't say -------------------------------------------------------------------------------- */

static void read_dense_layers(struct hf_config *config)
{
    const json_t *dense = hf_get(config->json, "mlp_only_layers");
    size_t n = json_array_size(dense);
    for (size_t i = 0; i < n; i++) {
        const json_t *layer = json_array_get(dense, i);
        hf_refuse(config, !json_is_integer(layer) || json_integer_value(layer) != (json_int_t)i,
                  "mlp_only_layers with other than the first layers");
    }
    hf_put_count(config, "leading_dense_block_count", (uint32_t)n);
}

void hf_read_query_scale(struct hf_config *config)
{
    double scalar = hf_number(config, config->json, "query_pre_attn_scalar", 256);
    if (scalar <= 0) hf_fail(config, ENGINE_ERROR_DATA, "query_pre_attn_scalar is %g", scalar);
    if (!config->status) hf_put_float(config, "attention.scale", 1 / sqrt(scalar));
}

static void read_gemma(struct hf_config *config)
{
    hf_read_query_scale(config);
    hf_refuse(config, hf_flag(config, config->json, "use_bidirectional_attention", false),
              "bidirectional attention");
}

static void read_falcon(struct hf_config *config)
{
    bool is_new = hf_flag(config, config->json, "new_decoder_architecture", false);
    bool one_head = hf_flag(config, config->json, "multi_query", true);
    hf_put_text(config, "tensor_data_layout", "jploski"); /* all queries, then all keys, then all values */
    config->n_kv_heads = is_new     ? hf_count(config, config->json, "num_kv_heads", config->n_heads)
                         : one_head ? 1
                                    : config->n_heads;
    hf_refuse(config, hf_flag(config, config->json, "alibi", false), "Falcon with ALiBi");
    hf_refuse(config, !is_new && !hf_flag(config, config->json, "parallel_attn", true),
              "Falcon without parallel attention");
}

static void read_gpt2(struct hf_config *config)
{
    hf_refuse(config, hf_flag(config, config->json, "scale_attn_by_inverse_layer_idx", false),
              "scale_attn_by_inverse_layer_idx");
    hf_refuse(config, hf_flag(config, config->json, "add_cross_attention", false), "cross-attention");
    if (!hf_flag(config, config->json, "scale_attn_weights", true))
        hf_put_float(config, "attention.scale", 1);
}

static void read_bloom(struct hf_config *config)
{
    hf_refuse(config, hf_flag(config, config->json, "apply_residual_connection_post_layernorm", false),
              "apply_residual_connection_post_layernorm");
}

static void read_mpt(struct hf_config *config)
{
    const json_t *attention = hf_get(config->json, "attn_config");
    hf_refuse(config, !hf_flag(config, attention, "alibi", true), "MPT without ALiBi");
    hf_refuse(config, hf_flag(config, attention, "qk_ln", false), "MPT with qk_ln");
    hf_put_float(config, "attention.max_alibi_bias", hf_number(config, attention, "alibi_bias_max", 8));
    hf_put_float(config, "attention.clamp_kqv", hf_number(config, attention, "clip_qkv", 0));
    if (hf_get(attention, "softmax_scale"))
        hf_put_float(config, "attention.scale", hf_number(config, attention, "softmax_scale", 1));
}

static void read_phi2(struct hf_config *config)
{
    hf_refuse(config, hf_flag(config, config->json, "qk_layernorm", false), "Phi with qk_layernorm");
}

/* A key that llama.cpp's converter writes, although the family has no RMS norms. */
static void read_nemotron(struct hf_config *config)
{
    hf_put_float(config, "attention.layer_norm_rms_epsilon",
                 hf_number(config, config->json, config->keys->epsilon.names, config->keys->epsilon.preset));
}

static void read_smollm3(struct hf_config *config)
{
    hf_read_layers_without_rope(config, 4);
}

static void read_minicpm(struct hf_config *config)
{
    double base = hf_number(config, config->json, "dim_model_base", 1);
    double depth = hf_number(config, config->json, "scale_depth", 1);
    if (base <= 0) hf_fail(config, ENGINE_ERROR_DATA, "dim_model_base is %g", base);
    if (config->status) return;
    hf_put_float(config, "embedding_scale", hf_number(config, config->json, "scale_emb", 1));
    hf_put_float(config, "residual_scale", depth / sqrt(config->n_layers));
    hf_put_float(config, "logit_scale", config->n_embd / base);
}

static void read_ernie_moe(struct hf_config *config)
{
    double end = hf_number(config, config->json, "moe_layer_end_index", -1);
    hf_refuse(config, end >= 0 && end + 1 < config->n_layers, "a moe_layer_end_index before the last layer");
}

static void read_glm4moe(struct hf_config *config)
{
    hf_put_count(config, "expert_gating_func", 2);
}

/* The choice may differ between layers; the experts are as long as dense networks. */
static void read_hunyuan_moe(struct hf_config *config)
{
    const json_t *n = hf_get(config->json, "num_local_experts|num_experts"),
                 *used = hf_get(config->json, "num_experts_per_tok|moe_topk");
    const json_t *const lists[] = {n, used};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 1; k < json_array_size(lists[i]); k++)
            hf_refuse(config, !json_equal(json_array_get(lists[i], k), json_array_get(lists[i], 0)),
                      "a choice of experts that differs between layers");
    if (json_is_array(n)) n = json_array_get(n, 0);
    if (json_is_array(used)) used = json_array_get(used, 0);
    json_int_t n_experts = n ? json_integer_value(n) : 1, n_used = used ? json_integer_value(used) : 1;
    if (n_experts <= 0 || n_experts > 65536 || n_used <= 0 || n_used > 65536)
        hf_fail(config, ENGINE_ERROR_DATA, "num_experts or moe_topk is no count");
    hf_refuse(config, hf_flag(config, config->json, "use_cla", false), "use_cla");
    hf_put_count(config, "expert_count", (uint32_t)n_experts);
    hf_put_count(config, "expert_used_count", (uint32_t)n_used);
    hf_put_count(config, "expert_feed_forward_length", config->n_ff);
    hf_put_count(config, "expert_shared_feed_forward_length", config->n_ff);
}

/* Layers with rope attend within chunks, and every interleave_moe_layer_step-th has experts; lists that say the same are
 * followed, as transformers writes them. */
static void check_llama4_layers(struct hf_config *config)
{
    const json_t *types = hf_get(config->json, "layer_types"), *experts = hf_get(config->json, "moe_layers");
    uint32_t step = hf_count(config, config->json, "interleave_moe_layer_step", 1);
    for (uint32_t i = 0; types && i < config->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        const char *own = config->has_rope[i] ? "chunked_attention" : "full_attention";
        hf_refuse(config, !type || strcmp(type, own) != 0, "layer_types that differs from no_rope_layers");
    }
    for (size_t i = 0, n = experts && step > 0 ? config->n_layers / step : 0; i <= n && experts; i++) {
        const json_t *layer = json_array_get(experts, i);
        bool fits = i < n ? json_integer_value(layer) == (json_int_t)(step * (i + 1) - 1) : layer == NULL;
        hf_refuse(config, !fits, "moe_layers that differs from interleave_moe_layer_step");
    }
}

static void read_llama4(struct hf_config *config)
{
    bool tunes = hf_flag(config, config->json, "attn_temperature_tuning", true);
    hf_read_layers_without_rope(config, 4);
    check_llama4_layers(config);
    hf_put_float(config, "attention.temperature_scale",
                 tunes ? hf_number(config, config->json, "attn_scale", 0.1) : 0);
}

/* GLM 4.7 Flash: how many layers have no experts, by a kind for each. */
static uint32_t count_dense_layers(struct hf_config *config)
{
    const json_t *kinds = hf_get(config->json, "mlp_layer_types"), *kind;
    size_t i, n = 0;
    if (!kinds) return 1;
    if (json_array_size(kinds) != config->n_layers)
        hf_fail(config, ENGINE_ERROR_DATA, "mlp_layer_types has %zu texts for %u layers",
                json_array_size(kinds), config->n_layers);
    json_array_foreach(kinds, i, kind)
    {
        const char *text = json_string_value(kind);
        bool is_dense = text && strcmp(text, "dense") == 0;
        hf_refuse(config, !is_dense && (!text || strcmp(text, "sparse") != 0),
                  "mlp_layer_types with other texts than dense and sparse");
        hf_refuse(config, is_dense && i != n, "mlp_layer_types with a dense layer after a sparse one");
        n += is_dense;
    }
    return (uint32_t)n;
}

/* What DeepSeek 2, 3 and GLM 4.7 Flash do differently, with transformers' defaults. */
static const struct mla {
    const char *type; /* NULL: any other */
    uint32_t n_nope, n_value, n_groups, n_groups_used, n_dense;
    bool scores_by_sigmoid, norms_weights, may_interleave;
} mla_types[] = {
    {"deepseek_v2", 128, 128, 1, 1, 0, false, false, false},
    {"glm4_moe_lite", 192, 256, 1, 1, 1, true, true, true},
    {NULL, 128, 128, 8, 4, 3, true, true, true},
};

/* Multi-head latent attention: the keys of the cache are latent vectors with a rotated part. */
static void read_deepseek(struct hf_config *config)
{
    const json_t *json = config->json;
    const struct mla *own = mla_types;
    while (own->type && strcmp(own->type, config->family->type) != 0) own++;
    uint32_t latent = hf_count(config, json, "kv_lora_rank", 512),
             rope = hf_count(config, json, "qk_rope_head_dim", 64);
    uint32_t nope = hf_count(config, json, "qk_nope_head_dim", own->n_nope),
             value = hf_count(config, json, "v_head_dim", own->n_value);
    uint32_t n_groups = hf_count(config, json, "n_group", own->n_groups),
             n_used = hf_count(config, json, "topk_group", own->n_groups_used);
    const char *method = hf_text(config, json, "topk_method");
    bool is_v2 = !own->scores_by_sigmoid;
    hf_refuse(config, own->may_interleave && !hf_flag(config, json, "rope_interleave", true),
              "rope_interleave: false");
    if (is_v2 && (!method || strcmp(method, "greedy") == 0)) n_groups = n_used = 1;
    bool by_kinds = strcmp(config->family->type, "glm4_moe_lite") == 0;
    hf_put_count(config, "leading_dense_block_count",
                 by_kinds ? count_dense_layers(config)
                          : hf_count(config, json, "first_k_dense_replace", own->n_dense));
    config->n_rope = rope;
    config->n_nope = nope;
    config->n_value = value;
    config->n_kv_heads = 1;
    hf_put_count(config, "attention.head_count_kv", 1);
    hf_put_count(config, "attention.key_length", latent + rope);
    hf_put_count(config, "attention.value_length", latent);
    hf_put_count(config, "attention.key_length_mla", nope + rope);
    hf_put_count(config, "attention.value_length_mla", value);
    hf_put_count(config, "expert_group_count", n_groups);
    hf_put_count(config, "expert_group_used_count", n_used);
    /* llama.cpp's converter has it only from scoring_func, which what transformers saves lacks. */
    bool given = hf_get(json, "scoring_func") != NULL;
    hf_put_count(config, given ? "expert_gating_func" : "engine.expert_gating_func", is_v2 ? 1 : 2);
    hf_put_flag(config, "expert_weights_norm", !is_v2 && hf_flag(config, json, "norm_topk_prob", true));
}

/* ---- Families ------------------------------------------------------------------------------------------- */

#define RMS   false
#define LAYER true

static const struct hf_family families[] = {
    /* type, architecture, norms, rotated, windows, period, keys, read, adds one, positions follow padding */
    {"llama", "llama", RMS, 1, HF_WINDOWS_NONE, 0, NULL, NULL, false, false},
    {"mistral", "llama", RMS, 1, HF_WINDOWS_ALL, 0, NULL, NULL, false, false},
    {"mixtral", "llama", RMS, 1, HF_WINDOWS_ALL, 0, mixtral_keys, NULL, false, false},
    {"qwen2", "qwen2", RMS, 1, HF_WINDOWS_FROM, 0, NULL, NULL, false, false},
    {"qwen2_moe", "qwen2moe", RMS, 1, HF_WINDOWS_UNTIL, 0, qwen2moe_keys, read_dense_layers, false, false},
    {"qwen3", "qwen3", RMS, 1, HF_WINDOWS_FROM, 0, NULL, NULL, false, false},
    {"qwen3_moe", "qwen3moe", RMS, 1, HF_WINDOWS_ALL, 0, qwen3moe_keys, read_dense_layers, false, false},
    {"gemma", "gemma", RMS, 1, HF_WINDOWS_NONE, 0, NULL, NULL, true, false},
    {"gemma2", "gemma2", RMS, 1, HF_WINDOWS_PERIOD, 2, gemma2_keys, read_gemma, true, false},
    {"gemma3_text", "gemma3", RMS, 1, HF_WINDOWS_PERIOD, 6, gemma3_keys, read_gemma, true, false},
    {"phi", "phi2", LAYER, 0.5, HF_WINDOWS_NONE, 0, NULL, read_phi2, false, false},
    {"phi3", "phi3", RMS, 1, HF_WINDOWS_ALL, 0, NULL, NULL, false, false},
    {"falcon", "falcon", LAYER, 1, HF_WINDOWS_NONE, 0, NULL, read_falcon, false, false},
    {"gpt_neox", "gptneox", LAYER, 0.25, HF_WINDOWS_NONE, 0, neox_keys, NULL, false, false},
    {"stablelm", "stablelm", LAYER, 0.25, HF_WINDOWS_NONE, 0, stablelm_keys, NULL, false, false},
    {"gpt2", "gpt2", LAYER, 0, HF_WINDOWS_NONE, 0, NULL, read_gpt2, false, false},
    {"starcoder2", "starcoder2", LAYER, 1, HF_WINDOWS_ALL, 0, NULL, NULL, false, false},
    {"bloom", "bloom", LAYER, 0, HF_WINDOWS_NONE, 0, NULL, read_bloom, false, false},
    {"mpt", "mpt", LAYER, 0, HF_WINDOWS_NONE, 0, NULL, read_mpt, false, false},
    {"cohere", "command-r", LAYER, 1, HF_WINDOWS_NONE, 0, cohere_keys, NULL, false, false},
    {"cohere2", "cohere2", LAYER, 1, HF_WINDOWS_PERIOD, 4, cohere_keys, NULL, false, false},
    {"olmo2", "olmo2", RMS, 1, HF_WINDOWS_NONE, 0, NULL, NULL, false, false},
    {"olmo3", "olmo2", RMS, 1, HF_WINDOWS_PERIOD, 4, NULL, NULL, false, false},
    {"granite", "granite", RMS, 1, HF_WINDOWS_NONE, 0, granite_keys, hf_read_granite, false, false},
    {"granitemoe", "granitemoe", RMS, 1, HF_WINDOWS_NONE, 0, granitemoe_keys, hf_read_granite, false, false},
    {"granitemoeshared", "granitemoe", RMS, 1, HF_WINDOWS_NONE, 0, granite_shared_keys, hf_read_granite,
     false, false},
    {"smollm3", "smollm3", RMS, 1, HF_WINDOWS_NO_ROPE, 0, NULL, read_smollm3, false, false},
    {"internlm2", "internlm2", RMS, 1, HF_WINDOWS_NONE, 0, NULL, NULL, false, false},
    {"minicpm", "minicpm", RMS, 1, HF_WINDOWS_NONE, 0, NULL, read_minicpm, false, false},
    {"glm4", "glm4", RMS, 0.5, HF_WINDOWS_NONE, 0, NULL, NULL, false, false},
    {"glm4_moe", "glm4moe", RMS, 0.5, HF_WINDOWS_NONE, 0, glm4moe_keys, read_glm4moe, false, false},
    {"nemotron", "nemotron", LAYER, 0.5, HF_WINDOWS_NONE, 0, NULL, read_nemotron, true, false},
    {"exaone", "exaone", RMS, 1, HF_WINDOWS_NONE, 0, NULL, NULL, false, false},
    {"exaone4", "exaone4", RMS, 1, HF_WINDOWS_PERIOD, 4, NULL, NULL, false, false},
    {"ernie4_5", "ernie4_5", RMS, 1, HF_WINDOWS_NONE, 0, NULL, NULL, false, false},
    {"ernie4_5_moe", "ernie4_5-moe", RMS, 1, HF_WINDOWS_NONE, 0, ernie_moe_keys, read_ernie_moe, false,
     false},
    {"hunyuan_v1_dense", "hunyuan-dense", RMS, 1, HF_WINDOWS_NONE, 0, NULL, NULL, false, false},
    {"hunyuan_v1_moe", "hunyuan-moe", RMS, 1, HF_WINDOWS_NONE, 0, NULL, read_hunyuan_moe, false, false},
    {"llama4_text", "llama4", RMS, 1, HF_WINDOWS_NONE, 0, llama4_keys, read_llama4, false, false},
    {"gpt_oss", "gpt-oss", RMS, 1, HF_WINDOWS_PERIOD, 2, gpt_oss_keys, NULL, false, false},
    {"mamba", "mamba", RMS, 0, HF_WINDOWS_NONE, 0, mamba_keys, hf_read_mamba, false, false},
    {"mamba2", "mamba2", RMS, 0, HF_WINDOWS_NONE, 0, mamba2_keys, hf_read_mamba2, false, false},
    {"falcon_h1", "falcon-h1", RMS, 1, HF_WINDOWS_NONE, 0, falcon_h1_keys, hf_read_falcon_h1, false, false},
    {"granitemoehybrid", "granitehybrid", RMS, 1, HF_WINDOWS_NONE, 0, granite_hybrid_keys,
     hf_read_granite_hybrid, false, false},
    {"lfm2", "lfm2", RMS, 1, HF_WINDOWS_NONE, 0, lfm2_keys, hf_read_lfm2, false, false},
    {"qwen3_next", "qwen3next", RMS, 0.25, HF_WINDOWS_NONE, 0, qwen3next_keys, hf_read_qwen3_next, true,
     false},
    {"deepseek_v2", "deepseek2", RMS, 1, HF_WINDOWS_NONE, 0, deepseek2_keys, read_deepseek, false, false},
    {"deepseek_v3", "deepseek2", RMS, 1, HF_WINDOWS_NONE, 0, deepseek3_keys, read_deepseek, false, false},
    {"glm4_moe_lite", "deepseek2", RMS, 1, HF_WINDOWS_NONE, 0, glm4_lite_keys, read_deepseek, false, false},
    {"kimi_k2", "deepseek2", RMS, 1, HF_WINDOWS_NONE, 0, deepseek3_keys, read_deepseek, false, false},
    {"bert", "bert", LAYER, 0, HF_WINDOWS_NONE, 0, NULL, hf_read_bert, false, false},
    {"roberta", "bert", LAYER, 0, HF_WINDOWS_NONE, 0, NULL, hf_read_bert, false, true},
    {"xlm-roberta", "bert", LAYER, 0, HF_WINDOWS_NONE, 0, NULL, hf_read_bert, false, true},
    {"camembert", "bert", LAYER, 0, HF_WINDOWS_NONE, 0, NULL, hf_read_bert, false, true},
    {"distilbert", "bert", LAYER, 0, HF_WINDOWS_NONE, 0, NULL, hf_read_bert, false, false},
    {"modernbert", "modern-bert", LAYER, 1, HF_WINDOWS_FIRST, 3, NULL, hf_read_bert, false, false},
    {"t5", "t5", RMS, 0, HF_WINDOWS_NONE, 0, t5_keys, hf_read_t5, false, false},
    {"mt5", "t5", RMS, 0, HF_WINDOWS_NONE, 0, t5_keys, hf_read_t5, false, false},
    {"umt5", "t5", RMS, 0, HF_WINDOWS_NONE, 0, t5_keys, hf_read_t5, false, false},
    {"nomic_bert", "nomic-bert", LAYER, 1, HF_WINDOWS_NONE, 0, NULL, hf_read_nomic_bert, false, false},
    /* Variants, see hf_family_variant. */
    {"t5, encoder", "t5encoder", RMS, 0, HF_WINDOWS_NONE, 0, t5_keys, hf_read_t5_encoder, false, false},
    {"mt5, encoder", "t5encoder", RMS, 0, HF_WINDOWS_NONE, 0, t5_keys, hf_read_t5_encoder, false, false},
    {"umt5, encoder", "t5encoder", RMS, 0, HF_WINDOWS_NONE, 0, t5_keys, hf_read_t5_encoder, false, false},
    {"bert, alibi", "jina-bert-v2", LAYER, 0, HF_WINDOWS_NONE, 0, NULL, hf_read_jina_bert, false, false},
    {"nomic_bert, num_experts", "nomic-bert-moe", LAYER, 1, HF_WINDOWS_NONE, 0, nomic_moe_keys,
     hf_read_nomic_bert_moe, false, false},
    {"granitemoehybrid, dense", "granite", RMS, 1, HF_WINDOWS_NONE, 0, granite4_dense_keys, hf_read_granite,
     false, false},
    {"granitemoehybrid, attention", "granitemoe", RMS, 1, HF_WINDOWS_NONE, 0, granite4_moe_keys,
     hf_read_granite, false, false},
    {"gemma3_text, bidirectional", "gemma-embedding", RMS, 1, HF_WINDOWS_PERIOD, 6, NULL,
     hf_read_gemma_embedding, true, false},
};

const struct hf_family *hf_family_find(const char *type)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].type, type) == 0) return &families[i];
    return NULL;
}

/* The encoder alone has the model_type of the whole. */
static const struct hf_family *t5_variant(const struct hf_family *family, const json_t *json)
{
    char name[32];
    const char *class = json_string_value(json_array_get(hf_get(json, "architectures"), 0));
    if (!class || !strstr(class, "EncoderModel")) return family;
    snprintf(name, sizeof name, "%s, encoder", family->type);
    return hf_family_find(name);
}

const struct hf_family *hf_family_variant(const struct hf_family *family, const json_t *json)
{
    const char *positions = json_string_value(hf_get(json, "position_embedding_type"));
    const char *name = family->type;
    if (strcmp(name, "bert") == 0 && positions && strcmp(positions, "alibi") == 0) name = "bert, alibi";
    if (strcmp(name, "nomic_bert") == 0 && json_number_value(hf_get(json, "num_experts")) > 0)
        name = "nomic_bert, num_experts";
    if (strcmp(name, "gemma3_text") == 0 && json_is_true(hf_get(json, "use_bidirectional_attention")))
        name = "gemma3_text, bidirectional";
    if (name == family->type && strcmp(family->architecture, "t5") == 0) return t5_variant(family, json);
    return name == family->type ? hf_without_states(family, json) : hf_family_find(name);
}

const char *hf_family_refusal(const char *type)
{
    static const struct {
        const char *type, *what;
    } others[] = {
        {"deberta-v2", "encoders of a kind that is not supported"},
        {"electra", "encoders of a kind that is not supported"},
        {"bart", "encoders with a decoder, of a kind that is not supported"},
        {"whisper", "encoders with a decoder, of a kind that is not supported"},
        {"rwkv", "recurrent, of a kind that is not supported"},
        {"falcon_mamba", "recurrent, of a kind that is not supported"},
        {"jamba", "recurrent, of a kind that is not supported"},
        {"rwkv6", "supported only as GGUF files"},
        {"rwkv7", "supported only as GGUF files"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].type, type) == 0) return others[i].what;
    return NULL;
}
