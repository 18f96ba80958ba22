/* gptneox.c: GPT-NeoX, Pythia, Dolly: attention and feed-forward network read the same x, each through its
 * own norm; in RedPajama-INCITE one follows the other. Black et al., arXiv 2204.06745. */
#include "arch/decoder.h"
#include "arch/families.h"

struct gptneox {
    struct decoder decoder;
    bool parallel;
};

static void gptneox_build(struct graph *g, const void *hparams)
{
    const struct gptneox *neox = hparams;
    const struct decoder *d = &neox->decoder;
    if (!neox->parallel) {
        decoder_build(g, d);
        return;
    }
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++)
        x = decoder_parallel_layer(g, d, x, decoder_norm(g, d, "attn_norm", x),
                                   decoder_norm(g, d, "ffn_norm", x));
    decoder_build_logits(g, d, x);
}

static void gptneox_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct gptneox *neox = hparams;
    struct decoder *d = &neox->decoder;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    /* No key says which GELU. Of the published models, only GPT-NeoX-20B uses the approximation. */
    bool is_20b = d->n_embd == 6144 && d->n_layers == 44;
    d->activation =
        decoder_read_activation(h, is_20b ? ENGINE_ACTIVATION_GELU_TANH : ENGINE_ACTIVATION_GELU_ERF);
    neox->parallel = hparams_flag(h, "use_parallel_residual", true);
    *info = decoder_info(d);
}

static const struct hf_key gptneox_numbers[] = {
    {"use_parallel_residual", "use_parallel_residual", HF_FLAG, 1},
    {0},
};

const struct hf_module gptneox_modules[] = {
    {"attention.query_key_value", "attn_qkv"},
    {"attention.dense", "attn_output"},
    {"self_attention.query_key_value", "attn_qkv"},
    {"self_attention.dense", "attn_output"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
    {"ln_attn", "attn_norm_2"},
    {"ln_mlp", "attn_norm"},
    {0},
};

static const struct hf_type gptneox_types[] = {
    {.name = "gpt_neox",
     .keys = {.kv_heads = HF_UNREAD, .theta = "rotary_emb_base", .part = "rotary_pct"},
     .width = 6144,
     .layers = 44,
     .heads = 64,
     .ff = 24576,
     .context = 2048,
     .epsilon = 1e-5,
     .activation = "gelu",
     .rotary = 0.25,
     .numbers = gptneox_numbers,
     .options = {{"attention_bias", true, HF_ATTENTION}}},
    {0},
};

static const struct arch_missing gptneox_missing[] = {
    {"kind of GELU", "only GPT-NeoX-20B has the tanh form", ""},
    {0},
};

const struct architecture arch_gptneox = {
    .name = "gptneox",
    .models = "GPT-NeoX, Pythia, Dolly, RedPajama-INCITE",
    .missing = gptneox_missing,
    .size = sizeof(struct gptneox),
    .read = gptneox_read,
    .build = gptneox_build,
    .hf = {.types = gptneox_types, .modules = gptneox_modules, .groups_qkv = true, .has_layer_norms = true},
};
