/* recognise.c: see recognise.h. The template renders conversations in which the assistant calls a function.
 * The format is the one whose reader (reply.c) finds this call in what was rendered: a new format needs no
 * row here, only its marks and its reader. Words in the template decide nothing, since many families share
 * marks and write other calls between them.
 *
 * A template that writes no call at all may still tell the model how to: then these instructions decide. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/error.h"
#include "common/assert.h"
#include "common/json-read.h"
#include "engine.h"
#include "reply/derive.h"
#include "reply/internal.h"
#include "reply/recognise.h"

#define BUDGET_STEPS  ((uint64_t)1 << 26)
#define BUDGET_MEMORY ((size_t)32 << 20)
#define MAX_TEXT      ((size_t)16 << 10) /* bytes after the question that are looked at */

#define QUESTION "Where is the zq-harbour?"
#define NAME     DERIVE_NAME
#define KEY      DERIVE_KEY
#define VALUE    DERIVE_VALUE
#define ANSWER   DERIVE_ANSWER

#define A_TOOL(name, key, other)                                                                             \
    "{\"type\": \"function\", \"function\": {\"name\": \"" name "\", \"description\": \"Finds a place.\", "  \
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"" key "\": {\"type\": \"string\", "           \
    "\"description\": \"The place.\"}" other "}, \"required\": [\"" key "\"]}}}"
#define TOOL A_TOOL(NAME, KEY, "")
#define TWO_TOOLS                                                                                            \
    A_TOOL(NAME, KEY, ", \"" DERIVE_KEY_2 "\": {\"type\": \"string\", \"description\": \"Where.\"}")         \
    ", " A_TOOL(DERIVE_NAME_2, DERIVE_KEY_2, "")
#define ASKED "{\"role\": \"user\", \"content\": \"" QUESTION "\"}"
#define CALL(content, arguments)                                                                             \
    "{\"role\": \"assistant\", " content "\"tool_calls\": [{\"id\": \"" DERIVE_ID                            \
    "\", \"type\": \"function\", "                                                                           \
    "\"function\": {\"name\": \"" NAME "\", \"arguments\": " arguments "}}]}"
#define AN_OBJECT "{\"" KEY "\": \"" VALUE "\"}"
#define A_TEXT    "\"{\\\"" KEY "\\\": \\\"" VALUE "\\\"}\""
#define RESULT                                                                                               \
    "{\"role\": \"tool\", \"name\": \"" NAME "\", \"tool_call_id\": \"" DERIVE_ID                            \
    "\", \"content\": \"Found.\"}"

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

/* Conversations by which a layout is derived: the arguments are objects, or texts. */
#define SAYS(calls)                                                                                          \
    "[" ASKED ", {\"role\": \"assistant\", \"content\": \"" DERIVE_TEXT "\", \"tool_calls\": [" calls "]}]"
#define ONE_OF_CALLS(id, name, arguments)                                                                    \
    "{\"id\": \"" id "\", \"type\": \"function\", \"function\": {\"name\": \"" name                          \
    "\", \"arguments\": " arguments "}}"
#define TWO_CALLS(first, second)                                                                             \
    SAYS(ONE_OF_CALLS(DERIVE_ID, NAME, first) ", " ONE_OF_CALLS(DERIVE_ID_2, DERIVE_NAME_2, second))
#define OTHER_OBJECT "{\"" DERIVE_KEY_2 "\": \"" DERIVE_OTHER "\"}"
#define OTHER_TEXT   "\"{\\\"" DERIVE_KEY_2 "\\\": \\\"" DERIVE_OTHER "\\\"}\""
#define BOTH_OBJECT  "{\"" KEY "\": \"" VALUE "\", \"" DERIVE_KEY_2 "\": \"" DERIVE_OTHER "\"}"
#define BOTH_TEXT                                                                                            \
    "\"{\\\"" KEY "\\\": \\\"" VALUE "\\\", \\\"" DERIVE_KEY_2 "\\\": \\\"" DERIVE_OTHER "\\\"}\""
static const char *const pairs[][2] = {
    {TWO_CALLS(AN_OBJECT, OTHER_OBJECT), SAYS(ONE_OF_CALLS(DERIVE_ID, NAME, BOTH_OBJECT))},
    {TWO_CALLS(A_TEXT, OTHER_TEXT), SAYS(ONE_OF_CALLS(DERIVE_ID, NAME, BOTH_TEXT))},
};
static const char thinking[] = "[" ASKED ", {\"role\": \"assistant\", \"reasoning_content\": \"" DERIVE_OTHER
                               "\", \"content\": \"" ANSWER "\"}]";

static const char question[] = "[" ASKED "]";
static const char answered[] = "[" ASKED ", {\"role\": \"assistant\", \"content\": \"" ANSWER "\"}]";

/* What templates that write no calls tell a model of them: white space stands for any. */
static const struct {
    uint32_t format;
    const char *text;
} instructions[] = {
    {ENGINE_REPLY_HERMES, "<tool_call> {\"name\": "},
    {ENGINE_REPLY_HERMES, "<tool_call> {'name': "},
    {ENGINE_REPLY_GRANITE, "<|tool_call|> followed by a JSON list"},
    {ENGINE_REPLY_GRANITE, "<|/tool|>"},
    {ENGINE_REPLY_LFM2, "<|tool_list_start|>"},
    {ENGINE_REPLY_HUNYUAN, "<tool_calls> [ {"},
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
                                               const char *tools, bool prompts)
{
    static const char *const tokens[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    static const char *const texts[] = {"<s>", "</s>", "<unk>", "<pad>"};
    struct template_variable variables[8] = {
        {.name = "messages", .json = string_of(messages), .what = "messages", .word_key = "role"},
        {.name = "tools", .json = string_of(tools ? tools : "null"), .what = "tools"},
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

/* The calls of a reply. */
struct reading {
    json_t *calls; /* an array of [name, arguments] */
    char arguments[512];
    size_t length;
    bool failed;
};

static void take_piece(void *user, const struct engine_reply_piece *piece)
{
    struct reading *reading = user;
    if (piece->part != ENGINE_REPLY_CALL || reading->failed) return;
    if (piece->flags & ENGINE_REPLY_CALL_BEGINS) {
        reading->length = 0;
        json_array_append_new(reading->calls, json_pack("[s]", piece->name));
    }
    if (piece->text.length > sizeof reading->arguments - reading->length ||
        piece->flags & ENGINE_REPLY_CALL_CUT) {
        reading->failed = true;
        return;
    }
    memcpy(reading->arguments + reading->length, piece->text.data, piece->text.length);
    reading->length += piece->text.length;
    if (!(piece->flags & ENGINE_REPLY_CALL_ENDS)) return;
    json_t *call = json_array_get(reading->calls, json_array_size(reading->calls) - 1);
    json_array_append_new(call, json_read(reading->arguments, reading->length, 0, NULL));
}

/* Whether a reply in this style has the calls that were made, an array of [name, arguments], whose reference
 * is taken. `last`: at its end. */
static bool reads_calls(const struct reply_style *style, struct engine_string text, json_t *meant, bool last)
{
    struct reading reading = {.calls = json_array()};
    struct engine_reply_options options = {.struct_size = sizeof options,
                                           .format = style->format,
                                           .tools = "[" TWO_TOOLS "]",
                                           .piece = take_piece,
                                           .user = &reading,
                                           .flags = ENGINE_REPLY_CALLS_AS_WRITTEN};
    struct engine_reply *reply;
    bool good = reading.calls && meant && !reply_create(&options, &style->layout, &reply);
    if (good) {
        good = engine_reply_add(reply, text.data, text.length) == ENGINE_OK &&
               engine_reply_end(reply) == ENGINE_OK && !reading.failed;
        engine_reply_destroy(reply);
    }
    while (good && last && json_array_size(reading.calls) > json_array_size(meant))
        json_array_remove(reading.calls, 0);
    good = good && json_equal(reading.calls, meant);
    json_decref(reading.calls);
    json_decref(meant);
    return good;
}

/* Whether a reply in this format ends with the call of the function as it was called. */
static bool reads_call(uint32_t format, struct engine_string text)
{
    struct reply_style style = {.format = format};
    return reads_calls(&style, text, json_pack("[[s, {s:s}]]", NAME, KEY, VALUE), true);
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
        for (uint32_t format = ENGINE_REPLY_PLAIN + 1; replies[i].data && format < ENGINE_REPLY_TEMPLATE;
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

/* ---- Deriving ---- */

/* Renders a conversation and leaves what follows the question. NULL: the template fails with it. */
static struct template_output *render_after_question(const struct template *template,
                                                     struct template_budget *budget, const char *messages,
                                                     const char *tools, struct engine_string *text)
{
    struct template_output *output = render_messages(template, budget, messages, tools, false);
    if (output) *text = after_last(template_output_text(output), QUESTION);
    if (output && text->length > MAX_TEXT) text->length = MAX_TEXT;
    if (!output || text->data) return output;
    template_output_free(output);
    return NULL;
}

/* Whether both calls are read back, or the first one, if the template leaves out the second. */
static bool reads_pair(const struct reply_style *style, struct engine_string text)
{
    bool both = memmem(text.data, text.length, DERIVE_OTHER, strlen(DERIVE_OTHER)) != NULL;
    json_t *meant = both ? json_pack("[[s, {s:s}], [s, {s:s}]]", NAME, KEY, VALUE, DERIVE_NAME_2,
                                     DERIVE_KEY_2, DERIVE_OTHER)
                         : json_pack("[[s, {s:s}]]", NAME, KEY, VALUE);
    return reads_calls(style, text, meant, false);
}

/* The layout of the calls that a template writes. False: they have none. */
static bool derive(const struct template *template, struct template_budget *budget,
                   const struct template_output *prompt, struct reply_style *style)
{
    static const char tools[] = "[" TWO_TOOLS "]";
    bool good = false;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && !good; i++) {
        struct derive_texts texts = {0};
        if (prompt) texts.prompt = after_last(template_output_text(prompt), QUESTION);
        struct template_output *calls = render_after_question(template, budget, pairs[i][0], tools,
                                                              &texts.two_calls),
                               *both = render_after_question(template, budget, pairs[i][1], tools,
                                                             &texts.two_arguments),
                               *answer =
                                   render_after_question(template, budget, answered, tools, &texts.answer);
        struct reply_style found = {.format = ENGINE_REPLY_TEMPLATE, .calls = true};
        const struct reply_layout *known;
        for (size_t k = 0; calls && !good && (known = layout_known(k)); k++) {
            found.layout = *known;
            good = reads_pair(&found, texts.two_calls);
        }
        good = good || (calls && derive_layout(&texts, &found.layout) && reads_pair(&found, texts.two_calls));
        if (good) style->layout = found.layout;
        template_output_free(calls);
        template_output_free(both);
        template_output_free(answer);
    }
    return good;
}

/* The marks around reasoning that a template writes. */
static void find_reasoning(const struct template *template, struct template_budget *budget,
                           struct reply_style *style)
{
    struct engine_string thought, answer;
    struct template_output *with = render_after_question(template, budget, thinking, NULL, &thought),
                           *without = render_after_question(template, budget, answered, NULL, &answer);
    if (with && without) derive_reasoning(thought, answer, &style->layout);
    template_output_free(with);
    template_output_free(without);
}

struct reply_style reply_recognise(const struct template *template)
{
    static const char tools[] = "[" TOOL "]";
    struct template_budget budget = {BUDGET_STEPS, BUDGET_MEMORY};
    struct template_output *prompt = render_messages(template, &budget, question, tools, true);
    struct reply_style style = {0};
    bool has_call = false;
    for (size_t i = 0; i < N_CONVERSATIONS && !style.format; i++) {
        struct template_output *output = render_messages(template, &budget, conversations[i], tools, false);
        if (!output) continue;
        struct engine_string text = template_output_text(output);
        has_call = has_call || after_last(text, VALUE).data;
        style.format = format_of_call(text, prompt);
        template_output_free(output);
    }
    if (!style.format && has_call && derive(template, &budget, prompt, &style))
        style.format = ENGINE_REPLY_TEMPLATE;
    if (!style.format && !has_call && prompt)
        style.format = format_of_instructions(template_output_text(prompt));
    if (style.format == ENGINE_REPLY_HERMES && has_call) derive(template, &budget, prompt, &style);
    template_output_free(prompt);
    style.calls = style.format != 0;
    struct template_output *answer =
        style.calls ? NULL : render_messages(template, &budget, answered, NULL, false);
    if (answer) style.format = format_of_answer(template_output_text(answer));
    template_output_free(answer);
    if (!style.format) style.format = ENGINE_REPLY_PLAIN;
    if (style.format != ENGINE_REPLY_GPT_OSS && !style.layout.reasoning[0][0])
        find_reasoning(template, &budget, &style);
    return style;
}

/* A template that shows tools, but not how they are called, is for a model whose family may say that. */
static void ask_family(const struct engine_template *template, struct reply_style *style)
{
    static const char tools[] = "[" TOOL "]";
    const struct architecture *family = arch_named(template_architecture(template));
    struct template_budget budget = {BUDGET_STEPS, BUDGET_MEMORY};
    if (style->calls || !family || !family->reply.calls) return;
    struct template_output *prompt =
        render_messages(template_for_calls(template), &budget, question, tools, true);
    if (prompt &&
        memmem(template_output_text(prompt).data, template_output_text(prompt).length, NAME, strlen(NAME))) {
        style->format = layout_format_of_mark(family->reply.calls);
        ENGINE_ASSERT(style->format != 0);
        style->calls = true;
    }
    template_output_free(prompt);
}

/* The template's own, made if it is not there yet; NULL: out of memory. */
static const struct reply_style *kept_style(const struct engine_template *template)
{
    struct template_notes *notes = template_notes(template);
    pthread_mutex_lock(&notes->lock);
    struct reply_style *kept = notes->kept;
    if (!kept) {
        notes->kept = kept = malloc(sizeof *kept);
        if (kept) *kept = reply_recognise(template_for_calls(template));
        if (kept) ask_family(template, kept);
    }
    pthread_mutex_unlock(&notes->lock);
    return kept;
}

struct reply_style reply_style_of(const struct engine_template *template)
{
    const struct reply_style *kept = kept_style(template);
    return kept ? *kept : (struct reply_style){.format = ENGINE_REPLY_PLAIN};
}

_Static_assert(LAYOUT_OBJECTS == (int)ENGINE_REPLY_ARGUMENTS_OBJECT &&
                   LAYOUT_PYTHON == (int)ENGINE_REPLY_ARGUMENTS_PYTHON,
               "layouts are handed out with these numbers");

/* The layout by which a style's calls can be enforced; NULL: there is none. Hermes' marks hold objects or
 * elements, as the template has it. */
static const struct reply_layout *layout_of_style(const struct reply_style *style)
{
    static const struct reply_layout hermes = {
        .kind = LAYOUT_OBJECTS, .begin = "<tool_call>", .end = "</tool_call>"};
    if (style->format == ENGINE_REPLY_TEMPLATE) return &style->layout;
    if (style->format != ENGINE_REPLY_HERMES) return layout_of_format(style->format);
    return layout_first(&style->layout)[0] ? &style->layout : &hermes;
}

int engine_template_reply_layout(const struct engine_template *template, struct engine_reply_layout *layout)
{
    static const struct reply_layout none = {.kind = LAYOUT_OBJECTS};
    int status = SIZED_CHECK(layout, engine_reply_layout, reasoning_end);
    if (status) return status;
    const struct reply_style *style = kept_style(template);
    if (!style) return error_memory("a template's format");
    const char *reasoning[2] = {style->layout.reasoning[0], style->layout.reasoning[1]};
    if (!reasoning[0][0]) reply_reasoning_marks(style->format, engine_template_source(template), reasoning);
    const struct reply_layout *is = layout_of_style(style);
    bool marked = is && !is->nested && !is->after_number[0];
    if (!marked) is = &none;
    const struct engine_reply_layout known = {
        .struct_size = sizeof known,
        .arguments = (uint32_t)is->kind,
        .open = is->open,
        .close = is->close,
        .begin = is->begin,
        .before_name = is->before_name,
        .after_name = is->after_name,
        .end = is->end,
        .key = is->key,
        .after_key = is->after_key,
        .after_type = is->after_type,
        .value = is->value,
        .after_value = is->after_value,
        .name_key = is->name_key[0] ? is->name_key : "name",
        .arguments_key = is->arguments_key[0] ? is->arguments_key : "arguments",
        .listed = is->listed,
        .numbered = is->numbered,
        .reasoning_begin = reasoning[0],
        .reasoning_end = reasoning[1],
    };
    sized_write(layout, &known, sizeof known);
    if (marked) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_UNSUPPORTED, "the calls of this format are not described by marks");
}

uint32_t engine_reply_format_of(const char *template_text)
{
    struct template *template = NULL;
    if (!template_text || template_create("template", template_text, strlen(template_text), &template))
        return ENGINE_REPLY_PLAIN;
    uint32_t format = reply_recognise(template).format;
    template_destroy(template);
    return format;
}

uint32_t engine_template_reply_format(const struct engine_template *template, int *calls)
{
    struct reply_style style = reply_style_of(template);
    if (calls) *calls = style.calls && !engine_template_tools_fault(template);
    return style.format;
}
