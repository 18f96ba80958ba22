/* test-hf-quantised.c: quantised matrices of Hugging Face's directories whose shapes are unusual, or
 * impossible. Those of published models are compared by hf-families. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter-writer.h"
#include "base/error.h"
#include "files.h"
#include "model/model.h"

#define CONFIG(TYPE, QUANTISATION)                                                                           \
    "{\"model_type\": \"" TYPE "\", \"hidden_size\": 8, \"num_attention_heads\": 2, "                        \
    "\"intermediate_size\": 4, \"num_hidden_layers\": 1, \"quantization_config\": {" QUANTISATION "}}"
#define FP8  "\"quant_method\": \"fp8\""
#define NAME "model.layers.0.self_attn.q_proj"

FILES_FOLDER_OF_TEST

TestSuite(hf_quantised, .init = begin, .fini = end);

#define BITNET(MODE)                                                                                         \
    "\"quant_method\": \"bitnet\", \"linear_class\": \"autobitlinear\", \"quantization_mode\": \"" MODE "\""

/* Codes without their scales, or with too few of them; groups that do not exist; matrices without values;
 * rows that would have to be cut. */
Test(hf_quantised, refuses_weights)
{
    static const char fp8[] = CONFIG("llama", FP8);
    static const char gptq[] = CONFIG("llama", "\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 8");
    static const char one_group[] =
        CONFIG("llama", "\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": -1");
    static const char mxfp4[] = CONFIG("deepseek_v3", "\"quant_method\": \"mxfp4\"");
    static const struct {
        const char *config, *header, *words;
        size_t size;
    } cases[] = {
        {fp8,
         "{\"" NAME ".weight\": {\"dtype\": \"F8_E4M3\", \"shape\": [4, 8], \"data_offsets\": [0, 32]}, "
         "\"" NAME ".weight_scale_inv\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [32, 44]}}",
         "its scales are missing", 44},
        {fp8, "{\"" NAME ".weight\": {\"dtype\": \"F8_E4M3\", \"shape\": [1, 0], \"data_offsets\": [0, 0]}}",
         "has no values", 0},
        {gptq, "{\"" NAME ".qweight\": {\"dtype\": \"I32\", \"shape\": [1, 8], \"data_offsets\": [0, 32]}}",
         "its scales are missing", 32},
        {gptq,
         "{\"" NAME ".qweight\": {\"dtype\": \"I32\", \"shape\": [1, 8], \"data_offsets\": [0, 32]}, "
         "\"" NAME ".scales\": {\"dtype\": \"F16\", \"shape\": [1, 8], \"data_offsets\": [32, 48]}}",
         "its zeros are missing", 48},
        {one_group,
         "{\"" NAME ".qweight\": {\"dtype\": \"I32\", \"shape\": [0, 8], \"data_offsets\": [0, 0]}}",
         "has no values", 0},
        {mxfp4,
         "{\"model.layers.0.self_attn.kv_b_proj_blocks\": {\"dtype\": \"U8\", \"shape\": [1, 512, 1, 16], "
         "\"data_offsets\": [0, 8192]}, \"model.layers.0.self_attn.kv_b_proj_scales\": {\"dtype\": \"U8\", "
         "\"shape\": [1, 512, 1], \"data_offsets\": [8192, 8704]}}",
         "cannot be MXFP4", 8704},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model *model = NULL;
        files_write_text(files_path(folder, "config.json"), cases[i].config);
        write_safetensors(files_path(folder, "model.safetensors"), cases[i].header, cases[i].size);
        cr_expect(model_open(folder, NULL, &model) != ENGINE_OK, "not refused: %s", cases[i].words);
        cr_expect(strstr(error_message(), cases[i].words), "expected \"%s\" in: %s", cases[i].words,
                  error_message());
        model_close(model);
    }
}

/* A file whose only matrix is NAME [4, 8] of a type. */
static void write_matrix(const char *type, const char *shape, const void *data, size_t size)
{
    char header[320], file[640];
    uint64_t length =
        (uint64_t)snprintf(header, sizeof header,
                           "{\"" NAME ".weight\": {\"dtype\": \"%s\", \"shape\": %s, "
                           "\"data_offsets\": [0, %zu]}, \"" NAME ".weight_scale\": {\"dtype\": "
                           "\"BF16\", \"shape\": [1], \"data_offsets\": [%zu, %zu]}}",
                           type, shape, size, size, size + 2);
    static const uint16_t one_and_a_half = 0x3fc0;
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    memcpy(file + 8 + length, data, size);
    memcpy(file + 8 + length + size, &one_and_a_half, 2);
    files_write(files_path(folder, "model.safetensors"), file, 8 + length + size + 2);
}

/* Row r is bits 2 r and 2 r + 1 of each byte: here -1, 0 and 1 in turns. */
Test(hf_quantised, unpacks_the_three_values_of_bitnet)
{
    uint8_t codes[8];
    struct model *model;
    for (unsigned k = 0; k < 8; k++) {
        codes[k] = 0;
        for (unsigned r = 0; r < 4; r++) codes[k] |= (uint8_t)((k + r) % 3 << 2 * r);
    }
    files_write_text(files_path(folder, "config.json"), CONFIG("bitnet", BITNET("offline")));
    write_matrix("U8", "[1, 8]", codes, sizeof codes);
    cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
    const struct model_tensor *tensor = model_tensor_find(model, "blk.0.attn_q.weight");
    cr_assert(tensor && tensor->type == ENGINE_TYPE_BF16 && tensor->ne[0] == 8 && tensor->ne[1] == 4);
    for (unsigned r = 0; r < 4; r++) {
        static const uint16_t values[] = {0xbfc0, 0, 0x3fc0}; /* -1.5, 0, 1.5 */
        uint16_t row[8];
        model_tensor_read(tensor, r, 1, (uint8_t *)row);
        for (unsigned k = 0; k < 8; k++)
            cr_expect_eq(row[k] & (row[k] == 0x8000 ? 0 : 0xffff), values[(k + r) % 3], "row %u, column %u",
                         r, k);
    }
    model_close(model);
}

/* To the mean magnitude, which is 2 here. */
Test(hf_quantised, rounds_the_trained_values_of_bitnet)
{
    static const float trained[8] = {0.5f, -0.5f, 3, -3, 1.5f, -4, 2.5f, -1};
    static const float expected[8] = {0, 0, 2, -2, 2, -2, 2, 0};
    float stored[32], row[8];
    struct model *model;
    for (int i = 0; i < 32; i++) stored[i] = trained[i % 8];
    files_write_text(files_path(folder, "config.json"), CONFIG("bitnet", BITNET("online")));
    write_matrix("F32", "[4, 8]", stored, sizeof stored);
    cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
    const struct model_tensor *tensor = model_tensor_find(model, "blk.0.attn_q.weight");
    cr_assert(tensor && tensor->type == ENGINE_TYPE_F32);
    for (unsigned r = 0; r < 4; r++) {
        model_tensor_read(tensor, r, 1, (uint8_t *)row);
        for (unsigned k = 0; k < 8; k++) cr_expect_eq(row[k], expected[k], "row %u, column %u", r, k);
    }
    model_close(model);
}

/* Writes an FP8 matrix of ones, [4, 8], with four scales: 1, 2, 4 and 8. */
static void write_ones(const char *shape)
{
    static const float scales[4] = {1, 2, 4, 8};
    char header[320];
    uint64_t length =
        (uint64_t)snprintf(header, sizeof header,
                           "{\"" NAME ".weight\": {\"dtype\": \"F8_E4M3\", \"shape\": [4, 8], "
                           "\"data_offsets\": [0, 32]}, \"" NAME ".weight_scale_inv\": {\"dtype\": \"F32\", "
                           "\"shape\": %s, \"data_offsets\": [32, 48]}}",
                           shape);
    char file[512];
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    memset(file + 8 + length, 0x38, 32);
    memcpy(file + 8 + length + 32, scales, sizeof scales);
    files_write(files_path(folder, "model.safetensors"), file, 8 + length + 48);
}

/* As many blocks as rows: DeepSeek V3 has 7168 of both. */
Test(hf_quantised, tells_scales_of_blocks_from_those_of_rows)
{
    static const struct {
        const char *config, *shape;
        bool by_row;
    } cases[] = {
        {CONFIG("llama", FP8 ", \"weight_block_size\": [4, 2]"), "[1, 4]", false},
        {CONFIG("llama", FP8), "[4, 1]", true},
        {CONFIG("llama", FP8), "[4]", true},
        /* a matrix that the method does not concern */
        {CONFIG("llama", "\"quant_method\": \"gptq\", \"group_size\": -1"), "[4]", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model *model;
        uint16_t row[8];
        files_write_text(files_path(folder, "config.json"), cases[i].config);
        write_ones(cases[i].shape);
        cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
        const struct model_tensor *tensor = model_tensor_find(model, "blk.0.attn_q.weight");
        cr_assert(tensor && tensor->type == ENGINE_TYPE_BF16);
        for (uint64_t r = 0; r < 4; r++) {
            model_tensor_read(tensor, r, 1, (uint8_t *)row);
            for (unsigned k = 0; k < 8; k++) { /* 1, 2, 4, 8 in bfloat16 */
                uint16_t expected = (uint16_t)(0x3f80 + 0x80 * (cases[i].by_row ? r : k / 2));
                cr_expect_eq(row[k], expected, "scales %s: %x in row %u, column %u", cases[i].shape, row[k],
                             (unsigned)r, k);
            }
        }
        model_close(model);
    }
}

/* Adds a tensor of so many bytes to a header; returns where the next one begins. */
static size_t add_bytes(char *header, size_t room, const char *name, const char *type, const char *shape,
                        size_t at, size_t size)
{
    const size_t length = strlen(header);
    snprintf(header + length, room - length,
             "%s\"%s\": {\"dtype\": \"%s\", \"shape\": %s, \"data_offsets\": [%zu, %zu]}", at ? ", " : "{",
             name, type, shape, at, at + size);
    return at + size;
}

/* As DeepSeek V4 is published: FP8 with .scale, and experts of four bits beside it. Another tensor's name
 * ends like that of a scale. */
Test(hf_quantised, reads_experts_of_four_bits_beside_fp8)
{
    char header[1024] = "", file[2048];
    struct model *model;
    size_t size =
        add_bytes(header, sizeof header, "layers.0.ffn.experts.0.w1.weight", "I8", "[2, 16]", 0, 32);
    size = add_bytes(header, sizeof header, "layers.0.ffn.experts.0.w1.scale", "F8_E8M0", "[2, 1]", size, 2);
    size = add_bytes(header, sizeof header, "layers.0.attn.wq_a.weight", "F8_E4M3", "[1, 32]", size, 32);
    size = add_bytes(header, sizeof header, "layers.0.attn.wq_a.scale", "F8_E8M0", "[1, 1]", size, 1);
    size = add_bytes(header, sizeof header, "layers.0.attn_hc.scale", "F32", "[3]", size, 12);
    strcat(header, "}");
    const uint64_t length = strlen(header);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    uint8_t *data = (uint8_t *)file + 8 + length;
    for (unsigned i = 0; i < 32; i++) data[i] = (uint8_t)(i * 7);
    data[32] = 126, data[33] = 129;
    memset(data + 34, 0x38, 32); /* 1 */
    data[66] = 128;              /* twice */
    memset(data + 67, 0, 12);
    files_write(files_path(folder, "model.safetensors"), file, 8 + length + size);
    files_write_text(files_path(folder, "config.json"),
                     "{\"model_type\": \"deepseek_v4\", \"hidden_size\": 32, \"num_hidden_layers\": 1, "
                     "\"quantization_config\": {" FP8 "}}");
    cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
    const struct model_tensor *experts = model_tensor_find(model, "blk.0.ffn_gate_exps.weight");
    cr_assert(experts && experts->type == ENGINE_TYPE_MXFP4 && experts->ne[0] == 32 && experts->ne[1] == 2);
    for (unsigned r = 0; r < 2; r++) {
        uint8_t block[17];
        model_tensor_read(experts, r, 1, block);
        cr_expect_eq(block[0], r ? 129 : 126);
        for (unsigned i = 0; i < 16; i++) {
            const uint8_t *row = data + 16 * r;
            const int low = row[i / 2] >> i % 2 * 4 & 15, high = row[8 + i / 2] >> i % 2 * 4 & 15;
            cr_expect_eq(block[1 + i], low | high << 4, "row %u, value %u", r, i);
        }
    }
    const struct model_tensor *q = model_tensor_find(model, "blk.0.attn_q_a.weight");
    uint16_t row[32];
    cr_assert(q && q->type == ENGINE_TYPE_BF16);
    model_tensor_read(q, 0, 1, (uint8_t *)row);
    cr_expect_eq(row[31], 0x4000);
    cr_expect(model_tensor_find(model, "blk.0.hc_attn_scale.weight"));
    model_close(model);
}
