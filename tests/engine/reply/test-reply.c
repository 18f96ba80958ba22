/* test-reply.c: replies split into content, reasoning and tool calls. Each reply is added whole and byte by
 * byte; both must give the same. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* Reads `length` bytes, `n` at a time; `cut`: a limit ended them. */
static struct transcript read_reply(struct engine_reply_options options, bool cut, const char *text,
                                    size_t length, size_t n)
{
    struct transcript out = {.text = ""};
    struct engine_reply *reply;
    options.struct_size = sizeof options;
    options.piece = write_piece;
    options.user = &out;
    cr_assert_eq(engine_reply_create(&options, &reply), ENGINE_OK, "%s", engine_error_message());
    for (size_t at = 0; at < length; at += n)
        cr_assert_eq(engine_reply_add(reply, text + at, length - at < n ? length - at : n), ENGINE_OK);
    if (cut) cr_assert_eq(engine_reply_cut(reply), ENGINE_OK);
    cr_assert_eq(engine_reply_end(reply), ENGINE_OK);
    cr_assert_eq(engine_reply_end(reply), ENGINE_OK);
    cr_assert_not(out.in_call);
    cr_assert_eq(engine_reply_add(reply, "x", 1), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(engine_reply_cut(reply), ENGINE_ERROR_ARGUMENT);
    engine_reply_destroy(reply);
    return out;
}

static void expect_end(struct engine_reply_options options, bool cut, const char *text, const char *parts)
{
    for (size_t step = 1; step <= 2; step++) {
        size_t length = strlen(text);
        struct transcript out = read_reply(options, cut, text, length, step == 1 ? 1 : length);
        cr_assert_str_eq(out.text, parts, "%s\nwas read as\n%s\ninstead of\n%s", text, out.text, parts);
    }
}

static void expect_of(struct engine_reply_options options, const char *text, const char *parts)
{
    expect_end(options, false, text, parts);
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
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f[CALL_ID][ARGS]", ""},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f", ""},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS] f\n", ""},
    {ENGINE_REPLY_DEEPSEEK, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>",
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {ENGINE_REPLY_DEEPSEEK, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n",
     "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {ENGINE_REPLY_GPT_OSS, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>", "<|call|>"},
    {ENGINE_REPLY_KIMI, "<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>",
     "<|tool_call_end|><|tool_calls_section_end|>"},
    {ENGINE_REPLY_COHERE,
     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": ",
     "}\n]<|END_ACTION|>"},
    {ENGINE_REPLY_COMMAND_R, "Action:\n```json\n[\n{\"tool_name\": \"f\", \"parameters\": ", "}\n]\n```"},
    {ENGINE_REPLY_COMMAND_R, "Action: ```json\n[\n{\"tool_name\": \"f\", \"parameters\": ", "}\n]\n```"},
    {ENGINE_REPLY_GRANITE, "<|tool_call|>[{\"name\": \"f\", \"arguments\": ", "}]"},
    {ENGINE_REPLY_GRANITE, "<|tool_call|>[{\"name\": \"f\", \"arguments\": ", "}]<|/tool_call|>"},
    {ENGINE_REPLY_HUNYUAN, "<tool_calls>[{\"name\": \"f\", \"arguments\": ", "}]</tool_calls>"},
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
        "\nR:Two.\nC:Both:\n0:f({})\nC:\nand <tool_call>{\"name\":\"g\",}</tool_call>\n1:h({})");
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
    /* Marks of a family's own: Seed-OSS. */
    expect(ENGINE_REPLY_HERMES,
           "<seed:think>hm</seed:think>\n<seed:tool_call>\n<function=f></function></seed:tool_call>",
           "\nR:hm\n0:f({})");
    expect(ENGINE_REPLY_HERMES, "<tool_call><function=f><parameter=</function></tool_call>",
           "\nC:<tool_call><function=f><parameter=</function></tool_call>");
}

/* What calls become whose arguments are not one JSON object. The tool `weather` says that a city is a text
 * and days are a number; of others nothing is known. */
static const struct {
    uint32_t format;
    const char *text, *parts;
} marked_calls[] = {
    /* Qwen3-Coder without the mark before its elements, and with one behind them. */
    {ENGINE_REPLY_HERMES,
     "I look.\n<function=weather>\n<parameter=city>\n7 </function>\n</parameter>\n</function>\n</tool_call>",
     "\nC:I look.\n0:weather({\"city\": \"7 </function>\"})"},
    {ENGINE_REPLY_HERMES, "<function=f>\n</function>\n<function=g>\n</function> ok </tool_call>",
     "\n0:f({})\n1:g({})\nC:ok </tool_call>"},
    {ENGINE_REPLY_HERMES, "Write <function=NAME> and </function>.",
     "\nC:Write <function=NAME> and </function>."},
    {ENGINE_REPLY_HERMES, "x <function=f and", "\nC:x <function=f and"},
    /* Between marks of its own there is one call. */
    {ENGINE_REPLY_HERMES, "<function=f>g>\n</function>", "\nC:<function=f>g>\n</function>"},
    {ENGINE_REPLY_GLM, "<tool_call>f g</tool_call>", "\nC:<tool_call>f g</tool_call>"},
    {ENGINE_REPLY_GLM,
     "<think>Hm.</think>I look.\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>12</arg_value>\n"
     "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>f\n</tool_call>",
     "\nR:Hm.\nC:I look.\n0:weather({\"city\": \"12\", \"days\": 3})\n1:f({})"},
    {ENGINE_REPLY_GLM,
     "<tool_call>f<arg_key>a</arg_key><arg_value>{\"b\": "
     "[true]}</arg_value><arg_key>c</arg_key><arg_value>a\n"
     "</tool_call> b</arg_value></tool_call> ok",
     "\n0:f({\"a\": {\"b\": [true]}, \"c\": \"a\\n</tool_call> b\"})\nC:ok"},
    {ENGINE_REPLY_MINIMAX,
     "So:\n<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">\"Bonn\"</parameter>\n"
     "<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke "
     "name=\"f\">\n</invoke>\n</minimax:tool_call>",
     "\nC:So:\n0:weather({\"city\": \"\\\"Bonn\\\"\", \"days\": 2})\n1:f({})"},
    {ENGINE_REPLY_MINIMAX,
     "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\"></parameter> <b></parameter></invoke>"
     "</minimax:tool_call>",
     "\n0:f({\"a\": \"</parameter> <b>\"})"},
    {ENGINE_REPLY_DEEPSEEK_V3_2,
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">5"
     "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" string=\"false\">[5]</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "\n0:f({\"a\": \"5\", \"b\": [5]})"},
    {ENGINE_REPLY_DEEPSEEK_V4,
     "<think>Hm.</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n</｜DSML｜invoke>\n"
     "<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     "\nR:Hm.\n0:f({})\n1:g({})"},
    {ENGINE_REPLY_DEEPSEEK,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>"
     "\n"
     "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n{\"a\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "\n0:f({})\n1:g({\"a\": 1})"},
    {ENGINE_REPLY_KIMI,
     "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": "
     "1}"
     "<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
     "<|tool_calls_section_end|>",
     "\nC:I look.\n0:f#functions.f:0({\"a\": 1})\n1:g#functions.g:1({})"},
    {ENGINE_REPLY_GEMMA4,
     "<|channel>thought\nHm.\n<channel|>I look.<|tool_call>call:f{a:<|\"|>x \"y\" "
     "{z}<|\"|>,b:[1,-2.5,true,null],"
     "c:{<|\"|>d e<|\"|>:{}}}<tool_call|><|tool_call>call:g{}<tool_call|>",
     "\nR:Hm.\nC:I look.\n0:f({\"a\": \"x \\\"y\\\" {z}\", \"b\": [1, -2.5, true, null], "
     "\"c\": {\"d e\": {}}})\n1:g({})"},
    /* Values that hold what ends others. */
    {ENGINE_REPLY_GEMMA4,
     "<|tool_call>call:f{x:[ ],y:[<|\"|>],}<|<|\"|>,'\\'],',{a]:[b:'c,{}],<|\"|>}:<|\"|> : 1}] , z : "
     "a:b}<tool_call|>",
     "\n0:f({\"x\": [], \"y\": [\"],}<|\", \"'],\", {\"a]\": [\"b:'c\", {}], \"}:\": 1}], \"z\": \"a:b\"})"},
    {ENGINE_REPLY_LFM2,
     "<|tool_call_start|>[f(a=(1, [2, ']'], {'b)': {}, \"\\\"}\": x}), b=-1.5 , c=[[]], d=it's)]"
     "<|tool_call_end|>",
     "\n0:f({\"a\": [1, [2, \"]\"], {\"b)\": {}, \"\\\"}\": \"x\"}], \"b\": -1.5, \"c\": [[]], \"d\": "
     "\"it's\"})"},
    /* Keys in quotes, with what ends bare ones. */
    {ENGINE_REPLY_GEMMA4, "<|tool_call>call:f{<|\"|>a:b<|\"|>:1}<tool_call|>", "\n0:f({\"a:b\": 1})"},
    {ENGINE_REPLY_GEMMA4, "<|tool_call>call:f{x:{<|\"|>a:1},<|\"|>:1},<|\"|>b:<|\"|>:2}<tool_call|>",
     "\n0:f({\"x\": {\"a:1},\": 1}, \"b:\": 2})"},
    {ENGINE_REPLY_LFM2,
     "I look.<|tool_call_start|>[f(a=\"x, \\\"y\\\" ] )\", b=[1, 'it\\'s', True], c={\"d\": None}), "
     "g()]<|tool_call_end|>"
     "ok",
     "\nC:I look.\n0:f({\"a\": \"x, \\\"y\\\" ] )\", \"b\": [1, \"it's\", true], \"c\": {\"d\": "
     "null}})\n1:g({})"
     "\nC:ok"},
    {ENGINE_REPLY_LFM2, "<|tool_call_start|>{\"name\": \"f\", \"arguments\": {}}<|tool_call_end|>",
     "\n0:f({})"},
    {ENGINE_REPLY_COHERE,
     "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
     "\"f\", "
     "\"parameters\": {}},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"g\", \"parameters\": {\"a\": "
     "1}}\n]"
     "<|END_ACTION|>",
     "\nR:Hm.\n0:f({})\n1:g({\"a\": 1})"},
    {ENGINE_REPLY_COHERE, "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>So <b>.<|END_RESPONSE|>",
     "\nR:Hm.\nC:So <b>."},
    {ENGINE_REPLY_HUNYUAN,
     "<tool_calls>\n[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
     "{}}}]\n</tool_calls>",
     "\n0:f({})"},
    {ENGINE_REPLY_HUNYUAN, "<think>\nHm.\n</think>\n<answer>\nSo.\n</answer>", "\nR:Hm.\nC:So."},
    {ENGINE_REPLY_GRANITE, "<think>Hm.</think><response>So.</response>", "\nR:Hm.\nC:So."},
    /* What is none of them stays as it was written. */
    {ENGINE_REPLY_GLM, "<tool_call>f <b></tool_call> x", "\nC:<tool_call>f <b></tool_call> x"},
    {ENGINE_REPLY_GLM, "<tool_call>f<arg_key>a</arg_key><arg_value>1</tool_call> x",
     "\nC:<tool_call>f<arg_key>a</arg_key><arg_value>1</tool_call> x"},
    {ENGINE_REPLY_GEMMA4, "<|tool_call>call:f{a:<|\"|>x}<tool_call|>",
     "\nC:<|tool_call>call:f{a:<|\"|>x}<tool_call|>"},
    {ENGINE_REPLY_LFM2, "<|tool_call_start|>[f(1)]<|tool_call_end|>",
     "\nC:<|tool_call_start|>[f(1)]<|tool_call_end|>"},
    {ENGINE_REPLY_LFM2, "<|tool_call_start|>[f(a=\"1)]<|tool_call_end|>",
     "\nC:<|tool_call_start|>[f(a=\"1)]<|tool_call_end|>"},
    {ENGINE_REPLY_KIMI, "<|tool_calls_section_begin|>x<|tool_calls_section_end|>",
     "\nC:<|tool_calls_section_begin|>x<|tool_calls_section_end|>"},
};

Test(reply, marked_calls)
{
    for (size_t i = 0; i < sizeof marked_calls / sizeof *marked_calls; i++)
        expect(marked_calls[i].format, marked_calls[i].text, marked_calls[i].parts);
}

/* Wherever such a reply is cut, it reads the same in one piece and byte by byte; and if the model ended it
 * there, nothing is lost but marks. */
Test(reply, marked_calls_cut_anywhere)
{
    for (size_t i = 0; i < sizeof marked_calls / sizeof *marked_calls; i++) {
        const char *text = marked_calls[i].text;
        for (size_t n = 1; n <= strlen(text); n++)
            for (int how = 0; how < 4; how++) {
                struct engine_reply_options options = {.format = marked_calls[i].format, .tools = tools};
                if (how & 1) options.flags = ENGINE_REPLY_CALLS_AS_WRITTEN;
                struct transcript one = read_reply(options, how & 2, text, n, 1),
                                  all = read_reply(options, how & 2, text, n, n);
                cr_assert_str_eq(one.text, all.text);
            }
    }
}

/* Values of the types that the tools say, as templates and models write them. */
Test(reply, types_of_values)
{
    static const char typed[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{"
        "\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"number\"},\"b\":{\"type\":\"boolean\"},\"l\":{"
        "\"type\":\"array\"},"
        "\"o\":{\"type\":\"object\"},\"m\":{\"type\":[\"string\",\"null\"]},\"e\":{\"enum\":[\"1\",\"2\"]},"
        "\"a\":{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}}}}}]";
    static const struct {
        const char *key, *value, *json;
    } cases[] = {
        {"s", "true", "\"true\""},
        {"s", "\"q\"", "\"\\\"q\\\"\""},
        {"s", "", "\"\""},
        {"s", "a\n\nb", "\"a\\n\\nb\""},
        {"n", "1.5", "1.5"},
        {"n", "x", "\"x\""},
        {"b", "false", "false"},
        {"b", "True", "true"},
        {"l", "[1, \"a\"]", "[1, \"a\"]"},
        {"l", "['a', True]", "[\"a\", true]"},
        {"o", "{'k': None}", "{\"k\": null}"},
        {"o", "{}", "{}"},
        {"m", "null", "null"},
        {"m", "None", "null"},
        {"m", "12", "\"12\""},
        {"e", "1", "\"1\""},
        {"a", "7", "7"},
        {"a", "x7", "\"x7\""},
        {"s", "<![CDATA[<b>]]>", "\"<b>\""},
        {"z", "5", "5"},
        {"z", "five", "\"five\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256], parts[256];
        snprintf(text, sizeof text,
                 "<tool_call>\n<function=f>\n<parameter=%s>\n%s\n</parameter>\n</function>\n</tool_call>",
                 cases[i].key, cases[i].value);
        snprintf(parts, sizeof parts, "\n0:f({\"%s\": %s})", cases[i].key, cases[i].json);
        expect_of((struct engine_reply_options){.format = ENGINE_REPLY_HERMES, .tools = typed}, text, parts);
    }
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
    expect(ENGINE_REPLY_GPT_OSS,
           "<|channel|>commentary<|message|>A plan.<|end|><|start|>assistant<|channel|>final<|message|>Hi.",
           "\nC:A plan.\n\nHi.");
}

static const char two_tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
                                "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]";

static struct engine_reply_options as_written(uint32_t format)
{
    return (struct engine_reply_options){
        .format = format, .tools = two_tools, .flags = ENGINE_REPLY_CALLS_AS_WRITTEN};
}

static void expect_as_written(uint32_t format, const char *text, const char *parts)
{
    expect_of(as_written(format), text, parts);
}

static void expect_cut(uint32_t format, const char *text, const char *parts)
{
    expect_end(as_written(format), true, text, parts);
}

/* Wherever a call is cut after its name, what there is of its arguments is handed out; before that, nothing
 * is. */
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
            expect_cut(format, text, parts);
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

/* Tools whose types are known: n is a number, s a text. */
static const char typed_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"number\"},\"o\":{\"type\":\"object\"}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"g\"}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}}}}}]";

/* Arguments that aren't one JSON object become one while they are written: together the pieces are what the
 * complete call gives. */
Test(reply, marked_calls_as_written)
{
    for (size_t i = 0; i < sizeof marked_calls / sizeof *marked_calls; i++) {
        const char *text = marked_calls[i].text;
        struct engine_reply_options options = {.format = marked_calls[i].format, .tools = typed_tools};
        struct transcript whole = read_reply(options, false, text, strlen(text), 1), followed;
        options.flags = ENGINE_REPLY_CALLS_AS_WRITTEN;
        for (size_t step = 1; step <= 2; step++) {
            followed = read_reply(options, false, text, strlen(text), step == 1 ? 1 : strlen(text));
            cr_assert(strcmp(followed.text, whole.text) == 0 || strstr(followed.text, "…"),
                      "%s\nwas read as\n%s\ninstead of\n%s", text, followed.text, whole.text);
        }
    }
}

static void count_piece(void *user, const struct engine_reply_piece *piece)
{
    *(size_t *)user += piece->text.length;
}

/* A long value that comes byte by byte costs no more than a few looks at each byte. */
Test(reply, long_values_as_written)
{
    static const char *const marks[][2] = {{"<|tool_call>call:g{a:[", "]}<tool_call|>"},
                                           {"<|tool_call_start|>[g(a=[", "])]<|tool_call_end|>"}};
    const int n_rows = 20000;
    for (size_t i = 0; i < 2; i++) {
        size_t total = 0, expected = strlen("{\"a\": []}") + (size_t)n_rows * strlen("[1, 2]") +
                                     (size_t)(n_rows - 1) * strlen(", ");
        struct engine_reply *reply;
        struct engine_reply_options options = {.struct_size = sizeof options,
                                               .format = i ? ENGINE_REPLY_LFM2 : ENGINE_REPLY_GEMMA4,
                                               .tools = two_tools,
                                               .flags = ENGINE_REPLY_CALLS_AS_WRITTEN,
                                               .piece = count_piece,
                                               .user = &total};
        clock_t begin = clock();
        cr_assert_eq(engine_reply_create(&options, &reply), ENGINE_OK);
        cr_assert_eq(engine_reply_add(reply, marks[i][0], strlen(marks[i][0])), ENGINE_OK);
        for (int row = 0; row < n_rows; row++) {
            static const char text[] = "[1,2],";
            for (size_t at = 0; at < strlen(text) - (row == n_rows - 1); at++)
                cr_assert_eq(engine_reply_add(reply, text + at, 1), ENGINE_OK);
            cr_assert_lt(clock() - begin, 5 * CLOCKS_PER_SEC, "%d of %d rows took 5 s", row, n_rows);
        }
        cr_assert_eq(engine_reply_add(reply, marks[i][1], strlen(marks[i][1])), ENGINE_OK);
        cr_assert_eq(engine_reply_end(reply), ENGINE_OK);
        engine_reply_destroy(reply);
        cr_assert_eq(total, expected, "%zu, not %zu", total, expected);
    }
}

/* What is handed out after each piece: the name, then strings as they are written, others when they end. */
static const struct {
    uint32_t format;
    const char *steps[16][2];
} followed_steps[] = {
    {ENGINE_REPLY_HERMES,
     {{"<tool_call>\n<function=f", ""},
      {">\n", ""},
      {"<parameter=s>", "\n0:f({\"s\": "},
      {"\n", "\n0:f({\"s\": "},
      {"rm \"x", "\n0:f({\"s\": \"rm \\\"x"},
      {"\n", "\n0:f({\"s\": \"rm \\\"x"},
      {"\xC3", "\n0:f({\"s\": \"rm \\\"x\\n"},
      {"\xBC</para", "\n0:f({\"s\": \"rm \\\"x\\n\xC3\xBC"},
      {"meter>", "\n0:f({\"s\": \"rm \\\"x\\n\xC3\xBC"},
      {"\n<parameter=n>1", "\n0:f({\"s\": \"rm \\\"x\\n\xC3\xBC\", \"n\": "},
      {"0</parameter>", "\n0:f({\"s\": \"rm \\\"x\\n\xC3\xBC\", \"n\": "},
      {"</function>", "\n0:f({\"s\": \"rm \\\"x\\n\xC3\xBC\", \"n\": 10})"}}},
    {ENGINE_REPLY_GLM,
     {{"<tool_call>f", ""},
      {"\n<arg_key>", "\n0:f("},
      {"s</arg_key>\n<arg_value>a", "\n0:f({\"s\": \"a"},
      {"</arg_value>b", "\n0:f({\"s\": \"a</arg_value>b"},
      {"</arg_value>\n", "\n0:f({\"s\": \"a</arg_value>b"},
      {"</tool_call>", "\n0:f({\"s\": \"a</arg_value>b\"})"}}},
    {ENGINE_REPLY_MINIMAX,
     {{"<minimax:tool_call>\n<invoke name=\"g\">\n</invoke>", "\n0:g({})"},
      {"\n<invoke name=\"f\">\n<parameter name=\"o\">{\"a\": ", "\n0:g({})\n1:f({\"o\": "},
      {"[1]}</parameter>\n</invoke>", "\n0:g({})\n1:f({\"o\": {\"a\": [1]}})"}}},
    {ENGINE_REPLY_DEEPSEEK_V3_2,
     {{"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"g\">\n<｜DSML｜parameter name=\"a\" string=\"",
       "\n0:g("},
      {"true\">5", "\n0:g({\"a\": \"5"},
      {"6</｜DSML｜parameter>\n</｜DSML｜invoke>", "\n0:g({\"a\": \"56\"})"}}},
    {ENGINE_REPLY_GEMMA4,
     {{"<|tool_call>call:f{", ""},
      {"s:<|", "\n0:f({\"s\": "},
      {"\"|>a \"b\" <|", "\n0:f({\"s\": \"a \\\"b\\\" "},
      {"\"|>,o:{a:1", "\n0:f({\"s\": \"a \\\"b\\\" \", \"o\": "},
      {"},n:1", "\n0:f({\"s\": \"a \\\"b\\\" \", \"o\": {\"a\": 1}, \"n\": "},
      {"}<tool_call|>", "\n0:f({\"s\": \"a \\\"b\\\" \", \"o\": {\"a\": 1}, \"n\": 1})"}}},
    {ENGINE_REPLY_GEMMA4,
     {{"<|tool_call>call:f{$r", ""},
      {"ef:", "\n0:f({\"$ref\": "},
      {"<|\"|>x", "\n0:f({\"$ref\": \"x"},
      {"<|\"|>}<tool_call|><|tool_call>call:g{<|\"|>a/(", "\n0:f({\"$ref\": \"x\"})"},
      {"<|\"|> :1,@b/c:<|\"|>y", "\n0:f({\"$ref\": \"x\"})\n1:g({\"a/(\": 1, \"@b/c\": \"y"},
      {"<|\"|>}<tool_call|>", "\n0:f({\"$ref\": \"x\"})\n1:g({\"a/(\": 1, \"@b/c\": \"y\"})"}}},
    {ENGINE_REPLY_LFM2,
     {{"<|tool_call_start|>[f", ""},
      {"(s=", "\n0:f({\"s\": "},
      {"'it\\", "\n0:f({\"s\": \"it"},
      {"'s \\u00e", "\n0:f({\"s\": \"it's "},
      {"9'", "\n0:f({\"s\": \"it's \xC3\xA9\""},
      {", n=2", "\n0:f({\"s\": \"it's \xC3\xA9\", \"n\": "},
      {"), g(", "\n0:f({\"s\": \"it's \xC3\xA9\", \"n\": 2})"},
      {")]<|tool_call_end|>", "\n0:f({\"s\": \"it's \xC3\xA9\", \"n\": 2})\n1:g({})"}}},
};

Test(reply, arguments_while_they_are_written)
{
    for (size_t i = 0; i < sizeof followed_steps / sizeof *followed_steps; i++) {
        struct transcript out = {.text = ""};
        struct engine_reply *reply;
        struct engine_reply_options options = {.struct_size = sizeof options,
                                               .format = followed_steps[i].format,
                                               .tools = typed_tools,
                                               .flags = ENGINE_REPLY_CALLS_AS_WRITTEN,
                                               .piece = write_piece,
                                               .user = &out};
        cr_assert_eq(engine_reply_create(&options, &reply), ENGINE_OK);
        for (size_t k = 0; k < 16 && followed_steps[i].steps[k][0]; k++) {
            const char *const *step = followed_steps[i].steps[k];
            cr_assert_eq(engine_reply_add(reply, step[0], strlen(step[0])), ENGINE_OK);
            cr_assert_str_eq(out.text, step[1], "after %s: %s", step[0], out.text);
        }
        cr_assert_eq(engine_reply_end(reply), ENGINE_OK);
        cr_assert_not(strstr(out.text, "…"));
        engine_reply_destroy(reply);
    }
}

/* Cut before the first argument: none, and not {}, which nobody wrote. Later: what there is of them. */
Test(reply, marked_calls_cut)
{
    static const struct {
        uint32_t format;
        const char *text, *parts;
    } cases[] = {
        {ENGINE_REPLY_HERMES, "<tool_call>\n<function=f>", "\n0:f(…)"},
        {ENGINE_REPLY_HERMES, "<tool_call>\n<function=f>\n<param", "\n0:f(…)"},
        {ENGINE_REPLY_HERMES, "<tool_call>\n<function=f>\n<parameter=s>", "\n0:f({\"s\": …)"},
        {ENGINE_REPLY_HERMES, "<tool_call>\n<function=f>\n<parameter=s>ab\n</par", "\n0:f({\"s\": \"ab…)"},
        {ENGINE_REPLY_HERMES, "<tool_call>\n<function=f", ""},
        {ENGINE_REPLY_HERMES, "<function=f>", "\n0:f(…)"},
        {ENGINE_REPLY_HERMES, "<tool_call><function=g></function>\n<function=f>\n", "\n0:g({})\n1:f(…)"},
        {ENGINE_REPLY_GLM, "<tool_call>f\n", "\n0:f(…)"},
        {ENGINE_REPLY_GLM, "<tool_call>f", ""},
        {ENGINE_REPLY_GLM, "<tool_call>f\n<arg_key>n</arg_key><arg_value>1</arg_value>", "\n0:f({\"n\": …)"},
        {ENGINE_REPLY_MINIMAX, "<minimax:tool_call>\n<invoke name=\"f\">", "\n0:f(…)"},
        {ENGINE_REPLY_GEMMA4, "<|tool_call>call:f{", "\n0:f(…)"},
        {ENGINE_REPLY_GEMMA4, "<|tool_call>call:f{n:1,s:<|\"|>a", "\n0:f({\"n\": 1, \"s\": \"a…)"},
        {ENGINE_REPLY_LFM2, "<|tool_call_start|>[f(", "\n0:f(…)"},
        {ENGINE_REPLY_LFM2, "<|tool_call_start|>[f(n=1, s=\"a", "\n0:f({\"n\": 1, \"s\": \"a…)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct engine_reply_options options = as_written(cases[i].format);
        options.tools = typed_tools;
        expect_end(options, true, cases[i].text, cases[i].parts);
        /* As a whole it is what the model wrote. */
        options.flags = 0;
        struct transcript out = read_reply(options, true, cases[i].text, strlen(cases[i].text), 1);
        cr_assert(!strstr(out.text, ":f("), "%s was read as %s", cases[i].text, out.text);
    }
    /* What the model ended itself, it meant. */
    expect_as_written(ENGINE_REPLY_GLM, "<tool_call>f", "\n0:f({})");
    /* A mistake in the arguments of a call that has begun. */
    expect_as_written(ENGINE_REPLY_HERMES,
                      "<tool_call>\n<function=f>\n<parameter=a>\n1\n</function> </x>\n</tool_call> b",
                      "\n0:f({\"a\": …)");
    expect_as_written(ENGINE_REPLY_HERMES,
                      "<tool_call><function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>"
                      "</tool_call>",
                      "\n0:f({\"a\": 1…)");
    expect_as_written(ENGINE_REPLY_LFM2, "<|tool_call_start|>[f(1)]<|tool_call_end|>",
                      "\nC:<|tool_call_start|>[f(1)]<|tool_call_end|>");
    expect_as_written(ENGINE_REPLY_LFM2, "<|tool_call_start|>[f(a=1), g(2)]<|tool_call_end|>",
                      "\n0:f({\"a\": 1})\nC:g(2)]");
}

Test(reply, several_calls_as_written)
{
    expect_as_written(ENGINE_REPLY_HERMES,
                      "<think>a</think>So: <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
                      "<tool_call>{\"name\":\"g\",\"arguments\":{\"a\":1}}</tool_call>ok",
                      "\nR:a\nC:So:\n0:f({})\n1:g({\"a\":1})\nC: ok");
    expect_as_written(ENGINE_REPLY_MISTRAL,
                      "[TOOL_CALLS] [{\"id\": \"x7\", \"name\": \"f\", \"arguments\": {\"a\": [1]}, \"id\": "
                      "\"}\"}, {\"name\": \"g\", \"arguments\": {\"b\": ",
                      "\n0:f#x7({\"a\": [1]})\n1:g({\"b\": …)");
    expect_as_written(ENGINE_REPLY_MISTRAL,
                      "[TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]g\"}[TOOL_CALLS]g[CALL_ID]x[ARGS]{}",
                      "\n0:f({\"a\": \"[TOOL_CALLS]g\"})\n1:g#x({})");
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
}

/* Texts that look like calls and are none. */
static const struct {
    uint32_t format;
    const char *text;
} broken_calls[] = {
    {ENGINE_REPLY_HERMES, "<tool_call>"},
    {ENGINE_REPLY_HERMES, "  <tool_call></tool_call>"},
    {ENGINE_REPLY_HERMES, "<tool_call>\n{\"name\": \"get_wea"},
    {ENGINE_REPLY_HERMES, "Sure.\n<tool_call>\n{\"name\": \"get_wea\n</tool_call>\nDone"},
    {ENGINE_REPLY_HERMES, "<tool_call>{\"name\": \"f\"}</tool_call>"},
    {ENGINE_REPLY_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": "},
    {ENGINE_REPLY_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": 5}</tool_call> x"},
    {ENGINE_REPLY_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": [}</tool_call>"},
    {ENGINE_REPLY_HERMES, "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"},
    {ENGINE_REPLY_LLAMA3, "{\"name\": \"f\"}"},
    {ENGINE_REPLY_LLAMA3, " {\"name\": \"f\", \"parameters\": 1} x"},
    {ENGINE_REPLY_LLAMA3, "<|python_tag|>"},
    {ENGINE_REPLY_LLAMA3, "So <|python_tag|>{\"name\": \"get_wea"},
    {ENGINE_REPLY_LLAMA3, "<|python_tag|>{\"name\": \"f\", \"parameters\": 1}"},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]"},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]get_weather"},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]I mean {\"city\": \"Rome\"}"},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]I mean[ARGS]{\"city\": \"Rome\"}"},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f: it says[CALL_ID]x7[ARGS]{}"},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS][{\"name\": \"the weather\", \"arguments\": {}}]"},
    {ENGINE_REPLY_HERMES, "<tool_call>{\"name\": \"the weather\", \"arguments\": {}}</tool_call>"},
    {ENGINE_REPLY_HERMES, "<tool_call><function=NAME, as above></function></tool_call>"},
    {ENGINE_REPLY_LLAMA3, "{\"name\": \"Jane Doe\", \"parameters\": {}}"},
    {ENGINE_REPLY_DEEPSEEK,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f or g<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>"},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]{\"city\": \"Rome\"}"},
    {ENGINE_REPLY_MISTRAL, "a [TOOL_CALLS]f[ARGS]\"city\""},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS][{\"name\": \"f\", \"arg"},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f[TOOL_CALLS]g[TOOL_CALLS]"},
    {ENGINE_REPLY_DEEPSEEK, "<｜tool▁calls▁begin｜>"},
    {ENGINE_REPLY_DEEPSEEK, "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜> x"},
    {ENGINE_REPLY_DEEPSEEK, "Hm <｜tool▁calls▁begin｜>what<｜tool▁calls▁end｜>x"},
    {ENGINE_REPLY_DEEPSEEK, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁se"},
    {ENGINE_REPLY_DEEPSEEK,
     "<｜tool▁calls▁begin｜>\n<｜tool▁call▁begin｜>f<｜tool▁sep｜>5<｜tool▁call▁end｜>\n"
     "<｜tool▁calls▁end｜>"},
    {ENGINE_REPLY_DEEPSEEK, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁call▁end｜> and "
                            "<｜tool▁call▁begin｜>g<｜tool▁call▁end｜>"},
    {ENGINE_REPLY_GPT_OSS, "<|channel|>comm"},
    {ENGINE_REPLY_GPT_OSS, "<|channel|>commentary to=functions.f"},
    {ENGINE_REPLY_GPT_OSS, "<|channel|>commentary to=functions.f<|message|>[1]<|call|>"},
    {ENGINE_REPLY_GPT_OSS, " to=f<|channel|>commentary json<|message|>\"{}\"<|call|>"},
    {ENGINE_REPLY_GPT_OSS, "<|start|>assistant to=f<|message|>print(1)"},
    {ENGINE_REPLY_GPT_OSS, "<|channel|>commentary to=functions.f<|start|>assist"},
};

/* What looks like a call but isn't one is content as it was written, to the last byte. */
Test(reply, broken_calls_are_content)
{
    for (size_t i = 0; i < sizeof broken_calls / sizeof *broken_calls; i++) {
        char parts[1024];
        snprintf(parts, sizeof parts, "\nC:%s", broken_calls[i].text);
        expect(broken_calls[i].format, broken_calls[i].text, parts);
        expect_as_written(broken_calls[i].format, broken_calls[i].text, parts);
    }
    expect(ENGINE_REPLY_GPT_OSS,
           "<|channel|>final<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
           "to=f<|message|>{a<|call|>",
           "\nC:Hm.<|start|>assistant<|channel|>commentary to=f<|message|>{a<|call|>");
    /* What another message follows is no header. */
    expect(ENGINE_REPLY_GPT_OSS, "Hm.<|start|>assistant", "\nC:Hm.");
    expect(ENGINE_REPLY_GPT_OSS, "Hm. <|start|>assistant<|channel|>final<|message|>Hi.", "\nC:Hm.\n\nHi.");
    expect(ENGINE_REPLY_GPT_OSS,
           "<|channel|>final<|message|>Hm.<|end|>So.<|start|>assistant<|start|>assistant", "\nC:Hm.\n\nSo.");
    expect_as_written(
        ENGINE_REPLY_GPT_OSS,
        "<|channel|>commentary to=functions.f<|start|>assistant to=functions.g<|message|>{}<|call|>",
        "\nC:<|channel|>commentary to=functions.f\n0:g({})");
}

/* A tool may be called what the client likes; other names have the form that APIs demand. */
Test(reply, names_of_tools)
{
    static const char *const calls[][3] = {{"[TOOL_CALLS]", "[ARGS]", ""},
                                           {"[TOOL_CALLS]", "", ""},
                                           {"[TOOL_CALLS]", "[CALL_ID]x7[ARGS]", ""},
                                           {"[TOOL_CALLS][{\"name\": \"", "\", \"arguments\": ", "}]"}};
    struct engine_reply_options odd = as_written(ENGINE_REPLY_MISTRAL);
    odd.tools = "[{\"type\":\"function\",\"function\":{\"name\":\"wetter: köln\"}}]";
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (int as_whole = 0; as_whole <= 1; as_whole++) {
            char text[256];
            const char *id = strstr(calls[i][1], "x7") ? "#x7" : "";
            odd.flags = as_whole ? 0 : ENGINE_REPLY_CALLS_AS_WRITTEN;
            snprintf(text, sizeof text, "%swetter: köln%s{}%s", calls[i][0], calls[i][1], calls[i][2]);
            char parts[256];
            snprintf(parts, sizeof parts, "\n0:wetter: köln%s({})", id);
            expect_of(odd, text, parts);
            snprintf(text, sizeof text, "%sweather%s{}%s", calls[i][0], calls[i][1], calls[i][2]);
            snprintf(parts, sizeof parts, "\n0:weather%s({})", id);
            expect_of(odd, text, parts);
        }
    }
}

/* After a call that was one, what is none is content too. */
Test(reply, broken_after_a_call)
{
    expect_as_written(ENGINE_REPLY_MISTRAL,
                      "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": 5}]",
                      "\n0:f({})\nC:{\"name\": 5}]");
    expect_as_written(ENGINE_REPLY_MISTRAL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"na",
                      "\n0:f({})\nC:{\"na");
    expect_as_written(ENGINE_REPLY_MISTRAL, "Hm\n[TOOL_CALLS]f{}[TOOL_CALLS]g {", "\nC:Hm\n0:f({})\n1:g({…)");
    expect_as_written(ENGINE_REPLY_HERMES,
                      "<tool_call>{\"name\":\"f\",\"arguments\":{}\nI called it.</tool_call> ok",
                      "\n0:f({})\nC:I called it. ok");
    expect_as_written(ENGINE_REPLY_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{}, tail}</tool_call>",
                      "\n0:f({})\nC:, tail}");
    expect_as_written(ENGINE_REPLY_LLAMA3, "{\"name\": \"f\", \"parameters\": {}}, and [1]].",
                      "\n0:f({})\nC:, and [1]].");
    expect_as_written(ENGINE_REPLY_GPT_OSS, "<|channel|>commentary to=f<|message|>{}<b><|call|>",
                      "\n0:f({})\nC:<b>");
    expect_as_written(ENGINE_REPLY_DEEPSEEK,
                      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
                      "\n<｜tool▁call▁begin｜>g<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                      "\n0:f({})\nC:<｜tool▁call▁begin｜>g<｜tool▁call▁end｜>");
    expect(ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g", "\n0:f({})\nC:[TOOL_CALLS]g");
    expect(ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f{\"city\": Rome}", "\nC:[TOOL_CALLS]f{\"city\": Rome}");
}

/* Contents before and after a call stay apart by what stands before it, or after it. */
Test(reply, space_around_calls)
{
    static const char call[] = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    static const char *const cases[][3] = {
        /* before, after, the content after the call */
        {"Sure.\n", "\nDone", "\nDone"}, {"Sure.", "\n\nDone", "\n\nDone"},
        {"Sure. ", "Done", " Done"},     {"Sure.", "Done", "Done"},
        {"Sure.\n", "\n", ""},           {"", "\nDone", "Done"},
        {" \n", "\nDone", "Done"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t n_calls = 1; n_calls <= 2; n_calls++) {
            char text[512], parts[512];
            const char *begin = cases[i][0][0] == 'S' ? "\nC:Sure." : "";
            snprintf(text, sizeof text, "%s%s%s%s%s", cases[i][0], call, n_calls == 2 ? "\n" : "",
                     n_calls == 2 ? call : "", cases[i][1]);
            /* White space between two calls counts if there is none before them. */
            bool between = n_calls == 2 && strcmp(cases[i][0], "Sure.") == 0;
            snprintf(parts, sizeof parts, "%s\n0:f({})%s%s%s", begin, n_calls == 2 ? "\n1:f({})" : "",
                     cases[i][2][0] ? "\nC:" : "", between ? "\nDone" : cases[i][2]);
            expect(ENGINE_REPLY_HERMES, text, parts);
            expect_as_written(ENGINE_REPLY_HERMES, text, parts);
        }
    }
    expect_as_written(ENGINE_REPLY_MISTRAL,
                      "Sure.\n[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]\nDone",
                      "\nC:Sure.\n0:f({})\nC:\nDone");
    expect_as_written(ENGINE_REPLY_MISTRAL, "Sure.[TOOL_CALLS]f[ARGS]{} Done", "\nC:Sure.\n0:f({})\nC: Done");
    expect_as_written(ENGINE_REPLY_LLAMA3,
                      "Sure.\n\n<|python_tag|>{\"name\": \"f\", \"parameters\": {}}\nDone",
                      "\nC:Sure.\n0:f({})\nC:\n\nDone");
    expect_as_written(ENGINE_REPLY_DEEPSEEK,
                      "Sure.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
                      "<｜tool▁calls▁end｜>\nDone",
                      "\nC:Sure.\n0:f({})\nC:\nDone");
    expect_as_written(ENGINE_REPLY_GPT_OSS,
                      "<|channel|>commentary<|message|>Sure.<|end|><|start|>assistant<|channel|>commentary "
                      "to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>Done",
                      "\nC:Sure.\n0:f({})\nC:\n\nDone");
}

/* A call that a limit cuts where its arguments would begin has none, and not {}, which nobody wrote. */
Test(reply, cut_before_the_arguments)
{
    for (size_t i = 0; i < sizeof forms_of_calls / sizeof *forms_of_calls; i++) {
        const char *before = forms_of_calls[i].before;
        uint32_t format = forms_of_calls[i].format;
        char text[512], parts[512];
        for (size_t n = 1; n <= strlen(before); n++) {
            snprintf(text, sizeof text, "%.*s", (int)n, before);
            struct transcript out = read_reply(as_written(format), true, text, n, 1);
            cr_assert_null(strstr(out.text, "{}"), "%s\nwas read as\n%s", text, out.text);
            expect_cut(format, text, out.text);
            /* Complete calls, or what was written. */
            out =
                read_reply((struct engine_reply_options){.format = format, .tools = tools}, true, text, n, 1);
            cr_assert_null(strstr(out.text, "0:"), "%s\nwas read as\n%s", text, out.text);
        }
        /* Nothing tells that the arguments are next, if no mark stands before them. */
        bool is_bare = strncmp(before, "[TOOL_CALLS]f", 13) == 0 && !strstr(before, "[ARGS]");
        if (is_bare || strncmp(before, "[TOOL_CALLS] f", 14) == 0) continue;
        snprintf(parts, sizeof parts, "\n0:f(…)");
        expect_cut(format, before, parts);
        snprintf(text, sizeof text, "%s ", before);
        expect_cut(format, text, parts);
    }
    expect_cut(ENGINE_REPLY_MISTRAL,
               "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\":",
               "\n0:f({})\n1:g(…)");
    expect_cut(ENGINE_REPLY_GPT_OSS, "<|channel|>commentary to=functions.h<|message|>", "");
    /* What the model ended so is a call without arguments. */
    expect_as_written(ENGINE_REPLY_GPT_OSS, "<|channel|>commentary to=f<|message|><|call|>", "\n0:f({})");
    expect_as_written(ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f[ARGS]", "\n0:f({})");
}

/* Wherever a reply is cut, it reads the same in one piece and byte by byte, and no part of it is lost but the
 * head of the call that is cut; a reply that the model ended there loses nothing. */
Test(reply, cut_anywhere)
{
    for (size_t i = 0; i < sizeof forms_of_calls / sizeof *forms_of_calls; i++) {
        uint32_t format = forms_of_calls[i].format;
        bool oss = format == ENGINE_REPLY_GPT_OSS, bare = forms_of_calls[i].before[0] == '{';
        const char *begin = oss    ? "<|channel|>commentary<|message|>Hm.<|end|><|start|>assistant"
                            : bare ? ""
                                   : "Hm.\n";
        char text[512], content[512];
        snprintf(text, sizeof text, "%s%s{\"a\": 1}%s", begin, forms_of_calls[i].before,
                 forms_of_calls[i].after);
        for (size_t n = 1; n <= strlen(text); n++) {
            struct engine_reply_options whole = {.format = format, .tools = two_tools};
            for (int cut = 0; cut <= 1; cut++) {
                struct transcript one = read_reply(as_written(format), cut, text, n, 1),
                                  all = read_reply(as_written(format), cut, text, n, n);
                cr_assert_str_eq(one.text, all.text);
                one = read_reply(whole, cut, text, n, 1);
                all = read_reply(whole, cut, text, n, n);
                cr_assert_str_eq(one.text, all.text);
            }
            struct transcript ended = read_reply(as_written(format), false, text, n, n);
            snprintf(content, sizeof content, "\nC:%.*s", (int)n, text);
            if (!oss && !strstr(ended.text, "0:f("))
                cr_assert_str_eq(ended.text, content);
            else if (!oss)
                cr_assert(bare || strncmp(ended.text, "\nC:Hm.\n0:f(", 11) == 0, "%s", ended.text);
        }
    }
    expect_cut(ENGINE_REPLY_HERMES, "a <tool_call>{\"name\": \"f", "\nC:a");
    expect_cut(ENGINE_REPLY_MISTRAL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"na", "\n0:f({})");
    expect_cut(ENGINE_REPLY_GPT_OSS, "<|channel|>anal", "");
    expect_cut(ENGINE_REPLY_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool", "\n0:f({})");
    expect_cut(ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f[ARGS]{}[TOOL", "\n0:f({})");
    /* A program may lack its end. */
    expect_cut(ENGINE_REPLY_LLAMA3, "<|python_tag|>print(1", "\nC:<|python_tag|>print(1");
    expect_cut(ENGINE_REPLY_LLAMA3, "<|python_tag|>search.call(q=\"a\")", "\n0:search({\"q\": \"a\"})");
}

/* A template whose calls of the function `f` are written so. */
#define TURNS_SO(before, call, after)                                                                        \
    "{{ '<sys>' ~ tools | tojson ~ '</sys>' if tools }}{% for m in messages %}{{ '<|' ~ m.role ~ '|>' }}"    \
    "{{ m.content or '' }}{% if m.tool_calls %}" before                                                      \
    "{% for c in m.tool_calls %}{% set f = c.function %}" call "{% endfor %}" after                          \
    "{% endif %}<|end|>{% endfor %}"                                                                         \
    "{{ '<|assistant|>' if add_generation_prompt }}"
#define TURNS(call) TURNS_SO("", call, "")
#define KIMI_K3                                                                                              \
    TURNS_SO("<|open|>tools<|sep|>",                                                                         \
             "<|open|>call tool=\"{{ f.name }}\" index=\"{{ loop.index }}\"<|sep|>{% for k, v in "           \
             "f.arguments.items() %}<|open|>argument key=\"{{ k }}\" type=\"string\"<|sep|>{{ v "            \
             "}}<|close|>argument<|sep|>{% endfor %}<|close|>call<|sep|>",                                   \
             "<|close|>tools<|sep|>")
#define MINIMAX_M3                                                                                           \
    TURNS_SO("]<]minimax[>[<tool_call>\n",                                                                   \
             "]<]minimax[>[<invoke name=\"{{ f.name }}\">{% for k, v in f.arguments.items() "                \
             "%}]<]minimax[>[<{{ k }}>{{ v }}]<]minimax[>[</{{ k }}>{% endfor %}]<]minimax[>[</invoke>\n",   \
             "]<]minimax[>[</tool_call>")

/* A format is known by the call that the template writes, and by nothing else in it. */
Test(reply, format_by_the_call)
{
    static const struct {
        const char *template_text;
        uint32_t format;
    } cases[] = {
        {TURNS("\n<tool_call>\n{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}}\n"
               "</tool_call>"),
         ENGINE_REPLY_HERMES},
        {TURNS(
             "<tool_call>\n<function={{ f.name }}>\n{% for k, v in f.arguments.items() %}<parameter={{ k }}>"
             "\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>"),
         ENGINE_REPLY_HERMES},
        {TURNS("{\"name\": \"{{ f.name }}\", \"parameters\": {{ f.arguments | tojson }}}"),
         ENGINE_REPLY_LLAMA3},
        {TURNS("<|python_tag|>{\"name\": \"{{ f.name }}\", \"parameters\": {{ f.arguments | tojson }}}"),
         ENGINE_REPLY_LLAMA3},
        {TURNS_SO("[TOOL_CALLS] [",
                  "{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}, \"id\": \"{{ c.id "
                  "}}\"}",
                  "]</s>"),
         ENGINE_REPLY_MISTRAL},
        {TURNS("[TOOL_CALLS]{{ f.name }}[CALL_ID]{{ c.id }}[ARGS]{{ f.arguments | tojson }}"),
         ENGINE_REPLY_MISTRAL},
        {TURNS("[TOOL_CALLS]{{ f.name }}{{ f.arguments | tojson }}"), ENGINE_REPLY_MISTRAL},
        /* The arguments as a text, as some templates take them. */
        {TURNS_SO(
             "<｜tool▁calls▁begin｜>",
             "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ f.name + '\n```json\n' + f.arguments + '\n```' "
             "}}<｜tool▁call▁end｜>",
             "<｜tool▁calls▁end｜>"),
         ENGINE_REPLY_DEEPSEEK},
        {"{% for m in messages %}{% if m.tool_calls %}<|start|>assistant to=functions.{{ "
         "m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>{{ "
         "m.tool_calls[0].function.arguments | tojson }}<|call|>{% else %}<|start|>{{ m.role "
         "}}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}",
         ENGINE_REPLY_GPT_OSS},
        /* Marks of one family with the calls of another between them, or in a list. */
        {TURNS("<tool_call>{{ f.name }}\n{% for k, v in f.arguments.items() %}<arg_key>{{ k }}</arg_key>\n"
               "<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>"),
         ENGINE_REPLY_GLM},
        {TURNS("<tool_calls>[{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson "
               "}}}]</tool_calls><tool_call>"),
         ENGINE_REPLY_HUNYUAN},
        {TURNS(
             "<tool_call>{\"function\": \"{{ f.name }}\", \"args\": {{ f.arguments | tojson }}}</tool_call>"),
         ENGINE_REPLY_TEMPLATE},
        {TURNS("<function={{ f.name }}>{{ f.arguments | tojson }}</function>{# <|python_tag|> #}<|eom_id|>"),
         ENGINE_REPLY_TEMPLATE},
        {TURNS(" functools[{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}}]"),
         ENGINE_REPLY_TEMPLATE},
        {TURNS("[TOOL_CALLS]{{ f.name }} with {{ f.arguments | tojson }}"), ENGINE_REPLY_TEMPLATE},
        {TURNS("<tool_call>{\"name\": \"{{ f.name }}\", \"arguments\": {}}</tool_call>"), ENGINE_REPLY_PLAIN},
        /* Words alone: in a comment, in a condition, in what it tells the model, in what it never writes. */
        {TURNS("{# <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> #}"), ENGINE_REPLY_PLAIN},
        {"{% for m in messages %}{{ m.content.split('<tool_call>')[0] }}{% endfor %}", ENGINE_REPLY_PLAIN},
        {"{% if tools %}Write <tool_call>NAME</tool_call>.{% endif %}{% for m in messages %}{{ m.content "
         "}}{% "
         "endfor %}",
         ENGINE_REPLY_PLAIN},
        {"<|channel|> <|start_header_id|> tools [TOOL_CALLS]", ENGINE_REPLY_PLAIN},
        /* No calls, but the model is told how to write them. */
        {"{% if tools %}Write <tool_call>\n{\"name\": NAME, \"arguments\": {}}\n</tool_call>.{% endif %}{% "
         "for "
         "m in messages %}{{ m.content }}{% endfor %}",
         ENGINE_REPLY_HERMES},
        {"{{ '<|tool|>' ~ tools | tojson ~ '<|/tool|>' if tools }}{% for m in messages %}<|{{ m.role }}|>{{ "
         "m.content "
         "}}<|end|>{% endfor %}",
         ENGINE_REPLY_GRANITE},
        {"{{ 'Respond with <|tool_call|> followed by a JSON list of tools.' if tools }}{% for m in messages "
         "%}{{ "
         "m.content }}{% endfor %}",
         ENGINE_REPLY_GRANITE},
        {"{{ 'Tools: <|tool_list_start|>' ~ tools | tojson ~ '<|tool_list_end|>' if tools }}{% for m in "
         "messages %}{{ "
         "m.content }}{% endfor %}",
         ENGINE_REPLY_LFM2},
        {"{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final{% endif "
         "%}<|message|>{{ m.content }}<|end|>{% endfor %}",
         ENGINE_REPLY_GPT_OSS},
        /* Templates that insist on something. */
        {"{% if messages[0].role != 'system' %}{{ raise_exception('a system message first') }}{% endif "
         "%}" TURNS("<tool_call>{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson "
                    "}}}</tool_call>"),
         ENGINE_REPLY_HERMES},
        {"{% if messages[-1].role == 'assistant' %}{{ raise_exception('a result last') }}{% endif %}" TURNS(
             "<tool_call>{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson "
             "}}}</tool_call>"),
         ENGINE_REPLY_HERMES},
        {"{{ raise_exception('never') }}<tool_call>", ENGINE_REPLY_PLAIN},
        /* Hostile ones: endless, huge, deep. */
        {"{% for i in range(100000000) %}{% for j in range(100000000) %}{% endfor %}{% endfor %}<tool_call>",
         ENGINE_REPLY_PLAIN},
        {"{{ '<tool_call>' * 100000000 }}", ENGINE_REPLY_PLAIN},
        {"{% for i in range(1000) %}{{ messages[0].content }}{{ '<tool_call>{\"name\": \"' * 100 }}{% endfor "
         "%}",
         ENGINE_REPLY_HERMES},
        {"{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}", ENGINE_REPLY_PLAIN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(engine_reply_format_of(cases[i].template_text), cases[i].format, "%s: %u, not %u",
                     cases[i].template_text, engine_reply_format_of(cases[i].template_text), cases[i].format);
}

Test(reply, format_of_a_template)
{
    struct {
        const char *template_text, *reply, *parts;
    } cases[] = {
        {TURNS("<tool_call>{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson "
               "}}}</tool_call>"),
         "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", "\n0:f({})"},
        {TURNS("[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}"), "[TOOL_CALLS]f[ARGS]{}",
         "\n0:f({})"},
        /* Derived. */
        {TURNS_SO("<CALLS>[",
                  "{\"fn\": \"{{ f.name }}\", \"in\": {{ f.arguments | tojson }}}{{ ', ' if not "
                  "loop.last }}",
                  "]</CALLS>"),
         "So.<CALLS>[{\"fn\": \"f\", \"in\": {\"a\": \"</CALLS>\"}}, {\"fn\": \"g\", \"in\": {}}]</CALLS>",
         "\nC:So.\n0:f({\"a\": \"</CALLS>\"})\n1:g({})"},
        {TURNS_SO("<calls>\n",
                  "<call to='{{ f.name }}'>\n{% for k, v in f.arguments.items() %}<arg of='{{ k }}'>{{ v "
                  "}}</arg>\n"
                  "{% endfor %}</call>\n",
                  "</calls>"),
         "<calls>\n<call to='weather'>\n<arg of='city'>7</arg>\n<arg of='days'>7</arg>\n</call>\n<call "
         "to='f'>\n"
         "</call>\n</calls>",
         "\n0:weather({\"city\": \"7\", \"days\": 7})\n1:f({})"},
        {TURNS_SO("<|calls|>",
                  "<|call|>{{ c.id }}<|name|>{{ f.name }}<|args|>{{ f.arguments | tojson }}<|/call|>",
                  "<|/calls|>"),
         "<|calls|><|call|>x1<|name|>f<|args|>{\"a\": 1}<|/call|><|/calls|>", "\n0:f#x1({\"a\": 1})"},
        {TURNS(" functools[{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}}]"),
         "a functools[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]",
         "\nC:a\n0:f({})\n1:g({})"},
        {TURNS_SO("<|tools|>[", "{\"{{ f.name }}\": {{ f.arguments | tojson }}}{{ ', ' if not loop.last }}",
                  "]<|/tools|>"),
         "<|tools|>[{\"f\": {\"a\": 1}}]<|/tools|>", "\n0:f({\"a\": 1})"},
        /* Kimi K3. */
        {KIMI_K3,
         "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>So.<|close|>response<|sep|><|"
         "open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" "
         "type=\"string\"<|sep|>5<|close|>argument<|sep|><|open|>argument key=\"b\" "
         "type=\"array\"<|sep|>[5]<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool=\"g\" "
         "index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
         "\nR:Hm.\nC:So.\n0:f({\"a\": \"5\", \"b\": [5]})\n1:g({})"},
        /* MiniMax M3. */
        {MINIMAX_M3,
         "</mm:think>So.]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<a>x "
         "]<]minimax[>[</a>]<]minimax[>[<o>]<]minimax[>[<k>]<]minimax[>[<item>1]<]minimax[>[</"
         "item>]<]minimax[>[<item>b]<]minimax[>[</item>]<]minimax[>[</k>]<]minimax[>[<m>true]<]minimax[>[</"
         "m>]<]minimax[>[</o>]<]minimax[>[</invoke>\n]<]minimax[>[<invoke "
         "name=\"g\">]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
         "\nC:So.\n0:f({\"a\": \"x \", \"o\": {\"k\": [1, \"b\"], \"m\": true}})\n1:g({})"},
        /* Marks around reasoning, which are derived, too. */
        {"{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<my:think>{{ "
         "m.reasoning_content "
         "}}</my:think>{% endif %}{{ m.content }}{% endfor %}{{ '<|assistant|>' if add_generation_prompt }}",
         "<my:think>Hm.</my:think>So.", "\nR:Hm.\nC:So."},
        {"<|im_start|>", "<tool_call>", "\nC:<tool_call>"},
        {"{% include %}<tool_call>", "<tool_call>", "\nC:<tool_call>"},
        {NULL, "<tool_call>", "\nC:<tool_call>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct engine_reply_options options = {.tools = tools, .template_text = cases[i].template_text};
        expect_of(options, cases[i].reply, cases[i].parts);
        options.tools = typed_tools;
        options.flags = ENGINE_REPLY_CALLS_AS_WRITTEN;
        expect_of(options, cases[i].reply, cases[i].parts);
    }
}

static void expect_of_template(const char *template_text, const char *text, const char *parts)
{
    struct engine_reply_options options = {.tools = tools, .template_text = template_text};
    expect_of(options, text, parts);
    options.tools = typed_tools;
    options.flags = ENGINE_REPLY_CALLS_AS_WRITTEN;
    expect_of(options, text, parts);
}

/* Elements of MiniMax M3 within others of the same name. */
Test(reply, elements_within_elements)
{
    static const char *const cases[][2] = {
        {"~<x>~<item>~<item>1~</item>~<item>2~</item>~</item>~<item>~<item>3~</item>~</item>~</x>",
         "{\"x\": [[1, 2], [3]]}"},
        {"~<x>~<item>~<item>~<item>1~</item>~</item>~</item>~<item>2~</item>~</x>~<y>3~</y>",
         "{\"x\": [[[1]], 2], \"y\": 3}"},
        {"~<o>~<a>~<a>1~</a>~</a>~</o>", "{\"o\": {\"a\": {\"a\": 1}}}"},
        {"~<o>~<o>x~</o>~<n>2~</n>~</o>", "{\"o\": {\"o\": \"x\", \"n\": 2}}"},
        {"~<o>\n~<o>\n~<o>1~</o>\n~</o>\n~</o>\n~<n>2~</n>", "{\"o\": {\"o\": {\"o\": 1}}, \"n\": 2}"},
        {"~<s>a ~</s> b ~<~</s>", "{\"s\": \"a ]<]minimax[>[</s> b ]<]minimax[>[<\"}"},
    };
    static const char mark[] = "]<]minimax[>[";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024], parts[256];
        size_t n = (size_t)snprintf(text, sizeof text, "%s<tool_call>%s<invoke name=\"f\">", mark, mark);
        for (const char *at = cases[i][0]; *at; at++)
            n += (size_t)snprintf(text + n, sizeof text - n, *at == '~' ? mark : "%c", *at);
        snprintf(text + n, sizeof text - n, "%s</invoke>\n%s</tool_call>", mark, mark);
        snprintf(parts, sizeof parts, "\n0:f(%s)", cases[i][1]);
        expect_of_template(MINIMAX_M3, text, parts);
    }
}

/* Of a string that isn't UTF-8 the same comes, whether it is whole or not. */
Test(reply, broken_characters_as_written)
{
    struct engine_reply_options options = as_written(ENGINE_REPLY_GLM);
    options.tools = typed_tools;
    expect_of(options, "<tool_call>f<arg_key>s</arg_key><arg_value>ab\xC3(</arg_value></tool_call>",
              "\n0:f({\"s\": \"ab…)");
}

/* A value that the model forgets to close ends with its call, if another one or the end of all calls follows,
 * and what comes then is read as otherwise. */
Test(reply, unclosed_values)
{
    static const struct {
        uint32_t format;
        const char *text, *parts;
    } cases[] = {
        {ENGINE_REPLY_HERMES,
         "I look.\n<tool_call>\n<function=f>\n<parameter=s>\na\n</function>\n</tool_call>\nDone.",
         "\nC:I look.\n0:f({\"s\": \"a\"})\nC:\nDone."},
        {ENGINE_REPLY_HERMES,
         "<tool_call><function=f><parameter=n>1</parameter><parameter=s>a </function> "
         "b</function></tool_call>"
         "<tool_call><function=g></function></tool_call> ok",
         "\n0:f({\"n\": 1, \"s\": \"a </function> b\"})\n1:g({})\nC:ok"},
        {ENGINE_REPLY_MINIMAX,
         "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a\n</invoke>\n<invoke name=\"f\">\n"
         "<parameter name=\"n\">2</invoke>\n</minimax:tool_call>\nDone.",
         "\n0:f({\"s\": \"a\\n\"})\n1:f({\"n\": 2})\nC:Done."},
        {ENGINE_REPLY_HERMES,
         "<tool_call><function=f><parameter=s></tool_call> </function> x</parameter></function></tool_call>",
         "\n0:f({\"s\": \"</tool_call> </function> x\"})"},
        {ENGINE_REPLY_HERMES, /* a quoted call has an end of its own */
         "<tool_call>\n<function=f>\n<parameter=s>\nUse:\n<tool_call>\n<function=a>\n</function>\n</"
         "tool_call>\n"
         "more\n</parameter>\n</function>\n</tool_call>",
         "\n0:f({\"s\": \"Use:\\n<tool_call>\\n<function=a>\\n</function>\\n</tool_call>\\nmore\"})"},
        {ENGINE_REPLY_HERMES,
         "<tool_call><function=f><parameter=s><function=a></function><function=b></function></function>"
         "<function=g></function></tool_call>",
         "\n0:f({\"s\": \"<function=a></function><function=b></function>\"})\n1:g({})"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct engine_reply_options options = {.format = cases[i].format, .tools = typed_tools};
        expect_of(options, cases[i].text, cases[i].parts);
        options.flags = ENGINE_REPLY_CALLS_AS_WRITTEN;
        expect_of(options, cases[i].text, cases[i].parts);
    }
}

/* Line breaks at the ends of a string are its own, unless the family's template writes them there. */
Test(reply, line_breaks_of_values)
{
    expect_of_template(
        KIMI_K3,
        "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"s\" "
        "type=\"string\"<|sep|>a\n<|close|>argument<|sep|><|open|>argument key=\"x\" "
        "type=\"string\"<|sep|>\n\nb\n\n<|close|>argument<|sep|><|open|>argument key=\"y\" "
        "type=\"array\"<|sep|>\n[5]\n<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
        "\n0:f({\"s\": \"a\\n\", \"x\": \"\\n\\nb\\n\\n\", \"y\": [5]})");
    static const struct {
        uint32_t format;
        const char *text, *city;
    } cases[] = {
        {ENGINE_REPLY_HERMES,
         "<tool_call>\n<function=weather>\n<parameter=city>\n\na\n\n</parameter>\n</function>\n</tool_call>",
         "\\na\\n"},
        {ENGINE_REPLY_HERMES, "<function=weather>\n<parameter=city>\na\n</parameter>\n</function>", "a"},
        {ENGINE_REPLY_GLM,
         "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>\na\n</arg_value>\n</tool_call>",
         "\\na\\n"},
        {ENGINE_REPLY_MINIMAX,
         "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">\na\n</parameter>\n"
         "</invoke>\n</minimax:tool_call>",
         "\\na\\n"},
        {ENGINE_REPLY_DEEPSEEK_V4,
         "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"city\" "
         "string=\"true\">\na\n</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
         "\\na\\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char parts[64];
        struct engine_reply_options options = {.format = cases[i].format, .tools = typed_tools};
        snprintf(parts, sizeof parts, "\n0:weather({\"city\": \"%s\"})", cases[i].city);
        expect_of(options, cases[i].text, parts);
        options.flags = ENGINE_REPLY_CALLS_AS_WRITTEN;
        expect_of(options, cases[i].text, parts);
    }
    expect_of_template(
        TURNS_SO("<calls>\n",
                 "<call to='{{ f.name }}'>\n{% for k, v in f.arguments.items() %}<arg of='{{ k "
                 "}}'>\n{{ v }}\n</arg>\n{% endfor %}</call>\n",
                 "</calls>"),
        "<calls>\n<call to='weather'>\n<arg of='city'>\na\n\n</arg>\n</call>\n</calls>",
        "\n0:weather({\"city\": \"a\\n\"})");
}

Test(reply, refuses)
{
    struct transcript out = {.text = ""};
    struct engine_reply *reply;
    struct engine_reply_options options = {.struct_size = sizeof options, .piece = write_piece, .user = &out};
    options.format = 99;
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
