/* keys.c: the keys of config.json that the code of each model type reads in transformers 5, and the defaults of what
 * config.json leaves out. Keys that are not listed for a type are ignored, as there. See struct hf_keys in config.h.
 * internlm2, minicpm, exaone and kimi_k2 have the defaults of their publishers' code. */
#include <stdio.h>
#include <string.h>

#include "model/hf/config.h"

/* Llama's names, which most types have taken over. */
#define SIZES(WIDTH, LAYERS, HEADS)                                                                          \
    .width = {"hidden_size", WIDTH}, .layers = {"num_hidden_layers", LAYERS},                                \
    .heads = {"num_attention_heads", HEADS}
#define KV_HEADS(N)              .kv_heads = {"num_key_value_heads", N}
#define HEAD_DIM(N)              .head_dim = {"head_dim", N}
#define CONTEXT(N)               .context = {"max_position_embeddings", N}
#define FF(N)                    .ff = {"intermediate_size", N}
#define RMS_EPS(X)               .epsilon = {"rms_norm_eps", X}
#define LAYER_EPS(X)             .epsilon = {"layer_norm_eps", X}
#define NORM_EPS(X)              .epsilon = {"norm_eps", X}
#define SILU                     .activation = "hidden_act", .activation_preset = "silu"
#define ACTIVATION(NAME, PRESET) .activation = NAME, .activation_preset = PRESET
#define THETA(X)                 .theta = {"rope_theta", X}
#define PART                     .part = "partial_rotary_factor"
#define WINDOW(N)                .window = "sliding_window", .window_preset = N
#define LAYER_TYPES              .layer_types = "layer_types"

/* Biases and norms. */
#define QKV                "attn_q|attn_k|attn_v|attn_qkv"
#define ATTENTION          QKV "|attn_output"
#define QK_NORMS           "attn_q_norm|attn_k_norm"
#define MLP                "ffn_gate|ffn_up|ffn_down|ffn_gate_up"
#define OPTIONS(...)       .options = {__VA_ARGS__}
#define ATTENTION_BIAS     OPTIONS({"attention_bias", false, ATTENTION})
#define ATTENTION_MLP_BIAS OPTIONS({"attention_bias", false, ATTENTION}, {"mlp_bias", false, MLP})

/* What gpt_oss has if config.json has no parameters. */
#define GPT_OSS_ROPE                                                                                         \
    "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "                  \
    "\"truncate\": false, \"original_max_position_embeddings\": 4096}"

static const struct hf_keys types[] = {
    {"llama", SIZES(4096, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048), FF(11008), RMS_EPS(1e-6), SILU,
     THETA(1e4), PART, ATTENTION_MLP_BIAS},
    {"mistral", SIZES(4096, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(131072), FF(14336), RMS_EPS(1e-6),
     SILU, THETA(1e4), PART, WINDOW(4096)},
    {"mixtral", SIZES(4096, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(131072), FF(14336), RMS_EPS(1e-5),
     SILU, THETA(1e6), PART, WINDOW(0)},
    {"qwen2", SIZES(4096, 32, 32), KV_HEADS(32), HEAD_DIM(0), CONTEXT(32768), FF(22016), RMS_EPS(1e-6), SILU,
     THETA(1e4), PART, WINDOW(4096), LAYER_TYPES, .window_switch = "use_sliding_window"},
    {"qwen2_moe", SIZES(2048, 24, 16), KV_HEADS(16), HEAD_DIM(0), CONTEXT(32768), FF(5632), RMS_EPS(1e-6),
     SILU, THETA(1e4), PART, WINDOW(4096), LAYER_TYPES, .window_switch = "use_sliding_window",
     OPTIONS({"qkv_bias", true, QKV})},
    {"qwen3", SIZES(4096, 32, 32), KV_HEADS(32), HEAD_DIM(128), CONTEXT(32768), FF(22016), RMS_EPS(1e-6),
     SILU, THETA(1e4), PART, WINDOW(4096), LAYER_TYPES, .window_switch = "use_sliding_window",
     ATTENTION_BIAS},
    {"qwen3_moe", SIZES(2048, 24, 32), KV_HEADS(4), HEAD_DIM(0), CONTEXT(32768), FF(6144), RMS_EPS(1e-6),
     SILU, THETA(1e4), PART, WINDOW(4096), .window_switch = "use_sliding_window", ATTENTION_BIAS},
    {"gemma", SIZES(3072, 28, 16), KV_HEADS(16), HEAD_DIM(256), CONTEXT(8192), FF(24576), RMS_EPS(1e-6),
     ACTIVATION("hidden_act", "gelu_pytorch_tanh"), THETA(1e4), PART, .is_tied = true, ATTENTION_BIAS},
    {"gemma2", SIZES(2304, 26, 8), KV_HEADS(4), HEAD_DIM(256), CONTEXT(8192), FF(9216), RMS_EPS(1e-6),
     ACTIVATION("hidden_activation", "gelu_pytorch_tanh"), THETA(1e4), PART, WINDOW(4096), LAYER_TYPES,
     .is_tied = true, ATTENTION_BIAS},
    {"gemma3_text", SIZES(2304, 26, 8), KV_HEADS(4), HEAD_DIM(256), CONTEXT(131072), FF(9216), RMS_EPS(1e-6),
     ACTIVATION("hidden_activation", "gelu_pytorch_tanh"), THETA(1e6), PART, WINDOW(4096), LAYER_TYPES,
     .window_period = "sliding_window_pattern", .local_theta = {"rope_local_base_freq", 1e4}, .is_tied = true,
     ATTENTION_BIAS},
    {"phi", SIZES(2048, 24, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048), FF(8192), LAYER_EPS(1e-5),
     ACTIVATION("hidden_act", "gelu_new"), THETA(1e4), PART},
    {"phi3", SIZES(3072, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(4096), FF(8192), RMS_EPS(1e-5), SILU,
     THETA(1e4), PART, WINDOW(0), .original_context = 4096},
    {"falcon", .width = {"n_embed|hidden_size", 4544}, .layers = {"num_hidden_layers", 32},
     .heads = {"num_attention_heads", 71}, CONTEXT(2048), .ff = {"ffn_hidden_size", 0},
     .epsilon = {"layer_norm_epsilon", 1e-5}, ACTIVATION("activation", "gelu"), THETA(1e4), PART,
     .is_tied = true, OPTIONS({"bias", false, ATTENTION "|" MLP})},
    {"gpt_neox", SIZES(6144, 44, 64), HEAD_DIM(0), CONTEXT(2048), FF(24576), LAYER_EPS(1e-5),
     ACTIVATION("hidden_act", "gelu"), .theta = {"rotary_emb_base", 1e4}, .part = "rotary_pct",
     OPTIONS({"attention_bias", true, ATTENTION})},
    {"stablelm", SIZES(2560, 32, 32), KV_HEADS(32), HEAD_DIM(0), CONTEXT(4096), FF(6912), LAYER_EPS(1e-5),
     SILU, THETA(1e4), PART, OPTIONS({"use_qkv_bias", false, QKV}, {"qk_layernorm", false, QK_NORMS})},
    {"gpt2", .width = {"hidden_size|n_embd", 768}, .layers = {"num_hidden_layers|n_layer", 12},
     .heads = {"num_attention_heads|n_head", 12}, .context = {"max_position_embeddings|n_positions", 1024},
     .ff = {"n_inner", 0}, .epsilon = {"layer_norm_epsilon", 1e-5},
     ACTIVATION("activation_function", "gelu_new"), .is_tied = true},
    {"starcoder2", SIZES(3072, 30, 24), KV_HEADS(2), HEAD_DIM(0), CONTEXT(4096), FF(12288),
     .epsilon = {"norm_epsilon", 1e-5}, ACTIVATION("hidden_act", "gelu_pytorch_tanh"), THETA(1e4), PART,
     WINDOW(0), .is_tied = true, OPTIONS({"use_bias", true, ATTENTION "|" MLP})},
    {"bloom", .width = {"n_embed|hidden_size", 64}, .layers = {"num_hidden_layers|n_layer", 2},
     .heads = {"num_attention_heads|n_head", 8}, .context = {"seq_length", 2048},
     .epsilon = {"layer_norm_epsilon", 1e-5}, .activation_preset = "gelu_pytorch_tanh", .is_tied = true},
    {"mpt", .width = {"hidden_size|d_model", 2048}, .layers = {"num_hidden_layers|n_layers", 24},
     .heads = {"num_attention_heads|n_heads", 16}, .context = {"max_seq_len", 2048},
     .epsilon = {"layer_norm_epsilon", 1e-5}, .activation_preset = "gelu", .is_tied = true},
    {"cohere", SIZES(8192, 40, 64), KV_HEADS(0), HEAD_DIM(0), CONTEXT(8192), FF(22528), LAYER_EPS(1e-5), SILU,
     THETA(5e5), PART, .is_tied = true,
     OPTIONS({"attention_bias", false, ATTENTION}, {"use_qk_norm", false, QK_NORMS})},
    {"cohere2", SIZES(8192, 40, 64), KV_HEADS(0), HEAD_DIM(0), CONTEXT(8192), FF(22528), LAYER_EPS(1e-5),
     SILU, THETA(1e4), PART, WINDOW(4096), LAYER_TYPES, .window_period = "sliding_window_pattern",
     .is_tied = true, ATTENTION_BIAS},
    {"olmo2", SIZES(4096, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048), FF(11008), RMS_EPS(1e-5), SILU,
     THETA(1e4), PART, ATTENTION_BIAS},
    {"olmo3", SIZES(4096, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048), FF(11008), RMS_EPS(1e-5), SILU,
     THETA(1e4), PART, WINDOW(4096), LAYER_TYPES, ATTENTION_BIAS},
    {"granite", SIZES(4096, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048), FF(11008), RMS_EPS(1e-6), SILU,
     THETA(1e4), PART, ATTENTION_MLP_BIAS},
    {"granitemoe", SIZES(4096, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048), FF(11008), RMS_EPS(1e-6),
     SILU, THETA(1e4), PART, ATTENTION_BIAS},
    {"granitemoeshared", SIZES(4096, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048), FF(11008),
     RMS_EPS(1e-6), SILU, THETA(1e4), PART, ATTENTION_BIAS},
    {"smollm3", SIZES(2048, 36, 16), KV_HEADS(4), HEAD_DIM(0), CONTEXT(32768), FF(11008), RMS_EPS(1e-6), SILU,
     THETA(2e6), PART, WINDOW(0), LAYER_TYPES, .window_switch = "use_sliding_window", .is_tied = true,
     ATTENTION_MLP_BIAS},
    {"internlm2", SIZES(4096, 32, 32), KV_HEADS(0), CONTEXT(2048), FF(11008), RMS_EPS(1e-6), SILU,
     THETA(1e4)},
    {"minicpm", SIZES(4096, 32, 32), KV_HEADS(0), CONTEXT(2048), FF(11008), RMS_EPS(1e-6), SILU, THETA(1e4)},
    {"glm4", SIZES(4096, 40, 32), KV_HEADS(2), HEAD_DIM(128), CONTEXT(131072), FF(13696), RMS_EPS(1.5625e-7),
     SILU, THETA(1e4), PART, OPTIONS({"attention_bias", true, QKV})},
    {"glm4_moe", SIZES(4096, 46, 96), KV_HEADS(8), HEAD_DIM(0), CONTEXT(131072), FF(10944), RMS_EPS(1e-5),
     SILU, THETA(1e4), PART, OPTIONS({"attention_bias", false, QKV}, {"use_qk_norm", false, QK_NORMS})},
    {"nemotron", SIZES(6144, 32, 48), KV_HEADS(0), HEAD_DIM(0), CONTEXT(4096), FF(24576), NORM_EPS(1e-5),
     ACTIVATION("hidden_act", "relu2"), THETA(1e4), PART, ATTENTION_MLP_BIAS},
    {"exaone", .width = {"hidden_size", 2048}, .layers = {"num_layers|num_hidden_layers", 32},
     .heads = {"num_attention_heads", 32}, KV_HEADS(0), CONTEXT(2048), FF(0),
     .epsilon = {"layer_norm_epsilon", 1e-5}, ACTIVATION("activation_function", "silu"), THETA(1e4)},
    {"exaone4", SIZES(4096, 32, 32), KV_HEADS(32), HEAD_DIM(0), CONTEXT(2048), FF(16384), RMS_EPS(1e-5), SILU,
     THETA(1e4), PART, WINDOW(4096), LAYER_TYPES, .window_period = "sliding_window_pattern"},
    {"ernie4_5", SIZES(1024, 18, 16), KV_HEADS(2), HEAD_DIM(128), CONTEXT(131072), FF(3072), RMS_EPS(1e-5),
     SILU, THETA(5e5), PART, .is_tied = true, OPTIONS({"use_bias", false, ATTENTION "|" MLP})},
    {"ernie4_5_moe", SIZES(2560, 28, 20), KV_HEADS(4), HEAD_DIM(0), CONTEXT(131072), FF(12288), RMS_EPS(1e-5),
     SILU, THETA(5e5), PART, .is_tied = true, OPTIONS({"use_bias", false, ATTENTION "|" MLP})},
    {"hunyuan_v1_dense", SIZES(4096, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048), FF(11008),
     RMS_EPS(1e-5), SILU, THETA(1e4), PART, ATTENTION_BIAS},
    {"hunyuan_v1_moe", SIZES(4096, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048), FF(11008), RMS_EPS(1e-5),
     SILU, THETA(1e4), PART, ATTENTION_BIAS},
    {"llama4_text", SIZES(5120, 48, 40), KV_HEADS(8), HEAD_DIM(128), CONTEXT(131072),
     .ff = {"intermediate_size_mlp", 16384}, RMS_EPS(1e-5), SILU, THETA(5e5), PART, ATTENTION_BIAS},
    {"gpt_oss", SIZES(2880, 36, 64), KV_HEADS(8), HEAD_DIM(64), CONTEXT(131072), FF(2880), RMS_EPS(1e-5),
     .activation_preset = "silu", THETA(1.5e5), PART, WINDOW(128), LAYER_TYPES, .rope = GPT_OSS_ROPE,
     OPTIONS({"attention_bias", true, ATTENTION})},
    {"mamba", .width = {"hidden_size", 768}, .layers = {"num_hidden_layers", 32}, .context = {NULL, 1048576},
     .epsilon = {"layer_norm_epsilon", 1e-5}, SILU, .is_tied = true,
     OPTIONS({"use_bias", false, "ssm_in|ssm_out"}, {"use_conv_bias", true, "ssm_conv1d"})},
    {"mamba2", .width = {"hidden_size", 4096}, .layers = {"num_hidden_layers", 64},
     .context = {NULL, 1048576}, .epsilon = {"layer_norm_epsilon", 1e-5}, SILU,
     OPTIONS({"use_bias", false, "ssm_in|ssm_out"}, {"use_conv_bias", true, "ssm_conv1d"})},
    {"falcon_h1", SIZES(4096, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(8192), FF(14336), RMS_EPS(1e-5),
     SILU, THETA(1e4), PART},
    {"granitemoehybrid", SIZES(4096, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048), FF(11008),
     RMS_EPS(1e-6), SILU, THETA(1e4), PART, .layer_types = "layers_block_type|layer_types", ATTENTION_BIAS},
    {"lfm2", SIZES(2560, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(128000),
     .ff = {"block_ff_dim|intermediate_size", 12288}, NORM_EPS(1e-5), .activation_preset = "silu", THETA(1e6),
     PART, LAYER_TYPES, .is_tied = true,
     OPTIONS({"conv_bias", false, "shortconv.conv|shortconv.in_proj|shortconv.out_proj"})},
    {"qwen3_next", SIZES(2048, 48, 16), KV_HEADS(2), HEAD_DIM(256), CONTEXT(32768), FF(5632), RMS_EPS(1e-6),
     SILU, THETA(1e4), PART, LAYER_TYPES, ATTENTION_BIAS},
    {"deepseek_v2", SIZES(4096, 32, 32), CONTEXT(2048), FF(11008), RMS_EPS(1e-6), SILU, THETA(1e4), PART,
     OPTIONS({"attention_bias", false, "attn_q_a|attn_kv_a_mqa|attn_output"})},
    {"deepseek_v3", SIZES(7168, 61, 128), CONTEXT(4096), FF(18432), RMS_EPS(1e-6), SILU, THETA(1e4), PART,
     OPTIONS({"attention_bias", false, "attn_q_a|attn_kv_a_mqa|attn_output"})},
    {"glm4_moe_lite", SIZES(2048, 47, 20), CONTEXT(202752), FF(10240), RMS_EPS(1e-5), SILU, THETA(1e4), PART,
     OPTIONS({"attention_bias", false, "attn_q_a|attn_kv_a_mqa|attn_output"})},
    {"kimi_k2", SIZES(7168, 61, 128), CONTEXT(4096), FF(18432), RMS_EPS(1e-6), SILU, THETA(1e4), PART,
     OPTIONS({"attention_bias", false, "attn_q_a|attn_kv_a_mqa|attn_output"})},
    {"bert", SIZES(768, 12, 12), CONTEXT(512), FF(3072), LAYER_EPS(1e-12), ACTIVATION("hidden_act", "gelu")},
    {"roberta", SIZES(768, 12, 12), CONTEXT(512), FF(3072), LAYER_EPS(1e-12),
     ACTIVATION("hidden_act", "gelu")},
    {"xlm-roberta", SIZES(768, 12, 12), CONTEXT(512), FF(3072), LAYER_EPS(1e-12),
     ACTIVATION("hidden_act", "gelu")},
    {"camembert", SIZES(768, 12, 12), CONTEXT(512), FF(3072), LAYER_EPS(1e-12),
     ACTIVATION("hidden_act", "gelu")},
    {"distilbert", .width = {"hidden_size|dim", 768}, .layers = {"num_hidden_layers|n_layers", 6},
     .heads = {"num_attention_heads|n_heads", 12}, CONTEXT(512), .ff = {"hidden_dim", 3072},
     .epsilon = {NULL, 1e-12}, ACTIVATION("activation", "gelu")},
    {"modernbert", SIZES(768, 22, 12), CONTEXT(8192), FF(1152), NORM_EPS(1e-5),
     ACTIVATION("hidden_activation", "gelu"), .theta = {"global_rope_theta", 1.6e5},
     .local_theta = {"local_rope_theta", 1e4}, .scales_local = true, .window = "local_attention",
     .window_preset = 128, LAYER_TYPES, .window_period = "global_attn_every_n_layers",
     OPTIONS({"attention_bias", false, ATTENTION}, {"mlp_bias", false, MLP})},
    {"t5", .width = {"hidden_size|d_model", 512}, .layers = {"num_hidden_layers|num_layers", 6},
     .heads = {"num_attention_heads|num_heads", 8}, .head_dim = {"head_dim|d_kv", 64},
     .context = {"n_positions", 512}, .ff = {"d_ff", 2048}, .epsilon = {"layer_norm_epsilon", 1e-6},
     ACTIVATION("feed_forward_proj", "relu"), .is_tied = true},
    {"mt5", .width = {"hidden_size|d_model", 512}, .layers = {"num_hidden_layers|num_layers", 8},
     .heads = {"num_attention_heads|num_heads", 6}, .head_dim = {"head_dim|d_kv", 64},
     .context = {"n_positions", 512}, .ff = {"d_ff", 1024}, .epsilon = {"layer_norm_epsilon", 1e-6},
     ACTIVATION("feed_forward_proj", "gated-gelu"), .is_tied = true},
    {"umt5", .width = {"hidden_size|d_model", 512}, .layers = {"num_hidden_layers|num_layers", 8},
     .heads = {"num_attention_heads|num_heads", 6}, .head_dim = {"head_dim|d_kv", 64},
     .context = {"n_positions", 512}, .ff = {"d_ff", 1024}, .epsilon = {"layer_norm_epsilon", 1e-6},
     ACTIVATION("feed_forward_proj", "gated-gelu"), .is_tied = true},
    /* Also by the names of its publisher's code, which its files have. */
    {"nomic_bert", .width = {"hidden_size|n_embd", 768}, .layers = {"num_hidden_layers|n_layer", 12},
     .heads = {"num_attention_heads|n_head", 12}, HEAD_DIM(0),
     .context = {"max_trained_positions|max_position_embeddings|n_positions", 2048},
     .ff = {"intermediate_size|n_inner", 3072}, .epsilon = {"layer_norm_eps|layer_norm_epsilon", 1e-12},
     ACTIVATION("hidden_act|activation_function", "silu"), .theta = {"rope_theta|rotary_emb_base", 1e3},
     .part = "rotary_emb_fraction"},
    {"nomic_bert, num_experts", .width = {"hidden_size|n_embd", 768},
     .layers = {"num_hidden_layers|n_layer", 12}, .heads = {"num_attention_heads|n_head", 12}, HEAD_DIM(0),
     .context = {"max_trained_positions|max_position_embeddings|n_positions", 2048},
     .ff = {"intermediate_size|n_inner", 3072}, .epsilon = {"layer_norm_eps|layer_norm_epsilon", 1e-12},
     ACTIVATION("hidden_act|activation_function", "gelu"), .theta = {"rope_theta|rotary_emb_base", 1e3},
     .part = "rotary_emb_fraction"},
};

const struct hf_keys *hf_keys_find(const char *type)
{
    const struct hf_keys *of_type = NULL;
    size_t length = strcspn(type, ",");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name = types[i].type;
        if (strcmp(name, type) == 0) return &types[i];
        if (strlen(name) == length && memcmp(name, type, length) == 0) of_type = &types[i];
    }
    return of_type;
}

/* Whether a list "a|b" has a name [length]. */
static bool has_name(const char *list, const char *name, size_t length)
{
    for (; list; list = strchr(list, '|') ? strchr(list, '|') + 1 : NULL)
        if (strcspn(list, "|") == length && memcmp(list, name, length) == 0) return true;
    return false;
}

const char *hf_keys_is_off(struct hf_config *config, const char *tensor)
{
    unsigned layer;
    int at = 0;
    if (sscanf(tensor, "blk.%u.%n", &layer, &at) != 1 || at == 0) return NULL;
    tensor += at;
    const char *end = strrchr(tensor, '.');
    size_t length = end ? (size_t)(end - tensor) : strlen(tensor);
    bool is_norm = length > 5 && memcmp(tensor + length - 5, "_norm", 5) == 0;
    if (!is_norm && strcmp(tensor + length, ".bias") != 0) return NULL;
    for (size_t i = 0; i < sizeof config->keys->options / sizeof *config->keys->options; i++) {
        const struct hf_option *option = &config->keys->options[i];
        if (option->key && has_name(option->tensors, tensor, length) &&
            !hf_flag(config, config->json, option->key, option->preset))
            return option->key;
    }
    return NULL;
}
