/* tests.c: `value is NAME`. See builtin.h. */
#include <math.h>

#include "template/builtin.h"
#include "template/characters.h"
#include "template/show.h"

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
