/* deepseek32.c: DeepSeek V3.2 and GLM 5: latent attention as in deepseek2.c, over the positions that an
 * indexer picks (arXiv 2512.02556). The indexer has a few small heads. Their queries come from the latent
 * vector of the queries, their one key from the layer's input; it is kept in a cache of its own. A position's
 * score is the sum of the heads' products above zero, weighted by the layer's input. In GLM 5.2 some layers
 * have no indexer and attend to what the last one before them has picked.
 *
 * The published code also turns queries and keys by a Hadamard matrix, which changes no product, and rounds
 * them to FP8; neither is done here, as in transformers. Factors that all scores share change no choice and
 * are left out. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "arch/deepseek2.h"
#include "arch/families.h"
#include "model/hf/config.h"

#define KEY_EPSILON 1e-6f /* of the norm of keys */

static void deepseek32_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    static const char types[] = "attention.indexer.types";
    struct deepseek2 *m = hparams;
    struct indexer *indexer = &m->indexer;
    deepseek2_read(h, hparams, info);
    decoder_need_rope(h, &m->decoder);
    indexer->n_heads = hparams_count_required(h, "attention.indexer.head_count");
    indexer->dim = hparams_count_required(h, "attention.indexer.key_length");
    indexer->n_picked = hparams_count_required(h, "attention.indexer.top_k");
    bool has_types = hparams_is_array(h, types);
    for (uint32_t i = 0; i < m->decoder.n_layers; i++) {
        char name[48];
        snprintf(name, sizeof name, "blk.%u.indexer.attn_k.weight", i);
        indexer->is_full[i] = model_tensor_find(h->model, name) &&
                              (!has_types || hparams_count_at(h, types, i, m->decoder.n_layers, 1) != 0);
    }
    if (!m->absorbs || m->n_q_latent == 0)
        hparams_fail(h, ENGINE_ERROR_DATA,
                     "attention.key_length_mla or attention.q_lora_rank is missing, but there is an indexer");
    if (indexer->n_heads > 65536 || indexer->dim > 65536 || indexer->dim < m->n_rope)
        hparams_fail(h, ENGINE_ERROR_DATA, "an indexer of %u heads of %u values does not suit %u rotary ones",
                     indexer->n_heads, indexer->dim, m->n_rope);
    if (!indexer->is_full[0]) hparams_fail(h, ENGINE_ERROR_DATA, "the first layer has no indexer");
}

/* Whether the block tables of this graph reach further than the indexer picks. */
static bool has_to_pick(const struct graph *g, const struct indexer *indexer)
{
    return (uint64_t)g->shape.table_width * g->shape.block_size > indexer->n_picked ||
           g->shape.watch & WATCH_INPUTS;
}

struct value *deepseek32_pick(struct graph *g, const struct deepseek2 *m, struct value *x,
                              struct value *q_latent, const struct rope *rope, struct value *factors)
{
    const struct indexer *indexer = &m->indexer;
    uint64_t n_embd = m->decoder.n_embd, n = indexer->n_heads, dim = indexer->dim,
             n_tokens = g->shape.n_tokens;
    struct rope halves = *rope;
    halves.pairs = ENGINE_ROPE_HALVES; /* unlike those of attention */
    if (!indexer->is_full[g->layer]) return graph_last_picked(g);

    struct value *weight = graph_values(g, dim, 1, "blk.%u.indexer.k_norm.weight", g->layer),
                 *bias = graph_values(g, dim, 1, "blk.%u.indexer.k_norm.bias", g->layer);
    struct value *k = decoder_linear(g, "indexer.attn_k", n_embd, dim, x);
    k = graph_reshape(g, graph_norm(g, k, weight, bias, ENGINE_NORM_LAYER, KEY_EPSILON), dim, 1, n_tokens);
    struct value *cache = graph_cache(g, dim, 1, false);
    graph_cache_write(g, cache, decoder_rotate(g, &halves, factors, k));

    /* Where every position would be picked, only the weights are listed, as in all graphs of a model. */
    bool was_other = g->is_other, picks = has_to_pick(g, indexer);
    if (!picks) g->is_other = true;
    struct value *q = decoder_linear(g, "indexer.attn_q_b", m->n_q_latent, n * dim, q_latent);
    q = decoder_rotate(g, &halves, factors, graph_reshape(g, q, dim, n, n_tokens));
    struct value *weights = decoder_linear(g, "indexer.proj", n_embd, n, x);
    struct value *picked = graph_pick(g, q, weights, cache, indexer->n_picked);
    g->is_other = was_other;
    return picks ? picked : NULL;
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* Which layers have an indexer, as GLM 5's config.json says: by name, by letter, or every so many. */
static void read_indexer_types(struct hf_config *config)
{
    const json_t *json = config->json, *types = hf_get(json, "indexer_types"),
                 *pattern = hf_get(json, "index_topk_pattern");
    const json_t *list = types ? types : json_is_array(pattern) ? pattern : NULL;
    const char *letters = !list ? json_string_value(pattern) : NULL;
    uint32_t period = hf_count(config, json, "index_topk_freq", 1),
             offset = hf_count(config, json, "index_skip_topk_offset", 2);
    bool is_full[HF_MAX_LAYERS] = {false};
    size_t n = list ? json_array_size(list) : letters ? strlen(letters) : config->n_layers;
    if (n < config->n_layers)
        hf_fail(config, ENGINE_ERROR_DATA, "indexer_types or index_topk_pattern has %zu texts for %u layers",
                n, config->n_layers);
    for (uint32_t i = 0; i < config->n_layers && !config->status; i++) {
        const char *kind = list ? json_string_value(json_array_get(list, i)) : NULL;
        uint32_t after = i + 1 > offset ? i + 1 - offset : 0;
        if (list || letters) {
            is_full[i] = list ? kind && strcmp(kind, "full") == 0 : letters[i] == 'F';
            bool is_shared = list ? kind && strcmp(kind, "shared") == 0 : letters[i] == 'S';
            hf_refuse(config, !is_full[i] && !is_shared, "indexer_types with others than full and shared");
        } else {
            is_full[i] = period <= 1 || after % period == 0;
        }
    }
    hf_put_layer_flags(config, "attention.indexer.types", is_full);
}

static void deepseek32_read_config(struct hf_config *config)
{
    deepseek2_read_config(config);
    if (strcmp(config->type.name, "glm_moe_dsa") == 0) read_indexer_types(config);
}

#define INDEXER_NUMBERS(n_heads)                                                                             \
    {"index_n_heads", "attention.indexer.head_count", HF_COUNT, n_heads},                                    \
        {"index_head_dim", "attention.indexer.key_length", HF_COUNT, 128},                                   \
    {                                                                                                        \
        "index_topk", "attention.indexer.top_k", HF_COUNT, 2048                                              \
    }

static const struct hf_key deepseek32_numbers[] = {
    {"q_lora_rank", "attention.q_lora_rank", HF_COUNT, 1536},
    {"kv_lora_rank", "attention.kv_lora_rank", HF_COUNT, 512},
    {"n_routed_experts", "expert_count", HF_COUNT, 256},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 2048},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 2.5},
    INDEXER_NUMBERS(64),
    {0},
};

static const struct hf_key glm_dsa_numbers[] = {
    {"q_lora_rank", "attention.q_lora_rank", HF_COUNT, 2048},
    {"kv_lora_rank", "attention.kv_lora_rank", HF_COUNT, 512},
    {"num_local_experts|n_routed_experts", "expert_count", HF_COUNT, 256},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 2048},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 2.5},
    INDEXER_NUMBERS(32),
    {0},
};

static const struct hf_type deepseek32_types[] = {
    {.name = "deepseek_v32",
     .keys = {.kv_heads = HF_UNREAD, .head_dim = HF_UNREAD},
     .width = 7168,
     .layers = 61,
     .heads = 128,
     .ff = 18432,
     .context = 163840,
     .numbers = deepseek32_numbers,
     .options = {{"attention_bias", false, "attn_q_a|attn_kv_a_mqa|attn_output"}},
     .read = deepseek32_read_config},
    {0},
};

static const struct hf_type glm_dsa_types[] = {
    {.name = "glm_moe_dsa",
     .keys = {.kv_heads = HF_UNREAD, .head_dim = HF_UNREAD},
     .width = 6144,
     .layers = 78,
     .heads = 64,
     .ff = 12288,
     .context = 202752,
     .epsilon = 1e-5,
     .numbers = glm_dsa_numbers,
     .options = {{"attention_bias", false, "attn_q_a|attn_kv_a_mqa|attn_output"}},
     .read = deepseek32_read_config},
    {0},
};

const struct architecture arch_deepseek32 = {
    .name = "deepseek32",
    .models = "DeepSeek V3.2",
    .size = sizeof(struct deepseek2),
    .read = deepseek32_read,
    .build = deepseek2_build,
    .hf = {.types = deepseek32_types,
           .modules = deepseek2_modules,
           .forms = deepseek2_forms,
           .writes_yarn_multiplier = true},
};

const struct architecture arch_glm_dsa = {
    .name = "glm-dsa",
    .models = "GLM 5",
    .size = sizeof(struct deepseek2),
    .read = deepseek32_read,
    .build = deepseek2_build,
    .hf = {.types = glm_dsa_types,
           .modules = deepseek2_modules,
           .forms = deepseek2_forms,
           .writes_yarn_multiplier = true},
};
