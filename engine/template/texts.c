/* texts.c: see texts.h. */
#include "template/texts.h"

#include <string.h>

#include "template/characters.h"

static bool is_in(struct task *task, const struct text *set, uint32_t c)
{
    if (!set) return character_is_space(c);
    for (size_t at = 0, length; at < set->length; at += length) {
        task_charge(task, TASK_STEP_CHARACTER);
        if (utf8_read(set->bytes + at, &length) == c) return true;
    }
    return false;
}

const struct text *texts_strip(struct task *task, const struct text *text, const struct text *set, bool left,
                               bool right)
{
    size_t from = 0, to = text->length, length;
    while (left && from < to && is_in(task, set, utf8_read(text->bytes + from, &length))) from += length;
    while (right && to > from) {
        size_t last = to - 1;
        while (((unsigned char)text->bytes[last] & 0xC0) == 0x80) last--;
        if (!is_in(task, set, utf8_read(text->bytes + last, &length))) break;
        to = last;
    }
    task_charge(task, TASK_STEP_CHARACTER * (from + text->length - to));
    return text_part(task, text, from, to);
}

const struct text *texts_replace(struct task *task, const struct text *text, const struct text *old,
                                 const struct text *new, int64_t limit)
{
    struct builder *builder = builder_create(task);
    size_t plain = 0;
    for (size_t at = 0; limit != 0; limit--) {
        size_t found = text_find(task, text, old, at);
        if (found == SIZE_MAX) break;
        builder_part(builder, text, plain, found);
        builder_text(builder, new);
        plain = found + old->length;
        if (old->length) {
            at = plain;
        } else if (found < text->length) { /* between all characters */
            at = found + utf8_length((unsigned char)text->bytes[found]);
        } else {
            break;
        }
    }
    if (plain == 0 && builder->length == 0) return text;
    builder_part(builder, text, plain, text->length);
    return builder_finish(builder);
}

static void add_part(struct task *task, struct list *list, const struct text *text, size_t from, size_t to)
{
    list_add(task, list, value_text(text_part(task, text, from, to)));
}

/* The end of a run of characters that are white space, or not. */
static size_t run_end(const struct text *text, size_t at, bool space)
{
    size_t length;
    while (at < text->length && character_is_space(utf8_read(text->bytes + at, &length)) == space)
        at += length;
    return at;
}

static struct list *split_words(struct task *task, const struct text *text, int64_t limit)
{
    struct list *list = list_create(task, 0);
    task_charge(task, TASK_STEP_CHARACTER * text->length);
    size_t at = run_end(text, 0, true);
    for (; at < text->length && limit != 0; limit--) {
        size_t end = run_end(text, at, false);
        add_part(task, list, text, at, end);
        at = run_end(text, end, true);
    }
    if (at < text->length) add_part(task, list, text, at, text->length);
    return list;
}

struct list *texts_split(struct task *task, const struct text *text, const struct text *separator,
                         int64_t limit)
{
    if (!separator) return split_words(task, text, limit);
    if (!separator->length) task_fail(task, "empty separator");
    struct list *list = list_create(task, 0);
    size_t at = 0;
    for (; limit != 0; limit--) {
        size_t found = text_find(task, text, separator, at);
        if (found == SIZE_MAX) break;
        add_part(task, list, text, at, found);
        at = found + separator->length;
    }
    add_part(task, list, text, at, text->length);
    return list;
}

static struct list *reversed(struct task *task, const struct list *list)
{
    struct list *result = list_create(task, list->count);
    for (size_t i = list->count; i-- > 0;) list_add(task, result, list->items[i]);
    return result;
}

static struct list *split_words_right(struct task *task, const struct text *text, int64_t limit)
{
    struct list *words = split_words(task, text, -1), *list = list_create(task, 0);
    size_t count = words->count;
    if (limit < 0 || (uint64_t)limit >= count) return words;
    /* The words that stay together end where the last of them ends. */
    size_t together = count - (size_t)limit;
    const struct text *last = words->items[together - 1].text;
    size_t end = (size_t)(last->bytes - text->bytes) + last->length;
    add_part(task, list, text, 0, end);
    for (size_t i = together; i < count; i++) list_add(task, list, words->items[i]);
    return list;
}

struct list *texts_split_right(struct task *task, const struct text *text, const struct text *separator,
                               int64_t limit)
{
    if (!separator) return split_words_right(task, text, limit);
    if (!separator->length) task_fail(task, "empty separator");
    struct list *list = list_create(task, 0);
    size_t to = text->length;
    for (; limit != 0; limit--) {
        size_t found = text_find_last(task, text, separator, to);
        if (found == SIZE_MAX) break;
        add_part(task, list, text, found + separator->length, to);
        to = found;
    }
    add_part(task, list, text, 0, to);
    return reversed(task, list);
}

struct list *texts_lines(struct task *task, const struct text *text, bool keep)
{
    struct list *list = list_create(task, 0);
    size_t from = 0;
    task_charge(task, TASK_STEP_CHARACTER * text->length);
    for (size_t at = 0, length; at < text->length;) {
        uint32_t c = utf8_read(text->bytes + at, &length);
        size_t end = at;
        at += length;
        if (!character_is_line_end(c)) continue;
        if (c == '\r' && at < text->length && text->bytes[at] == '\n') at++;
        add_part(task, list, text, from, keep ? at : end);
        from = at;
    }
    if (from < text->length) add_part(task, list, text, from, text->length);
    return list;
}

static void convert(struct builder *builder, uint32_t c, enum character_case to, bool user)
{
    uint32_t out[3];
    size_t count = character_convert(c, to, out);
    for (size_t i = 0; i < count; i++) builder_character(builder, out[i], user);
}

/* Whether the sigma at `at` ends a word: then its lower case is another letter. */
static bool is_final_sigma(const struct text *text, size_t at, bool after_letter)
{
    size_t length;
    if (!after_letter) return false;
    at += 2;
    return at >= text->length || !character_is_letter(utf8_read(text->bytes + at, &length));
}

const struct text *texts_change(struct task *task, const struct text *text, enum texts_change change)
{
    struct builder *builder = builder_create(task);
    bool word = false; /* the character before is a letter */
    task_charge(task, text->length * 4 * TASK_STEP_CHARACTER);
    for (size_t at = 0, length; at < text->length; at += length) {
        uint32_t c = utf8_read(text->bytes + at, &length);
        bool user = text_is_user(text, at);
        enum character_case to = CASE_LOWER;
        if (change == TEXTS_UPPER) to = CASE_UPPER;
        if (change == TEXTS_FOLD) to = CASE_FOLD;
        if (change == TEXTS_CAPITALIZE && at == 0) to = CASE_TITLE;
        if (change == TEXTS_TITLE && !word) to = CASE_TITLE;
        if (change == TEXTS_SWAP) to = character_is_lower(c) ? CASE_UPPER : CASE_LOWER;
        if (c == 0x3A3 && to == CASE_LOWER && is_final_sigma(text, at, word))
            builder_character(builder, 0x3C2, user);
        else
            convert(builder, c, to, user);
        word = character_is_letter(c);
    }
    return builder_finish(builder);
}

const struct text *texts_title_words(struct task *task, const struct text *text)
{
    struct builder *builder = builder_create(task);
    bool begins = true;
    task_charge(task, text->length * 4 * TASK_STEP_CHARACTER);
    for (size_t at = 0, length; at < text->length; at += length) {
        uint32_t c = utf8_read(text->bytes + at, &length);
        bool separates =
            character_is_space(c) || (c < 0x80 && (c == '-' || c == '(' || c == '{' || c == '[' || c == '<'));
        if (separates)
            builder_character(builder, c, text_is_user(text, at));
        else
            convert(builder, c, begins ? CASE_UPPER : CASE_LOWER, text_is_user(text, at));
        begins = separates;
    }
    return builder_finish(builder);
}

const struct text *texts_center(struct task *task, const struct text *text, int64_t width, uint32_t fill)
{
    int64_t length = (int64_t)text_characters(task, text);
    if (width <= length) return text;
    int64_t rest = width - length, left = rest / 2 + (rest & width & 1);
    struct builder *builder = builder_create(task);
    for (int64_t i = 0; i < left; i++) builder_character(builder, fill, false);
    builder_text(builder, text);
    for (int64_t i = left; i < rest; i++) builder_character(builder, fill, false);
    return builder_finish(builder);
}

const struct text *texts_as_html(struct task *task, const struct text *text, bool html)
{
    if (text->html == html) return text;
    struct text *copy = task_allocate(task, sizeof *copy);
    *copy = *text;
    copy->html = html;
    return copy;
}

const struct text *texts_escape(struct task *task, const struct text *text)
{
    static const char *const codes[] = {"&&amp;", "<&lt;", ">&gt;", "'&#39;", "\"&#34;"};
    if (text->html) return text;
    struct builder *builder = builder_create(task);
    size_t plain = 0;
    for (size_t at = 0; at < text->length; at++) {
        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
            if (text->bytes[at] != codes[i][0]) continue;
            builder_part(builder, text, plain, at);
            builder_bytes(builder, codes[i] + 1, strlen(codes[i]) - 1, text_is_user(text, at));
            plain = at + 1;
        }
    }
    builder_part(builder, text, plain, text->length);
    return texts_as_html(task, builder_finish(builder), true);
}
