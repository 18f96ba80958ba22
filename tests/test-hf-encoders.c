/* test-hf-encoders.c: encoders of Hugging Face's types, written with the same weights under each type's names, have the
 * states of `bert`, which test-encoders.c compares with transformers'. And what sentence-transformers' files say. */
#include <criterion/criterion.h>
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

/* What engine_model_embedding_info says, or 0 and an error's message. */
static uint32_t pooling_with(const char *modules, const char *pooling)
{
    struct engine *engine = open_engine();
    struct engine_model *model = NULL;
    struct engine_embedding_info info = {.struct_size = sizeof info};
    files_write_text(files_path(folder, "modules.json"), modules);
    mkdir(files_path(folder, "1_Pooling"), 0755);
    files_write_text(files_path(folder, "1_Pooling/config.json"), pooling);
    int status = engine_model_open(engine, folder, NULL, &model);
    if (!status) status = engine_model_embedding_info(model, &info);
    engine_model_close(model);
    engine_close(engine);
    return status ? 0 : info.pooling;
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

Test(hf_encoders, steps_that_are_not_known_are_refused)
{
    static const struct {
        const char *modules, *pooling, *words;
    } cases[] = {
        {STEPS, "{}", "config.json: no way of pooling"},
        {STEPS, "{\"pooling_mode\": \"middle\"}", "no way of pooling"},
        {STEPS, "{\"pooling_mode_max_tokens\": true}", "not supported"},
        {STEPS, "{\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": true}", "several ways"},
        {STEPS, "[]", "no object"},
        {"[" STEP("Dense", "2_Dense") "]", "{}", "modules.json: the step 'Dense'"},
        {"[" STEP("Pooling", "../1_Pooling") "]", "{}", "no folder of the directory"},
        {"[" STEP("Pooling", "3_Pooling") "]", "{}", "3_Pooling/config.json"},
        {"[" STEP("Pooling", "1_Pooling") ", " STEP("Pooling", "1_Pooling") "]",
         "{\"pooling_mode\": \"cls\"}", "several steps"},
        {"[1, {\"type\": 2}]", "{}", "the step ''"},
        {"{}", "{}", "modules.json is no array"},
        {"[", "{}", "no valid JSON"},
    };
    write_model(&layouts[0]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(pooling_with(cases[i].modules, cases[i].pooling), 0, "case %zu", i);
        cr_expect(strstr(engine_error_message(), cases[i].words), "case %zu: %s", i, engine_error_message());
        cr_expect_null(strchr(engine_error_message(), '\n'));
    }
}
