/* props.c: GET /props: what a client may want to know before it asks, as llama.cpp's server has it. */
#include "commands/json.h"
#include "serve/api/api.h"
#include "serve/api/openai.h"
#include "serve/generate/wire.h"
#include "serve/models/models.h"
#include "serve/server.h"

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
