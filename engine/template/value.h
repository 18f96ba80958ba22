/* value.h: what a template computes with: Python's types, as far as templates use them.
 *
 * Values are small and copied; what they point to belongs to the task and doesn't change, except namespaces and
 * what remembers its position (iterators, cyclers). */
#ifndef ENGINE_TEMPLATE_VALUE_H
#define ENGINE_TEMPLATE_VALUE_H

#include "template/task.h"
#include "template/text.h"

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
    uint32_t depth;     /* of lists and dicts within each other */
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
/* Fails with the reason, as Jinja gives it. */
_Noreturn void value_fail_undefined(struct task *task, struct value undefined);
/* Fails if it is undefined. */
void value_need(struct task *task, struct value value);

struct list *list_create(struct task *task, size_t capacity);
void list_add(struct task *task, struct list *list, struct value value);
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
/* All items of what can be iterated over, as a list: the items themselves, the keys of a dict, the characters of
 * a text, nothing for an undefined value. An iterator is used up. Not to be changed. Fails otherwise. */
struct list *value_items(struct task *task, struct value value);
bool value_is_iterable(struct value value);
/* `item in value`. */
bool value_contains(struct task *task, struct value value, struct value item);

#endif
