/* vectors.c: POST /v1/embeddings, /v1/rerank and /v2/rerank: texts that become vectors, or pairs of texts
 * that become scores, each as a request of the queue.
 *
 * Embeddings are the states after the final norm, pooled as the file says (GGUF's pooling_type) or by their
 * mean, and normalised to length 1. Reranking has the fields and the answer of Jina's and Cohere's APIs, as
 * llama.cpp's server has it. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "io/json.h"
#include "io/messages.h"
#include "prompts/embedding.h"
#include "serve/api/api.h"
#include "serve/api/internal.h"
#include "serve/http/http.h"
#include "serve/server.h"

/* ---- Several token lists, a vector each ------------------------------------------------------------- */

struct vector_input {
    struct token_list tokens;
    int32_t *types; /* [tokens.count] of a pair of texts; NULL: all 0 */
    float *values;  /* NULL: not known yet */
};

struct vectors {
    struct group group; /* a request for each input; its error is that of the request, too */
    struct served *served;
    const char *model;           /* as the answer names it */
    struct vector_input *inputs; /* [n_inputs] */
    size_t n_inputs;
    uint32_t pooling;         /* enum engine_pooling */
    bool normalises;          /* to length 1 */
    uint32_t n_kept;          /* numbers of a vector that are kept, from the first one on */
    uint32_t n_longest;       /* tokens that a text may have besides what the context takes; 0: no limit */
    const char *what;         /* the field that has the texts, for messages */
    bool cuts;                /* texts that are too long are cut, to n_max tokens */
    uint32_t n_max;           /* set by vectors_read_truncate, or 0 */
    struct token_list around; /* what the tokenizer puts around a text, for cuts */
    json_t *(*answer)(const struct vectors *all); /* a new reference; NULL: out of memory */
};

_Static_assert(offsetof(struct vectors, group) == 0, "a group is its struct vectors");

static void vectors_finish(struct group *group)
{
    struct vectors *all = (struct vectors *)group;
    json_t *answer = group->error.status ? NULL : all->answer(all);
    if (group->error.status)
        api_error_answer(group->exchange, &group->error);
    else
        exchange_answer_json(group->exchange, answer);
    for (size_t i = 0; i < all->n_inputs; i++) {
        free(all->inputs[i].tokens.ids);
        free(all->inputs[i].types);
        free(all->inputs[i].values);
    }
    free(all->inputs);
    free(all->around.ids);
    group_free(group);
    free(all);
}

/* The first `count` numbers, of length 1 if they are to be normalised. NULL: out of memory. */
static float *vectors_keep(const struct vectors *all, const float *numbers)
{
    double sum = 0;
    size_t count = all->n_kept;
    float *result = malloc(count * sizeof *result);
    for (size_t i = 0; i < count && all->normalises; i++) sum += (double)numbers[i] * (double)numbers[i];
    double length = all->normalises ? sqrt(sum) : 1;
    for (size_t i = 0; i < count && result; i++)
        result[i] = length > 0 ? (float)((double)numbers[i] / length) : 0;
    return result;
}

static void vectors_fill_request(struct group *group, size_t i, struct engine_request *request,
                                 struct engine_sampler_options *sampler)
{
    const struct vectors *all = (const struct vectors *)group;
    const struct vector_input *input = &all->inputs[i];
    (void)sampler;
    request->tokens = input->tokens.ids;
    request->n_tokens = input->tokens.count;
    request->flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT;
    request->pooling = all->pooling;
    request->token_types = input->types;
}

static void vectors_take_event(struct group *group, size_t i, const struct engine_event *event)
{
    const struct vectors *all = (const struct vectors *)group;
    struct vector_input *input = &all->inputs[i];
    if (event->kind != ENGINE_EVENT_DONE) return;
    if (event->embedding) {
        ENGINE_ASSERT(event->n_embd >= all->n_kept && !input->values);
        input->values = vectors_keep(all, event->embedding);
        if (!input->values) api_error_memory(&group->error);
    } else if (event->reason == ENGINE_DONE_CONTEXT) {
        group_fail_with(group, 500, "the cache has no room for one of the texts");
    } else {
        group_fail(group, event);
    }
}

static const char *vectors_param_of(const struct group *group, const char *message)
{
    (void)message;
    return ((const struct vectors *)group)->what;
}

/* Begins with zeroed memory of `size` bytes, which begins with a struct vectors. NULL: the exchange has been
 * answered. */
static void *vectors_create(struct exchange *exchange, size_t size)
{
    struct vectors *all = calloc(1, size);
    if (!all || !group_init(&all->group, exchange)) {
        free(all);
        exchange_fail(exchange, OUT_OF_MEMORY_STATUS, "server_error", NULL, NULL,
                      "out of memory (vectors of texts)");
        return NULL;
    }
    const char *named = json_string_value(json_object_get(exchange_json(exchange), "model"));
    all->group.fill = vectors_fill_request;
    all->group.take = vectors_take_event;
    all->group.finish = vectors_finish;
    all->group.param = vectors_param_of;
    all->served = exchange_model(exchange);
    all->model = named ? named : all->served->name;
    return all;
}

/* Makes room for inputs. False: an error. */
static bool vectors_room(struct vectors *all, size_t n_inputs)
{
    all->inputs = calloc(n_inputs, sizeof *all->inputs);
    if (!all->inputs) return api_error_memory(&all->group.error);
    all->n_inputs = n_inputs;
    return group_room(&all->group, n_inputs, &all->group.error);
}

/* Tokens that a text may have. */
static uint32_t vectors_limit_of(const struct vectors *all)
{
    uint32_t n_context = all->served->info.n_context;
    return all->n_longest > 0 && all->n_longest < n_context ? all->n_longest : n_context;
}

/* Reads `truncate` and `truncate_prompt_tokens`, once n_longest is known; without them --truncate counts. */
static bool vectors_read_truncate(struct vectors *all, const json_t *body)
{
    const json_t *flag = json_object_get(body, "truncate"),
                 *number = json_object_get(body, "truncate_prompt_tokens");
    const struct vocabulary *v = &all->served->vocabulary;
    struct api_error *error = &all->group.error;
    json_int_t n = json_integer_value(number);
    all->n_max = vectors_limit_of(all);
    if (flag && !json_is_null(flag) && !json_is_boolean(flag))
        return api_error_in(error, "truncate", "\"truncate\" should be true or false");
    bool has_number = number && !json_is_null(number);
    if (has_number && (!json_is_integer(number) || n == 0 || n < -1 || n > (json_int_t)all->n_max))
        return api_error_in(
            error, "truncate_prompt_tokens",
            "\"truncate_prompt_tokens\" should be -1 (as many as the model reads) or from 1 to %u",
            all->n_max);
    if (has_number && n > 0) all->n_max = (uint32_t)n;
    all->cuts = flag && !json_is_null(flag) ? json_is_true(flag)
                                            : exchange_server(all->group.exchange)->arguments->truncate;
    all->cuts |= has_number;
    int status =
        all->cuts ? v->api->encode(v->tokenizer, "", 0, ENGINE_ENCODE_BOS_EOS, token_list_sink, &all->around)
                  : ENGINE_OK;
    return !status || api_error_of_engine(error, status, "truncate");
}

/* Checks an input's length. */
static bool vectors_fits(struct vectors *all, struct vector_input *input)
{
    uint32_t limit = vectors_limit_of(all);
    char place[64];
    snprintf(place, sizeof place, all->n_inputs > 1 ? "\"%.40s\"[%zu]" : "\"%.40s\"", all->what,
             (size_t)(input - all->inputs));
    if (input->tokens.count == 0)
        return api_error_in(&all->group.error, all->what, "%s has no tokens", place);
    if (all->cuts) token_list_cut(&input->tokens, &all->around, all->n_max);
    if (input->tokens.count <= limit) return true;
    return api_error_with_code(
        &all->group.error, "context_length_exceeded", all->what,
        "%s has %zu tokens, but the model reads at most %u here: shorten it, or cut it with "
        "\"truncate\": true",
        place, input->tokens.count, limit);
}

/* Computes the vectors, unless there is an error, answers the exchange, and frees everything. */
static void vectors_start(struct vectors *all)
{
    group_submit(&all->group);
}

/* ---- Embeddings ------------------------------------------------------------------------------------- */

#define MAX_INPUTS 2048 /* as in OpenAI's API */

struct embeddings {
    struct vectors vectors;
    bool base64;
    bool embeds;                 /* the model was made for embeddings */
    struct engine_string prompt; /* before each text */
};

/* ---- The model ---- */

/* How a model's states become an embedding: as it was made for, or of one that was made to write texts, the
 * mean. */
static void embeddings_know_model(struct embeddings *all)
{
    const struct engine_metadata *metadata = engine_model_metadata(all->vectors.served->model);
    struct engine_model_info model = {.struct_size = sizeof model};
    struct engine_embedding_info info = {.struct_size = sizeof info};
    char key[128];
    int64_t pooling;
    engine_model_get_info(all->vectors.served->model, &model);
    all->vectors.pooling = ENGINE_POOLING_MEAN;
    all->vectors.n_kept = all->vectors.served->info.n_embd;
    if (engine_model_embedding_info(all->vectors.served->model, &info)) return;
    all->vectors.n_kept = info.n_values;
    all->vectors.n_longest = info.n_context;
    snprintf(key, sizeof key, "%.80s.pooling_type", model.architecture);
    all->embeds = info.is_encoder || metadata->get_integer(metadata->context, key, &pooling) == ENGINE_OK;
    if (all->embeds && info.pooling >= ENGINE_POOLING_MEAN && info.pooling <= ENGINE_POOLING_LAST)
        all->vectors.pooling = info.pooling;
}

/* ---- Reading ---- */

/* With the special tokens around it that the model wants: unlike a text to be continued, it is complete. */
static bool embeddings_encode(const struct embeddings *all, const json_t *text, struct token_list *tokens,
                              struct api_error *error)
{
    const struct vocabulary *v = &all->vectors.served->vocabulary;
    size_t n_prompt = all->prompt.length, length = json_string_length(text);
    char *both = malloc(n_prompt + length + 1);
    if (!both) return api_error_memory(error);
    if (n_prompt > 0) memcpy(both, all->prompt.data, n_prompt);
    memcpy(both + n_prompt, json_string_value(text), length);
    int status =
        v->api->encode(v->tokenizer, both, n_prompt + length, ENGINE_ENCODE_BOS_EOS, token_list_sink, tokens);
    free(both);
    if (status) return api_error_of_engine(error, status, "input");
    return true;
}

/* The adapter that the model has for a task, as in Jina's API. */
static bool embeddings_read_task(struct embeddings *all, const json_t *task)
{
    struct api_error *error = &all->vectors.group.error;
    const char *given = json_string_value(task);
    if (!task || json_is_null(task)) return true;
    if (!given) return api_error_in(error, "task", "\"task\" should be a text");
    int adapter = models_adapter_for(all->vectors.served, given);
    if (adapter < 0)
        return api_error_in(
            error, "task",
            "no adapter of %.80s is for the task \"%.80s\": engine serve takes them with --lora "
            "NAME=DIRECTORY/TASK",
            all->vectors.served->name, given);
    exchange_use_adapter(all->vectors.group.exchange, adapter);
    return true;
}

/* sentence-transformers' prompts: the one of this name, that of the task, or the model's default. */
static bool embeddings_read_prompt(struct embeddings *all, const json_t *name, const char *task)
{
    const char *given = json_string_value(name);
    if (name && !json_is_null(name) && !given)
        return api_error_in(&all->vectors.group.error, "prompt_name", "\"prompt_name\" should be a text");
    if (!given && task)
        return embed_prompt_of_task(all->vectors.served->model, task, &all->prompt) == ENGINE_OK ||
               api_error_in(&all->vectors.group.error, "task", "%s", command_message());
    if (embed_prompt_find(all->vectors.served->model, given, &all->prompt) == ENGINE_OK) return true;
    return api_error_in(&all->vectors.group.error, "prompt_name", "%s", command_message());
}

static bool embeddings_read_one(struct embeddings *all, struct vector_input *input, const json_t *value)
{
    struct api_error *error = &all->vectors.group.error;
    if (!json_is_string(value) && json_array_size(value) == 0)
        return api_error_in(error, "input",
                            "\"input\" should be a text, an array of token ids, or an array of them, "
                            "none of them empty");
    if (json_is_string(value) && json_string_length(value) == 0)
        return api_error_in(error, "input", "\"input\" is an empty text");
    bool good = json_is_string(value) ? embeddings_encode(all, value, &input->tokens, error)
                                      : params_ids("input", value, &input->tokens, error);
    return good && vectors_fits(&all->vectors, input);
}

static bool embeddings_read_inputs(struct embeddings *all, const json_t *value)
{
    struct api_error *error = &all->vectors.group.error;
    bool several = json_array_size(value) > 0 && !json_is_integer(json_array_get(value, 0));
    size_t count = several ? json_array_size(value) : 1;
    if (!value || json_is_null(value)) return api_error_in(error, "input", "\"input\" is missing");
    if (count > MAX_INPUTS)
        return api_error_in(error, "input", "\"input\" has more than %d texts", MAX_INPUTS);
    if (!vectors_room(&all->vectors, count)) return false;
    for (size_t i = 0; i < count; i++)
        if (!embeddings_read_one(all, &all->vectors.inputs[i], several ? json_array_get(value, i) : value))
            return false;
    return true;
}

/* Models that are made for it (arXiv 2205.13147) have the most important numbers first. */
static bool embeddings_read_dimensions(struct embeddings *all, const json_t *value)
{
    struct api_error *error = &all->vectors.group.error;
    json_int_t n = json_integer_value(value);
    if (json_is_integer(value) && n == all->vectors.n_kept) return true;
    if (!all->embeds)
        return api_error_in(
            error, "dimensions",
            "embeddings of this model have %u dimensions, and fewer of them mean nothing: it was made "
            "to write texts",
            all->vectors.n_kept);
    if (!json_is_integer(value) || n < 1 || n > all->vectors.n_kept)
        return api_error_in(error, "dimensions", "\"dimensions\" should be a whole number from 1 to %u",
                            all->vectors.n_kept);
    all->vectors.n_kept = (uint32_t)n;
    return true;
}

static bool embeddings_read_body(struct embeddings *all, json_t *body)
{
    struct api_error *error = &all->vectors.group.error;
    static const char *const known[] = {"model",       "input", "encoding_format", "dimensions",
                                        "prompt_name", "user",  "truncate",        "truncate_prompt_tokens",
                                        "task",        NULL};
    const json_t *format = json_object_get(body, "encoding_format"),
                 *dimensions = json_object_get(body, "dimensions"), *user = json_object_get(body, "user");
    const char *word = json_string_value(format);
    if (!params_check_fields(body, known, error)) return false;
    if (user && !json_is_null(user) && !json_is_string(user))
        return api_error_in(error, "user", "\"user\" should be a text");
    if (format && !json_is_null(format) &&
        (!word || (strcmp(word, "float") != 0 && strcmp(word, "base64") != 0)))
        return api_error_in(error, "encoding_format", "\"encoding_format\" should be float or base64");
    all->base64 = word && strcmp(word, "base64") == 0;
    if (dimensions && !json_is_null(dimensions) && !embeddings_read_dimensions(all, dimensions)) return false;
    const json_t *task = json_object_get(body, "task");
    if (!embeddings_read_task(all, task) ||
        !embeddings_read_prompt(all, json_object_get(body, "prompt_name"), json_string_value(task)))
        return false;
    if (!vectors_read_truncate(&all->vectors, body)) return false;
    return embeddings_read_inputs(all, json_object_get(body, "input"));
}

/* ---- Answering ---- */

/* Little-endian float32 in base64 (RFC 4648), as OpenAI's clients read it. */
static json_t *base64_of(const float *numbers, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size = count * 4, used = 0;
    unsigned char *bytes = malloc(size + 2);
    char *text = malloc(size / 3 * 4 + 8);
    for (size_t i = 0; i < count && bytes; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        for (unsigned b = 0; b < 4; b++) bytes[i * 4 + b] = (unsigned char)(bits >> (8 * b));
    }
    for (size_t i = 0; i < size && bytes && text; i += 3) {
        size_t left = size - i;
        uint32_t three = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0u);
        text[used++] = digits[three >> 18];
        text[used++] = digits[three >> 12 & 63];
        text[used++] = left > 1 ? digits[three >> 6 & 63] : '=';
        text[used++] = left > 2 ? digits[three & 63] : '=';
    }
    json_t *json = bytes && text ? json_stringn(text, used) : NULL;
    free(bytes);
    free(text);
    return json;
}

static json_t *embedding_json(const struct embeddings *all, const float *numbers)
{
    size_t count = all->vectors.n_kept;
    if (all->base64) return base64_of(numbers, count);
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(array, json_real((double)numbers[i]));
    return array;
}

static json_t *embeddings_answer(const struct vectors *vectors)
{
    const struct embeddings *all = (const struct embeddings *)vectors;
    json_t *data = json_array();
    size_t n_tokens = 0;
    for (size_t i = 0; i < vectors->n_inputs; i++) {
        n_tokens += vectors->inputs[i].tokens.count;
        json_array_append_new(data, json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", (int)i,
                                              "embedding", embedding_json(all, vectors->inputs[i].values)));
    }
    return json_pack("{s:s, s:o, s:s, s:{s:o, s:o}}", "object", "list", "data", data, "model", vectors->model,
                     "usage", "prompt_tokens", json_count(n_tokens), "total_tokens", json_count(n_tokens));
}

void api_embeddings(struct exchange *exchange)
{
    struct embeddings *all = vectors_create(exchange, sizeof *all);
    if (!all) return;
    all->vectors.normalises = true;
    all->vectors.what = "input";
    all->vectors.answer = embeddings_answer;
    embeddings_know_model(all);
    embeddings_read_body(all, exchange_json(exchange));
    vectors_start(&all->vectors);
}

/* ---- Reranking -------------------------------------------------------------------------------------- */

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

static bool rerank_read_documents(struct rerank *all, const json_t *query)
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

static bool rerank_read_top(struct rerank *all, const json_t *body)
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

static bool rerank_read_returns(struct rerank *all, const json_t *body)
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
    return rerank_read_top(all, body) && rerank_read_returns(all, body) &&
           vectors_read_truncate(&all->vectors, body) &&
           rerank_read_documents(all, json_object_get(body, "query"));
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

static json_t *rerank_result_json(const struct rerank *all, const struct ranked *ranked)
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
        json_array_append_new(results, rerank_result_json(all, &ranked[i]));
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
