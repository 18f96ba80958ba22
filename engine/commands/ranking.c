/* ranking.c: `engine rerank` and `engine classify`: texts, or pairs of them, to the scores of a model's
 * classification head, as documents in the order in which they fit a query, or as the labels of texts with
 * their probabilities. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "commands/pooled.h"
#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"
#include "prompts/embedding.h"

/* ---- The scores ---------------------------------------------------------------------------------------- */

struct ranking {
    struct engine *engine;
    struct engine_model *model;
    struct embed_texts texts;
    struct engine_embedding_info info;
    float *scores; /* [texts.count, info.n_labels], before any softmax */
};

/* Keeps a text's scores. */
static int take_scores(void *user, size_t number, const float *scores, size_t n_rows, size_t n)
{
    struct ranking *r = user;
    memcpy(r->scores + number * r->info.n_labels, scores, n_rows * n * sizeof *scores);
    return ENGINE_OK;
}

/* Opens the model. ENGINE_ERROR_UNSUPPORTED: it has no classification head. */
static int ranking_open(const struct arguments *arguments, struct ranking *r)
{
    *r = (struct ranking){.info = {.struct_size = sizeof r->info}};
    int status = open_engine(arguments, &r->engine);
    if (!status) status = open_model(arguments, r->engine, &r->model);
    if (!status) status = engine_model_embedding_info(r->model, &r->info);
    if (!status && r->info.n_labels == 0)
        status = command_error(ENGINE_ERROR_UNSUPPORTED,
                               "%s: the model has no classification head (cls.output.weight), so it gives no "
                               "scores",
                               path_of_model(arguments, r->engine));
    return status;
}

/* Reads the texts of the arguments, as pairs with --query, and scores them. */
static int ranking_run(const struct arguments *arguments, struct ranking *r)
{
    struct pooled pooled = {.arguments = arguments,
                            .model = r->model,
                            .texts = &r->texts,
                            .pooling = ENGINE_POOLING_RANK,
                            .verb = "score",
                            .take = take_scores,
                            .user = r};
    r->texts.n_most = arguments->n_context ? arguments->n_context : r->info.n_context;
    int status = embed_texts_read(arguments, r->model, &r->texts);
    if (status) return status;
    r->scores = calloc(r->texts.count * r->info.n_labels, sizeof *r->scores);
    if (!r->scores) return command_error(ENGINE_ERROR_MEMORY, "out of memory (scores)");
    status = pooled_open(&pooled, r->info.n_context);
    if (!status) status = pooled_run(&pooled);
    pooled_close(&pooled);
    return status;
}

static void ranking_close(struct ranking *r)
{
    free(r->scores);
    embed_texts_free(&r->texts);
    engine_model_close(r->model);
    engine_close(r->engine);
}

/* ---- engine rerank ------------------------------------------------------------------------------------- */

/* A line: the score, the document's number, and its text with line breaks as spaces. */
static void print_document(const struct embed_text *document, const struct ranked *ranked)
{
    struct engine_string text = document->text;
    printf("%.6f\t%zu\t", (double)ranked->score, ranked->index);
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        putchar(byte < ' ' || byte == 127 ? ' ' : byte);
    }
    putchar('\n');
}

static void print_document_json(const struct embed_text *document, const struct ranked *ranked)
{
    json_t *json = json_pack("{s:o, s:o, s:o, s:o}", "index", json_count(ranked->index), "relevance_score",
                             json_real((double)ranked->score), "tokens", json_count(document->ids.count),
                             "document", json_text(document->text.data, document->text.length));
    if (document->id) json_object_set(json, "id", document->id);
    json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(json);
}

static int print_documents(const struct arguments *arguments, const struct ranking *r, uint32_t label)
{
    size_t count = r->texts.count,
           n = arguments->n_top > 0 && arguments->n_top < count ? arguments->n_top : count;
    struct ranked *ranked = malloc(count * sizeof *ranked);
    if (!ranked) return command_error(ENGINE_ERROR_MEMORY, "out of memory (scores)");
    for (size_t i = 0; i < count; i++) {
        const float *scores = r->scores + i * r->info.n_labels;
        ranked[i] = (struct ranked){i, relevance_of(scores, r->info.n_labels, label)};
    }
    if (!arguments->in_order) ranked_sort(ranked, count);
    end_text();
    for (size_t i = 0; i < n; i++) {
        const struct embed_text *document = &r->texts.items[ranked[i].index];
        if (arguments->json)
            print_document_json(document, &ranked[i]);
        else
            print_document(document, &ranked[i]);
    }
    free(ranked);
    if (fflush(stdout) == 0 && !ferror(stdout)) return ENGINE_OK;
    return command_error(ENGINE_ERROR, "cannot write the scores: %s", strerror(errno));
}

int command_rerank(const struct arguments *arguments)
{
    struct ranking r;
    uint32_t label = 0;
    bool tokens = arguments->tokens_file != NULL;
    if (!arguments->query && !tokens)
        return command_usage("rerank: there is no query: give one with -q QUERY");
    if (arguments->query && tokens)
        return command_usage("rerank: --tokens-file has the tokens of query and document, so there is no -q");
    int status = ranking_open(arguments, &r);
    r.texts.pairs = true;
    if (!status) status = relevance_label(r.model, &r.info, &label);
    if (!status) status = ranking_run(arguments, &r);
    if (!status && !interrupted) status = print_documents(arguments, &r, label);
    int exit_status = status && !interrupted ? command_fail() : 0;
    ranking_close(&r);
    return exit_status;
}

/* ---- engine classify ----------------------------------------------------------------------------------- */

/* The labels of a text, the most likely first: indices [n]. */
static void sort_labels(const float *scores, uint32_t n, uint32_t *order)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        while (at > 0 && scores[order[at - 1]] < scores[i]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

static void print_labels(const struct ranking *r, const float *scores, const uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct label_room room;
        struct engine_string name = label_name(r->model, order[i], &room);
        if (i > 0) putchar('\t');
        quoted_print_line(name, stdout);
        printf(" %.6f", (double)scores[order[i]]);
    }
    putchar('\n');
}

static void print_labels_json(const struct ranking *r, size_t index, const float *scores,
                              const uint32_t *order, uint32_t n)
{
    const struct embed_text *text = &r->texts.items[index];
    json_t *labels = json_array();
    for (uint32_t i = 0; i < n; i++) {
        struct label_room room;
        struct engine_string name = label_name(r->model, order[i], &room);
        json_array_append_new(labels, json_pack("{s:o, s:o}", "label", json_text(name.data, name.length),
                                                "score", json_real((double)scores[order[i]])));
    }
    json_t *json = json_pack("{s:o, s:o, s:o}", "index", json_count(index), "tokens",
                             json_count(text->ids.count), "labels", labels);
    if (text->id) json_object_set(json, "id", text->id);
    json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(json);
}

static int print_texts(const struct arguments *arguments, const struct ranking *r)
{
    uint32_t n_labels = r->info.n_labels;
    uint32_t n = arguments->n_top > 0 && arguments->n_top < n_labels ? arguments->n_top : n_labels;
    uint32_t *order = malloc(n_labels * sizeof *order);
    if (!order) return command_error(ENGINE_ERROR_MEMORY, "out of memory (labels)");
    end_text();
    for (size_t i = 0; i < r->texts.count; i++) {
        float *scores = r->scores + i * n_labels;
        if (!arguments->raw_scores) label_probabilities(r->info.label_scores, scores, n_labels);
        sort_labels(scores, n_labels, order);
        if (arguments->json)
            print_labels_json(r, i, scores, order, n);
        else
            print_labels(r, scores, order, n);
    }
    free(order);
    if (fflush(stdout) == 0 && !ferror(stdout)) return ENGINE_OK;
    return command_error(ENGINE_ERROR, "cannot write the labels: %s", strerror(errno));
}

int command_classify(const struct arguments *arguments)
{
    struct ranking r;
    int status = ranking_open(arguments, &r);
    if (!status) status = ranking_run(arguments, &r);
    if (!status && !interrupted) status = print_texts(arguments, &r);
    int exit_status = status && !interrupted ? command_fail() : 0;
    ranking_close(&r);
    return exit_status;
}
