/* value.c: the task that owns a template's memory (value.h), its limits and the way out; and values, lists
 * and dicts: what they are, how they compare, hash and sort. */
#include "template/value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"

/* ---- Tasks --------------------------------------------------------------------------------------------- */

#define BLOCK_SIZE ((size_t)1 << 16)

struct task_block {
    struct task_block *next;
    max_align_t data[];
};

void task_begin(struct task *task, size_t memory, uint64_t steps)
{
    memset(task, 0, sizeof *task);
    task->memory = memory;
    task->steps = steps;
}

void task_end(struct task *task)
{
    for (struct task_block *block = task->blocks; block;) {
        struct task_block *next = block->next;
        free(block);
        block = next;
    }
    task->blocks = NULL;
    task->next = task->end = NULL;
}

bool task_run(struct task *task, void (*work)(struct task *task, void *user), void *user)
{
    ENGINE_ASSERT(task->depth == 0);
    if (setjmp(task->failed)) return false;
    work(task, user);
    return true;
}

void task_fail(struct task *task, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(task->message, sizeof task->message, format, args);
    va_end(args);
    if (!task->status) task->status = ENGINE_ERROR_DATA;
    longjmp(task->failed, 1);
}

void *task_allocate(struct task *task, size_t size)
{
    size_t unit = _Alignof(max_align_t);
    if (size > task->memory) task_fail(task, "it takes more memory than a template may");
    size = size ? (size + unit - 1) / unit * unit : unit;
    if (size > (size_t)(task->end - task->next)) {
        /* A large piece gets a block of its own, and the newest one stays in use. */
        size_t room = size > BLOCK_SIZE / 4 ? size : BLOCK_SIZE;
        size_t taken = room + sizeof(struct task_block);
        if (taken > task->memory) task_fail(task, "it takes more memory than a template may");
        struct task_block *block = calloc(1, taken);
        if (!block) {
            task->status = ENGINE_ERROR_MEMORY;
            task_fail(task, "out of memory");
        }
        task->memory -= taken;
        block->next = task->blocks;
        task->blocks = block;
        if (room == size) return block->data;
        task->next = (char *)block->data;
        task->end = task->next + room;
    }
    void *memory = task->next;
    task->next += size;
    return memory;
}

void *task_array(struct task *task, size_t count, size_t size)
{
    if (count > task->memory / size) task_fail(task, "it takes more memory than a template may");
    return task_allocate(task, count * size);
}

void *task_grow(struct task *task, void *items, size_t count, size_t *capacity, size_t size)
{
    ENGINE_ASSERT(count <= *capacity);
    if (count < *capacity) return items;
    size_t more = count < 4 ? 4 : count * 2;
    void *grown = task_array(task, more, size);
    if (count) memcpy(grown, items, count * size);
    *capacity = more;
    return grown;
}

void task_charge(struct task *task, uint64_t steps)
{
    if (steps > task->steps) task_fail(task, "it takes more steps than a template may");
    task->steps -= steps;
}

void task_enter(struct task *task)
{
    if (++task->depth > TASK_MAX_DEPTH)
        task_fail(task, "more than %d things within each other", TASK_MAX_DEPTH);
}

void task_leave(struct task *task)
{
    ENGINE_ASSERT(task->depth > 0);
    task->depth--;
}

/* ---- Undefined values ---------------------------------------------------------------------------------- */

static struct value make_undefined(struct task *task, struct undefined reason)
{
    struct undefined *undefined = task_allocate(task, sizeof *undefined);
    *undefined = reason;
    return (struct value){.kind = VALUE_UNDEFINED, .undefined = undefined};
}

struct value value_undefined_name(struct task *task, const struct text *name)
{
    return make_undefined(task, (struct undefined){.name = name});
}

struct value value_undefined_key(struct task *task, struct value of, struct value key)
{
    if (VALUE_IS(key, TEXT)) return make_undefined(task, (struct undefined){.of = of, .name = key.text});
    return make_undefined(task, (struct undefined){.of = of, .key = key});
}

struct value value_undefined_reason(struct task *task, const char *reason)
{
    return make_undefined(task, (struct undefined){.reason = reason});
}

struct value value_undefined_but_called(struct task *task, const char *reason, const struct function *called)
{
    return make_undefined(task, (struct undefined){.reason = reason, .called = called});
}

void value_fail_undefined(struct task *task, struct value value)
{
    const struct undefined *undefined = value.undefined;
    if (undefined->reason) task_fail(task, "%s", undefined->reason);
    if (undefined->of.kind == VALUE_MISSING)
        task_fail(task, "'%.*s' is undefined", TEXT_SHOWN(undefined->name));
    char what[64] = "None";
    if (!VALUE_IS(undefined->of, NONE)) snprintf(what, sizeof what, "%s object", value_type(undefined->of));
    if (undefined->name) task_fail(task, "'%s' has no attribute '%.*s'", what, TEXT_SHOWN(undefined->name));
    if (VALUE_IS(undefined->key, INTEGER))
        task_fail(task, "%s has no element %lld", what, (long long)undefined->key.integer);
    task_fail(task, "%s has no such element", what);
}

void value_need(struct task *task, struct value value)
{
    if (VALUE_IS(value, UNDEFINED)) value_fail_undefined(task, value);
}

/* ---- Lists and dicts ----------------------------------------------------------------------------------- */

struct list *list_create(struct task *task, size_t capacity)
{
    struct list *list = task_allocate(task, sizeof *list);
    list->items = capacity ? task_array(task, capacity, sizeof *list->items) : NULL;
    list->capacity = capacity;
    list->depth = 1;
    return list;
}

static uint32_t depth_of(struct value value)
{
    return value_is_sequence(value) ? value.list->depth : VALUE_IS(value, DICT) ? value.dict->depth : 0;
}

/* Accounts for `value` within something of depth *depth. */
static void deepen(struct task *task, uint32_t *depth, struct value value)
{
    uint32_t inner = depth_of(value);
    if (inner < *depth) return;
    *depth = inner + 1;
    if (*depth > TASK_MAX_DEPTH) task_fail(task, "more than %d lists within each other", TASK_MAX_DEPTH);
}

void list_add(struct task *task, struct list *list, struct value value)
{
    deepen(task, &list->depth, value);
    task_charge(task, TASK_STEP_ITEM);
    list->items = task_grow(task, list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count++] = value;
}

struct list *list_copy(struct task *task, const struct list *list)
{
    struct list *copy = list_create(task, list->count);
    for (size_t i = 0; i < list->count; i++) list_add(task, copy, list->items[i]);
    return copy;
}

struct dict *dict_create(struct task *task)
{
    struct dict *dict = task_allocate(task, sizeof *dict);
    dict->depth = 1;
    return dict;
}

bool value_is_key(struct task *task, struct value value)
{
    switch (value.kind) {
    case VALUE_LIST:
    case VALUE_DICT: return false;
    case VALUE_TUPLE:
        task_charge(task, TASK_STEP_ITEM * value.list->count);
        for (size_t i = 0; i < value.list->count; i++)
            if (!value_is_key(task, value.list->items[i])) return false;
        return true;
    default: return true;
    }
}

static uint64_t mix_hash(uint64_t hash, uint64_t x)
{
    hash = (hash ^ x) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

/* Equal values have equal hashes. */
static uint64_t hash_of(struct task *task, struct value value)
{
    uint64_t hash = 0;
    switch (value.kind) {
    case VALUE_TEXT:
        task_charge(task, 2 * value.text->length);
        hash = value.text->length;
        for (size_t i = 0; i < value.text->length; i++)
            hash = mix_hash(hash, (unsigned char)value.text->bytes[i]);
        return hash;
    case VALUE_BOOLEAN: return mix_hash(1, value.boolean);
    case VALUE_INTEGER: return mix_hash(1, (uint64_t)value.integer);
    case VALUE_FLOAT:
        if (value.number >= -9e18 && value.number <= 9e18 && value.number == floor(value.number))
            return mix_hash(1, (uint64_t)(int64_t)value.number);
        memcpy(&hash, &value.number, sizeof hash);
        return mix_hash(2, hash);
    case VALUE_TUPLE:
        task_charge(task, TASK_STEP_ITEM * value.list->count);
        for (size_t i = 0; i < value.list->count; i++)
            hash = mix_hash(hash, hash_of(task, value.list->items[i]));
        return hash;
    default: return value.kind;
    }
}

/* The slot of a key: of its pair, or the free one that it would get. */
static uint32_t *find_slot(struct task *task, const struct dict *dict, struct value key)
{
    size_t at = hash_of(task, key) & (dict->n_slots - 1);
    for (;; at = (at + 1) & (dict->n_slots - 1)) {
        task_charge(task, TASK_STEP_ITEM);
        uint32_t slot = dict->slots[at];
        if (!slot || value_equals(task, dict->pairs[slot - 1].key, key)) return &dict->slots[at];
    }
}

static struct pair *find_pair(struct task *task, const struct dict *dict, struct value key)
{
    if (dict->slots) {
        uint32_t slot = *find_slot(task, dict, key);
        return slot ? &dict->pairs[slot - 1] : NULL;
    }
    for (size_t i = 0; i < dict->count; i++) {
        const struct value *other = &dict->pairs[i].key;
        bool texts = VALUE_IS(*other, TEXT) && VALUE_IS(key, TEXT);
        if (texts ? text_equals(other->text, key.text) : value_equals(task, *other, key))
            return &dict->pairs[i];
    }
    return NULL;
}

void dict_set(struct task *task, struct dict *dict, struct value key, struct value value)
{
    if (!value_is_key(task, key)) task_fail(task, "unhashable type: '%s'", value_type(key));
    task_charge(task, TASK_STEP_ITEM);
    deepen(task, &dict->depth, value);
    struct pair *found = find_pair(task, dict, key);
    if (found) {
        found->value = value;
        return;
    }
    if (dict->count >= UINT32_MAX / 4) task_fail(task, "it takes more memory than a template may");
    dict->pairs = task_grow(task, dict->pairs, dict->count, &dict->capacity, sizeof *dict->pairs);
    dict->pairs[dict->count++] = (struct pair){key, value};
    if (dict->count <= 8) return;
    if (dict->slots && dict->count * 2 <= dict->n_slots) {
        *find_slot(task, dict, key) = (uint32_t)dict->count;
        return;
    }
    dict->n_slots = dict->slots ? dict->n_slots * 2 : 32;
    dict->slots = task_array(task, dict->n_slots, sizeof *dict->slots);
    for (size_t i = 0; i < dict->count; i++) *find_slot(task, dict, dict->pairs[i].key) = (uint32_t)i + 1;
}

const struct value *dict_find(struct task *task, const struct dict *dict, struct value key)
{
    struct pair *found = find_pair(task, dict, key);
    return found ? &found->value : NULL;
}

const struct value *dict_find_text(struct task *task, const struct dict *dict, const struct text *key)
{
    return dict_find(task, dict, value_text(key));
}

/* ---- Properties ---------------------------------------------------------------------------------------- */

const char *value_type(struct value value)
{
    switch (value.kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED: return "Undefined";
    case VALUE_NONE: return "NoneType";
    case VALUE_BOOLEAN: return "bool";
    case VALUE_INTEGER: return "int";
    case VALUE_FLOAT: return "float";
    case VALUE_TEXT: return "str";
    case VALUE_LIST: return "list";
    case VALUE_TUPLE: return "tuple";
    case VALUE_RANGE: return "range";
    case VALUE_VIEW: return value.list->type;
    case VALUE_ITERATOR: return "generator";
    case VALUE_DICT: return "dict";
    case VALUE_NAMESPACE: return "Namespace";
    case VALUE_FUNCTION: return "function";
    case VALUE_MACRO: return "Macro";
    case VALUE_LOOP: return "LoopContext";
    case VALUE_CYCLER: return "Cycler";
    case VALUE_JOINER: return "Joiner";
    }
    return "";
}

bool value_truth(struct value value)
{
    switch (value.kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE: return false;
    case VALUE_BOOLEAN: return value.boolean;
    case VALUE_INTEGER: return value.integer != 0;
    case VALUE_FLOAT: return value.number != 0;
    case VALUE_TEXT: return value.text->length > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_RANGE:
    case VALUE_VIEW: return value.list->count > 0;
    case VALUE_DICT: return value.dict->count > 0;
    default: return true;
    }
}

bool value_get_integer(struct value value, int64_t *integer)
{
    if (VALUE_IS(value, BOOLEAN)) *integer = value.boolean;
    if (VALUE_IS(value, INTEGER)) *integer = value.integer;
    return VALUE_IS(value, BOOLEAN) || VALUE_IS(value, INTEGER);
}

double value_get_number(struct value value)
{
    int64_t integer = 0;
    return value_get_integer(value, &integer) ? (double)integer : value.number;
}

static int compare_numbers(struct value a, struct value b)
{
    int64_t x, y;
    if (value_get_integer(a, &x) && value_get_integer(b, &y)) return (x > y) - (x < y);
    double u = value_get_number(a), v = value_get_number(b);
    if (isnan(u) || isnan(v)) return 2;
    return (u > v) - (u < v);
}

static bool equal_lists(struct task *task, const struct list *a, const struct list *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!value_equals(task, a->items[i], b->items[i])) return false;
    return true;
}

static bool equal_dicts(struct task *task, const struct dict *a, const struct dict *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct value *other = dict_find(task, b, a->pairs[i].key);
        if (!other || !value_equals(task, a->pairs[i].value, *other)) return false;
    }
    return true;
}

bool value_equals(struct task *task, struct value a, struct value b)
{
    task_charge(task, TASK_STEP_ITEM);
    if (value_is_number(a) && value_is_number(b)) return compare_numbers(a, b) == 0;
    if (a.kind != b.kind) return false;
    bool equal;
    switch (a.kind) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE: return true;
    case VALUE_TEXT:
        if (a.text->length == b.text->length) task_charge(task, a.text->length / 8);
        return text_equals(a.text, b.text);
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_RANGE:
    case VALUE_VIEW:
        if (a.list == b.list) return true;
        task_enter(task);
        equal = equal_lists(task, a.list, b.list);
        task_leave(task);
        return equal;
    case VALUE_DICT:
        if (a.dict == b.dict) return true;
        task_enter(task);
        equal = equal_dicts(task, a.dict, b.dict);
        task_leave(task);
        return equal;
    case VALUE_FUNCTION: return a.function->builtin == b.function->builtin;
    default: return a.list == b.list; /* the same object */
    }
}

bool value_order(struct task *task, struct value a, struct value b, int *order)
{
    task_charge(task, TASK_STEP_ITEM);
    *order = 0;
    if (value_is_number(a) && value_is_number(b)) {
        *order = compare_numbers(a, b);
        return true;
    }
    if (a.kind != b.kind) return false;
    if (VALUE_IS(a, TEXT)) {
        task_charge(task, (a.text->length < b.text->length ? a.text->length : b.text->length) / 8);
        int found = text_compare(a.text, b.text);
        *order = (found > 0) - (found < 0);
        return true;
    }
    if (!VALUE_IS(a, LIST) && !VALUE_IS(a, TUPLE)) return false;
    task_enter(task);
    bool ordered = true;
    size_t i = 0;
    for (; i < a.list->count && i < b.list->count; i++) {
        if (value_equals(task, a.list->items[i], b.list->items[i])) continue;
        ordered = value_order(task, a.list->items[i], b.list->items[i], order);
        break;
    }
    if (i == a.list->count || i == b.list->count)
        *order = (a.list->count > b.list->count) - (a.list->count < b.list->count);
    task_leave(task);
    return ordered;
}

size_t value_length(struct task *task, struct value value)
{
    switch (value.kind) {
    case VALUE_UNDEFINED: return 0;
    case VALUE_TEXT: return text_characters(task, value.text);
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_RANGE:
    case VALUE_VIEW: return value.list->count;
    case VALUE_DICT: return value.dict->count;
    default: task_fail(task, "object of type '%s' has no len()", value_type(value));
    }
}

bool value_is_iterable(struct value value)
{
    return value_is_sequence(value) || VALUE_IS(value, TEXT) || VALUE_IS(value, DICT) ||
           VALUE_IS(value, UNDEFINED) || VALUE_IS(value, LOOP);
}

struct list *value_items(struct task *task, struct value value)
{
    struct list *list;
    const struct text *text;
    switch (value.kind) {
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_RANGE:
    case VALUE_VIEW: return value.list;
    case VALUE_ITERATOR:
        list = list_create(task, 0);
        list->items = value.list->count ? value.list->items + value.list->next : NULL;
        list->count = list->capacity = value.list->count - value.list->next;
        list->depth = value.list->depth;
        value.list->next = value.list->count;
        return list;
    case VALUE_UNDEFINED: return list_create(task, 0);
    case VALUE_DICT:
        list = list_create(task, value.dict->count);
        for (size_t i = 0; i < value.dict->count; i++) list_add(task, list, value.dict->pairs[i].key);
        return list;
    case VALUE_TEXT:
        list = list_create(task, 0);
        text = text_as_html(task, value.text, false);
        for (size_t at = 0; at < text->length;) {
            size_t length = utf8_length((unsigned char)text->bytes[at]);
            list_add(task, list, value_text(text_part(task, text, at, at + length)));
            at += length;
        }
        return list;
    default: task_fail(task, "'%s' object is not iterable", value_type(value));
    }
}

bool value_contains(struct task *task, struct value value, struct value item)
{
    if (VALUE_IS(value, TEXT)) {
        if (!VALUE_IS(item, TEXT))
            task_fail(task, "'in <string>' requires string as left operand, not %s", value_type(item));
        return text_find(task, value.text, item.text, 0) != SIZE_MAX;
    }
    if (VALUE_IS(value, DICT)) {
        if (!value_is_key(task, item)) task_fail(task, "unhashable type: '%s'", value_type(item));
        return dict_find(task, value.dict, item) != NULL;
    }
    if (!value_is_iterable(value))
        task_fail(task, "argument of type '%s' is not iterable", value_type(value));
    const struct list *list = value_items(task, value);
    for (size_t i = 0; i < list->count; i++)
        if (value_equals(task, list->items[i], item)) return true;
    return false;
}

/* ---- Sorting ------------------------------------------------------------------------------------------- */

/* Whether b has to go before a, which is before it now. */
static bool is_before(struct task *task, struct value b, struct value a, bool reverse)
{
    int order;
    if (!value_order(task, b, a, &order)) {
        value_need(task, b);
        value_need(task, a);
        task_fail(task, "'<' not supported between instances of '%s' and '%s'", value_type(b), value_type(a));
    }
    return reverse ? order == 1 : order < 0;
}

/* A merge sort, bottom up. */
size_t *order_values(struct task *task, const struct value *keys, size_t count, bool reverse)
{
    size_t *order = task_array(task, count + 1, sizeof *order),
           *other = task_array(task, count + 1, sizeof *other);
    for (size_t i = 0; i < count; i++) order[i] = i;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t from = 0; from < count; from += 2 * width) {
            size_t middle = from + width < count ? from + width : count;
            size_t to = middle + width < count ? middle + width : count;
            size_t a = from, b = middle;
            for (size_t at = from; at < to; at++) {
                bool second =
                    a == middle || (b < to && is_before(task, keys[order[b]], keys[order[a]], reverse));
                other[at] = second ? order[b++] : order[a++];
            }
        }
        size_t *sorted = other;
        other = order;
        order = sorted;
    }
    return order;
}

size_t *order_pairs(struct task *task, const struct dict *dict)
{
    struct value *keys = task_array(task, dict->count + 1, sizeof *keys);
    for (size_t i = 0; i < dict->count; i++) keys[i] = dict->pairs[i].key;
    return order_values(task, keys, dict->count, false);
}
