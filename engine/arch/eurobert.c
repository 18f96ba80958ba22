/* eurobert.c: EuroBERT (arXiv 2503.05500): Llama as an encoder. */
#include <string.h>

#include "arch/encoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void eurobert_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->both_ways = true;
    if (hparams_flag(h, "attention.causal", false))
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "an encoder with causal attention is not supported");
    *info = encoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void eurobert_read_config(struct hf_config *config)
{
    hf_put_flag(config, "attention.causal", false);
}

/* Its head is dense, GELU, classifier; by "late", the usual, over all tokens, whose labels are averaged. */
static void eurobert_read_classifier(struct hf_config *config)
{
    const char *pooling = hf_text(config, config->root, "classifier_pooling|clf_pooling");
    bool is_mean = pooling && strcmp(pooling, "mean") == 0;
    if (!is_mean && (!pooling || strcmp(pooling, "bos") != 0))
        hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "classifier_pooling '%.64s' is not supported",
                pooling ? pooling : "late");
    hf_put_count(config, "engine.classifier.pooling", is_mean ? 1 : 2);
    hf_put_text(config, "engine.classifier.activation", "gelu");
}

static const struct hf_module eurobert_outer[] = {
    {"dense", "cls"},
    {"classifier", "cls.output"},
    {0},
};

/* The head for hidden words. */
static const char *const eurobert_left_out[] = {"lm_head.", NULL};

static const struct hf_type eurobert_types[] = {
    {.name = "eurobert",
     .width = 768,
     .layers = 12,
     .heads = 12,
     .ff = 3072,
     .context = 8192,
     .epsilon = 1e-5,
     .theta = 2.5e5,
     .options = {HF_ATTENTION_BIAS, HF_MLP_BIAS},
     .read = eurobert_read_config,
     .read_classifier = eurobert_read_classifier},
    {0},
};

const struct architecture arch_eurobert = {
    .name = "eurobert",
    .models = "EuroBERT",
    .kind = ARCH_ENCODER,
    .size = sizeof(struct decoder),
    .read = eurobert_read,
    .build = encoder_build_as_decoder,
    .hf = {.types = eurobert_types,
           .outer = eurobert_outer,
           .left_out = eurobert_left_out,
           .writes_no_scaling = true},
};
