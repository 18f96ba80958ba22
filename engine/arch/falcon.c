/* falcon.c: Falcon: attention and feed-forward network read the same x. The 7B model has one norm for both,
 * the 40B model another for attention. Almazrouei et al., arXiv 2311.16867. */
#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void falcon_build(struct graph *g, const void *hparams)
{
    const struct decoder *d = hparams;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *f = decoder_norm(g, d, "attn_norm", x);
        struct value *a = decoder_has_weight(g, "attn_norm_2") ? decoder_norm(g, d, "attn_norm_2", x) : f;
        x = decoder_parallel_layer(g, d, x, a, f);
    }
    decoder_build_logits(g, d, x);
}

static void falcon_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void falcon_read_config(struct hf_config *config)
{
    bool is_new = hf_flag(config, config->json, "new_decoder_architecture", false);
    bool one_head = hf_flag(config, config->json, "multi_query", true);
    hf_put_text(config, "tensor_data_layout", "jploski"); /* all queries, then all keys, then all values */
    config->n_kv_heads = is_new     ? hf_count(config, config->json, "num_kv_heads", config->n_heads)
                         : one_head ? 1
                                    : config->n_heads;
    hf_refuse(config, hf_flag(config, config->json, "alibi", false), "Falcon with ALiBi");
    hf_refuse(config, !is_new && !hf_flag(config, config->json, "parallel_attn", true),
              "Falcon without parallel attention");
}

static const struct hf_type falcon_types[] = {
    {.name = "falcon",
     .keys = {.width = "n_embed|hidden_size",
              .kv_heads = HF_UNREAD,
              .head_dim = HF_UNREAD,
              .ff = "ffn_hidden_size",
              .epsilon = "layer_norm_epsilon",
              .activation = "activation"},
     .width = 4544,
     .layers = 32,
     .heads = 71,
     .context = 2048,
     .epsilon = 1e-5,
     .activation = "gelu",
     .is_tied = true,
     .options = {{"bias", false, HF_ATTENTION "|" HF_MLP}},
     .read = falcon_read_config},
    {0},
};

const struct architecture arch_falcon = {
    .name = "falcon",
    .models = "Falcon 7B, 40B",
    .size = sizeof(struct decoder),
    .read = falcon_read,
    .build = falcon_build,
    .hf = {.types = falcon_types, .modules = gptneox_modules, .groups_qkv = true, .has_layer_norms = true},
    .quantize = {.as_falcon = true},
};
