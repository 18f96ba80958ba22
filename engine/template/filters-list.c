/* filters-list.c: filters on lists and dicts, and the search for filters by name (machine.h). */
#include <string.h>

#include "template/machine.h"

/* ---- Keys to sort and compare by ----------------------------------------------------------------------- */

static struct value ignore_case(struct machine *machine, struct value value)
{
    return VALUE_IS(value, TEXT) ? value_text(text_change(&machine->task, value.text, TEXT_LOWER)) : value;
}

/* item.attribute, or the item if `attribute` is not given. */
static struct value attribute_of(struct machine *machine, struct value item, struct value attribute,
                                 struct value fallback)
{
    if (!argument_is_given(attribute)) return item;
    struct value value = lookup_path(machine, item, attribute);
    return VALUE_IS(value, UNDEFINED) && argument_is_given(fallback) ? fallback : value;
}

/* By which an item is sorted: a list of its attributes "a,b", or of itself. It is a list because its items
 * are then first compared by "==", as in Jinja: None and what is undefined can be sorted. */
static struct value sort_key(struct machine *machine, struct value item, struct value attribute,
                             bool case_sensitive)
{
    struct task *task = &machine->task;
    struct list *names = list_create(task, 1), *keys = list_create(task, 1);
    if (VALUE_IS(attribute, TEXT))
        names = text_split(task, attribute.text, text_constant(task, ","), -1);
    else if (argument_is_given(attribute))
        list_add(task, names, attribute);
    else
        list_add(task, keys, case_sensitive ? item : ignore_case(machine, item));
    for (size_t i = 0; i < names->count; i++) {
        struct value key = lookup_path(machine, item, names->items[i]);
        list_add(task, keys, case_sensitive ? key : ignore_case(machine, key));
    }
    return value_list(VALUE_LIST, keys);
}

static struct list *sort_by(struct machine *machine, const struct list *items, const struct value *keys,
                            bool reverse)
{
    struct list *sorted = list_create(&machine->task, items->count);
    const size_t *order = order_values(&machine->task, keys, items->count, reverse);
    for (size_t i = 0; i < items->count; i++) list_add(&machine->task, sorted, items->items[order[i]]);
    return sorted;
}

static struct value *keys_of(struct machine *machine, const struct list *items, struct value attribute,
                             bool case_sensitive)
{
    const struct value missing = {.kind = VALUE_MISSING};
    struct value *keys = task_array(&machine->task, items->count + 1, sizeof *keys);
    for (size_t i = 0; i < items->count; i++) {
        keys[i] = attribute_of(machine, items->items[i], attribute, missing);
        if (!case_sensitive) keys[i] = ignore_case(machine, keys[i]);
    }
    return keys;
}

/* ---- Order --------------------------------------------------------------------------------------------- */

BUILTIN(filter_sort)
{
    static const char *const names[] = {"reverse", "case_sensitive", "attribute", NULL};
    struct value values[3];
    call_match(machine, "sort", arguments, names, 0, values);
    const struct list *items = value_items(&machine->task, self);
    struct value *keys = task_array(&machine->task, items->count + 1, sizeof *keys);
    for (size_t i = 0; i < items->count; i++)
        keys[i] = sort_key(machine, items->items[i], values[2], argument_truth(values[1], false));
    return value_list(VALUE_LIST, sort_by(machine, items, keys, argument_truth(values[0], false)));
}

BUILTIN(filter_sort_dict)
{
    static const char *const names[] = {"case_sensitive", "by", "reverse", NULL};
    struct task *task = &machine->task;
    struct value values[3];
    call_match(machine, "dictsort", arguments, names, 0, values);
    value_need(task, self);
    if (!VALUE_IS(self, DICT)) task_fail(task, "dictsort: a dict is needed, not %s", value_type(self));
    const struct text *by = argument_text(machine, values[1], "key");
    if (!text_is(by, "key") && !text_is(by, "value"))
        task_fail(task, "You can only sort by either \"key\" or \"value\"");
    struct list *items = list_create(task, self.dict->count);
    struct value *keys = task_array(task, self.dict->count + 1, sizeof *keys);
    for (size_t i = 0; i < self.dict->count; i++) {
        const struct pair *pair = &self.dict->pairs[i];
        struct list *both = list_create(task, 2);
        list_add(task, both, pair->key);
        list_add(task, both, pair->value);
        list_add(task, items, value_list(VALUE_TUPLE, both));
        keys[i] = text_is(by, "key") ? pair->key : pair->value;
        if (!argument_truth(values[0], false)) keys[i] = ignore_case(machine, keys[i]);
    }
    return value_list(VALUE_LIST, sort_by(machine, items, keys, argument_truth(values[2], false)));
}

BUILTIN(filter_reverse)
{
    call_match_none(machine, "reverse", arguments);
    if (VALUE_IS(self, TEXT))
        return operate_slice(machine, self, value_none(), value_none(), value_integer(-1));
    const struct list *items = value_items(&machine->task, self);
    struct list *list = list_create(&machine->task, items->count);
    for (size_t i = items->count; i-- > 0;) list_add(&machine->task, list, items->items[i]);
    return value_list(VALUE_ITERATOR, list);
}

static struct value find_extreme(struct machine *machine, struct value self,
                                 const struct arguments *arguments, bool largest)
{
    static const char *const names[] = {"case_sensitive", "attribute", NULL};
    struct task *task = &machine->task;
    struct value values[2];
    call_match(machine, largest ? "max" : "min", arguments, names, 0, values);
    const struct list *items = value_items(task, self);
    if (!items->count) return value_undefined_reason(task, "No aggregated item, sequence was empty.");
    const struct value *keys = keys_of(machine, items, values[1], argument_truth(values[0], false));
    size_t best = 0;
    for (size_t i = 1; i < items->count; i++)
        if (operate_compare(machine, largest ? OPERATOR_GREATER : OPERATOR_LESS, keys[i], keys[best]))
            best = i;
    return items->items[best];
}

BUILTIN(filter_largest)
{
    return find_extreme(machine, self, arguments, true);
}
BUILTIN(filter_smallest)
{
    return find_extreme(machine, self, arguments, false);
}

/* ---- Selection ----------------------------------------------------------------------------------------- */

/* Any false value has no items here: Jinja tests it before it asks for items. */
static struct list *items_if_true(struct task *task, struct value value)
{
    return value_truth(value) ? value_items(task, value) : list_create(task, 0);
}

/* select, reject, selectattr, rejectattr. */
static struct value select_items(struct machine *machine, struct value self,
                                 const struct arguments *arguments, bool attribute, bool wanted)
{
    struct task *task = &machine->task;
    struct list *list = list_create(task, 0);
    const struct arguments none = {0};
    if (attribute && !arguments->count) task_fail(task, "Missing parameter for attribute name");
    struct arguments rest = *arguments;
    if (attribute) {
        rest.items++;
        rest.count--;
    }
    const struct text *test = rest.count ? argument_text(machine, rest.items[0], "") : NULL;
    if (test) {
        rest.items++;
        rest.count--;
    }
    const struct list *items = items_if_true(task, self);
    for (size_t i = 0; i < items->count; i++) {
        struct value value =
            attribute ? lookup_path(machine, items->items[i], arguments->items[0]) : items->items[i];
        task_charge(task, TASK_STEP_NODE);
        bool holds = test ? builtin_test(machine, test, value, test ? &rest : &none) : value_truth(value);
        if (holds == wanted) list_add(task, list, items->items[i]);
    }
    return value_list(VALUE_ITERATOR, list);
}

BUILTIN(filter_select)
{
    return select_items(machine, self, arguments, false, true);
}
BUILTIN(filter_reject)
{
    return select_items(machine, self, arguments, false, false);
}
BUILTIN(filter_select_attribute)
{
    return select_items(machine, self, arguments, true, true);
}
BUILTIN(filter_reject_attribute)
{
    return select_items(machine, self, arguments, true, false);
}

BUILTIN(filter_map)
{
    static const char *const names[] = {"attribute", "default", NULL};
    struct task *task = &machine->task;
    struct list *list = list_create(task, 0);
    struct value values[2];
    const struct list *items = items_if_true(task, self);
    bool attribute = !arguments->count;
    struct arguments rest = *arguments;
    if (attribute) {
        if (!arguments->n_named) task_fail(task, "map requires a filter argument");
        call_match(machine, "map", arguments, names, 1, values);
    } else {
        rest.items++;
        rest.count--;
    }
    for (size_t i = 0; i < items->count; i++) {
        task_charge(task, TASK_STEP_NODE);
        struct value mapped = attribute
                                  ? attribute_of(machine, items->items[i], values[0], values[1])
                                  : builtin_filter(machine, argument_text(machine, arguments->items[0], ""),
                                                   items->items[i], &rest);
        list_add(task, list, mapped);
    }
    return value_list(VALUE_ITERATOR, list);
}

BUILTIN(filter_unique)
{
    static const char *const names[] = {"case_sensitive", "attribute", NULL};
    struct task *task = &machine->task;
    struct value values[2];
    call_match(machine, "unique", arguments, names, 0, values);
    const struct list *items = value_items(task, self);
    const struct value *keys = keys_of(machine, items, values[1], argument_truth(values[0], false));
    struct list *list = list_create(task, 0);
    struct dict *seen = dict_create(task);
    for (size_t i = 0; i < items->count; i++) {
        size_t before = seen->count;
        dict_set(task, seen, keys[i], value_none());
        if (seen->count > before) list_add(task, list, items->items[i]);
    }
    return value_list(VALUE_ITERATOR, list);
}

BUILTIN(filter_first)
{
    call_match_none(machine, "first", arguments);
    if (VALUE_IS(self, TEXT) && self.text->length) return lookup_item(machine, self, value_integer(0));
    if (VALUE_IS(self, ITERATOR) && self.list->next < self.list->count)
        return self.list->items[self.list->next++];
    const struct list *items = value_items(&machine->task, self);
    if (items->count) return items->items[0];
    return value_undefined_reason(&machine->task, "No first item, sequence was empty.");
}

BUILTIN(filter_last)
{
    call_match_none(machine, "last", arguments);
    if (VALUE_IS(self, TEXT) && self.text->length) return lookup_item(machine, self, value_integer(-1));
    if (VALUE_IS(self, ITERATOR)) task_fail(&machine->task, "'generator' object is not reversible");
    const struct list *items = value_items(&machine->task, self);
    if (items->count) return items->items[items->count - 1];
    return value_undefined_reason(&machine->task, "No last item, sequence was empty.");
}

/* ---- Groups -------------------------------------------------------------------------------------------- */

BUILTIN(filter_batch)
{
    static const char *const names[] = {"linecount", "fill_with", NULL};
    struct task *task = &machine->task;
    struct value values[2];
    call_match(machine, "batch", arguments, names, 1, values);
    int64_t size = argument_integer(machine, values[0], 1);
    const struct list *items = value_items(task, self);
    struct list *list = list_create(task, 0), *line = NULL;
    if (size < 1) task_fail(task, "batch: lines of at least 1 item are needed");
    for (size_t i = 0; i < items->count; i++) {
        if (i % (uint64_t)size == 0) {
            if (line) list_add(task, list, value_list(VALUE_LIST, line));
            line = list_create(task, 0);
        }
        list_add(task, line, items->items[i]);
    }
    while (line && argument_is_given(values[1]) && line->count < (uint64_t)size)
        list_add(task, line, values[1]);
    if (line) list_add(task, list, value_list(VALUE_LIST, line));
    return value_list(VALUE_ITERATOR, list);
}

BUILTIN(filter_slice)
{
    static const char *const names[] = {"slices", "fill_with", NULL};
    struct task *task = &machine->task;
    struct value values[2];
    call_match(machine, "slice", arguments, names, 1, values);
    int64_t slices = argument_integer(machine, values[0], 1);
    const struct list *items = value_items(task, self);
    struct list *list = list_create(task, 0);
    if (slices < 1) task_fail(task, "slice: at least 1 is needed");
    size_t each = items->count / (uint64_t)slices, extra = items->count % (uint64_t)slices, at = 0;
    for (size_t i = 0; i < (uint64_t)slices; i++) {
        struct list *part = list_create(task, each + 1);
        for (size_t n = each + (i < extra); n > 0; n--) list_add(task, part, items->items[at++]);
        if (argument_is_given(values[1]) && i >= extra) list_add(task, part, values[1]);
        list_add(task, list, value_list(VALUE_LIST, part));
    }
    return value_list(VALUE_ITERATOR, list);
}

BUILTIN(filter_group_by)
{
    static const char *const names[] = {"attribute", "default", "case_sensitive", NULL};
    struct task *task = &machine->task;
    struct value values[3];
    call_match(machine, "groupby", arguments, names, 1, values);
    bool case_sensitive = argument_truth(values[2], false);
    const struct list *items = value_items(task, self);
    struct list *groups = list_create(task, 0), *group = NULL;
    struct value *keys = task_array(task, items->count + 1, sizeof *keys), last = value_none();
    for (size_t i = 0; i < items->count; i++) {
        keys[i] = attribute_of(machine, items->items[i], values[0], values[1]);
        if (!case_sensitive) keys[i] = ignore_case(machine, keys[i]);
    }
    const size_t *order = order_values(task, keys, items->count, false);
    for (size_t i = 0; i < items->count; i++) {
        struct value item = items->items[order[i]];
        if (!group || !value_equals(task, last, keys[order[i]])) {
            struct list *pair = list_create(task, 2);
            group = list_create(task, 0);
            last = keys[order[i]];
            list_add(task, pair, attribute_of(machine, item, values[0], values[1]));
            list_add(task, pair, value_list(VALUE_LIST, group));
            /* The group fills up later; its items count for its depth now. */
            pair->depth += TASK_MAX_DEPTH / 4;
            list_add(task, groups, value_list(VALUE_TUPLE, pair));
        }
        if (VALUE_IS(item, DICT) && item.dict->depth > TASK_MAX_DEPTH / 4)
            task_fail(task, "more than %d lists within each other", TASK_MAX_DEPTH / 4);
        list_add(task, group, item);
    }
    return value_list(VALUE_LIST, groups);
}

/* ---- Others -------------------------------------------------------------------------------------------- */

BUILTIN(filter_join)
{
    static const char *const names[] = {"d", "attribute", NULL};
    struct task *task = &machine->task;
    struct value values[2];
    const struct value missing = {.kind = VALUE_MISSING};
    call_match(machine, "join", arguments, names, 0, values);
    const struct text *separator =
        VALUE_IS(values[0], MISSING) ? text_constant(task, "") : show_text(task, values[0]);
    const struct list *items = value_items(task, self);
    struct builder *builder = builder_create(task);
    for (size_t i = 0; i < items->count; i++) {
        if (i) builder_text(builder, separator);
        show_into(builder, attribute_of(machine, items->items[i], values[1], missing));
    }
    return value_text(builder_finish(builder));
}

BUILTIN(filter_list)
{
    call_match_none(machine, "list", arguments);
    return value_list(VALUE_LIST, list_copy(&machine->task, value_items(&machine->task, self)));
}

BUILTIN(filter_length)
{
    call_match_none(machine, "length", arguments);
    return value_integer((int64_t)value_length(&machine->task, self));
}

BUILTIN(filter_items)
{
    call_match_none(machine, "items", arguments);
    if (VALUE_IS(self, UNDEFINED)) return value_list(VALUE_ITERATOR, list_create(&machine->task, 0));
    if (!VALUE_IS(self, DICT)) task_fail(&machine->task, "Can only get item pairs from a mapping.");
    struct value method = builtin_method(machine, self, text_constant(&machine->task, "items"));
    return value_list(VALUE_ITERATOR, call_value(machine, method, arguments).list);
}

BUILTIN(filter_sum)
{
    static const char *const names[] = {"attribute", "start", NULL};
    struct value values[2];
    const struct value missing = {.kind = VALUE_MISSING};
    call_match(machine, "sum", arguments, names, 0, values);
    struct value total = VALUE_IS(values[1], MISSING) ? value_integer(0) : values[1];
    if (VALUE_IS(total, TEXT))
        task_fail(&machine->task, "sum() can't sum strings [use ''.join(seq) instead]");
    const struct list *items = value_items(&machine->task, self);
    for (size_t i = 0; i < items->count; i++)
        total =
            operate(machine, OPERATOR_ADD, total, attribute_of(machine, items->items[i], values[0], missing));
    return total;
}

BUILTIN(filter_fall_back)
{
    static const char *const names[] = {"default_value", "boolean", NULL};
    struct value values[2];
    call_match(machine, "default", arguments, names, 0, values);
    bool use = VALUE_IS(self, UNDEFINED) || (argument_truth(values[1], false) && !value_truth(self));
    if (!use) return self;
    return VALUE_IS(values[0], MISSING) ? value_text(text_constant(&machine->task, "")) : values[0];
}

/* An attribute, never an item. */
BUILTIN(filter_attribute)
{
    static const char *const names[] = {"name", NULL};
    struct value values[1];
    call_match(machine, "attr", arguments, names, 1, values);
    const struct text *name = argument_text(machine, values[0], "");
    value_need(&machine->task, self);
    if (!VALUE_IS(self, DICT)) return lookup_attribute(machine, self, name);
    struct value method = builtin_method(machine, self, name);
    return VALUE_IS(method, MISSING) ? value_undefined_key(&machine->task, self, values[0]) : method;
}

const struct builtin builtin_list_filters[] = {
    {"attr", filter_attribute},
    {"batch", filter_batch},
    {"count", filter_length},
    {"d", filter_fall_back},
    {"default", filter_fall_back},
    {"dictsort", filter_sort_dict},
    {"first", filter_first},
    {"groupby", filter_group_by},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"map", filter_map},
    {"max", filter_largest},
    {"min", filter_smallest},
    {"reject", filter_reject},
    {"rejectattr", filter_reject_attribute},
    {"reverse", filter_reverse},
    {"select", filter_select},
    {"selectattr", filter_select_attribute},
    {"slice", filter_slice},
    {"sort", filter_sort},
    {"sum", filter_sum},
    {"unique", filter_unique},
    {NULL, NULL},
};

/* ---- The search ---------------------------------------------------------------------------------------- */

static const struct builtin *find_filter(const struct text *name)
{
    const struct builtin *found = builtin_find(builtin_text_filters, name);
    return found ? found : builtin_find(builtin_list_filters, name);
}

/* Whether Jinja has a filter that isn't here. */
static bool is_missing(const struct text *name)
{
    static const char *const missing[] = {"pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (text_is(name, missing[i])) return true;
    return false;
}

bool builtin_has_filter(const struct text *name)
{
    return find_filter(name) || is_missing(name);
}

struct value builtin_filter(struct machine *machine, const struct text *name, struct value value,
                            const struct arguments *arguments)
{
    const struct builtin *found = find_filter(name);
    if (!found && is_missing(name))
        task_fail(&machine->task, "the filter '%.*s' is not supported", TEXT_SHOWN(name));
    if (!found) task_fail(&machine->task, "No filter named '%.*s'.", TEXT_SHOWN(name));
    return found->call(machine, value, arguments);
}
