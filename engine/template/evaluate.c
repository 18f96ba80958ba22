/* evaluate.c: expressions. See machine.h. */
#include "template/builtin.h"
#include "template/machine.h"
#include "template/show.h"
#include "template/texts.h"

static struct value read_variable(struct machine *machine, const struct node *node)
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

static struct value read_items(struct machine *machine, const struct node *node, enum value_kind kind)
{
    struct list *list = list_create(&machine->task, node->items.count);
    for (size_t i = 0; i < node->items.count; i++)
        list_add(&machine->task, list, evaluate(machine, node->items.items[i]));
    return value_list(kind, list);
}

static struct value read_dict(struct machine *machine, const struct node *node)
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

static struct value compare(struct machine *machine, const struct node *node)
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

static struct value join(struct machine *machine, const struct node *node)
{
    const struct text *text = text_constant(&machine->task, "");
    for (size_t i = 0; i < node->items.count; i++)
        text = text_join(&machine->task, text,
                         show_text(&machine->task, evaluate(machine, node->items.items[i])));
    return value_text(texts_as_html(&machine->task, text, false));
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

static struct value test(struct machine *machine, const struct node *node)
{
    struct value value = evaluate(machine, node->a);
    struct arguments arguments = call_arguments(machine, node->call);
    machine->task.line = node->line;
    return value_boolean(builtin_test(machine, node->text, value, &arguments));
}

static struct value sign(struct machine *machine, const struct node *node, bool negative)
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

static struct value choose(struct machine *machine, const struct node *node)
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
    case NODE_NAME: return read_variable(machine, node);
    case NODE_TUPLE: return read_items(machine, node, VALUE_TUPLE);
    case NODE_LIST: return read_items(machine, node, VALUE_LIST);
    case NODE_DICT: return read_dict(machine, node);
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
    case NODE_TEST: return test(machine, node);
    case NODE_CONDITION: return choose(machine, node);
    case NODE_AND: a = evaluate(machine, node->a); return value_truth(a) ? evaluate(machine, node->b) : a;
    case NODE_OR: a = evaluate(machine, node->a); return value_truth(a) ? a : evaluate(machine, node->b);
    case NODE_NOT: return value_boolean(!value_truth(evaluate(machine, node->a)));
    case NODE_COMPARE: return compare(machine, node);
    case NODE_BINARY:
        a = evaluate(machine, node->a);
        b = evaluate(machine, node->b);
        machine->task.line = node->line;
        return operate(machine, node->op, a, b);
    case NODE_JOIN: return join(machine, node);
    case NODE_NEGATIVE: return sign(machine, node, true);
    case NODE_POSITIVE: return sign(machine, node, false);
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
