/* execute.c: statements. See machine.h. */
#include "template/machine.h"
#include "template/show.h"

struct scope *scope_create(struct machine *machine, struct scope *parent)
{
    struct scope *scope = task_allocate(&machine->task, sizeof *scope);
    scope->parent = parent;
    return scope;
}

void scope_set(struct machine *machine, uint32_t symbol, struct value value)
{
    struct scope *scope = machine->scope;
    task_charge(&machine->task, scope->count + 1);
    for (size_t i = 0; i < scope->count; i++) {
        if (scope->bindings[i].symbol != symbol) continue;
        scope->bindings[i].value = value;
        return;
    }
    scope->bindings =
        task_grow(&machine->task, scope->bindings, scope->count, &scope->capacity, sizeof *scope->bindings);
    scope->bindings[scope->count++] = (struct binding){symbol, value};
}

const struct text *execute_captured(struct machine *machine, const struct node_list *body,
                                    struct scope *parent)
{
    struct scope *scope = machine->scope;
    struct builder *out = machine->out;
    machine->scope = scope_create(machine, parent);
    machine->out = builder_create(&machine->task);
    execute(machine, body);
    const struct text *text = builder_finish(machine->out);
    machine->out = out;
    machine->scope = scope;
    return text;
}

/* ---- Assignments --------------------------------------------------------------------------------------- */

static void assign(struct machine *machine, const struct node *target, struct value value);

static void assign_each(struct machine *machine, const struct node *target, struct value value)
{
    struct task *task = &machine->task;
    size_t wanted = target->items.count;
    if (!value_is_iterable(value)) {
        task_fail(task, "cannot unpack non-iterable %s object", value_type(value));
    }
    value_need(task, value);
    const struct list *list = value_items(task, value);
    if (list->count < wanted)
        task_fail(task, "not enough values to unpack (expected %zu, got %zu)", wanted, list->count);
    if (list->count > wanted) task_fail(task, "too many values to unpack (expected %zu)", wanted);
    for (size_t i = 0; i < wanted; i++) assign(machine, target->items.items[i], list->items[i]);
}

static void assign(struct machine *machine, const struct node *target, struct value value)
{
    machine->task.line = target->line;
    if (target->kind == NODE_NAME) {
        scope_set(machine, target->symbol, value);
    } else if (target->kind == NODE_TUPLE) {
        task_enter(&machine->task);
        assign_each(machine, target, value);
        task_leave(&machine->task);
    } else {
        struct value namespace = evaluate(machine, target->a);
        if (!VALUE_IS(namespace, NAMESPACE))
            task_fail(&machine->task, "cannot assign attribute on non-namespace object");
        dict_set(&machine->task, namespace.dict, value_text(target->text), value);
    }
}

/* ---- Loops --------------------------------------------------------------------------------------------- */

/* The items that pass the loop's condition. */
static struct list *select_items(struct machine *machine, const struct node *node, const struct list *items)
{
    struct list *selected = list_create(&machine->task, 0);
    struct scope *scope = machine->scope;
    machine->scope = scope_create(machine, scope);
    for (size_t i = 0; i < items->count; i++) {
        machine->scope->count = 0;
        assign(machine, node->a, items->items[i]);
        if (value_truth(evaluate(machine, node->c))) list_add(&machine->task, selected, items->items[i]);
    }
    machine->scope = scope;
    return selected;
}

static void run_loop(struct machine *machine, const struct node *node, struct value over, uint32_t depth)
{
    struct scope *scope = machine->scope;
    struct list *items = value_items(&machine->task, over);
    if (node->c) items = select_items(machine, node, items);
    struct loop *loop = task_allocate(&machine->task, sizeof *loop);
    *loop = (struct loop){.node = node, .scope = scope, .items = items, .depth = depth};
    machine->scope = scope_create(machine, scope);
    bool complete = false; /* an iteration reached its end */
    for (; loop->at < items->count; loop->at++) {
        machine->scope->count = 0;
        task_charge(&machine->task, TASK_STEP_NODE);
        scope_set(machine, SYMBOL_LOOP, (struct value){.kind = VALUE_LOOP, .loop = loop});
        assign(machine, node->a, items->items[loop->at]);
        enum flow flow = execute(machine, &node->body);
        if (flow == FLOW_BREAK) break;
        complete = complete || flow == FLOW_NEXT;
    }
    if (!complete) {
        machine->scope->count = 0;
        execute(machine, &node->other);
    }
    machine->scope = scope;
}

struct value execute_loop_again(struct machine *machine, struct loop *loop, struct value items)
{
    if (!loop->node->flag)
        task_fail(&machine->task, "the loop must have the 'recursive' marker to be called recursively");
    struct scope *scope = machine->scope;
    struct builder *out = machine->out;
    machine->scope = loop->scope;
    machine->out = builder_create(&machine->task);
    run_loop(machine, loop->node, items, loop->depth + 1);
    const struct text *text = builder_finish(machine->out);
    machine->scope = scope;
    machine->out = out;
    return value_text(text);
}

/* ---- Statements ---------------------------------------------------------------------------------------- */

static enum flow run_if(struct machine *machine, const struct node *node)
{
    for (;;) {
        if (value_truth(evaluate(machine, node->a))) return execute(machine, &node->body);
        if (node->other.count != 1 || node->other.items[0]->kind != NODE_IF)
            return execute(machine, &node->other);
        node = node->other.items[0];
    }
}

static void run_set_block(struct machine *machine, const struct node *node)
{
    struct value value = value_text(execute_captured(machine, &node->body, machine->scope));
    if (node->b) value = evaluate_filter(machine, node->b, value);
    assign(machine, node->a, value);
}

/* The values are evaluated outside of the new scope. */
static void run_with(struct machine *machine, const struct node *node, enum flow *flow)
{
    struct scope *outer = machine->scope, *inner = scope_create(machine, outer);
    for (size_t i = 0; i < node->items.count; i += 2) {
        struct value value = evaluate(machine, node->items.items[i + 1]);
        machine->scope = inner;
        assign(machine, node->items.items[i], value);
        machine->scope = outer;
    }
    machine->scope = inner;
    *flow = execute(machine, &node->body);
    machine->scope = outer;
}

static void run_call_block(struct machine *machine, const struct node *node)
{
    struct macro *caller = task_allocate(&machine->task, sizeof *caller);
    *caller = (struct macro){node->macro, machine->scope};
    show_into(machine->out, call_node(machine, node->a, caller));
}

static enum flow run(struct machine *machine, const struct node *node)
{
    enum flow flow = FLOW_NEXT;
    struct macro *macro;
    struct value value;
    switch (node->kind) {
    case NODE_DATA: builder_text(machine->out, node->value.text); break;
    case NODE_PRINT:
        value = evaluate(machine, node->a);
        machine->task.line = node->line;
        show_into(machine->out, value);
        break;
    case NODE_IF: return run_if(machine, node);
    case NODE_FOR:
        value = evaluate(machine, node->b);
        machine->task.line = node->line;
        run_loop(machine, node, value, 1);
        break;
    case NODE_SET: assign(machine, node->a, evaluate(machine, node->b)); break;
    case NODE_SET_BLOCK: run_set_block(machine, node); break;
    case NODE_WITH: run_with(machine, node, &flow); break;
    case NODE_MACRO:
        macro = task_allocate(&machine->task, sizeof *macro);
        *macro = (struct macro){node->macro, machine->scope};
        scope_set(machine, node->symbol, (struct value){.kind = VALUE_MACRO, .macro = macro});
        break;
    case NODE_CALL_BLOCK: run_call_block(machine, node); break;
    case NODE_FILTER_BLOCK:
        value = value_text(execute_captured(machine, &node->body, machine->scope));
        value = evaluate_filter(machine, node->a, value);
        if (!VALUE_IS(value, TEXT))
            task_fail(&machine->task, "a filter block should give a text, not %s", value_type(value));
        builder_text(machine->out, value.text);
        break;
    case NODE_SCOPE:
        builder_text(machine->out, execute_captured(machine, &node->body, machine->scope));
        break;
    case NODE_BREAK: return FLOW_BREAK;
    case NODE_CONTINUE: return FLOW_CONTINUE;
    default: task_fail(&machine->task, "not a statement");
    }
    return flow;
}

enum flow execute(struct machine *machine, const struct node_list *body)
{
    enum flow flow = FLOW_NEXT;
    task_enter(&machine->task);
    for (size_t i = 0; i < body->count && flow == FLOW_NEXT; i++) {
        machine->task.line = body->items[i]->line;
        task_charge(&machine->task, TASK_STEP_NODE);
        flow = run(machine, body->items[i]);
    }
    task_leave(&machine->task);
    return flow;
}
