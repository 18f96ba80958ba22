/* reply-grammar.c: the grammar of a whole reply in a conversation: reasoning where the model may reason, then
 * what the request wants: JSON of a schema, or calls of tools in the form that the model's family writes.
 * Grammars are written as GBNF (docs/grammars.md), with schemas as items. */
#include "serve/generate/generation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"

#define MAX_GRAMMAR (512 << 10) /* bytes */

/* ---- Text that grows ---- */

struct writer {
    const struct reply_grammar_input *input;
    struct text_buffer text;
    bool failed; /* out of memory */
};

static void grammar_put(struct writer *w, const char *text)
{
    if (!w->failed && text_add(&w->text, &(struct engine_string){text, strlen(text)})) w->failed = true;
}

/* A text as a string of GBNF. */
static void grammar_put_string(struct writer *w, const char *text)
{
    grammar_put(w, "\"");
    for (; *text; text++) {
        char one[2] = {*text, '\0'};
        if (*text == '"' || *text == '\\') grammar_put(w, "\\");
        grammar_put(w, *text == '\n' ? "\\n" : one);
    }
    grammar_put(w, "\"");
}

static void grammar_put_json(struct writer *w, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    if (!text) w->failed = true;
    if (text) grammar_put(w, text);
    free(text);
}

/* ---- Marks ---- */

/* The token that is spelled like the mark; -1: it takes several. */
static int32_t token_of(const struct reply_grammar_input *input, const char *mark)
{
    int32_t token = vocabulary_token(input->vocabulary, mark);
    struct engine_string piece;
    if (token < 0 || engine_model_token_text(input->model, token, &piece)) return -1;
    return piece.length == strlen(mark) && memcmp(piece.data, mark, piece.length) == 0 ? token : -1;
}

/* A mark: as its token if the vocabulary has one, else as text. */
static void put_mark(struct writer *w, const char *mark)
{
    int32_t token = token_of(w->input, mark);
    char text[32];
    grammar_put(w, " ");
    if (token < 0) {
        grammar_put_string(w, mark);
    } else {
        snprintf(text, sizeof text, "<[%d]>", (int)token);
        grammar_put(w, text);
    }
    grammar_put(w, " ");
}

/* Bytes of the character at the beginning of a text, which is not empty. */
static size_t character_size(const char *text)
{
    size_t n = 1;
    while (((unsigned char)text[n] & 0xc0) == 0x80) n++;
    return n;
}

/* A character within the brackets of a class. */
static void put_in_class(struct writer *w, const char *character)
{
    char text[16];
    size_t n = character_size(character);
    if (n > 1)
        snprintf(text, sizeof text, "%.*s", (int)n, character);
    else
        snprintf(text, sizeof text, "\\x%02X", (unsigned char)*character);
    grammar_put(w, text);
}

/* A class of all characters but the first ones of two texts. */
static void put_neither(struct writer *w, const char *a, const char *b)
{
    grammar_put(w, "[^");
    put_in_class(w, a);
    put_in_class(w, b);
    grammar_put(w, "]");
}

/* The beginnings of a mark that are shorter than it, as alternatives; `ended`: each with a character that
 * goes on with neither this mark nor another one. */
static void put_beginnings(struct writer *w, const char *mark, bool ended)
{
    char begin[64];
    ENGINE_ASSERT(strlen(mark) < sizeof begin);
    grammar_put(w, "(");
    for (size_t n = character_size(mark); mark[n]; n += character_size(mark + n)) {
        snprintf(begin, sizeof begin, "%.*s", (int)n, mark);
        if (n > character_size(mark)) grammar_put(w, " | ");
        grammar_put_string(w, begin);
        if (ended) grammar_put(w, " ");
        if (ended) put_neither(w, mark, mark + n);
    }
    grammar_put(w, ")");
}

/* Whether the first character of a mark does not come again in it. */
static bool begins_once(const char *mark)
{
    size_t n = character_size(mark);
    return !memmem(mark + n, strlen(mark + n), mark, n);
}

/* Any text without a mark, which begins once. */
static void put_text_without(struct writer *w, const char *mark)
{
    int32_t token = token_of(w->input, mark);
    char text[32];
    if (token >= 0) {
        snprintf(text, sizeof text, " (!<[%d]>)* ", (int)token);
        grammar_put(w, text);
        return;
    }
    if (!begins_once(mark)) { /* then its first character doesn't come either */
        grammar_put(w, " ");
        put_neither(w, mark, mark);
        grammar_put(w, "* ");
        return;
    }
    grammar_put(w, " (");
    put_neither(w, mark, mark);
    grammar_put(w, " | ");
    put_beginnings(w, mark, false);
    grammar_put(w, "* ");
    put_beginnings(w, mark, true);
    grammar_put(w, ")* ");
    put_beginnings(w, mark, false);
    grammar_put(w, "* ");
}

/* ---- Reasoning ---- */

static bool template_has(const struct writer *w, const char *text)
{
    return strstr(w->input->template_text, text) != NULL;
}

/* What may come before the reply proper. */
static void put_reasoning(struct writer *w)
{
    if (w->input->format == ENGINE_REPLY_GPT_OSS) {
        grammar_put(w, "(");
        put_mark(w, "<|channel|>");
        grammar_put_string(w, "analysis");
        put_mark(w, "<|message|>");
        put_text_without(w, "<|end|>");
        put_mark(w, "<|end|>");
        put_mark(w, "<|start|>");
        grammar_put(w, "\"assistant\")? ");
        return;
    }
    const char *open = w->input->reasoning_begin, *close = w->input->reasoning_end;
    if (!open) return;
    grammar_put(w, "(");
    if (!w->input->reasoning) put_mark(w, open);
    put_text_without(w, close);
    put_mark(w, close);
    grammar_put(w, w->input->reasoning ? "[ \\n]{0,4}) " : "[ \\n]{0,4})? ");
}

/* ---- Calls ---- */

/* The schema of a tool's arguments; without one it takes none. New reference. */
static json_t *arguments_schema(const json_t *function)
{
    json_t *parameters = json_object_get(function, "parameters");
    if (json_is_object(parameters) && json_object_size(parameters) > 0) return json_incref(parameters);
    return json_pack("{s:s, s:{}, s:b}", "type", "object", "properties", "additionalProperties", 0);
}

/* A schema of {NAME_KEY: the tool's name, ARGUMENTS_KEY: its arguments}. New reference. */
static json_t *call_schema(const json_t *function, const char *name_key, const char *arguments_key)
{
    return json_pack("{s:s, s:{s:{s:O}, s:o}, s:[s, s], s:b}", "type", "object", "properties", name_key,
                     "const", json_object_get(function, "name"), arguments_key, arguments_schema(function),
                     "required", name_key, arguments_key, "additionalProperties", 0);
}

static void put_schema(struct writer *w, json_t *schema)
{
    grammar_put(w, " %json ");
    grammar_put_json(w, schema);
    grammar_put(w, " ");
    json_decref(schema);
}

static void put_arguments(struct writer *w, const json_t *function)
{
    put_schema(w, arguments_schema(function));
}

static void put_object(struct writer *w, const json_t *function, const char *name_key,
                       const char *arguments_key)
{
    put_schema(w, call_schema(function, name_key, arguments_key));
}

/* A mark that the layout may not have. */
static void put_layout_mark(struct writer *w, const char *mark)
{
    if (mark[0]) put_mark(w, mark);
}

/* ---- Calls by a layout ---- */

/* A schema within the tool's, with the definitions that it may refer to. New reference. */
static json_t *part_of_schema(const json_t *whole, const json_t *part)
{
    static const char *const definitions[] = {"$defs", "definitions"};
    json_t *copy = json_copy((json_t *)(size_t)part);
    for (size_t i = 0; i < sizeof definitions / sizeof *definitions; i++)
        if (json_is_object(copy) && json_object_get(whole, definitions[i]))
            json_object_set(copy, definitions[i], json_object_get(whole, definitions[i]));
    return copy;
}

/* Whether a schema allows nothing but strings. */
static bool is_string_schema(const json_t *schema)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    return type && strcmp(type, "string") == 0;
}

/* The strings that a schema lists, bare or between marks. False: it lists none. */
static bool put_listed_strings(struct writer *w, const json_t *schema, const char *quote)
{
    const json_t *values = json_object_get(schema, "enum"), *value;
    size_t i;
    if (json_array_size(values) == 0) return false;
    grammar_put(w, "(");
    json_array_foreach(values, i, value)
    {
        if (i > 0) grammar_put(w, " | ");
        if (quote[0]) put_mark(w, quote);
        grammar_put_string(w, json_is_string(value) ? json_string_value(value) : "");
        if (quote[0]) put_mark(w, quote);
    }
    grammar_put(w, ")");
    return true;
}

/* A value: JSON, or a string as the layout writes it. */
static void put_layout_value(struct writer *w, const json_t *whole, const json_t *schema)
{
    static const char gemma_quote[] = "<|\"|>";
    uint32_t arguments = w->input->layout->arguments;
    bool string = is_string_schema(schema);
    if (arguments == ENGINE_REPLY_ARGUMENTS_MARKED && string) {
        if (!put_listed_strings(w, schema, "")) put_text_without(w, w->input->layout->after_value);
    } else if (arguments == ENGINE_REPLY_ARGUMENTS_GEMMA && string) {
        if (put_listed_strings(w, schema, gemma_quote)) return;
        put_mark(w, gemma_quote);
        put_text_without(w, gemma_quote);
        put_mark(w, gemma_quote);
    } else {
        put_schema(w, part_of_schema(whole, schema));
    }
}

/* One argument. */
static void put_layout_member(struct writer *w, const json_t *whole, const char *key, const json_t *schema)
{
    const struct engine_reply_layout *layout = w->input->layout;
    bool marked = layout->arguments == ENGINE_REPLY_ARGUMENTS_MARKED;
    grammar_put(w, "(");
    if (marked) grammar_put(w, "\"\\n\"? ");
    if (marked) put_mark(w, layout->key);
    grammar_put_string(w, key);
    if (layout->arguments == ENGINE_REPLY_ARGUMENTS_GEMMA) grammar_put(w, " \":\" ");
    if (layout->arguments == ENGINE_REPLY_ARGUMENTS_PYTHON) grammar_put(w, " \"=\" ");
    if (marked) put_mark(w, layout->after_key);
    if (marked && layout->after_type[0]) {
        grammar_put_string(w, is_string_schema(schema) ? "true" : "false");
        put_mark(w, layout->after_type);
    }
    if (marked && layout->value[0]) grammar_put(w, " \"\\n\"? ");
    if (marked && layout->value[0]) put_mark(w, layout->value);
    put_layout_value(w, whole, schema);
    if (marked) put_mark(w, layout->after_value);
    grammar_put(w, ")");
}

static bool is_required(const json_t *schema, const char *key)
{
    const json_t *required = json_object_get(schema, "required"), *name;
    size_t i;
    json_array_foreach(required, i, name) if (json_is_string(name) &&
                                              strcmp(json_string_value(name), key) == 0) return true;
    return false;
}

/* Optional arguments, each with a comma before it where there are commas. */
static void put_optional(struct writer *w, const json_t *schema, void *from, const char *comma)
{
    json_t *properties = json_object_get(schema, "properties");
    for (void *at = from; at; at = json_object_iter_next(properties, at)) {
        if (is_required(schema, json_object_iter_key(at))) continue;
        grammar_put(w, "(");
        grammar_put(w, comma);
        put_layout_member(w, schema, json_object_iter_key(at), json_object_iter_value(at));
        grammar_put(w, ")? ");
    }
}

/* The arguments that the schema names: those that it requires, and then others. */
static void put_layout_members(struct writer *w, const json_t *schema, const char *comma)
{
    json_t *properties = json_object_get(schema, "properties");
    bool any = false;
    for (void *at = json_object_iter(properties); at; at = json_object_iter_next(properties, at)) {
        if (!is_required(schema, json_object_iter_key(at))) continue;
        if (any) grammar_put(w, comma);
        put_layout_member(w, schema, json_object_iter_key(at), json_object_iter_value(at));
        any = true;
    }
    if (any || !comma[0]) {
        put_optional(w, schema, json_object_iter(properties), comma);
        return;
    }
    /* The first one has no comma. */
    grammar_put(w, "(");
    for (void *at = json_object_iter(properties); at; at = json_object_iter_next(properties, at)) {
        put_layout_member(w, schema, json_object_iter_key(at), json_object_iter_value(at));
        grammar_put(w, " ");
        put_optional(w, schema, json_object_iter_next(properties, at), comma);
        grammar_put(w, " | ");
    }
    grammar_put(w, "\"\")");
}

/* The name and the arguments, as the layout says. */
static void put_named_call(struct writer *w, const json_t *function)
{
    const struct engine_reply_layout *layout = w->input->layout;
    json_t *schema = arguments_schema(function);
    put_layout_mark(w, layout->begin);
    if (layout->before_name[0]) grammar_put(w, " [a-zA-Z0-9_-]{1,40} ");
    put_layout_mark(w, layout->before_name);
    if (layout->numbered) grammar_put(w, " \"functions.\" ");
    grammar_put_string(w, json_string_value(json_object_get(function, "name")));
    if (layout->numbered) grammar_put(w, " \":\" [0-9]{1,4} ");
    put_layout_mark(w, layout->after_name);
    switch (layout->arguments) {
    case ENGINE_REPLY_ARGUMENTS_GEMMA:
        grammar_put(w, " \"{\" ");
        put_layout_members(w, schema, "\",\" ");
        grammar_put(w, " \"}\" ");
        break;
    case ENGINE_REPLY_ARGUMENTS_PYTHON:
        grammar_put(w, " \"(\" ");
        put_layout_members(w, schema, "\",\" \" \"? ");
        grammar_put(w, " \")\" ");
        break;
    case ENGINE_REPLY_ARGUMENTS_MARKED:
        grammar_put(w, " \"\\n\"? ");
        put_layout_members(w, schema, "");
        grammar_put(w, " \"\\n\"? ");
        break;
    default: put_schema(w, json_incref(schema)); break;
    }
    put_layout_mark(w, layout->end);
    json_decref(schema);
}

/* The call of one tool, as the layout says. */
static void put_layout_call(struct writer *w, const json_t *function)
{
    const struct engine_reply_layout *layout = w->input->layout;
    if (layout->arguments != ENGINE_REPLY_ARGUMENTS_OBJECT) {
        put_named_call(w, function);
        return;
    }
    put_layout_mark(w, layout->begin);
    if (layout->begin[0]) grammar_put(w, " \"\\n\"? ");
    if (strcmp(layout->name_key, "-") == 0) {
        const char *name = json_string_value(json_object_get(function, "name"));
        put_schema(w, json_pack("{s:s, s:{s:o}, s:[s], s:b}", "type", "object", "properties", name,
                                arguments_schema(function), "required", name, "additionalProperties", 0));
    } else {
        put_object(w, function, layout->name_key, layout->arguments_key);
    }
    if (layout->end[0]) grammar_put(w, " \"\\n\"? ");
    put_layout_mark(w, layout->end);
}

/* One or more calls with what surrounds all. */
static void put_layout_calls(struct writer *w, bool one)
{
    const struct engine_reply_layout *layout = w->input->layout;
    bool listed = layout->listed || layout->arguments == ENGINE_REPLY_ARGUMENTS_PYTHON;
    put_layout_mark(w, layout->open);
    if (layout->open[0]) grammar_put(w, " \"\\n\"? ");
    if (listed) grammar_put(w, " \"[\" ");
    grammar_put(w, " call ");
    if (!one) grammar_put(w, listed ? " (\",\" \" \"? call)* " : " (\"\\n\"? call)* ");
    /* A line break after a call does not promise another one. */
    if (!one && !layout->open[0]) grammar_put(w, " \"\\n\"? ");
    if (listed) grammar_put(w, " \"]\" ");
    if (layout->open[0]) grammar_put(w, " \"\\n\"? ");
    put_layout_mark(w, layout->close);
}

/* The call of one tool without what surrounds all calls. */
static void put_call(struct writer *w, const json_t *function)
{
    const char *name = json_string_value(json_object_get(function, "name"));
    if (w->input->layout) {
        put_layout_call(w, function);
        return;
    }
    switch (w->input->format) {
    case ENGINE_REPLY_LLAMA3: put_object(w, function, "name", "parameters"); break;
    case ENGINE_REPLY_MISTRAL:
        if (token_of(w->input, "[ARGS]") < 0) {
            put_object(w, function, "name", "arguments");
        } else {
            put_mark(w, "[TOOL_CALLS]");
            grammar_put_string(w, name);
            put_mark(w, "[ARGS]");
            put_arguments(w, function);
        }
        break;
    case ENGINE_REPLY_DEEPSEEK:
        put_mark(w, "<｜tool▁call▁begin｜>");
        if (template_has(w, "```json")) grammar_put_string(w, "function");
        if (template_has(w, "```json")) put_mark(w, "<｜tool▁sep｜>");
        grammar_put_string(w, name);
        if (!template_has(w, "```json")) put_mark(w, "<｜tool▁sep｜>");
        if (template_has(w, "```json")) grammar_put(w, " \"\\n```json\\n\" ");
        put_arguments(w, function);
        if (template_has(w, "```json")) grammar_put(w, " \"\\n```\" ");
        put_mark(w, "<｜tool▁call▁end｜>");
        break;
    case ENGINE_REPLY_GPT_OSS:
        put_mark(w, "<|channel|>");
        grammar_put(w, " \"commentary to=functions.\" ");
        grammar_put_string(w, name);
        grammar_put(w, " \" \" (");
        put_mark(w, "<|constrain|>");
        grammar_put(w, ")? \"json\"? ");
        put_mark(w, "<|message|>");
        put_arguments(w, function);
        break;
    default: ENGINE_ASSERT(w->input->layout); break; /* all others have one */
    }
}

/* The rule "call": a call of a tool that may be chosen. */
static void put_call_rule(struct writer *w, const struct params *params)
{
    size_t n = 0;
    grammar_put(w, "\ncall ::= ");
    for (size_t i = 0; i < json_array_size(params->tools); i++) {
        const json_t *function = json_object_get(json_array_get(params->tools, i), "function");
        if (params->tool && strcmp(params->tool, json_string_value(json_object_get(function, "name"))) != 0)
            continue;
        if (n++ > 0) grammar_put(w, " | ");
        put_call(w, function);
    }
    grammar_put(w, "\n");
}

/* One call or more, with what surrounds and separates them. */
static void put_calls(struct writer *w, const struct params *params)
{
    uint32_t format = w->input->format;
    bool listed = format == ENGINE_REPLY_MISTRAL && token_of(w->input, "[ARGS]") < 0;
    /* Llama 3 and gpt-oss end their turn after a call. */
    bool one =
        params->one_call || params->tool || format == ENGINE_REPLY_LLAMA3 || format == ENGINE_REPLY_GPT_OSS;
    if (w->input->layout) {
        put_layout_calls(w, one);
        return;
    }
    if (format == ENGINE_REPLY_DEEPSEEK) put_mark(w, "<｜tool▁calls▁begin｜>");
    if (listed) put_mark(w, "[TOOL_CALLS]");
    if (listed) grammar_put(w, " \"[\" ");
    grammar_put(w, "call");
    /* A line break after a call does not promise another one. */
    const char *more = " (\"\\n\"? call)* \"\\n\"? ";
    if (format == ENGINE_REPLY_MISTRAL) more = listed ? " (\",\" \" \"? call)*" : " call*";
    if (!one) grammar_put(w, more);
    if (listed) grammar_put(w, " \"]\" ");
    if (format == ENGINE_REPLY_DEEPSEEK) put_mark(w, "<｜tool▁calls▁end｜>");
}

/* What is no call, where calls may come but need not. Of Llama 3, whose calls are the whole reply: it does
 * not begin as one. */
static void put_llama3_text(struct writer *w)
{
    static const char mark[] = "<|python_tag|>";
    grammar_put(w, " [ \\n\\r\\t]* (([^{< \\n\\r\\t] | ");
    put_beginnings(w, mark, false);
    grammar_put(w, "* ");
    put_beginnings(w, mark, true);
    grammar_put(w, ") ");
    put_text_without(w, mark);
    grammar_put(w, " | ");
    put_beginnings(w, mark, false);
    grammar_put(w, "*) ");
}

/* Messages of gpt-oss that another one follows: its reasoning, and what it says before a call. */
static void put_gpt_oss_notes(struct writer *w)
{
    grammar_put(w, "(");
    put_mark(w, "<|channel|>");
    grammar_put(w, "(\"analysis\" | \"commentary\")");
    put_mark(w, "<|message|>");
    put_text_without(w, "<|end|>");
    put_mark(w, "<|end|>");
    put_mark(w, "<|start|>");
    grammar_put(w, "\"assistant\")* ");
}

static void put_gpt_oss_final(struct writer *w)
{
    put_mark(w, "<|channel|>");
    grammar_put(w, "\"final\"");
    put_mark(w, "<|message|>");
    put_text_without(w, "<|message|>"); /* without it, no other message begins */
}

/* Text, or calls whose arguments fit. */
static void put_text_or_calls(struct writer *w, const struct params *params)
{
    uint32_t format = w->input->format;
    if (format == ENGINE_REPLY_GPT_OSS)
        put_gpt_oss_notes(w);
    else
        put_reasoning(w);
    if (format == ENGINE_REPLY_LLAMA3 || format == ENGINE_REPLY_GPT_OSS) {
        grammar_put(w, "(");
        put_calls(w, params);
        grammar_put(w, " | ");
        if (format == ENGINE_REPLY_LLAMA3)
            put_llama3_text(w);
        else
            put_gpt_oss_final(w);
        grammar_put(w, ")");
        return;
    }
    const char *mark = "";
    if (format == ENGINE_REPLY_MISTRAL) mark = "[TOOL_CALLS]";
    if (format == ENGINE_REPLY_DEEPSEEK) mark = "<｜tool▁calls▁begin｜>";
    const struct engine_reply_layout *layout = w->input->layout;
    if (layout) mark = layout->open[0] ? layout->open : layout->begin;
    put_text_without(w, mark);
    grammar_put(w, "(");
    put_calls(w, params);
    grammar_put(w, ")?");
}

static bool any_strict(const struct params *params)
{
    for (size_t i = 0; i < json_array_size(params->tools); i++)
        if (json_is_true(
                json_object_get(json_object_get(json_array_get(params->tools, i), "function"), "strict")))
            return true;
    return false;
}

/* ---- All of it ---- */

/* A reply that is JSON. */
static void put_json_reply(struct writer *w, const struct constraint *constraint)
{
    if (w->input->format == ENGINE_REPLY_GPT_OSS) {
        put_mark(w, "<|channel|>");
        grammar_put(w, " \"final\" ");
        put_mark(w, "<|message|>");
    }
    grammar_put(w, " %json ");
    grammar_put(w,
                constraint->kind == ENGINE_GRAMMAR_JSON_SCHEMA ? constraint->text : "{\"type\":\"object\"}");
}

/* Reading a grammar of this size takes up to a second and some 50 MiB. */
static bool grammar_check_size(size_t size, const char *param, struct api_error *error)
{
    if (size <= MAX_GRAMMAR) return true;
    return api_error_in(error, param, "the grammar of \"%s\" takes %zu bytes, and at most %d are allowed",
                        param, size, MAX_GRAMMAR);
}

static bool read_grammar(const struct reply_grammar_input *input, enum engine_grammar_kind kind,
                         const char *text, size_t length, const char *param, struct engine_grammar **grammar,
                         struct api_error *error)
{
    const struct engine_grammar_options options = {.struct_size = sizeof options,
                                                   .kind = kind,
                                                   .text = text,
                                                   .length = length,
                                                   .gives_up = input->gives_up,
                                                   .user = input->user};
    if (!grammar_check_size(length, param, error)) return false;
    int status = engine_grammar_create_with(input->model, &options, grammar);
    return !status || api_error_of_engine(error, status, param);
}

static bool reply_grammar_compile(struct writer *w, const char *param, struct engine_grammar **grammar,
                                  struct api_error *error)
{
    bool good = w->failed ? api_error_memory(error)
                          : read_grammar(w->input, ENGINE_GRAMMAR_GBNF, w->text.data, w->text.size, param,
                                         grammar, error);
    free(w->text.data);
    return good;
}

static bool create_for_calls(struct writer *w, const struct params *params, struct engine_grammar **grammar,
                             struct api_error *error)
{
    bool forced = params_forces_call(params);
    if (forced) {
        put_reasoning(w);
        put_calls(w, params);
    } else {
        put_text_or_calls(w, params);
    }
    put_call_rule(w, params);
    return reply_grammar_compile(w, forced ? "tool_choice" : "tools", grammar, error);
}

bool reply_grammar_constrain(const struct reply_grammar_input *input, const struct params *params,
                             struct engine_grammar **grammar, struct api_error *error)
{
    const struct constraint *constraint = &params->options.constraint;
    return read_grammar(input, constraint->kind, constraint->text, constraint->size, params->constrained_by,
                        grammar, error);
}

static bool needs_calls(const struct params *params)
{
    return params_forces_call(params) ||
           (params->tools && params->tool_choice == TOOL_CHOICE_AUTO && any_strict(params));
}

bool reply_grammar_needed(const struct params *params)
{
    return params->options.constraint.kind || needs_calls(params);
}

bool reply_grammar_create(const struct reply_grammar_input *input, const struct params *params,
                          struct engine_grammar **grammar, struct api_error *error)
{
    const struct constraint *constraint = &params->options.constraint;
    struct writer writer = {.input = input};
    *grammar = NULL;
    if (constraint->kind == ENGINE_GRAMMAR_GBNF)
        return reply_grammar_constrain(input, params, grammar, error);
    bool laid_out = input->layout || input->format != ENGINE_REPLY_TEMPLATE;
    bool may_call = params->tools && params->tool_choice == TOOL_CHOICE_AUTO && constraint->kind;
    if ((needs_calls(params) || may_call) && !laid_out)
        return api_error_in(error, params_forces_call(params) ? "tool_choice" : "tools",
                            "calls in the form of this model's template can't be enforced: leave out "
                            "\"tool_choice\", \"strict\" and \"response_format\"");
    grammar_put(&writer, "root ::= ");
    if (constraint->kind && !params_forces_call(params)) {
        bool calls = params->tools && params->tool_choice == TOOL_CHOICE_AUTO;
        put_reasoning(&writer);
        grammar_put(&writer, "(");
        put_json_reply(&writer, constraint);
        if (calls) grammar_put(&writer, " | ");
        if (calls) put_calls(&writer, params);
        grammar_put(&writer, ")");
        if (calls) put_call_rule(&writer, params);
        return reply_grammar_compile(&writer, params->constrained_by, grammar, error);
    }
    if (needs_calls(params)) return create_for_calls(&writer, params, grammar, error);
    free(writer.text.data);
    return true;
}
