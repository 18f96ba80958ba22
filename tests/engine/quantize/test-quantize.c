/* test-quantize.c: what `engine quantize` makes of numbers, and which type each tensor gets, against what
 * llama.cpp 0.7.0 does. The tables were printed by tests/tools/quantised-values, those of the mixes by
 * `llama-quantize --dry-run`. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "model/types.h"
#include "quantize/encode.h"
#include "quantize/mix.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t fnv1a(uint64_t hash, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
    return hash;
}
#define FNV1A 0xcbf29ce484222325

static uint64_t next(uint64_t *seed)
{
    return *seed = *seed * 6364136223846793005u + 1442695040888963407u;
}

/* ---- Values to blocks ---- */

#define KINDS 6
#define ROWS  32
#define ROW   1024

/* [KINDS][ROWS][ROW]: even, a bell, heavy tails, shifted, sparse, rows of zeros and of constants. */
static float *make_numbers(void)
{
    float *numbers = malloc(KINDS * ROWS * ROW * sizeof *numbers), *x = numbers;
    uint64_t seed = 1;
    cr_assert(numbers);
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < ROWS * ROW; i++, x++) {
            int64_t total = 0;
            for (int j = 0; j < (kind == 0 ? 1 : 4); j++) total += (int64_t)(next(&seed) >> 40) - (1 << 23);
            *x = (float)total * 0x1p-23f;
            if (kind == 2) *x = *x * *x * *x;
            if (kind == 3) *x += 1.5f;
            if (kind == 4 && (seed >> 36 & 7)) *x = 0;
            if (kind == 5) *x = (float)((int)(i / ROW % 3) - 1) * 0.3f;
        }
    return numbers;
}

static const struct {
    uint32_t type;
    uint64_t hash;        /* of the blocks, where there is but one right answer */
    double errors[KINDS]; /* else: llama.cpp's root mean square errors */
} blocks_written[] = {
    /* clang-format off */
    {ENGINE_TYPE_F16, 0x52605832dd0c0027, {0}},
    {ENGINE_TYPE_BF16, 0xf16aa3818ecc37fb, {0}},
    {ENGINE_TYPE_Q8_0, 0x820afb419b6f421f, {0}},
    {ENGINE_TYPE_Q4_0, 0x8528f3a787a43ba1, {0}},
    {ENGINE_TYPE_Q4_1, 0xbd21b243c98bd717, {0}},
    {ENGINE_TYPE_Q5_0, 0x3cc3db0234230742, {0}},
    {ENGINE_TYPE_Q5_1, 0x00b1050a7a74f4a0, {0}},
    {ENGINE_TYPE_Q2_K, 0, {1.344638e-01, 3.343648e-01, 2.017152e+00, 3.248496e-01, 1.786505e-01, 5.190668e-05}},
    {ENGINE_TYPE_Q3_K, 0, {7.217346e-02, 1.695722e-01, 8.134162e-01, 2.409715e-01, 2.974901e-02, 3.954565e-05}},
    {ENGINE_TYPE_Q4_K, 0, {3.141465e-02, 7.999870e-02, 4.623441e-01, 7.909674e-02, 2.067038e-02, 7.363277e-05}},
    {ENGINE_TYPE_Q5_K, 0, {1.588525e-02, 4.041259e-02, 2.490087e-01, 3.976029e-02, 1.449574e-02, 7.026530e-05}},
    {ENGINE_TYPE_Q6_K, 0, {7.657461e-03, 1.976802e-02, 1.215186e-01, 2.887431e-02, 3.415795e-03, 3.954565e-05}},
    {ENGINE_TYPE_IQ4_NL, 0, {3.686443e-02, 8.602092e-02, 4.602838e-01, 1.284741e-01, 2.230399e-02, 9.333545e-05}},
    {ENGINE_TYPE_IQ4_XS, 0, {3.721285e-02, 8.672189e-02, 4.652259e-01, 1.296436e-01, 2.283873e-02, 9.333545e-05}},
    /* clang-format on */
};

static uint8_t *encode(uint32_t type, const float *x, size_t n, size_t *size)
{
    uint64_t bytes;
    cr_assert(type_row_size(type, n, &bytes));
    uint8_t *blocks = malloc(bytes);
    cr_assert(blocks);
    quantize_encoder(type)(x, NULL, n, blocks);
    *size = (size_t)bytes;
    return blocks;
}

/* Root mean square. */
static double error_of(uint32_t type, const float *x, size_t n)
{
    size_t size;
    uint8_t *blocks = encode(type, x, n, &size), *block = blocks;
    double total = 0;
    cr_assert(quantize_encoded_is_finite(type, blocks, n));
    for (size_t i = 0; i < n;) {
        float values[256];
        const struct engine_layout *layout = engine_layout_of(type);
        engine_weight_to_float(layout, block, layout->length, values);
        for (size_t j = 0; j < layout->length; j++, i++) {
            double miss = (double)values[j] - (double)x[i];
            total += miss * miss;
        }
        block += layout->size;
    }
    free(blocks);
    return sqrt(total / (double)n);
}

Test(encode, is_what_llama_cpp_makes_or_nearer_to_the_values)
{
    float *numbers = make_numbers();
    for (size_t t = 0; t < COUNT(blocks_written); t++) {
        uint32_t type = blocks_written[t].type;
        if (blocks_written[t].hash) {
            size_t size;
            uint8_t *blocks = encode(type, numbers, KINDS * ROWS * ROW, &size);
            cr_expect_eq(fnv1a(FNV1A, blocks, size), blocks_written[t].hash, "%s", type_info(type)->name);
            free(blocks);
            continue;
        }
        for (int kind = 0; kind < KINDS; kind++) {
            double error = error_of(type, numbers + kind * ROWS * ROW, ROWS * ROW);
            cr_expect_leq(error, blocks_written[t].errors[kind] * 1.000001, "%s, kind %d: %g",
                          type_info(type)->name, kind, error);
        }
    }
    free(numbers);
}

static const uint32_t block_types[] = {ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q4_0,   ENGINE_TYPE_Q4_1,
                                       ENGINE_TYPE_Q5_0, ENGINE_TYPE_Q5_1,   ENGINE_TYPE_Q2_K,
                                       ENGINE_TYPE_Q3_K, ENGINE_TYPE_Q4_K,   ENGINE_TYPE_Q5_K,
                                       ENGINE_TYPE_Q6_K, ENGINE_TYPE_IQ4_NL, ENGINE_TYPE_IQ4_XS};

Test(encode, blocks_depend_on_their_own_values_alone)
{
    float *numbers = make_numbers();
    for (size_t t = 0; t < COUNT(block_types); t++) {
        const struct type_info *info = type_info(block_types[t]);
        size_t n = (size_t)info->block_length * 11, whole, part;
        uint8_t *blocks = encode(block_types[t], numbers + 3 * ROWS * ROW, n, &whole);
        for (size_t b = 0; b < 11; b++) {
            uint8_t *one = encode(block_types[t], numbers + 3 * ROWS * ROW + b * info->block_length,
                                  info->block_length, &part);
            cr_expect(memcmp(one, blocks + b * part, part) == 0, "%s: block %zu", info->name, b);
            free(one);
        }
        free(blocks);
    }
    free(numbers);
}

/* Rows of one value, of numbers that float16 scales don't reach, of the largest that they do, with one
 * outlier. */
Test(encode, extremes)
{
    float x[256];
    static const float sizes[] = {0, 1e-45f, 1e-30f, 1e-12f, 6e-8f, 1e-4f, 1, 32000, 5.2e5f};
    for (size_t t = 0; t < COUNT(block_types); t++)
        for (size_t s = 0; s < COUNT(sizes); s++)
            for (int shape = 0; shape < 5; shape++) {
                uint32_t type = block_types[t];
                double rms = 0;
                if (sizes[s] > 65504 && encode_largest(type) > 1e6f) continue;
                for (size_t i = 0; i < 256; i++) {
                    float sign = (i * 7 + i / 16) % 3 == 1 ? -1.0f : 1.0f;
                    x[i] = shape == 0   ? sizes[s]
                           : shape == 1 ? -sizes[s]
                           : shape == 2 ? sign * sizes[s]
                           : shape == 3 ? (i == 77 ? sizes[s] : 0)
                                        : (i == 200 ? -sizes[s] : sign * sizes[s] * 1e-3f);
                    rms += (double)x[i] * (double)x[i] / 256;
                }
                double error = error_of(type, x, 256);
                /* No worse than if all were zeros, except for the rounding to float16. */
                cr_expect_leq(error, sqrt(rms) * 1.001 + 1e-7, "%s, size %g, shape %d: %g",
                              type_info(type)->name, (double)sizes[s], shape, error);
                if (sizes[s] == 0) cr_expect_eq(error, 0);
            }
}

Test(encode, says_what_no_scale_reaches)
{
    float x[32];
    uint8_t blocks[64];
    static const uint32_t plain[] = {ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q4_0, ENGINE_TYPE_Q4_1, ENGINE_TYPE_Q5_0,
                                     ENGINE_TYPE_Q5_1};
    for (size_t t = 0; t < COUNT(plain); t++) {
        for (size_t i = 0; i < 32; i++) x[i] = (i % 2 ? 1.0f : -1.0f) * encode_largest(plain[t]);
        quantize_encoder(plain[t])(x, NULL, 32, blocks);
        cr_expect_not(quantize_encoded_is_finite(plain[t], blocks, 32), "%s", type_info(plain[t])->name);
    }
    x[0] = 65520;
    encode_f16(x, NULL, 1, blocks);
    cr_expect_not(quantize_encoded_is_finite(ENGINE_TYPE_F16, blocks, 1));
    x[0] = 3.4e38f;
    encode_bf16(x, NULL, 1, blocks);
    cr_expect_not(quantize_encoded_is_finite(ENGINE_TYPE_BF16, blocks, 1));
}

Test(half, goes_there_and_back)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff)) continue;
        cr_assert_eq(engine_f32_to_f16(engine_f16_to_f32((uint16_t)bits)), bits);
        if ((bits & 0x7f80) != 0x7f80)
            cr_assert_eq(bfloat_from_float(engine_bf16_to_f32((uint16_t)bits)), bits);
    }
    cr_expect_eq(engine_f32_to_f16(2049), engine_f32_to_f16(2048)); /* ties to even */
    cr_expect_eq(engine_f32_to_f16(2051), engine_f32_to_f16(2052));
    cr_expect_eq(bfloat_from_float(257), bfloat_from_float(256));
}

/* ---- Mixes ---- */

static const struct {
    const char *architecture;
    uint32_t n_layers, n_kv_heads, n_experts; /* of 8 heads */
    bool tied;
} models[] = {{"llama", 16, 2, 0, false},
              {"llama", 16, 8, 0, true},
              {"llama", 8, 2, 8, false},
              {"falcon", 16, 1, 0, false},
              {"llama", 80, 1, 0, false}};

/* A letter for each layer, or one for all: digits are the K types', 8 is Q8_0, o Q4_0, n IQ4_NL, x IQ4_XS, -
 * nothing. */
static const struct {
    size_t model;
    const char *mix, *output_and_embedding, *k, *attention_output, *v, *down, *up;
} expected[] = {
    /* clang-format off */
    {0, "Q8_0", "88", "8", "8", "8", "8", "8"},
    {0, "Q4_0", "6o", "o", "o", "o", "o", "o"},
    {0, "Q2_K", "62", "2", "3", "4", "3", "2"},
    {0, "Q2_K_S", "62", "2", "2", "4", "4422222222222222", "2"},
    {0, "Q3_K_S", "63", "3", "3", "3", "3", "3"},
    {0, "Q3_K_M", "63", "3", "4", "5544444444444444", "5444444444444444", "3"},
    {0, "Q3_K_L", "63", "3", "5", "5", "5", "3"},
    {0, "Q4_K_S", "64", "4", "4", "5555444444444444", "5544444444444444", "4"},
    {0, "Q4_K_M", "64", "4", "4", "6644644644644666", "6644644644644666", "4"},
    {0, "Q5_K_S", "65", "5", "5", "5", "5", "5"},
    {0, "Q5_K_M", "65", "5", "5", "6655655655655666", "6655655655655666", "5"},
    {0, "Q6_K", "66", "6", "6", "6", "6", "6"},
    {0, "IQ4_NL", "6n", "n", "n", "5", "55nnnnnnnnnnnnnn", "n"},
    {0, "IQ4_XS", "6x", "x", "x", "5", "55xxxxxxxxxxxxxx", "x"},
    {1, "Q8_0", "-8", "8", "8", "8", "8", "8"},
    {1, "Q4_0", "-6", "o", "o", "o", "o", "o"},
    {1, "Q2_K", "-6", "2", "3", "3", "3", "2"},
    {1, "Q2_K_S", "-6", "2", "2", "2", "4422222222222222", "2"},
    {1, "Q3_K_S", "-6", "3", "3", "3", "3", "3"},
    {1, "Q3_K_M", "-6", "3", "4", "5544444444444444", "5444444444444444", "3"},
    {1, "Q3_K_L", "-6", "3", "5", "5", "5", "3"},
    {1, "Q4_K_S", "-6", "4", "4", "5555444444444444", "5544444444444444", "4"},
    {1, "Q4_K_M", "-6", "4", "4", "6644644644644666", "6644644644644666", "4"},
    {1, "Q5_K_S", "-6", "5", "5", "5", "5", "5"},
    {1, "Q5_K_M", "-6", "5", "5", "6655655655655666", "6655655655655666", "5"},
    {1, "Q6_K", "-6", "6", "6", "6", "6", "6"},
    {1, "IQ4_NL", "-6", "n", "n", "n", "55nnnnnnnnnnnnnn", "n"},
    {1, "IQ4_XS", "-6", "x", "x", "x", "55xxxxxxxxxxxxxx", "x"},
    {4, "Q3_K_S", "63", "3", "3", "5", "3", "3"},
    {2, "Q8_0", "88", "8", "8", "8", "8", "8"},
    {2, "Q4_0", "6o", "8", "o", "8", "o", "o"},
    {2, "Q2_K", "62", "8", "5", "8", "3", "2"},
    {2, "Q2_K_S", "62", "8", "2", "8", "42222222", "2"},
    {2, "Q3_K_S", "63", "8", "5", "8", "3", "3"},
    {2, "Q3_K_M", "63", "8", "5", "8", "4", "3"},
    {2, "Q3_K_L", "63", "8", "3", "8", "5", "3"},
    {2, "Q4_K_S", "64", "8", "5", "8", "54444444", "4"},
    {2, "Q4_K_M", "64", "8", "5", "8", "64464466", "4"},
    {2, "Q5_K_S", "65", "8", "5", "8", "5", "5"},
    {2, "Q5_K_M", "65", "8", "5", "8", "65565566", "5"},
    {2, "Q6_K", "66", "8", "6", "8", "6", "6"},
    {2, "IQ4_NL", "6n", "8", "5", "8", "5nnnnnnn", "n"},
    {2, "IQ4_XS", "6x", "8", "5", "8", "5xxxxxxx", "x"},
    {3, "Q8_0", "88", "-", "8", "8", "8", "8"},
    {3, "Q4_0", "8o", "-", "o", "o", "o", "o"},
    {3, "Q2_K", "82", "-", "2", "4", "3", "2"},
    {3, "Q2_K_S", "82", "-", "2", "4", "4422222222222222", "2"},
    {3, "Q3_K_S", "83", "-", "3", "3", "3", "3"},
    {3, "Q3_K_M", "83", "-", "3", "5544444444444444", "5433433433433444", "3"},
    {3, "Q3_K_L", "83", "-", "4", "5", "4", "3"},
    {3, "Q4_K_S", "84", "-", "4", "5555444444444444", "4", "4"},
    {3, "Q4_K_M", "84", "-", "4", "6644644644644666", "6544544544544555", "4"},
    {3, "Q5_K_S", "85", "-", "5", "5", "5", "5"},
    {3, "Q5_K_M", "85", "-", "5", "6655655655655666", "6655655655655666", "5"},
    {3, "Q6_K", "86", "-", "6", "6", "6", "6"},
    {3, "IQ4_NL", "8n", "-", "n", "5", "55nnnnnnnnnnnnnn", "n"},
    {3, "IQ4_XS", "8x", "-", "x", "5", "55xxxxxxxxxxxxxx", "x"},
    /* clang-format on */
};

static char letter_of(uint32_t type)
{
    switch (type) {
    case ENGINE_TYPE_Q8_0: return '8';
    case ENGINE_TYPE_Q6_K: return '6';
    case ENGINE_TYPE_Q5_K: return '5';
    case ENGINE_TYPE_Q4_K: return '4';
    case ENGINE_TYPE_Q3_K: return '3';
    case ENGINE_TYPE_Q2_K: return '2';
    case ENGINE_TYPE_Q4_0: return 'o';
    case ENGINE_TYPE_IQ4_NL: return 'n';
    case ENGINE_TYPE_IQ4_XS: return 'x';
    default: return '?';
    }
}

#define MAX_TENSORS 800

struct toy {
    struct metadata *metadata;
    struct model_tensor tensors[MAX_TENSORS];
    const struct model_tensor *order[MAX_TENSORS];
    uint32_t types[MAX_TENSORS];
    char names[MAX_TENSORS][48];
    size_t n;
};

static void toy_add(struct toy *toy, const char *name, uint64_t columns, uint64_t rows)
{
    cr_assert_lt(toy->n, MAX_TENSORS);
    snprintf(toy->names[toy->n], sizeof toy->names[0], "%s", name);
    toy->tensors[toy->n] = (struct model_tensor){.name = toy->names[toy->n],
                                                 .type = ENGINE_TYPE_F32,
                                                 .n_dims = rows > 1 ? 2 : 1,
                                                 .ne = {columns, rows, 1, 1}};
    toy->order[toy->n] = &toy->tensors[toy->n];
    toy->n++;
}

static void toy_create(struct toy *toy, size_t model, uint64_t columns)
{
    static const char *const parts[] = {"attn_norm",    "attn_q",   "attn_k", "attn_v",  "attn_output",
                                        "ffn_gate_inp", "ffn_gate", "ffn_up", "ffn_down"};
    static char keys[4][48];
    const char *architecture = models[model].architecture;
    bool falcon = strcmp(architecture, "falcon") == 0, experts = models[model].n_experts > 0;
    memset(toy, 0, sizeof *toy);
    cr_assert_eq(metadata_create(&toy->metadata), ENGINE_OK);
    snprintf(keys[0], sizeof keys[0], "%s.block_count", architecture);
    snprintf(keys[1], sizeof keys[1], "%s.attention.head_count", architecture);
    snprintf(keys[2], sizeof keys[2], "%s.attention.head_count_kv", architecture);
    snprintf(keys[3], sizeof keys[3], "%s.expert_count", architecture);
    metadata_add_string(toy->metadata, "general.architecture", architecture);
    metadata_add_u32(toy->metadata, keys[0], models[model].n_layers);
    metadata_add_u32(toy->metadata, keys[1], 8);
    metadata_add_u32(toy->metadata, keys[2], models[model].n_kv_heads);
    metadata_add_u32(toy->metadata, keys[3], models[model].n_experts);
    cr_assert_eq(metadata_finish(toy->metadata), ENGINE_OK);
    /* Last layer first: the order of the file mustn't matter. */
    for (uint32_t layer = models[model].n_layers; layer-- > 0;)
        for (size_t p = 0; p < COUNT(parts); p++) {
            char name[48];
            bool gate = strcmp(parts[p], "ffn_gate_inp") == 0;
            if (falcon && (p == 1 || p == 2)) continue;
            snprintf(name, sizeof name, "blk.%u.%s%s.weight", layer, falcon && p == 3 ? "attn_qkv" : parts[p],
                     experts && p > 5 ? "_exps" : "");
            toy_add(toy, name, columns, gate ? 8 : p == 0 ? 1 : 2);
        }
    toy_add(toy, "token_embd.weight", columns, 2);
    toy_add(toy, "output_norm.weight", columns, 1);
    if (!models[model].tied) toy_add(toy, "output.weight", columns, 2);
    mix_sort(toy->order, toy->n);
}

static char toy_letter(const struct toy *toy, const char *name)
{
    for (size_t i = 0; i < toy->n; i++)
        if (strcmp(toy->order[i]->name, name) == 0) return letter_of(toy->types[i]);
    return '-';
}

static void check_part(const struct toy *toy, size_t e, const char *part, const char *wanted)
{
    for (uint32_t layer = 0; layer < models[expected[e].model].n_layers; layer++) {
        char name[48];
        snprintf(name, sizeof name, "blk.%u.%s.weight", layer, part);
        char letter = toy_letter(toy, name), right = wanted[1] ? wanted[layer] : wanted[0];
        cr_expect_eq(letter, right, "model %zu, %s: %s is %c, not %c", expected[e].model, expected[e].mix,
                     name, letter, right);
    }
}

Test(mix, is_that_of_llama_quantize)
{
    static struct toy toy;
    for (size_t e = 0; e < COUNT(expected); e++) {
        const struct mix *mix = mix_by_name(expected[e].mix);
        bool falcon = strcmp(models[expected[e].model].architecture, "falcon") == 0;
        bool experts = models[expected[e].model].n_experts > 0;
        cr_assert(mix, "%s", expected[e].mix);
        toy_create(&toy, expected[e].model, 256);
        mix_choose(mix, false, NULL, 0, toy.metadata, toy.order, toy.n, toy.types);
        cr_expect_eq(toy_letter(&toy, "output.weight"), expected[e].output_and_embedding[0]);
        cr_expect_eq(toy_letter(&toy, "token_embd.weight"), expected[e].output_and_embedding[1]);
        cr_expect_eq(toy_letter(&toy, "output_norm.weight"), '?');
        cr_expect_eq(toy_letter(&toy, "blk.3.attn_norm.weight"), '?');
        cr_expect_eq(toy_letter(&toy, "blk.3.ffn_gate_inp.weight"), '?');
        check_part(&toy, e, "attn_k", expected[e].k);
        check_part(&toy, e, "attn_output", expected[e].attention_output);
        check_part(&toy, e, falcon ? "attn_qkv" : "attn_v", expected[e].v);
        check_part(&toy, e, experts ? "ffn_down_exps" : "ffn_down", expected[e].down);
        check_part(&toy, e, experts ? "ffn_up_exps" : "ffn_up", expected[e].up);
        metadata_destroy(toy.metadata);
    }
}

Test(mix, pure_and_wishes)
{
    static struct toy toy;
    toy_create(&toy, 0, 256);
    mix_choose(mix_by_name("q4_k"), true, NULL, 0, toy.metadata, toy.order, toy.n, toy.types);
    for (size_t i = 0; i < toy.n; i++)
        cr_expect_eq(toy.types[i], mix_may_quantize(toy.order[i]) ? ENGINE_TYPE_Q4_K : ENGINE_TYPE_F32);

    const struct mix_wish wishes[] = {{"blk.1.ffn_down.weight", ENGINE_TYPE_Q8_0},
                                      {"blk.?.ffn_down.*", ENGINE_TYPE_Q4_0},
                                      {"*norm*", ENGINE_TYPE_Q2_K}};
    mix_choose(mix_by_name("Q6_K"), false, wishes, COUNT(wishes), toy.metadata, toy.order, toy.n, toy.types);
    cr_expect_eq(toy_letter(&toy, "blk.1.ffn_down.weight"), '8');
    cr_expect_eq(toy_letter(&toy, "blk.2.ffn_down.weight"), 'o');
    cr_expect_eq(toy_letter(&toy, "blk.10.ffn_down.weight"), '6');
    cr_expect_eq(toy_letter(&toy, "blk.2.attn_norm.weight"), '?');
    metadata_destroy(toy.metadata);
}

/* What the graph reads as numbers, and the small matrices that mix streams. */
Test(mix, what_is_kept)
{
    static const char *const kept[] = {"blk.0.attn_compressor_ape.weight",
                                       "blk.0.indexer_compressor_ape.weight", "blk.0.hc_attn_fn.weight",
                                       "blk.0.hc_ffn_fn.weight", "output_hc_fn.weight"};
    for (size_t i = 0; i < COUNT(kept); i++)
        cr_expect(!mix_may_quantize(&(struct model_tensor){.name = kept[i], .ne = {256, 4, 1, 1}}), "%s",
                  kept[i]);
}

Test(mix, rows_that_do_not_fit)
{
    static const struct {
        const char *mix;
        uint64_t columns;
        uint32_t type;
    } cases[] = {{"Q4_K_S", 96, ENGINE_TYPE_Q5_0},   {"Q5_K_S", 96, ENGINE_TYPE_Q5_1},
                 {"Q6_K", 96, ENGINE_TYPE_Q8_0},     {"Q2_K_S", 96, ENGINE_TYPE_Q4_0},
                 {"IQ4_XS", 96, ENGINE_TYPE_IQ4_NL}, {"Q4_K_S", 50, ENGINE_TYPE_F16},
                 {"Q8_0", 50, ENGINE_TYPE_F16},      {"BF16", 50, ENGINE_TYPE_BF16}};
    static struct toy toy;
    for (size_t c = 0; c < COUNT(cases); c++) {
        toy_create(&toy, 0, cases[c].columns);
        mix_choose(mix_by_name(cases[c].mix), false, NULL, 0, toy.metadata, toy.order, toy.n, toy.types);
        for (size_t i = 0; i < toy.n; i++)
            if (strcmp(toy.order[i]->name, "blk.9.ffn_up.weight") == 0)
                cr_expect_eq(toy.types[i], cases[c].type, "%s: %s", cases[c].mix,
                             type_info(toy.types[i])->name);
        metadata_destroy(toy.metadata);
    }
    cr_expect_null(mix_by_name("Q7_K"));
    cr_expect_null(mix_by_name(""));
}
