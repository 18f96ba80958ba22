/* responses.c: POST /v1/responses: OpenAI's Responses API, for text and functions. Nothing is kept between
 * requests. */
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "serve/api/api.h"
#include "serve/api/internal.h"
#include "serve/http/http.h"

/* The answer so far: a list of items, of which the last may be open. */
struct answer {
    json_t *made;   /* what responses_read has made */
    json_t *output; /* items, as they are in the answer; an open one isn't there yet */
    uint32_t part;  /* of the open item: ENGINE_REPLY_CONTENT or _REASONING; 0: none is open */
    char item[40];  /* its id, or that of the call that is being written */
    struct text_buffer text;
    json_t *logprobs;    /* of the open message; NULL: none yet */
    size_t n_sent;       /* of them */
    json_int_t sequence; /* the next event's */
};

/* ---- The response ---- */

static json_t *echo_of(const struct generation *g, const char *key, json_t *otherwise)
{
    json_t *value = json_object_get(exchange_json(g->group.exchange), key);
    if (!value || json_is_null(value)) return otherwise;
    json_decref(otherwise);
    return json_incref(value);
}

static json_t *responses_usage_json(const struct generation *g)
{
    struct generation_usage usage = generation_usage(g);
    return json_pack("{s:o, s:{s:o}, s:o, s:{s:o}, s:o}", "input_tokens", json_count(usage.n_prompt),
                     "input_tokens_details", "cached_tokens", json_count(usage.n_reused), "output_tokens",
                     json_count(usage.n_generated), "output_tokens_details", "reasoning_tokens",
                     json_count(usage.n_reasoning), "total_tokens",
                     json_count(usage.n_prompt + usage.n_generated));
}

static json_t *response_json(const struct generation *g, const char *status, json_t *body)
{
    const struct answer *answer = g->state;
    bool done = strcmp(status, "in_progress") != 0;
    json_t *json = json_pack(
        "{s:s, s:s, s:I, s:s, s:b, s:o, s:o, s:o, s:o, s:s, s:o, s:b, s:n, s:o, s:b, s:o, s:o, s:o, s:o, "
        "s:o, "
        "s:s, s:o, s:o, s:o}",
        "id", g->id, "object", "response", "created_at", (json_int_t)g->created, "status", status,
        "background", 0, "error", body ? body : json_null(), "incomplete_details",
        strcmp(status, "incomplete") == 0 ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null(),
        "instructions", echo_of(g, "instructions", json_null()), "max_output_tokens",
        echo_of(g, "max_output_tokens", json_null()), "model", g->model, "output",
        done ? json_incref(answer->output) : json_array(), "parallel_tool_calls", !g->params.one_call,
        "previous_response_id", "reasoning",
        echo_of(g, "reasoning", json_pack("{s:n, s:n}", "effort", "summary")), "store", 0, "temperature",
        openai_number(g->params.options.sampler.temperature), "text",
        echo_of(g, "text", json_pack("{s:{s:s}}", "format", "type", "text")), "tool_choice",
        echo_of(g, "tool_choice", json_string("auto")), "tools", echo_of(g, "tools", json_array()), "top_p",
        openai_number(g->params.options.sampler.top_p), "truncation", "disabled", "usage",
        done ? responses_usage_json(g) : json_null(), "user", echo_of(g, "user", json_null()), "metadata",
        echo_of(g, "metadata", json_object()));
    return json;
}

/* ---- Events ---- */

/* Sends an event, if it is a stream; `data`, an object without the type, is taken. */
static void responses_send(struct generation *g, const char *type, json_t *data)
{
    struct answer *answer = g->state;
    if (!g->params.stream) {
        json_decref(data);
        return;
    }
    json_t *event = json_pack("{s:s, s:I}", "type", type, "sequence_number", answer->sequence++);
    json_object_update(event, data);
    json_decref(data);
    sse_send(g->group.exchange, type, event);
}

static json_int_t responses_index_of(const struct answer *answer)
{
    return (json_int_t)json_array_size(answer->output);
}

static json_t *new_logprobs(struct answer *answer)
{
    json_t *list = json_array();
    for (; answer->n_sent < json_array_size(answer->logprobs); answer->n_sent++)
        json_array_append(list, json_array_get(answer->logprobs, answer->n_sent));
    return list;
}

/* The one part of the open item. */
static json_t *responses_part_json(const struct answer *answer, bool whole)
{
    json_t *text = whole ? json_buffer(&answer->text) : json_string("");
    if (answer->part == ENGINE_REPLY_REASONING)
        return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", text);
    return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text", text, "annotations", "logprobs",
                     whole && answer->logprobs ? json_incref(answer->logprobs) : json_array());
}

static json_t *item_json(const struct answer *answer, const char *status, json_t *content)
{
    if (answer->part == ENGINE_REPLY_REASONING)
        return json_pack("{s:s, s:s, s:[], s:o, s:s}", "id", answer->item, "type", "reasoning", "summary",
                         "content", content, "status", status);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", answer->item, "type", "message", "status", status,
                     "role", "assistant", "content", content);
}

static json_t *place_json(const struct answer *answer)
{
    return json_pack("{s:s, s:I, s:i}", "item_id", answer->item, "output_index", responses_index_of(answer),
                     "content_index", 0);
}

static json_t *json_with(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
    return object;
}

static void open_item(struct generation *g, uint32_t part)
{
    struct answer *answer = g->state;
    answer->part = part;
    random_id(answer->item, sizeof answer->item, part == ENGINE_REPLY_REASONING ? "rs_" : "msg_", 24);
    responses_send(g, "response.output_item.added",
                   json_pack("{s:I, s:o}", "output_index", responses_index_of(answer), "item",
                             item_json(answer, "in_progress", json_array())));
    responses_send(g, "response.content_part.added",
                   json_with(place_json(answer), "part", responses_part_json(answer, false)));
}

static void close_item(struct generation *g, const char *status)
{
    struct answer *answer = g->state;
    if (!answer->part) return;
    bool reasoning = answer->part == ENGINE_REPLY_REASONING;
    json_t *done = json_with(place_json(answer), "text", json_buffer(&answer->text));
    if (!reasoning)
        json_with(done, "logprobs", answer->logprobs ? json_incref(answer->logprobs) : json_array());
    responses_send(g, reasoning ? "response.reasoning_text.done" : "response.output_text.done", done);
    responses_send(g, "response.content_part.done",
                   json_with(place_json(answer), "part", responses_part_json(answer, true)));
    json_t *item = item_json(answer, status, json_pack("[o]", responses_part_json(answer, true)));
    responses_send(g, "response.output_item.done",
                   json_pack("{s:I, s:O}", "output_index", responses_index_of(answer), "item", item));
    json_array_append_new(answer->output, item);
    answer->part = 0;
    answer->text.size = 0;
    json_decref(answer->logprobs);
    answer->logprobs = NULL;
    answer->n_sent = 0;
}

/* ---- The format ---- */

static void responses_begin(struct generation *g)
{
    responses_send(g, "response.created",
                   json_pack("{s:o}", "response", response_json(g, "in_progress", NULL)));
    responses_send(g, "response.in_progress",
                   json_pack("{s:o}", "response", response_json(g, "in_progress", NULL)));
}

static void responses_take_token(struct choice *choice, const struct engine_event *event)
{
    const struct generation *g = choice->generation;
    struct answer *answer = g->state;
    if (!g->params.logprobs) return;
    if (!answer->logprobs) answer->logprobs = json_array();
    json_array_append_new(answer->logprobs, openai_logprob(g->served->model, event, g->params.n_top));
}

static void responses_take_text(struct choice *choice, uint32_t part, const struct engine_string *text)
{
    struct generation *g = choice->generation;
    struct answer *answer = g->state;
    if (answer->part && answer->part != part) close_item(g, "completed");
    if (!answer->part) open_item(g, part);
    if (text_add(&answer->text, text)) json_memory_lose();
    json_t *delta = json_with(place_json(answer), "delta", json_text(text->data, text->length));
    if (part == ENGINE_REPLY_CONTENT) json_with(delta, "logprobs", new_logprobs(answer));
    responses_send(
        g, part == ENGINE_REPLY_REASONING ? "response.reasoning_text.delta" : "response.output_text.delta",
        delta);
}

/* As the client knows the tool: by its own name, in its namespace, with a text as its input. */
static json_t *call_item(const struct generation *g, const char *status, const json_t *call, bool whole)
{
    const struct answer *answer = g->state;
    const char *offered = json_string_value(json_object_get(call, "name"));
    const json_t *origin = params_origin(&g->params, offered);
    json_t *name = json_object_get(origin ? origin : call, "name"),
           *space = json_object_get(origin, "namespace"), *arguments = json_object_get(call, "arguments");
    bool custom = params_is_custom(&g->params, offered);
    json_t *text;
    if (!whole)
        text = json_string("");
    else
        text = custom ? params_custom_input(arguments) : json_incref(arguments);
    return json_pack("{s:s, s:s, s:s, s:O, s:O, s:o, s:O*}", "id", answer->item, "type",
                     custom ? "custom_tool_call" : "function_call", "status", status, "call_id",
                     json_object_get(call, "id"), "name", name, custom ? "input" : "arguments", text,
                     "namespace", space);
}

/* The input of a custom tool is known once the arguments are. */
static void send_input(struct generation *g, const json_t *item)
{
    const struct answer *answer = g->state;
    json_t *input = json_object_get(item, "input");
    if (json_string_length(input) > 0)
        responses_send(g, "response.custom_tool_call_input.delta",
                       json_pack("{s:s, s:I, s:O}", "item_id", answer->item, "output_index",
                                 responses_index_of(answer), "delta", input));
    responses_send(g, "response.custom_tool_call_input.done",
                   json_pack("{s:s, s:I, s:O}", "item_id", answer->item, "output_index",
                             responses_index_of(answer), "input", input));
}

static void responses_take_call(struct choice *choice, size_t number, const struct engine_reply_piece *piece)
{
    struct generation *g = choice->generation;
    struct answer *answer = g->state;
    const json_t *call = json_array_get(choice->calls, number);
    const char *status = piece->flags & ENGINE_REPLY_CALL_CUT ? "incomplete" : "completed";
    bool custom = params_is_custom(&g->params, json_string_value(json_object_get(call, "name")));
    if (piece->flags & ENGINE_REPLY_CALL_BEGINS) {
        close_item(g, "completed");
        random_id(answer->item, sizeof answer->item, custom ? "ctc_" : "fc_", 24);
        responses_send(g, "response.output_item.added",
                       json_pack("{s:I, s:o}", "output_index", responses_index_of(answer), "item",
                                 call_item(g, "in_progress", call, false)));
    }
    if (piece->text.length > 0 && !custom)
        responses_send(g, "response.function_call_arguments.delta",
                       json_pack("{s:s, s:I, s:o}", "item_id", answer->item, "output_index",
                                 responses_index_of(answer), "delta",
                                 json_text(piece->text.data, piece->text.length)));
    if (!(piece->flags & ENGINE_REPLY_CALL_ENDS)) return;
    json_t *item = call_item(g, status, call, true);
    if (custom)
        send_input(g, item);
    else
        responses_send(g, "response.function_call_arguments.done",
                       json_pack("{s:s, s:I, s:O, s:O}", "item_id", answer->item, "output_index",
                                 responses_index_of(answer), "name", json_object_get(item, "name"),
                                 "arguments", json_object_get(call, "arguments")));
    responses_send(g, "response.output_item.done",
                   json_pack("{s:I, s:O}", "output_index", responses_index_of(answer), "item", item));
    json_array_append_new(answer->output, item);
}

static json_t *responses_end(struct generation *g)
{
    const struct choice *choice = &g->choices[0];
    struct answer *answer = g->state;
    const char *status = choice->cut ? "incomplete" : "completed";
    /* An answer has at least a message. */
    if (!answer->part && json_array_size(answer->output) == 0) open_item(g, ENGINE_REPLY_CONTENT);
    close_item(g, status);
    if (!g->params.stream) return response_json(g, status, NULL);
    responses_send(g, choice->cut ? "response.incomplete" : "response.completed",
                   json_pack("{s:o}", "response", response_json(g, status, NULL)));
    return NULL;
}

static void responses_failed(struct generation *g, const struct api_error *error)
{
    json_t *body = json_pack("{s:s, s:o}", "code", error->status < 500 ? "invalid_prompt" : "server_error",
                             "message", json_line(error->message));
    responses_send(g, "response.failed", json_pack("{s:o}", "response", response_json(g, "failed", body)));
}

static void responses_free_answer(struct generation *g)
{
    struct answer *answer = g->state;
    if (!answer) return;
    json_decref(answer->made);
    json_decref(answer->output);
    json_decref(answer->logprobs);
    free(answer->text.data);
    free(answer);
}

static const struct format format = {
    .token = responses_take_token,
    .begin = responses_begin,
    .text = responses_take_text,
    .call = responses_take_call,
    .end = responses_end,
    .failed = responses_failed,
    .last_words = "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":"
                  "\"out of memory (an answer)\",\"param\":null}\n\n",
    .free_generation = responses_free_answer,
    .follows = true,
};

void api_responses(struct exchange *exchange)
{
    struct api_error error = api_error_none(exchange);
    struct generation *g = generation_create(exchange, &format, "resp_");
    if (!g) return;
    exchange_be_exact(exchange);
    struct answer *answer = g->state = calloc(1, sizeof *answer);
    if (answer) answer->output = json_array();
    if (answer && answer->output)
        responses_read(&g->params, exchange_json(exchange), &answer->made, &error);
    else
        api_error_memory(&error);
    generation_start(g, &error);
}
