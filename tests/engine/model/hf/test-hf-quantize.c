/* test-hf-quantize.c: `engine quantize` with Hugging Face directories: what the file has, and that the
 * engine computes the same from it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter-writer.h"
#include "base/error.h"
#include "files.h"
#include "gguf-writer.h"
#include "model/model.h"
#include "model/types.h"
#include "plan/plan.h"
#include "program.h"
#include "quantize/encode.h"

static char *folder, *directory;

/* A mixture of two experts, of width 64. */
static const struct stored {
    const char *name;
    size_t rows, columns;
} stored[] = {
    {"model.embed_tokens.weight", 96, 64},
    {"model.norm.weight", 1, 64},
    {"lm_head.weight", 96, 64},
    {"model.layers.0.input_layernorm.weight", 1, 64},
    {"model.layers.0.post_attention_layernorm.weight", 1, 64},
    {"model.layers.0.self_attn.q_proj.weight", 64, 64},
    {"model.layers.0.self_attn.k_proj.weight", 32, 64},
    {"model.layers.0.self_attn.v_proj.weight", 32, 64},
    {"model.layers.0.self_attn.o_proj.weight", 64, 64},
    {"model.layers.0.block_sparse_moe.gate.weight", 2, 64},
    {"model.layers.0.block_sparse_moe.experts.0.w1.weight", 32, 64},
    {"model.layers.0.block_sparse_moe.experts.0.w2.weight", 64, 32},
    {"model.layers.0.block_sparse_moe.experts.0.w3.weight", 32, 64},
    {"model.layers.0.block_sparse_moe.experts.1.w1.weight", 32, 64},
    {"model.layers.0.block_sparse_moe.experts.1.w2.weight", 64, 32},
    {"model.layers.0.block_sparse_moe.experts.1.w3.weight", 32, 64},
};

static void begin(void)
{
    folder = files_folder();
    directory = strdup(files_path(folder, "tiny-mixture-v2"));
    cr_assert_eq(mkdir(directory, 0755), 0);
    files_write_text(files_path(directory, "config.json"),
                     "{\"model_type\": \"mixtral\", \"hidden_size\": 64, \"num_attention_heads\": 4, "
                     "\"num_key_value_heads\": 2, \"intermediate_size\": 32, \"vocab_size\": 96, "
                     "\"num_hidden_layers\": 1, \"num_local_experts\": 2, \"num_experts_per_tok\": 1}");
    struct tensor_file *file = tensor_file_create();
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++) {
        float *values = factor_values(stored[i].name, stored[i].rows * stored[i].columns);
        tensor_file_add(file, stored[i].name, stored[i].rows, stored[i].columns, values);
        free(values);
    }
    tensor_file_save(file, files_path(directory, "model.safetensors"));
}

static void end(void)
{
    files_remove(folder);
    free(folder), free(directory);
}

TestSuite(hf_quantize, .init = begin, .fini = end);

static void quantize(const char *to, const char *type)
{
    struct program_result result = PROGRAM("quantize", directory, files_path(folder, to), type);
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
}

/* The logits that the program prints, as the bytes of an .npy file. */
static char *logits(const char *model, const char *option, const char *value, size_t *size)
{
    struct program_result result = PROGRAM("logits", "-m", model, "--tokens", "5 17 3 80", "--backend", "cpu",
                                           "-o", files_path(folder, "logits.npy"), "-t", "2", option, value);
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    char *bytes = files_read(files_path(folder, "logits.npy"), size);
    unlink(files_path(folder, "logits.npy"));
    return bytes;
}

static void expect_same_logits(const char *left, const char *right, const char *option, const char *value)
{
    size_t size, other;
    char *a = logits(left, NULL, NULL, &size), *b = logits(right, option, value, &other);
    cr_expect(size == other && memcmp(a, b, size) == 0, "%s and %s", left, right);
    free(a), free(b);
}

static void expect_text(const struct model *model, const char *key, const char *expected)
{
    struct engine_string text = {"", 0};
    metadata_string(model_metadata(model), key, &text);
    cr_expect(text.length == strlen(expected) && memcmp(text.data, expected, text.length) == 0, "%s: '%.*s'",
              key, (int)text.length, text.data);
}

/* As llama.cpp's converter writes them. */
Test(hf_quantize, describes_the_model)
{
    struct model *model;
    quantize("f16.gguf", "F16");
    cr_assert_eq(model_open(files_path(folder, "f16.gguf"), NULL, &model), ENGINE_OK);
    expect_text(model, "general.type", "model");
    expect_text(model, "general.name", "Tiny Mixture v2");
    expect_text(model, "general.size_label", "2x31K");
    model_close(model);
}

/* Matrices get the type; norms, vectors and routers F32. */
Test(hf_quantize, writes_each_plain_type)
{
    static const char *const names[] = {"F32", "F16", "BF16"};
    for (size_t t = 0; t < 3; t++) {
        struct model *model;
        uint32_t type;
        cr_assert(type_by_name(names[t], &type));
        quantize("plain.gguf", names[t]);
        cr_assert_eq(model_open(files_path(folder, "plain.gguf"), NULL, &model), ENGINE_OK);
        cr_expect_eq(model_tensor_find(model, "blk.0.ffn_up_exps.weight")->type, type);
        cr_expect_eq(model_tensor_find(model, "blk.0.attn_q.weight")->type, type);
        cr_expect_eq(model_tensor_find(model, "blk.0.ffn_gate_inp.weight")->type, ENGINE_TYPE_F32);
        cr_expect_eq(model_tensor_find(model, "blk.0.attn_norm.weight")->type, ENGINE_TYPE_F32);
        model_close(model);
    }
}

Test(hf_quantize, gives_the_directorys_logits)
{
    quantize("f32.gguf", "F32");
    expect_same_logits(directory, files_path(folder, "f32.gguf"), NULL, NULL);
}

/* Its own files stay, whether the directory or its config.json names the model. */
Test(hf_quantize, does_not_write_to_the_directorys_files)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    char config[4096];
    snprintf(config, sizeof config, "%s/config.json", directory);
    for (size_t i = 0; i < 4; i++) {
        char out[4096];
        size_t before, after;
        snprintf(out, sizeof out, "%s/%s", directory, files[i / 2]);
        char *old = files_read(out, &before);
        struct program_result result = PROGRAM("quantize", i % 2 ? config : directory, out, "F16");
        cr_expect_eq(result.status, 2, "%s", result.err);
        cr_expect(strstr(result.err, "the same file as the input"), "%s", result.err);
        program_free(&result);
        char *new = files_read(out, &after);
        cr_expect(before == after && memcmp(old, new, after) == 0, "%s was overwritten", out);
        free(old), free(new);
    }
}

/* ---- Recurrent models ---- */

/* Mamba 2 with one layer: width 16, 4 heads of 8 values and 8 keys in 2 groups. Rows 0: a list. */
static void write_mamba2(const char *to)
{
    static const struct stored tensors[] = {
        {"backbone.embeddings.weight", 96, 16},
        {"backbone.norm_f.weight", 0, 16},
        {"lm_head.weight", 96, 16},
        {"backbone.layers.0.norm.weight", 0, 16},
        {"backbone.layers.0.mixer.in_proj.weight", 100, 16},
        {"backbone.layers.0.mixer.conv1d.weight", 64, 4},
        {"backbone.layers.0.mixer.conv1d.bias", 0, 64},
        {"backbone.layers.0.mixer.dt_bias", 0, 4},
        {"backbone.layers.0.mixer.A_log", 0, 4},
        {"backbone.layers.0.mixer.D", 0, 4},
        {"backbone.layers.0.mixer.norm.weight", 0, 32},
        {"backbone.layers.0.mixer.out_proj.weight", 16, 32},
    };
    struct tensor_file *file = tensor_file_create();
    cr_assert_eq(mkdir(to, 0755), 0);
    files_write_text(files_path(to, "config.json"),
                     "{\"model_type\": \"mamba2\", \"time_step_limit\": [0.0, Infinity], \"hidden_size\": "
                     "16, \"num_heads\": 4, \"head_dim\": 8, "
                     "\"state_size\": 8, \"n_groups\": 2, \"vocab_size\": 96, \"num_hidden_layers\": 1}");
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const struct stored *t = &tensors[i];
        float *values = factor_values(t->name, (t->rows ? t->rows : 1) * t->columns);
        tensor_file_add(file, t->name, t->rows, t->columns, values);
        free(values);
    }
    tensor_file_save(file, files_path(to, "model.safetensors"));
}

static void expect_shape(const struct model *model, const char *name, uint64_t ne0, uint64_t ne1)
{
    const struct model_tensor *tensor = model_tensor_find(model, name);
    cr_assert_not_null(tensor, "%s", name);
    cr_expect(tensor->ne[0] == ne0 && tensor->ne[1] == ne1, "%s [%d, %d]", name, (int)tensor->ne[0],
              (int)tensor->ne[1]);
}

/* llama.cpp loads it only with these shapes. */
Test(hf_quantize, mamba2_has_the_shapes_of_gguf)
{
    struct model *model;
    free(directory);
    directory = strdup(files_path(folder, "mamba2"));
    write_mamba2(directory);
    quantize("f32.gguf", "F32");
    cr_assert_eq(model_open(files_path(folder, "f32.gguf"), NULL, &model), ENGINE_OK);
    expect_shape(model, "blk.0.ssm_a", 1, 4);
    expect_shape(model, "blk.0.ssm_d", 1, 4);
    expect_shape(model, "blk.0.ssm_norm.weight", 16, 2);
    expect_shape(model, "blk.0.ssm_conv1d.weight", 4, 64);
    model_close(model);
    expect_same_logits(directory, files_path(folder, "f32.gguf"), NULL, NULL);
}

/* ---- --load-type ---- */

/* Quantised while loading is quantised to the bit as in a file; from a file of 16 bits, too. */
Test(hf_quantize, load_type_is_what_a_file_would_have)
{
    static const char *const types[] = {"Q4_0", "Q8_0", "F16"};
    for (size_t t = 0; t < 3; t++) {
        quantize("out.gguf", types[t]);
        expect_same_logits(files_path(folder, "out.gguf"), directory, "--load-type", types[t]);
    }
    quantize("f32.gguf", "F32");
    quantize("out.gguf", "Q8_0");
    expect_same_logits(files_path(folder, "out.gguf"), files_path(folder, "f32.gguf"), "--load-type", "Q8_0");
}

Test(hf_quantize, plans_count_the_load_type)
{
    struct program_result full = PROGRAM("plan", "-m", directory, "--backend", "cpu"),
                          loaded = PROGRAM("plan", "-m", directory, "--backend", "cpu", "--load-type", "F16");
    cr_expect_eq(full.status, 0, "%s", full.err);
    cr_expect_eq(loaded.status, 0, "%s", loaded.err);
    cr_expect_str_neq(full.out, loaded.out);
    program_free(&full), program_free(&loaded);
}

static void expect_failure(int status, const char *word, const char *model, const char *type)
{
    struct program_result result = PROGRAM("logits", "-m", model, "--tokens", "5", "--backend", "cpu",
                                           "--top", "1", "--load-type", type);
    cr_expect(strstr(result.err, word), "%s", result.err); /* perhaps after a warning */
    cr_expect_eq(result.status, status, "%s", result.err);
    program_free(&result);
}

Test(hf_quantize, load_types_are_refused_with_one_line)
{
    quantize("q8.gguf", "Q8_0");
    expect_failure(2, "Q4_7", directory, "Q4_7");
    expect_failure(1, "is already Q8_0", files_path(folder, "q8.gguf"), "Q4_0");
}

/* A value that no block can have is found when its tensor is loaded. */
Test(hf_quantize, values_that_are_not_finite_are_refused)
{
    static const uint8_t nan[4] = {0, 0, 0xc0, 0x7f};
    size_t size;
    const char *path = files_path(directory, "model.safetensors");
    char *bytes = files_read(path, &size);
    memcpy(bytes + size - 4, nan, sizeof nan); /* of the last tensor */
    files_write(path, bytes, size);
    free(bytes);
    expect_failure(1, "blk.0.ffn_up_exps.weight has values that are not finite", directory, "Q4_0");
}

/* ---- Exact results ---- */

/* Rows of 512 values, whose inputs the CPU otherwise rounds to bytes. */
Test(hf_quantize, without_integers_results_are_those_of_the_dequantised_model)
{
    struct tiny_llama config = {
        .seed = 5, .type = ENGINE_TYPE_Q4_0, .n_embd = 512, .n_ff = 1024, .n_vocab = 320};
    const char *q4 = files_path(folder, "q4.gguf"), *f32 = files_path(folder, "dequantised.gguf");
    cr_assert(write_tiny_llama(q4, &config));
    struct program_result result = PROGRAM("quantize", q4, f32, "F32");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    size_t size, other;
    char *exact = logits(f32, NULL, NULL, &size), *rounded = logits(q4, NULL, NULL, &other);
    cr_expect(memcmp(exact, rounded, size) != 0, "nothing is rounded: the test shows nothing");
    free(rounded);
    setenv("ENGINE_CPU_INTEGERS", "none", 1);
    char *none = logits(q4, NULL, NULL, &other);
    cr_expect(size == other && memcmp(exact, none, size) == 0, "not the dequantised model's logits");
    unsetenv("ENGINE_CPU_INTEGERS");
    free(exact), free(none);
}

/* A matrix of GPTQ, [n, 1024], in groups of 128, with these zeros (stored less 1), scales of 1/2. Code i of a
 * word is input 8 * row + i; all words are alike. */
static void write_gptq(const char *to, size_t n, uint32_t zero_word)
{
    static const uint32_t word = 0xfedc0123;
    static const uint16_t half = 0x3800;
    char header[512];
    size_t codes = 128 * n * 4, zeros = 4 * n, scales = 8 * n * 2;
    int length =
        snprintf(header, sizeof header,
                 "{\"model.layers.0.mlp.up_proj.qweight\": {\"dtype\": \"I32\", \"shape\": [128, %zu], "
                 "\"data_offsets\": [0, %zu]}, "
                 "\"model.layers.0.mlp.up_proj.qzeros\": {\"dtype\": \"I32\", \"shape\": [8, %zu], "
                 "\"data_offsets\": [%zu, %zu]}, "
                 "\"model.layers.0.mlp.up_proj.scales\": {\"dtype\": \"F16\", \"shape\": [8, %zu], "
                 "\"data_offsets\": [%zu, %zu]}}",
                 n, codes, n / 8, codes, codes + zeros, n, codes + zeros, codes + zeros + scales);
    uint64_t header_size = (uint64_t)length;
    size_t size = 8 + (size_t)length + codes + zeros + scales;
    uint8_t *file = malloc(size), *at = file + 8 + length;
    memcpy(file, &header_size, 8);
    memcpy(file + 8, header, (size_t)length);
    for (size_t i = 0; i < codes; i += 4) memcpy(at + i, &word, 4);
    for (size_t i = 0; i < zeros; i += 4) memcpy(at + codes + i, &zero_word, 4);
    for (size_t i = 0; i < scales; i += 2) memcpy(at + codes + zeros + i, &half, 2);
    files_write(files_path(to, "model.safetensors"), file, size);
    free(file);
}

/* Symmetric ones keep to 4 bits, and nothing is rounded. A zero of 0 is stored as 15. */
Test(hf_quantize, matrices_of_gptq_are_exact)
{
    static const float expected[8] = {-2.5f, -3, -3.5f, -4, 2, 2.5f, 3, 3.5f};
    static const struct {
        size_t n;
        uint32_t zeros, type;
        float more;
    } cases[] = {{64, 0x77777777, ENGINE_TYPE_Q4_0, 0},
                 {1024, 0x77777777, ENGINE_TYPE_Q4_0, 0},
                 {1024, 0xf7777777, ENGINE_TYPE_F32, 4}};
    files_write_text(
        files_path(directory, "config.json"),
        "{\"model_type\": \"llama\", \"hidden_size\": 1024, \"num_attention_heads\": 8, "
        "\"intermediate_size\": 1024, \"vocab_size\": 96, \"num_hidden_layers\": 1, "
        "\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128}}");
    for (size_t c = 0; c < 3; c++) {
        struct model *model;
        float values[1024];
        uint8_t row[4096];
        write_gptq(directory, cases[c].n, cases[c].zeros);
        cr_assert_eq(model_open(directory, NULL, &model), ENGINE_OK, "%s", error_message());
        const struct model_tensor *tensor = model_tensor_find(model, "blk.0.ffn_up.weight");
        cr_assert_eq(tensor->type, cases[c].type);
        cr_assert_eq(tensor->is_exact, tensor->type == ENGINE_TYPE_Q4_0);
        cr_assert_eq(plan_weight_desc(tensor, ENGINE_WEIGHT_MATMUL).exact_inputs, tensor->is_exact);
        model_tensor_read(tensor, 7, 1, row);
        quantize_decode(tensor->type, row, 1024, values);
        for (size_t i = 0; i < 1024; i++)
            cr_assert_eq(values[i], expected[i % 8] + cases[c].more, "%zu: %g", i, (double)values[i]);
        model_close(model);
    }
}
