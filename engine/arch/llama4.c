/* llama4.c: Llama 4 (Scout, Maverick): three of four layers have rope and attend within chunks of 8192
 * tokens, with norms on heads in Scout; the fourth has neither, attends to everything, and scales its queries
 * with the position. Mixtures of experts that route each token to one expert, its input weighted by a
 * sigmoid, besides a shared one. */
#include <math.h>

#include "arch/decoder.h"
#include "arch/families.h"

#define FULL_PERIOD 4
#define CHUNK       8192
#define SCALE_FLOOR 8192
#define N_MAVERICK  128 /* experts */
#define N_SCOUT     16

struct llama4 {
    struct decoder decoder;
    bool norms_heads;    /* in the layers with rope */
    uint32_t n_unscaled; /* queries are scaled from this position on */
    float scale;         /* how much: 0: not at all */
};

/* The factor of queries in the layers without rope. */
static float query_scale(const void *hparams, uint32_t position)
{
    const struct llama4 *model = hparams;
    return (float)(1 + (double)model->scale * log1p(floor((position + 1.0) / model->n_unscaled)));
}

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct llama4 *model = hparams;
    struct decoder *d = &model->decoder;
    struct experts *e = &d->experts;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, false);
    e->weigh_input = true;
    e->n_ff_shared = e->n_ff;
    if (e->n > 0 && e->n_used != 1)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "%u experts per token are not supported, only 1",
                     e->n_used);

    /* Files don't say whether heads are normed: all models but Maverick norm them. */
    bool says = hparams_has(h, "attention.normed_heads");
    model->norms_heads = hparams_flag(h, "attention.normed_heads", e->n != N_MAVERICK);
    if (!says && e->n > 0 && e->n != N_MAVERICK && e->n != N_SCOUT)
        decoder_warn(
            h,
            "the file does not say whether queries and keys are normed; assuming that they are, as in Scout");
    /* A window of 0 marks models where all layers have rope and attend to everything (MobileLLM). */
    uint32_t chunk = hparams_count(h, "attention.sliding_window", CHUNK);
    bool listed = hparams_has(h, "rope.layers");
    for (uint32_t i = 0; i < d->n_layers && chunk > 0; i++) {
        bool full = listed ? !d->layers[i].rope : (i + 1) % FULL_PERIOD == 0;
        d->layers[i].chunk = full ? 0 : chunk;
        if (full) d->layers[i].rope = NULL;
    }
    model->n_unscaled = hparams_count(h, "attention.temperature_length", SCALE_FLOOR);
    model->scale = hparams_float_from_0(h, "attention.temperature_scale", 0.1f);
    if (model->n_unscaled == 0) hparams_fail(h, ENGINE_ERROR_DATA, "attention.temperature_length is 0");
    *info = decoder_info(d);
    if (chunk > 0) info->query_scale = query_scale;
}

static struct value *llama4_attention(struct graph *g, const struct llama4 *model, struct value *x)
{
    const struct decoder *d = &model->decoder;
    const struct decoder_layer *layer = &d->layers[g->layer];
    uint64_t width = (uint64_t)layer->n_heads * d->head_dim;
    struct heads h = decoder_attention_heads(g, d, x);
    if (layer->rope && model->norms_heads) {
        h.q = graph_norm(g, h.q, NULL, NULL, d->norm, d->epsilon);
        h.k = graph_norm(g, h.k, NULL, NULL, d->norm, d->epsilon);
    }
    if (!layer->rope && g->shape.n_context >= model->n_unscaled) { /* below that position it is 1 */
        h.q = graph_reshape(g, h.q, width, g->shape.n_tokens, 1);
        h.q = graph_mul(g, h.q, graph_input(g, INPUT_QUERY_SCALES));
        h.q = graph_reshape(g, h.q, d->head_dim, layer->n_heads, g->shape.n_tokens);
    }
    return decoder_linear(g, "attn_output", width, d->n_embd, decoder_attend(g, d, &h));
}

static void build(struct graph *g, const void *hparams)
{
    const struct llama4 *model = hparams;
    const struct decoder *d = &model->decoder;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *heads = llama4_attention(g, model, decoder_norm(g, d, "attn_norm", x));
        x = decoder_add_block(g, d, decoder_layer_output(g, d, x), heads);
        x = decoder_add_block(g, d, x,
                              decoder_feed_forward_or_mixture(g, d, decoder_norm(g, d, "ffn_norm", x)));
        x = decoder_layer_end(g, d, x);
    }
    decoder_build_logits(g, d, x);
}

const struct architecture arch_llama4 = {"llama4", sizeof(struct llama4), read, build};
