/* family-samples.c: see family-samples.h. */
#include "family-samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-writer.h"

/* The same in all of them. */
enum {
    N_EMBD = 32,
    N_HEADS = 2,
    N_KV_HEADS = 1,
    HEAD = 16,
    N_FF = 48,
    N_FF_EXPERT = 16,
    /* DeepSeek's */
    Q_LATENT = 12,
    LATENT = 16,
    NOPE = 16,
    ROPE = 8,
    VALUE = 12
};

const struct family_sample family_samples[] = {
    {.name = "mixtral, a tensor for each expert",
     .family = "llama",
     .n_layers = 2,
     .n_experts = 6,
     .n_used = 2,
     .step = 1,
     .ffn_norm = "ffn_norm",
     .splits_experts = true,
     .answers = {0.339281082f, 0.701497674f, 1.31781805f, -0.45416981f, -1.19624078f, 0.0878116935f,
                 0.365675807f, 0.171378583f}},
    {.name = "qwen3moe with YaRN of another magnitude, fused tensors",
     .family = "qwen3moe",
     .n_layers = 2,
     .n_experts = 6,
     .n_used = 2,
     .step = 1,
     .ffn_norm = "ffn_norm",
     .has_head_norms = true,
     .fuses = true,
     .has_yarn = true,
     .answers = {-0.697853148f, 0.075814411f, -0.155127108f, -0.177842617f, 0.78958565f, -0.527656496f,
                 -0.787985563f, -2.65962982f}},
    {.name = "glm4moe",
     .family = "glm4moe",
     .n_layers = 3,
     .n_experts = 6,
     .n_used = 2,
     .first_mixture = 1,
     .step = 1,
     .ffn_norm = "post_attention_norm",
     .has_biases = true,
     .has_head_norms = true,
     .has_choice_bias = true,
     .has_shared = true,
     .answers = {2.54908085f, -0.301754415f, -0.329789877f, 0.44837743f, -0.934925556f, 1.82692862f,
                 -1.00567484f, -0.457017273f}},
    {.name = "ernie4_5-moe",
     .family = "ernie4_5-moe",
     .n_layers = 3,
     .n_experts = 6,
     .n_used = 2,
     .first_mixture = 1,
     .step = 2,
     .ffn_norm = "ffn_norm",
     .has_choice_bias = true,
     .has_shared = true,
     .answers = {1.92478216f, 0.497896224f, -0.809414625f, 0.769204378f, -0.218837306f, 1.58371317f,
                 -0.731683135f, -0.712444484f}},
    {.name = "hunyuan-moe",
     .family = "hunyuan-moe",
     .n_layers = 2,
     .n_experts = 6,
     .n_used = 2,
     .step = 1,
     .ffn_norm = "ffn_norm",
     .has_head_norms = true,
     .has_shared = true,
     .answers = {-1.08207703f, -1.82060432f, 1.10209656f, 1.05109179f, 0.0754293203f, -1.46148717f,
                 2.82391644f, 1.43389261f}},
    {.name = "llama4 as Scout, chunks of 8",
     .family = "llama4",
     .n_layers = 4,
     .n_experts = 16,
     .n_used = 1,
     .step = 1,
     .ffn_norm = "ffn_norm",
     .has_shared = true,
     .window = 8,
     .answers = {-0.772983015f, 0.0254967213f, 2.41472483f, 0.305910438f, 0.962341905f, -1.54891133f,
                 2.02368712f, -1.75404024f}},
    {.name = "llama4 as Maverick",
     .family = "llama4",
     .n_layers = 4,
     .n_experts = 128,
     .n_used = 1,
     .step = 2,
     .ffn_norm = "ffn_norm",
     .has_shared = true,
     .answers = {0.864249647f, 0.977804661f, -1.42741239f, -0.487622201f, -0.483161747f, -0.0537167937f,
                 -0.718289435f, -1.22889674f}},
    {.name = "deepseek2 with YaRN, attn_kv_b",
     .family = "deepseek2",
     .n_layers = 2,
     .n_experts = 6,
     .n_used = 2,
     .first_mixture = 1,
     .step = 1,
     .ffn_norm = "ffn_norm",
     .has_shared = true,
     .is_latent = true,
     .has_yarn = true,
     .answers = {0.415088683f, 0.947274983f, -0.0553406067f, 0.990816474f, 0.391509175f, 1.26694798f,
                 -0.260765105f, 0.378440261f}},
};
const size_t n_family_samples = sizeof family_samples / sizeof *family_samples;

void family_sample_tokens(int32_t tokens[SAMPLE_TOKENS])
{
    for (int i = 0; i < SAMPLE_TOKENS; i++) tokens[i] = 5 + 37 * i % 280;
}

/* ---- Tensors ------------------------------------------------------------------------------------------- */

/* A tensor of random values: of norms around 1, of biases small, else of a size that keeps activations near
 * 1. */
static void add_tensor(struct gguf_writer *writer, const char *name, uint64_t k, uint64_t rows, uint64_t n)
{
    uint64_t seed = 14695981039346656037u, count = k * rows * n, ne[3] = {k, rows, n};
    for (const char *c = name; *c; c++) seed = (seed ^ (uint8_t)*c) * 1099511628211u;
    bool is_norm = strstr(name, "norm") != NULL, is_small = strstr(name, ".bias") != NULL;
    float limit = is_norm || is_small ? 0.2f : sqrtf(4 / (float)k);
    float *values = malloc((size_t)count * sizeof *values);
    if (!values) abort();
    for (uint64_t i = 0; i < count; i++) values[i] = (is_norm ? 1 : 0) + random_float(&seed, limit);
    gguf_add_tensor(writer, name, ENGINE_TYPE_F32,
                    n > 1      ? 3
                    : rows > 1 ? 2
                               : 1,
                    ne, values, (size_t)count * sizeof *values);
    free(values);
}

/* "blk.LAYER.NAME" */
static void add(struct gguf_writer *writer, uint32_t layer, const char *name, uint64_t k, uint64_t rows,
                uint64_t n)
{
    char full[96];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    add_tensor(writer, full, k, rows, n);
}

static void add_attention(struct gguf_writer *writer, const struct family_sample *s, uint32_t i)
{
    const uint64_t q = N_HEADS * HEAD, kv = N_KV_HEADS * HEAD;
    if (s->fuses) {
        add(writer, i, "attn_qkv.weight", N_EMBD, q + 2 * kv, 1);
    } else {
        add(writer, i, "attn_q.weight", N_EMBD, q, 1);
        add(writer, i, "attn_k.weight", N_EMBD, kv, 1);
        add(writer, i, "attn_v.weight", N_EMBD, kv, 1);
    }
    if (s->has_biases) {
        add(writer, i, "attn_q.bias", q, 1, 1);
        add(writer, i, "attn_k.bias", kv, 1, 1);
        add(writer, i, "attn_v.bias", kv, 1, 1);
    }
    if (s->has_head_norms) {
        add(writer, i, "attn_q_norm.weight", HEAD, 1, 1);
        add(writer, i, "attn_k_norm.weight", HEAD, 1, 1);
    }
    add(writer, i, "attn_output.weight", q, N_EMBD, 1);
}

static void add_latent_attention(struct gguf_writer *writer, uint32_t i)
{
    add(writer, i, "attn_q_a.weight", N_EMBD, Q_LATENT, 1);
    add(writer, i, "attn_q_a_norm.weight", Q_LATENT, 1, 1);
    add(writer, i, "attn_q_b.weight", Q_LATENT, N_HEADS * (NOPE + ROPE), 1);
    add(writer, i, "attn_kv_a_mqa.weight", N_EMBD, LATENT + ROPE, 1);
    add(writer, i, "attn_kv_a_norm.weight", LATENT, 1, 1);
    add(writer, i, "attn_kv_b.weight", LATENT, N_HEADS * (NOPE + VALUE), 1);
    add(writer, i, "attn_output.weight", N_HEADS * VALUE, N_EMBD, 1);
}

static void add_feed_forward(struct gguf_writer *writer, uint32_t i, const char *suffix, uint64_t n_ff)
{
    char name[48];
    snprintf(name, sizeof name, "ffn_gate%s.weight", suffix);
    add(writer, i, name, N_EMBD, n_ff, 1);
    snprintf(name, sizeof name, "ffn_up%s.weight", suffix);
    add(writer, i, name, N_EMBD, n_ff, 1);
    snprintf(name, sizeof name, "ffn_down%s.weight", suffix);
    add(writer, i, name, n_ff, N_EMBD, 1);
}

static void add_mixture(struct gguf_writer *writer, const struct family_sample *s, uint32_t i)
{
    add(writer, i, "ffn_gate_inp.weight", N_EMBD, s->n_experts, 1);
    if (s->has_choice_bias) add(writer, i, "exp_probs_b.bias", s->n_experts, 1, 1);
    if (s->has_shared) add_feed_forward(writer, i, "_shexp", N_FF_EXPERT);
    for (uint32_t e = 0; e < s->n_experts && s->splits_experts; e++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, ".%u", e);
        add_feed_forward(writer, i, suffix, N_FF_EXPERT);
    }
    if (s->splits_experts) return;
    if (s->fuses) {
        add(writer, i, "ffn_gate_up_exps.weight", N_EMBD, 2 * N_FF_EXPERT, s->n_experts);
    } else {
        add(writer, i, "ffn_gate_exps.weight", N_EMBD, N_FF_EXPERT, s->n_experts);
        add(writer, i, "ffn_up_exps.weight", N_EMBD, N_FF_EXPERT, s->n_experts);
    }
    add(writer, i, "ffn_down_exps.weight", N_FF_EXPERT, N_EMBD, s->n_experts);
}

/* ---- Metadata ------------------------------------------------------------------------------------------ */

static void add_u32(struct gguf_writer *writer, const struct family_sample *s, const char *key, uint32_t n)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", s->family, key);
    gguf_add_u32(writer, full, n);
}

static void add_f32(struct gguf_writer *writer, const struct family_sample *s, const char *key, float number)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", s->family, key);
    gguf_add_f32(writer, full, number);
}

static void add_yarn(struct gguf_writer *writer, const struct family_sample *s)
{
    char key[96];
    snprintf(key, sizeof key, "%s.rope.scaling.type", s->family);
    gguf_add_string(writer, key, "yarn");
    add_f32(writer, s, "rope.scaling.factor", 8);
    add_u32(writer, s, "rope.scaling.original_context_length", 8);
    if (s->is_latent)
        add_f32(writer, s, "rope.scaling.yarn_log_multiplier", 0.0707f);
    else
        add_f32(writer, s, "rope.scaling.yarn_attn_factor", 1.25f);
}

static void add_metadata(struct gguf_writer *writer, const struct family_sample *s)
{
    gguf_add_string(writer, "general.architecture", s->family);
    add_u32(writer, s, "block_count", s->n_layers);
    add_u32(writer, s, "context_length", 64);
    add_u32(writer, s, "embedding_length", N_EMBD);
    add_u32(writer, s, "feed_forward_length", N_FF);
    add_u32(writer, s, "attention.head_count", N_HEADS);
    add_u32(writer, s, "attention.head_count_kv", s->is_latent ? N_HEADS : N_KV_HEADS);
    add_u32(writer, s, "attention.key_length", s->is_latent ? NOPE + ROPE : HEAD);
    add_u32(writer, s, "attention.value_length", s->is_latent ? VALUE : HEAD);
    add_f32(writer, s, "attention.layer_norm_rms_epsilon", 1e-5f);
    add_f32(writer, s, "rope.freq_base", 10000);
    /* Half a head turns in GLM. */
    add_u32(writer, s, "rope.dimension_count",
            s->is_latent || strcmp(s->family, "glm4moe") == 0 ? ROPE : HEAD);
    add_u32(writer, s, "expert_count", s->n_experts);
    add_u32(writer, s, "expert_used_count", s->n_used);
    add_u32(writer, s, "expert_feed_forward_length", N_FF_EXPERT);
    if (s->first_mixture > 0) add_u32(writer, s, "leading_dense_block_count", s->first_mixture);
    if (s->step > 1) add_u32(writer, s, "interleave_moe_layer_step", s->step);
    if (s->has_shared) add_u32(writer, s, "expert_shared_count", 1);
    if (s->window > 0) add_u32(writer, s, "attention.sliding_window", s->window);
    if (s->is_latent) {
        add_u32(writer, s, "attention.q_lora_rank", Q_LATENT);
        add_u32(writer, s, "attention.kv_lora_rank", LATENT);
    }
    if (s->has_yarn) add_yarn(writer, s);
    gguf_add_tiny_llama_vocabulary(writer, SAMPLE_VOCAB);
}

bool family_sample_write(const struct family_sample *s, const char *path)
{
    struct gguf_writer *writer = gguf_create(3);
    char ffn_norm[48];
    add_metadata(writer, s);
    add_tensor(writer, "token_embd.weight", N_EMBD, SAMPLE_VOCAB, 1);
    add_tensor(writer, "output_norm.weight", N_EMBD, 1, 1);
    add_tensor(writer, "output.weight", N_EMBD, SAMPLE_VOCAB, 1);
    snprintf(ffn_norm, sizeof ffn_norm, "%s.weight", s->ffn_norm);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add(writer, i, "attn_norm.weight", N_EMBD, 1, 1);
        if (s->is_latent)
            add_latent_attention(writer, i);
        else
            add_attention(writer, s, i);
        add(writer, i, ffn_norm, N_EMBD, 1, 1);
        if (i >= s->first_mixture && (i + 1) % s->step == 0)
            add_mixture(writer, s, i);
        else
            add_feed_forward(writer, i, "", N_FF);
    }
    bool saved = gguf_save(writer, path);
    gguf_destroy(writer);
    return saved;
}
