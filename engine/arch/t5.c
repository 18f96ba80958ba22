/* t5.c: T5 (arXiv 1910.10683): T5 1.0 and 1.1, Flan-T5, mT5, UMT5: an encoder that reads a source text,
 * and a decoder that attends to what it leaves; and the encoder alone (t5encoder). Attention has no scale
 * and no positions but a bias for each distance, which the first layer's table gives for all layers. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/encoder.h"
#include "arch/families.h"
#include "base/error.h"
#include "model/hf/config.h"
#include "model/hf/names.h"

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

static void t5_read(struct hparams *h, void *hparams, struct arch_info *info)
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

static void t5encoder_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct t5 *t5 = hparams;
    read_common(h, t5);
    t5->decoder.both_ways = true;
    *info = encoder_info(&t5->decoder);
}

/* ---- Attention ----------------------------------------------------------------------------------------- */

/* The bucket of a position `distance` after the token's own, in float32 as in transformers: half of them
 * for single distances, the others for ranges that grow. With both_ways, the second half of all is for
 * positions after it. */
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
static void t5_keep(struct graph *g, const struct t5 *t5, const struct caches *caches, const char *k,
                    const char *v, struct value *x)
{
    uint32_t n = t5->decoder.layers[g->layer].n_kv_heads;
    graph_cache_write(g, caches->k, heads_of(g, t5, k, n, x));
    graph_cache_write(g, caches->v, heads_of(g, t5, v, n, x));
}

/* Attends with queries of x; `q`, `o`: the tensors' names. */
static struct value *t5_attend(struct graph *g, const struct t5 *t5, const struct caches *caches,
                               const char *q, const char *o, const struct attention_options *options,
                               struct value *x)
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
    t5_keep(g, t5, caches, "attn_k", "attn_v", normed);
    return graph_add(g, x, t5_attend(g, t5, caches, "attn_q", "attn_o", &options, normed));
}

static struct value *feed_forward(struct graph *g, const struct t5 *t5, struct value *x)
{
    const struct decoder *d = &t5->decoder;
    return graph_add(g, x, decoder_feed_forward(g, d, decoder_norm(g, d, "ffn_norm", x)));
}

/* The states of the encoder. */
static struct value *t5_encode(struct graph *g, const struct t5 *t5, enum graph_pool pool, struct value *x)
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

/* The decoder's layers for x. What `source`, the encoder's states, leaves for them is computed by the
 * encoder's graph. */
static struct value *t5_decode(struct graph *g, const struct t5 *t5, struct value *source, struct value *x)
{
    const struct decoder *d = &t5->decoder;
    const struct attention_options across = {.scale = 1};
    bool encodes = g->shape.encodes;
    g->part = "dec.";
    g->part_layer = t5->n_encoder;
    for (g->layer = t5->n_encoder; g->layer < d->n_layers; g->layer++) {
        const struct caches own = add_caches(g, t5, POOL_SEQUENCES), others = add_caches(g, t5, POOL_SOURCE);
        g->is_other = !encodes;
        t5_keep(g, t5, &others, "cross_attn_k", "cross_attn_v", source);
        g->is_other = encodes;
        x = self_attention(g, t5, &own, false, x);
        struct value *normed = decoder_norm(g, d, "cross_attn_norm", x);
        x = graph_add(g, x, t5_attend(g, t5, &others, "cross_attn_q", "cross_attn_o", &across, normed));
        x = feed_forward(g, t5, decoder_layer_output(g, d, x));
    }
    g->layer = NO_LAYER;
    return decoder_norm(g, d, "dec.output_norm", x);
}

static void t5_build(struct graph *g, const void *hparams)
{
    const struct t5 *t5 = hparams;
    const struct decoder *d = &t5->decoder;
    struct value *x = decoder_embed(g, d); /* of the source, or of the decoder's text */
    g->is_other = !g->shape.encodes;
    struct value *source = t5_encode(g, t5, POOL_TEXT, x);
    struct value *states = t5_decode(g, t5, source, x);
    struct value *output = graph_weight_optional(g, d->n_embd, d->n_vocab, "output.weight");
    if (!output) output = graph_weight(g, d->n_embd, d->n_vocab, "token_embd.weight");
    struct value *logits = graph_scale(g, graph_matmul(g, output, states), d->logit_scale);
    if (!g->shape.encodes) g->logits = logits;
}

static void t5encoder_build(struct graph *g, const void *hparams)
{
    const struct t5 *t5 = hparams;
    encoder_build_states(g, &t5->decoder, t5_encode(g, t5, POOL_SEQUENCES, decoder_embed(g, &t5->decoder)));
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static const struct hf_module t5_modules[] = {
    {"layer.0.SelfAttention.q", "attn_q"},
    {"layer.0.SelfAttention.k", "attn_k"},
    {"layer.0.SelfAttention.v", "attn_v"},
    {"layer.0.SelfAttention.o", "attn_o"},
    {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"},
    {"layer.0.layer_norm", "attn_norm"},
    {"layer.1.EncDecAttention.q", "cross_attn_q"},
    {"layer.1.EncDecAttention.k", "cross_attn_k"},
    {"layer.1.EncDecAttention.v", "cross_attn_v"},
    {"layer.1.EncDecAttention.o", "cross_attn_o"},
    {"layer.2.layer_norm", "ffn_norm"},
    {"layer.#.DenseReluDense.wi", "ffn_up"},
    {"layer.#.DenseReluDense.wi_0", "ffn_gate"},
    {"layer.#.DenseReluDense.wi_1", "ffn_up"},
    {"layer.#.DenseReluDense.wo", "ffn_down"},
    {0},
};

/* Names of T5. Layers of two parts have numbers of their own, so `name` has none. */
static bool t5_name(const char *module, struct hf_name *name)
{
    bool encodes = strncmp(module, "encoder.", 8) == 0;
    *name = (struct hf_name){.layer = HF_NO_NUMBER, .expert = HF_NO_NUMBER};
    if (!encodes && strncmp(module, "decoder.", 8) != 0) {
        name->is_embedding = strcmp(module, "shared") == 0;
        bool is_known = name->is_embedding || strcmp(module, "lm_head") == 0;
        snprintf(name->tensor, sizeof name->tensor, "%s",
                 name->is_embedding ? "token_embd.weight" : "output.weight");
        return is_known;
    }
    const char *part = encodes ? "enc" : "dec", *block = module + 8;
    uint32_t sublayer;
    char *rest;
    if (strcmp(block, "final_layer_norm") == 0)
        return snprintf(name->tensor, sizeof name->tensor, "%s.output_norm.weight", part) > 0;
    if (strncmp(block, "block.", 6) != 0 || !isdigit((unsigned char)block[6])) return false;
    unsigned long long layer = strtoull(block + 6, &rest, 10);
    if (*rest != '.' || layer > INT32_MAX) return false;
    const char *tensor = hf_module_find(t5_modules, rest + 1, &sublayer);
    if (strcmp(rest + 1, "layer.1.layer_norm") == 0) tensor = encodes ? "ffn_norm" : "cross_attn_norm";
    if (!tensor) return false;
    snprintf(name->tensor, sizeof name->tensor, "%s.blk.%llu.%s.weight", part, layer, tensor);
    return true;
}

/* T5 1.0 scales what its output matrix, the embedding, reads. */
static void t5_read_decoder(struct hf_config *config, bool scales)
{
    const json_t *json = config->json;
    hf_put_count(config, "decoder_block_count",
                 hf_count(config, json, "num_decoder_layers", config->n_layers));
    hf_put_count(config, "decoder_start_token_id", hf_count(config, json, "decoder_start_token_id", 0));
    hf_put_float(config, "logit_scale", scales ? 1 / sqrt(config->n_embd) : 1);
}

/* Older files say that they scale by tie_word_embeddings alone, as those of UMT5 do. */
static void t5_read_config(struct hf_config *config)
{
    bool scales = hf_flag(config, config->json, "tie_word_embeddings", true);
    t5_read_decoder(config, hf_flag(config, config->json, "scale_decoder_outputs", scales));
}

static void mt5_read_config(struct hf_config *config)
{
    hf_flag(config, config->json, "tie_word_embeddings", true); /* refused if it is no flag */
    t5_read_decoder(config, false);
}

static void umt5_read_config(struct hf_config *config)
{
    t5_read_decoder(config, hf_flag(config, config->json, "tie_word_embeddings", true));
}

static bool t5encoder_applies(const struct hf_config *config)
{
    const char *class = json_string_value(json_array_get(hf_get(config->json, "architectures"), 0));
    return class && strstr(class, "EncoderModel");
}

static void t5encoder_read_config(struct hf_config *config)
{
    hf_put_flag(config, "attention.causal", false);
}

static const char *const t5_left_out[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", NULL};

static const struct hf_key t5_numbers[] = {
    {"relative_attention_num_buckets", "attention.relative_buckets_count", HF_COUNT, 32},
    {"relative_attention_max_distance", "attention.relative_max_distance", HF_COUNT, 128},
    {0},
};

/* T5's keys, and the defaults that all three types share. */
#define T5_TYPE                                                                                              \
    .keys = {.width = "hidden_size|d_model",                                                                 \
             .layers = "num_hidden_layers|num_layers",                                                       \
             .heads = "num_attention_heads|num_heads",                                                       \
             .kv_heads = HF_UNREAD,                                                                          \
             .head_dim = "head_dim|d_kv",                                                                    \
             .ff = "d_ff",                                                                                   \
             .context = "n_positions",                                                                       \
             .epsilon = "layer_norm_epsilon",                                                                \
             .activation = "feed_forward_proj"},                                                             \
    .head_dim = 64, .context = 512, .is_tied = true, .has_no_rope = true, .numbers = t5_numbers

static const struct hf_type t5_types[] = {
    {.name = "t5",
     T5_TYPE,
     .width = 512,
     .layers = 6,
     .heads = 8,
     .ff = 2048,
     .activation = "relu",
     .read = t5_read_config},
    {.name = "mt5",
     T5_TYPE,
     .width = 512,
     .layers = 8,
     .heads = 6,
     .ff = 1024,
     .activation = "gated-gelu",
     .read = mt5_read_config},
    {.name = "umt5",
     T5_TYPE,
     .width = 512,
     .layers = 8,
     .heads = 6,
     .ff = 1024,
     .activation = "gated-gelu",
     .read = umt5_read_config},
    {0},
};

static const struct hf_type t5encoder_types[] = {
    {.name = "t5",
     .applies = t5encoder_applies,
     .when = "of the encoder alone (`…EncoderModel`)",
     T5_TYPE,
     .width = 512,
     .layers = 6,
     .heads = 8,
     .ff = 2048,
     .activation = "relu",
     .read = t5encoder_read_config},
    {.name = "mt5",
     .applies = t5encoder_applies,
     .when = "of the encoder alone (`…EncoderModel`)",
     T5_TYPE,
     .width = 512,
     .layers = 8,
     .heads = 6,
     .ff = 1024,
     .activation = "gated-gelu",
     .read = t5encoder_read_config},
    {.name = "umt5",
     .applies = t5encoder_applies,
     .when = "of the encoder alone (`…EncoderModel`)",
     T5_TYPE,
     .width = 512,
     .layers = 8,
     .heads = 6,
     .ff = 1024,
     .activation = "gated-gelu",
     .read = t5encoder_read_config},
    {0},
};

static const struct arch_missing t5_missing[] = {
    {"activation and scale of logits",
     "with a gate GELU in its tanh form and no scale; without, as in T5 1.0, ReLU and 1 / sqrt(n_embd)", ""},
    {"distance from which on all share a bucket", "128, as in all published models", ""},
    {0},
};

const struct architecture arch_t5 = {
    .name = "t5",
    .models = "T5 1.0 and 1.1, Flan-T5, mT5, UMT5",
    .missing = t5_missing,
    .kind = ARCH_ENCODER_DECODER,
    .size = sizeof(struct t5),
    .read = t5_read,
    .build = t5_build,
    .hf = {.types = t5_types, .name = t5_name, .left_out = t5_left_out},
};

const struct architecture arch_t5encoder = {
    .name = "t5encoder",
    .models = "the encoder of T5 and its relatives alone",
    .kind = ARCH_ENCODER,
    .size = sizeof(struct t5),
    .read = t5encoder_read,
    .build = t5encoder_build,
    .hf = {.types = t5encoder_types, .name = t5_name, .left_out = t5_left_out},
};
