/* openai.c: parts of answers that OpenAI's APIs share. */
#include "serve/api/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json-read.h"
#include "io/files.h"
#include "io/json.h"
#include "serve/http/http.h"

void openai_fingerprint(const struct served *served, char text[24])
{
    struct engine_model_info info = {.struct_size = sizeof info};
    uint64_t hash = HASH_BASIS;
    engine_model_get_info(served->model, &info);
    hash = hash_bytes(hash, engine_version(), strlen(engine_version()));
    hash = hash_bytes(hash, served->path, strlen(served->path));
    hash = hash_bytes(hash, &info.file_size, sizeof info.file_size);
    hash = hash_bytes(hash, &served->created, sizeof served->created);
    snprintf(text, 24, "fp_%016" PRIx64, hash);
}

const char *openai_finish_reason(const struct choice *choice)
{
    if (choice->cut) return "length";
    if (choice->stopped_in_call) return "stop";
    return json_array_size(choice->calls) > 0 ? "tool_calls" : "stop";
}

json_t *openai_usage(const struct generation *generation)
{
    struct generation_usage usage = generation_usage(generation);
    return json_pack("{s:o, s:o, s:o, s:{s:o}, s:{s:o}}", "prompt_tokens", json_count(usage.n_prompt),
                     "completion_tokens", json_count(usage.n_generated), "total_tokens",
                     json_count(usage.n_prompt + usage.n_generated), "prompt_tokens_details", "cached_tokens",
                     json_count(usage.n_reused), "completion_tokens_details", "reasoning_tokens",
                     json_count(usage.n_reasoning));
}

static json_t *json_quotient(double a, double b)
{
    return json_real(b > 0 ? a / b : 0);
}

json_t *openai_timings(const struct choice *choice)
{
    uint32_t n_read = choice->n_prompt - choice->n_reused;
    double read_ms = choice->prompt_seconds * 1000, written_ms = choice->text_seconds * 1000;
    return json_pack("{s:o, s:o, s:f, s:o, s:o, s:o, s:f, s:o, s:o}", "cache_n", json_count(choice->n_reused),
                     "prompt_n", json_count(n_read), "prompt_ms", read_ms, "prompt_per_token_ms",
                     json_quotient(read_ms, n_read), "prompt_per_second",
                     json_quotient(n_read, choice->prompt_seconds), "predicted_n",
                     json_count(choice->n_generated), "predicted_ms", written_ms, "predicted_per_token_ms",
                     json_quotient(written_ms, choice->n_generated), "predicted_per_second",
                     json_quotient(choice->n_generated, choice->text_seconds));
}

json_t *openai_logarithm(float logprob)
{
    return json_real(isfinite(logprob) && logprob > -9999 ? (double)logprob : -9999.0);
}

json_t *openai_number(float value)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", (double)value);
    json_t *json = json_read_text(text, JSON_DECODE_ANY, NULL); /* an integer, if it is one */
    return json ? json : json_real((double)value);
}

static json_t *openai_token_json(struct engine_model *model, int32_t token, float logprob)
{
    struct engine_string text = {"", 0};
    engine_model_token_text(model, token, &text);
    json_t *bytes = json_array();
    for (size_t i = 0; i < text.length; i++)
        json_array_append_new(bytes, json_integer((unsigned char)text.data[i]));
    return json_pack("{s:o, s:i, s:o, s:o}", "token", json_text(text.data, text.length), "id", (int)token,
                     "logprob", openai_logarithm(logprob), "bytes", bytes);
}

json_t *openai_logprob(struct engine_model *model, const struct engine_event *event, uint32_t n_top)
{
    json_t *json = openai_token_json(model, event->token, event->logprob), *top = json_array();
    for (uint32_t i = 0; i < event->n_top && i < n_top; i++)
        json_array_append_new(top, openai_token_json(model, event->top[i].token, event->top[i].logprob));
    if (json && json_object_set_new(json, "top_logprobs", top) == 0) return json;
    json_decref(json);
    return NULL;
}

void openai_take_token(struct choice *choice, const struct engine_event *event)
{
    const struct generation *g = choice->generation;
    if (!g->params.logprobs) return;
    if (!choice->state) choice->state = json_array();
    json_array_append_new(choice->state, openai_logprob(g->served->model, event, g->params.n_top));
}

void openai_free_tokens(struct choice *choice)
{
    json_decref(choice->state);
}

void openai_stream_failed(struct generation *generation, const struct api_error *error)
{
    json_t *body = json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", json_line(error->message),
                             "type", error->status < 500 ? "invalid_request_error" : "server_error", "param",
                             error->param[0] ? error->param : NULL, "code", error->code);
    sse_send(generation->group.exchange, NULL, body);
}
