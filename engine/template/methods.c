/* methods.c: the methods of lists, dicts, loops and cyclers. See builtin.h. */
#include "template/builtin.h"

#define METHOD(name_)                                                                                        \
    static struct value name_(struct machine *machine, struct value self, const struct arguments *arguments)

/* ---- Dicts --------------------------------------------------------------------------------------------- */

METHOD(dict_get)
{
    static const char *const names[] = {"key", "default", NULL};
    struct value values[2];
    call_match(machine, "get", arguments, names, 1, values);
    if (!value_is_key(&machine->task, values[0]))
        task_fail(&machine->task, "unhashable type: '%s'", value_type(values[0]));
    const struct value *found = dict_find(&machine->task, self.dict, values[0]);
    return found ? *found : VALUE_IS(values[1], MISSING) ? value_none() : values[1];
}

static struct value pair_of(struct machine *machine, const struct pair *pair)
{
    struct list *list = list_create(&machine->task, 2);
    list_add(&machine->task, list, pair->key);
    list_add(&machine->task, list, pair->value);
    return value_list(VALUE_TUPLE, list);
}

METHOD(dict_items)
{
    call_match_none(machine, "items", arguments);
    struct list *list = list_create(&machine->task, self.dict->count);
    list->type = "dict_items";
    for (size_t i = 0; i < self.dict->count; i++)
        list_add(&machine->task, list, pair_of(machine, &self.dict->pairs[i]));
    return value_list(VALUE_VIEW, list);
}

METHOD(dict_keys)
{
    call_match_none(machine, "keys", arguments);
    struct list *list = list_create(&machine->task, self.dict->count);
    list->type = "dict_keys";
    for (size_t i = 0; i < self.dict->count; i++) list_add(&machine->task, list, self.dict->pairs[i].key);
    return value_list(VALUE_VIEW, list);
}

METHOD(dict_values)
{
    call_match_none(machine, "values", arguments);
    struct list *list = list_create(&machine->task, self.dict->count);
    list->type = "dict_values";
    for (size_t i = 0; i < self.dict->count; i++) list_add(&machine->task, list, self.dict->pairs[i].value);
    return value_list(VALUE_VIEW, list);
}

/* Values don't change, so that a copy needs no copying. */
METHOD(copy)
{
    call_match_none(machine, "copy", arguments);
    return self;
}

/* ---- Lists --------------------------------------------------------------------------------------------- */

METHOD(list_index)
{
    static const char *const names[] = {"value", "start", NULL};
    struct value values[2];
    call_match(machine, "index", arguments, names, 1, values);
    int64_t from = argument_integer(machine, values[1], 0), count = (int64_t)self.list->count;
    if (from < 0) from = from + count < 0 ? 0 : from + count;
    for (int64_t i = from; i < count; i++)
        if (value_equals(&machine->task, self.list->items[i], values[0])) return value_integer(i);
    task_fail(&machine->task, "the value is not in the list");
}

METHOD(list_count)
{
    static const char *const names[] = {"value", NULL};
    struct value values[1];
    int64_t count = 0;
    call_match(machine, "count", arguments, names, 1, values);
    for (size_t i = 0; i < self.list->count; i++)
        count += value_equals(&machine->task, self.list->items[i], values[0]);
    return value_integer(count);
}

/* ---- Loops and cyclers --------------------------------------------------------------------------------- */

METHOD(loop_cycle)
{
    if (!arguments->count || arguments->n_named) task_fail(&machine->task, "no items for cycling given");
    return arguments->items[self.loop->at % arguments->count];
}

METHOD(loop_changed)
{
    struct task *task = &machine->task;
    struct list *list = list_create(task, arguments->count);
    for (size_t i = 0; i < arguments->count; i++) list_add(task, list, arguments->items[i]);
    struct value now = value_list(VALUE_TUPLE, list);
    bool changed = VALUE_IS(self.loop->changed, MISSING) || !value_equals(task, self.loop->changed, now);
    self.loop->changed = now;
    return value_boolean(changed);
}

METHOD(cycler_next)
{
    call_match_none(machine, "next", arguments);
    struct value value = self.cycler->items->items[self.cycler->at];
    self.cycler->at = (self.cycler->at + 1) % self.cycler->items->count;
    return value;
}

METHOD(cycler_reset)
{
    call_match_none(machine, "reset", arguments);
    self.cycler->at = 0;
    return value_none();
}

/* ---- The search ---------------------------------------------------------------------------------------- */

static const struct builtin dict_methods[] = {
    {"get", dict_get},       {"items", dict_items}, {"keys", dict_keys},
    {"values", dict_values}, {"copy", copy},        {NULL, NULL},
};
static const struct builtin list_methods[] = {
    {"index", list_index},
    {"count", list_count},
    {"copy", copy},
    {NULL, NULL},
};
static const struct builtin tuple_methods[] = {{"index", list_index}, {"count", list_count}, {NULL, NULL}};
static const struct builtin loop_methods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}, {NULL, NULL}};
static const struct builtin cycler_methods[] = {{"next", cycler_next}, {"reset", cycler_reset}, {NULL, NULL}};
static const struct builtin no_methods[] = {{NULL, NULL}};

/* Jinja's sandbox keeps templates from changing lists and dicts. */
static bool is_unsafe(enum value_kind kind, const struct text *name)
{
    static const char *const of_lists[] = {"append", "clear", "pop",    "reverse",
                                           "insert", "sort",  "extend", "remove"};
    static const char *const of_dicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
    bool list = kind == VALUE_LIST;
    size_t count = list ? sizeof of_lists / sizeof *of_lists : sizeof of_dicts / sizeof *of_dicts;
    for (size_t i = 0; i < count; i++)
        if (text_is(name, list ? of_lists[i] : of_dicts[i])) return true;
    return false;
}

struct value builtin_method(struct machine *machine, struct value value, const struct text *name)
{
    const struct builtin *table = VALUE_IS(value, TEXT)                              ? builtin_text_methods
                                  : VALUE_IS(value, DICT)                            ? dict_methods
                                  : VALUE_IS(value, LIST)                            ? list_methods
                                  : VALUE_IS(value, TUPLE) || VALUE_IS(value, RANGE) ? tuple_methods
                                  : VALUE_IS(value, LOOP)                            ? loop_methods
                                  : VALUE_IS(value, CYCLER)                          ? cycler_methods
                                                                                     : no_methods;
    const struct builtin *found = builtin_find(table, name);
    if (found) return builtin_bind(machine, found, value);
    bool container = VALUE_IS(value, LIST) || VALUE_IS(value, DICT);
    if (!container || !is_unsafe(value.kind, name)) return (struct value){.kind = VALUE_MISSING};
    char *reason = task_allocate(&machine->task, 128);
    struct builder *builder = builder_create(&machine->task);
    builder_string(builder, "access to attribute '");
    builder_text(builder, name);
    builder_string(builder,
                   VALUE_IS(value, LIST) ? "' of 'list' object is unsafe." : "' of 'dict' object is unsafe.");
    for (size_t i = 0; i < builder->length && i < 127; i++) reason[i] = builder->bytes[i];
    return value_undefined_reason(&machine->task, reason);
}
