/* params-fixture.c: see params-fixture.h. */
#include "params-fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"

#define DEMO_MODEL TEST_SOURCE_DIR "/../models/demo/demo.gguf"

static struct engine *engine;
struct served fixture_served = {.name = "demo"};

void fixture_begin(void)
{
    const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    struct engine_options options = {.struct_size = sizeof options, .plugin_dirs = dirs};
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_open(engine, DEMO_MODEL, NULL, &fixture_served.model), ENGINE_OK, "%s",
                 engine_error_message());
    cr_assert_eq(vocabulary_open(fixture_served.model, &fixture_served.vocabulary), ENGINE_OK);
}

void fixture_end(void)
{
    engine_model_close(fixture_served.model);
    engine_close(engine);
}

json_t *fixture_json(const char *text)
{
    char *copy = strdup(text);
    json_error_t error;
    for (char *at = copy; *at; at++)
        if (*at == '\'') *at = '"';
    json_t *json = json_read_text(copy, JSON_DECODE_ANY, &error);
    cr_assert(json, "%s: %s", error.text, copy);
    free(copy);
    return json;
}

struct read *fixture_read(struct lenient *lenient, enum api api, const char *text)
{
    static struct read read;
    const struct engine_sampler_options defaults = {.struct_size = sizeof defaults, .temperature = 0.8f};
    read = (struct read){.body = fixture_json(text), .error = {.lenient = lenient}};
    params_create(&read.params, &defaults);
    switch (api) {
    case CHAT: read.good = chat_read(&read.params, read.body, &read.error); break;
    case COMPLETIONS:
        read.good = completions_read(&read.params, &fixture_served, read.body, &read.error);
        break;
    case INFILL: read.good = infill_read(&read.params, &fixture_served, read.body, &read.error); break;
    case RESPONSES: read.good = responses_read(&read.params, read.body, &read.made, &read.error); break;
    case MESSAGES: read.good = messages_read(&read.params, read.body, &read.made, &read.error); break;
    }
    cr_assert_eq(read.good, read.error.status == 0, "%s: %s", text, read.error.message);
    return &read;
}

void fixture_done(struct read *read)
{
    params_free(&read->params);
    json_decref(read->made);
    json_decref(read->body);
}

void params_are_refused(struct lenient *lenient, enum api api, const char *text, const char *param,
                        const char *words)
{
    struct read *read = fixture_read(lenient, api, text);
    cr_expect(!read->good, "%s", text);
    cr_expect_eq(read->error.status, 400, "%s: %s", text, read->error.message);
    cr_expect_str_eq(read->error.param, param, "%s: %s", text, read->error.message);
    cr_expect(strstr(read->error.message, words), "%s: %s", text, read->error.message);
    cr_expect(!strchr(read->error.message, '\n'), "%s", text);
    fixture_done(read);
}
