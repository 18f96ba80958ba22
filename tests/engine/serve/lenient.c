/* lenient.c: requests with fields that the server doesn't know, and with other servers' names: what is
 * ignored and noted, what is mapped, and what is refused all the same. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "params-fixture.h"

static struct lenient *lenient;

static void be_lenient(void)
{
    fixture_begin();
    lenient = lenient_create();
    cr_assert(lenient);
}

static void end_lenient(void)
{
    lenient_destroy(lenient);
    lenient = NULL;
    fixture_end();
}

TestSuite(lenient, .init = be_lenient, .fini = end_lenient, .timeout = 600);

static bool has_name(const char *name)
{
    for (size_t i = 0; i < lenient->n_names; i++)
        if (strcmp(lenient->names[i], name) == 0) return true;
    return false;
}

#define TOOL "{'type': 'function', 'function': {'name': 'f'}}"

/* Requests that are answered, and the name of what is logged about them. */
static const struct {
    enum api api;
    const char *body, *name;
} accepted[] = {
    {CHAT, "{" HI ", 'mood': 1}", "mood"},
    {CHAT, "{'messages': [{'role': 'user', 'content': 'x', 'mood': 'good'}]}", "messages[].mood"},
    {CHAT, "{'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'x', 'mood': [1]}]}]}",
     "messages[].content[].mood"},
    {CHAT,
     "{'messages': [{'role': 'assistant', 'tool_calls': [{'id': 'a', 'mood': 1, 'type': 'function', "
     "'function': "
     "{'name': 'f', 'arguments': '{}'}}]}]}",
     "messages[].tool_calls[].mood"},
    {CHAT, "{" HI ", 'tools': [{'type': 'function', 'mood': 1, 'function': {'name': 'f'}}]}", "tools[].mood"},
    {CHAT, "{" HI ", 'tools': [{'type': 'function', 'function': {'name': 'f', 'mood': 1}}]}",
     "tools[].function.mood"},
    {CHAT,
     "{" HI ", 'tools': [" TOOL
     "], 'tool_choice': {'type': 'function', 'function': {'name': 'f', 'mood': 1}}}",
     "tool_choice.function.mood"},
    {CHAT, "{" HI ", 'response_format': {'type': 'json_object', 'mood': 1}}", "response_format.mood"},
    {CHAT, "{" HI ", 'response_format': {'type': 'json_schema', 'json_schema': {'schema': {}, 'mood': 1}}}",
     "response_format.json_schema.mood"},
    {CHAT, "{" HI ", 'stream': true, 'stream_options': {'mood': 1}}", "stream_options.mood"},
    {CHAT, "{" HI ", 'functions': [], 'function_call': 'auto'}", NULL},
    {CHAT, "{" HI ", 'stream_options': {'include_usage': true, 'include_obfuscation': true}}", NULL},
    {CHAT, "{" HI ", 'tool_choice': 'auto', 'parallel_tool_calls': false}", NULL},
    {CHAT, "{" HI ", 'tool_choice': 'none', 'parallel_tool_calls': true, 'tools': null}", NULL},
    {CHAT, "{" HI ", 'store': true, 'service_tier': 'flex', 'metadata': {'a': 5}, 'user': 'x'}", NULL},
    {CHAT,
     "{" HI
     ", 'keep_alive': '5m', 'n_keep': -1, 'timings_per_token': true, 'cache_prompt': false, 'id_slot': 0}",
     NULL},
    {CHAT, "{" HI ", 'prediction': {'type': 'content', 'content': 'x'}, 'verbosity': 'low'}", NULL},
    {CHAT, "{" HI ", 'samplers': ['top_k', 'infill']}", "infill"},
    {COMPLETIONS, "{'prompt': 'x', 'messages': [], 'stream_options': {}}", "messages"},
    {COMPLETIONS, "{'prompt': 'x', 'keep_alive': 300, 'n_keep': 5, 'id_slot': -1}", NULL},
    {COMPLETIONS, "{'prompt': 'x', 'n_indent': 4.0, 't_max_predict_ms': 500, 'response_fields': ['content']}",
     NULL},
    {RESPONSES, "{'input': 'x', 'client_metadata': {'a': 'b'}, 'store': true, 'max_tool_calls': 3}", NULL},
    {RESPONSES, "{'input': 'x', 'text': {'verbosity': 'low', 'mood': 1}}", "text.mood"},
    {RESPONSES, "{'input': 'x', 'text': {'format': {'type': 'text', 'mood': 1}}}", "text.format.mood"},
    {RESPONSES, "{'input': 'x', 'reasoning': {'effort': 'max', 'summary': 'detailed', 'context': 'x'}}",
     "reasoning.context"},
    {RESPONSES, "{'input': 'x', 'include': ['file_search_call.results'], 'truncation': 'auto'}", NULL},
    {RESPONSES, "{'input': [{'role': 'user', 'content': 'x', 'mood': 1}], 'tool_choice': 'auto'}",
     "input[].mood"},
    {RESPONSES, "{'input': 'x', 'stream_options': {'include_obfuscation': true}, 'max_tokens': 5}",
     "max_tokens"},
    {MESSAGES,
     "{" HI ", 'context_management': {'edits': []}, 'cache_control': {'type': 'ephemeral'}, 'betas': []}",
     NULL},
    {MESSAGES, "{" HI ", 'output_config': {'effort': 'max', 'task_budget': {}}}",
     "output_config.task_budget"},
    {MESSAGES, "{" HI ", 'stop': 'x', 'service_tier': 'standard_only', 'speed': 'fast'}", "stop"},
    {MESSAGES, "{'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'x', 'mood': 1}]}]}",
     "messages[].content[].mood"},
    {CHAT, "{" HI ", 'thinking': {'type': 'enabled', 'budget_tokens': 5, 'mood': 1}}", "thinking.mood"},
    {CHAT, "{" HI ", 'reasoning': {'effort': 'low', 'enabled': true, 'mood': 1}}", "reasoning.mood"},
    {CHAT, "{" HI ", 'tools': [{'type': 'custom', 'custom': {'name': 'c', 'mood': 1}}]}",
     "tools[].custom.mood"},
    {CHAT,
     "{" HI
     ", 'tools': [{'type': 'custom', 'custom': {'name': 'c', 'format': {'type': 'text', 'mood': 1}}}]}",
     "tools[].custom.format.mood"},
    {CHAT,
     "{" HI ", 'tools': [{'type': 'custom', 'custom': {'name': 'c', 'format': {'grammar': "
     "{'syntax': 'regex', 'definition': 'a', 'mood': 1}}}}]}",
     "tools[].custom.format.grammar.mood"},
    {CHAT,
     "{" HI ", 'tools': [" TOOL "], 'tool_choice': {'type': 'allowed_tools', 'mood': 1, 'allowed_tools': "
     "{'mode': 'auto', 'tools': [" TOOL "]}}}",
     "tool_choice.mood"},
    {CHAT,
     "{" HI ", 'tools': [" TOOL "], 'tool_choice': {'type': 'allowed_tools', 'allowed_tools': "
     "{'mode': 'auto', 'mood': 1, 'tools': [" TOOL "]}}}",
     "tool_choice.mood"},
    {CHAT,
     "{" HI ", 'tools': [" TOOL "], 'tool_choice': {'type': 'allowed_tools', 'allowed_tools': "
     "{'mode': 'auto', 'tools': [{'type': 'function', 'function': {'name': 'f'}, 'mood': 1}]}}}",
     "tool_choice.tools[].mood"},
    {CHAT,
     "{'messages': [{'role': 'assistant', 'tool_calls': [{'id': 'a', 'type': 'custom', 'custom': "
     "{'name': 'c', 'input': 'x', 'mood': 1}}]}]}",
     "messages[].tool_calls[].custom.mood"},
    {CHAT,
     "{" HI ", 'tools': [{'type': 'function', 'cache_control': {}, 'function': {'name': 'f', "
     "'cache_control': {}}}]}",
     NULL},
    {CHAT, "{" HI ", 'grammar': '', 'seed': 1e18}", NULL},
    {RESPONSES, "{'input': 'x', 'tools': [{'type': 'namespace', 'name': 'n', 'mood': 1, 'tools': []}]}",
     "tools[].mood"},
    {RESPONSES,
     "{'input': 'x', 'tools': [{'type': 'custom', 'name': 'n', 'format': {'type': 'text', 'mood': 1}}]}",
     "tools[].format.mood"},
    {RESPONSES,
     "{'input': 'x', 'tools': [{'type': 'function', 'name': 'f'}], 'tool_choice': {'type': 'function', "
     "'name': 'f', 'mood': 1}}",
     "tool_choice.mood"},
    {MESSAGES, "{" HI ", 'tools': [{'type': 'bash_20250124', 'name': 'bash', 'mood': 1}]}", "tools[].mood"},
    {MESSAGES,
     "{'messages': [{'role': 'user', 'content': 'x'}, {'role': 'assistant', 'content': [{'type': 'tool_use', "
     "'id': 'a', 'name': 'f', 'input': {}}]}, {'role': 'user', 'content': [{'type': 'tool_result', "
     "'tool_use_id': "
     "'a', 'is_error': false, 'content': [{'type': 'tool_reference', 'tool_name': 'f', 'mood': 1}]}]}]}",
     "messages[].content[].content.mood"},
};

Test(lenient, unknown_fields_are_ignored_and_noted)
{
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        lenient->n_names = 0;
        struct read *read = fixture_read(lenient, accepted[i].api, accepted[i].body);
        cr_expect(read->good, "%s: %s", accepted[i].body, read->error.message);
        if (accepted[i].name) cr_expect(has_name(accepted[i].name), "%s", accepted[i].body);
        cr_expect_eq(lenient->n_names, accepted[i].name ? 1 : 0, "%s: %s", accepted[i].body,
                     lenient->names[0]);
        fixture_done(read);
    }
    struct read *read =
        fixture_read(lenient, CHAT,
                     "{" HI ", 'tools': [{'type': 'function', 'x': 1, 'function': {'name': 'f', 'y': 1}}]}");
    json_t *plain = fixture_json("[{'type': 'function', 'function': {'name': 'f'}}]");
    cr_assert(json_equal(read->params.tools, plain), "the model sees unknown fields");
    json_decref(plain);
    fixture_done(read);
}

/* What the result depends on, and what has the wrong type. */
static const struct {
    enum api api;
    const char *body, *param, *message;
} refused_still[] = {
    {CHAT, "{" HI ", 'temperature': 'warm'}", "temperature", "a number"},
    {CHAT, "{" HI ", 'max_tokens': 1.5}", "max_tokens", "whole number"},
    {CHAT, "{" HI ", 'max_tokens': '3'}", "max_tokens", "whole number"},
    {CHAT, "{" HI ", 'repetition_penalty': 'x'}", "repetition_penalty", "a number"},
    {CHAT, "{" HI ", 'repetition_penalty': 1.5, 'repeat_penalty': 1.25}", "repetition_penalty", "differ"},
    {CHAT, "{" HI ", 'think': 3}", "think", "true, false"},
    {CHAT, "{" HI ", 'think': 'a lot'}", "think", "medium"},
    {CHAT, "{" HI ", 'enable_thinking': 'yes'}", "enable_thinking", "true or false"},
    {CHAT, "{" HI ", 'n_probs': true}", "n_probs", "whole number"},
    {CHAT, "{" HI ", 'store': 'yes'}", "store", "true or false"},
    {CHAT, "{" HI ", 'service_tier': 5}", "service_tier", "a text"},
    {CHAT, "{" HI ", 'keep_alive': []}", "keep_alive", "a text or a number"},
    {CHAT, "{" HI ", 'client_metadata': 'x'}", "client_metadata", "an object"},
    {CHAT, "{" HI ", 'user': 5}", "user", "a text"},
    {CHAT, "{" HI ", 'stream_options': 5}", "stream_options", "an object"},
    {CHAT, "{" HI ", 'parallel_tool_calls': 'no'}", "parallel_tool_calls", "true or false"},
    {CHAT, "{" HI ", 'functions': [{'name': 'f'}]}", "functions", "not supported"},
    {CHAT, "{" HI ", 'function_call': {'name': 'f'}}", "function_call", "not supported"},
    {CHAT, "{" HI ", 'guided_regex': 'a+'}", "guided_regex", "not supported"},
    {CHAT, "{" HI ", 'modalities': ['audio']}", "modalities", "text"},
    {CHAT, "{" HI ", 'samplers': ['warm', 5]}", "samplers", "names"},
    {CHAT, "{" HI ", 'response_format': {'type': 'xml', 'mood': 1}}", "response_format", "json_schema"},
    {CHAT, "{" HI ", 'response_format': 5}", "response_format", "an object"},
    {CHAT, "{'messages': [{'role': 'user', 'content': [{'type': 'input_audio'}]}]}",
     "messages[0].content[0].type", "input_audio"},
    {COMPLETIONS, "{'prompt': 'x', 'n_indent': -1}", "n_indent", "whole number"},
    {COMPLETIONS, "{'prompt': 'x', 't_max_predict_ms': '5'}", "t_max_predict_ms", "a number"},
    {COMPLETIONS, "{'prompt': 'x', 'response_fields': [5]}", "response_fields", "texts"},
    {COMPLETIONS, "{'prompt': 'x', 'best_of': 2}", "best_of", "not supported"},
    {COMPLETIONS, "{'prompt': 'x', 'lora': [{'id': 0, 'scale': 1}]}", "lora", "not supported"},
    {RESPONSES, "{'input': 'x', 'previous_response_id': 'a'}", "previous_response_id", "not supported"},
    {RESPONSES, "{'input': 'x', 'conversation': 'a'}", "conversation", "not supported"},
    {RESPONSES, "{'input': 'x', 'background': true}", "background", "false"},
    {RESPONSES, "{'input': 'x', 'text': {'verbosity': 5}}", "text.verbosity", "a text"},
    {RESPONSES, "{'input': 'x', 'text': {'format': {'type': 'yaml', 'mood': 1}}}", "text.format",
     "json_schema"},
    {RESPONSES, "{'input': 'x', 'include': [5]}", "include", "only have"},
    {MESSAGES, "{" HI ", 'max_tokens': 0}", "max_tokens", "at least 1"},
    {MESSAGES, "{" HI ", 'context_management': 'x'}", "context_management", "an object or an array"},
    {CHAT, "{" HI ", 'thinking': {'type': 'enabled', 'budget_tokens': 'x'}}", "thinking", "a number"},
    {CHAT, "{" HI ", 'thinking': {'type': 'warm'}}", "thinking", "enabled or disabled"},
    {CHAT, "{" HI ", 'reasoning': {'enabled': 'x'}}", "reasoning.enabled", "true or false"},
    {CHAT, "{" HI ", 'grammar': 5}", "grammar", "a text"},
    {CHAT,
     "{" HI ", 'tools': [" TOOL "], 'tool_choice': {'type': 'allowed_tools', 'allowed_tools': "
     "{'mode': 'auto', 'tools': [5]}}}",
     "tool_choice.tools[0]", "a \"type\""},
    {MESSAGES, "{" HI ", 'metadata': 5}", "metadata", "an object"},
    {MESSAGES, "{" HI ", 'thinking': {'type': 'enabled', 'budget_tokens': 'x'}}", "thinking", "a number"},
    {MESSAGES, "{" HI ", 'thinking': {'type': 'disabled'}, 'output_config': {'effort': 5}}",
     "output_config.effort", "medium"},
    {MESSAGES, "{" HI ", 'tool_choice': {'type': 'auto', 'disable_parallel_tool_use': 'x'}}",
     "tool_choice.disable_parallel_tool_use", "true or false"},
    {MESSAGES,
     "{'messages': [{'role': 'user', 'content': 'x'}, {'role': 'assistant', 'content': [{'type': 'tool_use', "
     "'id': 'a', 'name': 'f', 'input': {}}]}, {'role': 'user', 'content': [{'type': 'tool_result', "
     "'tool_use_id': "
     "'a', 'is_error': 'no'}]}]}",
     "messages[2].content[0].is_error", "true or false"},
};

Test(lenient, wrong_types_and_what_cannot_be_done_are_refused)
{
    for (size_t i = 0; i < sizeof refused_still / sizeof *refused_still; i++)
        params_are_refused(lenient, refused_still[i].api, refused_still[i].body, refused_still[i].param,
                           refused_still[i].message);
}

Test(lenient, other_names)
{
    struct read *read = fixture_read(
        lenient, CHAT, "{" HI ", 'repetition_penalty': 1.5, 'n_probs': 3.0, 'max_tokens': 3.0, 'seed': 7.0}");
    cr_assert(read->good, "%s", read->error.message);
    cr_assert_eq(read->params.options.sampler.penalty_repeat, 1.5f);
    cr_assert(read->params.logprobs && read->params.n_top == 3 && read->params.options.max_tokens == 3);
    cr_assert_eq(read->params.options.sampler.seed, 7);
    fixture_done(read);
    read = fixture_read(lenient, CHAT,
                        "{" HI ", 'repetition_penalty': 1.5, 'repeat_penalty': 1.5, 'n_probs': 0}");
    cr_assert(read->good && !read->params.logprobs);
    fixture_done(read);
    static const char *const off[] = {"{" HI ", 'think': false}", "{" HI ", 'enable_thinking': false}",
                                      "{" HI ", 'thinking': {'type': 'disabled'}}",
                                      "{" HI ", 'chat_template_kwargs': {'enable_thinking': false}}"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        read = fixture_read(lenient, CHAT, off[i]);
        cr_assert(read->good && json_is_false(json_object_get(read->params.variables, "enable_thinking")),
                  "%s", off[i]);
        fixture_done(read);
    }
    static const char *const high[] = {"{" HI ", 'think': 'high'}",
                                       "{" HI ", 'reasoning': {'effort': 'high'}}",
                                       "{" HI ", 'think': 'low', 'reasoning_effort': 'high'}"};
    for (size_t i = 0; i < sizeof high / sizeof *high; i++) {
        read = fixture_read(lenient, CHAT, high[i]);
        const char *effort = json_string_value(json_object_get(read->params.variables, "reasoning_effort"));
        cr_assert(read->good && effort && strcmp(effort, "high") == 0, "%s", high[i]);
        fixture_done(read);
    }
}

/* A client cannot fill the log, or memory. */
Test(lenient, names_are_counted_and_cut)
{
    char body[2048];
    for (int i = 0; i < LENIENT_MAX_NAMES + 50; i++) {
        snprintf(body, sizeof body, "{" HI ", 'x%d': 1, '%0*d': 1}", i, 1000, 0);
        fixture_done(fixture_read(lenient, CHAT, body));
    }
    cr_assert_eq(lenient->n_names, LENIENT_MAX_NAMES);
    cr_assert(has_name("x0"));
    for (size_t i = 0; i < lenient->n_names; i++) cr_assert(strlen(lenient->names[i]) < LENIENT_NAME_SIZE);
    cr_assert(!lenient_say(lenient, "x0", "again"));
    cr_assert(!lenient_say(lenient, "one more", "there is no room"));
}

Test(lenient, names_are_cut_between_characters)
{
    for (int blanks = 0; blanks < 4; blanks++) {
        char body[512], name[256] = "";
        for (int i = 0; i < blanks; i++) strcat(name, "x");
        for (int i = 0; i < 40; i++) strcat(name, i % 2 ? "\xc3\xa9" : "\xe2\x82\xac");
        snprintf(body, sizeof body, "{" HI ", '%s': 1}", name);
        fixture_done(fixture_read(lenient, CHAT, body));
        json_t *text = json_string(lenient->names[lenient->n_names - 1]); /* NULL: no UTF-8 */
        cr_assert(text && json_string_length(text) > LENIENT_NAME_SIZE - 8, "%d", blanks);
        json_decref(text);
    }
}
