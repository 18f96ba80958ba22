/* nemotron.c: Nemotron 3 and 4, Minitron: layer norms (the weights in the file include the 1 that they add),
 * rotary positions on a part of each head, and a feed-forward network of squared ReLU without a gate. arXiv
 * 2402.16819. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void nemotron_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_RELU_SQUARED);
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* A key that llama.cpp's converter writes, although the family has no RMS norms. */
static void nemotron_read_config(struct hf_config *config)
{
    hf_put_float(config, "attention.layer_norm_rms_epsilon",
                 hf_number(config, config->json, config->type.keys.epsilon, config->type.epsilon));
}

static const struct hf_type nemotron_types[] = {
    {.name = "nemotron",
     .keys = {.epsilon = "norm_eps"},
     .width = 6144,
     .layers = 32,
     .heads = 48,
     .ff = 24576,
     .context = 4096,
     .epsilon = 1e-5,
     .activation = "relu2",
     .rotary = 0.5,
     .options = {HF_ATTENTION_BIAS, HF_MLP_BIAS},
     .read = nemotron_read_config},
    {0},
};

const struct architecture arch_nemotron = {
    .name = "nemotron",
    .models = "Nemotron 3, 4, Minitron",
    .size = sizeof(struct decoder),
    .read = nemotron_read,
    .build = decoder_build,
    .hf = {.types = nemotron_types,
           .has_layer_norms = true,
           .norms_add_one = true,
           .writes_no_scaling = true},
};
