/* test-hostile-families.c: models of unlike families whose metadata or tensors lie. A word of a sound recipe
 * (fixtures/model-recipe.h, fuzz/models) is changed at a time: each key to other numbers, types and arrays,
 * each tensor to other shapes, types and contents. Each model runs or is refused with one line that names the
 * file; none may crash, hang or take memory without bounds. Lies that are known as such must be refused with
 * a line that names the key or the tensor. The files of ../shared/families have their bytes damaged. A model
 * that fails stays behind as build/tests/hostile-family-NAME.gguf. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "arch/families.h"
#include "bare-engine.h"
#include "damage.h"
#include "engine.h"
#include "files.h"
#include "gguf-writer.h"
#include "model-recipe.h"
#include "sample.h"

#define SEED        20261122u
#define N_CONTEXT   16
#define N_PREDICT   2
#define N_DAMAGED   40  /* copies of a file whose bytes are damaged */
#define N_OF_SHARED 12  /* changes of a shared file */
#define MAX_SECONDS 600 /* for one model; it takes milliseconds */
#define MAX_LINES   128
#define MAX_LINE    512
#define MODELS      TEST_SOURCE_DIR "/fuzz/models"
#define SHARED      TEST_SHARED_DIR "/families/gguf"

/* What a process may map; AddressSanitizer maps terabytes. */
#if !SANITIZED
#define MAX_MEMORY ((rlim_t)6 << 30)
#endif

#define X(name) &arch_##name,
static const struct architecture *const families[] = {FAMILIES(X)};
#undef X

static char *folder, path_now[256];
static struct engine *engine;
static int n_ran, n_refused;

static void begin(void)
{
#ifdef MAX_MEMORY
    const struct rlimit limit = {MAX_MEMORY, MAX_MEMORY};
    setrlimit(RLIMIT_AS, &limit);
#endif
    folder = files_folder();
    engine = bare_engine(folder, TEST_PLUGIN_DIR);
}

static void end(void)
{
    engine_close(engine);
    files_remove(folder);
    free(folder);
}

TestSuite(hostile_families, .init = begin, .fini = end);

/* ---- One model ---- */

static int decode(struct engine_context *context)
{
    struct engine_context_info info = {.struct_size = sizeof info};
    int32_t tokens[] = {1, 2, 0, 3, 1};
    engine_context_get_info(context, &info);
    float *logits = calloc(info.n_vocab, sizeof *logits), *states = calloc(5, info.n_embd * sizeof *states);
    cr_assert(logits && states);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) tokens[i] %= (int32_t)info.n_vocab;
    struct engine_batch batch = {.struct_size = sizeof batch,
                                 .tokens = tokens,
                                 .n_tokens = 5,
                                 .states = info.is_encoder ? states : NULL};
    int status = info.has_source ? engine_encode(context, &batch) : ENGINE_OK;
    for (int i = 0; i <= N_PREDICT && !status; i++) {
        status = engine_decode(context, &batch, info.is_encoder ? NULL : logits);
        batch.n_tokens = 1;
    }
    free(logits);
    free(states);
    return status;
}

/* Runs the file at path_now. A refusal must be one line that names the file. */
static bool run(const char *what)
{
    const struct engine_context_options options = {.struct_size = sizeof options,
                                                   .n_context = N_CONTEXT,
                                                   .n_batch = 8,
                                                   .n_threads = 1,
                                                   .backends = "cpu"};
    struct engine_model *model = NULL;
    struct engine_context *context = NULL;
    alarm(MAX_SECONDS);
    int status = engine_model_open(engine, path_now, NULL, &model);
    if (!status) status = engine_context_create(model, &options, &context);
    if (!status) status = decode(context);
    if (status) {
        const char *message = engine_error_message();
        cr_assert(strstr(message, path_now) && !strchr(message, '\n') && !strstr(message, "memory"),
                  "%s: status %d, message \"%s\"", what, status, message);
    }
    engine_context_destroy(context);
    engine_model_close(model);
    alarm(0);
    *(status ? &n_refused : &n_ran) += 1;
    return status == ENGINE_OK;
}

/* ---- Recipes ---- */

struct recipe {
    char name[64];
    char lines[MAX_LINES][MAX_LINE];
    size_t n_lines;
};

static void add_line(struct recipe *recipe, const char *line)
{
    cr_assert(recipe->n_lines < MAX_LINES);
    snprintf(recipe->lines[recipe->n_lines++], MAX_LINE, "%s", line);
}

static struct recipe *read_recipe(const char *name)
{
    struct recipe *recipe = calloc(1, sizeof *recipe);
    char path[512];
    size_t size;
    snprintf(path, sizeof path, "%s/%s.txt", MODELS, name);
    char *text = files_read(path, &size), *rest = text, *line;
    snprintf(recipe->name, sizeof recipe->name, "%s", name);
    while ((line = strtok_r(rest, "\n", &rest))) add_line(recipe, line);
    free(text);
    return recipe;
}

/* The first line that begins like this; n_lines if there is none. */
static size_t find_line(const struct recipe *recipe, const char *start)
{
    size_t i = 0;
    while (i < recipe->n_lines && strncmp(recipe->lines[i], start, strlen(start)) != 0) i++;
    return i;
}

/* Writes the recipe's model with line `changed` as `line`, or left out (NULL). */
static void write_model(const struct recipe *recipe, size_t changed, const char *line)
{
    char *text = NULL;
    size_t length, size;
    FILE *stream = open_memstream(&text, &length);
    for (size_t i = 0; i < recipe->n_lines; i++)
        if (i != changed || line) fprintf(stream, "%s\n", i == changed ? line : recipe->lines[i]);
    fclose(stream);
    uint8_t *bytes = model_recipe_gguf(text, length, &size);
    files_write(path_now, bytes, size);
    free(bytes);
    free(text);
}

static bool run_changed(const struct recipe *recipe, size_t changed, const char *line)
{
    char what[5 * MAX_LINE];
    write_model(recipe, changed, line);
    snprintf(what, sizeof what, "%s: \"%s\" is now \"%s\"", recipe->name,
             changed < recipe->n_lines ? recipe->lines[changed] : "", line ? line : "");
    return run(what);
}

/* ---- Changes ---- */

static const char *const values[] = {
    "u32 0",
    "u32 1",
    "u32 2",
    "u32 3",
    "u32 7",
    "u32 33",
    "u32 65537",
    "u32 2147483647",
    "u32 2147483648",
    "u32 4294967295",
    "i32 -1",
    "i64 -9223372036854775808",
    "u64 18446744073709551615",
    "u64 4294967296",
    "u8 1",
    "bool 0",
    "bool 1",
    "bool 2",
    "f32 nan",
    "f32 inf",
    "f32 -inf",
    "f32 -1",
    "f32 0",
    "f32 -0",
    "f32 1",
    "f32 1e-45",
    "f32 1e-30",
    "f32 3e38",
    "f64 1e300",
    "f64 nan",
    "str",
    "str linear",
    "str yarn",
    "str longrope",
    "str none",
    "str x",
    "u32[]",
    "u32[] 1",
    "u32[] 0 0",
    "u32[] 1 1 1",
    "u32[] 2 4",
    "u32[] 4 2 2",
    "i32[] -1 -1",
    "f32[]",
    "f32[] 1 1",
    "f32[] nan nan",
    "str[] a b",
    "bool[] 1 0",
    "bool[] 1",
};

static void change_key(const struct recipe *recipe, size_t i)
{
    char name[MAX_LINE], line[2 * MAX_LINE];
    sscanf(recipe->lines[i], "key %s", name);
    run_changed(recipe, i, NULL);
    const size_t step = all_unless(SANITIZED, 1, 2);
    for (size_t k = i % step; k < sizeof values / sizeof *values; k += step) {
        snprintf(line, sizeof line, "key %s %s", name, values[k]);
        run_changed(recipe, i, line);
    }
}

/* Of the parts of "tensor NAME TYPE NE...": %1 the name, %2 the type, %3 all of the shape, %4 its first
 * number, %5 the others, %6 the first number and 1, %7 the numbers in reverse. */
static const char *const shapes[] = {
    "%1 F64 %3",
    "%1 I32 %3",
    "%1 I8 %3",
    "%1 Q8_0 %3",
    "%1 Q4_K %3",
    "%1 F32 %3",
    "%1 F16 %3",
    "%1 BF16 %3",
    "%1 Q4_0 %3",
    "%1 200 %3",
    "%1 %2 %7",
    "%1 %2 %6 %5",
    "%1 %2 1",
    "%1 %2 %4",
    "%1 %2 %3 2",
    "%1 %2 %3 1",
    "%1 %2 %3 1 2",
    "%1 %2 0 %5",
    "%1 %2 %3 0",
    "%1 %2 32",
    "%1 %2 64 64",
    "%1 F32 %3 = nan",
    "%1 F32 %3 = inf",
    "%1 F32 %3 = 0",
    "%1 F32 %3 = -1",
    "%1 F32 %3 = 1e-45",
    "%1 F32 %3 = 3e38",
    "%1 %2 %4 4294967296",
    "%1 %2 4294967296 %5",
    "%1 %2 4611686018427387904 4",
    "%1 %2 %3 4611686018427387904",
    "%1.x %2 %3",
    "blk.9.x %2 %3",
};

static void fill_shape(const char *pattern, const char *line, char *out)
{
    char name[MAX_LINE], type[32];
    uint64_t ne[4] = {1, 1, 1, 1};
    int used = 0, n = 0;
    sscanf(line, "tensor %s %31s%n", name, type, &used);
    char *at = (char *)(uintptr_t)line + used, *next;
    for (; n < 4; n++, at = next) {
        ne[n] = strtoull(at, &next, 10);
        if (next == at) break;
    }
    out += sprintf(out, "tensor ");
    for (const char *p = pattern; *p; p++) {
        if (*p != '%') {
            *out++ = *p;
            continue;
        }
        int part = *++p - '0', first = part == 5 ? 1 : 0, last = part == 4 || part == 6 ? 1 : n;
        if (part == 1) out += sprintf(out, "%s", name);
        if (part == 2) out += sprintf(out, "%s", type);
        for (int d = first; part >= 3 && d < last; d++)
            out += sprintf(out, " %llu", (unsigned long long)(ne[part == 7 ? n - 1 - d : d] + (part == 6)));
    }
    *out = 0;
}

static void change_tensor(const struct recipe *recipe, size_t i)
{
    char line[4 * MAX_LINE];
    run_changed(recipe, i, NULL);
    const size_t step = all_unless(SANITIZED, 1, 2);
    for (size_t k = i % step; k < sizeof shapes / sizeof *shapes; k += step) {
        fill_shape(shapes[k], recipe->lines[i], line);
        run_changed(recipe, i, line);
    }
}

static void damage_bytes(const char *name, size_t count)
{
    size_t size;
    uint64_t state = SEED;
    uint8_t *bytes = (uint8_t *)files_read(path_now, &size);
    struct base *base = base_gguf(name, bytes, size);
    for (size_t i = 0; i < count; i++) {
        struct damaged copy = make_damaged(base, &state);
        files_write(path_now, copy.bytes, copy.size);
        run(copy.what);
        free(copy.bytes);
    }
    base_destroy(base);
}

static void set_path(const char *name)
{
    snprintf(path_now, sizeof path_now, "%s/hostile-family-%s.gguf", TEST_BINARY_DIR, name);
}

static void check_counts(const char *name)
{
    cr_assert(n_ran > 0 && n_refused > 0, "%s: %d ran, %d were refused", name, n_ran, n_refused);
}

static const char *const names[] = {"falcon",    "gemma2",  "mixtral", "mixtral-old", "deepseek3",
                                    "deepseek2", "gpt-oss", "gpt2",    "mpt",         "cohere2",
                                    "llama4",    "granite", "phi3",    "gemma3",      "stablelm",
                                    "qwen2moe",  "glm4moe", "bert",    "t5",          "gemma4"};
enum { N_NAMES = sizeof names / sizeof *names };

ParameterizedTestParameters(hostile_families, changes)
{
    static char copies[N_NAMES][16];
    for (size_t i = 0; i < N_NAMES; i++) snprintf(copies[i], sizeof copies[i], "%s", names[i]);
    return cr_make_param_array(char[16], copies, N_NAMES);
}

ParameterizedTest(char name[16], hostile_families, changes)
{
    struct recipe *recipe = read_recipe(name);
    set_path(name);
    cr_assert(run_changed(recipe, MAX_LINES, NULL), "%s: %s", name, engine_error_message());
    damage_bytes(name, all_unless(SANITIZED, N_DAMAGED, N_DAMAGED / 2));
    for (size_t i = 0; i < recipe->n_lines; i++) {
        if (strncmp(recipe->lines[i], "key ", 4) == 0) change_key(recipe, i);
        if (strncmp(recipe->lines[i], "tensor ", 7) == 0) change_tensor(recipe, i);
    }
    unlink(path_now);
    check_counts(name);
    free(recipe);
}

/* Every family reads every other one's model. */
Test(hostile_families, of_another_family)
{
    char line[MAX_LINE];
    set_path("other");
    for (size_t i = 0; i < N_NAMES; i++) {
        struct recipe *recipe = read_recipe(names[i]);
        const size_t step = all_unless(SANITIZED, 1, 3);
        for (size_t k = i % step; k < sizeof families / sizeof *families; k += step) {
            snprintf(line, sizeof line, "family %s", families[k]->name);
            run_changed(recipe, find_line(recipe, "family "), line);
        }
        free(recipe);
    }
    unlink(path_now);
    check_counts("other families");
}

/* ---- Known lies ---- */

struct lie {
    const char *recipe, *line,
        *words; /* the line that takes the place of that with the same name, or is added */
};

static const struct lie lies[] = {
    {"mixtral", "key expert_used_count u32 5", "expert_used_count"},
    {"mixtral", "key expert_used_count u32 0", "expert_used_count"},
    {"mixtral", "key expert_count u32 5", "ffn_gate_inp"},
    {"mixtral-old", "key expert_count u32 3", "ffn_gate_inp"},
    {"mixtral-old", "tensor blk.*.ffn_up.1.weight f16 32 32", "different types"},
    {"mixtral", "key attention.head_count_kv u32 3", "head_count_kv 3"},
    {"mixtral", "key attention.head_count u32 0", "head_count 0"},
    {"mixtral", "key attention.key_length u32 0", "key_length 0"},
    {"mixtral", "key attention.key_length u32 7", "rope.dimension_count"},
    {"mixtral", "key attention.key_length u32 70000", "key_length 70000"},
    {"mixtral", "key rope.dimension_count u32 10", "rope.dimension_count"},
    {"mixtral", "key rope.dimension_count u32 3", "rope.dimension_count"},
    {"mixtral", "key rope.freq_base f32 0", "rope.freq_base"},
    {"mixtral", "key rope.scaling.factor f32 1e-42", "rope.scaling.factor"},
    {"mixtral", "key rope.scaling.type u32 1", "rope.scaling.type"},
    {"mixtral", "key rope.scaling.type str cubic", "cubic"},
    {"mixtral", "tensor rope_freqs.weight f32 4 = 0", "rope_freqs.weight"},
    {"mixtral", "tensor rope_freqs.weight f32 4 = nan", "rope_freqs.weight"},
    {"mixtral", "tensor rope_freqs.weight f32 4 = -1", "rope_freqs.weight"},
    {"mixtral", "tensor rope_freqs.weight f32 5", "rope_freqs.weight"},
    {"phi3", "tensor rope_factors_long.weight f32 3", "rope_factors_long.weight"},
    {"phi3", "tensor rope_factors_long.weight f32 4 = inf", "rope_factors_long.weight"},
    {"phi3", "tensor blk.*.attn_qkv.weight f16 32 63", "attn_qkv.weight"},
    {"phi3", "tensor blk.*.ffn_up.weight f16 32 63", "ffn_up.weight"},
    {"mixtral", "key block_count u32 2147483647", "block_count 2147483647"},
    {"mixtral", "key block_count u32 3", "blk.2."},
    {"t5", "key decoder_block_count u32 0", "decoder_block_count 0"},
    {"t5", "key decoder_block_count u32 2", "dec.blk.1."},
    {"t5", "key decoder_start_token_id u32 64", "decoder_start_token_id"},
    {"t5", "key attention.relative_buckets_count u32 3", "3 buckets"},
    {"t5", "key attention.relative_buckets_count u32 16", "attn_rel_b"},
    {"t5", "key attention.relative_max_distance u32 4", "distances up to 4"},
    {"t5", "key attention.value_length u32 4", "values of 4"},
    {"t5", "tensor enc.blk.0.attn_rel_b.weight i8 4 8", "attn_rel_b"},
    {"t5encoder", "tensor enc.blk.*.attn_norm.weight f32 31", "attn_norm"},
    {"mixtral", "key context_length u32 0", "context_length"},
    {"mixtral", "key expert_weights_scale f32 nan", "expert_weights_scale"},
    {"mixtral", "key attention.scale f32 inf", "attention.scale"},
    {"mixtral", "key attention.scale f32[] 1 1", "attention.scale"},
    {"mixtral", "key attention.layer_norm_rms_epsilon f32 -1", "layer_norm_rms_epsilon"},
    {"mixtral", "tensor blk.*.attn_norm.weight q8_0 32", "attn_norm.weight"},
    {"mixtral", "tensor blk.*.attn_q.weight i32 32 32", "attn_q.weight"},
    {"mixtral", "tensor blk.*.attn_q.weight f64 32 32", "attn_q.weight"},
    {"mixtral", "tensor blk.*.ffn_up_exps.weight f16 32 32 3", "ffn_up_exps.weight"},
    {"glm4moe", "key nextn_predict_layers u32 3", "nextn_predict_layers 3"},
    {"gemma2", "key attention.sliding_window_pattern bool[] 1", "sliding_window_pattern"},
    {"gemma2", "key attention.sliding_window_pattern bool[] 1 0 1", "sliding_window_pattern"},
    {"gemma2", "key attention.sliding_window i32 -1", "sliding_window"},
    {"gemma2", "key attn_logit_softcapping f32 -1", "attn_logit_softcapping"},
    {"gemma2", "key final_logit_softcapping f32 nan", "final_logit_softcapping"},
    {"gemma2", "key feed_forward_length u32 0", "feed_forward_length"},
    {"qwen2moe", "key attention.head_count_kv u32[] 2", "head_count_kv has 1 values"},
    {"qwen2moe", "key attention.head_count_kv str[] a b", "head_count_kv"},
    {"granite", "key logit_scale f32 0", "logit_scale"},
    {"granite", "key logit_scale f32 1e-40", "logit_scale"},
    {"granite", "key embedding_scale f32 nan", "embedding_scale"},
    {"granite", "key residual_scale f32 -inf", "residual_scale"},
    {"cohere2", "key logit_scale f32 0", "logit_scale"},
    {"mpt", "key attention.clamp_kqv f32 -1", "clamp_kqv"},
    {"mpt", "key attention.max_alibi_bias f32 nan", "max_alibi_bias"},
    {"mpt", "key attention.max_alibi_bias f32 0", "position_embd"},
    {"gpt-oss", "key rope.freq_base f32 1", "rope.freq_base"},
    {"gpt-oss", "key rope.scaling.original_context_length u32 0", "original_context_length"},
    {"gpt-oss", "key rope.scaling.yarn_beta_fast f32 0", "yarn_beta_fast"},
    {"gpt-oss", "tensor blk.*.attn_sinks.weight f32 3", "attn_sinks.weight"},
    {"gpt-oss", "tensor blk.*.ffn_up_exps.bias f32 32 3", "ffn_up_exps.bias"},
    {"gpt2", "tensor position_embd.weight f32 31 64", "position_embd.weight"},
    {"gpt2", "tensor position_embd.weight f32 32 8", "learnt only 8"},
    {"bert", "key attention.causal bool 1", "causal"},
    {"bert", "tensor position_embd.weight f32 32 8", "learnt only 8"},
    {"bert", "tensor token_types.weight f32 31 2", "token_types.weight"},
    {"falcon", "tensor blk.*.attn_qkv.bias f32 47", "attn_qkv.bias"},
    {"llama4", "key interleave_moe_layer_step u32 0", "interleave_moe_layer_step"},
    {"deepseek3", "key expert_group_count u32 3", "expert_group_count"},
    {"deepseek3", "key expert_group_used_count u32 3", "expert_group_count"},
    {"deepseek3", "key attention.kv_lora_rank u32 17", "17 latent"},
    {"deepseek3", "key attention.key_length_mla u32 4", "latent and"},
    {"deepseek4", "key rope.layers u32 0", "rope.layers"},
    {"deepseek4", "key rope.layers u32[] 1 0", "rope.layers"},
    {"deepseek3", "tensor blk.*.attn_k_b.weight f16 8 16 3", "attn_k_b.weight"},
    {"stablelm", "tensor blk.*.attn_q_norm.weight f32 8 3", "attn_q_norm.weight"},
    {"gemma3", "tensor blk.*.attn_q_norm.weight f32 15", "attn_q_norm.weight"},
    {"gemma4", "key attention.key_length_swa u32 0", "key_length 0"},
    {"gemma4", "key attention.shared_kv_layers u32 3", "shared_kv_layers 3"},
    {"gemma4", "key attention.sliding_window_pattern bool[] 0 0 1", "no layer before them is like layer 2"},
    {"gemma4", "key rope.dimension_count_swa u32 10", "do not fit heads of 8"},
    {"gemma4", "key embedding_length_per_layer_input u32 7", "per_layer_token_embd.weight"},
    {"gemma4", "tensor blk.0.ffn_down_exps.scale f32 3", "ffn_down_exps.scale"},
    {"gemma3n", "key altup.num_inputs u32 9", "2 to 8"},
    {"gemma3n", "key activation_sparsity_scale f32[] 1", "activation_sparsity_scale"},
    {"gemma3n", "tensor altup_proj.weight f16 32 32 1", "altup_proj"},
    {"mixtral", "family mamba", "mamba.ssm.inner_size is missing"},
    {"mixtral", "family bart", "docs/models.md"},
    {"mixtral", "family rwkv5", "docs/models.md"},
    {"rwkv6", "key wkv.head_size u32 7", "divide embedding_length"},
    {"rwkv6", "tensor blk.*.time_mix_lerp_fused.weight f32 32 1 1 6", "not 5 rows"},
    {"rwkv6", "tensor blk.*.time_mix_w2.weight f16 4 32 4", "time_mix_w2"},
    {"rwkv7", "key wkv.head_size u32 0", "wkv.head_size"},
    {"rwkv7", "key wkv.head_size u32 512", "up to 256"},
    {"rwkv7", "tensor blk.*.time_mix_a1.weight f16 31 6", "time_mix_a1"},
    {"falcon-h1", "key ssm.group_count u32 3", "don't go together"},
    {"falcon-h1", "key ssm.state_size u32 257", "256 states"},
    {"falcon-h1", "tensor blk.*.ffn_norm f32 31", "ffn_norm"},
    {"granitehybrid", "key attention.head_count_kv u32[] 0 3", "head_count_kv 3"},
    {"granitehybrid", "key attention.head_count_kv u32[] 0", "has 1 values"},
    {"granitehybrid", "key ssm.inner_size u32 63", "don't go together"},
    {"laguna", "key rope.dimension_count_swa u32 10", "do not fit heads of 8"},
    {"laguna", "tensor blk.1.attn_gate.weight f16 32 3", "attn_gate.weight"},
    {"nemotron-h", "key moe_latent_size u32 7", "ffn_latent_down.weight"},
    {"nemotron-h", "key attention.head_count_kv u32[] 0 0 0 0", "feed_forward_length"},
    {"phimoe", "key expert_used_count u32 3", "3 of 4 experts"},
    {"phimoe", "key router_jitter_noise f32 -1", "router_jitter_noise"},
    {"lfm2", "key shortconv.l_cache u32 17", "shortconv.l_cache is 17"},
    {"lfm2", "key shortconv.l_cache u32 4", "shortconv.conv.weight"},
    {"qwen3next", "key attention.recurrent_layers bool[] 1", "has 1 values"},
    {"qwen3next", "key ssm.group_count u32 3", "don't go together"},
    {"qwen3next", "key ssm.conv_kernel u32 1", "2 to 16 taps"},
    {"qwen3next", "tensor blk.0.ssm_ba.weight f16 32 7", "ssm_ba.weight"},
    {"qwen35", "tensor blk.0.ssm_alpha.weight f16 32 7", "ssm_alpha.weight"},
};

Test(hostile_families, known_lies)
{
    set_path("lie");
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const struct lie *lie = &lies[i];
        struct recipe *recipe = read_recipe(lie->recipe);
        char start[MAX_LINE]; /* "key NAME " */
        const char *second = strchr(lie->line, ' '), *third = strchr(second + 1, ' ');
        size_t length = (size_t)((third ? third : second) + 1 - lie->line);
        snprintf(start, sizeof start, "%.*s", (int)length, lie->line);
        size_t line = find_line(recipe, start);
        if (line == recipe->n_lines) add_line(recipe, lie->line);
        cr_expect(!run_changed(recipe, line, lie->line), "%s: %s", lie->recipe, lie->line);
        cr_expect(strstr(engine_error_message(), lie->words), "%s: \"%s\" should have \"%s\"", lie->line,
                  engine_error_message(), lie->words);
        free(recipe);
    }
    unlink(path_now);
}

/* ---- Files from elsewhere ---- */

Test(hostile_families, shared_files)
{
    DIR *files = opendir(SHARED);
    if (!files) cr_skip_test("no %s", SHARED);
    for (struct dirent *file; (file = readdir(files));) {
        char path[512];
        const char *dot = strrchr(file->d_name, '.');
        if (!dot || strcmp(dot, ".gguf") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", SHARED, file->d_name);
        set_path("shared");
        files_copy(path, path_now, SIZE_MAX);
        damage_bytes(file->d_name, all_unless(SANITIZED, N_OF_SHARED, N_OF_SHARED / 3));
    }
    closedir(files);
    unlink(path_now);
    check_counts("shared files");
}
