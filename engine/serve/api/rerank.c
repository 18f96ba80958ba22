/* rerank.c: POST /v1/rerank and /v2/rerank: documents by how well they answer a query. Fields and answer have
 * the shape of Jina's and Cohere's APIs, as llama.cpp's server has it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/messages.h"
#include "prompts/embedding.h"
#include "serve/api/api.h"
#include "serve/api/internal.h"

#define MAX_DOCUMENTS 2048

struct rerank {
    struct vectors vectors;
    uint32_t n_labels, label; /* of the head: how many, and the one that counts */
    size_t n_top;             /* documents that the answer has */
    bool returns_documents;
    const json_t *documents; /* the request's: [vectors.n_inputs] texts, or objects with a text */
};

/* ---- Reading ---- */

/* A document is a text or {"text": …}; NULL: neither. */
static const json_t *rerank_text_of(const json_t *document)
{
    const json_t *text = json_is_object(document) ? json_object_get(document, "text") : document;
    return json_is_string(text) ? text : NULL;
}

static int take_pair(void *user, const int32_t *ids, const int32_t *types, size_t count)
{
    struct vector_input *input = user;
    int status = token_list_add(&input->tokens, ids, count);
    input->types = status ? NULL : malloc((count + 1) * sizeof *types);
    if (!status && !input->types) status = command_error(ENGINE_ERROR_MEMORY, "out of memory (documents)");
    if (!status) memcpy(input->types, types, count * sizeof *types);
    return status;
}

static bool read_documents(struct rerank *all, const json_t *query)
{
    struct api_error *error = &all->vectors.group.error;
    const char *what = all->vectors.what;
    struct engine_string first = {json_string_value(query), json_string_length(query)};
    size_t count = json_array_size(all->documents);
    if (!json_is_string(query)) return api_error_in(error, "query", "\"query\" should be a text");
    if (count == 0 || count > MAX_DOCUMENTS)
        return api_error_in(error, what, "\"%s\" should be an array of 1 to %d texts", what, MAX_DOCUMENTS);
    if (!vectors_room(&all->vectors, count)) return false;
    for (size_t i = 0; i < count; i++) {
        struct vector_input *input = &all->vectors.inputs[i];
        const json_t *document = json_array_get(all->documents, i), *text = rerank_text_of(document);
        static const char *const keys[] = {"text", NULL};
        char where[40];
        snprintf(where, sizeof where, "%s[%zu]", what, i);
        if (!params_check_keys(document, where, keys, error)) return false;
        if (!text)
            return api_error_in(error, what, "\"%s\"[%zu] should be a text, or an object with a \"text\"",
                                what, i);
        struct engine_string second = {json_string_value(text), json_string_length(text)};
        int status =
            engine_model_encode_pair_within(all->vectors.served->model, first, second,
                                            all->vectors.cuts ? all->vectors.n_max : 0, take_pair, input);
        if (status) return api_error_of_engine(error, status, what);
        if (!vectors_fits(&all->vectors, input)) return false;
    }
    return true;
}

static bool read_top(struct rerank *all, const json_t *body)
{
    const json_t *top = json_object_get(body, "top_n");
    all->n_top = SIZE_MAX;
    if (!top || json_is_null(top)) return true;
    if (!json_is_integer(top) || json_integer_value(top) < 1)
        return api_error_in(&all->vectors.group.error, "top_n",
                            "\"top_n\" should be a whole number, at least 1");
    all->n_top = (size_t)json_integer_value(top);
    return true;
}

static bool read_returns(struct rerank *all, const json_t *body)
{
    const json_t *value = json_object_get(body, "return_documents");
    all->returns_documents = json_is_true(value);
    return !value || json_is_null(value) || json_is_boolean(value) ||
           api_error_in(&all->vectors.group.error, "return_documents",
                        "\"return_documents\" should be true or false");
}

static bool rerank_read_body(struct rerank *all, json_t *body)
{
    static const char *const known[] = {"model", "query",    "documents",
                                        "texts", "top_n",    "return_documents",
                                        "user",  "truncate", "truncate_prompt_tokens",
                                        NULL};
    if (!params_check_fields(body, known, &all->vectors.group.error)) return false;
    all->documents = json_object_get(body, "documents");
    if (!all->documents && (all->documents = json_object_get(body, "texts"))) all->vectors.what = "texts";
    return read_top(all, body) && read_returns(all, body) && vectors_read_truncate(&all->vectors, body) &&
           read_documents(all, json_object_get(body, "query"));
}

static bool rerank_know_model(struct rerank *all)
{
    struct engine_model *model = all->vectors.served->model;
    struct engine_embedding_info info = {.struct_size = sizeof info};
    int status = engine_model_embedding_info(model, &info);
    if (status) return api_error_of_engine(&all->vectors.group.error, status, "model");
    if (relevance_label(model, &info, &all->label) != ENGINE_OK)
        return api_error_with_code(&all->vectors.group.error, "model_not_supported", "model", "%.80s: %s",
                                   all->vectors.served->name, command_message());
    all->n_labels = all->vectors.n_kept = info.n_labels;
    all->vectors.n_longest = info.n_context;
    return true;
}

/* ---- Answering ---- */

static json_t *result_json(const struct rerank *all, const struct ranked *ranked)
{
    json_t *json = json_pack("{s:o, s:o}", "index", json_count(ranked->index), "relevance_score",
                             json_real((double)ranked->score));
    const json_t *text = rerank_text_of(json_array_get(all->documents, ranked->index));
    if (all->returns_documents) json_object_set_new(json, "document", json_pack("{s:O}", "text", text));
    return json;
}

static json_t *rerank_answer(const struct vectors *vectors)
{
    const struct rerank *all = (const struct rerank *)vectors;
    size_t count = vectors->n_inputs, n_tokens = 0;
    struct ranked *ranked = malloc(count * sizeof *ranked);
    json_t *results = json_array();
    for (size_t i = 0; ranked && i < count; i++) {
        ranked[i] = (struct ranked){i, relevance_of(vectors->inputs[i].values, all->n_labels, all->label)};
        n_tokens += vectors->inputs[i].tokens.count;
    }
    if (ranked) ranked_sort(ranked, count);
    for (size_t i = 0; ranked && i < count && i < all->n_top; i++)
        json_array_append_new(results, result_json(all, &ranked[i]));
    free(ranked);
    return json_pack("{s:s, s:s, s:o, s:{s:o, s:o}}", "object", "list", "model", vectors->model, "results",
                     results, "usage", "prompt_tokens", json_count(n_tokens), "total_tokens",
                     json_count(n_tokens));
}

void api_rerank(struct exchange *exchange)
{
    struct rerank *all = vectors_create(exchange, sizeof *all);
    if (!all) return;
    all->vectors.pooling = ENGINE_POOLING_RANK;
    all->vectors.what = "documents";
    all->vectors.answer = rerank_answer;
    if (rerank_know_model(all)) rerank_read_body(all, exchange_json(exchange));
    vectors_start(&all->vectors);
}
