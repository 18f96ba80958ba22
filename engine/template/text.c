/* text.c: UTF-8, and what Python says about characters (value.h), by utf8proc; texts that know who wrote each
 * byte: cutting, joining and searching them; writing them; and what methods and filters share. */
#include <string.h>
#include <utf8proc.h>

#include "common/assert.h"
#include "template/value.h"

/* ---- UTF-8 and characters ------------------------------------------------------------------------------ */

uint32_t utf8_read(const char *text, size_t *length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    *length = utf8_length(*bytes);
    if (*length == 1) return *bytes;
    uint32_t c = *bytes & (0x7Fu >> *length);
    ENGINE_ASSERT((bytes[1] & 0xC0) == 0x80);
    for (size_t i = 1; i < *length; i++) c = c << 6 | (bytes[i] & 0x3F);
    return c;
}

size_t utf8_write(uint32_t c, char text[4])
{
    if (c < 0x80) {
        text[0] = (char)c;
        return 1;
    }
    size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, c >>= 6) text[i] = (char)(0x80 | (c & 0x3F));
    text[0] = (char)((0xF00 >> length & 0xFF) | c);
    return length;
}

size_t utf8_check(const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        if ((unsigned char)text[at] < 0x80) {
            at++;
            continue;
        }
        utf8proc_int32_t c;
        size_t left = length - at < 4 ? length - at : 4;
        utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)left, &c);
        if (n <= 0) return at;
        at += (size_t)n;
    }
    return length;
}

bool character_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool character_is_line_end(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

static utf8proc_category_t category_of(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool character_is_printable(uint32_t c)
{
    if (c < 0x7F) return c >= ' ';
    switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

bool character_is_letter(uint32_t c)
{
    switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return true;
    default: return false;
    }
}

bool character_is_decimal(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_ND;
}

bool character_is_digit(uint32_t c)
{
    /* The superscripts, subscripts and circled digits that Unicode calls digits. */
    return character_is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool character_is_numeric(uint32_t c)
{
    utf8proc_category_t found = category_of(c);
    return found == UTF8PROC_CATEGORY_ND || found == UTF8PROC_CATEGORY_NL || found == UTF8PROC_CATEGORY_NO;
}

bool character_is_word(uint32_t c)
{
    return c == '_' || character_is_letter(c) || character_is_numeric(c);
}

bool character_is_upper(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_LU;
}

bool character_is_lower(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}

bool character_is_title(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_LT;
}

/* Characters whose other case is several characters. */
static const struct {
    uint32_t c;
    uint32_t upper[3], title[3];
} special[] = {
    {0xDF, {'S', 'S'}, {'S', 's'}},
    {0x149, {0x2BC, 'N'}, {0x2BC, 'N'}},
    {0x1F0, {'J', 0x30C}, {'J', 0x30C}},
    {0x587, {0x535, 0x552}, {0x535, 0x582}},
    {0xFB00, {'F', 'F'}, {'F', 'f'}},
    {0xFB01, {'F', 'I'}, {'F', 'i'}},
    {0xFB02, {'F', 'L'}, {'F', 'l'}},
    {0xFB03, {'F', 'F', 'I'}, {'F', 'f', 'i'}},
    {0xFB04, {'F', 'F', 'L'}, {'F', 'f', 'l'}},
    {0xFB05, {'S', 'T'}, {'S', 't'}},
    {0xFB06, {'S', 'T'}, {'S', 't'}},
};

size_t character_convert(uint32_t c, enum character_case to, uint32_t out[3])
{
    out[0] = c;
    if (c < 0x80) {
        bool upper = to == CASE_UPPER || to == CASE_TITLE;
        if (upper && c >= 'a' && c <= 'z') out[0] = c - 32;
        if (!upper && c >= 'A' && c <= 'Z') out[0] = c + 32;
        return 1;
    }
    for (size_t i = 0; (to == CASE_UPPER || to == CASE_TITLE) && i < sizeof special / sizeof *special; i++) {
        if (special[i].c != c) continue;
        const uint32_t *found = to == CASE_UPPER ? special[i].upper : special[i].title;
        size_t count = 0;
        for (; count < 3 && found[count]; count++) out[count] = found[count];
        return count;
    }
    if (to == CASE_FOLD && (c == 0xDF || c == 0x1E9E)) {
        out[0] = out[1] = 's';
        return 2;
    }
    if (to == CASE_LOWER && c == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    utf8proc_int32_t from = (utf8proc_int32_t)c;
    out[0] = (uint32_t)(to == CASE_UPPER   ? utf8proc_toupper(from)
                        : to == CASE_TITLE ? utf8proc_totitle(from)
                                           : utf8proc_tolower(from));
    return 1;
}

/* ---- Texts --------------------------------------------------------------------------------------------- */

static bool is_ascii(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)bytes[i] >= 0x80) return false;
    return true;
}

const struct text *text_make(struct task *task, const char *bytes, size_t length, bool user)
{
    task_charge(task, length);
    char *copy = task_allocate(task, length + 1);
    if (length) memcpy(copy, bytes, length);
    struct text *text = task_allocate(task, sizeof *text);
    *text = (struct text){.bytes = copy, .length = length, .user = user, .ascii = is_ascii(bytes, length)};
    return text;
}

const struct text *text_constant(struct task *task, const char *bytes)
{
    struct text *text = task_allocate(task, sizeof *text);
    size_t length = strlen(bytes);
    *text = (struct text){.bytes = bytes, .length = length, .ascii = is_ascii(bytes, length)};
    return text;
}

const struct text *text_part(struct task *task, const struct text *text, size_t from, size_t to)
{
    ENGINE_ASSERT(from <= to && to <= text->length);
    if (from == 0 && to == text->length) return text;
    struct text *part = task_allocate(task, sizeof *part);
    size_t length = to - from;
    bool ascii = text->ascii;
    if (!ascii) {
        task_charge(task, length);
        ascii = is_ascii(text->bytes + from, length);
    }
    *part = *text;
    part->bytes += from;
    part->length = length;
    if (part->marks) part->marks += from;
    part->ascii = ascii;
    return part;
}

bool text_equals(const struct text *a, const struct text *b)
{
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

bool text_is(const struct text *text, const char *bytes)
{
    return strlen(bytes) == text->length && memcmp(text->bytes, bytes, text->length) == 0;
}

int text_compare(const struct text *a, const struct text *b)
{
    size_t both = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->bytes, b->bytes, both);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

bool text_starts(const struct text *text, size_t at, const struct text *part)
{
    ENGINE_ASSERT(at <= text->length);
    return part->length <= text->length - at && memcmp(text->bytes + at, part->bytes, part->length) == 0;
}

size_t text_find(struct task *task, const struct text *text, const struct text *part, size_t from)
{
    ENGINE_ASSERT(from <= text->length);
    if (part->length > text->length - from) return SIZE_MAX;
    const char *end = text->bytes + text->length;
    const char *found = memmem(text->bytes + from, text->length - from, part->bytes, part->length);
    task_charge(task, (size_t)((found ? found : end) - (text->bytes + from)) + 1);
    return found ? (size_t)(found - text->bytes) : SIZE_MAX;
}

size_t text_find_last(struct task *task, const struct text *text, const struct text *part, size_t to)
{
    ENGINE_ASSERT(to <= text->length);
    if (part->length > to) return SIZE_MAX;
    for (size_t at = to - part->length + 1; at-- > 0;) {
        bool first = !part->length || text->bytes[at] == part->bytes[0];
        task_charge(task, first ? 1 + part->length / 8 : 1);
        if (first && memcmp(text->bytes + at, part->bytes, part->length) == 0) return at;
    }
    return SIZE_MAX;
}

size_t text_characters(struct task *task, const struct text *text)
{
    if (text->ascii) return text->length;
    task_charge(task, text->length);
    size_t count = 0;
    for (size_t i = 0; i < text->length; i++) count += ((unsigned char)text->bytes[i] & 0xC0) != 0x80;
    return count;
}

size_t text_position(struct task *task, const struct text *text, size_t index)
{
    if (text->ascii) return index < text->length ? index : text->length;
    size_t at = 0;
    for (; index > 0 && at < text->length; index--) at += utf8_length((unsigned char)text->bytes[at]);
    task_charge(task, at);
    return at;
}

bool text_is_user(const struct text *text, size_t at)
{
    ENGINE_ASSERT(at < text->length);
    return text->marks ? text->marks[at] : text->user;
}

/* ---- Writing ------------------------------------------------------------------------------------------- */

struct builder *builder_create(struct task *task)
{
    struct builder *builder = task_allocate(task, sizeof *builder);
    builder->task = task;
    builder->ascii = true;
    return builder;
}

static void builder_reserve(struct builder *builder, size_t more)
{
    if (more <= builder->capacity - builder->length) return;
    size_t capacity = builder->length + more;
    if (capacity < more || capacity > SIZE_MAX / 4)
        task_fail(builder->task, "it takes more memory than a template may");
    capacity = capacity < 32 ? 32 : builder->length ? capacity * 2 : capacity;
    char *bytes = task_allocate(builder->task, capacity);
    if (builder->length) memcpy(bytes, builder->bytes, builder->length);
    if (builder->marks) {
        unsigned char *marks = task_allocate(builder->task, capacity);
        memcpy(marks, builder->marks, builder->length);
        builder->marks = marks;
    }
    builder->bytes = bytes;
    builder->capacity = capacity;
    task_charge(builder->task, builder->length);
}

/* Bytes with different marks follow. */
static void builder_need_marks(struct builder *builder)
{
    if (builder->marks) return;
    builder->marks = task_allocate(builder->task, builder->capacity);
    memset(builder->marks, builder->user, builder->length);
}

/* Appends bytes; marks NULL: all are as `user` says. */
static void builder_append(struct builder *builder, const char *bytes, const unsigned char *marks,
                           size_t length, bool user, bool ascii)
{
    if (length == 0) return;
    task_charge(builder->task, TASK_STEP_WRITE + length);
    builder_reserve(builder, length);
    if (builder->length == 0 && !builder->marks) builder->user = user;
    if (marks || user != builder->user) builder_need_marks(builder);
    memcpy(builder->bytes + builder->length, bytes, length);
    if (marks)
        memcpy(builder->marks + builder->length, marks, length);
    else if (builder->marks)
        memset(builder->marks + builder->length, user, length);
    builder->length += length;
    builder->ascii = builder->ascii && ascii;
}

void builder_bytes(struct builder *builder, const char *bytes, size_t length, bool user)
{
    builder_append(builder, bytes, NULL, length, user, is_ascii(bytes, length));
}

void builder_string(struct builder *builder, const char *string)
{
    builder_bytes(builder, string, strlen(string), false);
}

void builder_part(struct builder *builder, const struct text *text, size_t from, size_t to)
{
    builder_append(builder, text->bytes + from, text->marks ? text->marks + from : NULL, to - from,
                   text->user, text->ascii || is_ascii(text->bytes + from, to - from));
}

void builder_text(struct builder *builder, const struct text *text)
{
    builder_part(builder, text, 0, text->length);
}

void builder_character(struct builder *builder, uint32_t character, bool user)
{
    char bytes[4];
    builder_bytes(builder, bytes, utf8_write(character, bytes), user);
}

const struct text *builder_finish(struct builder *builder)
{
    struct text *text = task_allocate(builder->task, sizeof *text);
    *text = (struct text){.bytes = builder->bytes ? builder->bytes : "",
                          .length = builder->length,
                          .marks = builder->marks,
                          .user = builder->user,
                          .ascii = builder->ascii,
                          .home = builder};
    return text;
}

const struct text *text_join(struct task *task, const struct text *a, const struct text *b)
{
    if (b->length == 0) return a;
    if (a->length == 0) return b;
    struct builder *home = a->home;
    bool at_end = home && a->bytes + a->length == home->bytes + home->length &&
                  b->length <= home->capacity - home->length;
    if (!at_end) {
        home = builder_create(task);
        builder_text(home, a);
    }
    size_t from = home->length - a->length;
    builder_text(home, b);
    struct text *joined = task_allocate(task, sizeof *joined);
    *joined = (struct text){.bytes = home->bytes + from,
                            .length = a->length + b->length,
                            .marks = home->marks ? home->marks + from : NULL,
                            .user = home->user,
                            .ascii = a->ascii && b->ascii,
                            .home = home};
    return joined;
}

/* ---- For methods and filters --------------------------------------------------------------------------- */

static bool is_in_set(struct task *task, const struct text *set, uint32_t c)
{
    if (!set) return character_is_space(c);
    for (size_t at = 0, length; at < set->length; at += length) {
        task_charge(task, TASK_STEP_CHARACTER);
        if (utf8_read(set->bytes + at, &length) == c) return true;
    }
    return false;
}

const struct text *text_strip(struct task *task, const struct text *text, const struct text *set, bool left,
                              bool right)
{
    size_t from = 0, to = text->length, length;
    while (left && from < to && is_in_set(task, set, utf8_read(text->bytes + from, &length))) from += length;
    while (right && to > from) {
        size_t last = to - 1;
        while (((unsigned char)text->bytes[last] & 0xC0) == 0x80) last--;
        if (!is_in_set(task, set, utf8_read(text->bytes + last, &length))) break;
        to = last;
    }
    task_charge(task, TASK_STEP_CHARACTER * (from + text->length - to));
    return text_part(task, text, from, to);
}

const struct text *text_replace(struct task *task, const struct text *text, const struct text *old,
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

struct list *text_split(struct task *task, const struct text *text, const struct text *separator,
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

static struct list *reversed_list(struct task *task, const struct list *list)
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

struct list *text_split_right(struct task *task, const struct text *text, const struct text *separator,
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
    return reversed_list(task, list);
}

struct list *text_lines(struct task *task, const struct text *text, bool keep)
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

static void add_converted(struct builder *builder, uint32_t c, enum character_case to, bool user)
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

const struct text *text_change(struct task *task, const struct text *text, enum text_change change)
{
    struct builder *builder = builder_create(task);
    bool word = false; /* the character before is a letter */
    task_charge(task, text->length * 4 * TASK_STEP_CHARACTER);
    for (size_t at = 0, length; at < text->length; at += length) {
        uint32_t c = utf8_read(text->bytes + at, &length);
        bool user = text_is_user(text, at);
        enum character_case to = CASE_LOWER;
        if (change == TEXT_UPPER) to = CASE_UPPER;
        if (change == TEXT_FOLD) to = CASE_FOLD;
        if (change == TEXT_CAPITALIZE && at == 0) to = CASE_TITLE;
        if (change == TEXT_TITLE && !word) to = CASE_TITLE;
        if (change == TEXT_SWAP) to = character_is_lower(c) ? CASE_UPPER : CASE_LOWER;
        if (c == 0x3A3 && to == CASE_LOWER && is_final_sigma(text, at, word))
            builder_character(builder, 0x3C2, user);
        else
            add_converted(builder, c, to, user);
        word = character_is_letter(c);
    }
    return builder_finish(builder);
}

const struct text *text_title_words(struct task *task, const struct text *text)
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
            add_converted(builder, c, begins ? CASE_UPPER : CASE_LOWER, text_is_user(text, at));
        begins = separates;
    }
    return builder_finish(builder);
}

const struct text *text_center(struct task *task, const struct text *text, int64_t width, uint32_t fill)
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

const struct text *text_as_html(struct task *task, const struct text *text, bool html)
{
    if (text->html == html) return text;
    struct text *copy = task_allocate(task, sizeof *copy);
    *copy = *text;
    copy->html = html;
    return copy;
}

const struct text *text_escape(struct task *task, const struct text *text)
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
    return text_as_html(task, builder_finish(builder), true);
}
