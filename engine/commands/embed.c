/* embed.c: `engine embed`: texts to vectors, which leave in the order of the texts. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "commands/pooled.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/npy.h"
#include "io/output.h"
#include "options/open.h"
#include "prompts/prompt.h"

struct embedder {
    const struct arguments *arguments;
    struct engine *engine;
    struct engine_model *model;
    struct embed_texts texts;
    struct pooled pooled;
    float **values;  /* [texts.count]: [n_rows, n_embd] of each text; NULL: not yet, or already written */
    uint32_t n_embd; /* numbers of a row */
    uint32_t n_kept; /* numbers that are written: --dimensions */
    size_t n_written;
    FILE *npy; /* -o; NULL: standard output */
};

/* ---- Numbers ---- */

/* The P-norm of some numbers; P = 0: the largest magnitude. */
static double norm_of(const float *values, size_t n, double p)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double value = fabs((double)values[i]);
        if (p == 0)
            sum = value > sum ? value : sum;
        else
            sum += p == 2 ? value * value : p == 1 ? value : pow(value, p);
    }
    return p == 0 || p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1 / p);
}

static void embed_normalise(const struct embedder *e, float *values)
{
    double p = (double)e->arguments->embd_normalize;
    bool is_embedding =
        e->pooled.pooling != ENGINE_POOLING_TOKENS && e->pooled.pooling != ENGINE_POOLING_RANK;
    if (p < 0 || (!is_embedding && !e->arguments->embd_normalize_given)) return;
    double norm = norm_of(values, e->n_kept, p);
    for (size_t i = 0; i < e->n_kept && norm > 0; i++) values[i] = (float)((double)values[i] / norm);
}

/* ---- Writing ---- */

static size_t rows_of(const struct embedder *e, size_t number)
{
    return e->pooled.pooling == ENGINE_POOLING_TOKENS ? e->texts.items[number].ids.count : 1;
}

static bool write_row_text(const struct embedder *e, const float *values, FILE *file)
{
    for (size_t i = 0; i < e->n_kept; i++)
        if (fprintf(file, i > 0 ? " %.9g" : "%.9g", (double)values[i]) < 0) return false;
    return putc('\n', file) != EOF;
}

static json_t *row_json(const struct embedder *e, const float *values)
{
    json_t *row = json_array();
    for (size_t i = 0; i < e->n_kept; i++)
        json_array_append_new(row, isfinite(values[i]) ? json_real((double)values[i]) : json_null());
    return row;
}

static bool write_json(const struct embedder *e, size_t number)
{
    const struct embed_text *text = &e->texts.items[number];
    const float *values = e->values[number];
    json_t *json = json_object(), *rows = json_array();
    bool all = e->pooled.pooling == ENGINE_POOLING_TOKENS;
    for (size_t i = 0; i < rows_of(e, number) && all; i++)
        json_array_append_new(rows, row_json(e, values + i * e->n_embd));
    json_object_set_new(json, "index", json_count(number));
    if (text->id) json_object_set(json, "id", text->id);
    json_object_set_new(json, "tokens", json_count(text->ids.count));
    json_object_set_new(json, "embedding", all ? json_incref(rows) : row_json(e, values));
    bool good =
        json && json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 && putchar('\n') != EOF;
    json_decref(rows);
    json_decref(json);
    return good;
}

static bool write_rows(const struct embedder *e, size_t number)
{
    for (size_t i = 0; i < rows_of(e, number); i++) {
        const float *values = e->values[number] + i * e->n_embd;
        bool good = e->npy ? fwrite(values, sizeof *values, e->n_kept, e->npy) == e->n_kept
                           : write_row_text(e, values, stdout);
        if (!good) return false;
    }
    return true;
}

/* In the order of the texts, as soon as they are known. */
static int write_finished(struct embedder *e)
{
    for (; e->n_written < e->texts.count && e->values[e->n_written]; e->n_written++) {
        size_t number = e->n_written;
        float *values = e->values[number];
        for (size_t i = 0; i < rows_of(e, number); i++) embed_normalise(e, values + i * e->n_embd);
        end_text();
        if (!(e->arguments->json && !e->npy ? write_json(e, number) : write_rows(e, number)))
            return command_error(ENGINE_ERROR, "cannot write the embeddings: %s", strerror(errno));
        free(values);
        e->values[number] = NULL;
    }
    return ENGINE_OK;
}

static int take_values(void *user, size_t number, const float *values, size_t n_rows, size_t n)
{
    struct embedder *e = user;
    e->values[number] = malloc(n_rows * n * sizeof *values);
    if (!e->values[number]) return command_error(ENGINE_ERROR_MEMORY, "out of memory (embeddings)");
    memcpy(e->values[number], values, n_rows * n * sizeof *values);
    return write_finished(e);
}

/* ---- The command ---- */

static uint32_t pooling_of(const char *name, uint32_t of_model)
{
    if (!name) return of_model;
    if (strcmp(name, "mean") == 0) return ENGINE_POOLING_MEAN;
    if (strcmp(name, "cls") == 0) return ENGINE_POOLING_FIRST;
    if (strcmp(name, "rank") == 0) return ENGINE_POOLING_RANK;
    return strcmp(name, "last") == 0 ? ENGINE_POOLING_LAST : ENGINE_POOLING_TOKENS;
}

static int open_embed_context(struct embedder *e)
{
    struct engine_embedding_info model = {.struct_size = sizeof model};
    int status = engine_model_embedding_info(e->model, &model);
    if (status) return status;
    e->pooled = (struct pooled){.arguments = e->arguments,
                                .model = e->model,
                                .texts = &e->texts,
                                .pooling = pooling_of(e->arguments->pooling, model.pooling),
                                .verb = "embed",
                                .take = take_values,
                                .user = e};
    status = pooled_open(&e->pooled, model.n_context);
    e->n_embd = e->pooled.pooling == ENGINE_POOLING_RANK     ? model.n_labels
                : e->pooled.pooling == ENGINE_POOLING_TOKENS ? model.n_embd
                                                             : model.n_values;
    e->n_kept = e->arguments->n_dimensions ? e->arguments->n_dimensions : e->n_embd;
    if (!status && e->n_kept > e->n_embd)
        status =
            command_error(ENGINE_ERROR_ARGUMENT, "--dimensions %u: the model's embeddings have %u numbers",
                          e->n_kept, e->n_embd);
    return status;
}

static int run_to_file(struct embedder *e, const char *path)
{
    struct output output;
    size_t n_rows = 0;
    for (size_t i = 0; i < e->texts.count; i++) n_rows += rows_of(e, i);
    const char *const inputs[] = {path_of_model(e->arguments, e->engine), e->arguments->prompt_file,
                                  e->arguments->tokens_file};
    int status = output_check(path, e->engine, inputs, sizeof inputs / sizeof *inputs);
    if (!status) status = check_not_adapter(path, e->engine, e->arguments);
    if (!status) status = output_open(&output, path);
    if (status) return status;
    e->npy = output.file;
    if (npy_write_header(output.file, n_rows, e->n_kept) != 0)
        status = command_error(ENGINE_ERROR, "cannot write the embeddings: %s", strerror(errno));
    if (!status) status = pooled_run(&e->pooled);
    int closed = output_close(&output, !status && !interrupted);
    return status ? status : closed;
}

int command_embed(const struct arguments *arguments)
{
    struct embedder e = {.arguments = arguments};
    const char *path = path_of_output(arguments);
    if (arguments->json && path)
        return command_usage("embed: --json prints to standard output; -o writes a NumPy file");
    int status = open_engine(arguments, &e.engine);
    if (!status) status = open_model(arguments, e.engine, &e.model);
    if (!status) status = refuse_source(e.model, "embed");
    if (!status) status = embed_texts_read(arguments, e.model, &e.texts);
    if (!status) {
        e.values = calloc(e.texts.count, sizeof *e.values);
        status = e.values ? open_embed_context(&e)
                          : command_error(ENGINE_ERROR_MEMORY, "out of memory (embeddings)");
    }
    if (!status) status = path ? run_to_file(&e, path) : pooled_run(&e.pooled);
    int exit_status = status && !interrupted ? command_fail() : 0;
    pooled_close(&e.pooled);
    for (size_t i = 0; e.values && i < e.texts.count; i++) free(e.values[i]);
    free(e.values);
    embed_texts_free(&e.texts);
    engine_model_close(e.model);
    engine_close(e.engine);
    return exit_status;
}
