/* builtin.h: what templates find by name.
 *
 *   functions.c      range, namespace, raise_exception, …   tests.c          is defined, …
 *   filters-text.c   filters on texts                       methods.c        of lists, dicts, loops
 *   filters-list.c   filters on lists and dicts             methods-text.c   of texts
 *   filters.c        the rest, and the search */
#ifndef ENGINE_TEMPLATE_BUILTIN_H
#define ENGINE_TEMPLATE_BUILTIN_H

#include "template/machine.h"

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

/* ---- For the functions ---- */

/* A parameter's value as a type, or its default if it is missing; fails otherwise. */
int64_t argument_integer(struct machine *machine, struct value value, int64_t fallback);
const struct text *argument_text(struct machine *machine, struct value value, const char *fallback);
bool argument_truth(struct value value, bool fallback);
static inline bool argument_is_given(struct value value)
{
    return value.kind != VALUE_MISSING && value.kind != VALUE_NONE;
}

#endif
