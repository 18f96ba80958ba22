/* hunyuan-moe.c: Hunyuan A13B: norms on heads after rope, mixtures of experts with a shared expert. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void hunyuan_moe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->norm_after_rope = true;
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* The choice may differ between layers; the experts are as long as dense networks. */
static void hunyuan_moe_read_config(struct hf_config *config)
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

static const struct hf_module hunyuan_moe_modules[] = {
    {"mlp.gate.wg", "ffn_gate_inp"},
    {"self_attn.query_layernorm", "attn_q_norm"},
    {"self_attn.key_layernorm", "attn_k_norm"},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp"},
    {0},
};

static const struct hf_type hunyuan_moe_types[] = {
    {.name = "hunyuan_v1_moe",
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 11008,
     .context = 2048,
     .epsilon = 1e-5,
     .options = {HF_ATTENTION_BIAS},
     .read = hunyuan_moe_read_config},
    {0},
};

const struct architecture arch_hunyuan_moe = {
    .name = "hunyuan-moe",
    .models = "Hunyuan A13B",
    .size = sizeof(struct decoder),
    .read = hunyuan_moe_read,
    .build = decoder_build,
    .hf = {.types = hunyuan_moe_types, .modules = hunyuan_moe_modules},
};
