/* apertus.c: Apertus: Llama with norms of queries and keys, and a feed-forward network without a gate whose
 * activation, xIELU (arXiv 2411.13010), has numbers of its own in each layer. */
#include <math.h>
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

#define XIELU_LIMIT 1e-6f /* the published code's */

struct apertus {
    struct decoder decoder;
    struct curve_options xielu[MAX_LAYERS];
};

static float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

static void apertus_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct apertus *m = hparams;
    struct decoder *d = &m->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    for (uint32_t i = 0; i < d->n_layers; i++) {
        m->xielu[i].limit = XIELU_LIMIT;
        m->xielu[i].beta = hparams_layer_number(h, "xielu.beta", i, d->n_layers);
        m->xielu[i].alpha = softplus(hparams_layer_number(h, "xielu.alpha_p", i, d->n_layers));
        m->xielu[i].gamma =
            m->xielu[i].beta + softplus(hparams_layer_number(h, "xielu.alpha_n", i, d->n_layers));
    }
    *info = decoder_info(d);
}

static void apertus_build(struct graph *g, const void *hparams)
{
    const struct apertus *m = hparams;
    const struct decoder *d = &m->decoder;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        uint32_t n_ff = d->layers[g->layer].n_ff;
        struct value *heads = decoder_attention(g, d, decoder_norm(g, d, "attn_norm", x));
        x = graph_add(g, decoder_layer_output(g, d, x), heads);
        struct value *f = decoder_linear(g, "ffn_up", d->n_embd, n_ff, decoder_norm(g, d, "ffn_norm", x));
        f = graph_activate_curve(g, f, NULL, ENGINE_ACTIVATION_XIELU, &m->xielu[g->layer]);
        x = graph_add(g, x, decoder_linear(g, "ffn_down", n_ff, d->n_embd, f));
        x = decoder_layer_end(g, d, x);
    }
    decoder_build_logits(g, d, x);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void apertus_read_config(struct hf_config *config)
{
    const char *activation = hf_text(config, config->json, "hidden_act");
    hf_refuse(config, activation && strcmp(activation, "xielu") != 0, "a hidden_act but xielu");
}

static const struct hf_module apertus_modules[] = {
    {"attention_layernorm", "attn_norm"},
    {"feedforward_layernorm", "ffn_norm"},
    {0},
};

static const struct hf_module apertus_layer_numbers[] = {
    {"mlp.act_fn.alpha_n", "xielu.alpha_n"},
    {"mlp.act_fn.alpha_p", "xielu.alpha_p"},
    {"mlp.act_fn.beta", "xielu.beta"},
    {"mlp.act_fn.eps", "xielu.eps"},
    {0},
};

static const struct hf_type apertus_types[] = {
    {.name = "apertus",
     .keys = {.activation = HF_UNREAD},
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 14336,
     .context = 65536,
     .epsilon = 1e-5,
     .activation = "",
     .theta = 1.2e7,
     .rope = "{\"rope_type\": \"llama3\", \"rope_theta\": 12000000.0, \"factor\": 8.0, "
             "\"original_max_position_embeddings\": 8192, \"low_freq_factor\": 1.0, "
             "\"high_freq_factor\": 4.0}",
     .options = {HF_ATTENTION_BIAS},
     .read = apertus_read_config},
    {0},
};

const struct architecture arch_apertus = {
    .name = "apertus",
    .models = "Apertus",
    .size = sizeof(struct apertus),
    .read = apertus_read,
    .build = apertus_build,
    .hf = {.types = apertus_types, .modules = apertus_modules, .layer_numbers = apertus_layer_numbers},
};
