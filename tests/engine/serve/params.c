/* params.c: requests of the APIs as JSON: their parameters, what is refused and which field is to blame, and
 * the grammars of replies in the forms of all families. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "params-fixture.h"
#include "serve/generate/generation.h"

TestSuite(params, .init = fixture_begin, .fini = fixture_end, .timeout = 600);

/* ---- Reading ---- */

static const struct {
    enum api api;
    const char *body, *param, *message;
} refused[] = {
    {CHAT, "{}", "messages", "missing"},
    {CHAT, "{'messages': []}", "messages", "at least one"},
    {CHAT, "{'messages': 'hi'}", "messages", "array"},
    {CHAT, "{'messages': [{'role': 'user'}]}", "messages[0].content", "missing"},
    {CHAT, "{'messages': [5]}", "messages[0]", "role"},
    {CHAT, "{'messages': [{'role': 'user', 'content': 5}]}", "messages[0].content", "a text or an array"},
    {CHAT, "{'messages': [{'role': 'user', 'content': [{'type': 'input_audio'}]}]}",
     "messages[0].content[0].type", "input_audio"},
    {CHAT, "{'messages': [{'role': 'user', 'content': 'x', 'mood': 'good'}]}", "messages[0].mood",
     "not supported"},
    {CHAT, "{'messages': [{'role': 'tool', 'content': 'x'}]}", "messages[0]", "tool_call_id"},
    {CHAT, "{'messages': [{'role': 'tool', 'content': 'x', 'tool_call_id': 'a'}]}", "messages[0]",
     "no message has made"},
    {CHAT, "{'messages': [{'role': 'assistant', 'tool_calls': [{'id': 'a', 'type': 'custom'}]}]}",
     "messages[0].tool_calls[0]", "custom"},
    {CHAT, "{" HI ", 'functions': []}", "functions", "not supported"},
    {CHAT, "{" HI ", 'function_call': 'auto'}", "function_call", "not supported"},
    {CHAT, "{" HI ", 'audio': {}}", "audio", "not supported"},
    {CHAT, "{" HI ", 'temperature': 'warm'}", "temperature", "a number"},
    {CHAT, "{" HI ", 'max_tokens': 0}", "max_tokens", "at least 1"},
    {CHAT, "{" HI ", 'max_completion_tokens': 1.5}", "max_completion_tokens", "whole number"},
    {CHAT, "{" HI ", 'max_tokens': 1, 'max_completion_tokens': 2}", "max_tokens", "differ"},
    {CHAT, "{" HI ", 'n': 129}", "n", "from 1 to 128"},
    {CHAT, "{" HI ", 'logprobs': 3}", "logprobs", "true or false"},
    {CHAT, "{" HI ", 'logprobs': true, 'top_logprobs': 21}", "top_logprobs", "up to 20"},
    {CHAT, "{" HI ", 'top_logprobs': 1}", "top_logprobs", "goes with"},
    {CHAT, "{" HI ", 'stream': 1}", "stream", "true or false"},
    {CHAT, "{" HI ", 'stream_options': {'speed': 1}}", "stream_options.speed", "not supported"},
    {CHAT, "{" HI ", 'stream_options': {'include_usage': true}}", "stream_options", "goes with"},
    {COMPLETIONS, "{'prompt': 'x', 'stream': false, 'stream_options': {}}", "stream_options", "goes with"},
    {CHAT, "{" HI ", 'tool_choice': 'auto'}", "tool_choice", "goes with"},
    {CHAT, "{" HI ", 'parallel_tool_calls': true, 'tools': null}", "parallel_tool_calls", "goes with"},
    {CHAT, "{" HI ", 'metadata': 5}", "metadata", "texts"},
    {CHAT, "{" HI ", 'metadata': {'a': 5}}", "metadata", "texts"},
    {CHAT, "{" HI ", 'user': 5}", "user", "a text"},
    {RESPONSES, "{'input': 'x', 'user': {}}", "user", "a text"},
    {CHAT,
     "{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {'name': 'n', 'strict': true, "
     "'schema': {'type': 'object', 'properties': {'a': {'anyOf': [{}, {'requried': []}]}}}}}}",
     "response_format", "#/properties/a/anyOf/1: \"requried\""},
    {RESPONSES,
     "{'input': 'x', 'text': {'format': {'type': 'json_schema', 'name': 'n', 'strict': true, 'schema': "
     "{'minLenght': 1}}}}",
     "text.format", "#: \"minLenght\""},
    {CHAT,
     "{" HI ", 'tools': [{'type': 'function', 'function': {'name': 'f', 'strict': true, 'parameters': "
     "{'type': 'object', 'items': {'typ': 'string'}}}}]}",
     "tools[0].function", "#/items: \"typ\""},
    {CHAT, "{" HI ", 'stop': ['']}", "stop", "none of them empty"},
    {CHAT, "{" HI ", 'logit_bias': {'x': 1}}", "logit_bias", "pairs"},
    {CHAT, "{" HI ", 'response_format': {'type': 'xml'}}", "response_format", "json_schema"},
    {CHAT, "{" HI ", 'response_format': {'type': 'text', 'mood': 1}}", "response_format",
     "response_format.mood"},
    {CHAT, "{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {'schema': {}, 'mood': 1}}}",
     "response_format", "response_format.json_schema.mood"},
    {CHAT, "{" HI ", 'tool_choice': {'type': 'function', 'function': {'name': 'a', 'mood': 1}}}",
     "tool_choice.function.mood", "not supported"},
    {CHAT, "{" HI ", 'grammar': 'x', 'json_schema': {}}", "json_schema", "two of"},
    {CHAT, "{" HI ", 'store': true}", "store", "false"},
    {CHAT, "{" HI ", 'service_tier': 'flex'}", "service_tier", "auto"},
    {CHAT, "{" HI ", 'modalities': ['audio']}", "modalities", "text"},
    {CHAT, "{" HI ", 'reasoning_effort': 'huge'}", "reasoning_effort", "minimal"},
    {CHAT, "{" HI ", 'reasoning_budget': -2}", "reasoning_budget", "whole number"},
    {CHAT, "{" HI ", 'reasoning_budget': 'x'}", "reasoning_budget", "whole number"},
    {RESPONSES, "{'input': 'x', 'reasoning_budget': 1.5}", "reasoning_budget", "whole number"},
    {CHAT, "{" HI ", 'chat_template_kwargs': []}", "chat_template_kwargs", "an object"},
    {CHAT, "{" HI ", 'tools': [{'type': 'function'}]}", "tools[0].function", "name"},
    {CHAT, "{" HI ", 'tools': [{'type': 'function', 'function': {'name': 'a b'}}]}", "tools[0].function",
     "letters"},
    {CHAT, "{" HI ", 'tools': [{'type': 'function', 'function': {'name': 'a', 'parameters': 1}}]}",
     "tools[0].function", "schema"},
    {CHAT, "{" HI ", 'tools': [{'type': 'code_interpreter'}]}", "tools[0]", "code_interpreter"},
    {CHAT, "{" HI ", 'tool_choice': 'sometimes'}", "tool_choice", "required"},
    {COMPLETIONS, "{}", "prompt", "missing"},
    {COMPLETIONS, "{'prompt': 5}", "prompt", "a text"},
    {COMPLETIONS, "{'prompt': [1, 'x']}", "prompt", "token ids"},
    {COMPLETIONS, "{'prompt': [-1]}", "prompt", "token ids"},
    {COMPLETIONS, "{'prompt': 'x', 'messages': []}", "messages", "not supported"},
    {COMPLETIONS, "{'prompt': 'x', 'suffix': 'y'}", "suffix", "FIM"},
    {COMPLETIONS, "{'prompt': 'x', 'suffix': 'y', 'echo': true}", "echo", "without"},
    {COMPLETIONS, "{'prompt': 'x', 'best_of': 2}", "best_of", "not supported"},
    {COMPLETIONS, "{'prompt': 'x', 'logprobs': true}", "logprobs", "whole number"},
    {INFILL, "{'input_suffix': 'x'}", "input_prefix", "a text"},
    {INFILL, "{'input_prefix': 'x', 'input_suffix': 'y'}", "input_prefix", "FIM"},
    {INFILL, "{'input_prefix': 'x', 'input_suffix': 'y', 'input_extra': [1]}", "input_extra", "filename"},
    {RESPONSES, "{}", "input", "missing"},
    {RESPONSES, "{'input': 'x', 'previous_response_id': 'a'}", "previous_response_id", "not supported"},
    {RESPONSES, "{'input': 'x', 'store': true}", "store", "false"},
    {RESPONSES, "{'input': 'x', 'max_tokens': 5}", "max_tokens", "not supported"},
    {RESPONSES, "{'input': 'x', 'truncation': 'auto'}", "truncation", "disabled"},
    {RESPONSES, "{'input': [{'type': 'item_reference', 'id': 'x'}]}", "input[0]", "item_reference"},
    {RESPONSES, "{'input': [{'role': 'user', 'content': [{'type': 'input_image'}]}]}",
     "input[0].content[0].type", "input_image"},
    {RESPONSES, "{'input': [{'type': 'function_call_output', 'call_id': 'a', 'output': 'x'}]}", "input[0]",
     "no message has made"},
    {RESPONSES, "{'input': 'x', 'tools': [{'type': 'web_search'}]}", "tools[0]", "web_search"},
    {RESPONSES, "{'input': 'x', 'reasoning': {'summary': 'detailed'}}", "reasoning.summary", "not supported"},
    {RESPONSES, "{'input': 'x', 'include': ['file_search_call.results']}", "include", "only have"},
    {RESPONSES, "{'input': 'x', 'text': {'format': {'type': 'yaml'}}}", "text.format", "json_schema"},
    {CHAT, "{'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'a', 'role': 'user'}]}]}",
     "messages[0].content[0].role", "not supported"},
    {MESSAGES, "{'max_tokens': 1}", "messages", "at least one"},
    {MESSAGES, "{'messages': [{'role': 'system', 'content': 'x'}]}", "messages[0]", "user or assistant"},
    {MESSAGES, "{" HI ", 'max_tokens': 0}", "max_tokens", "at least 1"},
    {MESSAGES, "{" HI ", 'stop': 'x'}", "stop", "not supported"},
    {MESSAGES, "{'messages': [{'role': 'user', 'content': [{'type': 'document'}]}]}",
     "messages[0].content[0]", "document"},
    {MESSAGES, "{'messages': [{'role': 'user', 'content': [{'type': 'tool_result', 'content': 'x'}]}]}",
     "messages[0].content[0]", "tool_use_id"},
    {MESSAGES, "{" HI ", 'tool_choice': {'type': 'some'}}", "tool_choice", "any"},
    {MESSAGES, "{" HI ", 'tools': [{'type': 'bash_20250124', 'name': 'bash'}]}", "tools[0]", "bash"},
    {MESSAGES, "{" HI ", 'thinking': {'type': 'maybe'}}", "thinking", "enabled"},
    {MESSAGES, "{" HI ", 'thinking': {'type': 'adaptive', 'display': 'omitted'}}", "thinking.display",
     "summarized"},
    {MESSAGES, "{" HI ", 'output_config': 'high'}", "output_config", "object"},
    {MESSAGES, "{" HI ", 'output_config': {'format': {'type': 'json_object'}}}", "output_config.format",
     "json_schema"},
    {MESSAGES, "{" HI ", 'output_config': {'format': {'type': 'json_schema'}}}", "output_config.format",
     "schema"},
    {MESSAGES, "{" HI ", 'output_config': {'effort': 'huge'}}", "output_config.effort", "high"},
    {MESSAGES, "{" HI ", 'output_config': {'task_budget': {}}}", "output_config.task_budget",
     "not supported"},
};

Test(params, refused_by_name)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        params_are_refused(NULL, refused[i].api, refused[i].body, refused[i].param, refused[i].message);
}

static void expect_messages(enum api api, const char *body, const char *messages)
{
    struct read *read = fixture_read(NULL, api, body);
    json_t *expected = fixture_json(messages);
    char *got = json_dumps(read->params.messages, JSON_COMPACT);
    cr_assert(read->good, "%s: %s", body, read->error.message);
    cr_assert(json_equal(read->params.messages, expected), "%s", got);
    free(got);
    json_decref(expected);
    fixture_done(read);
}

/* Each API's conversation becomes the same messages. */
Test(params, messages)
{
    const char *conversation =
        "[{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Oslo?\\nNow?'}, {'role': "
        "'assistant', 'content': null, 'reasoning_content': 'Hm.', 'tool_calls': [{'id': 'a', 'type': "
        "'function', 'function': {'name': 'weather', 'arguments': {'city': 'Oslo'}}}]}, {'role': 'tool', "
        "'content': 'rain', 'tool_call_id': 'a', 'name': 'weather'}, {'role': 'assistant', 'content': "
        "'Rain.'}]";
    expect_messages(
        CHAT,
        "{'messages': [{'role': 'developer', 'content': 'Be brief.'}, {'role': 'user', 'content': [{'type': "
        "'text', 'text': 'Oslo?'}, {'type': 'text', 'text': 'Now?'}]}, {'role': 'assistant', 'content': "
        "null, 'refusal': null, 'reasoning_content': 'Hm.', 'annotations': [], 'tool_calls': [{'id': 'a', "
        "'type': 'function', 'function': {'name': 'weather', 'arguments': '{\\'city\\': \\'Oslo\\'}'}}]}, "
        "{'role': 'tool', 'tool_call_id': 'a', 'content': 'rain'}, {'role': 'assistant', 'content': "
        "'Rain.'}]}",
        conversation);
    /* As OpenAI's Agents SDK gives an answer back. */
    expect_messages(
        CHAT,
        "{'messages': [{'role': 'assistant', 'content': [{'type': 'text', 'text': 'Rain.', 'role': "
        "'assistant', 'refusal': null, 'reasoning_content': 'Hm.', 'tool_calls': [{'id': 'a'}]}]}]}",
        "[{'role': 'assistant', 'reasoning_content': 'Hm.', 'content': 'Rain.'}]");
    expect_messages(
        RESPONSES,
        "{'instructions': 'Be brief.', 'input': [{'role': 'user', 'content': [{'type': 'input_text', 'text': "
        "'Oslo?'}, {'type': 'input_text', 'text': 'Now?'}]}, {'type': 'reasoning', 'id': 'r', 'summary': "
        "[], 'content': [{'type': 'reasoning_text', 'text': 'Hm.'}]}, {'type': 'function_call', 'id': 'f', "
        "'call_id': 'a', 'name': 'weather', 'arguments': '{\\'city\\': \\'Oslo\\'}', 'status': "
        "'completed'}, {'type': 'function_call_output', 'call_id': 'a', 'output': 'rain'}, {'type': "
        "'message', 'role': 'assistant', 'id': 'm', 'status': 'completed', 'content': [{'type': "
        "'output_text', 'text': 'Rain.', 'annotations': [], 'logprobs': []}]}]}",
        conversation);
    expect_messages(
        MESSAGES,
        "{'max_tokens': 5, 'system': [{'type': 'text', 'text': 'Be brief.', 'cache_control': {'type': "
        "'ephemeral'}}], 'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'Oslo?'}, "
        "{'type': 'text', 'text': 'Now?'}]}, {'role': 'assistant', 'content': [{'type': 'thinking', "
        "'thinking': 'Hm.', 'signature': ''}, {'type': 'tool_use', 'id': 'a', 'name': 'weather', 'input': "
        "{'city': 'Oslo'}}]}, {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'a', "
        "'content': [{'type': 'text', 'text': 'rain'}]}]}, {'role': 'assistant', 'content': 'Rain.'}]}",
        conversation);
}

/* How much to reason, and what the answer has to fit: Anthropic's two fields in either order. */
Test(params, output_config)
{
    static const struct {
        const char *fields, *effort;
    } cases[] = {
        {"'output_config': {'effort': 'high'}", "high"},
        {"'output_config': {'effort': 'low'}, 'thinking': {'type': 'enabled', 'budget_tokens': 2048}", "low"},
        {"'thinking': {'type': 'enabled', 'budget_tokens': 2048}, 'output_config': {'effort': 'low'}", "low"},
        {"'thinking': {'type': 'disabled'}, 'output_config': {'effort': 'low'}", "none"},
        {"'output_config': {'effort': 'low'}, 'thinking': {'type': 'disabled'}", "none"},
        {"'thinking': {'type': 'adaptive', 'display': 'summarized'}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        snprintf(body, sizeof body, "{" HI ", %s}", cases[i].fields);
        struct read *read = fixture_read(NULL, MESSAGES, body);
        const char *effort = json_string_value(json_object_get(read->params.variables, "reasoning_effort"));
        cr_expect(read->good, "%s: %s", body, read->error.message);
        cr_expect(effort ? cases[i].effort && !strcmp(effort, cases[i].effort) : !cases[i].effort, "%s: %s",
                  body, effort ? effort : "none");
        fixture_done(read);
    }
    struct read *read = fixture_read(NULL, MESSAGES,
                                     "{" HI ", 'output_config': {'format': {'type': 'json_schema', "
                                     "'schema': {'type': 'object'}}}}");
    cr_assert(read->good, "%s", read->error.message);
    cr_assert_eq(read->params.options.constraint.kind, ENGINE_GRAMMAR_JSON_SCHEMA);
    cr_assert_str_eq(read->params.constrained_by, "output_config.format");
    fixture_done(read);
}

Test(params, options)
{
    struct read *read = fixture_read(
        NULL, CHAT,
        "{" HI ", 'temperature': 0.5, 'top_k': 7, 'seed': 18446744073709551615, 'stop': ['a', 'b'], 'n': 3, "
        "'max_tokens': null, 'max_completion_tokens': 12, 'stream': true, 'stream_options': "
        "{'include_usage': true}, 'logprobs': true, 'top_logprobs': 2, 'user': 'me', "
        "'parallel_tool_calls': false, 'tools': [{'type': 'function', 'function': {'name': "
        "'f'}}], 'logit_bias': {'5': -100}, 'store': false, 'metadata': {'a': 'b'}}");
    const struct params *params = &read->params;
    cr_assert(read->good, "%s", read->error.message);
    cr_assert_float_eq(params->options.sampler.temperature, 0.5, 1e-9);
    cr_assert_eq(params->options.sampler.top_k, 7);
    cr_assert_eq(params->options.sampler.seed, UINT64_MAX);
    cr_assert_eq(params->options.n_stop, 2);
    cr_assert_eq(params->options.max_tokens, 12);
    cr_assert_eq(params->options.sampler.n_logit_bias, 1);
    cr_assert(params->n == 3 && params->stream && params->include_usage && params->logprobs &&
              params->n_top == 2 && params->one_call);
    fixture_done(read);

    /* Without "strict", unknown keywords are JSON schema's annotations. */
    read = fixture_read(NULL, CHAT,
                        "{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {'schema': "
                        "{'mood': 'good'}}}}");
    cr_assert(read->good, "%s", read->error.message);
    fixture_done(read);
    read = fixture_read(NULL, CHAT,
                        "{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {'strict': true, "
                        "'schema': {'$defs': {'required': {'type': 'string', 'x-mood': 1}}, 'properties': "
                        "{'typ': {'$ref': '#/$defs/required'}}}}}}");
    cr_assert(read->good, "%s", read->error.message);
    fixture_done(read);

    read =
        fixture_read(NULL, COMPLETIONS, "{'prompt': ['Once', 'The cat sat'], 'echo': true, 'max_tokens': 0}");
    cr_assert(read->good && read->params.no_tokens && read->params.echo && read->params.n_prompts == 2);
    cr_assert_eq(read->params.prompts[0].tokens.count, 2); /* with the token that begins texts */
    cr_assert_str_eq(read->params.prompts[1].text, "The cat sat");
    fixture_done(read);

    read = fixture_read(NULL, COMPLETIONS, "{'prompt': [[5, 6], [7]]}");
    cr_assert(read->good && read->params.n_prompts == 2 && read->params.prompts[0].tokens.ids[1] == 6);
    cr_assert_eq(read->params.options.max_tokens, 16);
    fixture_done(read);

    read = fixture_read(NULL, MESSAGES,
                        "{" HI ", 'max_tokens': 5, 'stop_sequences': ['x'], 'tools': [{'name': 'f', "
                        "'input_schema': {'type': 'object'}}], 'tool_choice': {'type': 'tool', "
                        "'name': 'f', 'disable_parallel_tool_use': true}}");
    cr_assert(read->good && read->params.tool_choice == TOOL_CHOICE_NAMED && read->params.one_call, "%s",
              read->error.message);
    cr_assert_str_eq(read->params.tool, "f");
    cr_assert(params_check_tools(&read->params, &read->error));
    fixture_done(read);
}

/* Each answer to a call finds its function, in time that grows with their number. */
Test(params, many_calls)
{
    enum { N = 20000 };
    json_t *calls = json_array(), *messages = json_array();
    char id[16];
    json_array_append_new(messages, json_pack("{s:s, s:o}", "role", "assistant", "tool_calls", calls));
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof id, "c%d", i);
        json_array_append_new(calls,
                              json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function",
                                        "name", i % 2 ? "odd" : "even", "arguments", "{}"));
        json_array_append_new(
            messages, json_pack("{s:s, s:s, s:s}", "role", "tool", "tool_call_id", id, "content", "x"));
    }
    json_t *body = json_pack("{s:o}", "messages", messages);
    char *text = json_dumps(body, 0);
    struct read *read = fixture_read(NULL, CHAT, text);
    cr_assert(read->good, "%s", read->error.message);
    for (size_t i = 1; i <= N; i += 997)
        cr_assert_str_eq(json_string_value(json_object_get(json_array_get(read->params.messages, i), "name")),
                         (i - 1) % 2 ? "odd" : "even");
    fixture_done(read);
    free(text);
    json_decref(body);
}

/* What the sampler refuses names the field, by the name that requests have for it. */
Test(params, fields)
{
    static const char *const messages[][2] = {{"temperature is -1; it must be 0 to 3.4e+38", "temperature"},
                                              {"penalty_repeat is -1; it must be 0", "repeat_penalty"},
                                              {"samplers: 'x' is not one of", "samplers"},
                                              {"logit_bias: there is no token 9", "logit_bias"},
                                              {"the queue is full", NULL},
                                              {"", NULL}};
    struct api_error error = {0};
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        const char *field = params_field_of(messages[i][0]);
        cr_assert(messages[i][1] ? field && !strcmp(field, messages[i][1]) : !field, "%s: %s", messages[i][0],
                  field ? field : "none");
    }
    /* Clients see no folders. */
    api_error_in(&error, NULL, "/srv/a/b.jinja, line 3: no /srv/a/b.jinja");
    api_error_hide(&error, "/srv/a/b.jinja");
    cr_assert_str_eq(error.message, "b.jinja, line 3: no b.jinja");
    api_error_hide(&error, "the model's template");
    api_error_hide(&error, NULL);
    cr_assert_str_eq(error.message, "b.jinja, line 3: no b.jinja");
}

/* ---- Shapes ---- */

/* The token of a byte: the tokenizer itself would make spaces of DeepSeek's marks. */
static int32_t token_of_byte(unsigned char byte)
{
    const struct vocabulary *v = &fixture_served.vocabulary;
    char spelled[8];
    snprintf(spelled, sizeof spelled, "<0x%02X>", byte);
    for (int32_t id = 0; id < (int32_t)v->info.n_tokens; id++) {
        struct engine_string piece;
        if (v->api->piece(v->tokenizer, id, &piece) == ENGINE_OK && piece.length == 6 &&
            memcmp(piece.data, spelled, 6) == 0)
            return id;
    }
    return -1;
}

/* Whether a reply fits, byte by byte. */
static bool follows(struct engine_grammar *grammar, const char *text)
{
    struct engine_match *match;
    bool good = true;
    cr_assert_eq(engine_match_create(grammar, 0, &match), ENGINE_OK);
    for (; *text && good; text++)
        good = engine_match_accept(match, token_of_byte((unsigned char)*text)) == ENGINE_OK;
    good = good && engine_match_get_state(match) != ENGINE_MATCH_INCOMPLETE;
    engine_match_destroy(match);
    return good;
}

#define TOOLS                                                                                                \
    "'tools': [{'type': 'function', 'function': {'name': 'weather', 'parameters': {'type': 'object', "       \
    "'properties': {'city': {'enum': ['Oslo', 'Rome']}}, 'required': ['city']}}}, {'type': 'function', "     \
    "'function': {'name': 'time'}}]"

static const struct {
    uint32_t format;
    const char *template_text;
    bool reasoning;
    const char *body, *fits[3], *fails[4];
} shapes[] = {
    {ENGINE_REPLY_HERMES,
     "<tool_call>",
     false,
     "{" HI ", " TOOLS ", 'tool_choice': 'required'}",
     {"<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
      "<tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"time\","
      "\"arguments\":{}}</tool_call>",
      "<tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>\n"}, /* which promises no other one */
     {"Hello", "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\"}}</tool_call>",
      "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
      "<think>x</think><tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>"}},
    {ENGINE_REPLY_HERMES,
     "<tool_call> <think>",
     false,
     "{" HI ", " TOOLS ", 'tool_choice': {'type': 'function', 'function': {'name': 'time'}}}",
     {"<think>\nHm. 1 < 2\n</think>\n\n<tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>",
      "<tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>"},
     {"<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}</tool_call>",
      "<tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call><tool_call>{\"name\":\"time\","
      "\"arguments\":{}}</tool_call>"}},
    {ENGINE_REPLY_HERMES,
     "<tool_call> <think>",
     true,
     "{" HI ", " TOOLS ", 'tool_choice': 'required', 'parallel_tool_calls': false}",
     {"Hm.</think>\n\n<tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>"},
     {"<tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>",
      "Hm.</think><tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call><tool_call>{\"name\":\"time\","
      "\"arguments\":{}}</tool_call>"}},
    {ENGINE_REPLY_LLAMA3,
     "<|python_tag|>",
     false,
     "{" HI ", " TOOLS ", 'tool_choice': 'required'}",
     {"{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\"}}"},
     {"{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}", "Hello"}},
    {ENGINE_REPLY_MISTRAL,
     "[TOOL_CALLS]",
     false,
     "{" HI ", " TOOLS ", 'tool_choice': 'required'}",
     {"[TOOL_CALLS][{\"name\": \"time\", \"arguments\": {}}]",
      "[TOOL_CALLS][{\"name\": \"time\", \"arguments\": {}}, {\"name\": \"weather\", \"arguments\": "
      "{\"city\": \"Rome\"}}]"},
     {"[TOOL_CALLS][]", "[{\"name\": \"time\", \"arguments\": {}}]"}},
    {ENGINE_REPLY_DEEPSEEK,
     "```json",
     false,
     "{" HI ", " TOOLS ", 'tool_choice': 'required'}",
     {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>time\n```json\n{}\n```<"
      "｜tool▁call▁end｜>"
      "<｜tool▁calls▁end｜>"},
     {"<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"}},
    {ENGINE_REPLY_DEEPSEEK,
     "",
     false,
     "{" HI ", " TOOLS ", 'tool_choice': 'required'}",
     {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": "
      "\"Oslo\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
     {"<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"}},
    {ENGINE_REPLY_GPT_OSS,
     "<|channel|>",
     false,
     "{" HI ", " TOOLS ", 'tool_choice': 'required'}",
     {"<|channel|>commentary to=functions.time <|constrain|>json<|message|>{}",
      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.weather "
      "<|constrain|>json<|message|>{\"city\": \"Rome\"}"},
     {"<|channel|>final<|message|>Hi"}},
    {ENGINE_REPLY_GPT_OSS,
     "<|channel|>",
     false,
     "{" HI ", 'response_format': {'type': 'json_object'}}",
     {"<|channel|>final<|message|>{\"a\": 1}"},
     {"{\"a\": 1}"}},
    {ENGINE_REPLY_PLAIN,
     "",
     false,
     "{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {'name': 'n', 'schema': {'type': "
     "'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}}}}",
     {"{\"n\": 5}"},
     {"{}", "{\"n\": 5} ", "<think>x</think>{\"n\": 5}"}},
    {ENGINE_REPLY_HERMES,
     "<tool_call> <think>",
     false,
     "{" HI ", " TOOLS ", 'response_format': {'type': 'json_object'}}",
     {"{\"n\": 5}", "<think>Hm</think>\n\n{}", "<tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>"},
     {"Hello", "{} <tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>"}},
    /* Text, or calls whose arguments fit, though the vocabulary has no token for the mark. */
    {ENGINE_REPLY_HERMES,
     "<tool_call>",
     false,
     "{" HI ", 'tools': [{'type': 'function', 'function': {'name': 'f', 'strict': true, 'parameters': "
     "{'type': 'object', 'properties': {'n': {'enum': [1]}}, 'required': ['n'], 'additionalProperties': "
     "false}}}]}",
     {"A <table>, <tool_box>, <<tool and a < b <",
      "Hm <tool_call>{\"name\":\"f\",\"arguments\":{\"n\":1}}</tool_call>",
      "<to<tool_call>{\"name\":\"f\",\"arguments\":{\"n\":1}}</tool_call>"},
     {"<tool_call>", "<tool_call>{\"name\":\"f\",\"arguments\":{\"n\":2}}</tool_call>",
      "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>", "a <<tool_call>x"}},
    {ENGINE_REPLY_LLAMA3,
     "<|python_tag|>",
     false,
     "{" HI ", 'tools': [{'type': 'function', 'function': {'name': 'f', 'strict': true, 'parameters': "
     "{'type': 'object', 'properties': {'n': {'enum': [1]}}, 'required': ['n'], 'additionalProperties': "
     "false}}}]}",
     {"{\"name\":\"f\",\"parameters\":{\"n\":1}}", "\n Hm {\"name\":\"f\",\"parameters\":{\"n\":2}} <|py",
      "<<|python>{"},
     {"{\"name\":\"f\",\"parameters\":{\"n\":2}}", " {", "<|python_tag|>f()", "a <|<|python_tag|>f()"}},
    {ENGINE_REPLY_GPT_OSS,
     "<|channel|>",
     false,
     "{" HI ", 'tools': [{'type': 'function', 'function': {'name': 'f', 'strict': true, 'parameters': "
     "{'type': 'object', 'properties': {'n': {'enum': [1]}}, 'required': ['n'], 'additionalProperties': "
     "false}}}]}",
     {"<|channel|>final<|message|>Hi <| {",
      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>So.<|end|><|"
      "start|>"
      "assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"n\":1}",
      "<|channel|>commentary to=functions.f json<|message|>{\"n\":1}"},
     {"Hi", "<|channel|>commentary to=functions.f json<|message|>{\"n\":2}",
      "<|channel|>commentary to=functions.g json<|message|>{\"n\":1}",
      "<|channel|>final<|message|>Hi<|end|><|start|>assistant to=functions.f<|message|>"}},
    {ENGINE_REPLY_DEEPSEEK,
     "",
     false,
     "{" HI ", 'tools': [{'type': 'function', 'function': {'name': 'f', 'strict': true}}]}",
     {"A <table>, <｜tool, \xe2\x82\xac ｜ and <｜tool▁calls<",
      "Hm "
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      "<｜tool▁<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
      "｜tool▁calls▁end｜>"},
     {"<｜tool▁calls▁begin｜>", "x<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}"}},
};

Test(params, shapes)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct read *read = fixture_read(NULL, CHAT, shapes[i].body);
        struct reply_grammar_input input = {.model = fixture_served.model,
                                            .vocabulary = &fixture_served.vocabulary,
                                            .format = shapes[i].format,
                                            .template_text = shapes[i].template_text,
                                            .reasoning = shapes[i].reasoning};
        if (strstr(input.template_text, "<think>"))
            input.reasoning_begin = "<think>", input.reasoning_end = "</think>";
        if (shapes[i].format == ENGINE_REPLY_HERMES) input.layout = &plain_calls_layout;
        struct engine_grammar *grammar;
        cr_assert(read->good && params_check_tools(&read->params, &read->error), "%s", read->error.message);
        cr_assert(reply_grammar_create(&input, &read->params, &grammar, &read->error), "%zu: %s", i,
                  read->error.message);
        cr_assert(grammar);
        for (size_t n = 0; n < 3 && shapes[i].fits[n]; n++)
            cr_expect(follows(grammar, shapes[i].fits[n]), "%zu: %s", i, shapes[i].fits[n]);
        for (size_t n = 0; n < 4 && shapes[i].fails[n]; n++)
            cr_expect(!follows(grammar, shapes[i].fails[n]), "%zu: %s", i, shapes[i].fails[n]);
        engine_grammar_destroy(grammar);
        fixture_done(read);
    }
}

/* A template whose calls are written so. */
#define TURNS_SO(before, call, after)                                                                        \
    "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ (m.content or '') }}{% if m.tool_calls %}" before      \
    "{% for c in m.tool_calls %}{% set f = c.function %}" call "{% endfor %}" after                          \
    "{% endif %}<|end|>{% endfor %}{{ '<|assistant|>' if add_generation_prompt }}"
#define KEYED(key, after_key, after_value)                                                                   \
    "{% for k, v in f.arguments.items() %}" key "{{ k }}" after_key "{{ v }}" after_value "{% endfor %}"
#define LIST                                                                                                 \
    "{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}}{{ ', ' if not loop.last }}"
#define TYPED                                                                                                \
    "'tools': [{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object', "             \
    "'properties': "                                                                                         \
    "{'s': {'type': 'string'}, 'n': {'type': 'integer'}, 'e': {'type': 'string', 'enum': ['x', 'y']}}, "     \
    "'required': ['s']}}}, {'type': 'function', 'function': {'name': 'g'}}], 'tool_choice': 'required'"

static const struct {
    const char *template_text, *fits[3], *fails[4];
} laid_out[] = {
    {TURNS_SO("",
              "<tool_call>\n<function={{ f.name }}>\n" KEYED("<parameter=", ">\n",
                                                             "\n</parameter>\n") "</function>\n</tool_call>",
              ""),
     {"<tool_call>\n<function=f>\n<parameter=s>\na\n</parameter>\n</function>\n</tool_call>"},
     {"<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>"}},
    {TURNS_SO("", "<tool_call>\n" LIST "\n</tool_call>", ""),
     {"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
      "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>"},
     {"<tool_call>\n<function=g>\n</function>\n</tool_call>"}},
    {TURNS_SO("",
              "<tool_call>{{ f.name }}\n" KEYED("<arg_key>", "</arg_key>\n<arg_value>",
                                                "</arg_value>\n") "</tool_call>",
              ""),
     {"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a < "
      "b</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
      "<tool_call>f<arg_key>s</arg_key><arg_value>a</arg_value><arg_key>n</arg_key><arg_value>5</arg_value>"
      "<arg_key>e</arg_key><arg_value>y</arg_value></tool_call>"},
     {"Hi", "<tool_call>f\n</tool_call>", "<tool_call>h\n</tool_call>",
      "<tool_call>f<arg_key>s</arg_key><arg_value>a</arg_value><arg_key>n</arg_key><arg_value>z</arg_value></"
      "tool_call>"}},
    {TURNS_SO("<minimax:tool_call>\n",
              "<invoke name=\"{{ f.name }}\">\n" KEYED("<parameter name=\"", "\">",
                                                       "</parameter>\n") "</invoke>\n",
              "</minimax:tool_call>"),
     {"<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a</parameter>\n</invoke>\n<invoke "
      "name=\"g\">\n"
      "</invoke>\n</minimax:tool_call>"},
     {"<minimax:tool_call>\n</minimax:tool_call>",
      "<minimax:tool_call><invoke name=\"f\"></invoke></minimax:tool_call>"}},
    {TURNS_SO("<|tool_calls_section_begin|>",
              "<|tool_call_begin|>functions.{{ f.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>{{ "
              "f.arguments | "
              "tojson }}<|tool_call_end|>",
              "<|tool_calls_section_end|>"),
     {"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"s\": \"a\"}"
      "<|tool_call_end|><|tool_calls_section_end|>"},
     {"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"n\": 1}"
      "<|tool_call_end|><|tool_calls_section_end|>"}},
    {TURNS_SO("",
              "<|tool_call>call:{{ f.name }}{ {%- for k, v in f.arguments.items() %}{{ k }}:<|\"|>{{ v "
              "}}<|\"|>{% endfor "
              "%}}<tool_call|>",
              ""),
     {"<|tool_call>call:f{s:<|\"|>a "
      "\"b\"<|\"|>,n:5,e:<|\"|>x<|\"|>}<tool_call|><|tool_call>call:g{}<tool_call|>"},
     {"<|tool_call>call:f{}<tool_call|>", "<|tool_call>call:f{s:<|\"|>a<|\"|>,e:<|\"|>z<|\"|>}<tool_call|>"}},
    {TURNS_SO("<|tool_call_start|>[",
              "{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}={{ v | tojson }}{% endfor %}){{ ', "
              "' if not "
              "loop.last }}",
              "]<|tool_call_end|>"),
     {"<|tool_call_start|>[f(s=\"a\", n=5), g()]<|tool_call_end|>"},
     {"<|tool_call_start|>[]<|tool_call_end|>", "<|tool_call_start|>[f(n=5)]<|tool_call_end|>"}},
    {TURNS_SO("<tool_calls>[", LIST, "]</tool_calls>"),
     {"<tool_calls>[{\"name\": \"f\", \"arguments\": {\"s\": \"a\"}}, {\"name\": \"g\", \"arguments\": "
      "{}}]</tool_calls>"},
     {"<tool_calls>[]</tool_calls>", "<tool_calls>{\"name\": \"g\", \"arguments\": {}}</tool_calls>"}},
    /* Derived. */
    {TURNS_SO("<|calls|>",
              "<|call|>{{ c.id }}<|name|>{{ f.name }}<|args|>{{ f.arguments | tojson }}<|/call|>",
              "<|/calls|>"),
     {"<|calls|><|call|>x-1<|name|>g<|args|>{}<|/call|><|/calls|>"},
     {"<|calls|><|/calls|>", "<|calls|><|call|>x-1<|name|>h<|args|>{}<|/call|><|/calls|>"}},
    {TURNS_SO("<tools>[", "{\"{{ f.name }}\": {{ f.arguments | tojson }}}{{ ', ' if not loop.last }}",
              "]</tools>"),
     {"<tools>[{\"f\": {\"s\": \"a\"}}, {\"g\": {}}]</tools>"},
     {"<tools>[{\"h\": {}}]</tools>"}},
};

/* Calls that a layout describes, in a grammar: what fits is also read as calls. */
Test(params, laid_out_calls)
{
    for (size_t i = 0; i < sizeof laid_out / sizeof *laid_out; i++) {
        const char *source = laid_out[i].template_text;
        struct read *read = fixture_read(NULL, CHAT, "{" HI ", " TYPED "}");
        struct engine_template_options options = {
            .struct_size = sizeof options, .source = {source, strlen(source)}, .origin = "test"};
        struct engine_template *chat;
        struct engine_reply_layout layout = {.struct_size = sizeof layout};
        struct engine_grammar *grammar;
        cr_assert_eq(engine_template_create(fixture_served.model, &options, &chat), ENGINE_OK);
        cr_assert_eq(engine_template_reply_layout(chat, &layout), ENGINE_OK, "%zu: %s", i,
                     engine_error_message());
        struct reply_grammar_input input = {.model = fixture_served.model,
                                            .vocabulary = &fixture_served.vocabulary,
                                            .format = engine_template_reply_format(chat, NULL),
                                            .template_text = source,
                                            .layout = &layout};
        cr_assert(read->good && params_check_tools(&read->params, &read->error), "%s", read->error.message);
        cr_assert(reply_grammar_create(&input, &read->params, &grammar, &read->error), "%zu: %s", i,
                  read->error.message);
        for (size_t n = 0; n < 3 && laid_out[i].fits[n]; n++)
            cr_expect(follows(grammar, laid_out[i].fits[n]), "%zu: %s", i, laid_out[i].fits[n]);
        for (size_t n = 0; n < 4 && laid_out[i].fails[n]; n++)
            cr_expect(!follows(grammar, laid_out[i].fails[n]), "%zu: %s", i, laid_out[i].fails[n]);
        engine_grammar_destroy(grammar);
        engine_template_destroy(chat);
        fixture_done(read);
    }
}

Test(params, shapes_refused)
{
    static const struct {
        const char *body, *param;
    } cases[] = {
        {"{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {'schema': {'type': 'fish'}}}}",
         "response_format"},
        {"{" HI ", 'grammar': 'root ::= ('}", "grammar"},
        {"{" HI ", 'tool_choice': 'required', 'tools': [{'type': 'function', 'function': {'name': 'f', "
         "'parameters': {'type': 'object', 'properties': {'x': {'type': 'fish'}}}}}]}",
         "tool_choice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct read *read = fixture_read(NULL, CHAT, cases[i].body);
        struct reply_grammar_input input = {.model = fixture_served.model,
                                            .vocabulary = &fixture_served.vocabulary,
                                            .format = ENGINE_REPLY_LLAMA3,
                                            .template_text = "<|python_tag|>"};
        struct engine_grammar *grammar;
        cr_assert(!reply_grammar_create(&input, &read->params, &grammar, &read->error), "%s", cases[i].body);
        cr_assert_eq(read->error.status, 400);
        cr_assert_str_eq(read->error.param, cases[i].param);
        fixture_done(read);
    }
    /* Compiling one of several megabytes would hold up a thread of HTTP for minutes. */
    enum { VALUES = 60000 };
    char *large = malloc(200 + 12 * VALUES), *at = large;
    at += sprintf(at, "{" HI ", 'json_schema': {'enum': ['");
    for (int i = 0; i < VALUES; i++) at += sprintf(at, i > 0 ? "','%07d" : "%07d", i);
    sprintf(at, "']}}");
    struct read *read = fixture_read(NULL, CHAT, large);
    struct reply_grammar_input input = {
        .model = fixture_served.model, .vocabulary = &fixture_served.vocabulary, .template_text = ""};
    struct engine_grammar *grammar;
    cr_assert(!reply_grammar_create(&input, &read->params, &grammar, &read->error));
    cr_assert_str_eq(read->error.param, "json_schema");
    cr_assert(strstr(read->error.message, "bytes"), "%s", read->error.message);
    fixture_done(read);
    free(large);
    read = fixture_read(NULL, COMPLETIONS, "{'prompt': 'x', 'json_schema': {'type': 'integer'}}");
    cr_assert(reply_grammar_constrain(&input, &read->params, &grammar, &read->error) && grammar);
    engine_grammar_destroy(grammar);
    read->params.options.constraint.size = 1 << 20; /* refused before it is read */
    cr_assert(!reply_grammar_constrain(&input, &read->params, &grammar, &read->error));
    cr_assert_str_eq(read->error.param, "json_schema");
    fixture_done(read);
    read = fixture_read(NULL, CHAT, "{" HI ", " TOOLS "}");
    input = (struct reply_grammar_input){.model = fixture_served.model,
                                         .vocabulary = &fixture_served.vocabulary,
                                         .format = ENGINE_REPLY_HERMES,
                                         .template_text = "<tool_call>"};
    cr_assert(reply_grammar_create(&input, &read->params, &grammar, &read->error) && !grammar);
    fixture_done(read);
}
