/* cohere2.c: Command-R7B, Command A: Command-R with a sliding window in three of four layers and no positions
 * in the fourth. arXiv 2504.00698. */
#include "arch/decoder.h"
#include "arch/families.h"

static void cohere2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_ADJACENT);
    d->logit_scale = hparams_float_above_0(h, "logit_scale", 1);
    decoder_read_windows(h, d, 4, false);
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (!d->layers[i].slides) d->layers[i].rope = NULL;
    *info = decoder_info(d);
}

static const struct hf_key cohere2_numbers[] = {
    {"logit_scale", "logit_scale", HF_FLOAT, 0.0625},
    {0},
};

static const struct hf_type cohere2_types[] = {
    {.name = "cohere2",
     .keys = {.window_period = "sliding_window_pattern", .layer_types = "layer_types"},
     .width = 8192,
     .layers = 40,
     .heads = 64,
     .ff = 22528,
     .context = 8192,
     .epsilon = 1e-5,
     .is_tied = true,
     .windows = HF_WINDOWS_PERIOD,
     .window = 4096,
     .window_period = 4,
     .numbers = cohere2_numbers,
     .options = {HF_ATTENTION_BIAS}},
    {0},
};

const struct architecture arch_cohere2 = {
    .name = "cohere2",
    .models = "Command-R7B, Command A",
    .size = sizeof(struct decoder),
    .read = cohere2_read,
    .build = decoder_build_parallel,
    .hf = {.types = cohere2_types, .has_layer_norms = true, .writes_no_scaling = true},
};
