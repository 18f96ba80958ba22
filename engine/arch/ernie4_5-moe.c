/* ernie4_5-moe.c: ERNIE 4.5 with experts: Llama with rope on adjacent pairs, dense layers first, then
 * mixtures of experts chosen with a bias, and shared experts. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void ernie4_5_moe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    struct experts *e = &d->experts;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    e->floor = 1e-12f;
    /* Files give a length for the shared experts that is derived from other numbers, and fits only by
     * chance. */
    uint64_t n_ff_shared = (uint64_t)hparams_count(h, "expert_shared_count", 0) * e->n_ff;
    if (n_ff_shared <= INT32_MAX) e->n_ff_shared = (uint32_t)n_ff_shared;
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void ernie4_5_moe_read_config(struct hf_config *config)
{
    double end = hf_number(config, config->json, "moe_layer_end_index", -1);
    hf_refuse(config, end >= 0 && end + 1 < config->n_layers, "a moe_layer_end_index before the last layer");
}

static const struct hf_key ernie4_5_moe_numbers[] = {
    {"num_experts|moe_num_experts", "expert_count", HF_COUNT, 64},
    {"num_experts_per_tok|moe_k", "expert_used_count", HF_COUNT, 6},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1536},
    {"moe_num_shared_experts", "expert_shared_count", HF_COUNT, 2},
    {"moe_layer_start_index", "leading_dense_block_count", HF_COUNT, 1},
    {"moe_layer_interval", "interleave_moe_layer_step", HF_COUNT, 1},
    {0},
};

static const struct hf_module ernie4_5_moe_modules[] = {
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
    {0},
};

static const struct hf_type ernie4_5_moe_types[] = {
    {.name = "ernie4_5_moe",
     .width = 2560,
     .layers = 28,
     .heads = 20,
     .kv_heads = 4,
     .ff = 12288,
     .context = 131072,
     .epsilon = 1e-5,
     .is_tied = true,
     .theta = 5e5,
     .numbers = ernie4_5_moe_numbers,
     .options = {{"use_bias", false, HF_ATTENTION "|" HF_MLP}},
     .read = ernie4_5_moe_read_config},
    {0},
};

const struct architecture arch_ernie4_5_moe = {
    .name = "ernie4_5-moe",
    .models = "ERNIE 4.5 with experts",
    .size = sizeof(struct decoder),
    .read = ernie4_5_moe_read,
    .build = decoder_build,
    .hf = {.types = ernie4_5_moe_types, .modules = ernie4_5_moe_modules},
};
