/* evaluate.c: expressions: variables, attributes and items, arithmetic, comparisons and slices, as in Python
 * (machine.h). */
#include <math.h>
#include <string.h>

#include "common/assert.h"
#include "template/machine.h"

static struct value evaluate_variable(struct machine *machine, const struct node *node)
{
    uint64_t steps = 0;
    for (const struct scope *scope = machine->scope; scope; scope = scope->parent) {
        for (size_t i = 0; i < scope->count; i++) {
            if (scope->bindings[i].symbol != node->symbol) continue;
            task_charge(&machine->task, steps + i);
            return scope->bindings[i].value;
        }
        steps += scope->count + 1;
    }
    task_charge(&machine->task, steps);
    struct value function = builtin_function(machine, node->text);
    return VALUE_IS(function, MISSING) ? value_undefined_name(&machine->task, node->text) : function;
}

static struct value evaluate_items(struct machine *machine, const struct node *node, enum value_kind kind)
{
    struct list *list = list_create(&machine->task, node->items.count);
    for (size_t i = 0; i < node->items.count; i++)
        list_add(&machine->task, list, evaluate(machine, node->items.items[i]));
    return value_list(kind, list);
}

static struct value evaluate_dict(struct machine *machine, const struct node *node)
{
    struct dict *dict = dict_create(&machine->task);
    for (size_t i = 0; i < node->items.count; i += 2) {
        struct value key = evaluate(machine, node->items.items[i]);
        dict_set(&machine->task, dict, key, evaluate(machine, node->items.items[i + 1]));
    }
    return value_dict(dict);
}

static struct value evaluate_slice(struct machine *machine, const struct node *node)
{
    struct value value = evaluate(machine, node->a), parts[3];
    for (size_t i = 0; i < 3; i++)
        parts[i] = node->items.items[i] ? evaluate(machine, node->items.items[i]) : value_none();
    machine->task.line = node->line;
    return operate_slice(machine, value, parts[0], parts[1], parts[2]);
}

static struct value evaluate_comparison(struct machine *machine, const struct node *node)
{
    struct value left = evaluate(machine, node->items.items[0]);
    for (size_t i = 1; i < node->items.count; i++) {
        struct value right = evaluate(machine, node->items.items[i]);
        machine->task.line = node->line;
        if (!operate_compare(machine, node->operators[i - 1], left, right)) return value_boolean(false);
        left = right;
    }
    return value_boolean(true);
}

static struct value evaluate_join(struct machine *machine, const struct node *node)
{
    const struct text *text = text_constant(&machine->task, "");
    for (size_t i = 0; i < node->items.count; i++)
        text = text_join(&machine->task, text,
                         show_text(&machine->task, evaluate(machine, node->items.items[i])));
    return value_text(text_as_html(&machine->task, text, false));
}

struct value evaluate_filter(struct machine *machine, const struct node *node, struct value value)
{
    task_enter(&machine->task);
    if (node->a && node->a->kind == NODE_FILTER)
        value = evaluate_filter(machine, node->a, value);
    else if (node->a)
        value = evaluate(machine, node->a);
    struct arguments arguments = call_arguments(machine, node->call);
    machine->task.line = node->line;
    task_charge(&machine->task, TASK_STEP_NODE);
    value = builtin_filter(machine, node->text, value, &arguments);
    task_leave(&machine->task);
    return value;
}

static struct value evaluate_test(struct machine *machine, const struct node *node)
{
    struct value value = evaluate(machine, node->a);
    struct arguments arguments = call_arguments(machine, node->call);
    machine->task.line = node->line;
    return value_boolean(builtin_test(machine, node->text, value, &arguments));
}

static struct value evaluate_sign(struct machine *machine, const struct node *node, bool negative)
{
    struct value value = evaluate(machine, node->a);
    int64_t integer;
    machine->task.line = node->line;
    value_need(&machine->task, value);
    if (VALUE_IS(value, FLOAT)) return value_float(negative ? -value.number : value.number);
    if (!value_get_integer(value, &integer))
        task_fail(&machine->task, "bad operand type for unary %c: '%s'", negative ? '-' : '+',
                  value_type(value));
    return negative ? operate(machine, OPERATOR_SUBTRACT, value_integer(0), value_integer(integer))
                    : value_integer(integer);
}

static struct value evaluate_condition(struct machine *machine, const struct node *node)
{
    if (value_truth(evaluate(machine, node->a))) return evaluate(machine, node->b);
    if (node->c) return evaluate(machine, node->c);
    return value_undefined_reason(&machine->task,
                                  "the inline if-expression evaluated to false and no else section "
                                  "was defined");
}

static struct value evaluate_kind(struct machine *machine, const struct node *node)
{
    struct value a, b;
    switch (node->kind) {
    case NODE_CONSTANT: return node->value;
    case NODE_NAME: return evaluate_variable(machine, node);
    case NODE_TUPLE: return evaluate_items(machine, node, VALUE_TUPLE);
    case NODE_LIST: return evaluate_items(machine, node, VALUE_LIST);
    case NODE_DICT: return evaluate_dict(machine, node);
    case NODE_ATTRIBUTE:
        a = evaluate(machine, node->a);
        machine->task.line = node->line;
        return lookup_attribute(machine, a, node->text);
    case NODE_ITEM:
        a = evaluate(machine, node->a);
        b = evaluate(machine, node->b);
        machine->task.line = node->line;
        return lookup_item(machine, a, b);
    case NODE_SLICE: return evaluate_slice(machine, node);
    case NODE_CALL: return call_node(machine, node, NULL);
    case NODE_FILTER: return evaluate_filter(machine, node, value_none());
    case NODE_TEST: return evaluate_test(machine, node);
    case NODE_CONDITION: return evaluate_condition(machine, node);
    case NODE_AND: a = evaluate(machine, node->a); return value_truth(a) ? evaluate(machine, node->b) : a;
    case NODE_OR: a = evaluate(machine, node->a); return value_truth(a) ? a : evaluate(machine, node->b);
    case NODE_NOT: return value_boolean(!value_truth(evaluate(machine, node->a)));
    case NODE_COMPARE: return evaluate_comparison(machine, node);
    case NODE_BINARY:
        a = evaluate(machine, node->a);
        b = evaluate(machine, node->b);
        machine->task.line = node->line;
        return operate(machine, node->op, a, b);
    case NODE_JOIN: return evaluate_join(machine, node);
    case NODE_NEGATIVE: return evaluate_sign(machine, node, true);
    case NODE_POSITIVE: return evaluate_sign(machine, node, false);
    default: task_fail(&machine->task, "not an expression");
    }
}

struct value evaluate(struct machine *machine, const struct node *node)
{
    machine->task.line = node->line;
    task_charge(&machine->task, TASK_STEP_NODE);
    task_enter(&machine->task);
    struct value value = evaluate_kind(machine, node);
    task_leave(&machine->task);
    return value;
}

/* ---- Attributes and items: value.name, value[key], and paths of them ----------------------------------- */

static const struct value missing = {.kind = VALUE_MISSING};

static struct value loop_attribute(struct machine *machine, struct loop *loop, const struct text *name)
{
    int64_t at = (int64_t)loop->at, count = (int64_t)loop->items->count;
    if (text_is(name, "index")) return value_integer(at + 1);
    if (text_is(name, "index0")) return value_integer(at);
    if (text_is(name, "revindex")) return value_integer(count - at);
    if (text_is(name, "revindex0")) return value_integer(count - at - 1);
    if (text_is(name, "first")) return value_boolean(at == 0);
    if (text_is(name, "last")) return value_boolean(at + 1 == count);
    if (text_is(name, "length")) return value_integer(count);
    if (text_is(name, "depth")) return value_integer(loop->depth);
    if (text_is(name, "depth0")) return value_integer(loop->depth - 1);
    if (text_is(name, "previtem"))
        return at > 0 ? loop->items->items[at - 1]
                      : value_undefined_reason(&machine->task, "there is no previous item");
    if (text_is(name, "nextitem"))
        return at + 1 < count ? loop->items->items[at + 1]
                              : value_undefined_reason(&machine->task, "there is no next item");
    return missing;
}

static struct value macro_attribute(struct machine *machine, const struct node_macro *macro,
                                    const struct text *name)
{
    if (text_is(name, "name")) return value_text(macro->name);
    if (text_is(name, "caller")) return value_boolean(macro->uses_caller);
    if (text_is(name, "catch_varargs")) return value_boolean(macro->uses_items);
    if (text_is(name, "catch_kwargs")) return value_boolean(macro->uses_named);
    if (!text_is(name, "arguments")) return missing;
    struct list *list = list_create(&machine->task, macro->n_parameters);
    for (size_t i = 0; i < macro->n_parameters; i++)
        list_add(&machine->task, list, value_text(macro->parameters[i].name));
    return value_list(VALUE_TUPLE, list);
}

/* What the object has by that name, without its items; MISSING if there is nothing. */
static struct value find_attribute(struct machine *machine, struct value value, const struct text *name)
{
    struct value found = missing;
    if (VALUE_IS(value, LOOP)) found = loop_attribute(machine, value.loop, name);
    if (VALUE_IS(value, MACRO)) found = macro_attribute(machine, value.macro->node, name);
    if (VALUE_IS(value, CYCLER) && text_is(name, "current"))
        found = value.cycler->items->items[value.cycler->at];
    if (VALUE_IS(value, NAMESPACE)) {
        const struct value *item = dict_find_text(&machine->task, value.dict, name);
        if (item) found = *item;
    }
    return VALUE_IS(found, MISSING) ? builtin_method(machine, value, name) : found;
}

/* An item, or MISSING. */
static struct value find_item(struct machine *machine, struct value value, struct value key)
{
    int64_t index;
    if (VALUE_IS(value, DICT)) {
        const struct value *found =
            value_is_key(&machine->task, key) ? dict_find(&machine->task, value.dict, key) : NULL;
        return found ? *found : missing;
    }
    if ((!value_is_indexed(value) && !VALUE_IS(value, TEXT)) || !value_get_integer(key, &index))
        return missing;
    int64_t count = (int64_t)value_length(&machine->task, value);
    if (index < 0) index += count;
    if (index < 0 || index >= count) return missing;
    if (!VALUE_IS(value, TEXT)) return value.list->items[index];
    size_t at = text_position(&machine->task, value.text, (size_t)index);
    return value_text(
        text_part(&machine->task, value.text, at, at + utf8_length((unsigned char)value.text->bytes[at])));
}

struct value lookup_attribute(struct machine *machine, struct value value, const struct text *name)
{
    value_need(&machine->task, value);
    struct value found = find_attribute(machine, value, name);
    if (VALUE_IS(found, MISSING)) found = find_item(machine, value, value_text(name));
    return VALUE_IS(found, MISSING) ? value_undefined_key(&machine->task, value, value_text(name)) : found;
}

struct value lookup_item(struct machine *machine, struct value value, struct value key)
{
    value_need(&machine->task, value);
    struct value found = find_item(machine, value, key);
    if (VALUE_IS(found, MISSING) && VALUE_IS(key, TEXT)) found = find_attribute(machine, value, key.text);
    return VALUE_IS(found, MISSING) ? value_undefined_key(&machine->task, value, key) : found;
}

struct value lookup_path(struct machine *machine, struct value value, struct value path)
{
    struct task *task = &machine->task;
    if (!VALUE_IS(path, TEXT)) return lookup_item(machine, value, path);
    const struct text *text = path.text;
    for (size_t from = 0; from <= text->length;) {
        const char *dot = memchr(text->bytes + from, '.', text->length - from);
        size_t to = dot ? (size_t)(dot - text->bytes) : text->length;
        const struct text *name = text_part(task, text, from, to);
        int64_t index = 0;
        size_t digits = 0;
        while (digits < name->length && digits < 18 && name->bytes[digits] >= '0' &&
               name->bytes[digits] <= '9')
            index = index * 10 + (name->bytes[digits++] - '0');
        bool is_index = name->length && digits == name->length;
        value = lookup_item(machine, value, is_index ? value_integer(index) : value_text(name));
        from = to + 1;
    }
    return value;
}

static const char *const operator_names[] = {[OPERATOR_ADD] = "+",
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
    task_fail(&machine->task, "unsupported operand type(s) for %s: '%s' and '%s'", operator_names[op],
              value_type(a), value_type(b));
}

static struct value whole_number(struct machine *machine, bool overflows, const int64_t *result)
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
    return whole_number(machine, overflows, &result);
}

static struct value operate_integers(struct machine *machine, enum node_operator op, int64_t a, int64_t b)
{
    int64_t result = 0, rest;
    bool divides = op == OPERATOR_DIVIDE || op == OPERATOR_FLOOR || op == OPERATOR_MODULO;
    if (divides && b == 0)
        task_fail(&machine->task,
                  op == OPERATOR_DIVIDE ? "division by zero" : "integer division or modulo by zero");
    switch (op) {
    case OPERATOR_ADD: return whole_number(machine, __builtin_add_overflow(a, b, &result), &result);
    case OPERATOR_SUBTRACT: return whole_number(machine, __builtin_sub_overflow(a, b, &result), &result);
    case OPERATOR_MULTIPLY: return whole_number(machine, __builtin_mul_overflow(a, b, &result), &result);
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
    ENGINE_ASSERT(VALUE_IS(value, TEXT) || VALUE_IS(value, LIST) || VALUE_IS(value, TUPLE));
    struct task *task = &machine->task;
    size_t times = count > 0 ? (size_t)count : 0;
    if (VALUE_IS(value, TEXT)) {
        struct builder *builder = builder_create(task);
        if (!value.text->length) times = 0;
        for (size_t i = 0; i < times; i++) builder_text(builder, value.text);
        return value_text(text_as_html(task, builder_finish(builder), value.text->html));
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
    return text_as_html(task, text_join(task, text_escape(task, a), text_escape(task, b)), true);
}

static struct value join_lists(struct machine *machine, struct value a, struct value b)
{
    struct list *list = list_create(&machine->task, a.list->count + b.list->count);
    for (size_t i = 0; i < a.list->count; i++) list_add(&machine->task, list, a.list->items[i]);
    for (size_t i = 0; i < b.list->count; i++) list_add(&machine->task, list, b.list->items[i]);
    return value_list(a.kind, list);
}

static bool can_repeat(struct value value)
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
    if (op == OPERATOR_MULTIPLY && can_repeat(a) && value_get_integer(b, &y))
        return operate_repeat(machine, a, y);
    if (op == OPERATOR_MULTIPLY && can_repeat(b) && value_get_integer(a, &x))
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
        task_fail(&machine->task, "'%s' not supported between instances of '%s' and '%s'", operator_names[op],
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
static int64_t slice_bound(struct machine *machine, struct value value, int64_t length, bool backwards,
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
    return value_text(text_as_html(task, builder_finish(builder), text->html));
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
    int64_t from = slice_bound(machine, from_value, length, backwards, backwards ? length - 1 : 0);
    int64_t to = slice_bound(machine, to_value, length, backwards, backwards ? -1 : length);
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
