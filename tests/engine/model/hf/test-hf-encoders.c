/* test-hf-encoders.c: encoders of Hugging Face's types, written with the same weights under each type's
 * names, have the states of `bert`, which test-encoders.c compares with transformers'. And what
 * sentence-transformers' files say. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter-writer.h"
#include "engine.h"
#include "files.h"

enum { N_EMBD = 16, N_FF = 24, N_LAYERS = 2, N_VOCAB = 20, N_POSITIONS = 12, N_TOKENS = 9, PADDING = 1 };

static char *folder, *config_file;
static char log_text[1024];

static void begin(void)
{
    folder = files_folder();
    config_file = strdup(files_path(folder, "engine.conf"));
    files_write_text(config_file, "");
}

static void end(void)
{
    files_remove(folder);
    free(folder), free(config_file);
}

TestSuite(hf_encoders, .init = begin, .fini = end, .timeout = 120);

/* ---- Models ---- */

/* Modules of BERT, of its layers after "layer.N.", and what DistilBERT calls them. */
static const struct module {
    const char *name, *distilled;
    size_t rows, columns; /* columns 0: a norm */
} layer_modules[] = {
    {"attention.self.query", "attention.q_lin", N_EMBD, N_EMBD},
    {"attention.self.key", "attention.k_lin", N_EMBD, N_EMBD},
    {"attention.self.value", "attention.v_lin", N_EMBD, N_EMBD},
    {"attention.output.dense", "attention.out_lin", N_EMBD, N_EMBD},
    {"attention.output.LayerNorm", "sa_layer_norm", N_EMBD, 0},
    {"intermediate.dense", "ffn.lin1", N_FF, N_EMBD},
    {"output.dense", "ffn.lin2", N_EMBD, N_FF},
    {"output.LayerNorm", "output_layer_norm", N_EMBD, 0},
};

static const struct layout {
    const char *type, *prefix, *norm[2]; /* the latter: what a norm's tensors are called */
    const char *heads[4];                /* tensors that have no use */
    uint32_t n_unused;                   /* rows of positions */
} layouts[] = {
    {"bert", "", {"weight", "bias"}, {"pooler.dense.weight", "pooler.dense.bias"}, 0},
    {"bert",
     "bert.",
     {"gamma", "beta"},
     {"cls.predictions.bias", "cls.predictions.transform.LayerNorm.gamma", "cls.seq_relationship.weight",
      "qa_outputs.bias"},
     0},
    {"roberta",
     "roberta.",
     {"weight", "bias"},
     {"lm_head.bias", "lm_head.dense.weight", "lm_head.layer_norm.weight", "lm_head.decoder.weight"},
     PADDING + 1},
    {"xlm-roberta",
     "roberta.",
     {"weight", "bias"},
     {"lm_head.bias", "lm_head.dense.bias", "classifier.weight", "classifier.bias"},
     PADDING + 1},
    {"camembert", "", {"weight", "bias"}, {"pooler.dense.weight", "pooler.dense.bias"}, PADDING + 1},
    {"distilbert",
     "distilbert.",
     {"weight", "bias"},
     {"vocab_transform.weight", "vocab_layer_norm.bias", "vocab_projector.bias", "qa_outputs.weight"},
     0},
};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };

/* The numbers follow from `of`; a norm's weights are about 1. */
static void add(struct tensor_file *file, const char *name, const char *of, size_t rows, size_t columns,
                bool is_norm)
{
    float *values = factor_values(of, rows * columns);
    for (size_t i = 0; is_norm && i < rows * columns; i++) values[i] += 1;
    tensor_file_add(file, name, rows, columns, values);
    free(values);
}

static void add_module(struct tensor_file *file, const struct layout *layout, const char *name,
                       const char *of, size_t rows, size_t columns)
{
    char full[256], key[256];
    for (int b = 0; b < 2; b++) {
        const char *kind = columns == 0 && strstr(name, "LayerNorm") ? layout->norm[b]
                           : b                                       ? "bias"
                                                                     : "weight";
        snprintf(full, sizeof full, "%s.%s", name, kind);
        snprintf(key, sizeof key, "%s.%d", of, b);
        bool is_vector = b || columns == 0;
        add(file, full, key, is_vector ? 1 : rows, is_vector ? rows : columns, !b && columns == 0);
    }
}

/* The rows before the first position would ruin the states. */
static void add_positions(struct tensor_file *file, const struct layout *layout, const char *name)
{
    size_t n_unused = (size_t)layout->n_unused * N_EMBD, n = (size_t)N_POSITIONS * N_EMBD;
    float *rows = factor_values("positions", n), *all = malloc((n_unused + n) * sizeof *all);
    for (size_t i = 0; i < n_unused; i++) all[i] = 1000;
    memcpy(all + n_unused, rows, n * sizeof *rows);
    tensor_file_add(file, name, N_POSITIONS + layout->n_unused, N_EMBD, all);
    free(rows), free(all);
}

static void write_weights(const struct layout *layout, bool is_distilled)
{
    static const float zeros[N_EMBD];
    struct tensor_file *file = tensor_file_create();
    char name[256], of[256];
#define NAMED(what) (snprintf(name, sizeof name, "%s%s", layout->prefix, what), name)
    add(file, NAMED("embeddings.word_embeddings.weight"), "words", N_VOCAB, N_EMBD, false);
    add_positions(file, layout, NAMED("embeddings.position_embeddings.weight"));
    if (!is_distilled)
        tensor_file_add(file, NAMED("embeddings.token_type_embeddings.weight"), 1, N_EMBD, zeros);
    add_module(file, layout, NAMED("embeddings.LayerNorm"), "embeddings", N_EMBD, 0);
    for (int i = 0; i < N_LAYERS; i++)
        for (size_t m = 0; m < sizeof layer_modules / sizeof *layer_modules; m++) {
            const struct module *module = &layer_modules[m];
            snprintf(name, sizeof name, "%s%s.%d.%s", layout->prefix,
                     is_distilled ? "transformer.layer" : "encoder.layer", i,
                     is_distilled ? module->distilled : module->name);
            snprintf(of, sizeof of, "%d.%s", i, module->name);
            add_module(file, layout, name, of, module->rows, module->columns);
        }
    for (size_t i = 0; i < 4 && layout->heads[i]; i++)
        tensor_file_add(file, layout->heads[i], 1, N_EMBD, zeros);
    tensor_file_save(file, files_path(folder, "model.safetensors"));
}

static void write_model(const struct layout *layout)
{
    char text[512];
    bool is_distilled = strcmp(layout->type, "distilbert") == 0;
    snprintf(text, sizeof text,
             "{\"model_type\": \"%s\", \"%s\": %d, \"%s\": %d, \"%s\": 2, \"%s\": %d, \"vocab_size\": %d, "
             "\"max_position_embeddings\": %u, \"pad_token_id\": %d}",
             layout->type, is_distilled ? "dim" : "hidden_size", N_EMBD,
             is_distilled ? "n_layers" : "num_hidden_layers", N_LAYERS,
             is_distilled ? "n_heads" : "num_attention_heads",
             is_distilled ? "hidden_dim" : "intermediate_size", N_FF, N_VOCAB, N_POSITIONS + layout->n_unused,
             layout->n_unused ? PADDING : 0);
    files_write_text(files_path(folder, "config.json"), text);
    write_weights(layout, is_distilled);
}

/* ---- Running ---- */

static void keep_warnings(void *user, enum engine_log_level level, const char *line)
{
    (void)user;
    if (level <= ENGINE_LOG_WARNING) snprintf(log_text, sizeof log_text, "%s", line);
}

static struct engine *open_engine(void)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = config_file, .log = keep_warnings};
    struct engine *engine;
    log_text[0] = '\0';
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    return engine;
}

static void run(float states[N_TOKENS * N_EMBD])
{
    static const int32_t tokens[N_TOKENS] = {3, 14, 15, 9, 2, 6, 5, 3, 19};
    struct engine *engine = open_engine();
    struct engine_model *model;
    struct engine_context *context;
    struct engine_context_options wish = {.struct_size = sizeof wish, .n_threads = 1, .backends = "cpu"};
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = N_TOKENS, .tokens = tokens, .states = states};
    cr_assert_eq(engine_model_open(engine, folder, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_context_create(model, &wish, &context), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_decode(context, &batch, NULL), ENGINE_OK, "%s", engine_error_message());
    engine_context_destroy(context);
    engine_model_close(model);
    engine_close(engine);
}

Test(hf_encoders, every_type_has_the_states_of_bert)
{
    float reference[N_TOKENS * N_EMBD], states[N_TOKENS * N_EMBD];
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        write_model(&layouts[i]);
        run(i == 0 ? reference : states);
        cr_expect_str_empty(log_text, "%s: %s", layouts[i].type, log_text);
        if (i == 0) continue;
        cr_expect_arr_eq(states, reference, sizeof states, "layout %zu, %s", i, layouts[i].type);
    }
}

/* ---- sentence-transformers ---- */

#define STEP(type, path)                                                                                     \
    "{\"idx\": 0, \"name\": \"\", \"path\": \"" path "\", \"type\": \"sentence_transformers.models." type    \
    "\"}"
#define STEPS                                                                                                \
    "[" STEP("Transformer", "") ", " STEP("Pooling", "1_Pooling") ", " STEP("Normalize", "2_Normalize") "]"

/* What engine_model_embedding_info says of the directory; false, and an error's message. */
static bool describe(struct engine_embedding_info *info)
{
    struct engine *engine = open_engine();
    struct engine_model *model = NULL;
    *info = (struct engine_embedding_info){.struct_size = sizeof *info};
    int status = engine_model_open(engine, folder, NULL, &model);
    if (!status) status = engine_model_embedding_info(model, info);
    engine_model_close(model);
    engine_close(engine);
    return !status;
}

static void write_in(const char *inner, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", inner, name);
    mkdir(files_path(folder, inner), 0755);
    files_write_text(files_path(folder, path), text);
}

static uint32_t pooling_with(const char *modules, const char *pooling)
{
    struct engine_embedding_info info;
    files_write_text(files_path(folder, "modules.json"), modules);
    write_in("1_Pooling", "config.json", pooling);
    return describe(&info) ? info.pooling : 0;
}

Test(hf_encoders, pooling_is_that_of_sentence_transformers)
{
    static const struct {
        const char *config;
        uint32_t pooling;
    } cases[] = {
        {"{\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": false}", ENGINE_POOLING_FIRST},
        {"{\"pooling_mode_cls_token\": false, \"pooling_mode_mean_tokens\": true}", ENGINE_POOLING_MEAN},
        {"{\"pooling_mode_lasttoken\": true}", ENGINE_POOLING_LAST},
        {"{\"pooling_mode\": \"cls\"}", ENGINE_POOLING_FIRST},
    };
    write_model(&layouts[0]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(pooling_with(STEPS, cases[i].config), cases[i].pooling, "%s: %s", cases[i].config,
                     engine_error_message());
}

#define MEAN "{\"pooling_mode\": \"mean\"}"

Test(hf_encoders, steps_that_are_not_known_are_refused)
{
    static const struct {
        const char *modules, *pooling, *words;
    } cases[] = {
        {STEPS, "{}", "config.json: no way of pooling"},
        {STEPS, "{\"pooling_mode\": \"middle\"}", "no way of pooling"},
        {STEPS, "{\"pooling_mode_max_tokens\": true}", "not supported"},
        {STEPS, "{\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": true}", "several ways"},
        {STEPS, "[]", "not a JSON object"},
        {"[" STEP("LSTM", "2_LSTM") "]", "{}", "modules.json: the step 'LSTM'"},
        {"[" STEP("Dense", "2_Dense") "]", "{}", "a Dense before Pooling"},
        {"[" STEP("Pooling", "1_Pooling") ", " STEP("Normalize", "2") ", " STEP("Dense", "3_Dense") "]", MEAN,
         "a step after Normalize"},
        {"[" STEP("Pooling", "1_Pooling") ", " STEP("Dense", "../2_Dense") "]", MEAN,
         "the path of Dense is not a folder"},
        {"[" STEP("Pooling", "../1_Pooling") "]", "{}", "not a folder of the directory"},
        {"[" STEP("Pooling", "3_Pooling") "]", "{}", "3_Pooling/config.json"},
        {"[" STEP("Pooling", "1_Pooling") ", " STEP("Pooling", "1_Pooling") "]",
         "{\"pooling_mode\": \"cls\"}", "several steps"},
        {"[1, {\"type\": 2}]", "{}", "the step ''"},
        {"{}", "{}", "modules.json is not a JSON array"},
        {"[", "{}", "not valid JSON"},
    };
    write_model(&layouts[0]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(pooling_with(cases[i].modules, cases[i].pooling), 0, "case %zu", i);
        cr_expect(strstr(engine_error_message(), cases[i].words), "case %zu: %s", i, engine_error_message());
        cr_expect_null(strchr(engine_error_message(), '\n'));
    }
}

/* ---- Dense steps ---- */

enum { N_WIDE = 24, N_LAST = 10, N_WORDS = 5 };

static void write_dense(const char *inner, const char *config, size_t rows, size_t columns, bool has_bias)
{
    char path[256], key[64];
    struct tensor_file *file = tensor_file_create();
    write_in(inner, "config.json", config);
    for (int b = 0; b <= has_bias; b++) {
        snprintf(key, sizeof key, "%s.%d", inner, b);
        add(file, b ? "linear.bias" : "linear.weight", key, b ? 1 : rows, b ? rows : columns, false);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", inner);
    tensor_file_save(file, files_path(folder, path));
}

#define DENSE(in, out, bias, activation)                                                                     \
    "{\"in_features\": " #in ", \"out_features\": " #out ", \"bias\": " #bias                                \
    ", \"activation_function\": \"torch.nn.modules." activation "\"}"
#define DENSE_STEPS                                                                                          \
    "[" STEP("Transformer", "") ", " STEP("Pooling", "1_Pooling") ", " STEP("Dense", "2_Dense") ", " STEP(   \
        "Dense", "3_Dense") ", " STEP("Normalize", "4_Normalize") "]"

static void write_dense_model(const char *first)
{
    write_model(&layouts[0]);
    files_write_text(files_path(folder, "modules.json"), DENSE_STEPS);
    write_in("1_Pooling", "config.json", MEAN);
    write_dense("2_Dense", first, N_WIDE, N_EMBD, true);
    write_dense("3_Dense", DENSE(24, 10, false, "linear.Identity"), N_LAST, N_WIDE, false);
}

static void take_embedding(void *user, const struct engine_event *event)
{
    float *values = user;
    cr_assert_eq(event->reason, ENGINE_DONE_LIMIT, "%s", event->message);
    cr_assert_eq(event->n_embd, N_LAST);
    memcpy(values, event->embedding, N_LAST * sizeof *values);
}

/* The embedding of some tokens, and the mean of their states. */
static void embed(const char *path, float values[N_LAST], double mean[N_EMBD])
{
    static const int32_t tokens[N_WORDS] = {3, 14, 15, 9, 2};
    float states[N_WORDS * N_EMBD];
    struct engine *engine = open_engine();
    struct engine_model *model;
    struct engine_context *context;
    struct engine_queue *queue;
    const struct engine_context_options wish = {
        .struct_size = sizeof wish, .n_threads = 1, .backends = "cpu"};
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = N_WORDS, .tokens = tokens, .states = states};
    const struct engine_request request = {.struct_size = sizeof request,
                                           .tokens = tokens,
                                           .n_tokens = N_WORDS,
                                           .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
                                           .event = take_embedding,
                                           .user = values,
                                           .pooling = ENGINE_POOLING_MEAN};
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_context_create(model, &wish, &context), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_decode(context, &batch, NULL), ENGINE_OK, "%s", engine_error_message());
    for (int n = 0; n < N_EMBD; n++) {
        mean[n] = 0;
        for (int i = 0; i < N_WORDS; i++) mean[n] += (double)states[i * N_EMBD + n] / N_WORDS;
    }
    cr_assert_eq(engine_queue_create(context, NULL, &queue), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK);
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    engine_model_close(model);
    engine_close(engine);
}

/* x W + b, and tanh if the step has it. */
static void apply(const char *inner, size_t rows, size_t columns, bool is_first, const double *from,
                  double *to)
{
    char key[64];
    snprintf(key, sizeof key, "%s.0", inner);
    float *weight = factor_values(key, rows * columns);
    snprintf(key, sizeof key, "%s.1", inner);
    float *bias = factor_values(key, rows);
    for (size_t r = 0; r < rows; r++) {
        to[r] = is_first ? (double)bias[r] : 0;
        for (size_t c = 0; c < columns; c++) to[r] += (double)weight[r * columns + c] * from[c];
        if (is_first) to[r] = tanh(to[r]);
    }
    free(weight), free(bias);
}

static int write_to(void *user, const void *data, size_t size)
{
    FILE *file = user;
    return fwrite(data, 1, size, file) == size ? 0 : -1;
}

/* In a directory, and in the GGUF file that it becomes. */
Test(hf_encoders, dense_steps_follow_the_pooling)
{
    struct engine_embedding_info info;
    double mean[N_EMBD], wide[N_WIDE], expected[N_LAST];
    float values[N_LAST], of_file[N_LAST];
    write_dense_model(DENSE(16, 24, true, "activation.Tanh"));
    cr_assert(describe(&info), "%s", engine_error_message());
    cr_expect_eq(info.n_embd, N_EMBD);
    cr_expect_eq(info.n_values, N_LAST, "%u", info.n_values);
    embed(folder, values, mean);
    cr_expect_str_empty(log_text, "%s", log_text);
    apply("2_Dense", N_WIDE, N_EMBD, true, mean, wide);
    apply("3_Dense", N_LAST, N_WIDE, false, wide, expected);
    for (int n = 0; n < N_LAST; n++)
        cr_expect_float_eq((double)values[n], expected[n], 1e-5, "%d: %g, not %g", n, (double)values[n],
                           expected[n]);

    char *file = strdup(files_path(folder, "model.gguf"));
    struct engine *engine = open_engine();
    struct engine_model *model;
    FILE *out = fopen(file, "wb");
    const struct engine_quantize_options options = {
        .struct_size = sizeof options, .type = "F32", .write = write_to, .user = out};
    cr_assert(out);
    cr_assert_eq(engine_model_open(engine, folder, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_quantize(model, &options), ENGINE_OK, "%s", engine_error_message());
    engine_model_close(model);
    engine_close(engine);
    fclose(out);
    embed(file, of_file, mean);
    cr_expect_arr_eq(of_file, values, sizeof values);
    free(file);
}

Test(hf_encoders, dense_steps_of_other_kinds_are_refused)
{
    static const struct {
        const char *config, *words;
    } cases[] = {
        {DENSE(16, 24, true, "activation.Mish"), "2_Dense/config.json: this activation_function"},
        {"{\"use_residual\": true}", "use_residual"},
        {"{\"module_input_name\": \"token_embeddings\"}", "something else than the sentence's embedding"},
        {"{", "not valid JSON"},
    };
    struct engine_embedding_info info;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_dense_model(cases[i].config);
        cr_expect(!describe(&info), "case %zu", i);
        cr_expect(strstr(engine_error_message(), cases[i].words), "case %zu: %s", i, engine_error_message());
    }
    write_dense_model(DENSE(16, 24, true, "activation.Tanh"));
    write_dense("3_Dense", DENSE(24, 10, false, "linear.Identity"), N_LAST, N_WIDE - 1, false);
    cr_expect(!describe(&info));
    cr_expect(strstr(engine_error_message(), "dense_3.weight"), "%s", engine_error_message());
    write_dense_model(DENSE(16, 24, true, "activation.Tanh"));
    unlink(files_path(folder, "2_Dense/model.safetensors"));
    cr_expect(!describe(&info));
    cr_expect(strstr(engine_error_message(), "2_Dense/model.safetensors"), "%s", engine_error_message());
}

Test(hf_encoders, a_text_is_as_long_as_sentence_transformers_takes_it)
{
    static const struct {
        const char *config;
        uint32_t length; /* 0: refused */
    } cases[] = {{"{\"max_seq_length\": 7, \"do_lower_case\": false}", 7},
                 {"{\"max_seq_length\": null}", N_POSITIONS},
                 {"{\"max_seq_length\": 4096}", N_POSITIONS},
                 {"{\"max_seq_length\": 0}", 0},
                 {"{\"max_seq_length\": \"long\"}", 0}};
    struct engine_embedding_info info;
    write_model(&layouts[0]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        files_write_text(files_path(folder, "sentence_bert_config.json"), cases[i].config);
        cr_expect_eq(describe(&info), cases[i].length > 0, "case %zu: %s", i, engine_error_message());
        if (cases[i].length > 0)
            cr_expect_eq(info.n_context, cases[i].length, "case %zu: %u", i, info.n_context);
    }
}

Test(hf_encoders, prompts_without_sense_are_refused)
{
    static const char *const wrong[] = {"{\"prompts\": {\"query\": 1}}",
                                        "{\"prompts\": {\"query\": \"\"}, \"default_prompt_name\": \"q\"}",
                                        "{\"default_prompt_name\": \"q\"}"};
    struct engine_embedding_info info;
    write_model(&layouts[0]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        files_write_text(files_path(folder, "config_sentence_transformers.json"), wrong[i]);
        cr_expect(!describe(&info), "case %zu", i);
        cr_expect(strstr(engine_error_message(), "config_sentence_transformers.json: "), "%s",
                  engine_error_message());
    }
}

/* ---- Qwen3-Reranker ---- */

enum { N_QWEN = 16, N_RANKED = 6 };

/* `name`: of the directory's model. */
static void write_reranker(const char *name, const char *modules)
{
    static const struct {
        const char *name;
        size_t rows, columns; /* columns 0: a norm */
    } parts[] = {{"self_attn.q_proj", 16, N_QWEN},
                 {"self_attn.k_proj", 16, N_QWEN},
                 {"self_attn.v_proj", 16, N_QWEN},
                 {"self_attn.o_proj", N_QWEN, 16},
                 {"self_attn.q_norm", 8, 0},
                 {"self_attn.k_norm", 8, 0},
                 {"mlp.gate_proj", 24, N_QWEN},
                 {"mlp.up_proj", 24, N_QWEN},
                 {"mlp.down_proj", N_QWEN, 24},
                 {"input_layernorm", N_QWEN, 0},
                 {"post_attention_layernorm", N_QWEN, 0}};
    char text[512], full[128];
    struct tensor_file *file = tensor_file_create();
    add(file, "model.embed_tokens.weight", "words", N_RANKED, N_QWEN, false);
    add(file, "lm_head.weight", "logits", N_RANKED, N_QWEN, false);
    add(file, "model.norm.weight", "norm", 1, N_QWEN, true);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool is_norm = parts[i].columns == 0;
        snprintf(full, sizeof full, "model.layers.0.%s.weight", parts[i].name);
        add(file, full, parts[i].name, is_norm ? 1 : parts[i].rows,
            is_norm ? parts[i].rows : parts[i].columns, is_norm);
    }
    tensor_file_save(file, files_path(folder, "model.safetensors"));
    snprintf(
        text, sizeof text,
        "{\"model_type\": \"qwen3\", \"architectures\": [\"Qwen3ForCausalLM\"], \"_name_or_path\": \"%s\", "
        "\"hidden_size\": 16, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
        "\"num_key_value_heads\": 2, \"head_dim\": 8, \"intermediate_size\": 24, \"vocab_size\": 6, "
        "\"max_position_embeddings\": 256, \"tie_word_embeddings\": false}",
        name);
    files_write_text(files_path(folder, "config.json"), text);
    files_write_text(
        files_path(folder, "tokenizer.json"),
        "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"no\": 1, "
        "\"tea\": 2, \"yes\": 3, \"what\": 4, \"is\": 5}}, \"pre_tokenizer\": {\"type\": \"Whitespace\"}}");
    if (modules) files_write_text(files_path(folder, "modules.json"), modules);
}

static struct {
    int32_t ids[256], types[256];
    size_t count;
    float scores[2];
} ranked;

static int take_pair(void *user, const int32_t *ids, const int32_t *types, size_t count)
{
    (void)user;
    cr_assert_leq(count, 256);
    memcpy(ranked.ids, ids, count * sizeof *ids);
    memcpy(ranked.types, types, count * sizeof *types);
    ranked.count = count;
    return ENGINE_OK;
}

static void take_scores(void *user, const struct engine_event *event)
{
    (void)user;
    cr_assert_eq(event->reason, ENGINE_DONE_LIMIT, "%s", event->message);
    cr_assert_eq(event->n_embd, 2);
    memcpy(ranked.scores, event->embedding, sizeof ranked.scores);
}

/* The scores are the logits of "yes" and "no" after the published prompt. */
Test(hf_encoders, a_qwen3_reranker_scores_by_two_logits)
{
    write_reranker("Qwen/Qwen3-Reranker-0.6B",
                   "[" STEP("Transformer", "") ", " STEP("LogitScore", "1_LogitScore") "]");
    struct engine *engine = open_engine();
    struct engine_model *model;
    struct engine_context *context;
    struct engine_queue *queue;
    struct engine_embedding_info info = {.struct_size = sizeof info};
    const struct engine_context_options wish = {
        .struct_size = sizeof wish, .n_threads = 1, .backends = "cpu", .cache_type = "f32"};
    cr_assert_eq(engine_model_open(engine, folder, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_embedding_info(model, &info), ENGINE_OK);
    cr_assert_eq(info.pooling, ENGINE_POOLING_RANK);
    cr_assert_eq(info.n_labels, 2);
    const struct engine_string query = {"what is tea", 11}, document = {"tea", 3};
    cr_assert_eq(engine_model_encode_pair(model, query, document, take_pair, NULL), ENGINE_OK, "%s",
                 engine_error_message());
    const struct engine_request request = {.struct_size = sizeof request,
                                           .tokens = ranked.ids,
                                           .n_tokens = ranked.count,
                                           .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
                                           .event = take_scores,
                                           .pooling = ENGINE_POOLING_RANK};
    cr_assert_eq(engine_context_create(model, &wish, &context), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_create(context, NULL, &queue), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK);
    engine_queue_destroy(queue);
    float logits[N_RANKED];
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = ranked.count, .tokens = ranked.ids};
    cr_assert_eq(engine_decode(context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
    cr_expect_float_eq((double)ranked.scores[0], (double)logits[3], 1e-5);
    cr_expect_float_eq((double)ranked.scores[1], (double)logits[1], 1e-5);
    engine_context_destroy(context);
    engine_model_close(model);
    engine_close(engine);
}

Test(hf_encoders, other_models_are_no_rerankers)
{
    struct engine_embedding_info info;
    write_reranker("Qwen/Qwen3-0.6B", NULL);
    cr_assert(describe(&info), "%s", engine_error_message());
    cr_expect_eq(info.n_labels, 0);
    files_write_text(files_path(folder, "README.md"), "---\nlicense: none\n---\n# Qwen3-Reranker-0.6B\n");
    cr_assert(describe(&info), "%s", engine_error_message());
    cr_expect_eq(info.n_labels, 2);
    unlink(files_path(folder, "README.md"));
    write_reranker("Qwen/Qwen3-0.6B", "[" STEP("LogitScore", "1_LogitScore") "]");
    cr_expect(!describe(&info));
    cr_expect(strstr(engine_error_message(), "only for Qwen3-Reranker"), "%s", engine_error_message());
}
