/* filters-text.c: filters that return texts or numbers (machine.h). */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/machine.h"

/* ---- Case, white space --------------------------------------------------------------------------------- */

static struct value change_case(struct machine *machine, struct value self, const struct arguments *arguments,
                                enum text_change to)
{
    call_match_none(machine, "the filter", arguments);
    const struct text *text = show_text(&machine->task, self);
    return value_text(text_as_html(&machine->task, text_change(&machine->task, text, to), text->html));
}

BUILTIN(filter_lower)
{
    return change_case(machine, self, arguments, TEXT_LOWER);
}
BUILTIN(filter_upper)
{
    return change_case(machine, self, arguments, TEXT_UPPER);
}
BUILTIN(filter_capitalize)
{
    return change_case(machine, self, arguments, TEXT_CAPITALIZE);
}

BUILTIN(filter_title)
{
    call_match_none(machine, "title", arguments);
    return value_text(text_as_html(&machine->task,
                                   text_title_words(&machine->task, show_text(&machine->task, self)), false));
}

BUILTIN(filter_trim)
{
    static const char *const names[] = {"chars", NULL};
    struct value values[1];
    call_match(machine, "trim", arguments, names, 0, values);
    const struct text *set = argument_is_given(values[0]) ? argument_text(machine, values[0], "") : NULL;
    return value_text(text_strip(&machine->task, show_text(&machine->task, self), set, true, true));
}

BUILTIN(filter_center)
{
    static const char *const names[] = {"width", NULL};
    struct value values[1];
    call_match(machine, "center", arguments, names, 0, values);
    int64_t width = argument_integer(machine, values[0], 80);
    const struct text *text = show_text(&machine->task, self);
    return value_text(
        text_as_html(&machine->task, text_center(&machine->task, text, width, ' '), text->html));
}

BUILTIN(filter_indent)
{
    static const char *const names[] = {"width", "first", "blank", NULL};
    struct task *task = &machine->task;
    struct value values[3];
    call_match(machine, "indent", arguments, names, 0, values);
    const struct text *text = argument_text(machine, self, "");
    bool first = argument_truth(values[1], false), blank = argument_truth(values[2], false);
    const struct text *indent = VALUE_IS(values[0], TEXT)
                                    ? values[0].text
                                    : operate_repeat(machine, value_text(text_constant(task, " ")),
                                                     argument_integer(machine, values[0], 4))
                                          .text;
    /* As in Jinja, a text that ends with a newline has an empty line after it. */
    const struct list *lines = text_lines(task, text_join(task, text, text_constant(task, "\n")), false);
    struct builder *builder = builder_create(task);
    for (size_t i = 0; i < lines->count; i++) {
        const struct text *line = lines->items[i].text;
        if (i) builder_string(builder, "\n");
        if (i ? blank || line->length : first) builder_text(builder, indent);
        builder_text(builder, line);
    }
    return value_text(text_as_html(task, builder_finish(builder), text->html));
}

/* ---- Parts --------------------------------------------------------------------------------------------- */

BUILTIN(filter_replace)
{
    static const char *const names[] = {"old", "new", "count", NULL};
    struct task *task = &machine->task;
    struct value values[3];
    call_match(machine, "replace", arguments, names, 2, values);
    int64_t limit = argument_is_given(values[2]) ? argument_integer(machine, values[2], -1) : -1;
    return value_text(text_replace(task, text_as_html(task, show_text(task, self), false),
                                   show_text(task, values[0]), show_text(task, values[1]), limit));
}

BUILTIN(filter_truncate)
{
    static const char *const names[] = {"length", "killwords", "end", "leeway", NULL};
    struct task *task = &machine->task;
    struct value values[4];
    call_match(machine, "truncate", arguments, names, 0, values);
    const struct text *text = argument_text(machine, self, ""),
                      *end = argument_text(machine, values[2], "...");
    int64_t length = argument_integer(machine, values[0], 255);
    int64_t leeway = argument_is_given(values[3]) ? argument_integer(machine, values[3], 5) : 5;
    int64_t end_length = (int64_t)text_characters(task, end);
    if (length < end_length) task_fail(task, "truncate: expected length >= %lld", (long long)end_length);
    if (leeway < 0 || leeway > INT32_MAX || length > INT32_MAX)
        task_fail(task, "truncate: a length out of range");
    if ((int64_t)text_characters(task, text) <= length + leeway) return self;
    text = text_part(task, text, 0, text_position(task, text, (size_t)(length - end_length)));
    if (!argument_truth(values[1], false))
        text = text_split_right(task, text, text_constant(task, " "), 1)->items[0].text;
    return operate(machine, OPERATOR_ADD, value_text(text), value_text(end));
}

BUILTIN(filter_word_count)
{
    call_match_none(machine, "wordcount", arguments);
    const struct text *text = show_text(&machine->task, self);
    bool word = false;
    int64_t count = 0;
    task_charge(&machine->task, TASK_STEP_CHARACTER * text->length);
    for (size_t at = 0, length; at < text->length; at += length) {
        bool now = character_is_word(utf8_read(text->bytes + at, &length));
        count += now && !word;
        word = now;
    }
    return value_integer(count);
}

BUILTIN(filter_string)
{
    call_match_none(machine, "string", arguments);
    return value_text(show_text(&machine->task, self));
}

BUILTIN(filter_safe)
{
    call_match_none(machine, "safe", arguments);
    return value_text(text_as_html(&machine->task, show_text(&machine->task, self), true));
}

/* ---- Other notations ----------------------------------------------------------------------------------- */

BUILTIN(filter_escape)
{
    call_match_none(machine, "escape", arguments);
    return value_text(text_escape(&machine->task, show_text(&machine->task, self)));
}

/* Also what is HTML already. */
BUILTIN(filter_escape_again)
{
    struct task *task = &machine->task;
    call_match_none(machine, "forceescape", arguments);
    return value_text(text_escape(task, text_as_html(task, show_text(task, self), false)));
}

/* `query`: as in a form, where a space is a plus. */
static void write_url(struct builder *builder, const struct text *text, bool query)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t plain = 0;
    task_charge(builder->task, text->length);
    for (size_t at = 0; at < text->length; at++) {
        unsigned char c = (unsigned char)text->bytes[at];
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            (c && strchr(query ? "_.-~" : "_.-~/", c)))
            continue;
        builder_part(builder, text, plain, at);
        const char code[] = {'%', digits[c >> 4], digits[c & 15]};
        bool space = query && c == ' ';
        builder_bytes(builder, space ? "+" : code, space ? 1 : sizeof code, text_is_user(text, at));
        plain = at + 1;
    }
    builder_part(builder, text, plain, text->length);
}

BUILTIN(filter_url_encode)
{
    struct task *task = &machine->task;
    call_match_none(machine, "urlencode", arguments);
    struct builder *builder = builder_create(task);
    if (VALUE_IS(self, DICT))
        self = call_value(machine, builtin_method(machine, self, text_constant(task, "items")), arguments);
    if (VALUE_IS(self, TEXT) || !value_is_iterable(self)) {
        write_url(builder, show_text(task, self), false);
        return value_text(builder_finish(builder));
    }
    const struct list *pairs = value_items(task, self);
    for (size_t i = 0; i < pairs->count; i++) {
        const struct list *pair = value_items(task, pairs->items[i]);
        if (pair->count != 2) task_fail(task, "urlencode: pairs are needed, not %zu items", pair->count);
        if (i) builder_string(builder, "&");
        write_url(builder, show_text(task, pair->items[0]), true);
        builder_string(builder, "=");
        write_url(builder, show_text(task, pair->items[1]), true);
    }
    return value_text(builder_finish(builder));
}

BUILTIN(filter_format)
{
    struct task *task = &machine->task;
    struct list *items = list_create(task, arguments->count);
    struct dict *named = dict_create(task);
    for (size_t i = 0; i < arguments->count; i++) list_add(task, items, arguments->items[i]);
    for (size_t i = 0; i < arguments->n_named; i++)
        dict_set(task, named, value_text(arguments->named[i].name), arguments->named[i].value);
    if (items->count && named->count)
        task_fail(task, "can't handle positional and keyword arguments at the same time");
    struct value values = named->count ? value_dict(named) : value_list(VALUE_TUPLE, items);
    return value_text(format_percent(task, show_text(task, self), values));
}

/* transformers' tojson, not Jinja's, which escapes HTML. */
BUILTIN(filter_to_json)
{
    static const char *const names[] = {"ensure_ascii", "indent", "separators", "sort_keys", NULL};
    struct task *task = &machine->task;
    struct value values[4];
    call_match(machine, "tojson", arguments, names, 0, values);
    struct show_json options = {.ascii = argument_truth(values[0], false),
                                .sorted = argument_truth(values[3], false)};
    if (VALUE_IS(values[1], TEXT))
        options.indent = values[1].text;
    else if (argument_is_given(values[1]))
        options.indent = operate_repeat(machine, value_text(text_constant(task, " ")),
                                        argument_integer(machine, values[1], 0))
                             .text;
    options.item_separator = text_constant(task, options.indent ? "," : ", ");
    options.key_separator = text_constant(task, ": ");
    if (argument_is_given(values[2])) {
        const struct list *separators = value_items(task, values[2]);
        if (separators->count != 2) task_fail(task, "tojson: separators are a pair");
        options.item_separator = argument_text(machine, separators->items[0], "");
        options.key_separator = argument_text(machine, separators->items[1], "");
    }
    struct builder *builder = builder_create(task);
    show_json(builder, self, &options);
    return value_text(builder_finish(builder));
}

BUILTIN(filter_file_size)
{
    static const char *const names[] = {"binary", NULL};
    static const char *const units[2][8] = {{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
                                            {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    struct value values[1];
    char text[400];
    call_match(machine, "filesizeformat", arguments, names, 0, values);
    if (!value_is_number(self))
        task_fail(&machine->task, "filesizeformat: a number is needed, not %s", value_type(self));
    bool binary = argument_truth(values[0], false);
    double bytes = value_get_number(self), base = binary ? 1024 : 1000, unit = base * base;
    size_t i = 0;
    for (; i < 7 && bytes >= unit; i++) unit *= base;
    if (bytes == 1)
        snprintf(text, sizeof text, "1 Byte");
    else if (bytes < base)
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes) + 0.0);
    else
        snprintf(text, sizeof text, "%.1f %s", base * bytes / unit, units[binary][i]);
    return value_text(text_make(&machine->task, text, strlen(text), false));
}

/* ---- Numbers ------------------------------------------------------------------------------------------- */

/* The text without white space around it and underscores between digits; false: it is too long for a
 * number. */
static bool number_text(struct task *task, const struct text *text, char plain[400])
{
    text = text_strip(task, text, NULL, true, true);
    size_t count = 0;
    for (size_t i = 0; i < text->length; i++) {
        char c = text->bytes[i];
        bool inner = i > 0 && i + 1 < text->length && text->bytes[i - 1] != '_' && text->bytes[i + 1] != '_';
        if (c == '_' && inner) continue;
        if (!c || c == '_' || count + 1 >= 400) return false;
        plain[count++] = c;
    }
    plain[count] = '\0';
    return count > 0;
}

static bool read_float(struct task *task, struct value value, double *number)
{
    if (value_is_number(value)) {
        *number = value_get_number(value);
        return true;
    }
    char plain[400], *end;
    if (!VALUE_IS(value, TEXT) || !number_text(task, value.text, plain)) return false;
    if (strpbrk(plain, "xX") || strchr(plain, '(')) return false; /* what only C reads */
    *number = strtod(plain, &end);
    return *end == '\0';
}

static bool read_integer(struct task *task, struct value value, int64_t base, int64_t *number)
{
    char plain[400], *end;
    if (value_get_integer(value, number)) return true;
    if (VALUE_IS(value, TEXT) && number_text(task, value.text, plain) &&
        (base == 0 || (base >= 2 && base <= 36))) {
        char *digits = plain + (*plain == '-' || *plain == '+');
        char mark = *digits == '0' ? (char)(digits[1] | 0x20) : '\0';
        bool prefixed = (mark == 'b' && base == 2) || (mark == 'o' && base == 8);
        if (prefixed) memmove(digits, digits + 2, strlen(digits + 2) + 1);
        errno = 0;
        long long parsed = strtoll(plain, &end, (int)base);
        if (*end == '\0' && end != plain && *digits != '-' && *digits != '+') {
            if (errno) task_fail(task, "an integer is larger than 64 bits");
            *number = parsed;
            return true;
        }
    }
    double real;
    if (!read_float(task, value, &real) || !isfinite(real)) return false;
    if (fabs(real) >= 9.2e18) task_fail(task, "an integer is larger than 64 bits");
    *number = (int64_t)real;
    return true;
}

BUILTIN(filter_integer)
{
    static const char *const names[] = {"default", "base", NULL};
    struct value values[2];
    int64_t number;
    call_match(machine, "int", arguments, names, 0, values);
    value_need(&machine->task, self);
    if (read_integer(&machine->task, self, argument_integer(machine, values[1], 10), &number))
        return value_integer(number);
    return VALUE_IS(values[0], MISSING) ? value_integer(0) : values[0];
}

BUILTIN(filter_real)
{
    static const char *const names[] = {"default", NULL};
    struct value values[1];
    double number;
    call_match(machine, "float", arguments, names, 0, values);
    value_need(&machine->task, self);
    if (read_float(&machine->task, self, &number)) return value_float(number);
    return VALUE_IS(values[0], MISSING) ? value_float(0) : values[0];
}

BUILTIN(filter_absolute)
{
    call_match_none(machine, "abs", arguments);
    value_need(&machine->task, self);
    int64_t integer;
    if (VALUE_IS(self, FLOAT)) return value_float(fabs(self.number));
    if (!value_get_integer(self, &integer))
        task_fail(&machine->task, "bad operand type for abs(): '%s'", value_type(self));
    return integer < 0 ? operate(machine, OPERATOR_SUBTRACT, value_integer(0), value_integer(integer))
                       : value_integer(integer);
}

BUILTIN(filter_rounded)
{
    static const char *const names[] = {"precision", "method", NULL};
    struct task *task = &machine->task;
    struct value values[2];
    char text[400];
    call_match(machine, "round", arguments, names, 0, values);
    value_need(task, self);
    if (!value_is_number(self)) task_fail(task, "type %s doesn't define __round__ method", value_type(self));
    int64_t precision = argument_integer(machine, values[0], 0);
    const struct text *method = argument_text(machine, values[1], "common");
    double number = value_get_number(self), unit = pow(10, (double)precision);
    if (precision > 300 || precision < -300) task_fail(task, "round: a precision out of range");
    /* Python rounds to an integer here, which has no negative zero. */
    if (text_is(method, "ceil")) return value_float(ceil(number * unit) / unit + 0.0);
    if (text_is(method, "floor")) return value_float(floor(number * unit) / unit + 0.0);
    if (!text_is(method, "common")) task_fail(task, "method must be common, ceil or floor");
    if (!VALUE_IS(self, FLOAT) && precision >= 0)
        return VALUE_IS(self, BOOLEAN) ? value_integer(self.boolean) : self;
    if (precision < 0) {
        double tens = pow(10, (double)-precision), result = nearbyint(number / tens) * tens;
        return VALUE_IS(self, FLOAT) ? value_float(result) : value_integer((int64_t)result);
    }
    if (!isfinite(number) || fabs(number) >= 1e16) return self;
    snprintf(text, sizeof text, "%.*f", (int)precision, number);
    return value_float(strtod(text, NULL));
}

const struct builtin builtin_text_filters[] = {
    {"abs", filter_absolute},
    {"capitalize", filter_capitalize},
    {"center", filter_center},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"filesizeformat", filter_file_size},
    {"float", filter_real},
    {"forceescape", filter_escape_again},
    {"format", filter_format},
    {"indent", filter_indent},
    {"int", filter_integer},
    {"lower", filter_lower},
    {"replace", filter_replace},
    {"round", filter_rounded},
    {"safe", filter_safe},
    {"string", filter_string},
    {"title", filter_title},
    {"tojson", filter_to_json},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", filter_upper},
    {"urlencode", filter_url_encode},
    {"wordcount", filter_word_count},
    {NULL, NULL},
};
