/* embed.c: `engine embed`: texts to vectors. Each text is a request of the queue, which computes many at once; results
 * leave in the order of the texts. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "commands/embed-input.h"
#include "commands/json.h"
#include "commands/npy.h"
#include "commands/output.h"

#define WAITING_EACH 8 /* requests that wait, for each of --parallel */

struct embedding {
    struct embedder *embedder;
    float *values; /* [n_rows, n_embd] of its text; NULL: not yet, or already written */
};

struct embedder {
    const struct arguments *arguments;
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    struct engine_queue *queue;
    struct embed_texts texts;
    struct embedding *embeddings; /* [texts.count] */
    uint32_t pooling;             /* enum engine_pooling */
    uint32_t n_embd;              /* of a state */
    uint32_t n_kept;              /* numbers that are written: --dimensions */
    size_t n_submitted, n_done, n_written;
    FILE *npy; /* -o; NULL: standard output */
    int status;
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

static void normalise(const struct embedder *e, float *values)
{
    double p = (double)e->arguments->embd_normalize;
    bool is_embedding = e->pooling != ENGINE_POOLING_TOKENS && e->pooling != ENGINE_POOLING_RANK;
    if (p < 0 || (!is_embedding && !e->arguments->embd_normalize_given)) return;
    double norm = norm_of(values, e->n_kept, p);
    for (size_t i = 0; i < e->n_kept && norm > 0; i++) values[i] = (float)((double)values[i] / norm);
}

/* ---- Writing ---- */

static size_t rows_of(const struct embedder *e, size_t number)
{
    return e->pooling == ENGINE_POOLING_TOKENS ? e->texts.items[number].ids.count : 1;
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
    const float *values = e->embeddings[number].values;
    json_t *json = json_object(), *rows = json_array();
    bool all = e->pooling == ENGINE_POOLING_TOKENS;
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
        const float *values = e->embeddings[number].values + i * e->n_embd;
        bool good = e->npy ? fwrite(values, sizeof *values, e->n_kept, e->npy) == e->n_kept
                           : write_row_text(e, values, stdout);
        if (!good) return false;
    }
    return true;
}

/* In the order of the texts, as soon as they are known. */
static void write_finished(struct embedder *e)
{
    while (!e->status && e->n_written < e->texts.count && e->embeddings[e->n_written].values) {
        size_t number = e->n_written++;
        float *values = e->embeddings[number].values;
        for (size_t i = 0; i < rows_of(e, number); i++) normalise(e, values + i * e->n_embd);
        end_text();
        if (!(e->arguments->json && !e->npy ? write_json(e, number) : write_rows(e, number)))
            e->status = command_error(ENGINE_ERROR, "cannot write the embeddings: %s", strerror(errno));
        free(values);
        e->embeddings[number].values = NULL;
    }
}

/* ---- Running ---- */

static void take_event(void *user, const struct engine_event *event)
{
    struct embedding *embedding = user;
    struct embedder *e = embedding->embedder;
    if (event->kind != ENGINE_EVENT_DONE) return;
    e->n_done++;
    if (event->reason == ENGINE_DONE_FAILED && !e->status)
        e->status = command_error(event->status, "%s", event->message);
    if (!event->embedding) return;
    size_t size = (size_t)event->n_rows * event->n_embd * sizeof *event->embedding;
    embedding->values = malloc(size);
    if (embedding->values)
        memcpy(embedding->values, event->embedding, size);
    else if (!e->status)
        e->status = command_error(ENGINE_ERROR_MEMORY, "out of memory (embeddings)");
}

/* Fills the queue, as far as it lets requests wait. */
static int submit_some(struct embedder *e)
{
    size_t most = (size_t)e->arguments->n_parallel * WAITING_EACH;
    int status = ENGINE_OK;
    while (!status && e->n_submitted - e->n_done < most && e->n_submitted < e->texts.count) {
        const struct embed_text *text = &e->texts.items[e->n_submitted];
        struct embedding *embedding = &e->embeddings[e->n_submitted];
        embedding->embedder = e;
        const struct engine_request request = {
            .struct_size = sizeof request,
            .tokens = text->ids.ids,
            .n_tokens = text->ids.count,
            .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
            .event = take_event,
            .user = embedding,
            .pooling = e->pooling,
        };
        status = engine_queue_submit(e->queue, &request, NULL);
        e->n_submitted += !status;
    }
    return status;
}

static int run_queue(struct embedder *e)
{
    size_t total = e->texts.count;
    while (!e->status && !interrupted && e->n_done < total) {
        int status = submit_some(e);
        if (!status) status = engine_queue_run(e->queue, ENGINE_QUEUE_STEP);
        if (!e->status) e->status = status;
        count_progress("embed", e->n_done, total, "texts");
        write_finished(e);
    }
    count_progress("embed", total, total, "texts");
    return e->status;
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
    struct engine_context_options options;
    struct engine_embedding_info model = {.struct_size = sizeof model};
    struct engine_context_info info = {.struct_size = sizeof info};
    const struct engine_queue_options queue = {.struct_size = sizeof queue,
                                               .n_waiting = e->arguments->n_parallel * WAITING_EACH};
    int32_t offload;
    int status = engine_model_embedding_info(e->model, &model);
    if (status) return status;
    context_options(e->arguments, &options, &offload);
    uint32_t longest = e->texts.n_longest < INT32_MAX ? (uint32_t)e->texts.n_longest : INT32_MAX;
    uint32_t n_context = options.n_context ? options.n_context : model.n_context;
    status = embed_texts_check(&e->texts, n_context);
    if (options.n_context == 0) options.n_context = longest;
    options.n_sequences = e->arguments->n_parallel;
    if (options.n_sequences > e->texts.count) options.n_sequences = (uint32_t)e->texts.count;
    if (!status) status = create_context(e->arguments, e->model, &options, &e->context);
    if (!status) status = engine_context_get_info(e->context, &info);
    if (!status) status = engine_queue_create(e->context, &queue, &e->queue);
    e->pooling = pooling_of(e->arguments->pooling, model.pooling);
    e->n_embd = e->pooling == ENGINE_POOLING_RANK ? model.n_labels : info.n_embd;
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
    if (!status) status = run_queue(e);
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
    if (!status) status = embed_texts_read(arguments, e.model, &e.texts);
    if (!status) {
        e.embeddings = calloc(e.texts.count, sizeof *e.embeddings);
        status = e.embeddings ? open_embed_context(&e)
                              : command_error(ENGINE_ERROR_MEMORY, "out of memory (embeddings)");
    }
    if (!status) status = path ? run_to_file(&e, path) : run_queue(&e);
    int exit_status = status && !interrupted ? command_fail() : 0;
    engine_queue_destroy(e.queue);
    engine_context_destroy(e.context);
    for (size_t i = 0; e.embeddings && i < e.texts.count; i++) free(e.embeddings[i].values);
    free(e.embeddings);
    embed_texts_free(&e.texts);
    engine_model_close(e.model);
    engine_close(e.engine);
    return exit_status;
}
