/* jina-bert-v2.c: Jina Embeddings 2: BERT with ALiBi to both sides instead of positions, and a gate.
 * Models for code also have norms of queries and keys, and a second norm after attention. arXiv
 * 2310.19923. */
#include <string.h>

#include "arch/encoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void jina_bert_v2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    encoder_read(h, d, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    d->alibi_bias = 8; /* files don't say */
    for (uint32_t i = 0; i < d->n_layers; i++) d->layers[i].rope = NULL;
    *info = encoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static bool jina_bert_v2_applies(const struct hf_config *config)
{
    const char *positions = json_string_value(hf_get(config->json, "position_embedding_type"));
    return positions && strcmp(positions, "alibi") == 0;
}

static void jina_bert_v2_read_config(struct hf_config *config)
{
    const char *type = hf_text(config, config->json, "feed_forward_type");
    hf_refuse(config, !type || strcmp(type, "geglu") != 0, "a feed_forward_type but geglu");
    hf_refuse(config, hf_flag(config, config->json, "is_decoder", false), "an encoder as a decoder");
    encoder_read_config(config, 2);
}

static const struct hf_form jina_bert_v2_forms[] = {
    {.tensor = "ffn_gate_up", .kind = FORM_HALVES, .outputs = {"ffn_gate", "ffn_up"}},
    {.tensor = "ffn_up_gate", .kind = FORM_HALVES, .outputs = {"ffn_up", "ffn_gate"}},
    {0},
};

static const struct hf_type jina_bert_v2_types[] = {
    {.name = "bert",
     .applies = jina_bert_v2_applies,
     .when = "with `position_embedding_type: alibi`",
     .keys = {.kv_heads = HF_UNREAD, .head_dim = HF_UNREAD},
     .width = 768,
     .layers = 12,
     .heads = 12,
     .ff = 3072,
     .context = 512,
     .epsilon = 1e-12,
     .activation = "gelu",
     .has_no_rope = true,
     .read = jina_bert_v2_read_config},
    {0},
};

const struct architecture arch_jina_bert_v2 = {
    .name = "jina-bert-v2",
    .models = "Jina Embeddings 2, also for code",
    .kind = ARCH_ENCODER,
    .size = sizeof(struct decoder),
    .read = jina_bert_v2_read,
    .build = encoder_build,
    .hf = {.types = jina_bert_v2_types,
           .modules = encoder_modules,
           .outer = encoder_outer,
           .forms = jina_bert_v2_forms,
           .has_layer_norms = true},
};
