/* hybrids.c: what config.json says of families with states: Mamba, and hybrids of states and attention. See
 * config.h. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "model/hf/config.h"

/* hidden_size times a number of config.json. */
static uint32_t expanded(struct hf_config *config, const char *name)
{
    uint64_t size = (uint64_t)hf_count(config, config->json, name, 2) * config->n_embd;
    if (size > INT32_MAX) hf_fail(config, ENGINE_ERROR_DATA, "%s times hidden_size is not a count", name);
    return size > INT32_MAX ? 0 : (uint32_t)size;
}

/* Convolutions and gates have SiLU. */
static void refuse_activation(struct hf_config *config)
{
    const char *name = hf_text(config, config->json, config->keys->activation);
    hf_refuse(config, name && strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0,
              "a hidden_act but silu in layers with states");
}

/* ---- Mamba --------------------------------------------------------------------------------------------- */

void hf_read_mamba(struct hf_config *config)
{
    const json_t *json = config->json;
    uint32_t inner = hf_count(config, json, "intermediate_size", expanded(config, "expand"));
    uint32_t rank = (config->n_embd + 15) / 16;
    if (hf_get(json, "time_step_rank") && json_is_integer(hf_get(json, "time_step_rank")))
        rank = hf_count(config, json, "time_step_rank", rank);
    hf_put_count(config, "ssm.inner_size", inner);
    hf_put_count(config, "ssm.time_step_rank", rank);
    refuse_activation(config);
}

/* Time steps beyond a limit would have to be clamped. */
static void refuse_limit(struct hf_config *config)
{
    const json_t *limit = hf_get(config->json, "time_step_limit");
    hf_refuse(config,
              json_number_value(json_array_get(limit, 0)) > 0 || json_is_number(json_array_get(limit, 1)),
              "a time_step_limit");
}

void hf_read_mamba2(struct hf_config *config)
{
    const json_t *json = config->json;
    config->n_groups = hf_count(config, json, "n_groups", 8);
    hf_put_count(config, "ssm.group_count", config->n_groups);
    hf_put_count(config, "ssm.inner_size", expanded(config, "expand"));
    refuse_limit(config);
    refuse_activation(config);
    hf_refuse(config, !hf_flag(config, json, "rms_norm", true), "rms_norm: false");
}

/* The block of Mamba 2 in hybrids, of this inner size. */
static void read_block(struct hf_config *config, uint32_t inner)
{
    const json_t *json = config->json;
    config->n_groups = hf_count(config, json, "mamba_n_groups", 1);
    hf_put_count(config, "ssm.group_count", config->n_groups);
    hf_put_count(config, "ssm.inner_size", inner);
    refuse_limit(config);
    refuse_activation(config);
}

/* ---- Falcon-H1 ----------------------------------------------------------------------------------------- */

enum { N_SEGMENTS = 5, N_FACTORS = 16 }; /* of the rows of ssm_in: z, x, keys, queries, time steps */

static void add_factor(struct hf_factor *list, const char *tensor, uint32_t first, uint32_t end,
                       double factor)
{
    while (list->tensor) list++;
    *list = (struct hf_factor){tensor, first, end, (float)factor};
}

/* One of a list of multipliers, which may be missing as a whole. */
static double multiplier(struct hf_config *config, const char *list, size_t n, size_t i)
{
    const json_t *values = hf_get(config->json, list), *value = json_array_get(values, i);
    if (!values) return 1;
    if (json_array_size(values) != n || !json_is_number(value))
        hf_fail(config, ENGINE_ERROR_DATA, "%s is not a list of %zu numbers", list, n);
    return json_number_value(value);
}

static void read_multipliers(struct hf_config *config, uint32_t inner)
{
    const json_t *json = config->json;
    uint32_t keys = config->n_groups * hf_count(config, json, "mamba_d_state", 256);
    uint32_t heads = hf_count(config, json, "mamba_n_heads", 128);
    const uint32_t lengths[N_SEGMENTS] = {inner, inner, keys, keys, heads};
    struct hf_factor *list = metadata_allocate(config->metadata, N_FACTORS * sizeof *list);
    if (!list && !config->status) config->status = error_memory("metadata");
    if (!list) return;
    memset(list, 0, N_FACTORS * sizeof *list);
    double in = hf_number(config, json, "attention_in_multiplier", 1);
    add_factor(list, "attn_q", 0, 0, in);
    add_factor(list, "attn_k", 0, 0, in * hf_number(config, json, "key_multiplier", 1));
    add_factor(list, "attn_v", 0, 0, in);
    add_factor(list, "attn_output", 0, 0, hf_number(config, json, "attention_out_multiplier", 1));
    add_factor(list, "ssm_out", 0, 0, hf_number(config, json, "ssm_out_multiplier", 1));
    add_factor(list, "ffn_gate", 0, 0, multiplier(config, "mlp_multipliers", 2, 0));
    add_factor(list, "ffn_down", 0, 0, multiplier(config, "mlp_multipliers", 2, 1));
    add_factor(list, "output", 0, 0, hf_number(config, json, "lm_head_multiplier", 1));
    add_factor(list, "token_embd", 0, 0, hf_number(config, json, "embedding_multiplier", 1));
    in = hf_number(config, json, "ssm_in_multiplier", 1);
    for (uint32_t i = 0, at = 0; i < N_SEGMENTS; at += lengths[i], i++)
        add_factor(list, "ssm_in", at, at + lengths[i],
                   in * multiplier(config, "ssm_multipliers", N_SEGMENTS, i));
    for (const struct hf_factor *factor = list; factor->tensor; factor++)
        if (!(fabsf(factor->factor) > 0))
            hf_fail(config, ENGINE_ERROR_DATA, "a multiplier of %s is 0", factor->tensor);
    config->factors_of_rows = list;
}

void hf_read_falcon_h1(struct hf_config *config)
{
    const json_t *json = config->json;
    bool is_null = json_is_null(json_object_get(json, "mamba_d_ssm"));
    uint32_t inner = is_null ? expanded(config, "mamba_expand") : hf_count(config, json, "mamba_d_ssm", 1024);
    read_block(config, inner);
    hf_refuse(config,
              hf_flag(config, json, "mamba_rms_norm", false) &&
                  hf_flag(config, json, "mamba_norm_before_gate", true),
              "mamba_norm_before_gate");
    hf_refuse(config,
              hf_flag(config, json, "attention_bias", false) || hf_flag(config, json, "mlp_bias", false) ||
                  hf_flag(config, json, "mamba_proj_bias", false) ||
                  hf_flag(config, json, "projectors_bias", false),
              "Falcon-H1 with biases");
    if (!config->status) read_multipliers(config, inner);
}

/* ---- Granite 4 ----------------------------------------------------------------------------------------- */

const struct hf_family *hf_without_states(const struct hf_family *family, const json_t *json)
{
    const json_t *types = hf_get(json, "layers_block_type|layer_types"), *type;
    size_t i;
    if (strcmp(family->architecture, "granitehybrid") != 0 || !types) return family;
    json_array_foreach(types, i, type)
    {
        const char *text = json_string_value(type);
        if (!text || strcmp(text, "attention") != 0) return family;
    }
    const json_t *n = hf_get(json, "num_local_experts");
    bool is_dense = json_is_integer(n) && json_integer_value(n) == 0;
    return hf_family_find(is_dense ? "granitemoehybrid, dense" : "granitemoehybrid, attention");
}

/* Granite 4 has no positions unless it says so; earlier ones always have. */
void hf_read_granite(struct hf_config *config)
{
    const json_t *json = config->json;
    const char *type = hf_text(config, json, "model_type");
    const char *positions = hf_text(config, json, "position_embedding_type");
    if (!type || strcmp(type, "granitemoehybrid") != 0) return;
    config->shared_is_dense = hf_count(config, json, "num_local_experts", 8) == 0;
    if (!positions || strcmp(positions, "rope") != 0) hf_put_flag(config, "rope.scaling.finetuned", false);
}

void hf_read_granite_hybrid(struct hf_config *config)
{
    hf_read_granite(config);
    read_block(config, expanded(config, "mamba_expand"));
    config->is_hybrid = true;
    hf_read_recurrent_layers(config, "mamba", "attention", 0);
    hf_refuse(config, config->n_groups != 1, "mamba_n_groups other than 1");
}

/* ---- LFM 2 --------------------------------------------------------------------------------------------- */

void hf_read_lfm2(struct hf_config *config)
{
    const json_t *json = config->json;
    uint64_t n_ff = config->n_ff;
    uint64_t whole = hf_count(config, json, "block_multiple_of", 256);
    if (hf_flag(config, json, "block_auto_adjust_ff_dim", true)) {
        n_ff = 2 * n_ff / 3;
        if (hf_get(json, "block_ffn_dim_multiplier")) {
            double factor = hf_number(config, json, "block_ffn_dim_multiplier", 1);
            if (factor < 0 || factor > 1000 || whole == 0)
                hf_fail(config, ENGINE_ERROR_DATA,
                        "block_ffn_dim_multiplier or block_multiple_of is impossible");
            if (config->status) return;
            n_ff = (uint64_t)(factor * (double)n_ff);
        }
        if (whole > 0) n_ff = (n_ff + whole - 1) / whole * whole;
    }
    if (n_ff > INT32_MAX) hf_fail(config, ENGINE_ERROR_DATA, "block_ff_dim is not a count");
    config->n_ff = (uint32_t)n_ff;
    config->is_hybrid = true;
    const json_t *listed = hf_get(json, "full_attn_idxs");
    config->is_tied = hf_flag(config, json, "tie_embedding", config->is_tied);
    if (hf_get(json, "layer_types")) {
        hf_read_recurrent_layers(config, "conv", "full_attention", 0);
        return;
    }
    for (uint32_t i = 0; i < config->n_layers; i++) config->is_recurrent[i] = listed != NULL;
    for (size_t i = 0; i < json_array_size(listed); i++) {
        const json_t *layer = json_array_get(listed, i);
        bool fits = json_is_integer(layer) && json_integer_value(layer) >= 0 &&
                    json_integer_value(layer) < (json_int_t)config->n_layers;
        if (fits)
            config->is_recurrent[json_integer_value(layer)] = false;
        else
            hf_fail(config, ENGINE_ERROR_DATA, "full_attn_idxs has something that is not a layer");
    }
}

/* ---- Qwen 3 Next --------------------------------------------------------------------------------------- */

void hf_read_qwen3_next(struct hf_config *config)
{
    const json_t *json = config->json;
    refuse_activation(config);
    config->key_dim = hf_count(config, json, "linear_key_head_dim", 128);
    config->value_dim = hf_count(config, json, "linear_value_head_dim", 128);
    config->n_key_heads = hf_count(config, json, "linear_num_key_heads", 16);
    config->n_value_heads = hf_count(config, json, "linear_num_value_heads", 32);
    if (config->n_key_heads == 0 || config->n_value_heads % config->n_key_heads != 0 ||
        (uint64_t)config->n_value_heads * config->value_dim > INT32_MAX)
        hf_fail(config, ENGINE_ERROR_DATA, "linear_num_value_heads %u does not suit linear_num_key_heads %u",
                config->n_value_heads, config->n_key_heads);
    hf_refuse(config, json_array_size(hf_get(json, "mlp_only_layers")) > 0, "mlp_only_layers in qwen3_next");
    hf_read_recurrent_layers(config, "linear_attention", "full_attention",
                             hf_count(config, json, "full_attention_interval", 4));
    if (config->status) return;
    hf_put_count(config, "ssm.state_size", config->key_dim);
    hf_put_count(config, "ssm.group_count", config->n_key_heads);
    hf_put_count(config, "ssm.time_step_rank", config->n_value_heads);
    hf_put_count(config, "ssm.inner_size", config->n_value_heads * config->value_dim);
    hf_put_layer_flags(config, "attention.recurrent_layers", config->is_recurrent);
}
