/* functions.c: the functions that templates can call, Jinja's and transformers'. See builtin.h. */
#include <string.h>
#include <time.h>

#include "template/builtin.h"
#include "template/characters.h"
#include "template/show.h"

#define MAX_RANGE 100000 /* as in Jinja's sandbox */

const struct builtin *builtin_find(const struct builtin *table, const struct text *name)
{
    for (; table->name; table++)
        if (text_is(name, table->name)) return table;
    return NULL;
}

struct value builtin_bind(struct machine *machine, const struct builtin *builtin, struct value self)
{
    struct function *function = task_allocate(&machine->task, sizeof *function);
    *function = (struct function){builtin, self};
    return (struct value){.kind = VALUE_FUNCTION, .function = function};
}

int64_t argument_integer(struct machine *machine, struct value value, int64_t fallback)
{
    int64_t integer;
    if (VALUE_IS(value, MISSING)) return fallback;
    value_need(&machine->task, value);
    if (!value_get_integer(value, &integer))
        task_fail(&machine->task, "'%s' object cannot be interpreted as an integer", value_type(value));
    return integer;
}

const struct text *argument_text(struct machine *machine, struct value value, const char *fallback)
{
    if (VALUE_IS(value, MISSING)) return text_constant(&machine->task, fallback);
    value_need(&machine->task, value);
    if (!VALUE_IS(value, TEXT)) task_fail(&machine->task, "a string is needed, not %s", value_type(value));
    return value.text;
}

bool argument_truth(struct value value, bool fallback)
{
    return VALUE_IS(value, MISSING) ? fallback : value_truth(value);
}

/* ---- Functions ----------------------------------------------------------------------------------------- */

static struct value make_range(struct machine *machine, struct value self, const struct arguments *arguments)
{
    static const char *const names[] = {"start", "stop", "step", NULL};
    struct task *task = &machine->task;
    struct value values[3];
    (void)self;
    call_match(machine, "range", arguments, names, 1, values);
    int64_t from = argument_integer(machine, values[0], 0), to = argument_integer(machine, values[1], 0);
    int64_t step = argument_integer(machine, values[2], 1), distance;
    if (VALUE_IS(values[1], MISSING)) {
        to = from;
        from = 0;
    }
    if (step == 0) task_fail(task, "range() arg 3 must not be zero");
    if (__builtin_sub_overflow(to, from, &distance) || step == INT64_MIN) task_fail(task, "range too big");
    int64_t count = step > 0 ? (distance > 0 ? (distance - 1) / step + 1 : 0)
                             : (distance < 0 ? -((distance + 1) / -step) + 1 : 0);
    if (count > MAX_RANGE)
        task_fail(task, "range too big: the sandbox blocks ranges larger than %d", MAX_RANGE);
    struct list *list = list_create(task, (size_t)count);
    list->range = (struct range){from, to, step};
    for (int64_t i = 0; i < count; i++) list_add(task, list, value_integer(from + i * step));
    return value_list(VALUE_RANGE, list);
}

/* The pairs of a dict, or of a sequence of pairs, and the named arguments. */
static struct dict *collect_pairs(struct machine *machine, const char *what,
                                  const struct arguments *arguments)
{
    struct task *task = &machine->task;
    struct dict *dict = dict_create(task);
    if (arguments->count > 1)
        task_fail(task, "%s expected at most 1 argument, got %zu", what, arguments->count);
    if (arguments->count && VALUE_IS(arguments->items[0], DICT)) {
        const struct dict *other = arguments->items[0].dict;
        for (size_t i = 0; i < other->count; i++)
            dict_set(task, dict, other->pairs[i].key, other->pairs[i].value);
    } else if (arguments->count) {
        const struct list *pairs = value_items(task, arguments->items[0]);
        for (size_t i = 0; i < pairs->count; i++) {
            const struct list *pair = value_items(task, pairs->items[i]);
            if (pair->count != 2)
                task_fail(task, "dictionary update sequence element #%zu has length %zu; 2 is required", i,
                          pair->count);
            dict_set(task, dict, pair->items[0], pair->items[1]);
        }
    }
    for (size_t i = 0; i < arguments->n_named; i++)
        dict_set(task, dict, value_text(arguments->named[i].name), arguments->named[i].value);
    return dict;
}

static struct value make_namespace(struct machine *machine, struct value self,
                                   const struct arguments *arguments)
{
    (void)self;
    return (struct value){.kind = VALUE_NAMESPACE, .dict = collect_pairs(machine, "namespace", arguments)};
}

static struct value make_dict(struct machine *machine, struct value self, const struct arguments *arguments)
{
    (void)self;
    return value_dict(collect_pairs(machine, "dict", arguments));
}

static struct value make_cycler(struct machine *machine, struct value self, const struct arguments *arguments)
{
    (void)self;
    if (!arguments->count) task_fail(&machine->task, "at least one item has to be provided");
    struct cycler *cycler = task_allocate(&machine->task, sizeof *cycler);
    cycler->items = list_create(&machine->task, arguments->count);
    for (size_t i = 0; i < arguments->count; i++)
        list_add(&machine->task, cycler->items, arguments->items[i]);
    return (struct value){.kind = VALUE_CYCLER, .cycler = cycler};
}

static struct value make_joiner(struct machine *machine, struct value self, const struct arguments *arguments)
{
    static const char *const names[] = {"sep", NULL};
    struct value values[1];
    (void)self;
    call_match(machine, "joiner", arguments, names, 0, values);
    struct joiner *joiner = task_allocate(&machine->task, sizeof *joiner);
    joiner->separator = argument_text(machine, values[0], ", ");
    return (struct value){.kind = VALUE_JOINER, .joiner = joiner};
}

static struct value raise_exception(struct machine *machine, struct value self,
                                    const struct arguments *arguments)
{
    static const char *const names[] = {"message", NULL};
    struct value values[1];
    (void)self;
    call_match(machine, "raise_exception", arguments, names, 1, values);
    const struct text *text = show_text(&machine->task, values[0]);
    task_fail(&machine->task, "%.*s", (int)(text->length < 800 ? text->length : 800), text->bytes);
}

static struct value strftime_now(struct machine *machine, struct value self,
                                 const struct arguments *arguments)
{
    static const char *const names[] = {"format", NULL};
    struct task *task = &machine->task;
    struct value values[1];
    (void)self;
    call_match(machine, "strftime_now", arguments, names, 1, values);
    const struct text *format = argument_text(machine, values[0], "");
    time_t now = (time_t)machine->now;
    struct tm parts;
    if (!localtime_r(&now, &parts)) task_fail(task, "the time can't be written");
    struct builder *builder = builder_create(task);
    for (size_t at = 0; at < format->length;) {
        if (format->bytes[at] != '%' || at + 1 == format->length) {
            size_t length = utf8_length((unsigned char)format->bytes[at]);
            builder_part(builder, format, at, at + length);
            at += length;
            continue;
        }
        /* One conversion at a time, because strftime's result has a limited size; "%-d" has three characters. */
        char code[8] = "%", written[256];
        size_t length = 1;
        if (strchr("-_0^#E", format->bytes[at + 1]) && format->bytes[at + 1] && at + 2 < format->length)
            code[length++] = format->bytes[at + 1];
        char kind = format->bytes[at + length];
        code[length++] = kind;
        /* Local time without a zone, as datetime.now() gives it. */
        if (kind == 'f')
            builder_string(builder, "000000");
        else if (kind != 'z' && kind != 'Z' && kind && (unsigned char)kind < 0x80)
            builder_bytes(builder, written, strftime(written, sizeof written, code, &parts), false);
        at += length;
        while (at < format->length && ((unsigned char)format->bytes[at] & 0xC0) == 0x80) at++;
    }
    return value_text(builder_finish(builder));
}

struct value builtin_function(struct machine *machine, const struct text *name)
{
    static const struct builtin functions[] = {
        {"range", make_range},
        {"namespace", make_namespace},
        {"dict", make_dict},
        {"cycler", make_cycler},
        {"joiner", make_joiner},
        {"raise_exception", raise_exception},
        {"strftime_now", strftime_now},
        {NULL, NULL},
    };
    /* The template's blocks, of which there are none. */
    if (text_is(name, "self"))
        return (struct value){.kind = VALUE_NAMESPACE, .dict = dict_create(&machine->task)};
    const struct builtin *found = builtin_find(functions, name);
    return found ? builtin_bind(machine, found, value_none()) : (struct value){.kind = VALUE_MISSING};
}
