/* embeddings.c: POST /v1/embeddings and /v1/rerank. Embeddings are the states after the final norm, pooled as the file
 * says (GGUF's pooling_type) or by their mean, and normalised to length 1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/json.h"
#include "serve/api/api.h"
#include "serve/generate/generation.h"
#include "serve/generate/wire.h"

#define MOST_INPUTS  2048 /* as in OpenAI's API */
#define MOST_RUNNING 64   /* requests that the queue has at once */

struct embeddings;

struct input {
    struct embeddings *all;
    struct token_list tokens;
    float *embedding; /* [n_embd]; NULL: not known yet */
    atomic_ullong id; /* of the queue's request; 0: not submitted yet */
};

struct embeddings {
    struct exchange *exchange;
    struct served *served;
    const char *model;
    bool base64;
    struct input *inputs; /* [n_inputs] */
    size_t n_inputs, n_submitted, n_running;
    uint32_t pooling; /* enum engine_pooling */
    bool embeds;      /* the model was made for embeddings */
    uint32_t n_kept;  /* numbers of an embedding */
    struct mistake mistake;
    pthread_mutex_t lock;
    atomic_bool gone;
    atomic_size_t n_uses; /* requests without their last event, and the thread that submits them */
};

/* ---- The model ---- */

/* How a model's states become an embedding: as it was made for, or of one that was made to write texts, the mean. */
static void know_model(struct embeddings *all)
{
    const struct engine_metadata *metadata = engine_model_metadata(all->served->model);
    struct engine_model_info model = {.struct_size = sizeof model};
    struct engine_embedding_info info = {.struct_size = sizeof info};
    char key[128];
    int64_t pooling;
    engine_model_get_info(all->served->model, &model);
    all->pooling = ENGINE_POOLING_MEAN;
    all->n_kept = all->served->info.n_embd;
    if (engine_model_embedding_info(all->served->model, &info)) return;
    snprintf(key, sizeof key, "%.80s.pooling_type", model.architecture);
    all->embeds = info.is_encoder || metadata->get_integer(metadata->context, key, &pooling) == ENGINE_OK;
    if (all->embeds && info.pooling >= ENGINE_POOLING_MEAN && info.pooling <= ENGINE_POOLING_LAST)
        all->pooling = info.pooling;
}

/* ---- Reading ---- */

static bool read_ids(const json_t *value, const char *where, struct token_list *tokens,
                     struct mistake *mistake)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)(size_t)value, i, item)
    {
        int32_t id = (int32_t)json_integer_value(item);
        if (!json_is_integer(item) || json_integer_value(item) != id || id < 0)
            return mistake_in(mistake, where, "\"input\" should be texts or arrays of token ids");
        int status = token_list_add(tokens, &id, 1);
        if (status) return mistake_of_engine(mistake, status, NULL);
    }
    return true;
}

static int collect(void *user, const int32_t *ids, size_t count)
{
    return token_list_add(user, ids, count);
}

/* With the special tokens around it that the model wants: unlike a prompt, the text is complete. */
static bool encode(const struct served *served, const json_t *text, struct token_list *tokens,
                   struct mistake *mistake)
{
    const struct vocabulary *v = &served->vocabulary;
    int status = v->api->encode(v->tokenizer, json_string_value(text), json_string_length(text),
                                ENGINE_ENCODE_BOS_EOS, collect, tokens);
    if (status) return mistake_of_engine(mistake, status, "input");
    return tokens->count > 0 || mistake_in(mistake, "input", "a text of \"input\" has no tokens");
}

static bool read_one(struct embeddings *all, struct input *input, const json_t *value,
                     struct mistake *mistake)
{
    uint32_t n_context = all->served->info.n_context;
    if (!json_is_string(value) && json_array_size(value) == 0)
        return mistake_in(mistake, "input",
                          "\"input\" should be a text, an array of token ids, or an array of them, "
                          "none of them empty");
    if (json_is_string(value) && json_string_length(value) == 0)
        return mistake_in(mistake, "input", "\"input\" is an empty text");
    bool good = json_is_string(value) ? encode(all->served, value, &input->tokens, mistake)
                                      : read_ids(value, "input", &input->tokens, mistake);
    if (!good || input->tokens.count <= n_context) return good;
    return mistake_with_code(
        mistake, "context_length_exceeded", "input",
        "a text of \"input\" has %zu tokens, but the context of this model takes %u here",
        input->tokens.count, n_context);
}

static bool read_inputs(struct embeddings *all, const json_t *value, struct mistake *mistake)
{
    bool several = json_array_size(value) > 0 && !json_is_integer(json_array_get(value, 0));
    size_t count = several ? json_array_size(value) : 1;
    if (!value || json_is_null(value)) return mistake_in(mistake, "input", "\"input\" is missing");
    if (count > MOST_INPUTS)
        return mistake_in(mistake, "input", "\"input\" has more than %d texts", MOST_INPUTS);
    all->inputs = calloc(count, sizeof *all->inputs);
    if (!all->inputs) return mistake_memory(mistake);
    all->n_inputs = count;
    for (size_t i = 0; i < count; i++) {
        all->inputs[i].all = all;
        if (!read_one(all, &all->inputs[i], several ? json_array_get(value, i) : value, mistake))
            return false;
    }
    return true;
}

/* Models that are made for it (arXiv 2205.13147) have the most important numbers first. */
static bool read_dimensions(struct embeddings *all, const json_t *value, struct mistake *mistake)
{
    json_int_t n = json_integer_value(value);
    if (json_is_integer(value) && n == all->n_kept) return true;
    if (!all->embeds)
        return mistake_in(
            mistake, "dimensions",
            "embeddings of this model have %u dimensions, and fewer of them mean nothing: it was made "
            "to write texts",
            all->n_kept);
    if (!json_is_integer(value) || n < 1 || n > all->n_kept)
        return mistake_in(mistake, "dimensions", "\"dimensions\" should be a whole number from 1 to %u",
                          all->n_kept);
    all->n_kept = (uint32_t)n;
    return true;
}

static bool read_body(struct embeddings *all, json_t *body, struct mistake *mistake)
{
    static const char *const known[] = {"model", "input", "encoding_format", "dimensions", "user", NULL};
    const json_t *format = json_object_get(body, "encoding_format"),
                 *dimensions = json_object_get(body, "dimensions");
    const char *word = json_string_value(format), *name;
    json_t *value;
    json_object_foreach(body, name, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0) i++;
        if (!known[i] && !json_is_null(value))
            return mistake_with_code(mistake, "unknown_parameter", name, "\"%.100s\" is not supported here",
                                     name);
    }
    if (format && !json_is_null(format) &&
        (!word || (strcmp(word, "float") != 0 && strcmp(word, "base64") != 0)))
        return mistake_in(mistake, "encoding_format", "\"encoding_format\" should be float or base64");
    all->base64 = word && strcmp(word, "base64") == 0;
    if (dimensions && !json_is_null(dimensions) && !read_dimensions(all, dimensions, mistake)) return false;
    return read_inputs(all, json_object_get(body, "input"), mistake);
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
    size_t count = all->n_kept;
    if (all->base64) return base64_of(numbers, count);
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(array, json_real((double)numbers[i]));
    return array;
}

static json_t *answer_of(const struct embeddings *all)
{
    json_t *data = json_array();
    size_t n_tokens = 0;
    for (size_t i = 0; i < all->n_inputs; i++) {
        n_tokens += all->inputs[i].tokens.count;
        json_array_append_new(data, json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", (int)i,
                                              "embedding", embedding_json(all, all->inputs[i].embedding)));
    }
    return json_pack("{s:s, s:o, s:s, s:{s:o, s:o}}", "object", "list", "data", data, "model", all->model,
                     "usage", "prompt_tokens", json_count(n_tokens), "total_tokens", json_count(n_tokens));
}

/* All requests are done. Until the exchange has ended, client_is_gone may be called. */
static void finish(struct embeddings *all)
{
    json_t *answer = all->mistake.status ? NULL : answer_of(all);
    if (all->mistake.status)
        wire_fail(all->exchange, &all->mistake);
    else
        wire_answer(all->exchange, answer);
    for (size_t i = 0; i < all->n_inputs; i++) {
        free(all->inputs[i].tokens.ids);
        free(all->inputs[i].embedding);
    }
    free(all->inputs);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static void drop_use(struct embeddings *all)
{
    if (atomic_fetch_sub(&all->n_uses, 1) == 1) finish(all);
}

static void cancel_all(struct embeddings *all)
{
    for (size_t i = 0; i < all->n_inputs; i++) {
        uint64_t id = atomic_load(&all->inputs[i].id);
        if (id) served_cancel(all->served, id);
    }
}

static void client_is_gone(void *user)
{
    struct embeddings *all = user;
    atomic_store(&all->gone, true);
    cancel_all(all);
}

static float *normalised(const float *numbers, size_t count)
{
    double sum = 0;
    float *result = malloc(count * sizeof *result);
    for (size_t i = 0; i < count; i++) sum += (double)numbers[i] * (double)numbers[i];
    double length = sqrt(sum);
    for (size_t i = 0; i < count && result; i++)
        result[i] = length > 0 ? (float)((double)numbers[i] / length) : 0;
    return result;
}

static void take_event(void *user, const struct engine_event *event);

/* Under the lock: as in generation.c. */
static void submit_some(struct embeddings *all)
{
    while (all->n_submitted < all->n_inputs && all->n_running < MOST_RUNNING && !all->mistake.status &&
           !atomic_load(&all->gone)) {
        struct input *input = &all->inputs[all->n_submitted];
        struct engine_request request = {.struct_size = sizeof request,
                                         .tokens = input->tokens.ids,
                                         .n_tokens = input->tokens.count,
                                         .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
                                         .event = take_event,
                                         .user = input,
                                         .pooling = all->pooling};
        uint64_t id;
        atomic_fetch_add(&all->n_uses, 1);
        int status = served_submit(all->exchange, &request, &id);
        if (status) {
            atomic_fetch_sub(&all->n_uses, 1);
            if (status == ENGINE_ERROR_BUSY && all->n_running > 0) return;
            mistake_of_engine(&all->mistake, status, "input");
            cancel_all(all);
            return;
        }
        atomic_store(&input->id, id);
        all->n_submitted++;
        all->n_running++;
    }
}

static void take_event(void *user, const struct engine_event *event)
{
    struct input *input = user;
    struct embeddings *all = input->all;
    if (event->kind != ENGINE_EVENT_DONE) return;
    pthread_mutex_lock(&all->lock);
    if (event->embedding) {
        input->embedding = normalised(event->embedding, all->n_kept);
        if (!input->embedding) mistake_memory(&all->mistake);
    } else if (!all->mistake.status) {
        mistake_in(&all->mistake, NULL, "%s",
                   event->reason == ENGINE_DONE_FAILED    ? event->message
                   : event->reason == ENGINE_DONE_CONTEXT ? "the cache has no room for a text of \"input\""
                   : atomic_load(&all->gone)              ? "the client went away"
                                                          : "the server is shutting down");
        all->mistake.status = 500;
        cancel_all(all);
    }
    all->n_running--;
    submit_some(all);
    pthread_mutex_unlock(&all->lock);
    drop_use(all);
}

void api_embeddings(struct exchange *exchange)
{
    struct embeddings *all = calloc(1, sizeof *all);
    if (!all || pthread_mutex_init(&all->lock, NULL) != 0) {
        free(all);
        exchange_fail(exchange, 500, "server_error", NULL, NULL, "out of memory (embeddings)");
        return;
    }
    const char *named = json_string_value(json_object_get(exchange_json(exchange), "model"));
    struct mistake mistake = {0};
    all->exchange = exchange;
    all->served = exchange_model(exchange);
    all->model = named ? named : all->served->name;
    know_model(all);
    atomic_store(&all->n_uses, 1);
    if (read_body(all, exchange_json(exchange), &mistake)) {
        exchange_when_gone(exchange, client_is_gone, all);
        pthread_mutex_lock(&all->lock);
        submit_some(all);
        pthread_mutex_unlock(&all->lock);
        if (atomic_load(&all->gone)) cancel_all(all);
    } else {
        all->mistake = mistake;
    }
    drop_use(all);
}

void api_rerank(struct exchange *exchange)
{
    exchange_fail(
        exchange, 400, "invalid_request_error", "model_not_supported", "model",
        "the model \"%.80s\" writes texts: it gives no scores of documents for a query; /v1/rerank needs a "
        "model with a head for that, and none is supported yet",
        exchange_model(exchange)->name);
}
