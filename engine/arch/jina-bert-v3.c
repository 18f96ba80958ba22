/* jina-bert-v3.c: Jina Embeddings 3 (arXiv 2409.10173): XLM-RoBERTa with rope instead of learnt positions.
 * Each task has an adapter of its own; without one, the model is the base of all. */
#include <string.h>

#include "arch/encoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void jina_bert_v3_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    encoder_read(h, d, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    *info = encoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static bool jina_bert_v3_applies(const struct hf_config *config)
{
    const char *positions = json_string_value(hf_get(config->json, "position_embedding_type"));
    return positions && strcmp(positions, "rotary") == 0;
}

static void jina_bert_v3_read_config(struct hf_config *config)
{
    hf_refuse(config, hf_flag(config, config->json, "is_decoder", false), "an encoder as a decoder");
    encoder_read_config(config, 1);
}

/* The names with parametrizations are those of the matrices that the first checkpoint stores with the
 * adapters of all tasks. */
#define JINA_MATRIX(name, tensor)                                                                            \
    {name, tensor},                                                                                          \
    {                                                                                                        \
        name ".parametrizations.weight.original", tensor                                                     \
    }
static const struct hf_module jina_bert_v3_modules[] = {
    JINA_MATRIX("mixer.Wqkv", "attn_qkv"),
    JINA_MATRIX("mixer.out_proj", "attn_output"),
    JINA_MATRIX("mlp.fc1", "ffn_up"),
    JINA_MATRIX("mlp.fc2", "ffn_down"),
    {"norm1", "attn_output_norm"},
    {"norm2", "layer_output_norm"},
    {0},
};

static const struct hf_module jina_bert_v3_outer[] = {
    JINA_MATRIX("word_embeddings", "token_embd"),
    JINA_MATRIX("token_type_embeddings", "token_types"),
    {"emb_ln", "token_embd_norm"},
    JINA_MATRIX("pooler.dense", "cls"),
    {"classifier.dense", "cls"},
    {"classifier.out_proj", "cls.output"},
    {0},
};

/* The head for hidden words. */
static const char *const jina_bert_v3_left_out[] = {"lm_head.", NULL};

#define JINA_TYPE                                                                                            \
    .keys = {.kv_heads = HF_UNREAD, .head_dim = HF_UNREAD, .theta = "rope_theta|rotary_emb_base"},           \
    .width = 1024, .layers = 24, .heads = 16, .ff = 4096, .context = 8194, .epsilon = 1e-5,                  \
    .activation = "gelu", .theta = 2e4, .read = jina_bert_v3_read_config

static const struct hf_type jina_bert_v3_types[] = {
    {.name = "jina_embeddings_v3", JINA_TYPE},
    {.name = "xlm-roberta",
     .applies = jina_bert_v3_applies,
     .when = "with `position_embedding_type: rotary`",
     JINA_TYPE},
    {0},
};

const struct architecture arch_jina_bert_v3 = {
    .name = "jina-bert-v3",
    .models = "Jina Embeddings 3",
    .kind = ARCH_ENCODER,
    .size = sizeof(struct decoder),
    .read = jina_bert_v3_read,
    .build = encoder_build,
    .hf = {.types = jina_bert_v3_types,
           .modules = jina_bert_v3_modules,
           .outer = jina_bert_v3_outer,
           .left_out = jina_bert_v3_left_out,
           .has_layer_norms = true},
    .tokenizer = {.strip_left = "<mask>"},
    .parts_pairs_twice = true,
};
