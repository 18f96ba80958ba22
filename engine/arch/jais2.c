/* jais2.c: Jais 2: Llama with layer norms, biases, and a feed-forward network of squared ReLU without a gate.
 * huggingface.co/inceptionai/Jais-2-8B-Chat. */
#include "arch/decoder.h"
#include "arch/families.h"

static void jais2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_RELU_SQUARED);
    *info = decoder_info(d);
}

static const struct hf_type jais2_types[] = {
    {.name = "jais2",
     .width = 3328,
     .layers = 32,
     .heads = 26,
     .ff = 26624,
     .context = 8192,
     .epsilon = 1e-5,
     .activation = "relu2",
     .theta = 5e5,
     .options = {{"attention_bias", true, HF_ATTENTION}, {"mlp_bias", true, HF_MLP}}},
    {0},
};

const struct architecture arch_jais2 = {
    .name = "jais2",
    .models = "Jais 2",
    .size = sizeof(struct decoder),
    .read = jais2_read,
    .build = decoder_build,
    .hf = {.types = jais2_types, .has_layer_norms = true},
    .quantize = {.n_layers = 68},
};
