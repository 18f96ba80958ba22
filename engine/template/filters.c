/* filters.c: the search for filters by name. See builtin.h. */
#include "template/builtin.h"

static const struct builtin *find_filter(const struct text *name)
{
    const struct builtin *found = builtin_find(builtin_text_filters, name);
    return found ? found : builtin_find(builtin_list_filters, name);
}

/* Whether Jinja has a filter that isn't here. */
static bool is_missing(const struct text *name)
{
    static const char *const missing[] = {"pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (text_is(name, missing[i])) return true;
    return false;
}

bool builtin_has_filter(const struct text *name)
{
    return find_filter(name) || is_missing(name);
}

struct value builtin_filter(struct machine *machine, const struct text *name, struct value value,
                            const struct arguments *arguments)
{
    const struct builtin *found = find_filter(name);
    if (!found && is_missing(name))
        task_fail(&machine->task, "the filter '%.*s' is not supported", TEXT_SHOWN(name));
    if (!found) task_fail(&machine->task, "No filter named '%.*s'.", TEXT_SHOWN(name));
    return found->call(machine, value, arguments);
}
