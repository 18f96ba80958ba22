/* text.c: see text.h. */
#include "template/text.h"

#include <string.h>

#include "template/characters.h"

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
    return part->length <= text->length - at && memcmp(text->bytes + at, part->bytes, part->length) == 0;
}

size_t text_find(struct task *task, const struct text *text, const struct text *part, size_t from)
{
    if (part->length > text->length - from) return SIZE_MAX;
    const char *end = text->bytes + text->length;
    const char *found = memmem(text->bytes + from, text->length - from, part->bytes, part->length);
    task_charge(task, (size_t)((found ? found : end) - (text->bytes + from)) + 1);
    return found ? (size_t)(found - text->bytes) : SIZE_MAX;
}

size_t text_find_last(struct task *task, const struct text *text, const struct text *part, size_t to)
{
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

static void reserve(struct builder *builder, size_t more)
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
static void need_marks(struct builder *builder)
{
    if (builder->marks) return;
    builder->marks = task_allocate(builder->task, builder->capacity);
    memset(builder->marks, builder->user, builder->length);
}

/* Appends bytes; marks NULL: all are as `user` says. */
static void append(struct builder *builder, const char *bytes, const unsigned char *marks, size_t length,
                   bool user, bool ascii)
{
    if (length == 0) return;
    task_charge(builder->task, TASK_STEP_WRITE + length);
    reserve(builder, length);
    if (builder->length == 0 && !builder->marks) builder->user = user;
    if (marks || user != builder->user) need_marks(builder);
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
    append(builder, bytes, NULL, length, user, is_ascii(bytes, length));
}

void builder_string(struct builder *builder, const char *string)
{
    builder_bytes(builder, string, strlen(string), false);
}

void builder_part(struct builder *builder, const struct text *text, size_t from, size_t to)
{
    append(builder, text->bytes + from, text->marks ? text->marks + from : NULL, to - from, text->user,
           text->ascii || is_ascii(text->bytes + from, to - from));
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
