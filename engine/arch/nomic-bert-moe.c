/* nomic-bert-moe.c: Nomic Embed 2: BERT with rope. Every moe_every_n_layers-th layer has a mixture of
 * experts without gates. arXiv 2502.07972. */
#include "arch/encoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void nomic_bert_moe_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    encoder_read(h, d, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    d->experts.activation = d->activation;
    d->experts.has_no_gates = true;
    experts_read_router(h, d, ENGINE_ROUTE_SOFTMAX, false);
    uint32_t step = hparams_count_required(h, "moe_every_n_layers");
    if (!h->status && d->experts.n == 0)
        hparams_fail(h, ENGINE_ERROR_DATA, "expert_count is missing from the metadata, or 0");
    for (uint32_t i = 0; i < d->n_layers && !h->status; i++) d->layers[i].is_mixture = i % step == 1 % step;
    *info = encoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static bool nomic_bert_moe_applies(const struct hf_config *config)
{
    return json_number_value(hf_get(config->json, "num_experts")) > 0;
}

static void nomic_bert_moe_read_config(struct hf_config *config)
{
    config->n_experts = hf_count(config, config->json, "num_experts", 8);
    hf_refuse(config, hf_flag(config, config->json, "moe_normalize_expert_weights", false),
              "moe_normalize_expert_weights");
    hf_refuse(config, hf_count(config, config->json, "num_shared_experts", 0) > 0, "num_shared_experts");
    nomic_bert_read_config(config);
}

static const struct hf_key nomic_bert_moe_numbers[] = {
    {"num_experts", "expert_count", HF_COUNT, 8},
    {"moe_top_k", "expert_used_count", HF_COUNT, 2},
    {"moe_every_n_layers", "moe_every_n_layers", HF_COUNT, 2},
    {0},
};

static const struct hf_form nomic_bert_moe_forms[] = {
    {.tensor = "ffn_up_exps", .kind = FORM_EXPERTS},
    {.tensor = "ffn_down_exps", .kind = FORM_EXPERTS, .is_transposed = true},
    {0},
};

static const struct hf_type nomic_bert_moe_types[] = {
    {.name = "nomic_bert",
     .applies = nomic_bert_moe_applies,
     .when = "with `num_experts`",
     .keys = {.width = "hidden_size|n_embd",
              .layers = "num_hidden_layers|n_layer",
              .heads = "num_attention_heads|n_head",
              .kv_heads = HF_UNREAD,
              .ff = "intermediate_size|n_inner",
              .context = "max_trained_positions|max_position_embeddings|n_positions",
              .epsilon = "layer_norm_eps|layer_norm_epsilon",
              .activation = "hidden_act|activation_function",
              .theta = "rope_theta|rotary_emb_base",
              .part = "rotary_emb_fraction"},
     .width = 768,
     .layers = 12,
     .heads = 12,
     .ff = 3072,
     .context = 2048,
     .epsilon = 1e-12,
     .activation = "gelu",
     .theta = 1e3,
     .keeps_rotary = true,
     .numbers = nomic_bert_moe_numbers,
     .read = nomic_bert_moe_read_config},
    {0},
};

const struct architecture arch_nomic_bert_moe = {
    .name = "nomic-bert-moe",
    .models = "Nomic Embed 2, a mixture of experts",
    .kind = ARCH_ENCODER,
    .size = sizeof(struct decoder),
    .read = nomic_bert_moe_read,
    .build = encoder_build,
    .hf = {.types = nomic_bert_moe_types,
           .modules = nomic_bert_modules,
           .outer = encoder_outer,
           .forms = nomic_bert_moe_forms,
           .has_layer_norms = true},
    .tokenizer = {.strip_left = "<mask>"},
};
