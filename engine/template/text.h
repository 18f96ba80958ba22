/* text.h: texts that know who wrote them. Each byte is the template's or the user's: whatever was in a message
 * stays marked as the user's when it is cut, joined or changed, so that it is never read as a special token.
 *
 * Texts are immutable, valid UTF-8, and belong to a task. Positions are in bytes unless they are called
 * characters. */
#ifndef ENGINE_TEMPLATE_TEXT_H
#define ENGINE_TEMPLATE_TEXT_H

#include "template/task.h"

struct builder;

struct text {
    const char *bytes; /* [length] */
    size_t length;
    const unsigned char *marks; /* [length] 1: the user's; NULL: all are as `user` says */
    bool user;
    bool ascii;           /* one byte for each character */
    bool html;            /* what the filters safe and escape made: what joins it is escaped first */
    struct builder *home; /* where the bytes are, or NULL; text_join may append to them there */
};

/* A text being written. */
struct builder {
    struct task *task;
    char *bytes;          /* [capacity] */
    unsigned char *marks; /* [capacity], or NULL while all bytes are as `user` says */
    size_t length, capacity, limit;
    bool user, ascii;
};

/* Copies `length` bytes of valid UTF-8. */
const struct text *text_make(struct task *task, const char *bytes, size_t length, bool user);
/* The template's, NUL-terminated; not copied. */
const struct text *text_constant(struct task *task, const char *bytes);
/* Bytes from … to-1. */
const struct text *text_part(struct task *task, const struct text *text, size_t from, size_t to);
/* Appends in place where nothing else has been appended yet, so that a text that grows in a loop is not copied
 * each time. */
const struct text *text_join(struct task *task, const struct text *a, const struct text *b);

bool text_equals(const struct text *a, const struct text *b);
bool text_is(const struct text *text, const char *bytes);
int text_compare(const struct text *a, const struct text *b);
/* The first position of `part` at or after `from`, SIZE_MAX if there is none. */
size_t text_find(struct task *task, const struct text *text, const struct text *part, size_t from);
/* The last position of `part` that ends at or before `to`. */
size_t text_find_last(struct task *task, const struct text *text, const struct text *part, size_t to);
bool text_starts(const struct text *text, size_t at, const struct text *part);

size_t text_characters(struct task *task, const struct text *text);
/* The position of character number `index`, which may be one past the last. */
size_t text_position(struct task *task, const struct text *text, size_t index);

bool text_is_user(const struct text *text, size_t at);

/* For messages: cut to a length that fits in a line. */
#define TEXT_SHOWN(text) ((int)((text)->length < 60 ? (text)->length : 60)), (text)->bytes

struct builder *builder_create(struct task *task);
void builder_bytes(struct builder *builder, const char *bytes, size_t length, bool user);
void builder_string(struct builder *builder, const char *string); /* the template's, NUL-terminated */
void builder_text(struct builder *builder, const struct text *text);
void builder_part(struct builder *builder, const struct text *text, size_t from, size_t to);
void builder_character(struct builder *builder, uint32_t character, bool user);
const struct text *builder_finish(struct builder *builder);

#endif
