/* t5.c: T5 (arXiv 1910.10683): T5 1.0 and 1.1, Flan-T5, mT5, UMT5: an encoder that reads a source text, and a decoder
 * that attends to what it leaves; and the encoder alone (t5encoder). Attention has no scale and no positions but a
 * bias for each distance, which the first layer's table gives for all layers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/encoder.h"
#include "arch/families.h"
#include "base/error.h"

#define MAX_DISTANCE 65536

struct t5 {
    struct decoder decoder; /* its layers are the encoder's, then the decoder's */
    uint32_t n_encoder;     /* layers; the rest of n_layers is the decoder's */
    uint32_t n_buckets;     /* of distances */
    uint32_t max_distance;  /* from which on all share a bucket */
};

/* ---- Reading ------------------------------------------------------------------------------------------- */

static void read_distances(struct hparams *h, struct t5 *t5)
{
    t5->n_buckets = hparams_count(h, "attention.relative_buckets_count", 32);
    t5->max_distance = hparams_count(h, "attention.relative_max_distance", 128);
    bool fits = t5->n_buckets >= 4 && t5->n_buckets % 2 == 0 && t5->max_distance > t5->n_buckets / 2 &&
                t5->max_distance <= MAX_DISTANCE;
    if (!fits)
        hparams_fail(h, ENGINE_ERROR_DATA, "%u buckets for distances up to %u", t5->n_buckets,
                     t5->max_distance);
}

/* Files do not say which activation. With a gate (1.1 and all later ones) it is GELU, without one ReLU. */
static bool read_common(struct hparams *h, struct t5 *t5)
{
    struct decoder *d = &t5->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    bool gated = model_tensor_find(h->model, "enc.blk.0.ffn_gate.weight") != NULL;
    d->activation = decoder_read_activation(h, gated ? ENGINE_ACTIVATION_GELU_TANH : ENGINE_ACTIVATION_RELU);
    d->attention_scale = 1;
    if (d->value_dim != d->head_dim)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "values of %u for keys of %u are not supported",
                     d->value_dim, d->head_dim);
    t5->n_encoder = d->n_layers;
    for (uint32_t i = 0; i < d->n_layers; i++) {
        d->layers[i].rope = NULL;
        d->layers[i].is_mixture = false;
    }
    read_distances(h, t5);
    return gated;
}

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct t5 *t5 = hparams;
    struct decoder *d = &t5->decoder;
    bool gated = read_common(h, t5);
    uint32_t n_decoder = hparams_count(h, "decoder_block_count", d->n_layers);
    if (n_decoder == 0 || n_decoder > MAX_LAYERS - d->n_layers) {
        hparams_fail(h, ENGINE_ERROR_DATA, "decoder_block_count %u: must be 1 to %u", n_decoder,
                     MAX_LAYERS - d->n_layers);
        n_decoder = 0;
    }
    for (uint32_t i = 0; i < n_decoder && d->n_layers > 0; i++)
        d->layers[t5->n_encoder + i] = d->layers[i < t5->n_encoder ? i : t5->n_encoder - 1];
    d->n_layers += n_decoder;
    /* T5 1.0 shares a matrix between embedding and logits, and scales its input. Files do not say so. */
    d->logit_scale = hparams_float_above_0(h, "logit_scale", gated ? 1 : 1 / sqrtf((float)d->n_embd));
    *info = decoder_info(d);
    info->has_source = true;
    info->start_token = (int32_t)hparams_count(h, "decoder_start_token_id", 0);
    if ((uint32_t)info->start_token >= d->n_vocab)
        hparams_fail(h, ENGINE_ERROR_DATA, "decoder_start_token_id %d is not a token", info->start_token);
}

static void read_encoder(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct t5 *t5 = hparams;
    read_common(h, t5);
    t5->decoder.both_ways = true;
    *info = encoder_info(&t5->decoder);
}

/* ---- Attention ----------------------------------------------------------------------------------------- */

/* The bucket of a position `distance` after the token's own, in float32 as in transformers: half of them for single
 * distances, the others for ranges that grow. With both_ways, the second half of all is for positions after it. */
static uint32_t bucket_of(const struct t5 *t5, int64_t distance, bool both_ways)
{
    uint32_t n = both_ways ? t5->n_buckets / 2 : t5->n_buckets, exact = n / 2;
    uint32_t first = both_ways && distance > 0 ? n : 0;
    uint32_t far = distance < 0 || both_ways ? (uint32_t)llabs(distance) : 0;
    if (far < exact) return first + far;
    float range = (float)log((double)t5->max_distance / exact);
    float at = logf((float)far / (float)exact) / range * (float)(n - exact);
    uint32_t bucket = exact + (uint32_t)at;
    return first + (bucket < n ? bucket : n - 1);
}

/* The biases of this layer by distance, from its own table (UMT5) or from that of the first layer. */
static struct value *distance_bias(struct graph *g, const struct t5 *t5, bool both_ways)
{
    char tensor[64], name[80];
    uint32_t n = 2 * t5->max_distance + 1, layer = g->layer - g->part_layer,
             n_heads = t5->decoder.layers[g->layer].n_heads;
    if (!decoder_has_weight(g, "attn_rel_b")) layer = 0;
    snprintf(tensor, sizeof tensor, "%sblk.%u.attn_rel_b.weight", g->part, layer);
    snprintf(name, sizeof name, "%s.by_distance", tensor);
    uint32_t *index = malloc(n * sizeof *index);
    if (!index) {
        g->status = error_memory("distance biases");
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) index[i] = bucket_of(t5, (int64_t)i - t5->max_distance, both_ways);
    struct value *biases = graph_values_by_index(g, n_heads, t5->n_buckets, tensor, index, n, name);
    free(index);
    return biases;
}

static struct value *heads_of(struct graph *g, const struct t5 *t5, const char *name, uint32_t n,
                              struct value *x)
{
    const struct decoder *d = &t5->decoder;
    struct value *y = decoder_linear(g, name, d->n_embd, (uint64_t)n * d->head_dim, x);
    return graph_reshape(g, y, d->head_dim, n, g->shape.n_tokens);
}

/* The caches of a layer's attention. */
struct caches {
    struct value *k, *v;
};

static struct caches add_caches(struct graph *g, const struct t5 *t5, enum graph_pool pool)
{
    const struct decoder_layer *layer = &t5->decoder.layers[g->layer];
    struct value *k = graph_pool_cache(g, t5->decoder.head_dim, layer->n_kv_heads, pool);
    return (struct caches){k, graph_pool_cache(g, t5->decoder.value_dim, layer->n_kv_heads, pool)};
}

/* Writes keys and values of x; `k`, `v`: the tensors' names. */
static void keep(struct graph *g, const struct t5 *t5, const struct caches *caches, const char *k,
                 const char *v, struct value *x)
{
    uint32_t n = t5->decoder.layers[g->layer].n_kv_heads;
    graph_cache_write(g, caches->k, heads_of(g, t5, k, n, x));
    graph_cache_write(g, caches->v, heads_of(g, t5, v, n, x));
}

/* Attends with queries of x; `q`, `o`: the tensors' names. */
static struct value *attend(struct graph *g, const struct t5 *t5, const struct caches *caches, const char *q,
                            const char *o, const struct attention_options *options, struct value *x)
{
    const struct decoder *d = &t5->decoder;
    uint64_t n_heads = d->layers[g->layer].n_heads, width = n_heads * d->value_dim;
    struct value *heads = heads_of(g, t5, q, (uint32_t)n_heads, x);
    struct value *out = graph_attention(g, heads, caches->k, caches->v, options);
    return decoder_linear(g, o, width, d->n_embd, graph_reshape(g, out, width, g->shape.n_tokens, 1));
}

/* ---- Layers -------------------------------------------------------------------------------------------- */

/* The attention of a layer's tokens to their own text, and the sum with x. */
static struct value *self_attention(struct graph *g, const struct t5 *t5, const struct caches *caches,
                                    bool both_ways, struct value *x)
{
    const struct attention_options options = {
        .scale = 1, .both_ways = both_ways, .distance_bias = distance_bias(g, t5, both_ways)};
    struct value *normed = decoder_norm(g, &t5->decoder, "attn_norm", x);
    keep(g, t5, caches, "attn_k", "attn_v", normed);
    return graph_add(g, x, attend(g, t5, caches, "attn_q", "attn_o", &options, normed));
}

static struct value *feed_forward(struct graph *g, const struct t5 *t5, struct value *x)
{
    const struct decoder *d = &t5->decoder;
    return graph_add(g, x, decoder_feed_forward(g, d, decoder_norm(g, d, "ffn_norm", x)));
}

/* The states of the encoder. */
static struct value *encode(struct graph *g, const struct t5 *t5, enum graph_pool pool, struct value *x)
{
    const struct decoder *d = &t5->decoder;
    g->part = "enc.";
    g->part_layer = 0;
    for (g->layer = 0; g->layer < t5->n_encoder; g->layer++) {
        const struct caches caches = add_caches(g, t5, pool);
        x = feed_forward(g, t5, self_attention(g, t5, &caches, true, x));
        if (d->both_ways) x = decoder_layer_end(g, d, x);
    }
    g->layer = NO_LAYER;
    return decoder_norm(g, d, "enc.output_norm", x);
}

/* The decoder's layers for x. What `source`, the encoder's states, leaves for them is computed by the encoder's
 * graph. */
static struct value *decode(struct graph *g, const struct t5 *t5, struct value *source, struct value *x)
{
    const struct decoder *d = &t5->decoder;
    const struct attention_options across = {.scale = 1};
    bool encodes = g->shape.encodes;
    g->part = "dec.";
    g->part_layer = t5->n_encoder;
    for (g->layer = t5->n_encoder; g->layer < d->n_layers; g->layer++) {
        const struct caches own = add_caches(g, t5, POOL_SEQUENCES), others = add_caches(g, t5, POOL_SOURCE);
        g->is_other = !encodes;
        keep(g, t5, &others, "cross_attn_k", "cross_attn_v", source);
        g->is_other = encodes;
        x = self_attention(g, t5, &own, false, x);
        struct value *normed = decoder_norm(g, d, "cross_attn_norm", x);
        x = graph_add(g, x, attend(g, t5, &others, "cross_attn_q", "cross_attn_o", &across, normed));
        x = feed_forward(g, t5, decoder_layer_output(g, d, x));
    }
    g->layer = NO_LAYER;
    return decoder_norm(g, d, "dec.output_norm", x);
}

static void build(struct graph *g, const void *hparams)
{
    const struct t5 *t5 = hparams;
    const struct decoder *d = &t5->decoder;
    struct value *x = decoder_embed(g, d); /* of the source, or of the decoder's text */
    g->is_other = !g->shape.encodes;
    struct value *source = encode(g, t5, POOL_TEXT, x);
    struct value *states = decode(g, t5, source, x);
    struct value *output = graph_weight_optional(g, d->n_embd, d->n_vocab, "output.weight");
    if (!output) output = graph_weight(g, d->n_embd, d->n_vocab, "token_embd.weight");
    struct value *logits = graph_scale(g, graph_matmul(g, output, states), d->logit_scale);
    if (!g->shape.encodes) g->logits = logits;
}

static void build_encoder(struct graph *g, const void *hparams)
{
    const struct t5 *t5 = hparams;
    encoder_build_states(g, &t5->decoder, encode(g, t5, POOL_SEQUENCES, decoder_embed(g, &t5->decoder)));
}

const struct architecture arch_t5 = {"t5", sizeof(struct t5), read, build};
const struct architecture arch_t5encoder = {"t5encoder", sizeof(struct t5), read_encoder, build_encoder};
