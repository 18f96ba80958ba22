/* nemotron-h.c: Nemotron-H and Nemotron 3: each layer is one block: Mamba 2, attention without positions, a
 * feed-forward network of squared ReLU without a gate, or a mixture of such experts, in some models narrower
 * than the model. Two families: only files of nemotron_h_moe have mixtures. arXiv 2504.03624. */
#include <stdio.h>
#include <string.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "arch/ssm.h"
#include "model/hf/config.h"

#define LEAST_STEP 0.001f /* transformers' default; files don't say */

struct nemotron_h {
    struct decoder decoder;
    struct ssm ssm;
};

/* The tensor of a layer, or NULL. */
static const struct model_tensor *find_in_layer(const struct hparams *h, uint32_t layer, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s.weight", layer, name);
    return model_tensor_find(h->model, full);
}

/* What block each layer is, by its tensors: a file of nemotron_h_moe may give all networks without experts a
 * length of 0. Layers with keys and values have attention. */
static void read_blocks(struct hparams *h, struct decoder *d)
{
    for (uint32_t i = 0; i < d->n_layers; i++) {
        struct decoder_layer *layer = &d->layers[i];
        const struct model_tensor *up = find_in_layer(h, i, "ffn_up");
        layer->rope = NULL;
        layer->is_recurrent = find_in_layer(h, i, "ssm_in") != NULL;
        layer->is_mixture = d->experts.n > 0 && find_in_layer(h, i, "ffn_gate_inp") != NULL;
        if (layer->n_ff == 0 && up && up->ne[1] <= INT32_MAX) layer->n_ff = (uint32_t)up->ne[1];
    }
}

static void nemotron_h_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct nemotron_h *nemotron = hparams;
    struct decoder *d = &nemotron->decoder;
    d->is_hybrid = true;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    if (!hparams_has(h, "attention.layer_norm_rms_epsilon"))
        d->epsilon = hparams_float_from_0(h, "attention.layer_norm_epsilon", d->epsilon);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_RELU_SQUARED);
    d->experts.activation = d->activation;
    d->experts.has_no_gates = true;
    if (d->experts.n > 0) experts_read_router(h, d, ENGINE_ROUTE_SIGMOID, true);
    read_blocks(h, d);
    *info = decoder_info(d);
    for (uint32_t i = 0; i < d->n_layers; i++) info->has_states |= d->layers[i].is_recurrent;
    if (!info->has_states) return;
    ssm_read(h, &nemotron->ssm, true);
    nemotron->ssm.least_step = hparams_float_from_0(h, "ssm.time_step_min", LEAST_STEP);
}

/* The block of this layer: from its normed input [n_embd, n_tokens] to [n_embd, columns]. */
static struct value *run_block(struct graph *g, const struct nemotron_h *nemotron, struct value *x)
{
    const struct decoder *d = &nemotron->decoder;
    const struct decoder_layer *layer = &d->layers[g->layer];
    if (layer->is_recurrent) return ssm_mamba2(g, d, &nemotron->ssm, x);
    if (layer->n_kv_heads > 0) return decoder_attention(g, d, x);
    return decoder_feed_forward_or_mixture(g, d, decoder_layer_output(g, d, x));
}

static void nemotron_h_build(struct graph *g, const void *hparams)
{
    const struct nemotron_h *nemotron = hparams;
    const struct decoder *d = &nemotron->decoder;
    struct value *x = decoder_embed(g, d);
    for (g->layer = 0; g->layer < d->n_layers; g->layer++) {
        struct value *block = run_block(g, nemotron, decoder_norm(g, d, "attn_norm", x));
        x = decoder_layer_end(g, d, decoder_add_block(g, d, decoder_layer_output(g, d, x), block));
    }
    decoder_build_logits(g, d, x);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* A list of words, or a text of letters. */
#define LAYERS "layers_block_type|layer_types|hybrid_override_pattern"

/* The letter of a layer's block: M, *, E or -; 0: it is none of those, or there is no such layer. */
static char block_of(const struct hf_config *config, size_t layer)
{
    static const struct {
        const char *word;
        char letter;
    } words[] = {{"mamba", 'M'},     {"linear_attention", 'M'},
                 {"attention", '*'}, {"full_attention", '*'},
                 {"moe", 'E'},       {"mlp", '-'}};
    const json_t *layers = hf_get(config->json, LAYERS);
    if (json_is_string(layers)) {
        char letter = layer < json_string_length(layers) ? json_string_value(layers)[layer] : 0;
        return letter && strchr("M*E-", letter) ? letter : 0;
    }
    const char *word = json_string_value(json_array_get(layers, layer));
    for (size_t i = 0; i < sizeof words / sizeof *words && word; i++)
        if (strcmp(words[i].word, word) == 0) return words[i].letter;
    return 0;
}

static bool has_mixtures(const struct hf_config *config)
{
    char block;
    for (size_t i = 0; (block = block_of(config, i)); i++)
        if (block == 'E') return true;
    return false;
}

static bool has_no_mixtures(const struct hf_config *config)
{
    return !has_mixtures(config);
}

static void nemotron_h_read_config(struct hf_config *config)
{
    const json_t *json = config->json;
    uint32_t lengths[HF_MAX_LAYERS], n_ff = hf_count(config, json, "moe_intermediate_size", 7688);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        char block = block_of(config, i);
        if (!block)
            hf_fail(config, ENGINE_ERROR_UNSUPPORTED,
                    "layers_block_type lacks layer %u, or has something other than mamba, attention, moe and "
                    "mlp (M, *, E and -) for it",
                    i);
        config->is_recurrent[i] = block != '*';
        lengths[i] = block == 'E' ? n_ff : block == '-' ? config->n_ff : 0;
    }
    config->is_hybrid = true;
    config->has_own_lengths = true;
    hf_put_layer_counts(config, "feed_forward_length", lengths);

    uint64_t inner = (uint64_t)hf_count(config, json, "mamba_num_heads", 128) *
                     hf_count(config, json, "mamba_head_dim", 64);
    if (inner > INT32_MAX)
        hf_fail(config, ENGINE_ERROR_DATA, "mamba_num_heads times mamba_head_dim is not a count");
    config->n_groups = hf_count(config, json, "mamba_n_groups|n_groups", 8);
    hf_put_count(config, "ssm.group_count", config->n_groups);
    hf_put_count(config, "ssm.inner_size", (uint32_t)inner);
    ssm_refuse_limit(config);
    const char *activation = hf_text(config, json, "mamba_hidden_act");
    hf_refuse(config, activation && strcmp(activation, "silu") != 0, "a mamba_hidden_act but silu");
    hf_put_flag(config, "rope.scaling.finetuned", false);
    /* The name under which llama.cpp reads it. */
    hf_put_float(config, "attention.layer_norm_epsilon",
                 hf_number(config, json, config->type.keys.epsilon, config->type.epsilon));
}

#define NUMBERS                                                                                              \
    {"ssm_state_size", "ssm.state_size", HF_COUNT, 128},                                                     \
        {"mamba_d_conv|conv_kernel", "ssm.conv_kernel", HF_COUNT, 4},                                        \
        {"mamba_num_heads", "ssm.time_step_rank", HF_COUNT, 128},                                            \
    {                                                                                                        \
        "mamba_dt_min|time_step_min", "ssm.time_step_min", HF_FLOAT, 0.001                                   \
    }

static const struct hf_key nemotron_h_numbers[] = {
    NUMBERS,
    {0},
};

static const struct hf_key nemotron_h_moe_numbers[] = {
    NUMBERS,
    {"n_routed_experts", "expert_count", HF_COUNT, 8},
    {"num_experts_per_tok", "expert_used_count", HF_COUNT, 2},
    {"n_shared_experts", "expert_shared_count", HF_COUNT, 1},
    {"moe_intermediate_size", "expert_feed_forward_length", HF_COUNT, 7688},
    {"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length", HF_COUNT, 7688},
    {"moe_latent_size", "moe_latent_size", HF_COUNT_OR_NONE, HF_ABSENT},
    {"norm_topk_prob", "expert_weights_norm", HF_FLAG, 1},
    {"routed_scaling_factor", "expert_weights_scale", HF_FLOAT, 1},
    {"n_group", "expert_group_count", HF_COUNT, 1},
    {"topk_group", "expert_group_used_count", HF_COUNT, 1},
    {0},
};

static const struct hf_module nemotron_h_modules[] = {
    SSM_MODULES("mixer"),
    {"mixer.D", "ssm_d."},
    {"mixer.q_proj", "attn_q"},
    {"mixer.k_proj", "attn_k"},
    {"mixer.v_proj", "attn_v"},
    {"mixer.o_proj", "attn_output"},
    {"mixer.up_proj", "ffn_up"},
    {"mixer.down_proj", "ffn_down"},
    {"mixer.gate", "ffn_gate_inp"},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mixer.experts.#.up_proj", "ffn_up_exps"},
    {"mixer.experts.#.down_proj", "ffn_down_exps"},
    {"mixer.experts.up_proj", "ffn_up_exps"},
    {"mixer.experts.down_proj", "ffn_down_exps"},
    {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
    {"mixer.shared_experts.down_proj", "ffn_down_shexp"},
    {"mixer.fc1_latent_proj", "ffn_latent_down"},
    {"mixer.fc2_latent_proj", "ffn_latent_up"},
    {"norm", "attn_norm"},
    {0},
};

static const struct hf_module nemotron_h_outer[] = {
    {"embedding", "token_embd"},
    {0},
};

#define NEMOTRON_H_TYPE                                                                                      \
    .name = "nemotron_h",                                                                                    \
    .keys = {.layers = LAYERS,                                                                               \
             .head_dim = "head_dim|attention_head_dim",                                                      \
             .epsilon = "layer_norm_epsilon",                                                                \
             .activation = "mlp_hidden_act"},                                                                \
    .width = 4096, .layers = 52, .heads = 32, .kv_heads = 8, .head_dim = 128, .ff = 21504, .context = 4096,  \
    .epsilon = 1e-5, .activation = "relu2", .has_no_rope = true,                                             \
    .options = {HF_ATTENTION_BIAS,                                                                           \
                {"mlp_bias", false,                                                                          \
                 "ffn_up|ffn_down|ffn_up_shexp|ffn_down_shexp|ffn_latent_down|"                              \
                 "ffn_latent_up"},                                                                           \
                {"use_bias", false, "ssm_in|ssm_out"},                                                       \
                {"use_conv_bias", true, "ssm_conv1d"}},                                                      \
    .read = nemotron_h_read_config

static const struct hf_type nemotron_h_types[] = {
    {NEMOTRON_H_TYPE, .applies = has_no_mixtures, .when = "without mixtures of experts",
     .numbers = nemotron_h_numbers},
    {0},
};

static const struct hf_type nemotron_h_moe_types[] = {
    {NEMOTRON_H_TYPE, .applies = has_mixtures, .when = "with mixtures of experts",
     .numbers = nemotron_h_moe_numbers},
    {0},
};

static const struct arch_missing nemotron_h_missing[] = {
    {"the least time step of recurrent layers", "0.001, as published", ""},
    {0},
};

const struct architecture arch_nemotron_h = {
    .name = "nemotron_h",
    .models = "Nemotron-H, Nemotron Nano 2: each layer recurrent, with attention, or a feed-forward network",
    .missing = nemotron_h_missing,
    .size = sizeof(struct nemotron_h),
    .read = nemotron_h_read,
    .build = nemotron_h_build,
    .hf = {.types = nemotron_h_types, .modules = nemotron_h_modules, .outer = nemotron_h_outer},
};

const struct architecture arch_nemotron_h_moe = {
    .name = "nemotron_h_moe",
    .models = "Nemotron 3 Nano, Super: the same with mixtures of experts",
    .missing = nemotron_h_missing,
    .size = sizeof(struct nemotron_h),
    .read = nemotron_h_read,
    .build = nemotron_h_build,
    .hf = {.types = nemotron_h_moe_types, .modules = nemotron_h_modules, .outer = nemotron_h_outer},
};
