/* attention.c: POST /attention: what the tokens of a conversation look at, as the page or the JSON of `engine
 * attention`. The model's queue hands out no attention weights, so this has a context of its own while it
 * computes: the model is loaded a second time. Therefore one request at a time, and not for large models
 * (models/load.c). */
#include "prompts/attention.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory-stream.h"
#include "io/messages.h"
#include "serve/api/api.h"
#include "serve/generate/generation.h"
#include "serve/http/http.h"
#include "serve/server.h"

struct look {
    struct exchange *exchange;
    struct served *served;
    struct token_list tokens;
    bool as_json;
    size_t token; /* as_json: whose weights */
    atomic_bool gone;
    struct api_error error;
};

/* ---- Reading ---- */

/* The fields that are not chat's. */
static bool read_own(struct look *look, const json_t *body, const json_t **token)
{
    const json_t *format = json_object_get(body, "format");
    const char *name = format && !json_is_null(format) ? json_string_value(format) : "html";
    look->as_json = name && strcmp(name, "json") == 0;
    if (!name || (!look->as_json && strcmp(name, "html") != 0))
        return api_error_in(&look->error, "format", "\"format\" should be html or json");
    *token = json_object_get(body, "token");
    if (*token && !json_is_null(*token) && (!look->as_json || !json_is_integer(*token)))
        return api_error_in(&look->error, "token",
                            "\"token\" should be the number of a token, and goes with \"format\": \"json\"");
    return true;
}

static bool check_token(struct look *look, const json_t *token)
{
    look->token = look->tokens.count - 1;
    if (!token || json_is_null(token)) return true;
    json_int_t number = json_integer_value(token);
    if (number < 0 || (uint64_t)number >= look->tokens.count)
        return api_error_in(&look->error, "token", "\"token\" should be from 0 to %zu",
                            look->tokens.count - 1);
    look->token = (size_t)number;
    return true;
}

static bool look_check_length(struct look *look)
{
    uint32_t max = look->served->n_attention;
    if (look->tokens.count == 0) return api_error_in(&look->error, "messages", "the prompt is empty");
    if (look->tokens.count <= max) return true;
    return api_error_with_code(
        &look->error, "context_length_exceeded", "messages",
        "the conversation has %zu tokens, but attention weights are given for %u at most", look->tokens.count,
        max);
}

static bool look_check_model(struct look *look)
{
    if (look->served->n_attention == 0)
        return api_error_with_code(
            &look->error, "model_not_supported", "model",
            "the server gives no attention weights of the model %.80s: it is an encoder, "
            "has no attention or is too large, or --attention-tokens 0 is set",
            look->served->name);
    if (exchange_adapter(look->exchange) < 0) return true;
    return api_error_in(&look->error, "model", "attention weights are those of the model without an adapter");
}

/* The tokens of the conversation, without the beginning of another answer if it ends with one. */
static void read_request(struct look *look)
{
    const json_t *body = exchange_json(look->exchange);
    json_t *rest = json_copy((json_t *)(size_t)body);
    const json_t *token = NULL;
    json_object_del(rest, "format");
    json_object_del(rest, "token");
    struct generation *g = generation_create(look->exchange, NULL, "attention-");
    if (!g) {
        json_decref(rest);
        look->exchange = NULL; /* it has been answered */
        return;
    }
    bool good =
        look_check_model(look) && read_own(look, body, &token) && chat_read(&g->params, rest, &look->error);
    if (good) {
        const json_t *last = json_array_get(g->params.messages, json_array_size(g->params.messages) - 1);
        const char *role = json_string_value(json_object_get(last, "role"));
        g->params.no_turn = role && strcmp(role, "assistant") == 0;
        good = conversation_prompt(g, &look->error);
    }
    if (good) {
        look->tokens = g->tokens;
        g->tokens = (struct token_list){0};
        if (look_check_length(look)) check_token(look, token);
    }
    generation_drop(g);
    json_decref(rest);
}

/* ---- Computing ---- */

static bool should_stop(void *user)
{
    struct look *look = user;
    return atomic_load(&look->gone) || atomic_load(&exchange_server(look->exchange)->is_ending);
}

static void look_client_is_gone(void *user)
{
    struct look *look = user;
    atomic_store(&look->gone, true);
}

static int look_compute(struct look *look, struct attention_map *map)
{
    struct engine_context_options options;
    struct engine_context *context = NULL;
    int32_t offload;
    context_options(exchange_server(look->exchange)->arguments, &options, &offload);
    options.progress = NULL;
    options.n_context = (uint32_t)look->tokens.count;
    options.n_cache = 0;
    attention_watch(map, &options);
    int status = engine_context_create(look->served->model, &options, &context);
    if (!status) status = attention_run(map, context);
    engine_context_destroy(context);
    return status;
}

static void look_fail(struct look *look, int status)
{
    if (atomic_load(&look->gone)) {
        struct exchange_end_reason why = exchange_why_gone(look->exchange);
        api_error_in(&look->error, NULL, "%s", why.message);
        look->error.status = why.status;
    } else if (should_stop(look)) {
        api_error_in(&look->error, NULL, "the server is shutting down");
        look->error.status = 503;
    } else {
        api_error_in(&look->error, NULL, "%s", command_message());
        look->error.status = status == ENGINE_ERROR_UNSUPPORTED ? 400 : 500;
    }
}

/* *page, `size` bytes, belongs to the caller. */
static int write_page(const struct attention_map *map, char **page, size_t *size)
{
    FILE *file = open_memstream(page, size);
    if (!file) return command_error(ENGINE_ERROR_MEMORY, "out of memory (page of attention weights)");
    int status = attention_write_html(map, file);
    if (!memory_stream_end(file, page) && !status)
        status = command_error(ENGINE_ERROR_MEMORY, "out of memory (page of attention weights)");
    return status;
}

/* Ends what `is_looking` says. */
static void look_and_answer(struct look *look)
{
    struct attention_map map = {.model = look->served->model,
                                .tokens = &look->tokens,
                                .choice = HEAD_ALL,
                                .first_query = look->as_json ? look->token : 0,
                                .n_queries = look->as_json ? 1 : look->tokens.count,
                                .stops = should_stop,
                                .stops_user = look};
    char *page = NULL;
    size_t size = 0;
    json_t *json = NULL;
    int status = look_compute(look, &map);
    if (!status && look->as_json)
        json = attention_json(&map);
    else if (!status)
        status = write_page(&map, &page, &size);
    attention_free(&map);
    if (status) look_fail(look, status);
    /* Before the client has its answer: it may ask again at once. */
    atomic_store(&exchange_server(look->exchange)->is_looking, false);
    if (status)
        api_error_answer(look->exchange, &look->error);
    else if (look->as_json)
        exchange_answer_json(look->exchange, json);
    else
        exchange_answer_bytes(look->exchange, 200, "text/html; charset=utf-8", page, size);
    free(page);
}

void api_attention(struct exchange *exchange)
{
    struct server *server = exchange_server(exchange);
    struct look look = {
        .exchange = exchange, .served = exchange_model(exchange), .error = api_error_none(exchange)};
    bool idle = false;
    read_request(&look);
    if (!look.exchange) {
        free(look.tokens.ids);
        return;
    }
    if (look.error.status) {
        api_error_answer(exchange, &look.error);
    } else if (!atomic_compare_exchange_strong(&server->is_looking, &idle, true)) {
        exchange_busy(exchange);
    } else {
        exchange_count(exchange, look.tokens.count, 0, 0);
        exchange_when_gone(exchange, look_client_is_gone, &look);
        look_and_answer(&look);
    }
    free(look.tokens.ids);
}
