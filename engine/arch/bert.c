/* bert.c: BERT (arXiv 1810.04805), and what has its graph: RoBERTa, XLM-RoBERTa, DistilBERT. Learnt
 * positions, norms after each sum. */
#include <string.h>

#include "arch/encoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void bert_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    encoder_read(h, d, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL;
    if (d->n_positions == 0) hparams_fail(h, ENGINE_ERROR_DATA, "the tensor position_embd.weight is missing");
    *info = encoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* Learnt positions and whole texts are all that the graph has. */
static void bert_read_types(struct hf_config *config, uint32_t n_types)
{
    const char *positions = hf_text(config, config->json, "position_embedding_type");
    /* Until transformers 4; other words mean nothing. */
    hf_refuse(config, positions && strncmp(positions, "relative_key", 12) == 0,
              "a position_embedding_type with relative keys");
    hf_refuse(config, hf_flag(config, config->json, "is_decoder", false), "an encoder as a decoder");
    encoder_read_config(config, n_types);
}

static void bert_read_config(struct hf_config *config)
{
    bert_read_types(config, 2);
}

static void distilbert_read_config(struct hf_config *config)
{
    bert_read_types(config, 1);
}

static void distilbert_read_classifier(struct hf_config *config)
{
    hf_put_text(config, "engine.classifier.activation", "relu");
}

/* RoBERTa's head for hidden words. */
static const char *const bert_left_out[] = {"lm_head.", NULL};

#define BERT_TYPE                                                                                            \
    .keys = {.kv_heads = HF_UNREAD, .head_dim = HF_UNREAD}, .width = 768, .layers = 12, .heads = 12,         \
    .ff = 3072, .context = 512, .epsilon = 1e-12, .activation = "gelu", .has_no_rope = true

static const struct hf_type bert_types[] = {
    {.name = "bert", BERT_TYPE, .read = bert_read_config, .has_pooler = true},
    {.name = "roberta", BERT_TYPE, .read = bert_read_config, .positions_follow_padding = true},
    {.name = "xlm-roberta", BERT_TYPE, .read = bert_read_config, .positions_follow_padding = true},
    {.name = "camembert", BERT_TYPE, .read = bert_read_config, .positions_follow_padding = true},
    {.name = "distilbert",
     .keys = {.width = "hidden_size|dim",
              .layers = "num_hidden_layers|n_layers",
              .heads = "num_attention_heads|n_heads",
              .kv_heads = HF_UNREAD,
              .head_dim = HF_UNREAD,
              .ff = "hidden_dim",
              .epsilon = HF_UNREAD,
              .activation = "activation"},
     .width = 768,
     .layers = 6,
     .heads = 12,
     .ff = 3072,
     .context = 512,
     .epsilon = 1e-12,
     .activation = "gelu",
     .has_no_rope = true,
     .read = distilbert_read_config,
     .read_classifier = distilbert_read_classifier},
    {0},
};

const struct architecture arch_bert = {
    .name = "bert",
    .models = "BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT, and models built on them, such as BGE, E5 "
              "and MiniLM",
    .kind = ARCH_ENCODER,
    .size = sizeof(struct decoder),
    .read = bert_read,
    .build = encoder_build,
    .hf = {.types = bert_types,
           .modules = encoder_modules,
           .outer = encoder_outer,
           .left_out = bert_left_out,
           .has_layer_norms = true},
    .parts_pairs_twice = true,
};
