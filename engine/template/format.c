/* format.c: see format.h. */
#include "template/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "template/characters.h"
#include "template/show.h"
#include "template/texts.h"

#define MAX_WIDTH 10000

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
static const struct text *shorten(struct task *task, const struct text *text, int precision)
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
            text = texts_escape(task, text);
        write_aligned(builder, shorten(task, text, style->precision), style, false);
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
    /* Python takes whatever has items for a mapping, which may have more than the format needs. */
    bool mapping = VALUE_IS(values, DICT) || VALUE_IS(values, LIST) || VALUE_IS(values, RANGE) ||
                   VALUE_IS(values, UNDEFINED);
    if (VALUE_IS(values, TUPLE) ? used < values.list->count : !used && !mapping)
        task_fail(task, "not all arguments converted during string formatting");
    return texts_as_html(task, builder_finish(builder), format->html);
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
    write_aligned(builder, shorten(task, show_text(task, value), style.precision), &style, false);
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
