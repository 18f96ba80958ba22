/* test-reply.c: replies split into content, reasoning and tool calls. Each reply is added whole and byte by
 * byte; both must give the same. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

TestSuite(reply);

/* "C:content R:reasoning 0:name#id(arguments)", each part on a line of its own. */
struct transcript {
    char text[4096];
    uint32_t part; /* of the last piece */
    bool in_call;
    size_t n_pieces; /* of calls */
};

static void write_piece(void *user, const struct engine_reply_piece *piece)
{
    struct transcript *out = user;
    size_t n = strlen(out->text), left = sizeof out->text - n;
    char *to = out->text + n;
    cr_assert_eq(piece->struct_size, sizeof *piece);
    if (piece->part == ENGINE_REPLY_CALL) {
        bool begins = piece->flags & ENGINE_REPLY_CALL_BEGINS, ends = piece->flags & ENGINE_REPLY_CALL_ENDS;
        cr_assert_eq(begins, piece->name != NULL);
        cr_assert_eq(begins, !out->in_call);
        if (begins)
            n = (size_t)snprintf(to, left, "\n%u:%s%s%s(", piece->call, piece->name, piece->id ? "#" : "",
                                 piece->id ? piece->id : "");
        if (begins) to += n, left -= n;
        snprintf(to, left, "%.*s%s%s", (int)piece->text.length, piece->text.data,
                 piece->flags & ENGINE_REPLY_CALL_CUT ? "…" : "", ends ? ")" : "");
        out->in_call = !ends;
        out->n_pieces++;
    } else {
        cr_assert(!piece->name && !piece->id && !piece->flags && piece->text.length > 0 && !out->in_call);
        if (piece->part != out->part)
            left -= (size_t)snprintf(to, left, "\n%s", piece->part == ENGINE_REPLY_CONTENT ? "C:" : "R:");
        snprintf(out->text + strlen(out->text), left, "%.*s", (int)piece->text.length, piece->text.data);
    }
    out->part = piece->part;
}

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}}}}}]";

static void expect_of(struct engine_reply_options options, const char *text, const char *parts)
{
    for (size_t step = 1; step <= 2; step++) {
        struct transcript out = {.text = ""};
        struct engine_reply *reply;
        size_t length = strlen(text), n = step == 1 ? 1 : length;
        options.struct_size = sizeof options;
        options.piece = write_piece;
        options.user = &out;
        cr_assert_eq(engine_reply_create(&options, &reply), ENGINE_OK, "%s", engine_error_message());
        for (size_t at = 0; at < length; at += n)
            cr_assert_eq(engine_reply_add(reply, text + at, n), ENGINE_OK);
        cr_assert_eq(engine_reply_end(reply), ENGINE_OK);
        cr_assert_eq(engine_reply_end(reply), ENGINE_OK);
        cr_assert_not(out.in_call);
        cr_assert_eq(engine_reply_add(reply, "x", 1), ENGINE_ERROR_ARGUMENT);
        engine_reply_destroy(reply);
        cr_assert_str_eq(out.text, parts, "%s\nwas read as\n%s\ninstead of\n%s", text, out.text, parts);
    }
}

static void expect(uint32_t format, const char *text, const char *parts)
{
    expect_of((struct engine_reply_options){.format = format, .tools = tools}, text, parts);
}

static void expect_without_tools(uint32_t format, const char *text, const char *parts)
{
    expect_of((struct engine_reply_options){.format = format}, text, parts);
}

static void expect_after(uint32_t format, const char *prompt, const char *text, const char *parts)
{
    expect_of(
        (struct engine_reply_options){.format = format, .tools = tools, .prompt = {prompt, strlen(prompt)}},
        text, parts);
}

Test(reply, plain)
{
    expect(ENGINE_REPLY_PLAIN, "", "");
    expect(ENGINE_REPLY_PLAIN, " Hi, <b>you</b>. \n", "\nC: Hi, <b>you</b>. \n");
    expect(ENGINE_REPLY_PLAIN, "<tool_call>{}</tool_call>", "\nC:<tool_call>{}</tool_call>");
    expect(ENGINE_REPLY_PLAIN, "  ", "\nC:  ");
}

Test(reply, reasoning)
{
    expect(ENGINE_REPLY_PLAIN, "<think>\nI <b> see.\n</think>\n\nHi.", "\nR:I <b> see.\nC:Hi.");
    expect(ENGINE_REPLY_HERMES, "\n<think></think>\n\nHi.", "\nC:Hi.");
    expect(ENGINE_REPLY_HERMES, "<think>cut ", "\nR:cut");
    expect(ENGINE_REPLY_HERMES, "<thin", "\nC:<thin");
    /* Only the beginning of a reply opens it. */
    expect(ENGINE_REPLY_HERMES, "Say <think>no</think>.", "\nC:Say <think>no</think>.");
    expect_after(ENGINE_REPLY_HERMES, "user: hi\nassistant:<think>\n", "I see.\n</think>\n\nHi.",
                 "\nR:I see.\nC:Hi.");
    expect_after(ENGINE_REPLY_HERMES, "<think>\n\n</think>\n\n", "Hi.</think>", "\nC:Hi.</think>");
    expect(ENGINE_REPLY_MISTRAL, "[THINK]I see.[/THINK]Hi.", "\nR:I see.\nC:Hi.");
    expect_after(ENGINE_REPLY_MISTRAL, "[/INST][THINK]", "I see.[/THINK]Hi.", "\nR:I see.\nC:Hi.");
}

/* A user who ends a message with a mark does not open the reasoning; the template does. */
Test(reply, marks_of_users_open_nothing)
{
    static const char prompt[] = "say <think>";
    unsigned char marks[sizeof prompt - 1];
    struct engine_reply_options options = {
        .format = ENGINE_REPLY_HERMES, .prompt = {prompt, sizeof marks}, .prompt_marks = marks};
    memset(marks, 1, sizeof marks);
    expect_of(options, "Hi.", "\nC:Hi.");
    memset(marks + 4, 0, sizeof marks - 4);
    expect_of(options, "Hi.", "\nR:Hi.");
    marks[4] = 1; /* a part of the mark */
    expect_of(options, "Hi.", "\nC:Hi.");
    static const char turn[] = "<|start|>assistant<|channel|>analysis<|message|>";
    unsigned char whose[sizeof turn - 1];
    memset(whose, 1, sizeof whose);
    options = (struct engine_reply_options){
        .format = ENGINE_REPLY_GPT_OSS, .prompt = {turn, sizeof whose}, .prompt_marks = whose};
    expect_of(options, "<|channel|>final<|message|>Hi.", "\nC:Hi.");
}

Test(reply, hermes)
{
    expect(ENGINE_REPLY_HERMES,
           "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\", \"days\": "
           "2}}\n</tool_call>\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
           "\nC:Let me see.\n0:weather({\"city\": \"Köln\", \"days\": 2})\n1:f({})");
    expect(ENGINE_REPLY_HERMES,
           "<think>a<tool_call></think><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>ok",
           "\nR:a<tool_call>\n0:f({})\nC:ok");
    /* What is not a call stays as it was written. */
    expect(ENGINE_REPLY_HERMES, "<tool_call>{\"name\": 1}</tool_call> x",
           "\nC:<tool_call>{\"name\": 1}</tool_call> x");
    expect(ENGINE_REPLY_HERMES, "<tool_call>{\"name\": \"f\", \"argu",
           "\nC:<tool_call>{\"name\": \"f\", \"argu");
    expect_without_tools(ENGINE_REPLY_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
                         "\nC:<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>");
    /* Arguments in a string; numbers as written. */
    expect(ENGINE_REPLY_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": 0.1}\"}</tool_call>",
           "\n0:f({\"x\": 0.1})");
}

/* The ways to write a call of f with its arguments. */
static const struct {
    uint32_t format;
    const char *before, *after;
} forms_of_calls[] = {
    {ENGINE_REPLY_HERMES, "<tool_call>\n{\"name\": \"f\", \"arguments\": ", "}\n</tool_call>"},
    {ENGINE_REPLY_LLAMA3, "{\"name\": \"f\", \"parameters\": ", "}"},
    {ENGINE_REPLY_LLAMA3, "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": ", "}"},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": ", "}]"},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f[ARGS]", ""},
    {ENGINE_REPLY_DEEPSEEK, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>",
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {ENGINE_REPLY_DEEPSEEK, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n",
     "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {ENGINE_REPLY_GPT_OSS, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>", "<|call|>"},
};

Test(reply, calls_hold_any_json)
{
    static const char arguments[] =
        "{\"a\": {\"b\": [1, {\"c\": \"}]\\\"{\"}], \"ü\": null}, \"d\": \"<b> [x] \\\\ 世😀\", \"e\": -1.5}";
    for (size_t i = 0; i < sizeof forms_of_calls / sizeof *forms_of_calls; i++) {
        char text[1024], parts[1024];
        snprintf(text, sizeof text, "%s%s%s", forms_of_calls[i].before, arguments, forms_of_calls[i].after);
        snprintf(parts, sizeof parts, "\n0:f(%s)", arguments);
        expect(forms_of_calls[i].format, text, parts);
    }
    /* Reasoning first, text around, several calls, one of them broken. */
    expect(
        ENGINE_REPLY_HERMES,
        "<think>\nTwo.\n</think>\n\nBoth:\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> and "
        "<tool_call>{\"name\":\"g\",}</tool_call>\n<tool_call>{\"name\":\"h\",\"arguments\":{}}</tool_call>",
        "\nR:Two.\nC:Both:\n0:f({})\nC:and <tool_call>{\"name\":\"g\",}</tool_call>\n1:h({})");
    expect_without_tools(ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f[ARGS]{}", "\nC:[TOOL_CALLS]f[ARGS]{}");
    expect_without_tools(ENGINE_REPLY_DEEPSEEK, "<think>a</think><｜tool▁calls▁begin｜>",
                         "\nR:a\nC:<｜tool▁calls▁begin｜>");
}

/* A mark in a string of a call is text. */
Test(reply, marks_in_strings)
{
    expect(ENGINE_REPLY_HERMES,
           "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\": "
           "\"x</tool_call>\\\"</tool_call>\\\\\"}}</tool_call> ok",
           "\n0:f({\"a\": \"x</tool_call>\\\"</tool_call>\\\\\"})\nC:ok");
    expect(ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]g[ARGS]{}\"}[TOOL_CALLS]g[ARGS]{}",
           "\n0:f({\"a\": \"[TOOL_CALLS]g[ARGS]{}\"})\n1:g({})");
    expect(ENGINE_REPLY_MISTRAL, "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"a\": \"[TOOL_CALLS]\"}}]",
           "\n0:f({\"a\": \"[TOOL_CALLS]\"})");
    expect(ENGINE_REPLY_DEEPSEEK,
           "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": "
           "\"<｜tool▁call▁end｜>\"}<｜tool▁call▁end｜>"
           "<｜tool▁calls▁end｜>",
           "\n0:f({\"a\": \"<｜tool▁call▁end｜>\"})");
    expect(ENGINE_REPLY_DEEPSEEK,
           "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
           "\"```<｜tool▁call▁end｜```\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
           "\n0:f({\"a\": \"```<｜tool▁call▁end｜```\"})");
    expect(ENGINE_REPLY_GPT_OSS,
           "<|channel|>commentary to=functions.f<|message|>{\"a\": \"<|call|><|end|>\"}<|call|>",
           "\n0:f({\"a\": \"<|call|><|end|>\"})");
    expect(ENGINE_REPLY_LLAMA3, "{\"name\": \"f\", \"parameters\": {\"a\": \"<|python_tag|>}\"}}",
           "\n0:f({\"a\": \"<|python_tag|>}\"})");
    /* In what is no call, a quotation mark opens nothing. */
    expect(
        ENGINE_REPLY_HERMES,
        "<tool_call>{\"name\": \"f}</tool_call> \"a <tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
        "\nC:<tool_call>{\"name\": \"f}</tool_call> \"a\n0:g({})");
    expect(ENGINE_REPLY_HERMES, "<tool_call>{\"name\": \"\\", "\nC:<tool_call>{\"name\": \"\\");
    expect(ENGINE_REPLY_HERMES,
           "<tool_call>\n<function=f><parameter=a>\"</parameter></function></tool_call>ok",
           "\n0:f({\"a\": \"\\\"\"})\nC:ok");
}

Test(reply, elements_of_qwen)
{
    expect(ENGINE_REPLY_HERMES,
           "<tool_call>\n<function=weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n3\n"
           "</parameter>\n<parameter=note>\na < b\n</parameter>\n</function>\n</tool_call>",
           "\n0:weather({\"city\": \"12\", \"days\": 3, \"note\": \"a < b\"})");
    expect(ENGINE_REPLY_HERMES, "<tool_call><function=f></function></tool_call>", "\n0:f({})");
    expect(ENGINE_REPLY_HERMES, "<tool_call><function=f><parameter=</function></tool_call>",
           "\nC:<tool_call><function=f><parameter=</function></tool_call>");
}

Test(reply, llama3)
{
    expect(ENGINE_REPLY_LLAMA3, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Bonn\"}}",
           "\n0:weather({\"city\": \"Bonn\"})");
    expect(ENGINE_REPLY_LLAMA3,
           "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
           "\n0:f({})\n1:g({})");
    expect(ENGINE_REPLY_LLAMA3, "<|python_tag|>brave_search.call(query=\"a, b=c\", n=2)",
           "\n0:brave_search({\"query\": \"a, b=c\", \"n\": 2})");
    expect(ENGINE_REPLY_LLAMA3, "<|python_tag|>print(1)", "\n0:python({\"code\": \"print(1)\"})");
    expect(ENGINE_REPLY_LLAMA3, "{\"answer\": 42}", "\nC:{\"answer\": 42}");
    expect(ENGINE_REPLY_LLAMA3, "Well: {\"name\": \"f\", \"parameters\": {}}",
           "\nC:Well: {\"name\": \"f\", \"parameters\": {}}");
    expect_without_tools(ENGINE_REPLY_LLAMA3, "{\"name\": \"f\", \"parameters\": {}}",
                         "\nC:{\"name\": \"f\", \"parameters\": {}}");
}

Test(reply, mistral)
{
    expect(ENGINE_REPLY_MISTRAL,
           "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": [1]}, \"id\": \"abcdefghi\"}, {\"name\": "
           "\"g\", \"arguments\": {}}]",
           "\n0:f#abcdefghi({\"a\": [1]})\n1:g({})");
    expect(ENGINE_REPLY_MISTRAL, "So: [TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]x7[ARGS]{}",
           "\nC:So:\n0:f({\"a\": 1})\n1:g#x7({})");
    expect(ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f[ARGS]{\"a\"", "\nC:[TOOL_CALLS]f[ARGS]{\"a\"");
    expect(ENGINE_REPLY_MISTRAL, "[1] a [TOOL", "\nC:[1] a [TOOL");
}

Test(reply, deepseek)
{
    expect(ENGINE_REPLY_DEEPSEEK,
           "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```"
           "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<"
           "｜tool▁call▁end｜>"
           "<｜tool▁calls▁end｜>",
           "\nC:Ok.\n0:f({\"a\": 1})\n1:g({})");
    expect(ENGINE_REPLY_DEEPSEEK,
           "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": \"```json\"}<｜tool▁call▁end｜>"
           "<｜tool▁calls▁end｜>",
           "\n0:f({\"a\": \"```json\"})");
    expect_after(ENGINE_REPLY_DEEPSEEK, "<｜Assistant｜><think>", "I see.</think>Hi.", "\nR:I see.\nC:Hi.");
}

Test(reply, gpt_oss)
{
    expect(ENGINE_REPLY_GPT_OSS,
           "<|channel|>analysis<|message|>I see.<|end|><|start|>assistant<|channel|>final<|message|>Hi "
           "<b>.<|return|>",
           "\nR:I see.\nC:Hi <b>.");
    expect(ENGINE_REPLY_GPT_OSS,
           "<|channel|>analysis<|message|>I see.<|end|><|start|>assistant<|channel|>commentary "
           "to=functions.weather <|constrain|>json<|message|>{\"city\": \"Bonn\"}<|call|>",
           "\nR:I see.\n0:weather({\"city\": \"Bonn\"})");
    expect(ENGINE_REPLY_GPT_OSS, " to=functions.f<|channel|>commentary json<|message|>{}", "\n0:f({})");
    expect(ENGINE_REPLY_GPT_OSS, "<|channel|>commentary<|message|>First, a plan.<|end|><|start|>assistant",
           "\nC:First, a plan.");
    expect_after(ENGINE_REPLY_GPT_OSS, "<|end|><|start|>assistant<|channel|>final<|message|>", "Hi.",
                 "\nC:Hi.");
    expect_after(ENGINE_REPLY_GPT_OSS, "<|end|><|start|>assistant", "<|channel|>final<|message|>Hi.",
                 "\nC:Hi.");
    expect(ENGINE_REPLY_GPT_OSS, "Hi.", "\nC:Hi.");
    expect_without_tools(ENGINE_REPLY_GPT_OSS, "<|channel|>final<|message|>Hi. \n<|return|>", "\nC:Hi.");
    expect(ENGINE_REPLY_GPT_OSS, "<|channel|>anal", "");
    expect(ENGINE_REPLY_GPT_OSS, "<|channel|>commentary to=f<|message|>{\"a\"<|call|>", "\nC:{\"a\"");
}

static const char two_tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
                                "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]";

static void expect_as_written(uint32_t format, const char *text, const char *parts)
{
    expect_of((struct engine_reply_options){.format = format,
                                            .tools = two_tools,
                                            .flags = ENGINE_REPLY_CALLS_AS_WRITTEN},
              text, parts);
}

/* Wherever a call is cut after its name, what there is of its arguments is handed out; before that, nothing is. */
Test(reply, calls_as_written)
{
    static const char arguments[] = "{\"x\":  \"a}]\\\"{\\\\\", \"y\": [{}, \"ü\"]}";
    for (size_t i = 0; i < sizeof forms_of_calls / sizeof *forms_of_calls; i++) {
        char text[512], parts[512];
        uint32_t format = forms_of_calls[i].format;
        snprintf(text, sizeof text, "%s%s%s", forms_of_calls[i].before, arguments, forms_of_calls[i].after);
        snprintf(parts, sizeof parts, "\n0:f(%s)", arguments);
        expect_as_written(format, text, parts);
        for (size_t n = 1; n < strlen(arguments); n++) {
            snprintf(text, sizeof text, "%s%.*s", forms_of_calls[i].before, (int)n, arguments);
            snprintf(parts, sizeof parts, "\n0:f(%.*s…)", (int)n, arguments);
            expect_as_written(format, text, parts);
        }
    }
    /* As soon as it is written. */
    struct transcript out = {.text = ""};
    struct engine_reply *reply;
    struct engine_reply_options options = {.struct_size = sizeof options,
                                           .format = ENGINE_REPLY_HERMES,
                                           .tools = two_tools,
                                           .flags = ENGINE_REPLY_CALLS_AS_WRITTEN,
                                           .piece = write_piece,
                                           .user = &out};
    static const char *const steps[][2] = {{"<tool_call>{\"name\": \"f\"", ""},
                                           {", \"arguments\": {", "\n0:f({"},
                                           {"\"x\": ", "\n0:f({\"x\": "},
                                           {"1}", "\n0:f({\"x\": 1})"},
                                           {"}</tool_call>", "\n0:f({\"x\": 1})"}};
    cr_assert_eq(engine_reply_create(&options, &reply), ENGINE_OK);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        cr_assert_eq(engine_reply_add(reply, steps[i][0], strlen(steps[i][0])), ENGINE_OK);
        cr_assert_str_eq(out.text, steps[i][1]);
    }
    cr_assert_eq(engine_reply_end(reply), ENGINE_OK);
    engine_reply_destroy(reply);
    cr_assert_eq(out.n_pieces, 3);
}

Test(reply, several_calls_as_written)
{
    expect_as_written(ENGINE_REPLY_HERMES,
                      "<think>a</think>So: <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
                      "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":1}}</tool_call>ok",
                      "\nR:a\nC:So:\n0:f({})\n1:g({\"a\":1})\nC:ok");
    expect_as_written(ENGINE_REPLY_MISTRAL,
                      "[TOOL_CALLS] [{\"id\": \"x7\", \"name\": \"f\", \"arguments\": {\"a\": [1]}, \"id\": "
                      "\"}\"}, {\"name\": \"g\", \"arguments\": {\"b\": ",
                      "\n0:f#x7({\"a\": [1]})\n1:g({\"b\": …)");
    expect_as_written(ENGINE_REPLY_MISTRAL,
                      "[TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]g\"}[TOOL_CALLS]g[CALL_ID]x[ARGS]{}",
                      "\n0:f({\"a\": \"[TOOL_CALLS]g\"})\n1:g#x({})");
    expect_as_written(ENGINE_REPLY_MISTRAL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"na",
                      "\n0:f({})");
    expect_as_written(ENGINE_REPLY_DEEPSEEK,
                      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
                      "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{\"a\"",
                      "\n0:f({})\n1:g({\"a\"…)");
    /* Words after a call are content; a mark in a string that is cut is an argument. */
    expect_as_written(ENGINE_REPLY_LLAMA3, "{\"name\": \"f\", \"parameters\": {}}\n\nThis calls f.",
                      "\n0:f({})\nC:This calls f.");
    expect_as_written(ENGINE_REPLY_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"</tool_call> b",
                      "\n0:f({\"a\":\"</tool_call> b…)");
    /* A mistake in the arguments. */
    expect_as_written(ENGINE_REPLY_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{a}}</tool_call> b",
                      "\n0:f({a})\nC:b");
}

/* What can't be followed comes as it does otherwise. */
Test(reply, other_calls_as_written)
{
    expect_as_written(ENGINE_REPLY_HERMES, "a <tool_call>{\"name\": \"f", "\nC:a");
    expect_as_written(ENGINE_REPLY_HERMES, "<tool_call>{\"name\":\"h\",\"arguments\":{ }}</tool_call>",
                      "\n0:h({})");
    expect_as_written(ENGINE_REPLY_HERMES, "<tool_call>{\"arguments\":{ },\"name\":\"f\"}</tool_call>",
                      "\n0:f({})");
    expect_as_written(ENGINE_REPLY_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":\"{}\"}</tool_call>",
                      "\n0:f({})");
    expect_as_written(ENGINE_REPLY_HERMES, "a <tool_call>{\"name\": 1}</tool_call> x",
                      "\nC:a <tool_call>{\"name\": 1}</tool_call> x");
    expect_as_written(ENGINE_REPLY_HERMES, "<tool_call>\n<function=f></function></tool_call>", "\n0:f({})");
    expect_as_written(ENGINE_REPLY_LLAMA3, "{\"answer\": 42}", "\nC:{\"answer\": 42}");
    expect_as_written(ENGINE_REPLY_LLAMA3, "{\"name", "\nC:{\"name");
    expect_as_written(ENGINE_REPLY_LLAMA3, "<|python_tag|>print(1)", "\n0:python({\"code\": \"print(1)\"})");
    expect_as_written(ENGINE_REPLY_GPT_OSS, "<|channel|>commentary to=functions.f<|message|>[1]<|call|>",
                      "\nC:[1]");
}

Test(reply, format_of_a_template)
{
    struct {
        const char *template_text, *reply, *parts;
    } cases[] = {
        {"{{ '<tool_call>' }}", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", "\n0:f({})"},
        {"<|start_header_id|> tools", "{\"name\":\"f\",\"parameters\":{}}", "\n0:f({})"},
        {"[AVAILABLE_TOOLS] [TOOL_CALLS]", "[TOOL_CALLS]f[ARGS]{}", "\n0:f({})"},
        {"<｜tool▁calls▁begin｜>",
         "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>", "\n0:f({})"},
        {"<|channel|>", "<|channel|>final<|message|>Hi", "\nC:Hi"},
        {"<|im_start|>", "<tool_call>", "\nC:<tool_call>"},
        {NULL, "<tool_call>", "\nC:<tool_call>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_of((struct engine_reply_options){.tools = tools, .template_text = cases[i].template_text},
                  cases[i].reply, cases[i].parts);
}

Test(reply, refuses)
{
    struct transcript out = {.text = ""};
    struct engine_reply *reply;
    struct engine_reply_options options = {.struct_size = sizeof options, .piece = write_piece, .user = &out};
    options.format = 7;
    cr_assert_eq(engine_reply_create(&options, &reply), ENGINE_ERROR_ARGUMENT);
    cr_assert_null(reply);
    options.format = 0;
    options.flags = 2;
    cr_assert_eq(engine_reply_create(&options, &reply), ENGINE_ERROR_ARGUMENT);
    options.flags = 0;
    options.tools = "{}";
    cr_assert_eq(engine_reply_create(&options, &reply), ENGINE_ERROR_ARGUMENT);
    options.tools = "[";
    cr_assert_eq(engine_reply_create(&options, &reply), ENGINE_ERROR_ARGUMENT);
    options.tools = NULL;
    options.piece = NULL;
    cr_assert_eq(engine_reply_create(&options, &reply), ENGINE_ERROR_ARGUMENT);
    options.struct_size = 0;
    cr_assert_eq(engine_reply_create(&options, &reply), ENGINE_ERROR_ARGUMENT);
    engine_reply_destroy(NULL);
}
