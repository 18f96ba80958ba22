/* machine.h: a template being rendered: variables, the output, and the functions that evaluate its tree.
 *
 *   execute.c     statements            lookup.c      attributes and items
 *   evaluate.c    expressions           operators.c   arithmetic, comparisons, slices
 *   call.c        calls and macros      builtin.h     filters, tests, methods, functions */
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

/* ---- execute.c ---- */

enum flow execute(struct machine *machine, const struct node_list *body);
/* What the body writes, in a scope of its own below `parent`. */
const struct text *execute_captured(struct machine *machine, const struct node_list *body,
                                    struct scope *parent);
/* A recursive loop, called with the items of the next level. */
struct value execute_loop_again(struct machine *machine, struct loop *loop, struct value items);

struct scope *scope_create(struct machine *machine, struct scope *parent);
void scope_set(struct machine *machine, uint32_t symbol, struct value value); /* in the current scope */

/* ---- evaluate.c ---- */

struct value evaluate(struct machine *machine, const struct node *node);
/* A filter on a value, of NODE_FILTER; `value` takes the place of the innermost missing operand. */
struct value evaluate_filter(struct machine *machine, const struct node *node, struct value value);

/* ---- call.c ---- */

struct value call_node(struct machine *machine, const struct node *node, const struct macro *caller);
struct value call_value(struct machine *machine, struct value called, const struct arguments *arguments);
/* A call's arguments. */
struct arguments call_arguments(struct machine *machine, const struct node_call *call);
/* Matches arguments with parameters: values[i] is that of names[i], MISSING if not given. `names` ends with NULL;
 * the first `required` must be given. `what` is for messages. */
void call_match(struct machine *machine, const char *what, const struct arguments *arguments,
                const char *const *names, size_t required, struct value *values);
/* For functions without parameters. */
void call_match_none(struct machine *machine, const char *what, const struct arguments *arguments);

/* ---- lookup.c ---- */

struct value lookup_attribute(struct machine *machine, struct value value, const struct text *name);
struct value lookup_item(struct machine *machine, struct value value, struct value key);
/* "a.b.0", as the filters map and selectattr take it, or an index. */
struct value lookup_path(struct machine *machine, struct value value, struct value path);

/* ---- operators.c ---- */

struct value operate(struct machine *machine, enum node_operator op, struct value a, struct value b);
bool operate_compare(struct machine *machine, enum node_operator op, struct value a, struct value b);
struct value operate_slice(struct machine *machine, struct value value, struct value from, struct value to,
                           struct value step);
/* `count` copies. */
struct value operate_repeat(struct machine *machine, struct value value, int64_t count);

#endif
