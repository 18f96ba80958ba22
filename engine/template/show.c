/* show.c: see show.h. */
#include "template/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/characters.h"
#include "template/order.h"

size_t show_float(double x, char text[40])
{
    if (isnan(x)) return (size_t)snprintf(text, 40, "nan");
    if (isinf(x)) return (size_t)snprintf(text, 40, x < 0 ? "-inf" : "inf");
    char digits[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision, x);
        if (strtod(digits, NULL) == x) break;
    }
    char *mark = strchr(digits, 'e');
    int exponent = atoi(mark + 1);
    *mark = '\0';
    if (exponent < -4 || exponent >= 16) {
        return (size_t)snprintf(text, 40, "%se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent));
    }
    int decimals = (int)strlen(digits) - (*digits == '-') - 1 - exponent;
    if (strchr(digits, '.')) decimals--;
    return (size_t)snprintf(text, 40, "%.*f", decimals > 1 ? decimals : 1, x);
}

static void show_number(struct builder *builder, struct value value)
{
    char text[40];
    size_t length = VALUE_IS(value, INTEGER)
                        ? (size_t)snprintf(text, sizeof text, "%lld", (long long)value.integer)
                        : show_float(value.number, text);
    builder_bytes(builder, text, length, false);
}

/* repr() of a text. */
static void quote(struct builder *builder, const struct text *text)
{
    bool single = memchr(text->bytes, '\'', text->length), two = memchr(text->bytes, '"', text->length);
    char mark = single && !two ? '"' : '\'';
    builder_bytes(builder, &mark, 1, false);
    size_t plain = 0;
    for (size_t at = 0, length; at < text->length; at += length) {
        uint32_t c = utf8_read(text->bytes + at, &length);
        bool escaped = c == '\\' || c == (unsigned char)mark;
        if (!escaped && character_is_printable(c)) continue;
        builder_part(builder, text, plain, at);
        task_charge(builder->task, UINT64_C(4) * TASK_STEP_CHARACTER);
        char code[16];
        const char *name = c && c < ' ' ? strchr("\nn\rr\tt", (int)c) : NULL;
        if (escaped)
            snprintf(code, sizeof code, "\\%c", (char)c);
        else if (name)
            snprintf(code, sizeof code, "\\%c", name[1]);
        else
            snprintf(code, sizeof code, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        builder_bytes(builder, code, strlen(code), text_is_user(text, at));
        plain = at + length;
    }
    builder_part(builder, text, plain, text->length);
    builder_bytes(builder, &mark, 1, false);
}

static void quote_items(struct builder *builder, const struct list *list, const char *open, const char *close)
{
    builder_string(builder, open);
    for (size_t i = 0; i < list->count; i++) {
        if (i) builder_string(builder, ", ");
        show_quoted(builder, list->items[i]);
    }
    builder_string(builder, close);
}

static void quote_dict(struct builder *builder, const struct dict *dict)
{
    builder_string(builder, "{");
    for (size_t i = 0; i < dict->count; i++) {
        if (i) builder_string(builder, ", ");
        show_quoted(builder, dict->pairs[i].key);
        builder_string(builder, ": ");
        show_quoted(builder, dict->pairs[i].value);
    }
    builder_string(builder, "}");
}

static void quote_range(struct builder *builder, struct range range)
{
    char text[80];
    snprintf(text, sizeof text, range.step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
             (long long)range.from, (long long)range.to, (long long)range.step);
    builder_string(builder, text);
}

void show_quoted(struct builder *builder, struct value value)
{
    task_charge(builder->task, TASK_STEP_ITEM);
    task_enter(builder->task);
    switch (value.kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED: builder_string(builder, "Undefined"); break;
    case VALUE_NONE: builder_string(builder, "None"); break;
    case VALUE_BOOLEAN: builder_string(builder, value.boolean ? "True" : "False"); break;
    case VALUE_INTEGER:
    case VALUE_FLOAT: show_number(builder, value); break;
    case VALUE_TEXT:
        if (value.text->html) builder_string(builder, "Markup(");
        quote(builder, value.text);
        if (value.text->html) builder_string(builder, ")");
        break;
    case VALUE_LIST: quote_items(builder, value.list, "[", "]"); break;
    case VALUE_TUPLE: quote_items(builder, value.list, "(", value.list->count == 1 ? ",)" : ")"); break;
    case VALUE_RANGE: quote_range(builder, value.list->range); break;
    case VALUE_VIEW:
        builder_string(builder, value.list->type);
        quote_items(builder, value.list, "([", "])");
        break;
    case VALUE_DICT: quote_dict(builder, value.dict); break;
    case VALUE_NAMESPACE:
        builder_string(builder, "<Namespace ");
        quote_dict(builder, value.dict);
        builder_string(builder, ">");
        break;
    default:
        builder_string(builder, "<");
        builder_string(builder, value_type(value));
        builder_string(builder, " object>");
    }
    task_leave(builder->task);
}

void show_into(struct builder *builder, struct value value)
{
    if (VALUE_IS(value, TEXT))
        builder_text(builder, value.text);
    else if (!VALUE_IS(value, UNDEFINED))
        show_quoted(builder, value);
}

const struct text *show_text(struct task *task, struct value value)
{
    if (VALUE_IS(value, TEXT)) return value.text;
    struct builder *builder = builder_create(task);
    show_into(builder, value);
    return builder_finish(builder);
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static void json_text_into(struct builder *builder, const struct text *text, bool ascii)
{
    builder_string(builder, "\"");
    size_t plain = 0;
    for (size_t at = 0, length = 1; at < text->length; at += length) {
        unsigned char first = (unsigned char)text->bytes[at];
        length = 1;
        if (first >= ' ' && first != '"' && first != '\\' && (first < 0x7F || !ascii)) continue;
        uint32_t c = utf8_read(text->bytes + at, &length);
        builder_part(builder, text, plain, at);
        task_charge(builder->task, UINT64_C(4) * TASK_STEP_CHARACTER);
        char code[16];
        const char *name = c && c < 0x80 ? strchr("\"\"\\\\\nn\rr\tt\bb\ff", (int)c) : NULL;
        if (name)
            snprintf(code, sizeof code, "\\%c", c == '"' || c == '\\' ? (char)c : name[1]);
        else if (c < 0x10000)
            snprintf(code, sizeof code, "\\u%04x", c);
        else
            snprintf(code, sizeof code, "\\u%04x\\u%04x", 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF));
        builder_bytes(builder, code, strlen(code), text_is_user(text, at));
        plain = at + length;
    }
    builder_part(builder, text, plain, text->length);
    builder_string(builder, "\"");
}

static void json_line(struct builder *builder, const struct show_json *options, uint32_t level)
{
    if (!options->indent) return;
    builder_string(builder, "\n");
    for (uint32_t i = 0; i < level; i++) builder_text(builder, options->indent);
}

static void json_value(struct builder *builder, struct value value, const struct show_json *options,
                       uint32_t level);

static void json_key(struct builder *builder, struct value key, const struct show_json *options)
{
    if (VALUE_IS(key, TEXT)) {
        json_text_into(builder, key.text, options->ascii);
        return;
    }
    if (!value_is_number(key) && !VALUE_IS(key, NONE))
        task_fail(builder->task, "keys must be str, int, float, bool or None, not %s", value_type(key));
    builder_string(builder, "\"");
    json_value(builder, key, options, 0);
    builder_string(builder, "\"");
}

static void json_dict(struct builder *builder, const struct dict *dict, const struct show_json *options,
                      uint32_t level)
{
    size_t *order = options->sorted ? order_pairs(builder->task, dict) : NULL;
    builder_string(builder, "{");
    for (size_t i = 0; i < dict->count; i++) {
        const struct pair *pair = &dict->pairs[order ? order[i] : i];
        if (i) builder_text(builder, options->item_separator);
        json_line(builder, options, level + 1);
        json_key(builder, pair->key, options);
        builder_text(builder, options->key_separator);
        json_value(builder, pair->value, options, level + 1);
    }
    if (dict->count) json_line(builder, options, level);
    builder_string(builder, "}");
}

static void json_list(struct builder *builder, const struct list *list, const struct show_json *options,
                      uint32_t level)
{
    builder_string(builder, "[");
    for (size_t i = 0; i < list->count; i++) {
        if (i) builder_text(builder, options->item_separator);
        json_line(builder, options, level + 1);
        json_value(builder, list->items[i], options, level + 1);
    }
    if (list->count) json_line(builder, options, level);
    builder_string(builder, "]");
}

static void json_value(struct builder *builder, struct value value, const struct show_json *options,
                       uint32_t level)
{
    struct task *task = builder->task;
    task_charge(task, TASK_STEP_ITEM);
    task_enter(task);
    switch (value.kind) {
    case VALUE_NONE: builder_string(builder, "null"); break;
    case VALUE_BOOLEAN: builder_string(builder, value.boolean ? "true" : "false"); break;
    case VALUE_INTEGER: show_number(builder, value); break;
    case VALUE_FLOAT:
        if (isnan(value.number))
            builder_string(builder, "NaN");
        else if (isinf(value.number))
            builder_string(builder, value.number < 0 ? "-Infinity" : "Infinity");
        else
            show_number(builder, value);
        break;
    case VALUE_TEXT: json_text_into(builder, value.text, options->ascii); break;
    case VALUE_LIST:
    case VALUE_TUPLE: json_list(builder, value.list, options, level); break;
    case VALUE_DICT: json_dict(builder, value.dict, options, level); break;
    case VALUE_UNDEFINED: value_fail_undefined(task, value);
    default: task_fail(task, "Object of type %s is not JSON serializable", value_type(value));
    }
    task_leave(task);
}

void show_json(struct builder *builder, struct value value, const struct show_json *options)
{
    json_value(builder, value, options, 0);
}
