/* execute.c: statements, and calls of macros, functions and methods (machine.h). */
#include <stdio.h>
#include <string.h>

#include "common/assert.h"
#include "template/machine.h"

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
static struct list *loop_items(struct machine *machine, const struct node *node, const struct list *items)
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

static void execute_loop(struct machine *machine, const struct node *node, struct value over, uint32_t depth)
{
    ENGINE_ASSERT(node->kind == NODE_FOR);
    struct scope *scope = machine->scope;
    struct list *items = value_items(&machine->task, over);
    if (node->c) items = loop_items(machine, node, items);
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
    execute_loop(machine, loop->node, items, loop->depth + 1);
    const struct text *text = builder_finish(machine->out);
    machine->scope = scope;
    machine->out = out;
    return value_text(text);
}

/* ---- Statements ---------------------------------------------------------------------------------------- */

static enum flow execute_if(struct machine *machine, const struct node *node)
{
    for (;;) {
        if (value_truth(evaluate(machine, node->a))) return execute(machine, &node->body);
        if (node->other.count != 1 || node->other.items[0]->kind != NODE_IF)
            return execute(machine, &node->other);
        node = node->other.items[0];
    }
}

static void execute_set_block(struct machine *machine, const struct node *node)
{
    struct value value = value_text(execute_captured(machine, &node->body, machine->scope));
    if (node->b) value = evaluate_filter(machine, node->b, value);
    assign(machine, node->a, value);
}

/* The values are evaluated outside of the new scope. */
static void execute_with(struct machine *machine, const struct node *node, enum flow *flow)
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

static void execute_call_block(struct machine *machine, const struct node *node)
{
    struct macro *caller = task_allocate(&machine->task, sizeof *caller);
    *caller = (struct macro){node->macro, machine->scope};
    show_into(machine->out, call_node(machine, node->a, caller));
}

static enum flow execute_statement(struct machine *machine, const struct node *node)
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
    case NODE_IF: return execute_if(machine, node);
    case NODE_FOR:
        value = evaluate(machine, node->b);
        machine->task.line = node->line;
        execute_loop(machine, node, value, 1);
        break;
    case NODE_SET: assign(machine, node->a, evaluate(machine, node->b)); break;
    case NODE_SET_BLOCK: execute_set_block(machine, node); break;
    case NODE_WITH: execute_with(machine, node, &flow); break;
    case NODE_MACRO:
        macro = task_allocate(&machine->task, sizeof *macro);
        *macro = (struct macro){node->macro, machine->scope};
        scope_set(machine, node->symbol, (struct value){.kind = VALUE_MACRO, .macro = macro});
        break;
    case NODE_CALL_BLOCK: execute_call_block(machine, node); break;
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
        flow = execute_statement(machine, body->items[i]);
    }
    task_leave(&machine->task);
    return flow;
}

/* ---- Arguments ----------------------------------------------------------------------------------------- */

static void add_named_argument(struct machine *machine, struct named_value *named, size_t *count,
                               const struct text *name, struct value value)
{
    for (size_t i = 0; i < *count; i++)
        if (text_equals(named[i].name, name))
            task_fail(&machine->task, "got multiple values for keyword argument '%.*s'", TEXT_SHOWN(name));
    task_charge(&machine->task, TASK_STEP_ITEM * *count);
    named[(*count)++] = (struct named_value){name, value};
}

struct arguments call_arguments(struct machine *machine, const struct node_call *call)
{
    struct task *task = &machine->task;
    struct arguments arguments = {0};
    if (!call->items.count && !call->n_named && !call->more_items && !call->more_named) return arguments;
    struct list *items = list_create(task, call->items.count);
    for (size_t i = 0; i < call->items.count; i++)
        list_add(task, items, evaluate(machine, call->items.items[i]));
    if (call->more_items) {
        const struct list *more = value_items(task, evaluate(machine, call->more_items));
        for (size_t i = 0; i < more->count; i++) list_add(task, items, more->items[i]);
    }
    struct value more = call->more_named ? evaluate(machine, call->more_named) : value_none();
    if (call->more_named && !VALUE_IS(more, DICT))
        task_fail(task, "argument after ** must be a mapping, not %s", value_type(more));
    size_t n_more = call->more_named ? more.dict->count : 0;
    /* One more for a caller. */
    struct named_value *named = task_array(task, call->n_named + n_more + 1, sizeof *named);
    for (size_t i = 0; i < call->n_named; i++)
        add_named_argument(machine, named, &arguments.n_named, call->named[i].name,
                           evaluate(machine, call->named[i].value));
    for (size_t i = 0; i < n_more; i++) {
        if (!VALUE_IS(more.dict->pairs[i].key, TEXT)) task_fail(task, "keywords must be strings");
        add_named_argument(machine, named, &arguments.n_named, more.dict->pairs[i].key.text,
                           more.dict->pairs[i].value);
    }
    arguments.items = items->items;
    arguments.count = items->count;
    arguments.named = named;
    return arguments;
}

void call_match(struct machine *machine, const char *what, const struct arguments *arguments,
                const char *const *names, size_t required, struct value *values)
{
    struct task *task = &machine->task;
    size_t count = 0;
    for (; names[count]; count++)
        values[count] =
            count < arguments->count ? arguments->items[count] : (struct value){.kind = VALUE_MISSING};
    if (arguments->count > count)
        task_fail(task, "%s takes at most %zu arguments (%zu given)", what, count, arguments->count);
    for (size_t i = 0; i < arguments->n_named; i++) {
        size_t at = 0;
        while (names[at] && !text_is(arguments->named[i].name, names[at])) at++;
        if (!names[at])
            task_fail(task, "%s got an unexpected keyword argument '%.*s'", what,
                      TEXT_SHOWN(arguments->named[i].name));
        if (!VALUE_IS(values[at], MISSING))
            task_fail(task, "%s got multiple values for argument '%s'", what, names[at]);
        values[at] = arguments->named[i].value;
    }
    for (size_t i = 0; i < required; i++)
        if (VALUE_IS(values[i], MISSING)) task_fail(task, "%s is missing its argument '%s'", what, names[i]);
}

void call_match_none(struct machine *machine, const char *what, const struct arguments *arguments)
{
    static const char *const none[] = {NULL};
    struct value values[1];
    call_match(machine, what, arguments, none, 0, values);
}

/* ---- Macros -------------------------------------------------------------------------------------------- */

/* The named argument of a parameter; MISSING if there is none. *used[i] is set. */
static struct value take_named_argument(struct task *task, const struct arguments *arguments,
                                        const struct text *name, bool *used)
{
    task_charge(task, TASK_STEP_ITEM * arguments->n_named);
    for (size_t i = 0; i < arguments->n_named; i++) {
        if (!text_equals(arguments->named[i].name, name)) continue;
        used[i] = true;
        return arguments->named[i].value;
    }
    return (struct value){.kind = VALUE_MISSING};
}

/* Arguments that no parameter takes. */
static void bind_other_arguments(struct machine *machine, const struct node_macro *node,
                                 const struct arguments *arguments, const bool *used)
{
    struct task *task = &machine->task;
    struct list *items = list_create(task, 0);
    struct dict *named = dict_create(task);
    struct value caller = value_undefined_name(task, text_constant(task, "caller"));
    for (size_t i = node->n_parameters; i < arguments->count; i++) list_add(task, items, arguments->items[i]);
    if (items->count && !node->uses_items)
        task_fail(task, "macro '%.*s' takes not more than %zu argument(s)", TEXT_SHOWN(node->name),
                  node->n_parameters);
    for (size_t i = 0; i < arguments->n_named; i++) {
        const struct text *name = arguments->named[i].name;
        if (used[i]) continue;
        if (node->uses_caller && text_is(name, "caller")) {
            caller = arguments->named[i].value;
            continue;
        }
        if (!node->uses_named)
            task_fail(task, "macro '%.*s' takes no keyword argument '%.*s'", TEXT_SHOWN(node->name),
                      TEXT_SHOWN(name));
        dict_set(task, named, value_text(name), arguments->named[i].value);
    }
    if (node->uses_caller) scope_set(machine, SYMBOL_CALLER, caller);
    if (node->uses_items) scope_set(machine, SYMBOL_ITEMS, value_list(VALUE_TUPLE, items));
    if (node->uses_named) scope_set(machine, SYMBOL_NAMED, value_dict(named));
}

static struct value call_macro(struct machine *machine, const struct macro *macro,
                               const struct arguments *arguments)
{
    const struct node_macro *node = macro->node;
    struct scope *scope = machine->scope;
    int line = machine->task.line;
    bool *used = task_array(&machine->task, arguments->n_named + 1, sizeof *used);
    machine->scope = scope_create(machine, macro->scope);
    for (size_t i = 0; i < node->n_parameters; i++) {
        const struct node_parameter *parameter = &node->parameters[i];
        struct value value = i < arguments->count
                                 ? arguments->items[i]
                                 : take_named_argument(&machine->task, arguments, parameter->name, used);
        if (VALUE_IS(value, MISSING))
            value = parameter->fallback ? evaluate(machine, parameter->fallback)
                                        : value_undefined_name(&machine->task, parameter->name);
        scope_set(machine, parameter->symbol, value);
    }
    machine->task.line = line;
    bind_other_arguments(machine, node, arguments, used);
    const struct text *text = execute_captured(machine, &node->body, machine->scope);
    machine->scope = scope;
    return value_text(text);
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

static struct value call_loop(struct machine *machine, struct loop *loop, const struct arguments *arguments)
{
    static const char *const names[] = {"iterable", NULL};
    struct value items;
    call_match(machine, "loop", arguments, names, 1, &items);
    return execute_loop_again(machine, loop, items);
}

static struct value call_joiner(struct machine *machine, struct joiner *joiner,
                                const struct arguments *arguments)
{
    call_match_none(machine, "joiner", arguments);
    bool used = joiner->used;
    joiner->used = true;
    return value_text(used ? joiner->separator : text_constant(&machine->task, ""));
}

/* The texts of a result as HTML. */
static struct value value_as_html(struct task *task, struct value value)
{
    if (VALUE_IS(value, TEXT)) return value_text(text_as_html(task, value.text, true));
    if (!VALUE_IS(value, LIST) && !VALUE_IS(value, TUPLE)) return value;
    struct list *list = list_create(task, value.list->count);
    for (size_t i = 0; i < value.list->count; i++)
        list_add(task, list, value_as_html(task, value.list->items[i]));
    return value_list(value.kind, list);
}

/* Methods of HTML escape the texts that they are given, and return HTML. */
static struct value call_function(struct machine *machine, const struct function *function,
                                  const struct arguments *arguments)
{
    struct task *task = &machine->task;
    if (!VALUE_IS(function->self, TEXT) || !function->self.text->html)
        return function->builtin->call(machine, function->self, arguments);
    struct list *items = list_create(task, arguments->count);
    for (size_t i = 0; i < arguments->count; i++) {
        struct value item = arguments->items[i];
        list_add(task, items, VALUE_IS(item, TEXT) ? value_text(text_escape(task, item.text)) : item);
    }
    struct arguments escaped = {items->items, items->count, arguments->named, arguments->n_named};
    return value_as_html(task, function->builtin->call(machine, function->self, &escaped));
}

struct value call_value(struct machine *machine, struct value called, const struct arguments *arguments)
{
    struct value value;
    task_charge(&machine->task, TASK_STEP_NODE);
    task_enter(&machine->task);
    switch (called.kind) {
    case VALUE_FUNCTION: value = call_function(machine, called.function, arguments); break;
    case VALUE_MACRO: value = call_macro(machine, called.macro, arguments); break;
    case VALUE_LOOP: value = call_loop(machine, called.loop, arguments); break;
    case VALUE_JOINER: value = call_joiner(machine, called.joiner, arguments); break;
    case VALUE_UNDEFINED:
        if (!called.undefined->called) value_fail_undefined(&machine->task, called);
        value = call_function(machine, called.undefined->called, arguments);
        break;
    default: task_fail(&machine->task, "'%s' object is not callable", value_type(called));
    }
    task_leave(&machine->task);
    return value;
}

struct value call_node(struct machine *machine, const struct node *node, const struct macro *caller)
{
    struct value called = evaluate(machine, node->a);
    struct arguments arguments = call_arguments(machine, node->call);
    if (caller) {
        struct named_value *named = task_array(&machine->task, arguments.n_named + 1, sizeof *named);
        if (arguments.n_named) memcpy(named, arguments.named, arguments.n_named * sizeof *named);
        add_named_argument(machine, named, &arguments.n_named, text_constant(&machine->task, "caller"),
                           (struct value){.kind = VALUE_MACRO, .macro = caller});
        arguments.named = named;
    }
    machine->task.line = node->line;
    /* cppcheck-suppress returnDanglingLifetime ; no value keeps the arguments, only what the task owns */
    return call_value(machine, called, &arguments);
}
