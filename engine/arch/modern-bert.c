/* modern-bert.c: ModernBERT (arXiv 2412.13663): norms before the blocks, rope, a gate. Two of three layers
 * see only half of attention.sliding_window to either side, and have a rope base of their own. */
#include <string.h>

#include "arch/encoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

struct modern_bert {
    struct decoder decoder;
    struct rope local; /* of the layers with a window */
};

static void modern_bert_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct modern_bert *bert = hparams;
    struct decoder *d = &bert->decoder;
    encoder_read(h, d, ENGINE_ROPE_HALVES);
    if (hparams_has(h, "attention.layer_norm_rms_epsilon")) /* so llama.cpp's converter writes it */
        d->epsilon = hparams_float_from_0(h, "attention.layer_norm_rms_epsilon", d->epsilon);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_ERF);
    decoder_read_windows(h, d, 3, true);
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (d->layers[i].window > 0) d->layers[i].window = d->layers[i].window / 2 + 1;
    decoder_local_rope(h, d, &bert->local, hparams_float_above_0(h, "rope.freq_base_swa", 10000));
    *info = encoder_info(d);
}

/* The first layer has no norm before its attention: the embedding has one. */
static void modern_bert_build(struct graph *g, const void *hparams)
{
    const struct decoder *d = hparams;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *n = g->layer > 0 ? decoder_norm(g, d, "attn_norm", x) : x;
        x = graph_add(g, x, decoder_attention(g, d, n));
        x = graph_add(g, x, decoder_feed_forward(g, d, decoder_norm(g, d, "ffn_norm", x)));
        x = decoder_layer_end(g, d, x);
    }
    g->layer = NO_LAYER;
    encoder_build_states(g, d, decoder_norm(g, d, "output_norm", x));
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void modern_bert_read_config(struct hf_config *config)
{
    encoder_read_config(config, 2);
}

static void modern_bert_read_classifier(struct hf_config *config)
{
    const char *pooling = hf_text(config, config->root, "classifier_pooling");
    const char *activation = hf_text(config, config->root, "classifier_activation");
    bool is_mean = pooling && strcmp(pooling, "mean") == 0;
    if (pooling && !is_mean && strcmp(pooling, "cls") != 0)
        hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "classifier_pooling '%.64s' is not supported", pooling);
    hf_put_count(config, "engine.classifier.pooling", is_mean ? 1 : 2);
    hf_put_text(config, "engine.classifier.activation", activation ? activation : "gelu");
}

static const struct hf_module modern_bert_modules[] = {
    {"attn.Wqkv", "attn_qkv"},
    {"attn.Wo", "attn_output"},
    {"mlp.Wi", "ffn_up"},
    {"mlp.Wo", "ffn_down"},
    {"mlp_norm", "ffn_norm"},
    {"attn_norm", "attn_norm"},
    {0},
};

static const struct hf_module modern_bert_outer[] = {
    {"embeddings.norm", "token_embd_norm"},
    {"final_norm", "output_norm"},
    {"head.dense", "cls"},
    {"head.norm", "cls.norm"},
    {"classifier", "cls.output"},
    {0},
};

static const struct hf_type modern_bert_types[] = {
    {.name = "modernbert",
     .keys = {.kv_heads = HF_UNREAD,
              .head_dim = HF_UNREAD,
              .epsilon = "norm_eps",
              .activation = "hidden_activation",
              .theta = "global_rope_theta",
              .part = HF_UNREAD,
              .local_theta = "local_rope_theta",
              .window = "local_attention",
              .window_period = "global_attn_every_n_layers",
              .layer_types = "layer_types"},
     .width = 768,
     .layers = 22,
     .heads = 12,
     .ff = 1152,
     .context = 8192,
     .epsilon = 1e-5,
     .activation = "gelu",
     .theta = 1.6e5,
     .local_theta = 1e4,
     .scales_local = true,
     .windows = HF_WINDOWS_FIRST,
     .window = 128,
     .window_period = 3,
     .options = {HF_ATTENTION_BIAS, HF_MLP_BIAS},
     .read = modern_bert_read_config,
     .read_classifier = modern_bert_read_classifier},
    {0},
};

const struct architecture arch_modern_bert = {
    .name = "modern-bert",
    .models = "ModernBERT",
    .kind = ARCH_ENCODER,
    .size = sizeof(struct modern_bert),
    .read = modern_bert_read,
    .build = modern_bert_build,
    .hf = {.types = modern_bert_types,
           .modules = modern_bert_modules,
           .outer = modern_bert_outer,
           .has_layer_norms = true},
    .classifier = {.activation = "gelu", .takes_mean = true},
    .tokenizer = {.strip_left = "[MASK]", .names = {"modern-bert"}},
};
