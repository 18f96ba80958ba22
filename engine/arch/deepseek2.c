/* deepseek2.c: DeepSeek-V2, V3, R1 and similar models (Kimi K2, GLM-4.7-Flash, Youtu-LLM): multi-head latent
 * attention, whose cache holds one short vector a token, from which the keys and values of all heads are
 * computed, and one key that is rotated by position; then mixtures of experts chosen in groups, or dense
 * networks. arXiv 2405.04434, 2412.19437. deepseek32.c adds what sparse attention needs. */
#include "arch/deepseek2.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/families.h"
#include "model/hf/config.h"

#define LATENT_EPSILON 1e-6f /* of the norms of latent vectors, whatever that of the other norms */

/* Sizes of heads. Files with one matrix for keys and values give the true sizes, others those of the cached
 * vectors. */
static void read_sizes(struct hparams *h, struct deepseek2 *m)
{
    struct decoder *d = &m->decoder;
    m->absorbs = hparams_has(h, "attention.key_length_mla");
    m->n_q_latent = hparams_count(h, "attention.q_lora_rank", 0);
    m->n_latent = hparams_count_required(h, "attention.kv_lora_rank");
    m->n_rope = d->rope.n_dims;
    m->n_value = hparams_count(h, "attention.value_length_mla", d->value_dim);
    uint32_t key = hparams_count(h, "attention.key_length_mla", d->head_dim);
    bool fits =
        !m->absorbs || (d->head_dim == (uint64_t)m->n_latent + m->n_rope && d->value_dim == m->n_latent);
    for (uint32_t i = 0; i < d->n_layers; i++)
        fits = fits && d->layers[i].n_kv_heads == (m->absorbs ? 1 : d->layers[i].n_heads);
    if (!fits || key <= m->n_rope || m->n_value == 0)
        hparams_fail(h, ENGINE_ERROR_DATA,
                     "keys of %u and values of %u do not match %u latent and %u rotary values", d->head_dim,
                     d->value_dim, m->n_latent, m->n_rope);
    m->n_nope = key > m->n_rope ? key - m->n_rope : 1;
    d->attention_scale = 1 / sqrtf((float)m->n_nope + (float)m->n_rope);
}

/* Under YaRN the published code scales scores rather than the rotated part: by m^2, where
 * m = 1 + 0.1 * mscale_all_dim * ln(factor). Files have the product 0.1 * mscale_all_dim. The code's other
 * number, mscale, equals mscale_all_dim in all published models. */
static void read_yarn(struct hparams *h, struct decoder *d)
{
    float multiplier = hparams_float_from_0(h, "rope.scaling.yarn_log_multiplier", 0);
    if (d->rope.yarn <= 1) return;
    if (multiplier == 0) {
        if (!hparams_has(h, "rope.scaling.yarn_log_multiplier"))
            decoder_warn(h, "the file lacks YaRN's mscale_all_dim; assuming 0");
        return;
    }
    float m = 1 + multiplier * logf(d->rope.yarn);
    d->attention_scale *= m * m;
    /* It is 1 too if the two numbers are the same. */
    float own = rope_read_yarn_magnitude(h);
    d->rope.magnitude = hparams_float_above_0(h, "rope.scaling.attn_factor", 1) * (own > 0 ? own : 1);
}

/* Files up to early 2025 lack the groups that experts are chosen in. */
static void assume_groups(const struct hparams *h, struct experts *e)
{
    if (e->n == 0 || hparams_has(h, "expert_group_count")) return;
    if (e->n == 160 || e->n == 256) { /* V2; V3 and R1 */
        e->n_groups = 8;
        e->n_groups_used = e->n == 160 ? 3 : 4;
        e->group_score =
            e->function == ENGINE_ROUTE_SIGMOID ? ENGINE_ROUTE_GROUP_TOP2 : ENGINE_ROUTE_GROUP_MAX;
    } else if (e->n != 64 && e->n != 384) { /* Lite, Kimi K2: no groups */
        decoder_warn(h, "the file does not say whether experts form groups; assuming that they do not");
    }
}

void deepseek2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct deepseek2 *m = hparams;
    struct decoder *d = &m->decoder;
    char bias[48];
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    read_sizes(h, m);
    read_yarn(h, d);
    /* The bias came with V3's sigmoid gating. */
    snprintf(bias, sizeof bias, "blk.%u.exp_probs_b.bias", d->n_layers > 0 ? d->n_layers - 1 : 0);
    bool is_v3 = model_tensor_find(h->model, bias) != NULL;
    experts_read_router(h, d, is_v3 ? ENGINE_ROUTE_SIGMOID : ENGINE_ROUTE_SOFTMAX, false);
    assume_groups(h, &d->experts);
    *info = decoder_info(d);
}

/* The part of a token that all heads share: its latent vector [n_latent, n_tokens], and the rotated key
 * [n_rope, 1, n_tokens]. */
struct latent {
    struct value *c, *key;
};

/* The norm of a latent vector. */
static struct value *norm_latent(struct graph *g, const char *name, uint64_t n, struct value *x)
{
    struct value *weight = graph_values(g, n, 1, "blk.%u.%s.weight", g->layer, name);
    return graph_norm(g, x, weight, NULL, ENGINE_NORM_RMS, LATENT_EPSILON);
}

/* What queries are computed from, [n_q_latent, n_tokens]; NULL: from x. */
static struct value *query_latent(struct graph *g, const struct deepseek2 *m, struct value *x)
{
    if (m->n_q_latent == 0) return NULL;
    struct value *q = decoder_linear(g, "attn_q_a", m->decoder.n_embd, m->n_q_latent, x);
    return norm_latent(g, "attn_q_a_norm", m->n_q_latent, q);
}

static struct value *queries(struct graph *g, const struct deepseek2 *m, struct value *x,
                             struct value *q_latent)
{
    const struct decoder *d = &m->decoder;
    uint64_t n_heads = d->layers[g->layer].n_heads, key = m->n_nope + m->n_rope;
    struct value *q = m->n_q_latent > 0
                          ? decoder_linear(g, "attn_q_b", m->n_q_latent, n_heads * key, q_latent)
                          : decoder_linear(g, "attn_q", d->n_embd, n_heads * key, x);
    return graph_reshape(g, q, key, n_heads, g->shape.n_tokens);
}

/* Maps queries into the latent space of the keys, so that q . k equals that of the full vectors; the results
 * from latent values are mapped back afterwards. */
static struct value *attend_latent(struct graph *g, const struct deepseek2 *m, struct value *q_nope,
                                   struct value *q_rope, const struct latent *latent, struct value *picked)
{
    const struct decoder *d = &m->decoder;
    uint64_t n_heads = d->layers[g->layer].n_heads, n_tokens = g->shape.n_tokens;
    struct value *k_b =
        graph_matrices(g, m->n_nope, m->n_latent, n_heads, "blk.%u.attn_k_b.weight", g->layer);
    struct value *v_b =
        graph_matrices(g, m->n_latent, m->n_value, n_heads, "blk.%u.attn_v_b.weight", g->layer);
    struct value *q = graph_concat(g, graph_matmul_heads(g, k_b, q_nope), q_rope);
    struct value *k = graph_concat(g, graph_reshape(g, latent->c, m->n_latent, 1, n_tokens), latent->key);
    struct value *cache = graph_cache(g, d->head_dim, 1, false);
    graph_cache_write(g, cache, k);
    struct value *out = decoder_attend_to(g, d, q, cache, graph_slice(g, cache, 0, m->n_latent), picked);
    uint64_t columns = out ? out->tensor.ne[1] : 0;
    out = graph_matmul_heads(g, v_b, graph_reshape(g, out, m->n_latent, n_heads, columns));
    return graph_reshape(g, out, n_heads * m->n_value, columns, 1);
}

/* Keys and values of all heads, as older files need them. */
static struct value *attend_heads(struct graph *g, const struct deepseek2 *m, struct value *q_nope,
                                  struct value *q_rope, const struct latent *latent)
{
    const struct decoder *d = &m->decoder;
    uint64_t n_heads = d->layers[g->layer].n_heads, both = (uint64_t)m->n_nope + m->n_value;
    struct value *kv = decoder_linear(g, "attn_kv_b", m->n_latent, n_heads * both, latent->c);
    kv = graph_reshape(g, kv, both, n_heads, g->shape.n_tokens);
    const struct heads heads = {.q = graph_concat(g, q_nope, q_rope),
                                .k = graph_concat(g, graph_slice(g, kv, 0, m->n_nope), latent->key),
                                .v = graph_slice(g, kv, m->n_nope, m->n_value)};
    return decoder_attend(g, d, &heads);
}

static struct value *deepseek2_attention(struct graph *g, const struct decoder *d, struct value *x)
{
    const struct deepseek2 *m = (const struct deepseek2 *)d;
    const struct decoder_layer *layer = &d->layers[g->layer];
    struct value *factors = rope_factors(g, layer->rope);
    struct value *q_latent = query_latent(g, m, x), *q = queries(g, m, x, q_latent);
    struct value *q_nope = graph_slice(g, q, 0, m->n_nope);
    struct value *q_rope = decoder_rotate(g, layer->rope, factors, graph_slice(g, q, m->n_nope, m->n_rope));

    struct value *kv = decoder_linear(g, "attn_kv_a_mqa", d->n_embd, (uint64_t)m->n_latent + m->n_rope, x);
    struct value *key =
        graph_reshape(g, graph_slice(g, kv, m->n_latent, m->n_rope), m->n_rope, 1, g->shape.n_tokens);
    struct latent latent = {
        .c = norm_latent(g, "attn_kv_a_norm", m->n_latent, graph_slice(g, kv, 0, m->n_latent)),
        .key = decoder_rotate(g, layer->rope, factors, key)};
    struct value *picked =
        m->indexer.n_heads > 0 ? deepseek32_pick(g, m, x, q_latent, layer->rope, factors) : NULL;
    struct value *out = m->absorbs ? attend_latent(g, m, q_nope, q_rope, &latent, picked)
                                   : attend_heads(g, m, q_nope, q_rope, &latent);
    return decoder_linear(g, "attn_output", (uint64_t)layer->n_heads * m->n_value, d->n_embd, out);
}

void deepseek2_build(struct graph *g, const void *hparams)
{
    decoder_build_mixed(g, hparams, deepseek2_attention);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* What DeepSeek 2, 3 and GLM 4.7 Flash and 5 do differently, with transformers' defaults. */
static const struct mla {
    const char *type; /* NULL: any other */
    uint32_t n_nope, n_value, n_groups, n_groups_used, n_dense;
    bool scores_by_sigmoid, may_interleave;
    bool by_number, by_kinds; /* first_k_dense_replace, mlp_layer_types say which layers are dense */
} mla_types[] = {
    {"deepseek_v2", 128, 128, 1, 1, 0, false, false, true, false},
    {"glm4_moe_lite", 192, 256, 1, 1, 1, true, true, false, true},
    {"deepseek_v32", 128, 128, 8, 4, 3, true, false, true, true},
    {"glm_moe_dsa", 192, 256, 1, 1, 3, true, false, true, true},
    {NULL, 128, 128, 8, 4, 3, true, true, true, false},
};

/* Multi-head latent attention: the keys of the cache are latent vectors with a rotated part. The sizes of a
 * head are transformers' defaults. */
static void read_latent_heads(struct hf_config *config, uint32_t n_nope, uint32_t n_value)
{
    const json_t *json = config->json;
    uint32_t latent = hf_count(config, json, "kv_lora_rank", 512),
             rope = hf_count(config, json, "qk_rope_head_dim", 64);
    config->n_rope = rope;
    config->n_nope = hf_count(config, json, "qk_nope_head_dim", n_nope);
    config->n_value = hf_count(config, json, "v_head_dim", n_value);
    config->n_kv_heads = 1;
    config->has_own_heads = true;
    hf_put_count(config, "attention.head_count_kv", 1);
    hf_put_count(config, "attention.key_length", latent + rope);
    hf_put_count(config, "attention.value_length", latent);
    hf_put_count(config, "attention.key_length_mla", config->n_nope + rope);
    hf_put_count(config, "attention.value_length_mla", config->n_value);
}

void deepseek2_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    const struct mla *own = mla_types;
    while (own->type && strcmp(own->type, config->type.name) != 0) own++;
    uint32_t n_groups = hf_count(config, json, "n_group", own->n_groups),
             n_used = hf_count(config, json, "topk_group", own->n_groups_used);
    const char *method = hf_text(config, json, "topk_method");
    bool is_v2 = !own->scores_by_sigmoid;
    hf_refuse(config, own->may_interleave && !hf_flag(config, json, "rope_interleave", true),
              "rope_interleave: false");
    if (is_v2 && (!method || strcmp(method, "greedy") == 0)) n_groups = n_used = 1;
    uint32_t n_dense =
        own->by_number ? hf_count(config, json, "first_k_dense_replace", own->n_dense) : own->n_dense;
    hf_put_count(config, "leading_dense_block_count",
                 own->by_kinds ? hf_count_dense_layers(config, n_dense) : n_dense);
    read_latent_heads(config, own->n_nope, own->n_value);
    hf_put_count(config, "expert_group_count", n_groups);
    hf_put_count(config, "expert_group_used_count", n_used);
    /* llama.cpp's converter has it only from scoring_func, which what transformers saves lacks. Of sparse
     * attention llama.cpp loads no files without. */
    bool is_sparse = hf_get(json, "index_topk") != NULL, given = hf_get(json, "scoring_func") != NULL;
    hf_put_count(config, given || is_sparse ? "expert_gating_func" : "engine.expert_gating_func",
                 is_v2 ? 1 : 2);
    hf_put_flag(config, "expert_weights_norm", !is_v2 && hf_flag(config, json, "norm_topk_prob", true));
}

/* Youtu has no experts; llama.cpp's converter says so by these. */
static void youtu_read_config(struct hf_config *config)
{
    hf_refuse(config, !hf_flag(config, config->json, "rope_interleave", true), "rope_interleave: false");
    read_latent_heads(config, 128, 128);
    hf_put_count(config, "leading_dense_block_count", config->n_layers);
    hf_put_count(config, "expert_feed_forward_length",
                 hf_count(config, config->json, config->type.keys.ff, config->type.ff));
    hf_put_count(config, "expert_shared_count", 0);
}

static const struct hf_key youtu_numbers[] = {
    {"q_lora_rank", "attention.q_lora_rank", HF_COUNT_OR_NONE, 1536},
    {"kv_lora_rank", "attention.kv_lora_rank", HF_COUNT, 512},
    {0},
};

static const struct hf_key deepseek2_numbers[] = {
    {"q_lora_rank", "attention.q_lora_rank", HF_COUNT_OR_NONE, 1536},
    {"kv_lora_rank", "attention.kv_lora_rank", HF_COUNT, 512},
    {"n_routed_experts", "expert_count", HF_COUNT, 64},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, HF_ABSENT},
    {"n_shared_experts", "expert_shared_count", HF_COUNT_OR_NONE, 2},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1407},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1},
    {0},
};

static const struct hf_key deepseek3_numbers[] = {
    {"q_lora_rank", "attention.q_lora_rank", HF_COUNT_OR_NONE, 1536},
    {"kv_lora_rank", "attention.kv_lora_rank", HF_COUNT, 512},
    {"num_local_experts|n_routed_experts", "expert_count", HF_COUNT, 256},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 8},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 2048},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 2.5},
    {0},
};

static const struct hf_key glm4_lite_numbers[] = {
    {"q_lora_rank", "attention.q_lora_rank", HF_COUNT_OR_NONE, 768},
    {"kv_lora_rank", "attention.kv_lora_rank", HF_COUNT, 512},
    {"num_local_experts|n_routed_experts", "expert_count", HF_COUNT, 64},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 4},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 1536},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1.8},
    {0},
};

const struct hf_module deepseek2_modules[] = {
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.indexer.wq_b", "indexer.attn_q_b.weight"},
    {"self_attn.indexer.wk", "indexer.attn_k.weight"},
    {"self_attn.indexer.k_norm", "indexer.k_norm.weight"},
    {"self_attn.indexer.weights_proj", "indexer.proj.weight"},
    {0},
};

const struct hf_form deepseek2_forms[] = {
    {.tensor = "attn_kv_b", .kind = FORM_LATENT, .outputs = {"attn_k_b", "attn_v_b"}},
    {0},
};

/* What all of its types share. */
#define DEEPSEEK_TYPE                                                                                        \
    .keys = {.kv_heads = HF_UNREAD, .head_dim = HF_UNREAD},                                                  \
    .options = {{"attention_bias", false, "attn_q_a|attn_kv_a_mqa|attn_output"}},                            \
    .read = deepseek2_read_config

static const struct hf_type deepseek2_types[] = {
    {.name = "deepseek_v2",
     DEEPSEEK_TYPE,
     .width = 4096,
     .layers = 32,
     .heads = 32,
     .ff = 11008,
     .context = 2048,
     .numbers = deepseek2_numbers},
    {.name = "deepseek_v3",
     DEEPSEEK_TYPE,
     .width = 7168,
     .layers = 61,
     .heads = 128,
     .ff = 18432,
     .context = 4096,
     .numbers = deepseek3_numbers},
    {.name = "glm4_moe_lite",
     DEEPSEEK_TYPE,
     .width = 2048,
     .layers = 47,
     .heads = 20,
     .ff = 10240,
     .context = 202752,
     .epsilon = 1e-5,
     .keeps_rotary = true,
     .numbers = glm4_lite_numbers},
    {.name = "kimi_k2",
     DEEPSEEK_TYPE,
     .width = 7168,
     .layers = 61,
     .heads = 128,
     .ff = 18432,
     .context = 4096,
     .numbers = deepseek3_numbers},
    {.name = "youtu",
     .keys = {.kv_heads = HF_UNREAD, .head_dim = HF_UNREAD},
     .width = 2048,
     .layers = 32,
     .heads = 16,
     .ff = 6144,
     .context = 131072,
     .is_tied = true,
     .keeps_rotary = true,
     .numbers = youtu_numbers,
     .options = {{"attention_bias", false, "attn_q_a|attn_kv_a_mqa|attn_output"}, HF_MLP_BIAS},
     .read = youtu_read_config},
    {0},
};

static const struct arch_missing deepseek2_missing[] = {
    {"the router", "sigmoid if the file has a bias for the choice (V3), otherwise softmax", ""},
    {"groups of experts in early files",
     "their number: 8 groups, of which 3 (160 experts: V2) or 4 (256: V3, R1) are used; none with 64 or 384",
     "a warning; none"},
    {"YaRN's mscale", "equal to mscale_all_dim, as published",
     "a warning if mscale_all_dim is missing too; 0"},
    {0},
};

const struct architecture arch_deepseek2 = {
    .name = "deepseek2",
    .models = "DeepSeek V2, V3, R1, Kimi K2, GLM 4.7 Flash, Youtu-LLM",
    .missing = deepseek2_missing,
    .size = sizeof(struct deepseek2),
    .read = deepseek2_read,
    .build = deepseek2_build,
    .hf = {.types = deepseek2_types,
           .modules = deepseek2_modules,
           .forms = deepseek2_forms,
           .writes_yarn_multiplier = true},
};
