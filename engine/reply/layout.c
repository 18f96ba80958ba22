/* layout.c: the layouts of families' calls, and how calls are read by a layout. See layout.h. */
#include "reply/layout.h"

#include <string.h>

#include "common/json-read.h"
#include "reply/internal.h"
#include "reply/span.h"

/* ---- Families ---- */

/* As their published templates have them. */
static const struct {
    uint32_t format;
    struct reply_layout layout;
} layouts[] = {
    {ENGINE_REPLY_GLM,
     {.kind = LAYOUT_KEYED,
      .begin = "<tool_call>",
      .end = "</tool_call>",
      .key = "<arg_key>",
      .after_key = "</arg_key>",
      .value = "<arg_value>",
      .after_value = "</arg_value>"}},
    {ENGINE_REPLY_MINIMAX,
     {.kind = LAYOUT_KEYED,
      .open = "<minimax:tool_call>",
      .close = "</minimax:tool_call>",
      .begin = "<invoke name=\"",
      .after_name = "\">",
      .end = "</invoke>",
      .key = "<parameter name=\"",
      .after_key = "\">",
      .after_value = "</parameter>"}},
    {ENGINE_REPLY_DEEPSEEK_V3_2,
     {.kind = LAYOUT_KEYED,
      .open = "<｜DSML｜function_calls>",
      .close = "</｜DSML｜function_calls>",
      .begin = "<｜DSML｜invoke name=\"",
      .after_name = "\">",
      .end = "</｜DSML｜invoke>",
      .key = "<｜DSML｜parameter name=\"",
      .after_key = "\" string=\"",
      .after_type = "\">",
      .after_value = "</｜DSML｜parameter>"}},
    {ENGINE_REPLY_DEEPSEEK_V4,
     {.kind = LAYOUT_KEYED,
      .open = "<｜DSML｜tool_calls>",
      .close = "</｜DSML｜tool_calls>",
      .begin = "<｜DSML｜invoke name=\"",
      .after_name = "\">",
      .end = "</｜DSML｜invoke>",
      .key = "<｜DSML｜parameter name=\"",
      .after_key = "\" string=\"",
      .after_type = "\">",
      .after_value = "</｜DSML｜parameter>"}},
    {ENGINE_REPLY_KIMI,
     {.kind = LAYOUT_JSON,
      .open = "<|tool_calls_section_begin|>",
      .close = "<|tool_calls_section_end|>",
      .begin = "<|tool_call_begin|>",
      .after_name = "<|tool_call_argument_begin|>",
      .end = "<|tool_call_end|>",
      .numbered = true}},
    {ENGINE_REPLY_GEMMA4, {.kind = LAYOUT_WORDS, .begin = "<|tool_call>call:", .end = "<tool_call|>"}},
    {ENGINE_REPLY_LFM2, {.kind = LAYOUT_PYTHON, .open = "<|tool_call_start|>", .close = "<|tool_call_end|>"}},
    {ENGINE_REPLY_COHERE,
     {.kind = LAYOUT_OBJECTS,
      .open = "<|START_ACTION|>",
      .close = "<|END_ACTION|>",
      .listed = true,
      .name_key = "tool_name",
      .arguments_key = "parameters"}},
    {ENGINE_REPLY_COMMAND_R,
     {.kind = LAYOUT_OBJECTS,
      .open = "Action:\n```json",
      .close = "```",
      .listed = true,
      .name_key = "tool_name",
      .arguments_key = "parameters"}},
    {ENGINE_REPLY_GRANITE,
     {.kind = LAYOUT_OBJECTS, .open = "<|tool_call|>", .close = "<|/tool_call|>", .listed = true}},
    {ENGINE_REPLY_HUNYUAN,
     {.kind = LAYOUT_OBJECTS, .open = "<tool_calls>", .close = "</tool_calls>", .listed = true}},
};

/* Inside of Hermes' marks. */
static const struct reply_layout qwen_elements = {.kind = LAYOUT_KEYED,
                                                  .open = "<tool_call>",
                                                  .close = "</tool_call>",
                                                  .begin = "<function=",
                                                  .after_name = ">",
                                                  .end = "</function>",
                                                  .key = "<parameter=",
                                                  .after_key = ">",
                                                  .after_value = "</parameter>",
                                                  .lines = true};

static const struct reply_layout known_layouts[] = {
    /* Kimi K3 */
    {.kind = LAYOUT_KEYED,
     .open = "<|open|>tools<|sep|>",
     .close = "<|close|>tools<|sep|>",
     .begin = "<|open|>call tool=\"",
     .after_name = "\" index=\"",
     .after_number = "\"<|sep|>",
     .end = "<|close|>call<|sep|>",
     .key = "<|open|>argument key=\"",
     .after_key = "\" type=\"",
     .after_type = "\"<|sep|>",
     .after_value = "<|close|>argument<|sep|>",
     .reasoning = {"<|open|>think<|sep|>", "<|close|>think<|sep|>"},
     .answer = {"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>",
                "<|end_of_msg|>"}},
    /* MiniMax M3 */
    {.kind = LAYOUT_KEYED,
     .open = "]<]minimax[>[<tool_call>",
     .close = "]<]minimax[>[</tool_call>",
     .begin = "]<]minimax[>[<invoke name=\"",
     .after_name = "\">",
     .end = "]<]minimax[>[</invoke>",
     .key = "]<]minimax[>[<",
     .after_key = ">",
     .after_value = "]<]minimax[>[</",
     .nested = true,
     .reasoning = {"<mm:think>", "</mm:think>"},
     .answer = {"</mm:think>"}},
};

const struct reply_layout *layout_known(size_t index)
{
    return index < sizeof known_layouts / sizeof *known_layouts ? &known_layouts[index] : NULL;
}

bool layout_closing(const struct reply_layout *layout, const char *key, size_t length,
                    char closing[2 * LAYOUT_MARK])
{
    size_t n = strlen(layout->after_value);
    memcpy(closing, layout->after_value, n + 1);
    if (!layout->nested) return true;
    if (length == 0 || n + length + 2 > (size_t)2 * LAYOUT_MARK) return false;
    memcpy(closing + n, key, length);
    memcpy(closing + n + length, ">", 2);
    return true;
}

void layout_opening(const struct reply_layout *layout, const char *closing, char opening[3 * LAYOUT_MARK])
{
    size_t n = strlen(layout->key);
    ENGINE_ASSERT(layout->nested);
    memcpy(opening, layout->key, n);
    strcpy(opening + n, closing + strlen(layout->after_value));
}

size_t layout_find_closing(const struct reply_layout *layout, const char *closing, const char *text,
                           size_t length, size_t *searched, uint32_t *n_open)
{
    char opening[3 * LAYOUT_MARK] = "";
    if (layout->nested) layout_opening(layout, closing, opening);
    for (;;) {
        struct span rest = span_from((struct span){text, length}, *searched), before;
        size_t end = span_find(rest, closing);
        before = (struct span){rest.data, end == SIZE_MAX ? rest.length : end};
        size_t begin = layout->nested ? span_find(before, opening) : SIZE_MAX;
        if (begin == SIZE_MAX && (end == SIZE_MAX || *n_open == 0))
            return end == SIZE_MAX ? SIZE_MAX : *searched + end;
        if (begin == SIZE_MAX) {
            --*n_open;
            *searched += end + strlen(closing);
        } else {
            ++*n_open;
            *searched += begin + strlen(opening);
        }
    }
}

const struct reply_layout *layout_of_format(uint32_t format)
{
    if (format == ENGINE_REPLY_HERMES) return &qwen_elements;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].format == format) return &layouts[i].layout;
    return NULL;
}

const struct reply_layout *layout_of_bare(void)
{
    static const struct reply_layout bare = {.kind = LAYOUT_KEYED,
                                             .begin = "<function=",
                                             .after_name = ">",
                                             .end = "</function>",
                                             .key = "<parameter=",
                                             .after_key = ">",
                                             .after_value = "</parameter>",
                                             .lines = true};
    return &bare;
}

uint32_t layout_format_of_mark(const char *mark)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (strcmp(layout_first(&layouts[i].layout), mark) == 0) return layouts[i].format;
    return 0;
}

/* ---- Calls ---- */

/* Moves past a mark, which may be absent if it is "". */
static bool pass_mark(struct span *s, const char *mark)
{
    if (!span_starts(*s, mark)) return false;
    *s = span_from(*s, strlen(mark));
    return true;
}

/* The name, up to its mark, or to where the arguments begin. */
static bool cut_name(struct span *s, const struct reply_layout *layout, struct span *name)
{
    if (layout->after_name[0]) return span_cut(s, layout->after_name, name);
    size_t n = 0;
    while (n < s->length && !is_json_space(s->data[n]) && s->data[n] != '{' && s->data[n] != '<') n++;
    *name = (struct span){s->data, n};
    *s = span_from(*s, n);
    return true;
}

struct span layout_name_of_number(struct span id)
{
    static const char prefix[] = "functions.";
    size_t n = id.length;
    if (span_starts(id, prefix)) id = span_from(id, strlen(prefix)), n = id.length;
    while (n > 0 && id.data[n - 1] >= '0' && id.data[n - 1] <= '9') n--;
    if (n > 0 && n < id.length && id.data[n - 1] == ':') id.length = n - 1;
    return id;
}

/* Whether an argument begins here. */
static bool begins_argument(struct span s, const struct reply_layout *layout)
{
    size_t n = strlen(layout->key);
    const char *end = layout_inner_end(layout);
    return span_starts(s, layout->key) && !(end[0] && span_starts(s, end)) &&
           !(layout->nested && (s.length == n || s.data[n] == '/'));
}

/* What may follow a value: another argument, the end of the call, or nothing. */
static bool ends_value(struct span s, const struct reply_layout *layout)
{
    s = span_trim(s);
    const char *end = layout_inner_end(layout);
    return s.length == 0 || begins_argument(s, layout) || (end[0] && span_starts(s, end));
}

/* Where a value ends that the model has not closed: with the call, if another one follows or nothing does.
 * Calls that the value quotes have ends of their own: *n_quoted have begun and not ended. Looks from `from`
 * up to `to`; SIZE_MAX: nowhere. */
static size_t find_unclosed(struct span s, const struct reply_layout *layout, size_t from, size_t to,
                            uint32_t *n_quoted)
{
    const char *mark = layout_unclosed_end(layout);
    if (!mark[0]) return SIZE_MAX;
    for (; from < to; from++) {
        struct span rest = span_from(s, from);
        if (span_starts(rest, layout->begin)) {
            ++*n_quoted;
        } else if (span_starts(rest, mark) && *n_quoted > 0) {
            --*n_quoted;
        } else if (span_starts(rest, mark)) {
            rest = span_from(rest, strlen(mark));
            while (rest.length > 0 && is_json_space(rest.data[0])) rest = span_from(rest, 1);
            if (rest.length == 0 || span_starts(rest, layout->begin)) return from;
        }
    }
    return SIZE_MAX;
}

/* A value, up to a mark after which the call goes on. */
static bool cut_value(struct span *s, const struct reply_layout *layout, const char *closing,
                      struct span *value)
{
    size_t at = 0, end = 0, before;
    uint32_t n_open = 0, n_quoted = 0;
    while (end != SIZE_MAX) {
        before = at;
        end = layout_find_closing(layout, closing, s->data, s->length, &at, &n_open);
        size_t unclosed = find_unclosed(*s, layout, before, end == SIZE_MAX ? s->length : end, &n_quoted);
        if (unclosed != SIZE_MAX) {
            *value = (struct span){s->data, unclosed};
            *s = span_from(*s, unclosed);
            return true;
        }
        if (end == SIZE_MAX) return false;
        at = end + strlen(closing);
        if (!ends_value(span_from(*s, at), layout)) continue;
        *value = (struct span){s->data, end};
        *s = span_from(*s, at);
        return true;
    }
    return false;
}

static bool read_argument(struct calls_reader *reader, struct span *s, const struct reply_layout *layout,
                          struct span name, json_t *arguments)
{
    struct span key, text, type = {0};
    char closing[2 * LAYOUT_MARK];
    if (!pass_mark(s, layout->key) || !span_cut(s, layout->after_key, &key)) return false;
    if (layout->after_type[0] && !span_cut(s, layout->after_type, &type)) return false;
    if (layout->value[0]) {
        *s = span_trim(*s);
        if (!pass_mark(s, layout->value)) return false;
    }
    key = span_trim(key);
    if (!layout_closing(layout, key.data, key.length, closing) || !cut_value(s, layout, closing, &text))
        return false;
    struct argument_type known = layout_type_of(layout, reader->tools, name, key, type);
    return !json_object_getn(arguments, key.data, key.length) &&
           calls_set(reader, arguments, key, layout_value_of(reader, layout, text, known));
}

/* KEYED. NULL: these are none. */
static json_t *read_arguments(struct calls_reader *reader, struct span *s, const struct reply_layout *layout,
                              struct span name)
{
    json_t *arguments = calls_made(reader, json_object());
    while (arguments && (*s = span_trim(*s), begins_argument(*s, layout))) {
        if (read_argument(reader, s, layout, name, arguments)) continue;
        json_decref(arguments);
        arguments = NULL;
    }
    return arguments;
}

/* An object in JSON, or in Gemma's notation. NULL: this is none. */
static json_t *read_object(struct calls_reader *reader, struct span *s, const struct reply_layout *layout)
{
    json_error_t where;
    size_t end = 0;
    json_t *object;
    *s = span_trim(*s);
    if (layout->kind == LAYOUT_WORDS) {
        object = literal_object(reader, s->data, s->length, &end);
    } else {
        object = calls_json(reader, *s, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &where);
        end = object ? (size_t)where.position : 0;
    }
    if (object) *s = span_from(*s, end);
    return object;
}

/* One call. */
static bool read_one(struct calls_reader *reader, json_t *calls, struct span *s,
                     const struct reply_layout *layout)
{
    struct span id = {0}, name;
    *s = span_trim(*s);
    if (!pass_mark(s, layout_inner_begin(layout))) return false;
    if (layout->before_name[0] && !span_cut(s, layout->before_name, &id)) return false;
    if (!cut_name(s, layout, &name)) return false;
    struct span number;
    if (layout->after_number[0] && !span_cut(s, layout->after_number, &number)) return false;
    name = span_trim(name);
    id = span_trim(id);
    if (layout->numbered) {
        struct span whole = name;
        name = layout_name_of_number(name);
        if (name.length < whole.length) id = whole;
    }
    json_t *arguments = layout->kind == LAYOUT_KEYED ? read_arguments(reader, s, layout, name)
                                                     : read_object(reader, s, layout);
    *s = span_trim(*s);
    json_t *its_name = calls_string(reader, name);
    bool good = arguments && pass_mark(s, layout_inner_end(layout));
    json_t *call =
        good ? calls_make(reader, its_name, arguments, id.length > 0 ? calls_string(reader, id) : NULL)
             : (json_decref(arguments), NULL);
    json_decref(its_name);
    return calls_append(reader, calls, call);
}

/* [NAME(KEY=LITERAL, …), …], with or without the brackets. */
static bool read_python_calls(struct calls_reader *reader, json_t *calls, struct span s)
{
    if (span_starts(s, "[") && s.data[s.length - 1] == ']')
        s = span_trim((struct span){s.data + 1, s.length - 2});
    while (s.length > 0) {
        struct span name;
        size_t end, n = 0;
        while (n < s.length && s.data[n] != '(') n++;
        name = span_trim((struct span){s.data, n});
        if (n == s.length || name.length == 0) return false;
        s = span_from(s, n);
        json_t *arguments = literal_arguments(reader, s.data, s.length, &end);
        json_t *its_name = calls_string(reader, name);
        json_t *call = calls_make(reader, its_name, arguments, NULL);
        json_decref(its_name);
        if (!calls_append(reader, calls, call)) return false;
        s = span_trim(span_from(s, end));
        if (span_starts(s, ",") || span_starts(s, ";")) s = span_trim(span_from(s, 1));
    }
    return json_array_size(calls) > 0;
}

bool layout_read(struct calls_reader *reader, json_t *calls, struct span s, const struct reply_layout *layout)
{
    if (layout->kind == LAYOUT_OBJECTS) return calls_read_objects(reader, calls, s, layout);
    if (layout->kind == LAYOUT_PYTHON)
        return span_starts(s, "{") || span_starts(s, "[{") ? calls_read_objects(reader, calls, s, layout)
                                                           : read_python_calls(reader, calls, s);
    while (s.length > 0) {
        if (layout_has_one(layout) && json_array_size(calls) > 0) return false;
        if (!read_one(reader, calls, &s, layout)) return false;
        s = span_trim(s);
        if (s.length > 0 && (s.data[0] == ',' || s.data[0] == ';')) s = span_trim(span_from(s, 1));
    }
    return json_array_size(calls) > 0;
}

bool layout_is_open(const struct reply_layout *layout, const char *text, size_t length)
{
    struct span s = {text, length}, before;
    if (layout->kind != LAYOUT_KEYED || layout->nested) return false;
    while (span_cut(&s, layout->key, &before))
        if (!cut_value(&s, layout, layout->after_value, &before)) return true;
    return false;
}
