/* machine.h: a template being rendered: variables, the output, the functions that evaluate its tree, and what
 * templates find by name.
 *
 *   execute.c        statements, calls and macros
 *   evaluate.c       expressions: variables, attributes and items, arithmetic, comparisons, slices
 *   functions.c      range, namespace, raise_exception, …; is defined, …; methods of lists, dicts, loops
 *   filters-text.c   filters on texts
 *   filters-list.c   filters on lists and dicts, and the search for filters
 *   methods-text.c   methods of texts */
#ifndef ENGINE_TEMPLATE_MACHINE_H
#define ENGINE_TEMPLATE_MACHINE_H

#include "template/syntax.h"

struct binding {
    uint32_t symbol;
    struct value value;
};

/* Variables; those of the parents can be read. */
struct scope {
    struct scope *parent;
    struct binding *bindings; /* [count] */
    size_t count, capacity;
};

struct machine {
    struct task task; /* first: a task's work gets it */
    struct scope *scope;
    struct builder *out;
    int64_t now; /* seconds since 1970, for strftime_now */
};

struct macro {
    const struct node_macro *node;
    struct scope *scope; /* where it was defined */
};

struct loop {
    const struct node *node; /* NODE_FOR */
    struct scope *scope;     /* around the loop */
    struct list *items;
    size_t at;
    uint32_t depth;       /* of a recursive loop, from 1 */
    struct value changed; /* what `changed` was last called with: a tuple; MISSING at first */
};

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

/* ---- Statements (execute.c) ---------------------------------------------------------------------------- */

enum flow execute(struct machine *machine, const struct node_list *body);
/* What the body writes, in a scope of its own below `parent`. */
const struct text *execute_captured(struct machine *machine, const struct node_list *body,
                                    struct scope *parent);
/* A recursive loop, called with the items of the next level. */
struct value execute_loop_again(struct machine *machine, struct loop *loop, struct value items);

struct scope *scope_create(struct machine *machine, struct scope *parent);
void scope_set(struct machine *machine, uint32_t symbol, struct value value); /* in the current scope */

/* ---- Expressions (evaluate.c) -------------------------------------------------------------------------- */

struct value evaluate(struct machine *machine, const struct node *node);
/* A filter on a value, of NODE_FILTER; `value` takes the place of the innermost missing operand. */
struct value evaluate_filter(struct machine *machine, const struct node *node, struct value value);

/* ---- Calls (execute.c) --------------------------------------------------------------------------------- */

struct value call_node(struct machine *machine, const struct node *node, const struct macro *caller);
struct value call_value(struct machine *machine, struct value called, const struct arguments *arguments);
/* A call's arguments. */
struct arguments call_arguments(struct machine *machine, const struct node_call *call);
/* Matches arguments with parameters: values[i] is that of names[i], MISSING if not given. `names` ends with
 * NULL; the first `required` must be given. `what` is for messages. */
void call_match(struct machine *machine, const char *what, const struct arguments *arguments,
                const char *const *names, size_t required, struct value *values);
/* For functions without parameters. */
void call_match_none(struct machine *machine, const char *what, const struct arguments *arguments);

/* ---- Attributes and items (evaluate.c) ----------------------------------------------------------------- */

struct value lookup_attribute(struct machine *machine, struct value value, const struct text *name);
struct value lookup_item(struct machine *machine, struct value value, struct value key);
/* "a.b.0", as the filters map and selectattr take it, or an index. */
struct value lookup_path(struct machine *machine, struct value value, struct value path);

/* ---- Operators (evaluate.c) ---------------------------------------------------------------------------- */

struct value operate(struct machine *machine, enum node_operator op, struct value a, struct value b);
bool operate_compare(struct machine *machine, enum node_operator op, struct value a, struct value b);
struct value operate_slice(struct machine *machine, struct value value, struct value from, struct value to,
                           struct value step);
/* `count` copies. */
struct value operate_repeat(struct machine *machine, struct value value, int64_t count);

/* ---- Formats (format.c) -------------------------------------------------------------------------------- */

/* '{}'.format(x) */
const struct text *format_braces(struct machine *machine, const struct text *format,
                                 const struct arguments *arguments);

/* ---- What templates find by name ----------------------------------------------------------------------- */

/* MISSING: there is no such function. */
struct value builtin_function(struct machine *machine, const struct text *name);

/* Apply a filter or test to a value; fail if there is none of that name. */
struct value builtin_filter(struct machine *machine, const struct text *name, struct value value,
                            const struct arguments *arguments);
bool builtin_test(struct machine *machine, const struct text *name, struct value value,
                  const struct arguments *arguments);
bool builtin_has_filter(const struct text *name);
bool builtin_has_test(const struct text *name);

/* A method of a value; MISSING: it has none of that name. */
struct value builtin_method(struct machine *machine, struct value value, const struct text *name);

/* Tables, each ended by a NULL name. */
extern const struct builtin builtin_text_filters[], builtin_list_filters[], builtin_text_methods[];

const struct builtin *builtin_find(const struct builtin *table, const struct text *name);
struct value builtin_bind(struct machine *machine, const struct builtin *builtin, struct value self);

/* ---- For functions, filters and methods ---------------------------------------------------------------- */

/* A function, filter or method. */
#define BUILTIN(name_)                                                                                       \
    static struct value name_(struct machine *machine, struct value self, const struct arguments *arguments)

/* A parameter's value as a type, or its default if it is missing; fails otherwise. */
int64_t argument_integer(struct machine *machine, struct value value, int64_t fallback);
const struct text *argument_text(struct machine *machine, struct value value, const char *fallback);
bool argument_truth(struct value value, bool fallback);
static inline bool argument_is_given(struct value value)
{
    return value.kind != VALUE_MISSING && value.kind != VALUE_NONE;
}

#endif
