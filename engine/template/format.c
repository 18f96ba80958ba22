/* format.c: values as texts: Python's str(), repr() and json.dumps(), and its two ways of formatting: '%s' %
 * x and '{}'.format(x). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/machine.h"

#define MAX_WIDTH 10000

/* ---- str() and repr() ---------------------------------------------------------------------------------- */

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
static void quote_text(struct builder *builder, const struct text *text)
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
        quote_text(builder, value.text);
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
    /* Not in transformers, but in llama.cpp. */
    case VALUE_ITERATOR: json_list(builder, value_items(task, value), options, level); break;
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

/* How a value is to be written. */
struct style {
    uint32_t fill; /* a character */
    char align;    /* '<', '>', '^', '='; 0: by type */
    char sign;     /* '+', ' '; 0: only minus */
    bool alternate, zero, commas;
    int width, precision; /* -1: not given */
    char type;            /* 0: by value */
    bool html;            /* texts are escaped */
};

/* ---- Numbers ------------------------------------------------------------------------------------------- */

static size_t write_integer(char text[128], int64_t value, const struct style *style)
{
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    unsigned base = style->type == 'x' || style->type == 'X' ? 16
                    : style->type == 'o'                     ? 8
                    : style->type == 'b'                     ? 2
                                                             : 10;
    const char *digits = style->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char reversed[128];
    size_t count = 0, length = 0;
    for (unsigned n = 0; count == 0 || rest; rest /= base, n++) {
        if (style->commas && n && n % 3 == 0) reversed[count++] = ',';
        reversed[count++] = digits[rest % base];
    }
    if (value < 0)
        text[length++] = '-';
    else if (style->sign)
        text[length++] = style->sign;
    if (style->alternate && base != 10) {
        text[length++] = '0';
        text[length++] = style->type;
    }
    while (count) text[length++] = reversed[--count];
    return length;
}

/* Commas between thousands of the digits before the point. */
static size_t add_commas(char *text, size_t length)
{
    size_t first = text[0] == '-' || text[0] == '+' || text[0] == ' ', digits = 0;
    while (first + digits < length && text[first + digits] >= '0' && text[first + digits] <= '9') digits++;
    for (size_t n = digits; n > 3;) {
        n -= 3;
        memmove(text + first + n + 1, text + first + n, length - first - n);
        text[first + n] = ',';
        length++;
    }
    return length;
}

static size_t write_float(struct task *task, char text[1024], double value, const struct style *style)
{
    char type = style->type ? style->type : 'r';
    int precision = style->precision >= 0 ? style->precision : 6;
    char code[16], plain[40];
    size_t length;
    if (precision > 300) task_fail(task, "a precision of more than 300");
    if (isinf(value) || isnan(value) || (type == 'r' && style->precision < 0)) {
        show_float(value, plain);
        snprintf(text, 1024, "%s%s", style->sign && value >= 0 ? (char[]){style->sign, 0} : "", plain);
    } else {
        char kind = type == 'r' ? 'g' : type == '%' ? 'f' : type;
        snprintf(code, sizeof code, "%%%s%s.*%c", style->sign ? (char[]){style->sign, 0} : "",
                 style->alternate ? "#" : "", kind);
        snprintf(text, 1024, code, precision, type == '%' ? value * 100 : value);
    }
    length = strlen(text);
    if (style->commas) length = add_commas(text, length);
    if (type == '%') text[length++] = '%';
    return length;
}

/* ---- Writing with a width ------------------------------------------------------------------------------ */

static void write_fill(struct builder *builder, uint32_t fill, size_t count)
{
    for (size_t i = 0; i < count; i++) builder_character(builder, fill, false);
}

static void write_aligned(struct builder *builder, const struct text *text, const struct style *style,
                          bool number)
{
    size_t length = text_characters(builder->task, text), width = style->width > 0 ? (size_t)style->width : 0;
    size_t rest = width > length ? width - length : 0;
    char align = style->align ? style->align : style->zero && number ? '=' : number ? '>' : '<';
    uint32_t fill = style->fill ? style->fill : style->zero && number ? '0' : ' ';
    size_t before = align == '>' ? rest : align == '^' ? rest / 2 : 0;
    if (align == '=' && number) {
        size_t sign = text->length && strchr("+- ", text->bytes[0]) ? 1 : 0;
        builder_part(builder, text, 0, sign);
        write_fill(builder, fill, rest);
        builder_part(builder, text, sign, text->length);
        return;
    }
    write_fill(builder, fill, before);
    builder_text(builder, text);
    write_fill(builder, fill, rest - before);
}

static void write_number(struct builder *builder, struct value value, const struct style *style)
{
    char text[1024];
    int64_t integer;
    bool whole = value_get_integer(value, &integer) && !(style->type && strchr("eEfFgG%", style->type));
    size_t length = whole ? write_integer(text, integer, style)
                          : write_float(builder->task, text, value_get_number(value), style);
    write_aligned(builder, text_make(builder->task, text, length, false), style, true);
}

/* The first `precision` characters. */
static const struct text *format_shorten(struct task *task, const struct text *text, int precision)
{
    return precision < 0 ? text : text_part(task, text, 0, text_position(task, text, (size_t)precision));
}

static int read_digits(struct task *task, const struct text *text, size_t *at)
{
    int number = -1;
    for (; *at < text->length && text->bytes[*at] >= '0' && text->bytes[*at] <= '9'; ++*at) {
        number = (number < 0 ? 0 : number) * 10 + (text->bytes[*at] - '0');
        if (number > MAX_WIDTH) task_fail(task, "a width of more than %d", MAX_WIDTH);
    }
    return number;
}

/* ---- '%s' % x ------------------------------------------------------------------------------------------ */

static struct value next_value(struct task *task, struct value values, size_t *used)
{
    size_t count = VALUE_IS(values, TUPLE) ? values.list->count : 1;
    if (*used >= count) task_fail(task, "not enough arguments for format string");
    size_t at = (*used)++;
    return VALUE_IS(values, TUPLE) ? values.list->items[at] : values;
}

static void write_percent(struct builder *builder, struct value value, struct style *style)
{
    struct task *task = builder->task;
    char type = style->type;
    if (type == 's' || type == 'r' || type == 'a') {
        struct builder *quoted = builder_create(task);
        if (type == 's')
            show_into(quoted, value);
        else
            show_quoted(quoted, value);
        if (!style->align) style->align = '>';
        const struct text *text = builder_finish(quoted);
        if (style->html && !(type == 's' && VALUE_IS(value, TEXT) && value.text->html))
            text = text_escape(task, text);
        write_aligned(builder, format_shorten(task, text, style->precision), style, false);
        return;
    }
    if (type == 'c') {
        int64_t code;
        bool single = VALUE_IS(value, TEXT) && text_characters(task, value.text) == 1;
        if (single)
            builder_text(builder, value.text);
        else if (value_get_integer(value, &code) && code >= 0 && code < 0x110000 &&
                 (code < 0xD800 || code > 0xDFFF))
            builder_character(builder, (uint32_t)code, false);
        else
            task_fail(task, "%%c requires int or char");
        return;
    }
    value_need(task, value);
    if (!value_is_number(value))
        task_fail(task, "%%%c format: a real number is required, not %s", type, value_type(value));
    if (type == 'i' || type == 'u') type = style->type = 'd';
    if (strchr("dxXo", type) && VALUE_IS(value, FLOAT)) {
        if (type != 'd' || !(fabs(value.number) < 9e18))
            task_fail(task, "%%%c format: an integer is required, not float", type);
        value = value_integer((int64_t)value.number);
    }
    write_number(builder, value, style);
}

const struct text *format_percent(struct task *task, const struct text *format, struct value values)
{
    struct builder *builder = builder_create(task);
    size_t used = 0;
    for (size_t at = 0; at < format->length;) {
        const char *percent = memchr(format->bytes + at, '%', format->length - at);
        size_t to = percent ? (size_t)(percent - format->bytes) : format->length;
        builder_part(builder, format, at, to);
        if (!percent) break;
        at = to + 1;
        struct style style = {.width = -1, .precision = -1, .html = format->html};
        struct value value = {.kind = VALUE_MISSING};
        if (at < format->length && format->bytes[at] == '(') {
            const char *close = memchr(format->bytes + at, ')', format->length - at);
            if (!close) task_fail(task, "incomplete format key");
            if (!VALUE_IS(values, DICT)) task_fail(task, "format requires a mapping");
            const struct text *key = text_part(task, format, at + 1, (size_t)(close - format->bytes));
            const struct value *found = dict_find_text(task, values.dict, key);
            if (!found) task_fail(task, "format has no value for '%.*s'", TEXT_SHOWN(key));
            value = *found;
            at = (size_t)(close - format->bytes) + 1;
        }
        for (; at < format->length && format->bytes[at] && strchr("-+ #0", format->bytes[at]); at++) {
            char flag = format->bytes[at];
            if (flag == '-') style.align = '<';
            if (flag == '+' || (flag == ' ' && !style.sign)) style.sign = flag;
            style.alternate = style.alternate || flag == '#';
            style.zero = style.zero || flag == '0';
        }
        style.width = read_digits(task, format, &at);
        if (at < format->length && format->bytes[at] == '.') {
            at++;
            style.precision = read_digits(task, format, &at);
            if (style.precision < 0) style.precision = 0;
        }
        if (at >= format->length) task_fail(task, "incomplete format");
        style.type = format->bytes[at++];
        if (style.type == '%') {
            builder_string(builder, "%");
            continue;
        }
        if (!style.type || !strchr("sradiuxXoeEfFgGc", style.type))
            task_fail(task, "unsupported format character (0x%02x)", (unsigned char)style.type);
        if (VALUE_IS(value, MISSING)) value = next_value(task, values, &used);
        write_percent(builder, value, &style);
    }
    /* Python takes everything that has items for a mapping, which may have more than the format needs. */
    bool mapping = VALUE_IS(values, DICT) || VALUE_IS(values, LIST) || VALUE_IS(values, RANGE) ||
                   VALUE_IS(values, UNDEFINED);
    if (VALUE_IS(values, TUPLE) ? used < values.list->count : !used && !mapping)
        task_fail(task, "not all arguments converted during string formatting");
    return text_as_html(task, builder_finish(builder), format->html);
}

/* ---- '{}'.format(x) ------------------------------------------------------------------------------------ */

/* "[[fill]align][sign][#][0][width][,][.precision][type]" */
static struct style read_style(struct task *task, const struct text *text)
{
    struct style style = {.width = -1, .precision = -1};
    size_t at = 0, length = text->length ? utf8_length((unsigned char)text->bytes[0]) : 0;
    if (length && length < text->length && strchr("<>^=", text->bytes[length]) && text->bytes[length]) {
        style.fill = utf8_read(text->bytes, &length);
        style.align = text->bytes[length];
        at = length + 1;
    } else if (length && strchr("<>^=", text->bytes[0]) && text->bytes[0]) {
        style.align = text->bytes[at++];
    }
#define NEXT_IS(c) (at < text->length && text->bytes[at] == (c))
    if (NEXT_IS('+') || NEXT_IS(' '))
        style.sign = text->bytes[at++];
    else if (NEXT_IS('-'))
        at++;
    if (NEXT_IS('#')) style.alternate = at++ < text->length;
    if (NEXT_IS('0')) style.zero = at++ < text->length;
    style.width = read_digits(task, text, &at);
    if (NEXT_IS(',')) style.commas = at++ < text->length;
    if (NEXT_IS('.')) {
        at++;
        style.precision = read_digits(task, text, &at);
        if (style.precision < 0) task_fail(task, "format specifier missing precision");
    }
#undef NEXT_IS
    if (at < text->length) style.type = text->bytes[at++];
    if (at < text->length || (style.type && !strchr("sdxXobeEfFgG%", style.type)))
        task_fail(task, "invalid format specifier '%.*s'", TEXT_SHOWN(text));
    return style;
}

static void write_braces(struct builder *builder, struct value value, const struct text *spec)
{
    struct task *task = builder->task;
    struct style style = read_style(task, spec);
    if (value_is_number(value) && !VALUE_IS(value, BOOLEAN) && style.type != 's') {
        if (VALUE_IS(value, FLOAT) && style.type && strchr("dxXob", style.type))
            task_fail(task, "unknown format code '%c' for object of type 'float'", style.type);
        if (VALUE_IS(value, INTEGER) && style.precision >= 0 && (!style.type || strchr("dxXob", style.type)))
            task_fail(task, "precision not allowed in integer format specifier");
        write_number(builder, value, &style);
        return;
    }
    if (style.type && style.type != 's')
        task_fail(task, "unknown format code '%c' for object of type '%s'", style.type, value_type(value));
    write_aligned(builder, format_shorten(task, show_text(task, value), style.precision), &style, false);
}

/* The value that "name.attribute[key]" refers to; `next` numbers those without name. */
static struct value find_field(struct machine *machine, const struct text *field,
                               const struct arguments *arguments, size_t *next)
{
    struct task *task = &machine->task;
    size_t end = 0;
    while (end < field->length && field->bytes[end] != '.' && field->bytes[end] != '[') end++;
    const struct text *name = text_part(task, field, 0, end);
    size_t digits = 0;
    int number = read_digits(task, name, &digits);
    struct value value = {.kind = VALUE_MISSING};
    if (!name->length || (number >= 0 && digits == name->length)) {
        size_t index = name->length ? (size_t)number : (*next)++;
        if (index >= arguments->count)
            task_fail(task, "replacement index %zu out of range for positional args tuple", index);
        value = arguments->items[index];
    }
    for (size_t i = 0; VALUE_IS(value, MISSING) && i < arguments->n_named; i++)
        if (text_equals(arguments->named[i].name, name)) value = arguments->named[i].value;
    if (VALUE_IS(value, MISSING)) task_fail(task, "format has no value for '%.*s'", TEXT_SHOWN(name));
    while (end < field->length) {
        bool bracket = field->bytes[end] == '[';
        size_t from = end + 1, to = from;
        while (to < field->length &&
               (bracket ? field->bytes[to] != ']' : field->bytes[to] != '.' && field->bytes[to] != '['))
            to++;
        const struct text *key = text_part(task, field, from, to);
        digits = 0;
        number = read_digits(task, key, &digits);
        bool index = bracket && number >= 0 && digits == key->length;
        value = bracket ? lookup_item(machine, value, index ? value_integer(number) : value_text(key))
                        : lookup_attribute(machine, value, key);
        value_need(task, value);
        end = to + bracket;
    }
    return value;
}

const struct text *format_braces(struct machine *machine, const struct text *format,
                                 const struct arguments *arguments)
{
    struct task *task = &machine->task;
    struct builder *builder = builder_create(task);
    size_t next = 0, plain = 0, at = 0;
    while (at < format->length) {
        char c = format->bytes[at];
        if (c != '{' && c != '}') {
            at++;
            continue;
        }
        builder_part(builder, format, plain, at);
        if (at + 1 < format->length && format->bytes[at + 1] == c) {
            builder_part(builder, format, at, at + 1);
            plain = at += 2;
            continue;
        }
        if (c == '}') task_fail(task, "single '}' encountered in format string");
        size_t end = at + 1;
        while (end < format->length && format->bytes[end] != '}' && format->bytes[end] != '{') end++;
        if (end >= format->length || format->bytes[end] == '{')
            task_fail(task, "expected '}' before end of string");
        const struct text *field = text_part(task, format, at + 1, end);
        const char *colon = memchr(field->bytes, ':', field->length);
        size_t split = colon ? (size_t)(colon - field->bytes) : field->length;
        const struct text *spec = text_part(task, field, colon ? split + 1 : split, field->length);
        size_t name = split;
        bool quoted = name >= 2 && field->bytes[name - 2] == '!' && field->bytes[name - 1] == 'r';
        if (name >= 2 && field->bytes[name - 2] == '!') name -= 2;
        struct value value = find_field(machine, text_part(task, field, 0, name), arguments, &next);
        if (quoted) {
            struct builder *text = builder_create(task);
            show_quoted(text, value);
            value = value_text(builder_finish(text));
        }
        write_braces(builder, value, spec);
        plain = at = end + 1;
    }
    builder_part(builder, format, plain, format->length);
    return builder_finish(builder);
}
