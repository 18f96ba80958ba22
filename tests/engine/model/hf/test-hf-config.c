/* test-hf-config.c: config.json as metadata: the defaults of each model type, the keys that it reads and
 * those that it ignores, and the forms of rope's parameters. What is expected was recorded from transformers
 * 5.12.1: the values of its configuration classes, and for the logits its models with the weights of
 * ../shared/families. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "files.h"
#include "model/hf/config.h"
#include "program.h"

FILES_FOLDER_OF_TEST

TestSuite(hf_config, .init = begin, .fini = end);

/* Reads {members} into new metadata; `architecture` receives the family, [32]. */
static struct metadata *read_members(const char *members, char *architecture)
{
    struct hf_config config;
    struct metadata *metadata;
    char text[4096];
    const char *path = files_path(folder, "config.json");
    snprintf(text, sizeof text, "{%s}", members);
    files_write_text(path, text);
    cr_assert_eq(metadata_create(&metadata), ENGINE_OK);
    int status = hf_config_read(path, metadata, &config);
    cr_assert_eq(status, ENGINE_OK, "%s: %s", members, error_message());
    snprintf(architecture, 32, "%s", config.architecture->name);
    hf_config_free(&config);
    cr_assert_eq(metadata_finish(metadata), ENGINE_OK);
    return metadata;
}

/* The number of ARCHITECTURE.key, of an array the first; -1: none. */
static double number_of(const struct metadata *metadata, const char *architecture, const char *key)
{
    char full[128];
    double value = -1;
    int64_t count = -1;
    snprintf(full, sizeof full, "%s.%s", architecture, key);
    const struct metadata_entry *entry = metadata_find(metadata, full);
    if (entry && metadata_entry_integer(entry, 0, &count)) return (double)count;
    if (entry) metadata_entry_float(entry, 0, &value);
    return value;
}

static void expect_number(const struct metadata *metadata, const char *architecture, const char *key,
                          double expected, const char *what)
{
    double value = number_of(metadata, architecture, key);
    cr_expect(fabs(value - expected) <= 1e-6 * fabs(expected), "%s: %s.%s is %g, not %g", what, architecture,
              key, value, expected);
}

/* ---- Defaults ------------------------------------------------------------------------------------------ */

static const struct preset {
    const char *type;
    double width, layers, heads, kv_heads, head_dim, ff, context, epsilon,
        theta; /* -1: the family has none */
    const char *activation;
} presets[] = {
    {"llama", 4096, 32, 32, 32, 128, 11008, 2048, 1e-6, 1e4, "silu"},
    {"mistral", 4096, 32, 32, 8, 128, 14336, 131072, 1e-6, 1e4, "silu"},
    {"mixtral", 4096, 32, 32, 8, 128, 14336, 131072, 1e-5, 1e6, "silu"},
    {"qwen2", 4096, 32, 32, 32, 128, 22016, 32768, 1e-6, 1e4, "silu"},
    {"qwen2_moe", 2048, 24, 16, 16, 128, 5632, 32768, 1e-6, 1e4, "silu"},
    {"qwen3", 4096, 32, 32, 32, 128, 22016, 32768, 1e-6, 1e4, "silu"},
    {"qwen3_moe", 2048, 24, 32, 4, 64, 6144, 32768, 1e-6, 1e4, "silu"},
    {"gemma", 3072, 28, 16, 16, 256, 24576, 8192, 1e-6, 1e4, "gelu_pytorch_tanh"},
    {"gemma2", 2304, 26, 8, 4, 256, 9216, 8192, 1e-6, 1e4, "gelu_pytorch_tanh"},
    {"gemma3_text", 2304, 26, 8, 4, 256, 9216, 131072, 1e-6, 1e6, "gelu_pytorch_tanh"},
    {"phi", 2048, 24, 32, 32, 64, 8192, 2048, 1e-5, 1e4, "gelu_new"},
    {"phi3", 3072, 32, 32, 32, 96, 8192, 4096, 1e-5, 1e4, "silu"},
    {"falcon", 4544, 32, 71, 1, 64, 18176, 2048, 1e-5, 1e4, "gelu"}, /* multi_query */
    {"gpt_neox", 6144, 44, 64, 64, 96, 24576, 2048, 1e-5, 1e4, "gelu"},
    {"stablelm", 2560, 32, 32, 32, 80, 6912, 4096, 1e-5, 1e4, "silu"},
    {"gpt2", 768, 12, 12, 12, 64, 3072, 1024, 1e-5, -1, "gelu_new"},
    {"starcoder2", 3072, 30, 24, 2, 128, 12288, 4096, 1e-5, 1e4, "gelu_pytorch_tanh"},
    {"bloom", 64, 2, 8, 8, 8, 256, 2048, 1e-5, -1, "gelu_pytorch_tanh"},
    {"mpt", 2048, 24, 16, 16, 128, 8192, 2048, 1e-5, -1, "gelu"},
    {"cohere", 8192, 40, 64, 64, 128, 22528, 8192, 1e-5, 5e5, "silu"},
    {"cohere2", 8192, 40, 64, 64, 128, 22528, 8192, 1e-5, 1e4, "silu"},
    {"olmo2", 4096, 32, 32, 32, 128, 11008, 2048, 1e-5, 1e4, "silu"},
    {"olmo3", 4096, 32, 32, 32, 128, 11008, 2048, 1e-5, 1e4, "silu"},
    {"granite", 4096, 32, 32, 32, 128, 11008, 2048, 1e-6, 1e4, "silu"},
    {"granitemoe", 4096, 32, 32, 32, 128, 11008, 2048, 1e-6, 1e4, "silu"},
    {"granitemoeshared", 4096, 32, 32, 32, 128, 11008, 2048, 1e-6, 1e4, "silu"},
    {"smollm3", 2048, 36, 16, 4, 128, 11008, 32768, 1e-6, 2e6, "silu"},
    {"nemotron", 6144, 32, 48, 48, 128, 24576, 4096, 1e-5, 1e4, "relu2"},
    {"glm4", 4096, 40, 32, 2, 128, 13696, 131072, 1.5625e-7, 1e4, "silu"},
    {"glm4_moe", 4096, 46, 96, 8, 42, 10944, 131072, 1e-5, 1e4, "silu"},
    {"exaone4", 4096, 32, 32, 32, 128, 16384, 2048, 1e-5, 1e4, "silu"},
    {"ernie4_5", 1024, 18, 16, 2, 128, 3072, 131072, 1e-5, 5e5, "silu"},
    {"ernie4_5_moe", 2560, 28, 20, 4, 128, 12288, 131072, 1e-5, 5e5, "silu"},
    {"hunyuan_v1_dense", 4096, 32, 32, 32, 128, 11008, 2048, 1e-5, 1e4, "silu"},
    {"hunyuan_v1_moe", 4096, 32, 32, 32, 128, 11008, 2048, 1e-5, 1e4, "silu"},
    {"llama4_text", 5120, 48, 40, 8, 128, 16384, 131072, 1e-5, 5e5, "silu"},
    {"gpt_oss", 2880, 36, 64, 8, 64, 2880, 131072, 1e-5, 1.5e5, "silu"},
    {"mamba", 768, 32, 0, -1, -1, 0, 1048576, 1e-5, -1, "silu"},
    {"mamba2", 4096, 64, 0, -1, -1, 0, 1048576, 1e-5, -1, "silu"},
    {"falcon_h1", 4096, 32, 32, 8, 128, 14336, 8192, 1e-5, 1e4, "silu"},
    {"granitemoehybrid", 4096, 32, 32, 0, 128, 11008, 2048, 1e-6, 1e4, "silu"}, /* all layers are Mamba's */
    {"lfm2", 2560, 32, 32, 8, 80, 8192, 128000, 1e-5, 1e6, "silu"},             /* two thirds of 12288 */
    {"qwen3_next", 2048, 48, 16, 2, 256, 5632, 32768, 1e-6, 1e4, "silu"},
    {"deepseek_v2", 4096, 32, 32, 1, 576, 11008, 2048, 1e-6, 1e4, "silu"},
    {"deepseek_v3", 7168, 61, 128, 1, 576, 18432, 4096, 1e-6, 1e4, "silu"},
    {"glm4_moe_lite", 2048, 47, 20, 1, 576, 10240, 202752, 1e-5, 1e4, "silu"},
    {"bert", 768, 12, 12, 12, 64, 3072, 512, 1e-12, -1, "gelu"},
    {"roberta", 768, 12, 12, 12, 64, 3072, 510, 1e-12, -1, "gelu"}, /* two positions are not for tokens */
    {"xlm-roberta", 768, 12, 12, 12, 64, 3072, 510, 1e-12, -1, "gelu"},
    {"camembert", 768, 12, 12, 12, 64, 3072, 510, 1e-12, -1, "gelu"},
    {"distilbert", 768, 6, 12, 12, 64, 3072, 512, 1e-12, -1, "gelu"},
    {"modernbert", 768, 22, 12, 12, 64, 1152, 8192, 1e-5, 1.6e5, "gelu"},
    {"t5", 512, 6, 8, 8, 64, 2048, 512, 1e-6, -1, "relu"},
    {"mt5", 512, 8, 6, 6, 64, 1024, 512, 1e-6, -1, "gelu_new"},
    {"umt5", 512, 8, 6, 6, 64, 1024, 512, 1e-6, -1, "gelu_new"},
    {"nomic_bert", 768, 12, 12, 12, 64, 3072, 2048, 1e-12, 1e3, "silu"},
};

Test(hf_config, what_is_left_out_has_the_default_of_its_type)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        const struct preset *p = &presets[i];
        char members[128], arch[32], key[128];
        struct engine_string text = {0};
        snprintf(members, sizeof members, "\"model_type\": \"%s\"", p->type);
        struct metadata *metadata = read_members(members, arch);
        expect_number(metadata, arch, "embedding_length", p->width, p->type);
        expect_number(metadata, arch, "block_count", p->layers, p->type);
        expect_number(metadata, arch, "attention.head_count", p->heads, p->type);
        expect_number(metadata, arch, "attention.head_count_kv", p->kv_heads, p->type);
        expect_number(metadata, arch, "attention.key_length", p->head_dim, p->type);
        expect_number(metadata, arch, "feed_forward_length", p->ff, p->type);
        expect_number(metadata, arch, "context_length", p->context, p->type);
        expect_number(metadata, arch, "rope.freq_base", p->theta, p->type);
        double epsilon = number_of(metadata, arch, "attention.layer_norm_epsilon");
        if (epsilon < 0) epsilon = number_of(metadata, arch, "attention.layer_norm_rms_epsilon");
        cr_expect_float_eq(epsilon, p->epsilon, p->epsilon * 1e-6, "%s: epsilon %g", p->type, epsilon);
        snprintf(key, sizeof key, "%s.hidden_activation", arch);
        cr_expect(metadata_string(metadata, key, &text) && text.length == strlen(p->activation) &&
                      memcmp(text.data, p->activation, text.length) == 0,
                  "%s: %.*s, not %s", p->type, (int)text.length, text.data, p->activation);
        metadata_destroy(metadata);
    }
}

/* Members and what a key becomes; -1: there is no such key. */
struct variation {
    const char *members, *key;
    double expected;
};

static void expect_all(const struct variation *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char arch[32];
        struct metadata *metadata = read_members(cases[i].members, arch);
        expect_number(metadata, arch, cases[i].key, cases[i].expected, cases[i].members);
        metadata_destroy(metadata);
    }
}
#define EXPECT_ALL(CASES) expect_all(CASES, sizeof(CASES) / sizeof *(CASES))
#define OF(TYPE)          "\"model_type\": \"" TYPE "\", "
#define WIDTH             "\"hidden_size\": 64, \"num_attention_heads\": 4, "

Test(hf_config, numbers_of_some_types_have_defaults_too)
{
    static const struct variation cases[] = {
        {OF("gemma2") WIDTH "\"head_dim\": 16", "attn_logit_softcapping", 50},
        {OF("gemma2") WIDTH "\"head_dim\": 16", "final_logit_softcapping", 30},
        {OF("gemma2") WIDTH "\"attn_logit_softcapping\": null", "attn_logit_softcapping", 0},
        {OF("gemma3_text") WIDTH "\"head_dim\": 16", "final_logit_softcapping", 0},
        {OF("deepseek_v2") WIDTH "\"head_dim\": 16", "attention.q_lora_rank", 1536},
        {OF("deepseek_v2") WIDTH "\"q_lora_rank\": null", "attention.q_lora_rank", -1},
        {OF("deepseek_v2") WIDTH "\"head_dim\": 16", "leading_dense_block_count", 0},
        {OF("deepseek_v2") WIDTH "\"norm_topk_prob\": true", "expert_weights_norm", 0},
        {OF("deepseek_v2") WIDTH "\"head_dim\": 16", "expert_group_count", 1},
        {OF("deepseek_v3") WIDTH "\"head_dim\": 16", "leading_dense_block_count", 3},
        {OF("deepseek_v3") WIDTH "\"head_dim\": 16", "expert_weights_scale", 2.5},
        {OF("deepseek_v3") WIDTH "\"head_dim\": 16", "expert_group_used_count", 4},
        {OF("glm4_moe_lite") WIDTH "\"head_dim\": 16", "expert_count", 64},
        {OF("glm4_moe_lite") WIDTH "\"head_dim\": 16", "attention.value_length_mla", 256},
        {OF("hunyuan_v1_moe") WIDTH "\"head_dim\": 16", "expert_count", 1},
        {OF("falcon_h1") WIDTH "\"head_dim\": 16", "ssm.inner_size", 1024},
        {OF("falcon_h1") WIDTH "\"mamba_d_ssm\": null", "ssm.inner_size", 128},
        {OF("gpt_oss") WIDTH "\"head_dim\": 16", "rope.scaling.factor", 32},
        {OF("gpt_oss") WIDTH "\"head_dim\": 16", "rope.scaling.yarn_truncate", 0},
        {OF("gpt_oss") "\"rope_scaling\": {\"rope_type\": \"default\"}", "rope.scaling.factor", -1},
        {OF("mistral") WIDTH "\"head_dim\": 16", "attention.sliding_window", 4096},
        {OF("mistral") WIDTH "\"num_key_value_heads\": null", "attention.head_count_kv", 4},
        {OF("ernie4_5") WIDTH "\"head_dim\": null", "attention.key_length", 16},
    };
    EXPECT_ALL(cases);
}

/* ---- Keys of other types ------------------------------------------------------------------------------- */

Test(hf_config, keys_that_a_type_does_not_read_are_ignored)
{
    static const struct variation cases[] = {
        {OF("llama") "\"sliding_window\": 8", "attention.sliding_window", -1},
        {OF("llama") "\"sliding_window\": 8, \"layer_types\": [\"full_attention\"]",
         "attention.sliding_window", -1},
        {OF("llama") "\"layer_norm_epsilon\": 0.5, \"norm_eps\": 0.5", "attention.layer_norm_rms_epsilon",
         1e-6},
        {OF("llama") "\"n_embd\": 32, \"d_model\": 32, \"dim\": 32", "embedding_length", 4096},
        {OF("llama") "\"intermediate_size_mlp\": 32, \"ffn_hidden_size\": 32", "feed_forward_length", 11008},
        {OF("llama") "\"rotary_emb_base\": 5, \"global_rope_theta\": 5", "rope.freq_base", 1e4},
        {OF("gpt_neox") "\"rope_theta\": 5", "rope.freq_base", 1e4},
        {OF("gpt_neox") "\"rotary_emb_base\": 5", "rope.freq_base", 5},
        {OF("gpt_neox") "\"num_key_value_heads\": 2", "attention.head_count_kv", 64},
        {OF("gpt2") "\"intermediate_size\": 96", "feed_forward_length", 3072},
        {OF("gpt2") "\"n_embd\": 24, \"n_inner\": 96", "feed_forward_length", 96},
        {OF("gpt2") "\"hidden_size\": 24", "embedding_length", 24}, /* attribute_map has it */
        {OF("bloom") "\"n_embed\": 24, \"hidden_size\": 48", "embedding_length", 24},
        {OF("phi3") "\"layer_types\": [\"chunked_attention\"]", "attention.sliding_window", 0},
        {OF("gemma3_text") "\"_sliding_window_pattern\": 2, \"num_hidden_layers\": 2",
         "attention.sliding_window", 4096},
        {OF("qwen2") "\"sliding_window\": 8", "attention.sliding_window", 0},
        {OF("qwen2") "\"sliding_window\": 8, \"use_sliding_window\": true", "attention.sliding_window", 8},
        {OF("smollm3") "\"sliding_window\": 8, \"use_sliding_window\": true", "attention.sliding_window", 8},
        {OF("modernbert") "\"sliding_window\": 8", "attention.sliding_window", 16}, /* to either side */
        {OF("distilbert") "\"layer_norm_eps\": 0.5", "attention.layer_norm_epsilon", 1e-12},
        {OF("granitemoehybrid") WIDTH "\"mamba_d_ssm\": 4", "ssm.inner_size", 128},
        {OF("granitemoe") "\"shared_intermediate_size\": 8", "expert_shared_feed_forward_length", -1},
        {OF("falcon") "\"new_decoder_architecture\": true, \"n_head_kv\": 8", "attention.head_count_kv", 71},
        {OF("qwen3_moe") "\"num_local_experts\": 8, \"num_experts\": 4", "expert_count", 8},
        {OF("mixtral") "\"num_local_experts\": 8, \"num_experts\": 4", "expert_count", 4},
        {OF("ernie4_5_moe") "\"num_experts_per_tok\": 3", "expert_used_count", 3},
    };
    EXPECT_ALL(cases);
}

Test(hf_config, activations_come_from_the_key_of_the_type)
{
    static const struct {
        const char *type, *key, *other;
    } types[] = {{"llama", "hidden_act", "hidden_activation"},
                 {"gemma", "hidden_act", "hidden_activation"},
                 {"gemma2", "hidden_activation", "hidden_act"},
                 {"modernbert", "hidden_activation", "hidden_act"},
                 {"gpt2", "activation_function", "hidden_act"},
                 {"falcon", "activation", "hidden_act"},
                 {"t5", "feed_forward_proj", "hidden_act"},
                 {"lfm2", NULL, "hidden_act"},
                 {"bloom", NULL, "hidden_act"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char members[256], arch[32], key[128];
        struct engine_string text = {0};
        snprintf(members, sizeof members, "\"model_type\": \"%s\", \"%s\": \"relu2\", \"%s\": \"gelu_fast\"",
                 types[i].type, types[i].key ? types[i].key : "x", types[i].other);
        struct metadata *metadata = read_members(members, arch);
        snprintf(key, sizeof key, "%s.hidden_activation", arch);
        cr_assert(metadata_string(metadata, key, &text));
        bool is_own = text.length == 5 && memcmp(text.data, "relu2", 5) == 0;
        cr_expect(types[i].key ? is_own : text.length != 9, "%s: %.*s", types[i].type, (int)text.length,
                  text.data);
        metadata_destroy(metadata);
    }
}

static bool slides(const char *members, size_t layer)
{
    char arch[32], key[128];
    int64_t flag = -1;
    struct metadata *metadata = read_members(members, arch);
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", arch);
    const struct metadata_entry *entry = metadata_find(metadata, key);
    cr_assert(entry && metadata_entry_integer(entry, layer, &flag), "%s", members);
    metadata_destroy(metadata);
    return flag != 0;
}

/* Which of the layers 0 to 5 have the window. */
Test(hf_config, windows_lie_where_the_type_has_them)
{
#define SIX "\"num_hidden_layers\": 6, \"use_sliding_window\": true, \"sliding_window\": 8"
    static const struct {
        const char *members, *layers;
    } cases[] = {
        {OF("mistral") SIX ", \"layer_types\": [\"full_attention\"]", "111111"},
        {OF("qwen2") SIX ", \"max_window_layers\": 4", "000011"},
        {OF("qwen2_moe") SIX ", \"max_window_layers\": 4", "101000"},
        {OF("qwen3_moe") SIX ", \"max_window_layers\": 4", "111111"},
        {OF("gemma2") SIX ", \"sliding_window_pattern\": 3", "101010"},
        {OF("gemma3_text") SIX ", \"sliding_window_pattern\": 3", "110110"},
        {OF("gemma3_text") SIX ", \"_sliding_window_pattern\": 3", "111110"},
        {OF("cohere2") SIX ", \"sliding_window_pattern\": 3", "110110"},
        {OF("olmo3") SIX ", \"sliding_window_pattern\": 3", "111011"},
        {OF("smollm3") SIX ", \"no_rope_layer_interval\": 3", "001001"},
        {OF("gpt_oss") SIX, "101010"},
        {OF("modernbert") SIX ", \"global_attn_every_n_layers\": 2", "010101"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t layer = 0; layer < 6; layer++)
            cr_expect_eq(slides(cases[i].members, layer), cases[i].layers[layer] == '1', "%s: layer %zu",
                         cases[i].members, layer);
}

/* ---- Rope ---------------------------------------------------------------------------------------------- */

#define PARAMETERS "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500.0}, "
#define YARN                                                                                                 \
    "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 64}"

/* The descriptor of a model_type. */
static const struct hf_type *type_of(const char *name)
{
    const struct architecture *architecture;
    for (size_t i = 0; (architecture = arch_at(i)); i++)
        for (const struct hf_type *type = architecture->hf.types; type && type->name; type++)
            if (strcmp(type->name, name) == 0 && !type->applies) return type;
    cr_assert(false, "no type %s", name);
    return NULL;
}

/* rope_scaling replaces rope_parameters, with its theta, in every family with one rope. */
Test(hf_config, rope_scaling_counts_more_than_rope_parameters)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        const struct preset *p = &presets[i];
        char members[512], arch[32];
        const struct hf_type *type = type_of(p->type);
        if (p->theta < 0 || type->keys.local_theta) continue;
        snprintf(members, sizeof members, "\"model_type\": \"%s\", \"partial_rotary_factor\": 1, %s%s",
                 p->type, PARAMETERS, YARN);
        struct metadata *metadata = read_members(members, arch);
        expect_number(metadata, arch, "rope.scaling.factor", 4, p->type);
        expect_number(metadata, arch, "rope.freq_base", p->theta, p->type);
        expect_number(metadata, arch, "rope.scaling.original_context_length",
                      type->original_context ? 4096 : 64, p->type);
        metadata_destroy(metadata);
    }
}

Test(hf_config, rope_has_its_parameters_where_transformers_reads_them)
{
    static const struct variation cases[] = {
        {OF("llama") PARAMETERS "\"rope_scaling\": null", "rope.freq_base", 500},
        {OF("llama") PARAMETERS "\"rope_scaling\": {}", "rope.freq_base", 500},
        {OF("llama") PARAMETERS "\"rope_theta\": 20", "rope.freq_base", 500},
        {OF("llama") PARAMETERS YARN ", \"rope_theta\": 20", "rope.freq_base", 20},
        {OF("llama") "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"rope_theta\": 30}, "
                     "\"rope_theta\": 20",
         "rope.freq_base", 30},
        {OF("llama") "\"rope_parameters\": {\"type\": \"linear\", \"factor\": 2}, \"rope_theta\": 20",
         "rope.scaling.factor", 2},
        {OF("llama") "\"rope_parameters\": {\"type\": \"linear\", \"factor\": 2}, \"rope_theta\": 20",
         "rope.freq_base", 20},
        {OF("llama") "\"rope_scaling\": {\"rope_type\": \"linear\", \"type\": \"yarn\", \"factor\": 2}",
         "rope.scaling.yarn_beta_fast", -1},
        {OF("llama") YARN ", \"original_max_position_embeddings\": 32",
         "rope.scaling.original_context_length", 32},
        {OF("llama") "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 30}}", "rope.freq_base",
         1e4},
        /* Models with windows: rope_scaling is added to what other layers have. */
        {OF("gemma3_text") "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 30}}",
         "rope.freq_base", 30},
        {OF("gemma3_text") "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 30}}, "
                           "\"rope_scaling\": "
                           "{\"rope_type\": \"linear\", \"factor\": 8}",
         "rope.freq_base", 30},
        {OF("gemma3_text") "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 30}}, "
                           "\"rope_scaling\": "
                           "{\"rope_type\": \"linear\", \"factor\": 8}",
         "rope.scaling.factor", 8},
        {OF("gemma3_text") "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 8}", "rope.scaling.factor",
         -1},
        {OF("gemma3_text") "\"rope_theta\": 30, \"rope_local_base_freq\": 20", "rope.freq_base_swa", 20},
        {OF("gemma3_text") "\"rope_parameters\": {\"sliding_attention\": {\"rope_theta\": 10}}, "
                           "\"rope_local_base_freq\": 20",
         "rope.freq_base_swa", 10},
        {OF("modernbert") "\"global_rope_theta\": 30, \"rope_theta\": 20", "rope.freq_base", 30},
    };
    EXPECT_ALL(cases);
}

static void keep_line(void *user, enum engine_log_level level, const char *line)
{
    (void)level;
    snprintf(user, 512, "%s", line);
}

Test(hf_config, a_theta_that_is_replaced_is_named)
{
    char line[512] = "", arch[32];
    log_to(keep_line, line);
    metadata_destroy(read_members(OF("qwen3") PARAMETERS YARN, arch));
    cr_expect(strstr(line, "rope_scaling replaces rope_parameters") && strstr(line, "10000, not 500"), "%s",
              line);
    *line = '\0';
    metadata_destroy(read_members(OF("qwen3") PARAMETERS YARN ", \"rope_theta\": 20", arch));
    cr_expect_str_empty(line);
    log_to(NULL, NULL);
}

/* ---- Logits -------------------------------------------------------------------------------------------- */

#define FAMILIES TEST_SHARED_DIR "/families/"

/* The first logits of the last token that transformers gives with these members in config.json. */
static const struct varied {
    const char *model, *members;
    float logits[4];
} varied[] = {
    {"llama",
     "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}",
     {-1.40991F, -0.04811F, -2.36568F, 2.32135F}},
    {"llama",
     "\"sliding_window\": 8, \"hidden_activation\": \"relu\", \"layer_types\": [\"sliding_attention\", "
     "\"sliding_attention\"]",
     {-0.69194F, -0.65985F, -2.18607F, 1.78003F}},
    {"llama", "\"tie_word_embeddings\": true", {-0.69194F, -0.65985F, -2.18607F, 1.78003F}},
    {"qwen3",
     "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 64}",
     {-0.14630F, 0.59838F, -0.92060F, -0.21937F}},
    {"gemma3",
     "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8.0}",
     {-15.87715F, -7.97701F, -9.35479F, -13.64383F}},
    {"granitemoe", "\"hidden_act\": \"relu\"", {0.02479F, 0.23952F, -0.08386F, 0.23454F}},
    {"llama-bias",
     "\"attention_bias\": false, \"mlp_bias\": false",
     {-1.24818F, 0.61255F, -0.81854F, -1.80962F}},
    {"stablelm-12b", "\"qk_layernorm\": false", {2.25502F, 0.79604F, 0.97663F, 0.09801F}},
    {"../families-2026/ministral3",
     "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e6, \"llama_4_scaling_beta\": 0.1, "
     "\"original_max_position_embeddings\": 16}",
     {-0.00420F, 0.02406F, -0.65174F, 0.41568F}},
};

/* The directory of a model with links to its files, and these members in config.json. */
static void write_variation(const struct varied *v)
{
    char from[1024], members[512];
    end(), begin(); /* without the files of another */
    snprintf(from, sizeof from, FAMILIES "%s", v->model);
    DIR *files = opendir(from);
    cr_assert(files);
    for (struct dirent *file; (file = readdir(files));) {
        if (file->d_name[0] == '.') continue;
        snprintf(from, sizeof from, FAMILIES "%s/%s", v->model, file->d_name);
        if (strcmp(file->d_name, "config.json") != 0)
            cr_assert_eq(symlink(from, files_path(folder, file->d_name)), 0);
    }
    closedir(files);
    snprintf(from, sizeof from, FAMILIES "%s/config.json", v->model);
    snprintf(members, sizeof members, "{%s}", v->members);
    json_t *json = json_load_file(from, 0, NULL), *more = json_loads(members, 0, NULL);
    cr_assert(json && more && json_object_update(json, more) == 0, "%s", members);
    cr_assert_eq(json_dump_file(json, files_path(folder, "config.json"), 0), 0);
    json_decref(json);
    json_decref(more);
}

Test(hf_config, logits_of_variations_are_those_of_transformers, .timeout = 600)
{
    enum { N_VOCABULARY = 512 };
    if (access(FAMILIES "facts.md", R_OK) != 0) cr_skip_test("no ../shared here");
    for (size_t i = 0; i < sizeof varied / sizeof *varied; i++) {
        char tokens[1024];
        float row[N_VOCABULARY];
        size_t size;
        write_variation(&varied[i]);
        snprintf(tokens, sizeof tokens, FAMILIES "%s.tokens.npy", varied[i].model);
        char *out = strdup(files_path(folder, "out.npy"));
        struct program_result result = PROGRAM("logits", "-m", folder, "--backend", "cpu", "--cache-type",
                                               "f32", "--tokens-file", tokens, "-o", out);
        cr_assert_eq(result.status, 0, "%s: %s", varied[i].model, result.err);
        program_free(&result);
        char *npy = files_read(out, &size);
        cr_assert(size > sizeof row);
        memcpy(row, npy + size - sizeof row, sizeof row);
        for (int k = 0; k < 4; k++)
            cr_expect_float_eq(row[k], varied[i].logits[k], 1e-4, "%s with %s: logit %d is %g, not %g",
                               varied[i].model, varied[i].members, k, (double)row[k],
                               (double)varied[i].logits[k]);
        free(npy), free(out);
    }
}
