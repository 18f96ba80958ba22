/* test-family-keys.c: metadata that lies, of families with experts: each lie ends in one line that names the
 * file and what is wrong; the same keys without it are read. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/error.h"
#include "gguf-writer.h"
#include "model/model.h"

#define MAX_LIES 4

/* A key that is as it shouldn't be: a float, or a count where `number` is 0. */
struct lie {
    const char *key;
    uint32_t count;
    float number;
};

struct test_case {
    const char *family;
    struct lie lies[MAX_LIES];
    const char *words; /* of the message */
};

static const struct lie sound[] = {
    {"block_count", 2, 0},          {"context_length", 64, 0},      {"embedding_length", 32, 0},
    {"attention.head_count", 2, 0}, {"feed_forward_length", 48, 0}, {"rope.dimension_count", 8, 0},
    {"expert_count", 6, 0},         {"expert_used_count", 1, 0},    {"expert_feed_forward_length", 16, 0},
};

/* What DeepSeek has besides. */
static const struct lie latent[] = {
    {"attention.head_count_kv", 1, 0},   {"attention.kv_lora_rank", 16, 0},
    {"attention.key_length", 24, 0},     {"attention.value_length", 16, 0},
    {"attention.key_length_mla", 20, 0}, {"attention.value_length_mla", 12, 0},
};

static const char *const families[] = {
    "llama",   "qwen2moe",     "qwen3moe",    "granitemoe", "glm4moe",
    "gpt-oss", "ernie4_5-moe", "hunyuan-moe", "llama4",     "deepseek2",
};

static bool is_lie(const struct test_case *c, const char *key)
{
    for (int i = 0; i < MAX_LIES && c->lies[i].key; i++)
        if (strcmp(c->lies[i].key, key) == 0) return true;
    return false;
}

static void add(struct gguf_writer *writer, const char *family, const struct lie *key)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", family, key->key);
    if (key->number != 0)
        gguf_add_f32(writer, full, key->number);
    else
        gguf_add_u32(writer, full, key->count);
}

/* Has the family read it: the status, with the message in error_message(). */
static int read_keys(const struct test_case *c)
{
    static const float row[32 * 4];
    char path[] = "/tmp/engine-keys-XXXXXX";
    struct gguf_writer *writer = gguf_create(3);
    gguf_add_string(writer, "general.architecture", c->family);
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++)
        if (!is_lie(c, sound[i].key)) add(writer, c->family, &sound[i]);
    for (size_t i = 0; i < sizeof latent / sizeof *latent && strncmp(c->family, "deepseek", 8) == 0; i++)
        if (!is_lie(c, latent[i].key)) add(writer, c->family, &latent[i]);
    for (int i = 0; i < MAX_LIES && c->lies[i].key; i++) add(writer, c->family, &c->lies[i]);
    gguf_add_tensor(writer, "token_embd.weight", ENGINE_TYPE_F32, 2, (uint64_t[]){32, 4}, row, sizeof row);
    cr_assert_geq(mkstemp(path), 0);
    cr_assert(gguf_save(writer, path));
    gguf_destroy(writer);

    struct model *model;
    cr_assert_eq(model_open(path, NULL, &model), ENGINE_OK, "%s", error_message());
    remove(path);
    const struct architecture *architecture = arch_of(model);
    cr_assert_not_null(architecture, "%s", error_message());
    void *hparams = calloc(1, architecture->size);
    struct arch_info info;
    int status = arch_read(architecture, model, hparams, &info);
    if (status) {
        cr_expect_not_null(strstr(error_message(), path), "%s", error_message());
        cr_expect_null(strchr(error_message(), '\n'), "%s", error_message());
    }
    free(hparams);
    model_close(model);
    return status;
}

Test(family_keys, sound_ones_are_read)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        cr_expect_eq(read_keys(&(struct test_case){.family = families[i]}), ENGINE_OK, "%s: %s", families[i],
                     error_message());
}

static void expect_lies(const struct test_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct test_case *c = &cases[i];
        int status = read_keys(c);
        cr_expect(status == ENGINE_ERROR_DATA || status == ENGINE_ERROR_UNSUPPORTED, "%s, %s: status %d",
                  c->family, c->words, status);
        cr_expect(status && strstr(error_message(), c->words), "%s: \"%s\" should have \"%s\"", c->family,
                  status ? error_message() : "", c->words);
    }
}

Test(family_keys, lies_about_experts)
{
    static const struct test_case cases[] = {
        {"llama", {{"expert_used_count", 7, 0}}, "7 of 6 experts"},
        {"qwen2moe", {{"expert_used_count", 0, 0}}, "0 of 6 experts"},
        {"qwen3moe", {{"expert_count", 70000, 0}}, "1 of 70000 experts"},
        {"granitemoe", {{"expert_feed_forward_length", 0, 0}}, "experts of 0 values"},
        {"glm4moe", {{"expert_shared_count", INT32_MAX, 0}}, "experts of 16 values"},
        {"llama", {{"expert_weights_scale", 0, NAN}}, "expert_weights_scale is not a number"},
        {"llama", {{"expert_weights_scale", 0, -1}}, "expert_weights_scale is -1"},
        {"glm4moe", {{"expert_gating_func", 5, 0}}, "expert_gating_func 5"},
        {"ernie4_5-moe", {{"interleave_moe_layer_step", 0, 0}}, "interleave_moe_layer_step is 0"},
        {"llama4", {{"expert_used_count", 2, 0}}, "2 experts per token"},
    };
    expect_lies(cases, sizeof cases / sizeof *cases);
}

Test(family_keys, lies_about_groups)
{
    static const struct test_case cases[] = {
        {"deepseek2", {{"expert_group_count", 4, 0}}, "6 experts from 4 of 4 groups"},
        {"deepseek2", {{"expert_group_count", 3, 0}, {"expert_group_used_count", 4, 0}}, "4 of 3 groups"},
        {"deepseek2", {{"expert_group_count", 3, 0}, {"expert_group_used_count", 0, 0}}, "0 of 3 groups"},
        {"deepseek2", {{"expert_group_count", 100, 0}}, "100 groups"},
        {"deepseek2",
         {{"expert_group_count", 3, 0}, {"expert_group_used_count", 1, 0}, {"expert_used_count", 3, 0}},
         "3 of 6 experts from 1 of 3 groups"},
        /* The two best of a group count with sigmoids. */
        {"glm4moe", {{"expert_group_count", 6, 0}}, "6 of 6 groups"},
    };
    expect_lies(cases, sizeof cases / sizeof *cases);
}

Test(family_keys, lies_about_latent_heads)
{
    static const struct test_case cases[] = {
        {"deepseek2", {{"attention.kv_lora_rank", 15, 0}}, "15 latent"},
        {"deepseek2", {{"attention.kv_lora_rank", 0, 0}}, "attention.kv_lora_rank is missing"},
        {"deepseek2", {{"attention.key_length_mla", 8, 0}}, "8 rotary values"},
        {"deepseek2", {{"attention.value_length_mla", 0, 0}}, "16 latent"},
        {"deepseek2", {{"attention.head_count_kv", 2, 0}}, "16 latent"},
        {"deepseek2", {{"rope.dimension_count", 26, 0}}, "26 dimensions"},
        {"deepseek2", {{"rope.scaling.yarn_log_multiplier", 0, NAN}}, "yarn_log_multiplier is not a number"},
        {"deepseek32", {{"rope.layers", 0, 0}}, "layer 0 has no rope"},
    };
    expect_lies(cases, sizeof cases / sizeof *cases);
}
