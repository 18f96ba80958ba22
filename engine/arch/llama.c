/* llama.c: LLaMA and what is built like it (Llama 1 to 3, Mistral, TinyLlama, …): pre-norm transformer with RMS norm,
 * rotary positions on adjacent pairs, grouped-query attention and a SiLU-gated feed-forward network.
 * Touvron et al., arXiv 2302.13971 and 2307.09288; tensor names and metadata as GGUF defines them. */
#include <math.h>
#include <string.h>

#include "arch/arch.h"
#include "base/error.h"

static int read_rope(const struct model *model, struct hparams *h)
{
    char scaling[32] = "none";
    float factor = 1;
    int status = arch_integer(model, "rope.dimension_count", h->head_dim, &h->rope_dims);
    if (!status) status = arch_float(model, "rope.freq_base", 10000, &h->rope_theta);
    if (!status) status = arch_float(model, "rope.scale_linear", 1, &factor); /* before rope.scaling.* */
    if (!status) status = arch_float(model, "rope.scaling.factor", factor, &factor);
    if (status) return status;
    bool named = arch_string(model, "rope.scaling.type", scaling, sizeof scaling);
    if (named && strcmp(scaling, "none") != 0 && strcmp(scaling, "linear") != 0)
        return fail(ENGINE_ERROR_UNSUPPORTED, "%s: rope scaling '%s' is not supported (known: none, linear)",
                    model_path(model), scaling);
    if (named && strcmp(scaling, "none") == 0) factor = 1;
    h->rope_position_scale = 1 / factor;
    if (!(factor > 0) || !isfinite(h->rope_position_scale))
        return fail(ENGINE_ERROR_DATA, "%s: a rope scaling factor of %g", model_path(model), (double)factor);
    if (h->rope_dims == 0 || h->rope_dims % 2 != 0 || h->rope_dims > h->head_dim || !(h->rope_theta > 0))
        return fail(ENGINE_ERROR_DATA,
                    "%s: rope of %u dimensions with theta %g doesn't fit heads of %u values",
                    model_path(model), h->rope_dims, (double)h->rope_theta, h->head_dim);
    return ENGINE_OK;
}

static int llama_read(const struct model *model, struct hparams *h)
{
    uint32_t n_experts, value_dim;
    int status = arch_integer_required(model, "embedding_length", &h->n_embd);
    if (!status) status = arch_integer_required(model, "block_count", &h->n_layers);
    if (!status) status = arch_integer_required(model, "feed_forward_length", &h->n_ff);
    if (!status) status = arch_integer_required(model, "attention.head_count", &h->n_heads);
    if (!status) status = arch_integer(model, "attention.head_count_kv", h->n_heads, &h->n_kv_heads);
    if (!status) status = arch_integer(model, "context_length", 2048, &h->n_context);
    if (!status) status = arch_float(model, "attention.layer_norm_rms_epsilon", 1e-5f, &h->norm_epsilon);
    if (!status) status = arch_integer(model, "attention.sliding_window", 0, &h->window);
    if (!status) status = arch_integer(model, "expert_count", 0, &n_experts);
    if (!status) status = arch_integer(model, "attention.key_length", h->n_embd / h->n_heads, &h->head_dim);
    if (!status) status = arch_integer(model, "attention.value_length", h->head_dim, &value_dim);
    if (status) return status;

    if (n_experts > 0)
        return fail(ENGINE_ERROR_UNSUPPORTED, "%s: mixtures of experts are not supported", model_path(model));
    if (h->n_kv_heads == 0 || h->n_heads % h->n_kv_heads != 0 || h->head_dim == 0 ||
        value_dim != h->head_dim || h->n_heads > 65536 || h->head_dim > 65536)
        return fail(ENGINE_ERROR_DATA, "%s: %u heads of %u values don't go with %u key/value heads of %u",
                    model_path(model), h->n_heads, h->head_dim, h->n_kv_heads, value_dim);
    if (h->n_layers == 0 || h->n_layers > 1024 || h->n_context == 0)
        return fail(ENGINE_ERROR_DATA, "%s: %u layers and a context of %u are out of range",
                    model_path(model), h->n_layers, h->n_context);
    if (!(h->norm_epsilon >= 0))
        return fail(ENGINE_ERROR_DATA, "%s: the norm's epsilon is negative", model_path(model));

    const struct model_tensor *embedding = model_tensor_find(model, "token_embd.weight");
    if (!embedding || embedding->ne[1] > INT32_MAX)
        return fail(ENGINE_ERROR_DATA, "%s: no usable tensor token_embd.weight (is this a vocabulary only?)",
                    model_path(model));
    h->n_vocab = (uint32_t)embedding->ne[1];
    return read_rope(model, h);
}

/* weight x input, plus the bias that some models have. */
static struct value *linear(struct graph *g, const char *name, uint64_t n_in, uint64_t n_out,
                            struct value *input)
{
    struct value *weight = graph_weight(g, n_in, n_out, "blk.%u.%s.weight", g->layer, name);
    struct value *bias = graph_weight_optional(g, n_out, 1, "blk.%u.%s.bias", g->layer, name);
    struct value *output = graph_matmul(g, weight, input);
    return bias ? graph_add(g, output, bias) : output;
}

/* What the heads take from the cache: x [n_embd, n_tokens] becomes [q_dim, n_tokens]. */
static struct value *attention(struct graph *g, const struct hparams *h, struct value *rope_factors,
                               struct value *x)
{
    uint64_t n_tokens = g->shape.n_tokens, q_dim = (uint64_t)h->n_heads * h->head_dim;
    uint64_t kv_dim = (uint64_t)h->n_kv_heads * h->head_dim;
    struct rope_options rope = {
        .n_dims = h->rope_dims,
        .pairs = ENGINE_ROPE_ADJACENT,
        .theta = h->rope_theta,
        .position_scale = h->rope_position_scale,
        .factors = graph_weight_again(g, rope_factors), /* each layer's rope may run on another device */
    };
    struct value *q = linear(g, "attn_q", h->n_embd, q_dim, x);
    struct value *k = linear(g, "attn_k", h->n_embd, kv_dim, x);
    struct value *v = linear(g, "attn_v", h->n_embd, kv_dim, x);

    q = graph_rope(g, graph_reshape(g, q, h->head_dim, h->n_heads, n_tokens), &rope);
    k = graph_rope(g, graph_reshape(g, k, h->head_dim, h->n_kv_heads, n_tokens), &rope);
    v = graph_reshape(g, v, h->head_dim, h->n_kv_heads, n_tokens);

    struct value *k_cache = graph_cache(g, g->layer, 0, h->head_dim, h->n_kv_heads);
    struct value *v_cache = graph_cache(g, g->layer, 1, h->head_dim, h->n_kv_heads);
    graph_cache_write(g, k_cache, k);
    graph_cache_write(g, v_cache, v);
    struct value *out = graph_attention(g, q, k_cache, v_cache, 1 / sqrtf((float)h->head_dim), h->window);
    return graph_reshape(g, out, q_dim, n_tokens, 1);
}

static struct value *feed_forward(struct graph *g, const struct hparams *h, struct value *x)
{
    struct value *gate = linear(g, "ffn_gate", h->n_embd, h->n_ff, x);
    struct value *up = linear(g, "ffn_up", h->n_embd, h->n_ff, x);
    return linear(g, "ffn_down", h->n_ff, h->n_embd, graph_activate(g, gate, up, ENGINE_ACTIVATION_SILU));
}

static void llama_build(struct graph *g, const struct hparams *h)
{
    g->layer = NO_LAYER;
    struct value *embedding = graph_weight(g, h->n_embd, h->n_vocab, "token_embd.weight");
    struct value *rope_factors = graph_weight_optional(g, h->rope_dims / 2, 1, "rope_freqs.weight");
    struct value *x = graph_get_rows(g, embedding, graph_input(g, INPUT_TOKENS));

    for (g->layer = 0; g->layer < h->n_layers; g->layer++) {
        struct value *norm = graph_weight(g, h->n_embd, 1, "blk.%u.attn_norm.weight", g->layer);
        struct value *heads = attention(g, h, rope_factors, graph_norm(g, x, norm, h->norm_epsilon));
        /* All tokens of the last layer are in the cache now: only some of them go on to the logits. */
        if (g->layer + 1 == h->n_layers) {
            heads = graph_wanted(g, heads);
            x = graph_wanted(g, x);
        }
        x = graph_add(g, x, linear(g, "attn_output", (uint64_t)h->n_heads * h->head_dim, h->n_embd, heads));
        norm = graph_weight(g, h->n_embd, 1, "blk.%u.ffn_norm.weight", g->layer);
        x = graph_add(g, x, feed_forward(g, h, graph_norm(g, x, norm, h->norm_epsilon)));
    }

    g->layer = NO_LAYER;
    x = graph_norm(g, x, graph_weight(g, h->n_embd, 1, "output_norm.weight"), h->norm_epsilon);
    struct value *output = graph_weight_optional(g, h->n_embd, h->n_vocab, "output.weight");
    if (!output) output = graph_weight_again(g, embedding);
    g->logits = graph_matmul(g, output, x);
}

const struct architecture arch_llama = {"llama", llama_read, llama_build};
