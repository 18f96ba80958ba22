/* test-tasks.c: the adapters that a directory has for tasks. A small model of Jina Embeddings 3 is written
 * with the factors of two tasks beside its matrices, as its first checkpoint has them, and with a folder of
 * PEFT; with a task, its states are those of a model into whose weights that task was merged. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "adapter-writer.h"
#include "engine.h"
#include "files.h"

enum { N_EMBD = 16, N_FF = 24, N_LAYERS = 2, N_VOCAB = 20, N_TOKENS = 9, RANK = 3, N_TASKS = 2, ALPHA = 5 };

static char *folder, *config_file, *model_folder;

static void begin(void)
{
    folder = files_folder();
    config_file = strdup(files_path(folder, "engine.conf"));
    model_folder = strdup(files_path(folder, "model"));
    mkdir(model_folder, 0755);
    files_write_text(config_file, "");
}

static void end(void)
{
    files_remove(folder);
    free(folder), free(config_file), free(model_folder);
}

TestSuite(tasks, .init = begin, .fini = end, .timeout = 60);

/* ---- Models ---- */

enum form { MERGED, STACKED, PEFT };

static const struct module {
    const char *name; /* of layers: after "encoder.layers.N." */
    size_t rows, columns;
    bool is_table; /* whose rows are looked up */
} layer_modules[] =
    {
        {"mixer.Wqkv", 3 * N_EMBD, N_EMBD, false},
        {"mixer.out_proj", N_EMBD, N_EMBD, false},
        {"mlp.fc1", N_FF, N_EMBD, false},
        {"mlp.fc2", N_EMBD, N_FF, false},
},
  tables[] = {
      {"embeddings.word_embeddings", N_VOCAB, N_EMBD, true},
      {"embeddings.token_type_embeddings", 1, N_EMBD, true},
};

/* A model that is being written; `task` is the one that is merged, or that PEFT's folder has; -1: none. */
struct writer {
    struct tensor_file *weights, *adapter;
    enum form form;
    int task;
};

/* The first factor [n_tasks, r, n_in] and the second [n_tasks, n_out, r]. Those of tables are
 * [n_tasks, rows, r] and [n_tasks, r, values]: row i grows by the product of its r numbers and the second. */
static void make_factors(const char *name, const struct module *module, float *factors[2])
{
    char key[256];
    size_t n_in = module->is_table ? module->rows : module->columns,
           n_out = module->is_table ? module->columns : module->rows;
    snprintf(key, sizeof key, "%s.a", name);
    factors[0] = factor_values(key, N_TASKS * n_in * RANK);
    snprintf(key, sizeof key, "%s.b", name);
    factors[1] = factor_values(key, N_TASKS * n_out * RANK);
}

static void merge(const struct module *module, float *const factors[2], int task, float *weights)
{
    const float *a = factors[0] + (size_t)task * RANK * (module->is_table ? module->rows : module->columns),
                *b = factors[1] + (size_t)task * RANK * (module->is_table ? module->columns : module->rows);
    for (size_t row = 0; row < module->rows; row++)
        for (size_t i = 0; i < module->columns; i++)
            for (size_t k = 0; k < RANK; k++)
                weights[row * module->columns + i] +=
                    (float)ALPHA / RANK *
                    (module->is_table ? a[row * RANK + k] * b[k * module->columns + i]
                                      : b[row * RANK + k] * a[k * module->columns + i]);
}

static void add_stacked(struct tensor_file *file, const char *name, const struct module *module,
                        float *const factors[2])
{
    char full[256];
    bool is_table = module->is_table;
    snprintf(full, sizeof full, "%s.parametrizations.weight.0.lora_A", name);
    tensor_file_add_matrices(file, full, N_TASKS, is_table ? module->rows : RANK,
                             is_table ? RANK : module->columns, factors[0]);
    snprintf(full, sizeof full, "%s.parametrizations.weight.0.lora_B", name);
    tensor_file_add_matrices(file, full, N_TASKS, is_table ? RANK : module->rows,
                             is_table ? module->columns : RANK, factors[1]);
}

/* PEFT has a table's first factor as [r, rows], and the second as [values, r]. */
static void add_peft(struct tensor_file *file, const char *name, const struct module *module,
                     float *const factors[2], int task)
{
    char full[256];
    size_t n[2] = {module->is_table ? module->rows : module->columns,
                   module->is_table ? module->columns : module->rows};
    for (int f = 0; f < 2; f++) {
        const float *from = factors[f] + (size_t)task * RANK * n[f];
        float *to = malloc(RANK * n[f] * sizeof *to);
        bool is_wide = f == 0; /* [r, n] */
        for (size_t i = 0; i < RANK * n[f]; i++) {
            size_t row = is_wide ? i / n[f] : i / RANK, column = is_wide ? i % n[f] : i % RANK;
            to[i] = module->is_table ? from[is_wide ? column * RANK + row : column * n[f] + row] : from[i];
        }
        snprintf(full, sizeof full, "base_model.model.%s.lora_%s%c%s", name,
                 module->is_table ? "embedding_" : "", "AB"[f], module -> is_table ? "" : ".weight");
        tensor_file_add(file, full, is_wide ? RANK : n[f], is_wide ? n[f] : RANK, to);
        free(to);
    }
}

static void add_module(struct writer *w, const char *name, const struct module *module)
{
    char full[256];
    float *factors[2], *weights = factor_values(name, module->rows * module->columns);
    make_factors(name, module, factors);
    if (w->form == MERGED && w->task >= 0) merge(module, factors, w->task, weights);
    snprintf(full, sizeof full, "%s.%s", name,
             w->form == STACKED ? "parametrizations.weight.original" : "weight");
    tensor_file_add(w->weights, full, module->rows, module->columns, weights);
    if (w->form == STACKED) add_stacked(w->weights, name, module, factors);
    if (w->form == PEFT) add_peft(w->adapter, name, module, factors, w->task);
    free(weights), free(factors[0]), free(factors[1]);
}

static void add_list(struct writer *w, const char *name, size_t n, float around)
{
    float *values = factor_values(name, n);
    for (size_t i = 0; i < n; i++) values[i] += around;
    tensor_file_add(w->weights, name, 0, n, values);
    free(values);
}

static void add_norm(struct writer *w, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s.weight", name);
    add_list(w, full, N_EMBD, 1);
    snprintf(full, sizeof full, "%s.bias", name);
    add_list(w, full, N_EMBD, 0);
}

static void write_weights(struct writer *w)
{
    char name[128], full[192];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) add_module(w, tables[i].name, &tables[i]);
    add_norm(w, "emb_ln");
    for (int layer = 0; layer < N_LAYERS; layer++) {
        for (size_t i = 0; i < sizeof layer_modules / sizeof *layer_modules; i++) {
            snprintf(name, sizeof name, "encoder.layers.%d.%s", layer, layer_modules[i].name);
            add_module(w, name, &layer_modules[i]);
            snprintf(full, sizeof full, "%s.bias", name);
            add_list(w, full, layer_modules[i].rows, 0);
        }
        for (int i = 1; i <= 2; i++) {
            snprintf(name, sizeof name, "encoder.layers.%d.norm%d", layer, i);
            add_norm(w, name);
        }
    }
}

static void write_model(enum form form, int task)
{
    static const char *const types[] = {"jina_embeddings_v3", "xlm-roberta", "jina_embeddings_v3"};
    char text[512];
    struct writer w = {tensor_file_create(), tensor_file_create(), form, task};
    snprintf(text, sizeof text,
             "{\"model_type\": \"%s\", \"position_embedding_type\": \"rotary\", \"hidden_size\": %d, "
             "\"num_hidden_layers\": %d, \"num_attention_heads\": 2, \"intermediate_size\": %d, "
             "\"vocab_size\": %d, \"max_position_embeddings\": 32, \"type_vocab_size\": 1, "
             "\"lora_adaptations\": [\"retrieval.query\", \"text-matching\"], \"lora_rank\": %d, "
             "\"lora_alpha\": %d}",
             types[form], N_EMBD, N_LAYERS, N_FF, N_VOCAB, RANK, ALPHA);
    files_write_text(files_path(model_folder, "config.json"), text);
    write_weights(&w);
    tensor_file_save(w.weights, files_path(model_folder, "model.safetensors"));
    mkdir(files_path(model_folder, "text_matching"), 0755);
    snprintf(text, sizeof text,
             "{\"peft_type\": \"LORA\", \"r\": %d, \"lora_alpha\": %d, \"bias\": \"none\"}", RANK, ALPHA);
    files_write_text(files_path(model_folder, "text_matching/adapter_config.json"), text);
    tensor_file_save(w.adapter, files_path(model_folder, "text_matching/adapter_model.safetensors"));
    if (form != PEFT) files_remove(files_path(model_folder, "text_matching"));
}

/* ---- Running ---- */

/* The states of some tokens, with the adapter of a task unless it is NULL. Returns engine_adapter_open_task's
 * status. */
static int run(const char *task, float states[N_TOKENS * N_EMBD])
{
    static const int32_t tokens[N_TOKENS] = {3, 14, 15, 9, 2, 6, 5, 3, 19};
    static const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    static const float one = 1;
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = config_file};
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    struct engine_adapter *adapter = NULL;
    const struct engine_context_options wish = {.struct_size = sizeof wish,
                                                .n_threads = 1,
                                                .backends = "cpu",
                                                .adapters = &adapter,
                                                .adapter_scales = &one,
                                                .n_adapters = task ? 1 : 0};
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = N_TOKENS, .tokens = tokens, .states = states};
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_open(engine, model_folder, NULL, &model), ENGINE_OK, "%s",
                 engine_error_message());
    int status = task ? engine_adapter_open_task(model, task, &adapter) : ENGINE_OK;
    if (!status) {
        cr_assert_eq(engine_context_create(model, &wish, &context), ENGINE_OK, "%s", engine_error_message());
        cr_assert_eq(engine_decode(context, &batch, NULL), ENGINE_OK, "%s", engine_error_message());
        engine_context_destroy(context);
    }
    engine_model_close(model);
    engine_close(engine);
    return status;
}

static double difference(const float *a, const float *b)
{
    double sum = 0, size = 0;
    for (int i = 0; i < N_TOKENS * N_EMBD; i++) {
        sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(sum / size);
}

/* What a model with the task merged into its weights gives; -1: the base. */
static void expect_states_of(int task, const float states[N_TOKENS * N_EMBD], const char *form)
{
    float merged[N_TOKENS * N_EMBD];
    write_model(MERGED, task);
    cr_assert_eq(run(NULL, merged), ENGINE_OK);
    double error = difference(states, merged);
    cr_expect(error <= 1e-5, "%s, task %d: relative error %.2e", form, task, error);
}

Test(tasks, adapters_stored_with_the_matrices_are_those_of_the_tasks)
{
    static const char *const names[] = {NULL, "retrieval.query", "text-matching"};
    float states[3][N_TOKENS * N_EMBD];
    write_model(STACKED, -1);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(run(names[i], states[i]), ENGINE_OK, "%s", engine_error_message());
    for (int i = 0; i < 3; i++) expect_states_of(i - 1, states[i], "stacked");
    cr_expect_gt(difference(states[1], states[0]), 0.01);
    cr_expect_gt(difference(states[2], states[1]), 0.01);
}

Test(tasks, folders_of_peft_are_found_by_their_tasks)
{
    float states[N_TOKENS * N_EMBD];
    write_model(PEFT, 1);
    cr_assert_eq(run("text-matching", states), ENGINE_OK, "%s", engine_error_message());
    expect_states_of(1, states, "PEFT");
}

Test(tasks, unknown_ones_are_refused)
{
    float states[N_TOKENS * N_EMBD];
    write_model(STACKED, -1);
    cr_expect_eq(run("poetry", states), ENGINE_ERROR_NOT_FOUND);
    cr_expect(strstr(engine_error_message(), "no such task"), "%s", engine_error_message());
}
