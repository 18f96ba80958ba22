/* recognise.c: see recognise.h. The template renders conversations in which the assistant calls a function.
 * The format is the one whose reader (reply.c) finds this call in what was rendered: a new format needs no
 * row here, only its marks and its reader. Words in the template decide nothing, since many families share
 * marks and write other calls between them.
 *
 * A template that writes no call at all may still tell the model how to: then these instructions decide. */
#include <stdbool.h>
#include <string.h>

#include "common/json-read.h"
#include "engine.h"
#include "reply/internal.h"
#include "reply/recognise.h"

#define BUDGET_STEPS  ((uint64_t)1 << 26)
#define BUDGET_MEMORY ((size_t)32 << 20)
#define MAX_TEXT      ((size_t)16 << 10) /* bytes after the question that are looked at */

#define QUESTION "Where is the zq-harbour?"
#define NAME     "zq_find"
#define KEY      "zq_place"
#define VALUE    "zq-lighthouse"
#define ANSWER   "By the zq-mole."

#define TOOL                                                                                                 \
    "{\"type\": \"function\", \"function\": {\"name\": \"" NAME "\", \"description\": \"Finds a place.\", "  \
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"" KEY "\": {\"type\": \"string\", "           \
    "\"description\": \"The place.\"}}, \"required\": [\"" KEY "\"]}}}"
#define ASKED "{\"role\": \"user\", \"content\": \"" QUESTION "\"}"
#define CALL(content, arguments)                                                                             \
    "{\"role\": \"assistant\", " content "\"tool_calls\": [{\"id\": \"zq7calls1\", \"type\": \"function\", " \
    "\"function\": {\"name\": \"" NAME "\", \"arguments\": " arguments "}}]}"
#define AN_OBJECT "{\"" KEY "\": \"" VALUE "\"}"
#define A_TEXT    "\"{\\\"" KEY "\\\": \\\"" VALUE "\\\"}\""
#define RESULT                                                                                               \
    "{\"role\": \"tool\", \"name\": \"" NAME "\", \"tool_call_id\": \"zq7calls1\", \"content\": \"Found.\"}"

/* Conversations with a call, the most usual one first: templates insist on one or the other. */
static const char *const conversations[] = {
    "[" ASKED ", " CALL("\"content\": \"\", ", AN_OBJECT) "]",
    "[" ASKED ", " CALL("\"content\": \"\", ", A_TEXT) "]",
    "[" ASKED ", " CALL("\"content\": \"\", ", AN_OBJECT) ", " RESULT "]",
    "[" ASKED ", " CALL("\"content\": null, ", AN_OBJECT) ", " RESULT "]",
    "[" ASKED ", " CALL("\"content\": null, ", A_TEXT) ", " RESULT "]",
    "[" ASKED ", " CALL("", AN_OBJECT) "]",
    "[" ASKED ", " CALL("\"content\": \"I look.\", ", AN_OBJECT) ", " RESULT "]",
    "[{\"role\": \"system\", \"content\": \"Help.\"}, " ASKED ", " CALL("\"content\": \"\", ", AN_OBJECT) "]",
};
#define N_CONVERSATIONS (sizeof conversations / sizeof *conversations)

static const char question[] = "[" ASKED "]";
static const char answered[] = "[" ASKED ", {\"role\": \"assistant\", \"content\": \"" ANSWER "\"}]";

/* What templates that write no calls tell a model of them: white space stands for any. */
static const struct {
    uint32_t format;
    const char *text;
} instructions[] = {
    {ENGINE_REPLY_HERMES, "<tool_call> {\"name\": "},
    {ENGINE_REPLY_HERMES, "<tool_call> {'name': "},
};

/* What stands before a text of the assistant, where this decides how its replies are read. */
static const struct {
    uint32_t format;
    const char *text;
} openings[] = {
    {ENGINE_REPLY_GPT_OSS, "<|channel|>final<|message|>"},
};

static struct engine_string string_of(const char *text)
{
    return (struct engine_string){text, strlen(text)};
}

/* NULL: the template fails with it. */
static struct template_output *render_messages(const struct template *template,
                                               struct template_budget *budget, const char *messages,
                                               bool tools, bool prompts)
{
    static const char *const tokens[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    static const char *const texts[] = {"<s>", "</s>", "<unk>", "<pad>"};
    struct template_variable variables[8] = {
        {.name = "messages", .json = string_of(messages), .what = "messages", .word_key = "role"},
        {.name = "tools", .json = string_of(tools ? "[" TOOL "]" : "null"), .what = "tools"},
        {.name = "documents", .json = string_of("null"), .what = "documents"},
        {.name = "add_generation_prompt",
         .json = string_of(prompts ? "true" : "false"),
         .what = "add_generation_prompt"},
    };
    struct template_output *output = NULL;
    for (size_t i = 0; i < 4; i++)
        variables[4 + i] = (struct template_variable){
            .name = tokens[i], .json = string_of(texts[i]), .what = "vocabulary", .trusted = true};
    return template_render_within(template, variables, 8, 1, budget, &output) == 0 ? output : NULL;
}

/* ---- Reading calls back ---- */

/* The last call of a reply. */
struct reading {
    bool is_it; /* of the function that was called */
    char arguments[256];
    size_t length;
};

static void take_piece(void *user, const struct engine_reply_piece *piece)
{
    struct reading *reading = user;
    if (piece->part != ENGINE_REPLY_CALL) return;
    if (piece->flags & ENGINE_REPLY_CALL_BEGINS) {
        reading->is_it = strcmp(piece->name, NAME) == 0;
        reading->length = 0;
    }
    if (piece->text.length > sizeof reading->arguments - reading->length ||
        piece->flags & ENGINE_REPLY_CALL_CUT) {
        reading->is_it = false;
        return;
    }
    memcpy(reading->arguments + reading->length, piece->text.data, piece->text.length);
    reading->length += piece->text.length;
}

/* Whether a reply in this format calls the function as it was called. */
static bool reads_call(uint32_t format, struct engine_string text)
{
    struct reading reading = {0};
    struct engine_reply_options options = {.struct_size = sizeof options,
                                           .format = format,
                                           .tools = "[" TOOL "]",
                                           .piece = take_piece,
                                           .user = &reading,
                                           .flags = ENGINE_REPLY_CALLS_AS_WRITTEN};
    struct engine_reply *reply;
    if (engine_reply_create(&options, &reply)) return false;
    bool good = engine_reply_add(reply, text.data, text.length) == ENGINE_OK &&
                engine_reply_end(reply) == ENGINE_OK && reading.is_it;
    engine_reply_destroy(reply);
    if (!good) return false;
    json_t *arguments = json_read(reading.arguments, reading.length, 0, NULL),
           *meant = json_pack("{s:s}", KEY, VALUE);
    good = meant && json_equal(arguments, meant);
    json_decref(arguments);
    json_decref(meant);
    return good;
}

/* What follows the last `mark` in `text`; data NULL: it has none. */
static struct engine_string after_last(struct engine_string text, const char *mark)
{
    struct engine_string rest = {0};
    size_t n = strlen(mark);
    const char *at;
    while (text.length > 0 && (at = memmem(text.data, text.length, mark, n))) {
        rest = (struct engine_string){at + n, text.length - (size_t)(at + n - text.data)};
        text = rest;
    }
    return rest;
}

/* The format whose reader finds the call; 0: none. A call may also be known by standing where a reply begins,
 * which `prompt` tells: the text of the same conversation before it. */
static uint32_t format_of_call(struct engine_string text, const struct template_output *prompt)
{
    struct engine_string begin = prompt ? template_output_text(prompt) : (struct engine_string){0};
    struct engine_string replies[] = {{0}, after_last(text, QUESTION)};
    if (begin.length > 0 && begin.length < text.length && memcmp(begin.data, text.data, begin.length) == 0)
        replies[0] = (struct engine_string){text.data + begin.length, text.length - begin.length};
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        if (replies[i].length > MAX_TEXT) replies[i].length = MAX_TEXT;
        for (uint32_t format = ENGINE_REPLY_PLAIN + 1; replies[i].data && format <= REPLY_LAST_FORMAT;
             format++)
            if (reads_call(format, replies[i])) return format;
    }
    return 0;
}

/* ---- Instructions ---- */

/* Whether `text` begins with `pattern`, in which a space stands for any white space, or none. */
static bool begins_pattern(struct engine_string text, const char *pattern)
{
    size_t at = 0;
    for (; *pattern; pattern++) {
        if (*pattern == ' ') {
            while (at < text.length && is_json_space(text.data[at])) at++;
        } else if (at == text.length || text.data[at++] != *pattern) {
            return false;
        }
    }
    return true;
}

static uint32_t format_of_instructions(struct engine_string text)
{
    for (size_t at = 0; at < text.length; at++)
        for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++)
            if (begins_pattern((struct engine_string){text.data + at, text.length - at},
                               instructions[i].text))
                return instructions[i].format;
    return 0;
}

/* The format whose texts begin as the answer does. */
static uint32_t format_of_answer(struct engine_string text)
{
    const char *at = text.length > 0 ? memmem(text.data, text.length, ANSWER, strlen(ANSWER)) : NULL;
    for (size_t i = 0; at && i < sizeof openings / sizeof *openings; i++) {
        size_t n = strlen(openings[i].text);
        if ((size_t)(at - text.data) >= n && memcmp(at - n, openings[i].text, n) == 0)
            return openings[i].format;
    }
    return 0;
}

uint32_t reply_recognise(const struct template *template, bool *calls)
{
    struct template_budget budget = {BUDGET_STEPS, BUDGET_MEMORY};
    struct template_output *prompt = render_messages(template, &budget, question, true, true);
    bool has_call = false;
    uint32_t format = 0;
    for (size_t i = 0; i < N_CONVERSATIONS && !format; i++) {
        struct template_output *output = render_messages(template, &budget, conversations[i], true, false);
        if (!output) continue;
        struct engine_string text = template_output_text(output);
        has_call = has_call || after_last(text, VALUE).data;
        format = format_of_call(text, prompt);
        template_output_free(output);
    }
    if (!format && !has_call && prompt) format = format_of_instructions(template_output_text(prompt));
    template_output_free(prompt);
    *calls = format != 0;
    struct template_output *answer =
        format ? NULL : render_messages(template, &budget, answered, false, false);
    if (answer) format = format_of_answer(template_output_text(answer));
    template_output_free(answer);
    return format ? format : ENGINE_REPLY_PLAIN;
}

uint32_t engine_reply_format_of(const char *template_text)
{
    struct template *template = NULL;
    if (!template_text || template_create("template", template_text, strlen(template_text), &template))
        return ENGINE_REPLY_PLAIN;
    bool has_calls;
    uint32_t format = reply_recognise(template, &has_calls);
    template_destroy(template);
    return format;
}

uint32_t engine_template_reply_format(const struct engine_template *template, int *calls)
{
    bool has_calls;
    uint32_t format = reply_recognise(template_for_calls(template), &has_calls);
    if (calls) *calls = has_calls && !engine_template_tools_fault(template);
    return format;
}
