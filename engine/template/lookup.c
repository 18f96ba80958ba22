/* lookup.c: value.name, value[key] and paths of them. See machine.h. */
#include <string.h>

#include "template/builtin.h"
#include "template/characters.h"
#include "template/machine.h"

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
static struct value own_attribute(struct machine *machine, struct value value, const struct text *name)
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
static struct value item_of(struct machine *machine, struct value value, struct value key)
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
    struct value found = own_attribute(machine, value, name);
    if (VALUE_IS(found, MISSING)) found = item_of(machine, value, value_text(name));
    return VALUE_IS(found, MISSING) ? value_undefined_key(&machine->task, value, value_text(name)) : found;
}

struct value lookup_item(struct machine *machine, struct value value, struct value key)
{
    value_need(&machine->task, value);
    struct value found = item_of(machine, value, key);
    if (VALUE_IS(found, MISSING) && VALUE_IS(key, TEXT)) found = own_attribute(machine, value, key.text);
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
