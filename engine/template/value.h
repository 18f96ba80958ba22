/* value.h: the values that a template computes with, and the task that owns them.
 *
 *   value.c        tasks: memory, limits, and the way out; Python's types, as far as templates use them
 *   text.c         UTF-8, and what Python says about characters; texts that know who wrote each byte
 *   format.c       values as texts: str(), repr(), json.dumps(), % and format()
 *
 * Values are small and copied; what they point to belongs to the task and doesn't change, except namespaces,
 * lists that a template appends to, and what remembers its position (iterators, cyclers). */
#ifndef ENGINE_TEMPLATE_VALUE_H
#define ENGINE_TEMPLATE_VALUE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

/* ---- Tasks (value.c) ----------------------------------------------------------------------------------- */

/* What parsing and rendering a template have in common: memory, limits, and the way out.
 *
 * A task owns all memory that is allocated during it, and frees it at its end. A failure therefore needs no
 * cleanup on its way: task_fail leaves everything at once, by longjmp to task_run. Code that runs within a
 * task must not own anything else. */

/* Steps are nanoseconds, roughly: what an operation costs, on the safe side. */
#define TASK_STEP_NODE      32 /* evaluating a node of the syntax tree */
#define TASK_STEP_ITEM      8  /* touching an item of a list or dict */
#define TASK_STEP_CHARACTER 8  /* looking a character up */
#define TASK_STEP_WRITE     8  /* appending to a text, besides its bytes */
/* Touching a byte of text: 1. */

/* Nested evaluations, and nested values. */
#define TASK_MAX_DEPTH 1000

struct task_block;

struct task {
    struct task_block *blocks;
    char *next, *end; /* free memory of the newest block */
    size_t memory;    /* bytes that may still be allocated */
    uint64_t steps;   /* that may still be taken */
    uint32_t depth;
    int line;   /* of the template; 0: none */
    int status; /* enum engine_status: why it failed */
    char message[1024];
    jmp_buf failed;
};

void task_begin(struct task *task, size_t memory, uint64_t steps);
/* Frees the task's memory. */
void task_end(struct task *task);

/* Runs `work` within the task; false if it failed. Not to be nested. */
bool task_run(struct task *task, void (*work)(struct task *task, void *user), void *user);

/* Zeroed memory, aligned for anything. Fails when the limit is reached. */
void *task_allocate(struct task *task, size_t size);
/* [count] items of `size` bytes. */
void *task_array(struct task *task, size_t count, size_t size);
/* Room for one more item in an array of *capacity, [count] of which are in use; returns the array. */
void *task_grow(struct task *task, void *items, size_t count, size_t *capacity, size_t size);

/* Accounts for work; fails when the limit is reached. */
void task_charge(struct task *task, uint64_t steps);

/* Around whatever calls itself. */
void task_enter(struct task *task);
void task_leave(struct task *task);

/* Ends the task. */
_Noreturn void task_fail(struct task *task, const char *format, ...) ENGINE_PRINTF(2, 3);

/* ---- Characters (text.c) ------------------------------------------------------------------------------- */

/* Bytes of the character that begins with `first`, in valid UTF-8. */
static inline size_t utf8_length(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/* The character at `text`, which is valid UTF-8; *length: its bytes. */
uint32_t utf8_read(const char *text, size_t *length);
/* Writes a character; returns the number of bytes. */
size_t utf8_write(uint32_t character, char text[4]);
/* The first byte that isn't part of valid UTF-8; `length`: there is none. */
size_t utf8_check(const char *text, size_t length);

bool character_is_space(uint32_t c);     /* str.isspace */
bool character_is_printable(uint32_t c); /* str.isprintable */
bool character_is_letter(uint32_t c);    /* str.isalpha */
bool character_is_decimal(uint32_t c);   /* str.isdecimal */
bool character_is_digit(uint32_t c);     /* str.isdigit */
bool character_is_numeric(uint32_t c);   /* str.isnumeric */
bool character_is_word(uint32_t c);      /* \w of Python's re */
bool character_is_upper(uint32_t c);
bool character_is_lower(uint32_t c);
bool character_is_title(uint32_t c);
bool character_is_line_end(uint32_t c); /* for str.splitlines */

enum character_case { CASE_LOWER, CASE_UPPER, CASE_TITLE, CASE_FOLD };
/* Writes the character in another case, in at most 3 characters; returns their number. */
size_t character_convert(uint32_t c, enum character_case to, uint32_t out[3]);

/* ---- Texts (text.c) ------------------------------------------------------------------------------------ */

/* Texts know who wrote them. Each byte is the template's or the user's: everything from a message stays
 * marked as the user's when it is cut, joined or changed, so that it is never read as a special token.
 *
 * Texts are immutable, valid UTF-8, and belong to a task. Positions are in bytes unless they are called
 * characters. */

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
/* Appends in place where nothing else has been appended yet, so that a text that grows in a loop is not
 * copied each time. */
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

/* ---- Values (value.c) ---------------------------------------------------------------------------------- */

enum value_kind {
    VALUE_MISSING, /* not given; never seen by templates */
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOLEAN,
    VALUE_INTEGER,
    VALUE_FLOAT,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_RANGE,
    VALUE_VIEW,     /* what a dict's methods return: can be read again, but not indexed */
    VALUE_ITERATOR, /* what filters such as map return: can be read once */
    VALUE_DICT,
    VALUE_NAMESPACE,
    VALUE_FUNCTION, /* built in, or a method of a value */
    VALUE_MACRO,
    VALUE_LOOP,
    VALUE_CYCLER,
    VALUE_JOINER
};

struct value {
    enum value_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double number;
        const struct text *text;
        struct list *list; /* LIST to ITERATOR */
        struct dict *dict; /* DICT, NAMESPACE */
        const struct undefined *undefined;
        const struct function *function;
        const struct macro *macro;
        struct loop *loop;
        struct cycler *cycler;
        struct joiner *joiner;
    };
};

/* The numbers of range(from, to, step). */
struct range {
    int64_t from, to, step;
};

struct list {
    struct value *items; /* [count] */
    size_t count, capacity;
    size_t next;        /* of an iterator: the next item */
    uint32_t depth;     /* of nested lists and dicts */
    const char *type;   /* of a view: "dict_items" */
    struct range range; /* of a range */
};

struct pair {
    struct value key, value;
};

/* Keeps the order of insertion. */
struct dict {
    struct pair *pairs; /* [count] */
    size_t count, capacity;
    uint32_t *slots; /* [n_slots] 1 + index of a pair; 0: free. NULL while there are few */
    size_t n_slots;
    uint32_t depth;
};

/* Why a value is undefined. */
struct undefined {
    const struct text *name; /* of a variable, or what was looked up */
    struct value of;         /* MISSING for a variable, else what it was looked up in */
    struct value key;        /* if `name` is NULL */
    const char *reason;      /* overrides all of these */
    /* What a call of it does nevertheless; NULL: fail. */
    const struct function *called;
};

struct machine;

/* Arguments of a call. */
struct named_value {
    const struct text *name;
    struct value value;
};
struct arguments {
    const struct value *items; /* [count] */
    size_t count;
    const struct named_value *named; /* [n_named] */
    size_t n_named;
};

struct builtin {
    const char *name;
    struct value (*call)(struct machine *machine, struct value self, const struct arguments *arguments);
};

struct function {
    const struct builtin *builtin;
    struct value self; /* of a method */
};

struct cycler {
    struct list *items;
    size_t at;
};

struct joiner {
    const struct text *separator;
    bool used;
};

#define VALUE_IS(v, of) ((v).kind == VALUE_##of)

static inline struct value value_none(void)
{
    return (struct value){.kind = VALUE_NONE};
}
static inline struct value value_boolean(bool b)
{
    return (struct value){.kind = VALUE_BOOLEAN, .boolean = b};
}
static inline struct value value_integer(int64_t i)
{
    return (struct value){.kind = VALUE_INTEGER, .integer = i};
}
static inline struct value value_float(double x)
{
    return (struct value){.kind = VALUE_FLOAT, .number = x};
}
static inline struct value value_text(const struct text *text)
{
    return (struct value){.kind = VALUE_TEXT, .text = text};
}
static inline struct value value_list(enum value_kind kind, struct list *list)
{
    return (struct value){.kind = kind, .list = list};
}
static inline struct value value_dict(struct dict *dict)
{
    return (struct value){.kind = VALUE_DICT, .dict = dict};
}
static inline bool value_is_sequence(struct value v)
{
    return v.kind >= VALUE_LIST && v.kind <= VALUE_ITERATOR;
}
/* Can be indexed. */
static inline bool value_is_indexed(struct value v)
{
    return v.kind >= VALUE_LIST && v.kind <= VALUE_RANGE;
}
static inline bool value_is_number(struct value v)
{
    return v.kind >= VALUE_BOOLEAN && v.kind <= VALUE_FLOAT;
}

/* An undefined value; see struct undefined. */
struct value value_undefined_name(struct task *task, const struct text *name);
struct value value_undefined_key(struct task *task, struct value of, struct value key);
struct value value_undefined_reason(struct task *task, const char *reason);
/* The same, but a call of it does what the function does. */
struct value value_undefined_but_called(struct task *task, const char *reason, const struct function *called);
/* Fails with the reason, as Jinja gives it. */
_Noreturn void value_fail_undefined(struct task *task, struct value undefined);
/* Fails if it is undefined. */
void value_need(struct task *task, struct value value);

struct list *list_create(struct task *task, size_t capacity);
void list_add(struct task *task, struct list *list, struct value value);
struct list *list_copy(struct task *task, const struct list *list);
struct dict *dict_create(struct task *task);
/* Replaces the value of a key that is there. Fails if the key can't be one. */
void dict_set(struct task *task, struct dict *dict, struct value key, struct value value);
/* NULL: it has no such key. */
const struct value *dict_find(struct task *task, const struct dict *dict, struct value key);
const struct value *dict_find_text(struct task *task, const struct dict *dict, const struct text *key);

const char *value_type(struct value value); /* Python's name of its type: "str" */
bool value_truth(struct value value);
bool value_equals(struct task *task, struct value a, struct value b);
/* Whether they can be ordered; *order is then negative, 0 or positive. NaN: *order is 2, which is neither. */
bool value_order(struct task *task, struct value a, struct value b, int *order);
/* Whether a key of a dict. */
bool value_is_key(struct task *task, struct value value);
/* An integer or boolean. */
bool value_get_integer(struct value value, int64_t *integer);
/* A number as double. */
double value_get_number(struct value value);

/* The number of items; fails for what has none. */
size_t value_length(struct task *task, struct value value);
/* All items of what can be iterated over, as a list: the items themselves, the keys of a dict, the characters
 * of a text, nothing for an undefined value. An iterator is used up. Not to be changed. Fails otherwise. */
struct list *value_items(struct task *task, struct value value);
bool value_is_iterable(struct value value);
/* `item in value`. */
bool value_contains(struct task *task, struct value value, struct value item);

/* ---- Sorting, stable as Python's (value.c) ------------------------------------------------------------- */

/* The indices of `keys` in ascending order, descending if `reverse`; equal ones stay in their order. Fails if
 * two can't be compared. */
size_t *order_values(struct task *task, const struct value *keys, size_t count, bool reverse);
/* The indices of a dict's pairs by their keys. */
size_t *order_pairs(struct task *task, const struct dict *dict);

/* ---- What methods and filters on texts share (text.c) -------------------------------------------------- */

/* Without the characters of `set` at its sides; NULL: without white space. */
const struct text *text_strip(struct task *task, const struct text *text, const struct text *set, bool left,
                              bool right);
/* With `old` replaced, at most `limit` times; negative: everywhere. */
const struct text *text_replace(struct task *task, const struct text *text, const struct text *old,
                                const struct text *new, int64_t limit);
/* Parts between `separator`, or between white space if it is NULL; at most `limit` cuts, negative: any
 * number. */
struct list *text_split(struct task *task, const struct text *text, const struct text *separator,
                        int64_t limit);
struct list *text_split_right(struct task *task, const struct text *text, const struct text *separator,
                              int64_t limit);
struct list *text_lines(struct task *task, const struct text *text, bool keep);

enum text_change { TEXT_LOWER, TEXT_UPPER, TEXT_CAPITALIZE, TEXT_TITLE, TEXT_SWAP, TEXT_FOLD };
const struct text *text_change(struct task *task, const struct text *text, enum text_change change);

/* In the middle of `width` characters, as str.center does it. */
const struct text *text_center(struct task *task, const struct text *text, int64_t width, uint32_t fill);
/* With a capital at the beginning of each word, as Jinja's filter title sees them: after white space, "-" and
 * opening brackets. */
const struct text *text_title_words(struct task *task, const struct text *text);

/* The same text as HTML (see struct text), or not. */
const struct text *text_as_html(struct task *task, const struct text *text, bool html);
/* As HTML, with its special characters escaped unless it is HTML already. */
const struct text *text_escape(struct task *task, const struct text *text);

/* ---- Values as texts: Python's str(), repr() and json.dumps() (format.c) ------------------------------- */

/* str(): a text as it is, "" for an undefined value. */
const struct text *show_text(struct task *task, struct value value);
void show_into(struct builder *builder, struct value value);
/* repr(). */
void show_quoted(struct builder *builder, struct value value);

/* The shortest digits that give the same number, as Python writes it; returns the length. */
size_t show_float(double x, char text[40]);

struct show_json {
    const struct text *indent; /* NULL: all on one line */
    const struct text *item_separator, *key_separator;
    bool ascii, sorted;
};
void show_json(struct builder *builder, struct value value, const struct show_json *options);

/* '%s' % x. `values`: a tuple, a dict for "%(name)s", or a single value. */
const struct text *format_percent(struct task *task, const struct text *format, struct value values);

#endif
