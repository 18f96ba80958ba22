/* command-r.c: Command-R and R+: layer norms without biases, blocks that read the same norm of x, logits
 * with a factor. R+ norms each head of queries and keys. */
#include "arch/decoder.h"
#include "arch/families.h"

static void command_r_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_ADJACENT);
    d->logit_scale = hparams_float_above_0(h, "logit_scale", 1);
    *info = decoder_info(d);
}

static const struct hf_key command_r_numbers[] = {
    {"logit_scale", "logit_scale", HF_FLOAT, 0.0625},
    {0},
};

static const struct hf_type command_r_types[] = {
    {.name = "cohere",
     .width = 8192,
     .layers = 40,
     .heads = 64,
     .ff = 22528,
     .context = 8192,
     .epsilon = 1e-5,
     .is_tied = true,
     .theta = 5e5,
     .numbers = command_r_numbers,
     .options = {HF_ATTENTION_BIAS, {"use_qk_norm", false, HF_QK_NORMS}}},
    {0},
};

const struct architecture arch_command_r = {
    .name = "command-r",
    .models = "Command-R, R+",
    .size = sizeof(struct decoder),
    .read = command_r_read,
    .build = decoder_build_parallel,
    .hf = {.types = command_r_types, .has_layer_norms = true, .writes_no_scaling = true},
};
