/* messages.c: POST /v1/messages and /v1/messages/count_tokens: Anthropic's Messages API, for text and
 * tools. */
#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"
#include "io/json.h"
#include "serve/api/api.h"
#include "serve/generate/generation.h"
#include "serve/http/http.h"

/* The answer so far: blocks, of which the last may be open. */
struct answer {
    json_t *made;   /* what messages_read has made */
    json_t *blocks; /* the closed ones */
    uint32_t part;  /* of the open one: ENGINE_REPLY_CONTENT or _REASONING; 0: none is open */
    struct text_buffer text;
};

/* ---- The message ---- */

static const char *stop_reason(const struct choice *choice)
{
    if (choice->cut) return "max_tokens";
    if (json_array_size(choice->calls) > 0 && !choice->stopped_in_call) return "tool_use";
    return choice->stop >= 0 ? "stop_sequence" : "end_turn";
}

static json_t *stop_text(const struct choice *choice)
{
    const struct text_options *options = &choice->generation->params.options;
    if (choice->stop < 0 || (size_t)choice->stop >= options->n_stop) return json_null();
    return json_text(options->stop[choice->stop].data, options->stop[choice->stop].length);
}

/* What was found in the cache counts apart. */
static json_t *messages_usage_json(const struct generation *g, bool whole)
{
    struct generation_usage usage = generation_usage(g);
    return json_pack("{s:o, s:i, s:o, s:o}", "input_tokens", json_count(usage.n_prompt - usage.n_reused),
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens", json_count(usage.n_reused),
                     "output_tokens", json_count(whole ? usage.n_generated : 0));
}

static json_t *messages_message_json(const struct generation *g, json_t *content, bool whole)
{
    const struct choice *choice = &g->choices[0];
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:o, s:o}", "id", g->id, "type", "message", "role",
                     "assistant", "model", g->model, "content", content, "stop_reason",
                     whole ? stop_reason(choice) : NULL, "stop_sequence",
                     whole ? stop_text(choice) : json_null(), "usage", messages_usage_json(g, whole));
}

/* ---- Events ---- */

static void messages_send(struct generation *g, const char *type, json_t *data)
{
    if (!g->params.stream) {
        json_decref(data);
        return;
    }
    json_t *event = json_pack("{s:s}", "type", type);
    json_object_update(event, data);
    json_decref(data);
    sse_send(g->group.exchange, type, event);
}

static json_int_t messages_index_of(const struct answer *answer)
{
    return (json_int_t)json_array_size(answer->blocks);
}

static json_t *block_json(const struct answer *answer, bool whole)
{
    json_t *text = whole ? json_buffer(&answer->text) : json_string("");
    if (answer->part == ENGINE_REPLY_REASONING)
        return json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking", text, "signature", "");
    return json_pack("{s:s, s:o}", "type", "text", "text", text);
}

static void close_block(struct generation *g)
{
    struct answer *answer = g->state;
    if (!answer->part) return;
    messages_send(g, "content_block_stop", json_pack("{s:I}", "index", messages_index_of(answer)));
    json_array_append_new(answer->blocks, block_json(answer, true));
    answer->part = 0;
    answer->text.size = 0;
}

static void messages_begin(struct generation *g)
{
    messages_send(g, "message_start",
                  json_pack("{s:o}", "message", messages_message_json(g, json_array(), false)));
    messages_send(g, "ping", json_object());
}

static void messages_take_text(struct choice *choice, uint32_t part, const struct engine_string *text)
{
    struct generation *g = choice->generation;
    struct answer *answer = g->state;
    bool reasoning = part == ENGINE_REPLY_REASONING;
    static const struct engine_string nothing = {"", 0};
    if (reasoning && g->params.hides_reasoning) text = &nothing;
    if (answer->part && answer->part != part) close_block(g);
    if (!answer->part) {
        answer->part = part;
        messages_send(g, "content_block_start",
                      json_pack("{s:I, s:o}", "index", messages_index_of(answer), "content_block",
                                block_json(answer, false)));
    }
    if (text->length == 0) return;
    if (text_add(&answer->text, text)) json_memory_lose();
    messages_send(g, "content_block_delta",
                  json_pack("{s:I, s:{s:s, s:o}}", "index", messages_index_of(answer), "delta", "type",
                            reasoning ? "thinking_delta" : "text_delta", reasoning ? "thinking" : "text",
                            json_text(text->data, text->length)));
}

/* An input is an object, which arguments with a mistake, or cut ones, are not: {} would be a call that nobody
 * wrote. Anthropic's documentation of fine-grained tool streaming wraps such a text like this. */
static json_t *input_json(const json_t *arguments)
{
    json_t *input =
        json_read(json_string_value(arguments), json_string_length(arguments), JSON_ALLOW_NUL, NULL);
    return input ? input : json_pack("{s:O}", "INVALID_JSON", arguments);
}

static json_t *call_block(const json_t *call, bool whole)
{
    json_t *input = whole ? input_json(json_object_get(call, "arguments")) : json_object();
    return json_pack("{s:s, s:O, s:O, s:o}", "type", "tool_use", "id", json_object_get(call, "id"), "name",
                     json_object_get(call, "name"), "input", input);
}

static void messages_take_call(struct choice *choice, size_t number, const struct engine_reply_piece *piece)
{
    struct generation *g = choice->generation;
    struct answer *answer = g->state;
    const json_t *call = json_array_get(choice->calls, number);
    if (piece->flags & ENGINE_REPLY_CALL_BEGINS) {
        close_block(g);
        messages_send(g, "content_block_start",
                      json_pack("{s:I, s:o}", "index", messages_index_of(answer), "content_block",
                                call_block(call, false)));
    }
    if (piece->text.length > 0)
        messages_send(g, "content_block_delta",
                      json_pack("{s:I, s:{s:s, s:o}}", "index", messages_index_of(answer), "delta", "type",
                                "input_json_delta", "partial_json",
                                json_text(piece->text.data, piece->text.length)));
    if (!(piece->flags & ENGINE_REPLY_CALL_ENDS)) return;
    messages_send(g, "content_block_stop", json_pack("{s:I}", "index", messages_index_of(answer)));
    json_array_append_new(answer->blocks, call_block(call, true));
}

static json_t *messages_end(struct generation *g)
{
    const struct choice *choice = &g->choices[0];
    struct answer *answer = g->state;
    close_block(g);
    if (!g->params.stream) return messages_message_json(g, json_incref(answer->blocks), true);
    messages_send(g, "message_delta",
                  json_pack("{s:{s:s, s:o}, s:o}", "delta", "stop_reason", stop_reason(choice),
                            "stop_sequence", stop_text(choice), "usage", messages_usage_json(g, true)));
    messages_send(g, "message_stop", json_object());
    return NULL;
}

static void messages_failed(struct generation *g, const struct api_error *error)
{
    messages_send(g, "error",
                  json_pack("{s:{s:s, s:o}}", "error", "type",
                            error->status < 500    ? "invalid_request_error"
                            : error->status == 504 ? "timeout_error"
                                                   : "api_error",
                            "message", json_line(error->message)));
}

static void messages_free_answer(struct generation *g)
{
    struct answer *answer = g->state;
    if (!answer) return;
    json_decref(answer->made);
    json_decref(answer->blocks);
    free(answer->text.data);
    free(answer);
}

static const struct format format = {
    .begin = messages_begin,
    .text = messages_take_text,
    .call = messages_take_call,
    .end = messages_end,
    .failed = messages_failed,
    .last_words = "event: error\ndata: " OUT_OF_MEMORY_ANTHROPIC "\n\n",
    .free_generation = messages_free_answer,
    .follows = true,
};

/* NULL: out of memory, and the exchange has been answered. */
static struct generation *messages_create(struct exchange *exchange, struct api_error *error)
{
    struct generation *g = generation_create(exchange, &format, "msg_");
    if (!g) return NULL;
    struct answer *answer = g->state = calloc(1, sizeof *answer);
    if (answer) answer->blocks = json_array();
    if (answer && answer->blocks)
        messages_read(&g->params, exchange_json(exchange), &answer->made, error);
    else
        api_error_memory(error);
    return g;
}

void api_messages(struct exchange *exchange)
{
    struct api_error error = api_error_none(exchange);
    const json_t *most = json_object_get(exchange_json(exchange), "max_tokens");
    struct generation *g = messages_create(exchange, &error);
    if (!g) return;
    if (!most || json_is_null(most)) api_error_in(&error, "max_tokens", "\"max_tokens\" is missing");
    exchange_be_exact(exchange);
    generation_start(g, &error);
}

void api_count_tokens(struct exchange *exchange)
{
    struct api_error error = api_error_none(exchange);
    struct generation *g = messages_create(exchange, &error);
    if (!g) return;
    if (!error.status) conversation_prompt(g, &error);
    json_t *answer = json_pack("{s:o}", "input_tokens", json_count(g->tokens.count));
    generation_drop(g);
    if (!error.status) {
        exchange_answer_json(exchange, answer);
        return;
    }
    json_decref(answer);
    api_error_answer(exchange, &error);
}
