/* about.c: see about.h. */
#include "serve/about.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/metrics.h"
#include "serve/models/models.h"

void about_health(struct exchange *exchange)
{
    if (exchange_server(exchange)->is_ending)
        exchange_answer(exchange, 503, json_pack("{s:s}", "status", "ending"));
    else
        exchange_answer(exchange, 200, json_pack("{s:s}", "status", "ok"));
}

void about_metrics(struct exchange *exchange)
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
static json_t *describe(const struct served_state *state)
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

void about_models(struct exchange *exchange)
{
    struct models *models = exchange_server(exchange)->models;
    struct served_state state;
    const char *model, *adapter;
    json_t *data = json_array();
    for (size_t i = 0; models_at(models, i, &state); i++) json_array_append_new(data, describe(&state));
    for (size_t i = 0; (adapter = models_adapter_at(models, i, &model)); i++)
        json_array_append_new(data, describe_adapter(model, adapter));
    exchange_answer(exchange, 200, json_pack("{s:s, s:o}", "object", "list", "data", data));
}

void about_model(struct exchange *exchange)
{
    struct models *models = exchange_server(exchange)->models;
    const char *name = strstr(exchange_path(exchange), "/models/") + strlen("/models/"), *model, *adapter;
    if (!*name) {
        about_models(exchange);
        return;
    }
    struct served_state state;
    for (size_t i = 0; models_at(models, i, &state); i++) {
        if (strcmp(state.name, name) != 0) continue;
        exchange_answer(exchange, 200, describe(&state));
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
