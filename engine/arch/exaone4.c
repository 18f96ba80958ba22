/* exaone4.c: EXAONE 4: norms on the output of blocks, and on each head of queries and keys. With a sliding
 * window, every fourth layer attends to everything and has no positions. arXiv 2507.11407. */
#include "arch/decoder.h"
#include "arch/families.h"

void exaone4_read_windows(struct hparams *h, struct decoder *d)
{
    if (hparams_count(h, "attention.sliding_window", 0) == 0) return;
    decoder_read_windows(h, d, 4, false);
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (!d->layers[i].slides) d->layers[i].rope = NULL;
}

static void exaone4_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->norms = NORMS_AFTER;
    exaone4_read_windows(h, d);
    *info = decoder_info(d);
}

static const struct hf_type exaone4_types[] = {
    {.name = "exaone4",
     .keys = {.window_period = "sliding_window_pattern", .layer_types = "layer_types"},
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .kv_heads = 32,
     .ff = 16384,
     .context = 2048,
     .epsilon = 1e-5,
     .windows = HF_WINDOWS_PERIOD,
     .window = 4096,
     .window_period = 4},
    {0},
};

const struct architecture arch_exaone4 = {
    .name = "exaone4",
    .models = "EXAONE 4",
    .size = sizeof(struct decoder),
    .read = exaone4_read,
    .build = decoder_build,
    .hf = {.types = exaone4_types, .modules = decoder_norms_behind},
};
