/* olmoe.c: OLMoE: norms over the whole width of queries and keys, and mixtures whose weights are the softmax
 * over all experts. arXiv 2409.02060. */
#include "arch/decoder.h"
#include "arch/families.h"

static void olmoe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    experts_read_router(h, d, ENGINE_ROUTE_SOFTMAX, false);
    d->clamp_qkv = hparams_float_from_0(h, "attention.clamp_kqv", 0);
    d->clamp_after_norm = true;
    *info = decoder_info(d);
}

static const struct hf_key olmoe_numbers[] = {
    {"num_local_experts|num_experts", "expert_count", HF_COUNT, 64},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 0},
    {"clip_qkv", "attention.clamp_kqv", HF_FLOAT, HF_ABSENT},
    {0},
};

static const struct hf_type olmoe_types[] = {
    {.name = "olmoe",
     .width = 2048,
     .layers = 16,
     .heads = 16,
     .ff = 2048,
     .context = 4096,
     .epsilon = 1e-5,
     .numbers = olmoe_numbers,
     .options = {HF_ATTENTION_BIAS}},
    {0},
};

const struct architecture arch_olmoe = {
    .name = "olmoe",
    .models = "OLMoE",
    .size = sizeof(struct decoder),
    .read = olmoe_read,
    .build = decoder_build,
    .hf = {.types = olmoe_types},
};
