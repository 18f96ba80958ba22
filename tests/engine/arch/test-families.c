/* test-families.c: the logits of a small model of each family, in ../shared/families, against transformers'.
 * On the CPU, or with TEST_BACKEND on a GPU plugin's device as well, with none, one and all of the layers
 * there. A plugin that was built with the border's first version has to run them too. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "families-fixture.h"
#include "files.h"
#ifdef TEST_DIRECTORIES
#include "picked-logits.h"
#endif
#include "sample.h"

/* With TEST_DIRECTORIES, the directories that the files were converted from are read, which lack nothing. */
#ifdef TEST_DIRECTORIES
#define INCOMPLETE false
#else
#define INCOMPLETE true
#endif

/* A model and what its file lacks of what the logits depend on; those are run, and a warning has to tell. */
struct sample {
    const char *name;
    bool is_incomplete;
};

static const struct sample samples[] = {
    {"bloom", false},          {"cohere", false},      {"cohere2", false},
    {"deepseek2-lite", false}, {"deepseek3", false},   {"ernie4.5", false},
    {"exaone4", false},        {"falcon40", false},    {"falcon7", false},
    {"gemma", false},          {"gemma2", INCOMPLETE}, {"gemma3", false},
    {"gpt2", false},           {"gptneox", false},     {"gptoss", false},
    {"granite", false},        {"llama", false},       {"gptneox-serial", false},
    {"llama-bias", false},     {"llama3", false},      {"mistral", INCOMPLETE},
    {"granitemoe", false},     {"mixtral", false},     {"nemotron", false},
    {"olmo2", false},          {"phi2", false},        {"phi3", false},
    {"phi3-longrope", false},  {"qwen2", false},       {"qwen2moe", false},
    {"qwen3", false},          {"qwen3-yarn", false},  {"qwen3moe", false},
    {"smollm3", false},        {"stablelm", false},    {"starcoder2", INCOMPLETE},
    {"mamba", false},          {"mamba2", false},      {"seed-oss", false},
#ifndef TEST_BACKEND /* no operation that the others lack */
    {"gemma3n", false},        {"gemma4-e", false},    {"gemma4-moe", false},
#endif
#ifdef TEST_DIRECTORIES
    {"glm4", false},           {"mpt", false},         {"stablelm-12b", false},
#endif
};
enum { N_SAMPLES = sizeof samples / sizeof *samples };

/* Families of the same parts as those above, whose logits alone are compared, on the CPU; elsewhere only if
 * all cases are wanted. The recurrences of qwen3.5 enlarge float32's errors, also in transformers. The bias
 * that chooses experts is stored rounded, so that a token of minimax-m2 has others than in transformers.
 * transformers' recurrence of nemotron-h adds up the states of the wrong chunks behind the first one
 * (chunk_size, 16 tokens): later tokens change earlier logits there. */
static const struct relative {
    const char *name;
    double bar;
    int n_off; /* tokens beyond the bar */
} relatives[] = {
    {"dots1", 1e-5, 0},       {"exaone-moe", 1e-5, 0},      {"minimax-m2", 1e-5, 1},
    {"olmoe", 1e-5, 0},       {"olmo3", 1e-5, 0},           {"qwen3.5", 1e-4, 0},
    {"qwen3.5-moe", 1e-4, 0}, {"arcee", 1e-5, 0},           {"jais2", 1e-5, 0},
    {"laguna", 1e-5, 0},      {"lfm2moe", 1e-5, 0},         {"ministral3", 1e-5, 0},
    {"nemotron-h", 1e-5, 24}, {"nemotron-h-moe", 1e-5, 24}, {"nemotron-h-latent", 1e-5, 24},
    {"afmoe", 1e-5, 0},       {"cohere2-moe", 1e-5, 0},     {"gemma4", 1e-5, 0},
    {"gemma4-kv", 1e-5, 0},   {"apertus", 1e-5, 0},         {"youtu", 1e-5, 0},
#ifdef TEST_BACKEND
    {"gemma3n", 1e-5, 0},     {"gemma4-e", 1e-5, 0},        {"gemma4-moe", 1e-5, 0},
#endif
#ifdef TEST_DIRECTORIES
    {"phimoe", 1e-5, 0},      {"solar-open", 1e-5, 0},      {"bitnet", 1e-5, 0},
    {"hunyuan-moe", 1e-5, 0}, {"deepseek4", 1e-5, 4},
#endif
};
enum { N_RELATIVES = sizeof relatives / sizeof *relatives };

static char log_text[4096];

TestSuite(families, .init = families_begin, .fini = families_end);

static void keep_warnings(void *user, enum engine_log_level level, const char *line)
{
    (void)user;
    if (level > ENGINE_LOG_WARNING) return;
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s\n", line);
}

/* ---- Running ---- */

struct setting {
    const char *backends;
    int32_t offload;
    uint32_t n_batch, n_threads;  /* n_threads 0: 2 */
    const char *const *overrides; /* of the model's metadata; NULL: none */
    const char *const *plugin_dirs;
};

static const char *const our_plugins[] = {TEST_PLUGIN_DIR, NULL};

struct running {
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
};

static int start(const char *path, const struct setting *setting, size_t n_context, struct running *running)
{
    struct engine_options options = {.struct_size = sizeof options,
                                     .plugin_dirs = setting->plugin_dirs ? setting->plugin_dirs : our_plugins,
                                     .config_file = families.config_file,
                                     .log = keep_warnings};
    struct engine_context_options wish = {.struct_size = sizeof wish,
                                          .n_context = (uint32_t)n_context,
                                          .n_batch = setting->n_batch,
                                          .n_threads = setting->n_threads ? setting->n_threads : 2,
                                          .cache_type = "f32",
                                          .backends = setting->backends,
                                          .offload = &setting->offload};
    *running = (struct running){0};
    log_text[0] = 0;
    int status = engine_open(&options, &running->engine);
    const struct engine_model_options how = {.struct_size = sizeof how, .overrides = setting->overrides};
    if (!status) status = engine_model_open_with(running->engine, path, &how, &running->model);
    if (!status) status = engine_context_create(running->model, &wish, &running->context);
    return status;
}

/* A failed expectation where anything has failed. */
static void stop(const char *path, const struct setting *setting, int status, struct running *running)
{
    cr_expect_eq(status, ENGINE_OK, "%s on %s: %s", path, setting->backends, engine_error_message());
    engine_context_destroy(running->context);
    engine_model_close(running->model);
    engine_close(running->engine);
}

/* The logits of all tokens of a model's file in new memory; NULL after a failed expectation. */
static float *run(const char *path, const struct setting *setting, const int32_t *tokens, size_t n_tokens,
                  size_t n)
{
    uint8_t *wanted = malloc(n_tokens);
    float *logits = malloc(n * sizeof *logits);
    memset(wanted, 1, n_tokens);
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = n_tokens, .tokens = tokens, .wanted = wanted};
    struct running running;
    int status = start(path, setting, n_tokens, &running);
    if (!status) status = engine_decode(running.context, &batch, logits);
    stop(path, setting, status, &running);
    free(wanted);
    if (!status) return logits;
    free(logits);
    return NULL;
}

static void check(const struct sample *sample, const struct setting *setting, double bar)
{
    size_t n_tokens, n;
    const struct family_files files = family_files(sample->name);
    int32_t *tokens = families_read_npy(files.tokens, &n_tokens);
    float *reference = families_read_npy(files.logits, &n);
    float *logits = run(files.model, setting, tokens, n_tokens, n);
    double error = logits ? families_error(logits, reference, n) : 0;
#ifdef TEST_DIRECTORIES
    cr_expect_str_empty(log_text, "%s: %s", sample->name, log_text);
#endif
    if (sample->is_incomplete)
        cr_expect_not_null(strstr(log_text, "assuming"), "%s: no warning: %s", sample->name, log_text);
    else
        cr_expect(error <= bar, "%s on %s, %d layers offloaded, batches of %u: relative error %.2e",
                  sample->name, setting->backends, setting->offload, setting->n_batch, error);
    free(tokens);
    free(reference);
    free(logits);
}

/* How many tokens have logits beyond the bar. */
static void check_relative(const struct relative *relative, const struct setting *setting, const char *path,
                           double bar)
{
    const struct family_files files = family_files(relative->name);
    size_t n_tokens, n;
    int n_off = 0;
    int32_t *tokens = families_read_npy(files.tokens, &n_tokens);
    float *reference = families_read_npy(files.logits, &n);
    float *logits = run(path, setting, tokens, n_tokens, n);
    size_t n_vocab = n / n_tokens;
    for (size_t t = 0; t < n_tokens && logits; t++)
        n_off += !(families_error(logits + t * n_vocab, reference + t * n_vocab, n_vocab) <= bar);
    cr_expect_leq(n_off, relative->n_off, "%s on %s, %d layers offloaded: %d tokens are off", relative->name,
                  setting->backends, setting->offload, n_off);
    free(tokens);
    free(reference);
    free(logits);
}

/* ---- Texts ---- */

enum { PROMPT = 17, NEW = 24 };

/* What a model goes on with at temperature 0, and up to where that doesn't hang on the last bits: before the
 * first token whose two best logits differ by less than a thousandth. */
struct text {
    int32_t tokens[NEW];
    int n_certain;
};

/* The most likely token. */
static int32_t best(const float *logits, uint32_t n, bool *is_certain)
{
    uint32_t first = 0, second = 1;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[first])
            second = first, first = i;
        else if (logits[i] > logits[second])
            second = i;
    *is_certain = logits[first] - logits[second] >= 1e-3 * fmax(fabs(logits[first]), fabs(logits[second]));
    return (int32_t)first;
}

static bool write_text(const char *path, const struct setting *setting, const int32_t *prompt,
                       struct text *text)
{
    struct engine_context_info info = {.struct_size = sizeof info};
    struct running running;
    float *logits = NULL;
    bool is_certain = true;
    text->n_certain = 0;
    int status = start(path, setting, PROMPT + NEW, &running);
    if (!status) {
        engine_context_get_info(running.context, &info);
        logits = malloc(info.n_vocab * sizeof *logits);
    }
    for (int i = 0; i < NEW && !status; i++) {
        struct engine_batch batch = {.struct_size = sizeof batch,
                                     .n_tokens = i == 0 ? PROMPT : 1,
                                     .tokens = i == 0 ? prompt : &text->tokens[i - 1]};
        bool here = true;
        status = engine_decode(running.context, &batch, logits);
        if (status) break;
        text->tokens[i] = best(logits, info.n_vocab, &here);
        is_certain &= here;
        text->n_certain += is_certain;
    }
    free(logits);
    stop(path, setting, status, &running);
    return !status;
}

/* The text of a file by each of the settings is that of the CPU with one thread. Adds how many tokens were
 * held against it, and how many there are, to counts. */
static void compare_texts(const char *name, const char *path, const struct setting *settings, size_t n,
                          int counts[2])
{
    const struct setting alone = {.backends = "cpu", .n_batch = 512, .n_threads = 1};
    size_t n_tokens;
    int32_t *tokens = families_read_npy(family_files(name).tokens, &n_tokens);
    struct text expected, text;
    cr_assert_geq(n_tokens, PROMPT);
    bool good = write_text(path, &alone, tokens, &expected);
    for (size_t i = 0; i < n && good; i++) {
        if (!write_text(path, &settings[i], tokens, &text)) continue;
        int same = 0;
        while (same < expected.n_certain && text.tokens[same] == expected.tokens[same]) same++;
        if (same < expected.n_certain)
            cr_expect_fail(
                "%s on %s, %d layers offloaded, %u threads, batches of %u: token %d is %d instead of %d",
                name, settings[i].backends, settings[i].offload, settings[i].n_threads, settings[i].n_batch,
                same, text.tokens[same], expected.tokens[same]);
        counts[0] += expected.n_certain;
        counts[1] += NEW;
    }
    free(tokens);
}

/* ---- Other types ---- */

/* Writes a model of the shared ones in another type. */
static const char *converted(const char *name, const char *type)
{
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = our_plugins, .config_file = families.config_file};
    struct engine *engine = NULL;
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK);
    families_convert(engine, family_files(name).model, type, 0);
    engine_close(engine);
    return families.model_file;
}

#ifndef TEST_BACKEND

Test(families, logits_on_the_cpu_are_those_of_transformers)
{
    for (int i = 0; i < N_SAMPLES; i++)
        check(&samples[i], &(struct setting){.backends = "cpu", .n_batch = 512}, 1e-5);
}

Test(families, logits_of_their_relatives_are_those_of_transformers)
{
    for (int i = 0; i < N_RELATIVES; i++)
        check_relative(&relatives[i], &(struct setting){.backends = "cpu", .n_batch = 7},
                       family_files(relatives[i].name).model, relatives[i].bar);
}

#ifdef TEST_DIRECTORIES

static void check_picked(const char *name, const char *path, const float wanted[N_PICKED_TOKENS][2],
                         const struct setting *setting)
{
    const struct family_files files = family_files(name);
    size_t n_tokens, n;
    int32_t *tokens = families_read_npy(files.tokens, &n_tokens);
    float *reference = families_read_npy(files.logits, &n);
    float *logits = run(path, setting, tokens, n_tokens, n);
    cr_assert_eq(n_tokens, N_PICKED_TOKENS);
    for (int t = 0; t < N_PICKED_TOKENS && logits; t++) {
        const float *row = logits + (size_t)t * (n / n_tokens);
        for (int i = 0; i < 2; i++) {
            float got = row[picked_id(t, i)];
            cr_expect(fabs((double)(got - wanted[t][i])) <= 2e-5,
                      "%s on %s, %d layers offloaded, batches of %u, token %d: %g, not %g", name,
                      setting->backends, setting->offload, setting->n_batch, t, (double)got,
                      (double)wanted[t][i]);
        }
    }
    free(tokens);
    free(reference);
    free(logits);
}

/* Where several positions have the score that just suffices, transformers takes any of them. These logits are
 * those if it takes the lowest. */
Test(families, sparse_attention_picks_the_lowest_of_equal_positions)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, TEST_OLD_BACKEND_DIR, NULL};
    const struct setting settings[] = {
        {.backends = "cpu", .n_batch = 512},
        {.backends = "cpu", .n_batch = 7},
        {.backends = "cpu", .n_batch = 1},
        {.backends = "minimal", .offload = 1, .n_batch = 512, .plugin_dirs = dirs},
        {.backends = "minimal", .offload = ENGINE_OFFLOAD_ALL, .n_batch = 512, .plugin_dirs = dirs}};
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        bool is_cpu = settings[k].plugin_dirs == NULL;
        const char *path = is_cpu ? family_files("deepseek3.2").model : converted("deepseek3.2", "F32");
        check_picked("deepseek3.2", path, deepseek32_logits, &settings[k]);
        path = is_cpu ? family_files("glm-dsa").model : converted("glm-dsa", "F32");
        check_picked("glm-dsa", path, glm_dsa_logits, &settings[k]);
        path = is_cpu ? family_files("deepseek4").model : converted("deepseek4", "F32");
        check_picked("deepseek4", path, deepseek4_logits, &settings[k]);
    }
}

/* `text`, which is freed, with one text in the place of another. */
static char *replaced(char *text, const char *from, const char *to)
{
    char *result = calloc(2, strlen(text) + 1), *end = result;
    const char *at = text;
    for (const char *found; (found = strstr(at, from)); at = found + strlen(from))
        end += sprintf(end, "%.*s%s", (int)(found - at), at, to);
    strcpy(end, at);
    free(text);
    return result;
}

/* transformers' names, and those of the published files. */
static const char *const published_names[][2] = {
    {"model.layers.", "layers."},
    {"model.embed_tokens", "embed"},
    {"model.norm", "norm"},
    {"model.hc_head.hc_", "hc_head_"},
    {".attn_hc.", ".hc_attn_"},
    {".ffn_hc.", ".hc_ffn_"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.compressor.indexer.scorer.", "self_attn.compressor.indexer."},
    {"self_attn.compressor.indexer.kv_proj", "attn.indexer.compressor.wkv"},
    {"self_attn.compressor.indexer.gate_proj", "attn.indexer.compressor.wgate"},
    {"self_attn.compressor.indexer.position_bias", "attn.indexer.compressor.ape"},
    {"self_attn.compressor.indexer.kv_norm", "attn.indexer.compressor.norm"},
    {"self_attn.compressor.indexer.q_b_proj", "attn.indexer.wq_b"},
    {"self_attn.compressor.indexer.", "attn.indexer."},
    {"self_attn.compressor.kv_proj", "attn.compressor.wkv"},
    {"self_attn.compressor.gate_proj", "attn.compressor.wgate"},
    {"self_attn.compressor.position_bias", "attn.compressor.ape"},
    {"self_attn.compressor.kv_norm", "attn.compressor.norm"},
    {"self_attn.sinks", "attn.attn_sink"},
    {"self_attn.q_a_proj", "attn.wq_a"},
    {"self_attn.q_a_norm", "attn.q_norm"},
    {"self_attn.q_b_proj", "attn.wq_b"},
    {"self_attn.kv_proj", "attn.wkv"},
    {"self_attn.o_a_proj", "attn.wo_a"},
    {"self_attn.o_b_proj", "attn.wo_b"},
    {"self_attn.", "attn."},
    {"mlp.shared_experts.gate_proj", "ffn.shared_experts.w1"},
    {"mlp.shared_experts.down_proj", "ffn.shared_experts.w2"},
    {"mlp.shared_experts.up_proj", "ffn.shared_experts.w3"},
    {"mlp.gate.e_score_correction_bias", "ffn.gate.bias"},
    {"mlp.", "ffn."},
    /* and of config.json */
    {"\"layer_types\"", "\"compress_ratios\": [128, 128, 128, 4], \"num_hash_layers\": 3, \"a\""},
    {"\"mlp_layer_types\"", "\"b\""},
    {"\"compress_rates\"", "\"c\""},
};

static char *with_published_names(char *text)
{
    for (size_t i = 0; i < sizeof published_names / sizeof *published_names; i++)
        text = replaced(text, published_names[i][0], published_names[i][1]);
    return text;
}

static void write_published_deepseek4(const char *from)
{
    size_t size;
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", from);
    char *text = files_read(path, &size);
    cr_assert(text);
    text = with_published_names(text);
    files_write_text(files_path(families.folder, "config.json"), text);
    free(text);
    snprintf(path, sizeof path, "%s/model.safetensors", from);
    char *file = files_read(path, &size);
    uint64_t length;
    memcpy(&length, file, sizeof length);
    const size_t n_data = size - 8 - length;
    text = with_published_names(strndup(file + 8, length));
    const uint64_t published = strlen(text);
    char *written = malloc(8 + published + n_data);
    memcpy(written, &published, 8);
    memcpy(written + 8, text, published);
    memcpy(written + 8 + published, file + 8 + length, n_data);
    files_write(files_path(families.folder, "model.safetensors"), written, 8 + published + n_data);
    free(written);
    free(text);
    free(file);
}

Test(families, the_names_of_deepseek4_as_it_is_published)
{
    const struct setting setting = {.backends = "cpu", .n_batch = 512};
    const struct family_files files = family_files("deepseek4");
    size_t n_tokens, n;
    int32_t *tokens = families_read_npy(files.tokens, &n_tokens);
    free(families_read_npy(files.logits, &n));
    write_published_deepseek4(files.model);
    float *expected = run(files.model, &setting, tokens, n_tokens, n),
          *logits = run(families.folder, &setting, tokens, n_tokens, n);
    if (expected && logits) cr_expect_arr_eq(logits, expected, n * sizeof *logits);
    cr_expect_null(strstr(log_text, "tensor"), "%s", log_text);
    free(expected);
    free(logits);
    free(tokens);
}

#endif

/* The file's YaRN, taken away, and asked for as Qwen's cards do. */
Test(families, yarn_can_be_asked_for)
{
    static const char *const none[] = {".rope.scaling.type=str:none", ".rope.scaling.factor=float:1", NULL};
    static const char *const yarn[] = {".rope.scaling.type=str:none",
                                       ".rope.scaling.original_context_length=int:7",
                                       "qwen3.rope.scaling.type=str:yarn",
                                       "qwen3.rope.scaling.factor=float:4",
                                       ".rope.scaling.original_context_length=int:64",
                                       NULL};
    const struct family_files files = family_files("qwen3-yarn");
    const char *const *overrides[] = {none, yarn};
    size_t n_tokens, n;
    int32_t *tokens = families_read_npy(files.tokens, &n_tokens);
    float *reference = families_read_npy(files.logits, &n);
    for (int i = 0; i < 2; i++) {
        const struct setting setting = {.backends = "cpu", .n_batch = 512, .overrides = overrides[i]};
        float *logits = run(files.model, &setting, tokens, n_tokens, n);
        double error = logits ? families_error(logits, reference, n) : 0;
        cr_expect(i == 0 ? error > 1e-3 : error <= 1e-5, "asked for %d: relative error %.2e", i, error);
        free(logits);
    }
    free(tokens);
    free(reference);
}

Test(families, an_override_of_another_form_is_refused)
{
    static const char *const bad[] = {"",        "=",       "a",           "a=1",          "=int:1",
                                      "a=int:",  "a=int:x", "a=int:1x",    "a=float:nan",  "a=bool:yes",
                                      "a=u32:1", "a=int",   "a=int:1e400", "a=float:1e400"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *const overrides[] = {bad[i], NULL};
        const struct engine_model_options how = {.struct_size = sizeof how, .overrides = overrides};
        const struct engine_options options = {
            .struct_size = sizeof options, .plugin_dirs = our_plugins, .config_file = families.config_file};
        struct engine *engine = NULL;
        struct engine_model *model = NULL;
        cr_assert_eq(engine_open(&options, &engine), ENGINE_OK);
        cr_expect_eq(engine_model_open_with(engine, family_files("llama").model, &how, &model),
                     ENGINE_ERROR_ARGUMENT, "'%s'", bad[i]);
        engine_close(engine);
    }
}

/* A token's result doesn't depend on its batch, to the bit. */
Test(families, batches_of_any_size_give_the_same_logits)
{
    for (int i = 0; i < N_SAMPLES; i++) {
        size_t n_tokens, n;
        int32_t *tokens = families_read_npy(family_files(samples[i].name).tokens, &n_tokens);
        free(families_read_npy(family_files(samples[i].name).logits, &n));
        float *whole = run(family_files(samples[i].name).model,
                           &(struct setting){.backends = "cpu", .n_batch = 512}, tokens, n_tokens, n);
        for (uint32_t n_batch = 1; n_batch < 32 && whole; n_batch = 3 * n_batch + 4) {
            float *parts = run(family_files(samples[i].name).model,
                               &(struct setting){.backends = "cpu", .n_batch = n_batch}, tokens, n_tokens, n);
            if (parts)
                cr_expect_arr_eq(parts, whole, n * sizeof *parts, "%s, batches of %u", samples[i].name,
                                 n_batch);
            free(parts);
        }
        free(whole);
        free(tokens);
    }
}

Test(families, texts_are_the_same_whatever_threads_and_batches)
{
    static const struct setting settings[] = {{.backends = "cpu", .n_batch = 1, .n_threads = 3},
                                              {.backends = "cpu", .n_batch = 7, .n_threads = 2},
                                              {.backends = "cpu", .n_batch = 512, .n_threads = 3}};
    int counts[2] = {0};
    for (int i = 0; i < N_SAMPLES; i++)
        compare_texts(samples[i].name, family_files(samples[i].name).model, settings,
                      sizeof settings / sizeof *settings, counts);
    cr_expect_gt(2 * counts[0], counts[1], "%d of %d tokens were compared", counts[0], counts[1]);
}

/* The backend of the examples, compiled with the header of 1.0: it knows plain products, all else is the
 * CPU's. */
Test(families, a_backend_of_the_first_version_runs_unlike_families)
{
    static const char *const names[] = {"falcon40", "gemma3",   "gptoss", "deepseek3",
                                        "cohere2",  "qwen2moe", "mamba",  "mamba2"};
    static const char *const dirs[] = {TEST_PLUGIN_DIR, TEST_OLD_BACKEND_DIR, NULL};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n_tokens, n;
        int32_t *tokens = families_read_npy(family_files(names[i]).tokens, &n_tokens);
        free(families_read_npy(family_files(names[i]).logits, &n));
        const char *path = converted(names[i], "F32");
        float *alone = run(path, &(struct setting){.backends = "cpu", .n_batch = 512}, tokens, n_tokens, n);
        for (int32_t offload = 1; alone && offload >= ENGINE_OFFLOAD_ALL; offload -= 3) {
            const struct setting split = {
                .backends = "minimal", .offload = offload, .n_batch = 512, .plugin_dirs = dirs};
            float *logits = run(path, &split, tokens, n_tokens, n);
            double error = logits ? families_error(logits, alone, n) : 0;
            cr_expect(error > 0 && error <= 1e-5, "%s, %d layers on the old backend: relative error %.2e",
                      names[i], offload, error);
            free(logits);
        }
        free(alone);
        free(tokens);
    }
}

Test(families, a_backend_of_the_first_version_runs_their_relatives)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, TEST_OLD_BACKEND_DIR, NULL};
    for (int i = 0; i < N_RELATIVES; i++) {
        const struct relative *relative = &relatives[i];
        const char *path = converted(relative->name, "F32");
        for (int32_t offload = 1; offload >= ENGINE_OFFLOAD_ALL; offload -= 3)
            check_relative(
                relative,
                &(struct setting){
                    .backends = "minimal", .offload = offload, .n_batch = 512, .plugin_dirs = dirs},
                path, relative->bar);
    }
}

Test(families, texts_are_the_same_with_half_of_the_layers_on_a_backend_of_the_first_version)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, TEST_OLD_BACKEND_DIR, NULL};
    static const struct setting half = {
        .backends = "minimal", .offload = 1, .n_batch = 7, .plugin_dirs = dirs};
    int counts[2] = {0};
    for (int i = 0; i < N_SAMPLES; i++)
        compare_texts(samples[i].name, converted(samples[i].name, "F32"), &half, 1, counts);
    cr_expect_gt(2 * counts[0], counts[1], "%d of %d tokens were compared", counts[0], counts[1]);
}

#else

Test(families, logits_on_any_split_are_those_of_transformers)
{
    static const int32_t offloads[] = {1, ENGINE_OFFLOAD_ALL, 0};
    for (size_t i = 0; i < N_SAMPLES; i++) {
        /* As a sample, one or all of the layers, in turns. */
        const size_t first = all_or_sample(0, (unsigned)(i + first_of_sample(2)) % 2),
                     n = all_or_sample(3, 1);
        for (size_t k = first; k < first + n; k++)
            check(&samples[i],
                  &(struct setting){.backends = TEST_BACKEND, .offload = offloads[k], .n_batch = 512}, 1e-4);
    }
}

Test(families, logits_of_their_relatives_on_any_split_are_those_of_transformers)
{
    static const int32_t offloads[] = {1, ENGINE_OFFLOAD_ALL};
    const int n = (int)all_or_sample(N_RELATIVES, 0);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            check_relative(
                &relatives[i],
                &(struct setting){.backends = TEST_BACKEND, .offload = offloads[k], .n_batch = 512},
                family_files(relatives[i].name).model, 1e-4);
}

Test(families, texts_are_the_same_whatever_the_split)
{
    static const struct setting settings[] = {
        {.backends = TEST_BACKEND, .offload = 1, .n_batch = 7},
        {.backends = TEST_BACKEND, .offload = ENGINE_OFFLOAD_ALL, .n_batch = 512}};
    int counts[2] = {0};
    for (size_t i = 0; i < N_SAMPLES; i++) {
        /* As a sample, in turns, in reverse order of the logits. */
        const size_t first = all_or_sample(0, (unsigned)(i + 1 + first_of_sample(2)) % 2),
                     n = all_or_sample(2, 1);
        compare_texts(samples[i].name, family_files(samples[i].name).model, settings + first, n, counts);
    }
    cr_expect_gt(2 * counts[0], counts[1], "%d of %d tokens were compared", counts[0], counts[1]);
}

Test(families, quantised_logits_of_a_split_are_close_to_those_of_the_cpu)
{
    static const char *const names[] = {"falcon40", "gemma3", "gptoss", "deepseek3", "cohere2", "qwen2moe"};
    static const char *const types[] = {"Q8_0", "Q4_0"};
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        if ((i + first_of_sample(2)) % 2 != i / 2 % 2 && all_or_sample(0, 1))
            continue; /* as a sample, the types in turns */
        const char *name = names[i / 2], *path = converted(name, types[i % 2]);
        size_t n_tokens, n;
        int32_t *tokens = families_read_npy(family_files(name).tokens, &n_tokens);
        free(families_read_npy(family_files(name).logits, &n));
        float *alone = run(path, &(struct setting){.backends = "cpu", .n_batch = 512}, tokens, n_tokens, n);
        float *split = run(path, &(struct setting){.backends = TEST_BACKEND, .offload = 1, .n_batch = 512},
                           tokens, n_tokens, n);
        double error = alone && split ? families_error(split, alone, n) : 0;
        cr_expect(error <= 1e-2, "%s as %s: relative error %.2e", name, types[i % 2], error);
        free(alone);
        free(split);
        free(tokens);
    }
}

#endif
