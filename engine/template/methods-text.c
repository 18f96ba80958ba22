/* methods-text.c: the methods of str. See builtin.h. */
#include "template/builtin.h"
#include "template/characters.h"
#include "template/format.h"
#include "template/show.h"
#include "template/texts.h"

#define METHOD(name_)                                                                                        \
    static struct value name_(struct machine *machine, struct value self, const struct arguments *arguments)

/* ---- Cutting and changing ------------------------------------------------------------------------------ */

static struct value strip(struct machine *machine, struct value self, const struct arguments *arguments,
                          bool left, bool right)
{
    static const char *const names[] = {"chars", NULL};
    struct value values[1];
    call_match(machine, "strip", arguments, names, 0, values);
    const struct text *set = argument_is_given(values[0]) ? argument_text(machine, values[0], "") : NULL;
    return value_text(texts_strip(&machine->task, self.text, set, left, right));
}

METHOD(strip_both)
{
    return strip(machine, self, arguments, true, true);
}
METHOD(strip_left)
{
    return strip(machine, self, arguments, true, false);
}
METHOD(strip_right)
{
    return strip(machine, self, arguments, false, true);
}

static struct value change(struct machine *machine, struct value self, const struct arguments *arguments,
                           enum texts_change to)
{
    call_match_none(machine, "the method", arguments);
    return value_text(texts_change(&machine->task, self.text, to));
}

METHOD(lower)
{
    return change(machine, self, arguments, TEXTS_LOWER);
}
METHOD(upper)
{
    return change(machine, self, arguments, TEXTS_UPPER);
}
METHOD(capitalize)
{
    return change(machine, self, arguments, TEXTS_CAPITALIZE);
}
METHOD(title)
{
    return change(machine, self, arguments, TEXTS_TITLE);
}
METHOD(swap_case)
{
    return change(machine, self, arguments, TEXTS_SWAP);
}
METHOD(fold_case)
{
    return change(machine, self, arguments, TEXTS_FOLD);
}

METHOD(replace)
{
    static const char *const names[] = {"old", "new", "count", NULL};
    struct value values[3];
    call_match(machine, "replace", arguments, names, 2, values);
    return value_text(texts_replace(&machine->task, self.text, argument_text(machine, values[0], ""),
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
    return value_list(VALUE_LIST, right ? texts_split_right(&machine->task, self.text, separator, limit)
                                        : texts_split(&machine->task, self.text, separator, limit));
}

METHOD(split)
{
    return split_at(machine, self, arguments, false);
}
METHOD(split_right)
{
    return split_at(machine, self, arguments, true);
}

METHOD(split_lines)
{
    static const char *const names[] = {"keepends", NULL};
    struct value values[1];
    call_match(machine, "splitlines", arguments, names, 0, values);
    return value_list(VALUE_LIST, texts_lines(&machine->task, self.text, argument_truth(values[0], false)));
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

METHOD(partition)
{
    return partition_at(machine, self, arguments, false);
}
METHOD(partition_right)
{
    return partition_at(machine, self, arguments, true);
}

METHOD(remove_prefix)
{
    static const char *const names[] = {"prefix", NULL};
    struct value values[1];
    call_match(machine, "removeprefix", arguments, names, 1, values);
    const struct text *prefix = argument_text(machine, values[0], "");
    task_charge(&machine->task, prefix->length);
    bool found = text_starts(self.text, 0, prefix);
    return value_text(text_part(&machine->task, self.text, found ? prefix->length : 0, self.text->length));
}

METHOD(remove_suffix)
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

METHOD(join)
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
        builder_text(builder, self.text->html ? texts_escape(task, item) : item);
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

static struct value find(struct machine *machine, struct value self, const struct arguments *arguments,
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

METHOD(find_first)
{
    return find(machine, self, arguments, false, false);
}
METHOD(find_last)
{
    return find(machine, self, arguments, true, false);
}
METHOD(index_first)
{
    return find(machine, self, arguments, false, true);
}
METHOD(index_last)
{
    return find(machine, self, arguments, true, true);
}

METHOD(count)
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

METHOD(starts_with)
{
    return has_at(machine, self, arguments, false);
}
METHOD(ends_with)
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

METHOD(is_alnum)
{
    return each_is(machine, self, arguments, is_letter_or_number);
}
METHOD(is_alpha)
{
    return each_is(machine, self, arguments, character_is_letter);
}
METHOD(is_decimal)
{
    return each_is(machine, self, arguments, character_is_decimal);
}
METHOD(is_digit)
{
    return each_is(machine, self, arguments, character_is_digit);
}
METHOD(is_numeric)
{
    return each_is(machine, self, arguments, character_is_numeric);
}
METHOD(is_space)
{
    return each_is(machine, self, arguments, character_is_space);
}

METHOD(is_printable)
{
    struct value all = each_is(machine, self, arguments, character_is_printable);
    return value_boolean(all.boolean || !self.text->length);
}

METHOD(is_ascii)
{
    call_match_none(machine, "isascii", arguments);
    return value_boolean(self.text->ascii);
}

METHOD(is_lower)
{
    call_match_none(machine, "islower", arguments);
    return value_boolean(builtin_test(machine, text_constant(&machine->task, "lower"), self, arguments));
}

METHOD(is_upper)
{
    call_match_none(machine, "isupper", arguments);
    return value_boolean(builtin_test(machine, text_constant(&machine->task, "upper"), self, arguments));
}

METHOD(is_title)
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

static struct value pad(struct machine *machine, struct value self, const struct arguments *arguments,
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
    if (side == 'c') return value_text(texts_center(task, self.text, width, utf8_read(fill->bytes, &length)));
    int64_t rest = width - (int64_t)text_characters(task, self.text);
    struct builder *builder = builder_create(task);
    if (side == 'l') builder_text(builder, self.text);
    for (int64_t i = 0; i < rest; i++) builder_text(builder, fill);
    if (side == 'r') builder_text(builder, self.text);
    return value_text(builder_finish(builder));
}

METHOD(pad_left)
{
    return pad(machine, self, arguments, 'l');
}
METHOD(pad_right)
{
    return pad(machine, self, arguments, 'r');
}
METHOD(pad_both)
{
    return pad(machine, self, arguments, 'c');
}

METHOD(fill_zeros)
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

METHOD(expand_tabs)
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

METHOD(format)
{
    return value_text(format_braces(machine, self.text, arguments));
}

const struct builtin builtin_text_methods[] = {
    {"capitalize", capitalize},
    {"casefold", fold_case},
    {"center", pad_both},
    {"count", count},
    {"endswith", ends_with},
    {"expandtabs", expand_tabs},
    {"find", find_first},
    {"format", format},
    {"index", index_first},
    {"isalnum", is_alnum},
    {"isalpha", is_alpha},
    {"isascii", is_ascii},
    {"isdecimal", is_decimal},
    {"isdigit", is_digit},
    {"islower", is_lower},
    {"isnumeric", is_numeric},
    {"isprintable", is_printable},
    {"isspace", is_space},
    {"istitle", is_title},
    {"isupper", is_upper},
    {"join", join},
    {"ljust", pad_left},
    {"lower", lower},
    {"lstrip", strip_left},
    {"partition", partition},
    {"removeprefix", remove_prefix},
    {"removesuffix", remove_suffix},
    {"replace", replace},
    {"rfind", find_last},
    {"rindex", index_last},
    {"rjust", pad_right},
    {"rpartition", partition_right},
    {"rsplit", split_right},
    {"rstrip", strip_right},
    {"split", split},
    {"splitlines", split_lines},
    {"startswith", starts_with},
    {"strip", strip_both},
    {"swapcase", swap_case},
    {"title", title},
    {"upper", upper},
    {"zfill", fill_zeros},
    {NULL, NULL},
};
