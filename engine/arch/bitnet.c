/* bitnet.c: BitNet b1.58: Llama with a norm before the last matrix of each block, and a gate of squared ReLU.
 * arXiv 2402.17764, 2504.12285. The matrices have three values, which files hold times their scale. The
 * published code also rounds the inputs of products to 8 bits; that is left out here, as in llama.cpp. */
#include "arch/decoder.h"
#include "arch/families.h"

/* Files seldom have hidden_act. The models before the published code's, of 24 and 26 layers, have SiLU. */
static uint32_t bitnet_assume_activation(const struct hparams *h, const struct decoder *d)
{
    if (d->n_layers == 24 || d->n_layers == 26) return ENGINE_ACTIVATION_SILU;
    if (d->n_layers != 30 && !hparams_has(h, "hidden_activation"))
        decoder_warn(h, "the file does not name the activation; assuming squared ReLU");
    return ENGINE_ACTIVATION_RELU_SQUARED;
}

static void bitnet_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, bitnet_assume_activation(h, d));
    *info = decoder_info(d);
}

static struct value *bitnet_attention(struct graph *g, const struct decoder *d, struct value *x)
{
    struct heads heads = decoder_attention_heads(g, d, x);
    uint64_t width = (uint64_t)d->layers[g->layer].n_heads * d->value_dim;
    x = decoder_norm(g, d, "attn_sub_norm", decoder_attend(g, d, &heads));
    return decoder_linear(g, "attn_output", width, d->n_embd, x);
}

static struct value *bitnet_feed_forward(struct graph *g, const struct decoder *d, struct value *x)
{
    uint32_t n_ff = d->layers[g->layer].n_ff;
    struct value *gate = decoder_linear(g, "ffn_gate", d->n_embd, n_ff, x);
    x = graph_activate(g, gate, decoder_linear(g, "ffn_up", d->n_embd, n_ff, x), d->activation);
    return decoder_linear(g, "ffn_down", n_ff, d->n_embd, decoder_norm(g, d, "ffn_sub_norm", x));
}

static void bitnet_build(struct graph *g, const void *hparams)
{
    const struct decoder *d = hparams;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *heads = bitnet_attention(g, d, decoder_norm(g, d, "attn_norm", x));
        x = graph_add(g, decoder_layer_output(g, d, x), heads);
        x = graph_add(g, x, bitnet_feed_forward(g, d, decoder_norm(g, d, "ffn_norm", x)));
        x = decoder_layer_end(g, d, x);
    }
    decoder_build_logits(g, d, x);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static const struct hf_module bitnet_modules[] = {
    {"self_attn.attn_sub_norm", "attn_sub_norm"},
    {"mlp.ffn_sub_norm", "ffn_sub_norm"},
    {0},
};

static const struct hf_type bitnet_types[] = {
    {.name = "bitnet",
     .width = 2560,
     .layers = 30,
     .heads = 20,
     .kv_heads = 5,
     .ff = 6912,
     .context = 2048,
     .epsilon = 1e-5,
     .activation = "relu2",
     .theta = 5e5,
     .options = {HF_ATTENTION_BIAS}},
    {0},
};

static const struct arch_missing bitnet_missing[] = {
    {"the activation (older files)", "the published models, recognised by their number of layers",
     "a warning; squared ReLU"},
    {0},
};

const struct architecture arch_bitnet = {
    .name = "bitnet",
    .models = "BitNet b1.58",
    .missing = bitnet_missing,
    .size = sizeof(struct decoder),
    .read = bitnet_read,
    .build = bitnet_build,
    .hf = {.types = bitnet_types, .modules = bitnet_modules},
};
