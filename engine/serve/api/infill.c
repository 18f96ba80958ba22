/* infill.c: POST /infill and POST /completion of llama.cpp's server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/json.h"
#include "serve/api/api.h"
#include "serve/api/completions.h"
#include "serve/api/fim.h"
#include "serve/api/openai.h"
#include "serve/api/read.h"
#include "serve/generate/wire.h"

/* ---- Reading ---- */

static const struct params_field completion_fields[] = {
    OPENAI_COMMON_FIELDS,
    {"prompt", params_read_nothing}, /* see completions_read_prompts */
    {"max_tokens", completions_read_limit},
    {"n_predict", completions_read_limit},
    {NULL, NULL},
};

static const struct params_field infill_fields[] = {
    OPENAI_COMMON_FIELDS,
    {"input_prefix", params_read_nothing}, /* see infill_read */
    {"input_suffix", params_read_nothing},
    {"input_extra", params_read_nothing},
    {"prompt", params_read_nothing},
    {"max_tokens", completions_read_limit},
    {"n_predict", completions_read_limit},
    {NULL, NULL},
};

static bool check_text(const json_t *body, const char *name, bool needed, struct api_error *error)
{
    const json_t *value = json_object_get(body, name);
    if (json_is_string(value) || (!needed && (!value || json_is_null(value)))) return true;
    return api_error_in(error, name, "\"%s\" should be a text", name);
}

bool infill_read(struct params *params, const struct served *served, json_t *body, struct api_error *error)
{
    const json_t *extra = json_object_get(body, "input_extra"), *begun = json_object_get(body, "prompt");
    size_t i;
    json_t *file;
    if (!params_read(params, body, infill_fields, error) || !check_text(body, "input_prefix", true, error) ||
        !check_text(body, "input_suffix", true, error) || !check_text(body, "prompt", false, error))
        return false;
    if (extra && !json_is_null(extra) && !json_is_array(extra))
        return api_error_in(error, "input_extra", "\"input_extra\" should be an array");
    json_array_foreach(extra, i, file)
    {
        const json_t *name = json_object_get(file, "filename");
        if ((!name || json_is_string(name)) && json_is_string(json_object_get(file, "text"))) continue;
        return api_error_in(
            error, "input_extra",
            "\"input_extra\" should have objects with \"text\" and, if you like, \"filename\"");
    }
    const struct fim_texts texts = {.prefix = json_object_get(body, "input_prefix"),
                                    .suffix = json_object_get(body, "input_suffix"),
                                    .begun = begun,
                                    .files = true,
                                    .extra = extra,
                                    .param = "input_prefix"};
    return completions_make_prompts(params, 1, error) &&
           fim_prompt(served, &texts, &params->prompts[0].tokens, error);
}

bool completion_read(struct params *params, const struct served *served, json_t *body,
                     struct api_error *error)
{
    return params_read(params, body, completion_fields, error) && params_check_pairs(params, body, error) &&
           completions_read_prompts(params, served, body, error) &&
           (params->n_prompts == 1 ||
            api_error_in(error, "prompt", "\"prompt\" can only be one prompt here"));
}

/* ---- Answering ---- */

static json_t *stopping_text(const struct choice *choice)
{
    const struct text_options *options = &choice->generation->params.options;
    if (choice->stop < 0 || (size_t)choice->stop >= options->n_stop) return json_string("");
    return json_text(options->stop[choice->stop].data, options->stop[choice->stop].length);
}

/* How it ended. */
static void add_end(json_t *json, const struct choice *choice)
{
    const char *type = choice->cut ? "limit" : choice->stop >= 0 ? "word" : "eos";
    bool lines = choice->content.size > 0 && memchr(choice->content.data, '\n', choice->content.size);
    json_t *more =
        json_pack("{s:s, s:o, s:b, s:b, s:o, s:o}", "stop_type", type, "stopping_word", stopping_text(choice),
                  "truncated", 0, "has_new_line", lines, "tokens_cached",
                  json_count(choice->n_prompt + choice->n_generated), "timings", openai_timings(choice));
    json_object_update(json, more);
    json_decref(more);
}

/* Only the fields that are asked for, each by its path: "timings/predicted_ms". `json` is taken. */
static json_t *chosen(json_t *json, const json_t *fields)
{
    json_t *picked = json_object(), *field;
    size_t i;
    json_array_foreach((json_t *)(size_t)fields, i, field)
    {
        const char *path = json_string_value(field);
        json_t *value = json;
        for (const char *at = path; value;) {
            char key[64];
            size_t n = strcspn(at, "/");
            snprintf(key, sizeof key, "%.*s", n < sizeof key ? (int)n : 0, at);
            value = json_object_get(value, key);
            if (!at[n]) break;
            at += n + 1;
        }
        if (value) json_object_set(picked, path, value);
    }
    json_decref(json);
    return picked;
}

/* As llama.cpp's server answers it, whose clients look for "content" and "stop". */
static json_t *part_json(struct choice *choice, json_t *content, bool stop)
{
    const struct generation *g = choice->generation;
    json_t *json =
        json_pack("{s:i, s:o, s:b, s:s, s:o, s:o}", "index", (int)choice->index, "content", content, "stop",
                  stop, "model", g->model, "tokens_predicted", json_count(choice->n_generated),
                  "tokens_evaluated", json_count(choice->n_prompt));
    if (choice->state) json_object_set_new(json, "completion_probabilities", choice->state);
    choice->state = NULL;
    if (stop)
        add_end(json, choice);
    else if (g->params.timings)
        json_object_set_new(json, "timings", openai_timings(choice));
    return stop && g->params.answer_fields ? chosen(json, g->params.answer_fields) : json;
}

static void send_part(struct choice *choice, uint32_t part, const struct engine_string *text)
{
    (void)part;
    sse_send(choice->generation->group.exchange, NULL,
             part_json(choice, json_text(text->data, text->length), false));
}

static void end_choice(struct choice *choice)
{
    sse_send(choice->generation->group.exchange, NULL, part_json(choice, json_string(""), true));
}

static json_t *end(struct generation *g)
{
    struct choice *choice = &g->choices[0];
    if (g->params.stream) return NULL;
    return part_json(choice, json_buffer(&choice->content), true);
}

static const struct format format = {
    .token = openai_take_token,
    .text = send_part,
    .end_choice = end_choice,
    .end = end,
    .failed = openai_stream_failed,
    .free_choice = openai_free_tokens,
};

static void answer(struct exchange *exchange, const char *prefix,
                   bool (*read)(struct params *params, const struct served *served, json_t *body,
                                struct api_error *error))
{
    struct api_error error = api_error_none(exchange);
    struct generation *g = generation_create(exchange, &format, prefix);
    if (!g) return;
    read(&g->params, g->served, exchange_json(exchange), &error);
    if (g->params.n > 1) api_error_in(&error, "n", "\"n\" can only be 1 here");
    generation_start(g, &error);
}

void api_infill(struct exchange *exchange)
{
    answer(exchange, "infill-", infill_read);
}

void api_completion(struct exchange *exchange)
{
    answer(exchange, "completion-", completion_read);
}
