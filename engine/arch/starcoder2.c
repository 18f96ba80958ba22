/* starcoder2.c: StarCoder 2: GPT-2 with rotary positions and grouped queries. Lozhkov et al., arXiv
 * 2402.19173. */
#include "arch/decoder.h"
#include "arch/families.h"

static void starcoder2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    decoder_read_windows(h, d, 1, false);
    /* The file doesn't give the window. All published models have a window of 4096 and a context of 16384. */
    if (!hparams_has(h, "attention.sliding_window") && d->n_context == 16384)
        for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].window = 4096;
    else if (!hparams_has(h, "attention.sliding_window"))
        decoder_warn(h, "the file does not say whether the model has a sliding window; assuming none");
    *info = decoder_info(d);
}

static const struct hf_module starcoder2_modules[] = {
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    {0},
};

static const struct hf_type starcoder2_types[] = {
    {.name = "starcoder2",
     .keys = {.epsilon = "norm_epsilon"},
     .width = 3072,
     .layers = 30,
     .heads = 24,
     .kv_heads = 2,
     .ff = 12288,
     .context = 4096,
     .epsilon = 1e-5,
     .activation = "gelu_pytorch_tanh",
     .is_tied = true,
     .windows = HF_WINDOWS_ALL,
     .options = {{"use_bias", true, HF_ATTENTION "|" HF_MLP}}},
    {0},
};

static const struct arch_missing starcoder2_missing[] = {
    {"the sliding window", "the published models, recognised by their context of 16384: 4096",
     "a warning; no window"},
    {0},
};

const struct architecture arch_starcoder2 = {
    .name = "starcoder2",
    .models = "StarCoder 2",
    .missing = starcoder2_missing,
    .size = sizeof(struct decoder),
    .read = starcoder2_read,
    .build = decoder_build,
    .hf = {.types = starcoder2_types, .modules = starcoder2_modules, .has_layer_norms = true},
};
