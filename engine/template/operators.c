/* operators.c: arithmetic, comparisons and slices, as in Python. See machine.h. */
#include <math.h>

#include "template/characters.h"
#include "template/format.h"
#include "template/machine.h"
#include "template/texts.h"

static const char *const names[] = {[OPERATOR_ADD] = "+",
                                    [OPERATOR_SUBTRACT] = "-",
                                    [OPERATOR_MULTIPLY] = "*",
                                    [OPERATOR_DIVIDE] = "/",
                                    [OPERATOR_FLOOR] = "//",
                                    [OPERATOR_MODULO] = "%",
                                    [OPERATOR_POWER] = "** or pow()",
                                    [OPERATOR_LESS] = "<",
                                    [OPERATOR_LESS_EQUAL] = "<=",
                                    [OPERATOR_GREATER] = ">",
                                    [OPERATOR_GREATER_EQUAL] = ">="};

/* ---- Arithmetic ---------------------------------------------------------------------------------------- */

static _Noreturn void fail_types(struct machine *machine, enum node_operator op, struct value a,
                                 struct value b)
{
    value_need(&machine->task, a);
    value_need(&machine->task, b);
    if (op == OPERATOR_ADD && VALUE_IS(a, TEXT))
        task_fail(&machine->task, "can only concatenate str (not \"%s\") to str", value_type(b));
    if (op == OPERATOR_ADD && VALUE_IS(a, LIST))
        task_fail(&machine->task, "can only concatenate list (not \"%s\") to list", value_type(b));
    task_fail(&machine->task, "unsupported operand type(s) for %s: '%s' and '%s'", names[op], value_type(a),
              value_type(b));
}

static struct value whole(struct machine *machine, bool overflows, const int64_t *result)
{
    if (overflows) task_fail(&machine->task, "an integer is larger than 64 bits");
    return value_integer(*result);
}

static struct value power_of(struct machine *machine, int64_t a, int64_t b)
{
    int64_t result = 1;
    bool overflows = false, squared = false;
    for (; b > 0; b >>= 1) {
        if (b & 1) {
            overflows = overflows || squared || __builtin_mul_overflow(result, a, &result);
        }
        /* Matters only if another factor follows. */
        squared = squared || __builtin_mul_overflow(a, a, &a);
    }
    return whole(machine, overflows, &result);
}

static struct value operate_integers(struct machine *machine, enum node_operator op, int64_t a, int64_t b)
{
    int64_t result = 0, rest;
    bool divides = op == OPERATOR_DIVIDE || op == OPERATOR_FLOOR || op == OPERATOR_MODULO;
    if (divides && b == 0)
        task_fail(&machine->task,
                  op == OPERATOR_DIVIDE ? "division by zero" : "integer division or modulo by zero");
    switch (op) {
    case OPERATOR_ADD: return whole(machine, __builtin_add_overflow(a, b, &result), &result);
    case OPERATOR_SUBTRACT: return whole(machine, __builtin_sub_overflow(a, b, &result), &result);
    case OPERATOR_MULTIPLY: return whole(machine, __builtin_mul_overflow(a, b, &result), &result);
    case OPERATOR_DIVIDE: return value_float((double)a / (double)b);
    case OPERATOR_POWER:
        if (b < 0 && a == 0) task_fail(&machine->task, "0.0 cannot be raised to a negative power");
        if (b < 0) return value_float(pow((double)a, (double)b));
        return power_of(machine, a, b);
    default: break;
    }
    if (b == -1)
        return op == OPERATOR_FLOOR ? operate_integers(machine, OPERATOR_SUBTRACT, 0, a) : value_integer(0);
    rest = a % b;
    bool below = rest != 0 && (rest < 0) != (b < 0); /* Python rounds down */
    return value_integer(op == OPERATOR_FLOOR ? a / b - below : rest + (below ? b : 0));
}

static struct value operate_floats(struct machine *machine, enum node_operator op, double a, double b)
{
    bool divides = op == OPERATOR_DIVIDE || op == OPERATOR_FLOOR || op == OPERATOR_MODULO;
    if (divides && b == 0)
        task_fail(&machine->task,
                  op == OPERATOR_DIVIDE ? "division by zero" : "float floor division by zero");
    double rest;
    switch (op) {
    case OPERATOR_ADD: return value_float(a + b);
    case OPERATOR_SUBTRACT: return value_float(a - b);
    case OPERATOR_MULTIPLY: return value_float(a * b);
    case OPERATOR_DIVIDE: return value_float(a / b);
    case OPERATOR_POWER:
        if (a == 0 && b < 0) task_fail(&machine->task, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b)) task_fail(&machine->task, "complex numbers are not supported");
        rest = pow(a, b);
        if (isinf(rest) && !isinf(a) && !isinf(b)) task_fail(&machine->task, "numerical result out of range");
        return value_float(rest);
    default: break;
    }
    rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
    if (rest == 0) rest = copysign(0.0, b);
    if (op == OPERATOR_MODULO) return value_float(rest);
    double quotient = (a - rest) / b, down = floor(quotient);
    return value_float(quotient - down > 0.5 ? down + 1 : down);
}

struct value operate_repeat(struct machine *machine, struct value value, int64_t count)
{
    struct task *task = &machine->task;
    size_t times = count > 0 ? (size_t)count : 0;
    if (VALUE_IS(value, TEXT)) {
        struct builder *builder = builder_create(task);
        if (!value.text->length) times = 0;
        for (size_t i = 0; i < times; i++) builder_text(builder, value.text);
        return value_text(texts_as_html(task, builder_finish(builder), value.text->html));
    }
    struct list *list = list_create(task, 0);
    if (!value.list->count) times = 0;
    for (size_t i = 0; i < times; i++)
        for (size_t k = 0; k < value.list->count; k++) list_add(task, list, value.list->items[k]);
    return value_list(value.kind, list);
}

/* What is joined with HTML is escaped. */
static const struct text *join_texts(struct task *task, const struct text *a, const struct text *b)
{
    if (!a->html && !b->html) return text_join(task, a, b);
    return texts_as_html(task, text_join(task, texts_escape(task, a), texts_escape(task, b)), true);
}

static struct value join_lists(struct machine *machine, struct value a, struct value b)
{
    struct list *list = list_create(&machine->task, a.list->count + b.list->count);
    for (size_t i = 0; i < a.list->count; i++) list_add(&machine->task, list, a.list->items[i]);
    for (size_t i = 0; i < b.list->count; i++) list_add(&machine->task, list, b.list->items[i]);
    return value_list(a.kind, list);
}

static bool repeats(struct value value)
{
    return VALUE_IS(value, TEXT) || VALUE_IS(value, LIST) || VALUE_IS(value, TUPLE);
}

struct value operate(struct machine *machine, enum node_operator op, struct value a, struct value b)
{
    int64_t x, y;
    if (value_is_number(a) && value_is_number(b)) {
        if (value_get_integer(a, &x) && value_get_integer(b, &y)) return operate_integers(machine, op, x, y);
        return operate_floats(machine, op, value_get_number(a), value_get_number(b));
    }
    if (op == OPERATOR_ADD && a.kind == b.kind) {
        if (VALUE_IS(a, TEXT)) return value_text(join_texts(&machine->task, a.text, b.text));
        if (VALUE_IS(a, LIST) || VALUE_IS(a, TUPLE)) return join_lists(machine, a, b);
    }
    if (op == OPERATOR_MULTIPLY && repeats(a) && value_get_integer(b, &y))
        return operate_repeat(machine, a, y);
    if (op == OPERATOR_MULTIPLY && repeats(b) && value_get_integer(a, &x))
        return operate_repeat(machine, b, x);
    if (op == OPERATOR_MODULO && VALUE_IS(a, TEXT))
        return value_text(format_percent(&machine->task, a.text, b));
    fail_types(machine, op, a, b);
}

bool operate_compare(struct machine *machine, enum node_operator op, struct value a, struct value b)
{
    int order;
    switch (op) {
    case OPERATOR_EQUAL: return value_equals(&machine->task, a, b);
    case OPERATOR_UNEQUAL: return !value_equals(&machine->task, a, b);
    case OPERATOR_IN: return value_contains(&machine->task, b, a);
    case OPERATOR_NOT_IN: return !value_contains(&machine->task, b, a);
    default: break;
    }
    if (!value_order(&machine->task, a, b, &order)) {
        value_need(&machine->task, a);
        value_need(&machine->task, b);
        task_fail(&machine->task, "'%s' not supported between instances of '%s' and '%s'", names[op],
                  value_type(a), value_type(b));
    }
    switch (op) {
    case OPERATOR_LESS: return order < 0;
    case OPERATOR_LESS_EQUAL: return order <= 0;
    case OPERATOR_GREATER: return order == 1;
    default: return order == 0 || order == 1;
    }
}

/* ---- Slices -------------------------------------------------------------------------------------------- */

/* A bound of a slice within -1 … length, with Python's rules. */
static int64_t bound(struct machine *machine, struct value value, int64_t length, bool backwards,
                     int64_t fallback)
{
    int64_t at;
    if (VALUE_IS(value, NONE)) return fallback;
    value_need(&machine->task, value);
    if (!value_get_integer(value, &at))
        task_fail(&machine->task, "slice indices must be integers or None, not %s", value_type(value));
    if (at < 0) at += length;
    if (at < 0) return backwards ? -1 : 0;
    if (at >= length) return backwards ? length - 1 : length;
    return at;
}

static struct value slice_text(struct machine *machine, const struct text *text, int64_t from, int64_t to,
                               int64_t step, int64_t count)
{
    struct task *task = &machine->task;
    if (step == 1) {
        size_t start = text_position(task, text, (size_t)from);
        size_t end = start + text_position(task, text_part(task, text, start, text->length),
                                           (size_t)(to > from ? to - from : 0));
        return value_text(text_part(task, text, start, end));
    }
    const struct list *characters = value_items(task, value_text(text));
    struct builder *builder = builder_create(task);
    for (int64_t i = 0; i < count; i++) builder_text(builder, characters->items[from + i * step].text);
    return value_text(texts_as_html(task, builder_finish(builder), text->html));
}

struct value operate_slice(struct machine *machine, struct value value, struct value from_value,
                           struct value to_value, struct value step_value)
{
    struct task *task = &machine->task;
    int64_t step = 1;
    value_need(task, value);
    if (VALUE_IS(value, DICT)) task_fail(task, "unhashable type: 'slice'");
    if (!VALUE_IS(value, TEXT) && !value_is_indexed(value))
        task_fail(task, "'%s' object is not subscriptable", value_type(value));
    if (!VALUE_IS(step_value, NONE) && !value_get_integer(step_value, &step))
        task_fail(task, "slice indices must be integers or None, not %s", value_type(step_value));
    if (step == 0) task_fail(task, "slice step cannot be zero");
    if (step < -INT32_MAX) step = -INT32_MAX;
    if (step > INT32_MAX) step = INT32_MAX;
    int64_t length = (int64_t)value_length(task, value);
    bool backwards = step < 0;
    int64_t from = bound(machine, from_value, length, backwards, backwards ? length - 1 : 0);
    int64_t to = bound(machine, to_value, length, backwards, backwards ? -1 : length);
    int64_t count = backwards   ? (from > to ? (from - to - 1) / -step + 1 : 0)
                    : from < to ? (to - from - 1) / step + 1
                                : 0;
    if (VALUE_IS(value, TEXT)) return slice_text(machine, value.text, from, to, step, count);
    struct list *list = list_create(task, (size_t)count);
    for (int64_t i = 0; i < count; i++) list_add(task, list, value.list->items[from + i * step]);
    /* Of a range; the numbers may be past all that it has, and then wrap. */
    uint64_t each = (uint64_t)value.list->range.step, base = (uint64_t)value.list->range.from;
    list->range = (struct range){.from = (int64_t)(base + (uint64_t)from * each),
                                 .to = (int64_t)(base + (uint64_t)to * each),
                                 .step = (int64_t)(each * (uint64_t)step)};
    return value_list(value.kind, list);
}
