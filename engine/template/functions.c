/* functions.c: what templates can call, ask and find by name, apart from filters and the methods of texts
 * (machine.h): Jinja's and transformers' functions, `value is NAME`, and the methods of lists, dicts, loops
 * and cyclers. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "template/machine.h"

#define MAX_RANGE 100000 /* as in Jinja's sandbox */

const struct builtin *builtin_find(const struct builtin *table, const struct text *name)
{
    for (; table->name; table++)
        if (text_is(name, table->name)) return table;
    return NULL;
}

struct value builtin_bind(struct machine *machine, const struct builtin *builtin, struct value self)
{
    struct function *function = task_allocate(&machine->task, sizeof *function);
    *function = (struct function){builtin, self};
    return (struct value){.kind = VALUE_FUNCTION, .function = function};
}

int64_t argument_integer(struct machine *machine, struct value value, int64_t fallback)
{
    int64_t integer;
    if (VALUE_IS(value, MISSING)) return fallback;
    value_need(&machine->task, value);
    if (!value_get_integer(value, &integer))
        task_fail(&machine->task, "'%s' object cannot be interpreted as an integer", value_type(value));
    return integer;
}

const struct text *argument_text(struct machine *machine, struct value value, const char *fallback)
{
    if (VALUE_IS(value, MISSING)) return text_constant(&machine->task, fallback);
    value_need(&machine->task, value);
    if (!VALUE_IS(value, TEXT)) task_fail(&machine->task, "a string is needed, not %s", value_type(value));
    return value.text;
}

bool argument_truth(struct value value, bool fallback)
{
    return VALUE_IS(value, MISSING) ? fallback : value_truth(value);
}

/* ---- Functions ----------------------------------------------------------------------------------------- */

static struct value make_range(struct machine *machine, struct value self, const struct arguments *arguments)
{
    static const char *const names[] = {"start", "stop", "step", NULL};
    struct task *task = &machine->task;
    struct value values[3];
    (void)self;
    call_match(machine, "range", arguments, names, 1, values);
    int64_t from = argument_integer(machine, values[0], 0), to = argument_integer(machine, values[1], 0);
    int64_t step = argument_integer(machine, values[2], 1), distance;
    if (VALUE_IS(values[1], MISSING)) {
        to = from;
        from = 0;
    }
    if (step == 0) task_fail(task, "range() arg 3 must not be zero");
    if (__builtin_sub_overflow(to, from, &distance) || step == INT64_MIN) task_fail(task, "range too big");
    int64_t count = step > 0 ? (distance > 0 ? (distance - 1) / step + 1 : 0)
                             : (distance < 0 ? -((distance + 1) / -step) + 1 : 0);
    if (count > MAX_RANGE)
        task_fail(task, "range too big: the sandbox blocks ranges larger than %d", MAX_RANGE);
    struct list *list = list_create(task, (size_t)count);
    list->range = (struct range){from, to, step};
    for (int64_t i = 0; i < count; i++) list_add(task, list, value_integer(from + i * step));
    return value_list(VALUE_RANGE, list);
}

/* The pairs of a dict, or of a sequence of pairs, and the named arguments. */
static struct dict *collect_pairs(struct machine *machine, const char *what,
                                  const struct arguments *arguments)
{
    struct task *task = &machine->task;
    struct dict *dict = dict_create(task);
    if (arguments->count > 1)
        task_fail(task, "%s expected at most 1 argument, got %zu", what, arguments->count);
    if (arguments->count && VALUE_IS(arguments->items[0], DICT)) {
        const struct dict *other = arguments->items[0].dict;
        for (size_t i = 0; i < other->count; i++)
            dict_set(task, dict, other->pairs[i].key, other->pairs[i].value);
    } else if (arguments->count) {
        const struct list *pairs = value_items(task, arguments->items[0]);
        for (size_t i = 0; i < pairs->count; i++) {
            const struct list *pair = value_items(task, pairs->items[i]);
            if (pair->count != 2)
                task_fail(task, "dictionary update sequence element #%zu has length %zu; 2 is required", i,
                          pair->count);
            dict_set(task, dict, pair->items[0], pair->items[1]);
        }
    }
    for (size_t i = 0; i < arguments->n_named; i++)
        dict_set(task, dict, value_text(arguments->named[i].name), arguments->named[i].value);
    return dict;
}

static struct value make_namespace(struct machine *machine, struct value self,
                                   const struct arguments *arguments)
{
    (void)self;
    return (struct value){.kind = VALUE_NAMESPACE, .dict = collect_pairs(machine, "namespace", arguments)};
}

static struct value make_dict(struct machine *machine, struct value self, const struct arguments *arguments)
{
    (void)self;
    return value_dict(collect_pairs(machine, "dict", arguments));
}

static struct value make_cycler(struct machine *machine, struct value self, const struct arguments *arguments)
{
    (void)self;
    if (!arguments->count) task_fail(&machine->task, "at least one item has to be provided");
    struct cycler *cycler = task_allocate(&machine->task, sizeof *cycler);
    cycler->items = list_create(&machine->task, arguments->count);
    for (size_t i = 0; i < arguments->count; i++)
        list_add(&machine->task, cycler->items, arguments->items[i]);
    return (struct value){.kind = VALUE_CYCLER, .cycler = cycler};
}

static struct value make_joiner(struct machine *machine, struct value self, const struct arguments *arguments)
{
    static const char *const names[] = {"sep", NULL};
    struct value values[1];
    (void)self;
    call_match(machine, "joiner", arguments, names, 0, values);
    struct joiner *joiner = task_allocate(&machine->task, sizeof *joiner);
    joiner->separator = argument_text(machine, values[0], ", ");
    return (struct value){.kind = VALUE_JOINER, .joiner = joiner};
}

static struct value raise_exception(struct machine *machine, struct value self,
                                    const struct arguments *arguments)
{
    static const char *const names[] = {"message", NULL};
    struct value values[1];
    (void)self;
    call_match(machine, "raise_exception", arguments, names, 1, values);
    const struct text *text = show_text(&machine->task, values[0]);
    task_fail(&machine->task, "%.*s", (int)(text->length < 800 ? text->length : 800), text->bytes);
}

static struct value strftime_now(struct machine *machine, struct value self,
                                 const struct arguments *arguments)
{
    static const char *const names[] = {"format", NULL};
    struct task *task = &machine->task;
    struct value values[1];
    (void)self;
    call_match(machine, "strftime_now", arguments, names, 1, values);
    const struct text *format = argument_text(machine, values[0], "");
    time_t now = (time_t)machine->now;
    struct tm parts;
    if (!localtime_r(&now, &parts)) task_fail(task, "the time can't be written");
    struct builder *builder = builder_create(task);
    for (size_t at = 0; at < format->length;) {
        if (format->bytes[at] != '%' || at + 1 == format->length) {
            size_t length = utf8_length((unsigned char)format->bytes[at]);
            builder_part(builder, format, at, at + length);
            at += length;
            continue;
        }
        /* One conversion at a time, because strftime's result has a limited size; "%-d" has three
         * characters. */
        char code[8] = "%", written[256];
        size_t length = 1;
        if (strchr("-_0^#E", format->bytes[at + 1]) && format->bytes[at + 1] && at + 2 < format->length)
            code[length++] = format->bytes[at + 1];
        char kind = format->bytes[at + length];
        code[length++] = kind;
        /* Local time without a zone, as datetime.now() gives it. */
        if (kind == 'f')
            builder_string(builder, "000000");
        else if (kind != 'z' && kind != 'Z' && kind && (unsigned char)kind < 0x80)
            builder_bytes(builder, written, strftime(written, sizeof written, code, &parts), false);
        at += length;
        while (at < format->length && ((unsigned char)format->bytes[at] & 0xC0) == 0x80) at++;
    }
    return value_text(builder_finish(builder));
}

struct value builtin_function(struct machine *machine, const struct text *name)
{
    static const struct builtin functions[] = {
        {"range", make_range},
        {"namespace", make_namespace},
        {"dict", make_dict},
        {"cycler", make_cycler},
        {"joiner", make_joiner},
        {"raise_exception", raise_exception},
        {"strftime_now", strftime_now},
        {NULL, NULL},
    };
    /* The template's blocks, of which there are none. */
    if (text_is(name, "self"))
        return (struct value){.kind = VALUE_NAMESPACE, .dict = dict_create(&machine->task)};
    const struct builtin *found = builtin_find(functions, name);
    return found ? builtin_bind(machine, found, value_none()) : (struct value){.kind = VALUE_MISSING};
}

/* ---- Tests --------------------------------------------------------------------------------------------- */

struct test {
    const char *name;
    int argument; /* how many: 0 or 1 */
    bool (*holds)(struct machine *machine, struct value value, struct value argument);
};

#define TEST(name_, expression)                                                                              \
    static bool name_(struct machine *machine, struct value value, struct value argument)                    \
    {                                                                                                        \
        (void)machine;                                                                                       \
        (void)value;                                                                                         \
        (void)argument;                                                                                      \
        return expression;                                                                                   \
    }

static struct value remainder_by(struct machine *machine, struct value value, struct value by)
{
    return operate(machine, OPERATOR_MODULO, value, by);
}

static bool is_divisible(struct machine *machine, struct value value, struct value by)
{
    return value_equals(&machine->task, remainder_by(machine, value, by), value_integer(0));
}

static bool is_odd(struct machine *machine, struct value value, struct value argument)
{
    (void)argument;
    return value_equals(&machine->task, remainder_by(machine, value, value_integer(2)), value_integer(1));
}

static bool has_case(struct machine *machine, struct value value, bool (*wanted)(uint32_t),
                     bool (*unwanted)(uint32_t))
{
    const struct text *text = show_text(&machine->task, value);
    bool found = false;
    task_charge(&machine->task, TASK_STEP_CHARACTER * text->length);
    for (size_t at = 0, length; at < text->length; at += length) {
        uint32_t c = utf8_read(text->bytes + at, &length);
        if (unwanted(c) || character_is_title(c)) return false;
        found = found || wanted(c);
    }
    return found;
}

/* The same object: as far as values are shared, two are the same if nothing can tell them apart. */
static bool is_same(struct machine *machine, struct value value, struct value other)
{
    if (value.kind != other.kind) return false;
    if (value.kind <= VALUE_TEXT) return value_equals(&machine->task, value, other);
    return value.list == other.list;
}

static bool is_callable(struct value value)
{
    return value.kind == VALUE_FUNCTION || value.kind == VALUE_MACRO || value.kind == VALUE_LOOP ||
           value.kind == VALUE_JOINER || value.kind == VALUE_UNDEFINED;
}

TEST(is_boolean, VALUE_IS(value, BOOLEAN))
TEST(is_callable_value, is_callable(value))
TEST(is_defined, !VALUE_IS(value, UNDEFINED))
TEST(is_equal, operate_compare(machine, OPERATOR_EQUAL, value, argument))
TEST(is_escaped, VALUE_IS(value, TEXT) && value.text->html)
TEST(is_even, is_divisible(machine, value, value_integer(2)))
TEST(is_false, VALUE_IS(value, BOOLEAN) && !value.boolean)
TEST(is_filter, VALUE_IS(value, TEXT) && builtin_has_filter(value.text))
TEST(is_float, VALUE_IS(value, FLOAT))
TEST(is_greater, operate_compare(machine, OPERATOR_GREATER, value, argument))
TEST(is_greater_equal, operate_compare(machine, OPERATOR_GREATER_EQUAL, value, argument))
TEST(is_in, value_contains(&machine->task, argument, value))
TEST(is_integer, VALUE_IS(value, INTEGER))
TEST(is_iterable, value_is_iterable(value))
TEST(is_less, operate_compare(machine, OPERATOR_LESS, value, argument))
TEST(is_less_equal, operate_compare(machine, OPERATOR_LESS_EQUAL, value, argument))
TEST(is_lower, has_case(machine, value, character_is_lower, character_is_upper))
TEST(is_mapping, VALUE_IS(value, DICT))
TEST(is_none, VALUE_IS(value, NONE))
TEST(is_number, value_is_number(value))
TEST(is_sequence,
     VALUE_IS(value, TEXT) || VALUE_IS(value, DICT) || VALUE_IS(value, UNDEFINED) || value_is_indexed(value))
TEST(is_string, VALUE_IS(value, TEXT))
TEST(is_test, VALUE_IS(value, TEXT) && builtin_has_test(value.text))
TEST(is_true, VALUE_IS(value, BOOLEAN) && value.boolean)
TEST(is_undefined, VALUE_IS(value, UNDEFINED))
TEST(is_unequal, operate_compare(machine, OPERATOR_UNEQUAL, value, argument))
TEST(is_upper, has_case(machine, value, character_is_upper, character_is_lower))

static const struct test tests[] = {
    {"boolean", 0, is_boolean},  {"callable", 0, is_callable_value},
    {"defined", 0, is_defined},  {"divisibleby", 1, is_divisible},
    {"eq", 1, is_equal},         {"equalto", 1, is_equal},
    {"==", 1, is_equal},         {"escaped", 0, is_escaped},
    {"even", 0, is_even},        {"false", 0, is_false},
    {"filter", 0, is_filter},    {"float", 0, is_float},
    {"ge", 1, is_greater_equal}, {">=", 1, is_greater_equal},
    {"gt", 1, is_greater},       {"greaterthan", 1, is_greater},
    {">", 1, is_greater},        {"in", 1, is_in},
    {"integer", 0, is_integer},  {"iterable", 0, is_iterable},
    {"le", 1, is_less_equal},    {"<=", 1, is_less_equal},
    {"lt", 1, is_less},          {"lessthan", 1, is_less},
    {"<", 1, is_less},           {"lower", 0, is_lower},
    {"mapping", 0, is_mapping},  {"ne", 1, is_unequal},
    {"!=", 1, is_unequal},       {"none", 0, is_none},
    {"number", 0, is_number},    {"odd", 0, is_odd},
    {"sameas", 1, is_same},      {"sequence", 0, is_sequence},
    {"string", 0, is_string},    {"test", 0, is_test},
    {"true", 0, is_true},        {"undefined", 0, is_undefined},
    {"upper", 0, is_upper},      {NULL, 0, NULL},
};

static const struct test *find_test(const struct text *name)
{
    for (const struct test *test = tests; test->name; test++)
        if (text_is(name, test->name)) return test;
    return NULL;
}

bool builtin_has_test(const struct text *name)
{
    return find_test(name) != NULL;
}

bool builtin_test(struct machine *machine, const struct text *name, struct value value,
                  const struct arguments *arguments)
{
    static const char *const names[][2] = {{NULL}, {"value", NULL}};
    const struct test *test = find_test(name);
    if (!test) task_fail(&machine->task, "No test named '%.*s'.", TEXT_SHOWN(name));
    struct value argument = {.kind = VALUE_MISSING};
    call_match(machine, test->name, arguments, names[test->argument], (size_t)test->argument, &argument);
    return test->holds(machine, value, argument);
}

/* ---- Methods of dicts ---------------------------------------------------------------------------------- */

BUILTIN(dict_get)
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

BUILTIN(dict_items)
{
    call_match_none(machine, "items", arguments);
    struct list *list = list_create(&machine->task, self.dict->count);
    list->type = "dict_items";
    for (size_t i = 0; i < self.dict->count; i++)
        list_add(&machine->task, list, pair_of(machine, &self.dict->pairs[i]));
    return value_list(VALUE_VIEW, list);
}

BUILTIN(dict_keys)
{
    call_match_none(machine, "keys", arguments);
    struct list *list = list_create(&machine->task, self.dict->count);
    list->type = "dict_keys";
    for (size_t i = 0; i < self.dict->count; i++) list_add(&machine->task, list, self.dict->pairs[i].key);
    return value_list(VALUE_VIEW, list);
}

BUILTIN(dict_values)
{
    call_match_none(machine, "values", arguments);
    struct list *list = list_create(&machine->task, self.dict->count);
    list->type = "dict_values";
    for (size_t i = 0; i < self.dict->count; i++) list_add(&machine->task, list, self.dict->pairs[i].value);
    return value_list(VALUE_VIEW, list);
}

/* Dicts don't change, so that a copy needs no copying. */
BUILTIN(dict_copy)
{
    call_match_none(machine, "copy", arguments);
    return self;
}

/* ---- Methods of lists ---------------------------------------------------------------------------------- */

BUILTIN(list_index)
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

BUILTIN(list_count)
{
    static const char *const names[] = {"value", NULL};
    struct value values[1];
    int64_t count = 0;
    call_match(machine, "count", arguments, names, 1, values);
    for (size_t i = 0; i < self.list->count; i++)
        count += value_equals(&machine->task, self.list->items[i], values[0]);
    return value_integer(count);
}

BUILTIN(list_copied)
{
    call_match_none(machine, "copy", arguments);
    return value_list(VALUE_LIST, list_copy(&machine->task, self.list));
}

BUILTIN(list_append)
{
    static const char *const names[] = {"object", NULL};
    struct value values[1];
    call_match(machine, "append", arguments, names, 1, values);
    list_add(&machine->task, self.list, values[0]);
    return value_none();
}

BUILTIN(list_pop)
{
    static const char *const names[] = {"index", NULL};
    struct value values[1];
    struct list *list = self.list;
    call_match(machine, "pop", arguments, names, 0, values);
    int64_t at = argument_integer(machine, values[0], -1), count = (int64_t)list->count;
    if (count == 0) task_fail(&machine->task, "pop from empty list");
    if (at < 0) at += count;
    if (at < 0 || at >= count) task_fail(&machine->task, "pop index out of range");
    struct value value = list->items[at];
    task_charge(&machine->task, (uint64_t)(count - at) * TASK_STEP_ITEM);
    memmove(list->items + at, list->items + at + 1, (size_t)(count - at - 1) * sizeof *list->items);
    list->count--;
    return value;
}

/* ---- Methods of loops and cyclers ---------------------------------------------------------------------- */

BUILTIN(loop_cycle)
{
    if (!arguments->count || arguments->n_named) task_fail(&machine->task, "no items for cycling given");
    return arguments->items[self.loop->at % arguments->count];
}

BUILTIN(loop_changed)
{
    struct task *task = &machine->task;
    struct list *list = list_create(task, arguments->count);
    for (size_t i = 0; i < arguments->count; i++) list_add(task, list, arguments->items[i]);
    struct value now = value_list(VALUE_TUPLE, list);
    bool changed = VALUE_IS(self.loop->changed, MISSING) || !value_equals(task, self.loop->changed, now);
    self.loop->changed = now;
    return value_boolean(changed);
}

BUILTIN(cycler_next)
{
    call_match_none(machine, "next", arguments);
    struct value value = self.cycler->items->items[self.cycler->at];
    self.cycler->at = (self.cycler->at + 1) % self.cycler->items->count;
    return value;
}

BUILTIN(cycler_reset)
{
    call_match_none(machine, "reset", arguments);
    self.cycler->at = 0;
    return value_none();
}

/* ---- The search for methods ---------------------------------------------------------------------------- */

static const struct builtin dict_methods[] = {
    {"get", dict_get},       {"items", dict_items}, {"keys", dict_keys},
    {"values", dict_values}, {"copy", dict_copy},   {NULL, NULL},
};
static const struct builtin list_methods[] = {
    {"index", list_index},
    {"count", list_count},
    {"copy", list_copied},
    {NULL, NULL},
};
static const struct builtin tuple_methods[] = {{"index", list_index}, {"count", list_count}, {NULL, NULL}};
static const struct builtin loop_methods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}, {NULL, NULL}};
static const struct builtin cycler_methods[] = {{"next", cycler_next}, {"reset", cycler_reset}, {NULL, NULL}};
static const struct builtin no_methods[] = {{NULL, NULL}};

/* Not in transformers, but in llama.cpp, for which some templates are written. */
static const struct builtin list_changes[] = {{"append", list_append}, {"pop", list_pop}, {NULL, NULL}};

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
    const struct builtin *change = VALUE_IS(value, LIST) ? builtin_find(list_changes, name) : NULL;
    return value_undefined_but_called(&machine->task, reason,
                                      change ? builtin_bind(machine, change, value).function : NULL);
}
