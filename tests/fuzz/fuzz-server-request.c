/* fuzz-server-request.c: fuzzing target: a byte for an API, one for a format of replies and whether unknown
 * fields are ignored, and the body of a request. What it asks for is in the form that templates and the queue
 * expect, or it is refused in one line; its grammar can be made, or is refused. */
#include <math.h>
#include <string.h>

#include "common/json-read.h"
#include "engine.h"
#include "serve/api/api.h"
#include "serve/generate/generation.h"
#include "serve/models/models.h"
#include "serve/params/api-error.h"
#include "tokenizers.h"

static void must(bool holds, const char *what)
{
    if (!holds) fuzz_fail(what);
}

/* The demo model, opened once. */
static const struct served *model(void)
{
    static struct served served;
    if (served.model) return &served;
    const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    struct engine_options options = {.struct_size = sizeof options, .plugin_dirs = dirs};
    static struct engine *engine;
    must(!engine_open(&options, &engine), "no engine");
    must(!engine_model_open(engine, TEST_SOURCE_DIR "/../models/demo/demo.gguf", NULL, &served.model),
         "no model");
    must(!vocabulary_open(served.model, &served.vocabulary), "no vocabulary");
    served.name = "demo";
    return &served;
}

static bool is_text(const json_t *value)
{
    return json_is_string(value);
}

static void check_message(const json_t *message)
{
    const json_t *calls = json_object_get(message, "tool_calls"),
                 *content = json_object_get(message, "content");
    const char *role = json_string_value(json_object_get(message, "role"));
    must(role && strcmp(role, "developer") != 0, "a role");
    must(is_text(content) || (json_is_null(content) && json_array_size(calls) > 0), "a content");
    must(strcmp(role, "tool") != 0 || is_text(json_object_get(message, "name")), "the name of a result");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i), *function = json_object_get(call, "function");
        must(is_text(json_object_get(call, "id")) && is_text(json_object_get(function, "name")) &&
                 json_object_get(function, "arguments"),
             "a call");
    }
}

static void check_params(const struct params *params)
{
    for (size_t i = 0; i < json_array_size(params->messages); i++)
        check_message(json_array_get(params->messages, i));
    for (size_t i = 0; i < json_array_size(params->tools); i++)
        must(is_text(json_object_get(json_object_get(json_array_get(params->tools, i), "function"), "name")),
             "a tool");
    const char *name;
    json_t *origin;
    json_object_foreach(params->origins, name, origin)
        must(is_text(json_object_get(origin, "name")), "an origin");
    must(params->messages || params->n_prompts > 0, "nothing to go on from");
    must(params->n >= 1 && params->n <= PARAMS_MAX_CHOICES && params->n_top <= PARAMS_MAX_TOP, "a number");
    must(isfinite(params->options.sampler.temperature), "a temperature");
    for (size_t i = 0; i < params->options.n_stop; i++)
        must(params->options.stop[i].length > 0, "a stop text");
}

static void check_error(const struct api_error *error)
{
    must(error->status >= 400 && error->message[0] && !strchr(error->message, '\n'), "no line that says why");
}

#define MARKS(KIND)                                                                                          \
    {                                                                                                        \
        .struct_size = sizeof(struct engine_reply_layout), .arguments = (KIND), .open = "<c>",               \
        .close = "</c>", .begin = "<f>", .before_name = "", .after_name = "<n>", .end = "</f>",              \
        .key = "<k>", .after_key = "</k>", .after_type = "", .value = "<v>", .after_value = "</v>",          \
        .name_key = "name", .arguments_key = "in", .reasoning_begin = "", .reasoning_end = ""                \
    }

static void check_reply_grammar(const struct served *served, const struct params *params, uint32_t format)
{
    static const char *const templates[] = {"", "<think>", "[THINK]", "```json"};
    static const struct engine_reply_layout layouts[] = {
        MARKS(ENGINE_REPLY_ARGUMENTS_JSON), MARKS(ENGINE_REPLY_ARGUMENTS_MARKED),
        MARKS(ENGINE_REPLY_ARGUMENTS_GEMMA), MARKS(ENGINE_REPLY_ARGUMENTS_PYTHON)};
    uint32_t which = format % ENGINE_REPLY_GPT_OSS;
    const struct engine_reply_layout *layout = which == 0   ? &layouts[format / 8 % 4]
                                               : which == 1 ? &plain_calls_layout
                                                            : NULL;
    const struct reply_grammar_input input = {.model = served->model,
                                              .vocabulary = &served->vocabulary,
                                              .format = ENGINE_REPLY_PLAIN + which,
                                              .layout = layout,
                                              .reasoning_begin = format & 32 ? "<think>" : NULL,
                                              .reasoning_end = "</think>",
                                              .template_text = templates[format / 8 % 4],
                                              .reasoning = format & 64};
    struct engine_grammar *grammar = NULL;
    struct api_error error = {0};
    if (!reply_grammar_create(&input, params, &grammar, &error)) check_error(&error);
    engine_grammar_destroy(grammar);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct served *served = model();
    const struct engine_sampler_options defaults = {.struct_size = sizeof defaults};
    static struct lenient *lenient;
    if (!lenient) must((lenient = lenient_create()) != NULL, "no memory");
    struct api_error error = {.lenient = size > 1 && data[1] & 128 ? lenient : NULL};
    struct params params;
    json_t *made = NULL;
    if (size < 2) return 0;
    json_t *body = json_read((const char *)data + 2, size - 2, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (!json_is_object(body)) {
        json_decref(body);
        return 0;
    }
    params_create(&params, &defaults);
    bool good = false;
    switch (data[0] % 5) {
    case 0: good = chat_read(&params, body, &error); break;
    case 1: good = completions_read(&params, served, body, &error); break;
    case 2: good = infill_read(&params, served, body, &error); break;
    case 3: good = responses_read(&params, body, &made, &error); break;
    default: good = messages_read(&params, body, &made, &error); break;
    }
    must(good == !error.status, "a mistake that is none, or none that is one");
    if (!good) check_error(&error);
    if (good) check_params(&params);
    if (good && params.messages) good = params_check_tools(&params, &error);
    if (good && params.messages) check_reply_grammar(served, &params, data[1]);
    params_free(&params);
    json_decref(made);
    json_decref(body);
    return 0;
}
