/* call.c: calls of macros, functions and methods. See machine.h. */
#include <stdio.h>
#include <string.h>

#include "template/builtin.h"
#include "template/machine.h"
#include "template/texts.h"

static void add_named(struct machine *machine, struct named_value *named, size_t *count,
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
        add_named(machine, named, &arguments.n_named, call->named[i].name,
                  evaluate(machine, call->named[i].value));
    for (size_t i = 0; i < n_more; i++) {
        if (!VALUE_IS(more.dict->pairs[i].key, TEXT)) task_fail(task, "keywords must be strings");
        add_named(machine, named, &arguments.n_named, more.dict->pairs[i].key.text,
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
static struct value take_named(struct task *task, const struct arguments *arguments, const struct text *name,
                               bool *used)
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
static void bind_rest(struct machine *machine, const struct node_macro *node,
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
                                 : take_named(&machine->task, arguments, parameter->name, used);
        if (VALUE_IS(value, MISSING))
            value = parameter->fallback ? evaluate(machine, parameter->fallback)
                                        : value_undefined_name(&machine->task, parameter->name);
        scope_set(machine, parameter->symbol, value);
    }
    machine->task.line = line;
    bind_rest(machine, node, arguments, used);
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
static struct value as_html(struct task *task, struct value value)
{
    if (VALUE_IS(value, TEXT)) return value_text(texts_as_html(task, value.text, true));
    if (!VALUE_IS(value, LIST) && !VALUE_IS(value, TUPLE)) return value;
    struct list *list = list_create(task, value.list->count);
    for (size_t i = 0; i < value.list->count; i++) list_add(task, list, as_html(task, value.list->items[i]));
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
        list_add(task, items, VALUE_IS(item, TEXT) ? value_text(texts_escape(task, item.text)) : item);
    }
    struct arguments escaped = {items->items, items->count, arguments->named, arguments->n_named};
    return as_html(task, function->builtin->call(machine, function->self, &escaped));
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
    case VALUE_UNDEFINED: value_fail_undefined(&machine->task, called);
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
        add_named(machine, named, &arguments.n_named, text_constant(&machine->task, "caller"),
                  (struct value){.kind = VALUE_MACRO, .macro = caller});
        arguments.named = named;
    }
    machine->task.line = node->line;
    /* cppcheck-suppress returnDanglingLifetime ; no value keeps the arguments, only what the task owns */
    return call_value(machine, called, &arguments);
}
