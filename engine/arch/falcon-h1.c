/* falcon-h1.c: Falcon-H1: the block of each layer is the sum of attention and of a Mamba 2 block, which
 * read the same input. Its many multipliers are in the file's weights. arXiv 2507.22448. */
#include <math.h>
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "arch/ssm.h"
#include "base/error.h"
#include "model/hf/config.h"

struct falcon_h1 {
    struct decoder decoder;
    struct ssm ssm;
};

static void falcon_h1_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct falcon_h1 *falcon = hparams;
    decoder_read(h, &falcon->decoder, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    ssm_read(h, &falcon->ssm, true);
    *info = decoder_info(&falcon->decoder);
    info->has_states = true;
}

static struct value *falcon_h1_mix(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct falcon_h1 *falcon = (const struct falcon_h1 *)d;
    return graph_add(g, ssm_mamba2(g, d, &falcon->ssm, x), decoder_attention(g, d, x));
}

static void falcon_h1_build(struct graph *g, const void *hparams)
{
    decoder_build_mixed(g, hparams, falcon_h1_mix);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

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

static void falcon_h1_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    bool is_null = json_is_null(json_object_get(json, "mamba_d_ssm"));
    uint32_t inner =
        is_null ? ssm_expanded(config, "mamba_expand") : hf_count(config, json, "mamba_d_ssm", 1024);
    ssm_read_config(config, inner);
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

static const struct hf_key falcon_h1_numbers[] = {
    SSM_NUMBERS,
    {0},
};

static const struct hf_module falcon_h1_modules[] = {
    SSM_MODULES("mamba"),
    {"mamba.D", "ssm_d."},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    {"pre_ff_layernorm", "ffn_norm."}, /* so named by llama.cpp's converter */
    {0},
};

static const struct hf_type falcon_h1_types[] = {
    {.name = "falcon_h1",
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .kv_heads = 8,
     .ff = 14336,
     .context = 8192,
     .epsilon = 1e-5,
     .numbers = falcon_h1_numbers,
     .read = falcon_h1_read_config},
    {0},
};

const struct architecture arch_falcon_h1 = {
    .name = "falcon-h1",
    .models = "Falcon-H1: recurrent with attention beside it",
    .size = sizeof(struct falcon_h1),
    .read = falcon_h1_read,
    .build = falcon_h1_build,
    .hf = {.types = falcon_h1_types, .modules = falcon_h1_modules, .scales_all_but = ".ffn_up."},
};
