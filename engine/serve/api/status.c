/* status.c: what the server says of itself and its models: /health, /metrics, /v1/models, and /props as
 * llama.cpp's server has it. */
#include "serve/api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "serve/api/internal.h"
#include "serve/http/http.h"
#include "serve/models/models.h"
#include "serve/server.h"

void api_health(struct exchange *exchange)
{
    if (exchange_server(exchange)->is_ending)
        exchange_answer(exchange, 503, json_pack("{s:s}", "status", "ending"));
    else
        exchange_answer(exchange, 200, json_pack("{s:s}", "status", "ok"));
}

void api_metrics(struct exchange *exchange)
{
    size_t size;
    char *text = metrics_text(exchange_server(exchange), &size);
    if (text)
        exchange_answer_bytes(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", text, size);
    else
        exchange_fail(exchange, OUT_OF_MEMORY_STATUS, "server_error", NULL, NULL, "out of memory");
    free(text);
}

/* A model as OpenAI's API lists it, with `meta` as llama-server has it if the model is loaded. */
static json_t *status_describe(const struct served_state *state)
{
    json_t *model = json_pack("{s:s, s:s, s:I, s:s, s:b}", "id", state->name, "object", "model", "created",
                              (json_int_t)state->created, "owned_by", "engine", "loaded", state->is_loaded);
    if (model && state->is_loaded)
        json_object_set_new(
            model, "meta",
            json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b}", "format", state->format, "architecture",
                      state->architecture, "n_params", (json_int_t)state->n_parameters, "size",
                      (json_int_t)state->file_size, "n_ctx", (json_int_t)state->context.n_context, "n_vocab",
                      (json_int_t)state->context.n_vocab, "is_encoder", (int)state->context.is_encoder));
    return model;
}

static json_t *describe_adapter(const char *model, const char *adapter)
{
    char name[1024];
    snprintf(name, sizeof name, "%s:%s", model, adapter);
    return json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", name, "object", "model", "created", (json_int_t)0,
                     "owned_by", "engine", "parent", model);
}

void api_models(struct exchange *exchange)
{
    struct models *models = exchange_server(exchange)->models;
    struct served_state state;
    const char *model, *adapter;
    json_t *data = json_array();
    for (size_t i = 0; models_at(models, i, &state); i++)
        json_array_append_new(data, status_describe(&state));
    for (size_t i = 0; (adapter = models_adapter_at(models, i, &model)); i++)
        json_array_append_new(data, describe_adapter(model, adapter));
    exchange_answer(exchange, 200, json_pack("{s:s, s:o}", "object", "list", "data", data));
}

void api_model(struct exchange *exchange)
{
    struct models *models = exchange_server(exchange)->models;
    const char *name = strstr(exchange_path(exchange), "/models/") + strlen("/models/"), *model, *adapter;
    if (!*name) {
        api_models(exchange);
        return;
    }
    struct served_state state;
    for (size_t i = 0; models_at(models, i, &state); i++) {
        if (strcmp(state.name, name) != 0) continue;
        exchange_answer(exchange, 200, status_describe(&state));
        return;
    }
    for (size_t i = 0; (adapter = models_adapter_at(models, i, &model)); i++) {
        size_t length = strlen(model);
        if (strncmp(name, model, length) != 0 || name[length] != ':' ||
            strcmp(name + length + 1, adapter) != 0)
            continue;
        exchange_answer(exchange, 200, describe_adapter(model, adapter));
        return;
    }
    exchange_fail(exchange, 404, "not_found_error", "model_not_found", "model", "there is no model '%s'",
                  name);
}

/* What requests begin with, by the names of their fields. */
static json_t *sampling_json(const struct server *server, const struct engine_sampler_options *s)
{
    json_t *json = json_pack(
        "{s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:I}", "temperature", openai_number(s->temperature),
        "top_k", (json_int_t)s->top_k, "top_p", openai_number(s->top_p), "min_p", openai_number(s->min_p),
        "typical_p", openai_number(s->typical_p), "repeat_penalty", openai_number(s->penalty_repeat),
        "repeat_last_n", (json_int_t)s->penalty_last_n, "frequency_penalty",
        openai_number(s->penalty_frequency), "presence_penalty", openai_number(s->penalty_presence),
        "max_tokens", server->arguments->most_tokens > 0 ? (json_int_t)server->arguments->most_tokens : -1);
    json_t *more = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:I}", "dynatemp_range",
        openai_number(s->dynatemp_range), "dynatemp_exponent", openai_number(s->dynatemp_exponent),
        "top_n_sigma", openai_number(s->top_n_sigma), "xtc_probability", openai_number(s->xtc_probability),
        "xtc_threshold", openai_number(s->xtc_threshold), "mirostat", (json_int_t)s->mirostat, "mirostat_tau",
        openai_number(s->mirostat_tau), "mirostat_eta", openai_number(s->mirostat_eta), "dry_multiplier",
        openai_number(s->dry_multiplier), "dry_base", openai_number(s->dry_base), "dry_allowed_length",
        (json_int_t)s->dry_allowed_length, "dry_penalty_last_n", (json_int_t)s->dry_penalty_last_n);
    json_object_update(json, more);
    json_decref(more);
    return json;
}

/* Of the model that the query names ("model"), also by an adapter, else of the first one. */
void api_props(struct exchange *exchange)
{
    const struct server *server = exchange_server(exchange);
    const char *name = exchange_query(exchange, "model");
    struct served_state state;
    if (!models_named(server->models, name, &state)) {
        exchange_fail(exchange, 404, "not_found_error", "model_not_found", "model",
                      "there is no model '%.200s'", name ? name : "");
        return;
    }
    json_t *settings = json_pack("{s:o}", "params", sampling_json(server, &state.sampling));
    json_t *props = json_pack("{s:o, s:i, s:s, s:s, s:b}", "default_generation_settings", settings,
                              "total_slots", (int)server->arguments->n_parallel, "model_alias", state.name,
                              "build_info", engine_version(), "loaded", state.is_loaded);
    if (state.is_loaded && state.n_attention > 0)
        json_object_set_new(props, "attention",
                            json_pack("{s:I}", "max_tokens", (json_int_t)state.n_attention));
    if (state.is_loaded)
        json_object_set_new(settings, "n_ctx", json_integer((json_int_t)state.context.n_context));
    exchange_answer_json(exchange, props);
}
