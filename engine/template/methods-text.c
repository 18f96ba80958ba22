/* methods-text.c: the methods of str (machine.h). */
#include "template/machine.h"

/* ---- Cutting and changing ------------------------------------------------------------------------------ */

static struct value method_strip(struct machine *machine, struct value self,
                                 const struct arguments *arguments, bool left, bool right)
{
    static const char *const names[] = {"chars", NULL};
    struct value values[1];
    call_match(machine, "strip", arguments, names, 0, values);
    const struct text *set = argument_is_given(values[0]) ? argument_text(machine, values[0], "") : NULL;
    return value_text(text_strip(&machine->task, self.text, set, left, right));
}

BUILTIN(method_strip_both)
{
    return method_strip(machine, self, arguments, true, true);
}
BUILTIN(method_strip_left)
{
    return method_strip(machine, self, arguments, true, false);
}
BUILTIN(method_strip_right)
{
    return method_strip(machine, self, arguments, false, true);
}

static struct value method_change_case(struct machine *machine, struct value self,
                                       const struct arguments *arguments, enum text_change to)
{
    call_match_none(machine, "the method", arguments);
    return value_text(text_change(&machine->task, self.text, to));
}

BUILTIN(method_lower)
{
    return method_change_case(machine, self, arguments, TEXT_LOWER);
}
BUILTIN(method_upper)
{
    return method_change_case(machine, self, arguments, TEXT_UPPER);
}
BUILTIN(method_capitalize)
{
    return method_change_case(machine, self, arguments, TEXT_CAPITALIZE);
}
BUILTIN(method_title)
{
    return method_change_case(machine, self, arguments, TEXT_TITLE);
}
BUILTIN(method_swap_case)
{
    return method_change_case(machine, self, arguments, TEXT_SWAP);
}
BUILTIN(method_fold_case)
{
    return method_change_case(machine, self, arguments, TEXT_FOLD);
}

BUILTIN(method_replace)
{
    static const char *const names[] = {"old", "new", "count", NULL};
    struct value values[3];
    call_match(machine, "replace", arguments, names, 2, values);
    return value_text(text_replace(&machine->task, self.text, argument_text(machine, values[0], ""),
                                   argument_text(machine, values[1], ""),
                                   argument_integer(machine, values[2], -1)));
}

static struct value split_at(struct machine *machine, struct value self, const struct arguments *arguments,
                             bool right)
{
    static const char *const names[] = {"sep", "maxsplit", NULL};
    struct value values[2];
    call_match(machine, "split", arguments, names, 0, values);
    const struct text *separator =
        argument_is_given(values[0]) ? argument_text(machine, values[0], "") : NULL;
    int64_t limit = argument_integer(machine, values[1], -1);
    return value_list(VALUE_LIST, right ? text_split_right(&machine->task, self.text, separator, limit)
                                        : text_split(&machine->task, self.text, separator, limit));
}

BUILTIN(method_split)
{
    return split_at(machine, self, arguments, false);
}
BUILTIN(method_split_right)
{
    return split_at(machine, self, arguments, true);
}

BUILTIN(method_split_lines)
{
    static const char *const names[] = {"keepends", NULL};
    struct value values[1];
    call_match(machine, "splitlines", arguments, names, 0, values);
    return value_list(VALUE_LIST, text_lines(&machine->task, self.text, argument_truth(values[0], false)));
}

static struct value partition_at(struct machine *machine, struct value self,
                                 const struct arguments *arguments, bool right)
{
    static const char *const names[] = {"sep", NULL};
    struct task *task = &machine->task;
    struct value values[1];
    call_match(machine, "partition", arguments, names, 1, values);
    const struct text *text = self.text, *separator = argument_text(machine, values[0], "");
    if (!separator->length) task_fail(task, "empty separator");
    size_t at =
        right ? text_find_last(task, text, separator, text->length) : text_find(task, text, separator, 0);
    struct list *list = list_create(task, 3);
    struct value empty = value_text(text_constant(task, ""));
    if (at == SIZE_MAX) {
        list_add(task, list, right ? empty : self);
        list_add(task, list, empty);
        list_add(task, list, right ? self : empty);
    } else {
        list_add(task, list, value_text(text_part(task, text, 0, at)));
        list_add(task, list, value_text(text_part(task, text, at, at + separator->length)));
        list_add(task, list, value_text(text_part(task, text, at + separator->length, text->length)));
    }
    return value_list(VALUE_TUPLE, list);
}

BUILTIN(method_partition)
{
    return partition_at(machine, self, arguments, false);
}
BUILTIN(method_partition_right)
{
    return partition_at(machine, self, arguments, true);
}

BUILTIN(method_remove_prefix)
{
    static const char *const names[] = {"prefix", NULL};
    struct value values[1];
    call_match(machine, "removeprefix", arguments, names, 1, values);
    const struct text *prefix = argument_text(machine, values[0], "");
    task_charge(&machine->task, prefix->length);
    bool found = text_starts(self.text, 0, prefix);
    return value_text(text_part(&machine->task, self.text, found ? prefix->length : 0, self.text->length));
}

BUILTIN(method_remove_suffix)
{
    static const char *const names[] = {"suffix", NULL};
    struct value values[1];
    call_match(machine, "removesuffix", arguments, names, 1, values);
    const struct text *suffix = argument_text(machine, values[0], "");
    task_charge(&machine->task, suffix->length);
    size_t length = self.text->length, rest = suffix->length <= length ? length - suffix->length : 0;
    bool found = suffix->length <= length && text_starts(self.text, rest, suffix);
    return value_text(text_part(&machine->task, self.text, 0, found ? rest : length));
}

BUILTIN(method_join)
{
    static const char *const names[] = {"iterable", NULL};
    struct task *task = &machine->task;
    struct value values[1];
    call_match(machine, "join", arguments, names, 1, values);
    const struct list *list = value_items(task, values[0]);
    struct builder *builder = builder_create(task);
    for (size_t i = 0; i < list->count; i++) {
        if (i) builder_text(builder, self.text);
        if (!VALUE_IS(list->items[i], TEXT) && !self.text->html)
            task_fail(task, "sequence item %zu: expected str instance, %s found", i,
                      value_type(list->items[i]));
        const struct text *item = show_text(task, list->items[i]);
        builder_text(builder, self.text->html ? text_escape(task, item) : item);
    }
    return value_text(builder_finish(builder));
}

/* ---- Searching ----------------------------------------------------------------------------------------- */

/* The bytes [*from, *to) of the characters from `start` to `end`, counted as in a slice. */
static bool read_range(struct machine *machine, const struct text *text, struct value start, struct value end,
                       size_t *from, size_t *to)
{
    struct task *task = &machine->task;
    *from = 0;
    *to = text->length;
    if (!argument_is_given(start) && !argument_is_given(end)) return true;
    int64_t length = (int64_t)text_characters(task, text);
    int64_t first = argument_is_given(start) ? argument_integer(machine, start, 0) : 0;
    int64_t last = argument_is_given(end) ? argument_integer(machine, end, 0) : length;
    if (first < 0) first = first + length < 0 ? 0 : first + length;
    if (last < 0) last = last + length < 0 ? 0 : last + length;
    if (last > length) last = length;
    if (first > last) return false;
    *from = text_position(task, text, (size_t)first);
    *to = text_position(task, text, (size_t)last);
    return true;
}

static struct value method_find(struct machine *machine, struct value self, const struct arguments *arguments,
                                bool right, bool needed)
{
    static const char *const names[] = {"sub", "start", "end", NULL};
    struct task *task = &machine->task;
    struct value values[3];
    size_t from, to, at = SIZE_MAX;
    call_match(machine, "find", arguments, names, 1, values);
    const struct text *part = argument_text(machine, values[0], "");
    if (read_range(machine, self.text, values[1], values[2], &from, &to)) {
        const struct text *text = text_part(task, self.text, from, to);
        at = right ? text_find_last(task, text, part, text->length) : text_find(task, text, part, 0);
    }
    if (at == SIZE_MAX && needed) task_fail(task, "substring not found");
    if (at == SIZE_MAX) return value_integer(-1);
    return value_integer((int64_t)text_characters(task, text_part(task, self.text, 0, from + at)));
}

BUILTIN(method_find_first)
{
    return method_find(machine, self, arguments, false, false);
}
BUILTIN(method_find_last)
{
    return method_find(machine, self, arguments, true, false);
}
BUILTIN(method_index_first)
{
    return method_find(machine, self, arguments, false, true);
}
BUILTIN(method_index_last)
{
    return method_find(machine, self, arguments, true, true);
}

BUILTIN(method_count)
{
    static const char *const names[] = {"sub", "start", "end", NULL};
    struct task *task = &machine->task;
    struct value values[3];
    size_t from, to;
    call_match(machine, "count", arguments, names, 1, values);
    const struct text *part = argument_text(machine, values[0], "");
    if (!read_range(machine, self.text, values[1], values[2], &from, &to)) return value_integer(0);
    const struct text *text = text_part(task, self.text, from, to);
    int64_t found = 0;
    if (!part->length) return value_integer((int64_t)text_characters(task, text) + 1);
    for (size_t at = 0; (at = text_find(task, text, part, at)) != SIZE_MAX; at += part->length) found++;
    return value_integer(found);
}

static struct value has_at(struct machine *machine, struct value self, const struct arguments *arguments,
                           bool end)
{
    static const char *const names[] = {"prefix", "start", "end", NULL};
    struct task *task = &machine->task;
    struct value values[3];
    size_t from, to;
    const char *what = end ? "endswith" : "startswith";
    call_match(machine, what, arguments, names, 1, values);
    value_need(task, values[0]);
    if (!VALUE_IS(values[0], TEXT) && !VALUE_IS(values[0], TUPLE))
        task_fail(task, "%s first arg must be str or a tuple of str, not %s", what, value_type(values[0]));
    if (!read_range(machine, self.text, values[1], values[2], &from, &to)) return value_boolean(false);
    const struct text *text = text_part(task, self.text, from, to);
    size_t count = VALUE_IS(values[0], TUPLE) ? values[0].list->count : 1;
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        struct value value = VALUE_IS(values[0], TUPLE) ? values[0].list->items[i] : values[0];
        const struct text *part = argument_text(machine, value, "");
        task_charge(task, part->length);
        found =
            part->length <= text->length && text_starts(text, end ? text->length - part->length : 0, part);
    }
    return value_boolean(found);
}

BUILTIN(method_starts_with)
{
    return has_at(machine, self, arguments, false);
}
BUILTIN(method_ends_with)
{
    return has_at(machine, self, arguments, true);
}

/* ---- Properties ---------------------------------------------------------------------------------------- */

/* Whether the text has a character, and each is of the kind. */
static struct value each_is(struct machine *machine, struct value self, const struct arguments *arguments,
                            bool (*is)(uint32_t))
{
    call_match_none(machine, "the method", arguments);
    task_charge(&machine->task, TASK_STEP_CHARACTER * self.text->length);
    for (size_t at = 0, length; at < self.text->length; at += length)
        if (!is(utf8_read(self.text->bytes + at, &length))) return value_boolean(false);
    return value_boolean(self.text->length > 0);
}

static bool is_letter_or_number(uint32_t c)
{
    return character_is_letter(c) || character_is_numeric(c);
}

BUILTIN(method_is_alnum)
{
    return each_is(machine, self, arguments, is_letter_or_number);
}
BUILTIN(method_is_alpha)
{
    return each_is(machine, self, arguments, character_is_letter);
}
BUILTIN(method_is_decimal)
{
    return each_is(machine, self, arguments, character_is_decimal);
}
BUILTIN(method_is_digit)
{
    return each_is(machine, self, arguments, character_is_digit);
}
BUILTIN(method_is_numeric)
{
    return each_is(machine, self, arguments, character_is_numeric);
}
BUILTIN(method_is_space)
{
    return each_is(machine, self, arguments, character_is_space);
}

BUILTIN(method_is_printable)
{
    struct value all = each_is(machine, self, arguments, character_is_printable);
    return value_boolean(all.boolean || !self.text->length);
}

BUILTIN(method_is_ascii)
{
    call_match_none(machine, "isascii", arguments);
    return value_boolean(self.text->ascii);
}

BUILTIN(method_is_lower)
{
    call_match_none(machine, "islower", arguments);
    return value_boolean(builtin_test(machine, text_constant(&machine->task, "lower"), self, arguments));
}

BUILTIN(method_is_upper)
{
    call_match_none(machine, "isupper", arguments);
    return value_boolean(builtin_test(machine, text_constant(&machine->task, "upper"), self, arguments));
}

BUILTIN(method_is_title)
{
    call_match_none(machine, "istitle", arguments);
    bool word = false, found = false;
    task_charge(&machine->task, TASK_STEP_CHARACTER * self.text->length);
    for (size_t at = 0, length; at < self.text->length; at += length) {
        uint32_t c = utf8_read(self.text->bytes + at, &length);
        bool upper = character_is_upper(c) || character_is_title(c), lower_case = character_is_lower(c);
        if ((upper && word) || (lower_case && !word)) return value_boolean(false);
        word = upper || lower_case;
        found = found || word;
    }
    return value_boolean(found);
}

/* ---- Padding ------------------------------------------------------------------------------------------- */

static struct value method_pad(struct machine *machine, struct value self, const struct arguments *arguments,
                               char side)
{
    static const char *const names[] = {"width", "fillchar", NULL};
    struct task *task = &machine->task;
    struct value values[2];
    size_t length;
    call_match(machine, "the method", arguments, names, 1, values);
    int64_t width = argument_integer(machine, values[0], 0);
    const struct text *fill = argument_text(machine, values[1], " ");
    if (text_characters(task, fill) != 1)
        task_fail(task, "the fill character must be exactly one character long");
    if (side == 'c') return value_text(text_center(task, self.text, width, utf8_read(fill->bytes, &length)));
    int64_t rest = width - (int64_t)text_characters(task, self.text);
    struct builder *builder = builder_create(task);
    if (side == 'l') builder_text(builder, self.text);
    for (int64_t i = 0; i < rest; i++) builder_text(builder, fill);
    if (side == 'r') builder_text(builder, self.text);
    return value_text(builder_finish(builder));
}

BUILTIN(method_pad_left)
{
    return method_pad(machine, self, arguments, 'l');
}
BUILTIN(method_pad_right)
{
    return method_pad(machine, self, arguments, 'r');
}
BUILTIN(method_pad_both)
{
    return method_pad(machine, self, arguments, 'c');
}

BUILTIN(method_fill_zeros)
{
    static const char *const names[] = {"width", NULL};
    struct task *task = &machine->task;
    struct value values[1];
    call_match(machine, "zfill", arguments, names, 1, values);
    int64_t rest = argument_integer(machine, values[0], 0) - (int64_t)text_characters(task, self.text);
    size_t sign = self.text->length && (self.text->bytes[0] == '+' || self.text->bytes[0] == '-');
    struct builder *builder = builder_create(task);
    builder_part(builder, self.text, 0, sign);
    for (int64_t i = 0; i < rest; i++) builder_string(builder, "0");
    builder_part(builder, self.text, sign, self.text->length);
    return value_text(builder_finish(builder));
}

BUILTIN(method_expand_tabs)
{
    static const char *const names[] = {"tabsize", NULL};
    struct task *task = &machine->task;
    struct value values[1];
    call_match(machine, "expandtabs", arguments, names, 0, values);
    int64_t width = argument_integer(machine, values[0], 8), column = 0;
    struct builder *builder = builder_create(task);
    for (size_t at = 0, length; at < self.text->length; at += length) {
        uint32_t c = utf8_read(self.text->bytes + at, &length);
        if (c != '\t') {
            builder_part(builder, self.text, at, at + length);
            column = c == '\n' || c == '\r' ? 0 : column + 1;
            continue;
        }
        int64_t blanks = width > 0 ? width - column % width : 0;
        for (int64_t i = 0; i < blanks; i++) builder_string(builder, " ");
        column += blanks;
    }
    return value_text(builder_finish(builder));
}

BUILTIN(method_format)
{
    return value_text(format_braces(machine, self.text, arguments));
}

const struct builtin builtin_text_methods[] = {
    {"capitalize", method_capitalize},
    {"casefold", method_fold_case},
    {"center", method_pad_both},
    {"count", method_count},
    {"endswith", method_ends_with},
    {"expandtabs", method_expand_tabs},
    {"find", method_find_first},
    {"format", method_format},
    {"index", method_index_first},
    {"isalnum", method_is_alnum},
    {"isalpha", method_is_alpha},
    {"isascii", method_is_ascii},
    {"isdecimal", method_is_decimal},
    {"isdigit", method_is_digit},
    {"islower", method_is_lower},
    {"isnumeric", method_is_numeric},
    {"isprintable", method_is_printable},
    {"isspace", method_is_space},
    {"istitle", method_is_title},
    {"isupper", method_is_upper},
    {"join", method_join},
    {"ljust", method_pad_left},
    {"lower", method_lower},
    {"lstrip", method_strip_left},
    {"partition", method_partition},
    {"removeprefix", method_remove_prefix},
    {"removesuffix", method_remove_suffix},
    {"replace", method_replace},
    {"rfind", method_find_last},
    {"rindex", method_index_last},
    {"rjust", method_pad_right},
    {"rpartition", method_partition_right},
    {"rsplit", method_split_right},
    {"rstrip", method_strip_right},
    {"split", method_split},
    {"splitlines", method_split_lines},
    {"startswith", method_starts_with},
    {"strip", method_strip_both},
    {"swapcase", method_swap_case},
    {"title", method_title},
    {"upper", method_upper},
    {"zfill", method_fill_zeros},
    {NULL, NULL},
};
