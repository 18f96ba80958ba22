/* olmo2.c: OLMo 2 and 3: norms on the output of blocks instead of their input, and on the whole width of
 * queries and keys. OLMo 3 has a sliding window in three of four layers, which use plain rope where the
 * others scale it. arXiv 2501.00656. */
#include "arch/decoder.h"
#include "arch/families.h"

struct olmo2 {
    struct decoder decoder;
    struct rope local; /* of the layers with a sliding window */
};

static void olmo2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct olmo2 *olmo = hparams;
    struct decoder *d = &olmo->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->norms = NORMS_AFTER;
    if (hparams_has(h, "attention.sliding_window")) {
        decoder_read_windows(h, d, 4, false);
        decoder_local_rope(h, d, &olmo->local, d->rope.theta);
    }
    *info = decoder_info(d);
}

static const struct hf_type olmo2_types[] = {
    {.name = "olmo2",
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 11008,
     .context = 2048,
     .epsilon = 1e-5,
     .options = {HF_ATTENTION_BIAS}},
    {.name = "olmo3",
     .keys = {.layer_types = "layer_types"},
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 11008,
     .context = 2048,
     .epsilon = 1e-5,
     .windows = HF_WINDOWS_PERIOD,
     .window = 4096,
     .window_period = 4,
     .options = {HF_ATTENTION_BIAS}},
    {0},
};

const struct architecture arch_olmo2 = {
    .name = "olmo2",
    .models = "OLMo 2, 3",
    .size = sizeof(struct olmo2),
    .read = olmo2_read,
    .build = decoder_build,
    .hf = {.types = olmo2_types, .modules = decoder_norms_behind},
};
