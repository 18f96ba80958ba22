/* phimoe.c: Phi 3.5 MoE: layer norms, biases, and two of the experts by SparseMixer, whose weights needn't
 * add up to 1. arXiv 2404.14219. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void phimoe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->epsilon = hparams_float_from_0(h, "attention.layer_norm_rms_epsilon", d->epsilon); /* so called */
    decoder_read_windows(h, d, 1, false);
    /* Noise of the logits in training: logits within twice of it are near. */
    d->experts.near = 2 * hparams_float_above_0(h, "router_jitter_noise", 0.01f);
    if (d->experts.n < 2 || d->experts.n_used != 2)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "%u of %u experts per token are not supported, only 2",
                     d->experts.n_used, d->experts.n);
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void phimoe_read_config(struct hf_config *config)
{
    const json_t *rope = hf_get(config->json, "rope_scaling|rope_parameters");
    hf_refuse(config,
              hf_number(config, rope, "short_mscale", 1) != hf_number(config, rope, "long_mscale", 1) &&
                  hf_get(rope, "short_mscale"),
              "a short_mscale other than long_mscale");
}

static const struct hf_key phimoe_numbers[] = {
    {"num_local_experts", "expert_count", HF_COUNT, 16},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 2},
    {"router_jitter_noise", "router_jitter_noise", HF_FLOAT, 0.01},
    {0},
};

static const struct hf_type phimoe_types[] = {
    {.name = "phimoe",
     .keys = {.magnitude = "short_mscale"},
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .kv_heads = 8,
     .ff = 6400,
     .context = 131072,
     .epsilon = 1e-5,
     .theta = 1e6,
     .windows = HF_WINDOWS_ALL,
     .numbers = phimoe_numbers,
     .options = {HF_ATTENTION_BIAS},
     .read = phimoe_read_config},
    {0},
};

static const struct arch_missing phimoe_missing[] = {
    {"which logits of the router are near", "noise of 0.01 in training, as published", ""},
    {"which longrope factors to use", "the context, as in `phi3`", ""},
    {0},
};

const struct architecture arch_phimoe = {
    .name = "phimoe",
    .models = "Phi 3.5 MoE",
    .missing = phimoe_missing,
    .size = sizeof(struct decoder),
    .read = phimoe_read,
    .build = decoder_build,
    .hf = {.types = phimoe_types, .modules = mixtral_modules},
    .tokenizer = {.strip_right_but = "<s> <unk> <|endoftext|>", .names = {"phi-3", "phi3"}},
};
