/* arcee.c: Arcee's AFM: Llama with a feed-forward network of squared ReLU without a gate.
 * huggingface.co/arcee-ai/AFM-4.5B. */
#include "arch/decoder.h"
#include "arch/families.h"

static void arcee_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_RELU_SQUARED);
    *info = decoder_info(d);
}

static const struct hf_type arcee_types[] = {
    {.name = "arcee",
     .width = 2560,
     .layers = 32,
     .heads = 32,
     .ff = 18432,
     .context = 4096,
     .epsilon = 1e-5,
     .activation = "relu2",
     .options = {HF_ATTENTION_BIAS, HF_MLP_BIAS}},
    {0},
};

const struct architecture arch_arcee = {
    .name = "arcee",
    .models = "AFM 4.5B",
    .size = sizeof(struct decoder),
    .read = arcee_read,
    .build = decoder_build,
    .hf = {.types = arcee_types, .pairs_adjacent = true},
};
