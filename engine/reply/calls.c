/* calls.c: reads the text of tool calls as model families write them. The text is a model's: only text that
 * is exactly a call is one. Called when a call is complete, by reply-pieces.c. */
#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"
#include "reply/internal.h"
#include "reply/layout.h"
#include "reply/span.h"

#define WHOLE (JSON_DECODE_ANY | JSON_REJECT_DUPLICATES) /* of a text that is one value */

/* Whether the text may be a function's name: letters, digits, and a few marks that APIs allow. */
static bool is_name(struct span s)
{
    for (size_t i = 0; i < s.length; i++) {
        char letter = (char)(s.data[i] | 32);
        if (!(letter >= 'a' && letter <= 'z') && !(s.data[i] >= '0' && s.data[i] <= '9') &&
            !memchr("_-.", s.data[i], 3))
            return false;
    }
    return s.length > 0;
}

bool calls_is_tool(const json_t *tools, const json_t *name)
{
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        if (json_equal(json_object_get(function ? function : tool, "name"), name)) return true;
    }
    return false;
}

/* Whether each call has the name of a tool, or one that a tool may have. */
static bool have_names(const json_t *calls, const json_t *tools)
{
    size_t i;
    json_t *call;
    json_array_foreach(calls, i, call)
    {
        const json_t *name = json_object_get(call, "name");
        struct span text = {json_string_value(name), json_string_length(name)};
        if (!is_name(text) && !calls_is_tool(tools, name)) return false;
    }
    return true;
}

/* ---- Values ---- */

json_t *calls_string(struct calls_reader *reader, struct span text)
{
    return span_is_utf8(text) ? calls_made(reader, json_stringn_nocheck(text.data, text.length)) : NULL;
}

json_t *calls_json(struct calls_reader *reader, struct span text, size_t flags, json_error_t *where)
{
    json_error_t own;
    if (!where) where = &own;
    json_t *json = json_read(text.data, text.length, flags, where);
    if (!json && json_read_lacked_memory(where)) reader->out_of_memory = true;
    return json;
}

bool calls_set(struct calls_reader *reader, json_t *object, struct span key, json_t *value)
{
    bool good = value && span_is_utf8(key);
    if (good && json_object_setn_new_nocheck(object, key.data, key.length, json_incref(value)) != 0) {
        reader->out_of_memory = true;
        good = false;
    }
    json_decref(value);
    return good;
}

bool calls_append(struct calls_reader *reader, json_t *array, json_t *value)
{
    if (!value) return false;
    if (json_array_append_new(array, value) == 0) return true;
    reader->out_of_memory = true;
    return false;
}

/* ---- Calls ---- */

json_t *calls_make(struct calls_reader *reader, json_t *name, json_t *arguments, json_t *id)
{
    json_t *call = NULL;
    if (json_is_string(name) && json_string_length(name) > 0 && json_is_object(arguments))
        call = calls_made(reader, json_object());
    if (call && (json_object_set(call, "name", name) || json_object_set(call, "arguments", arguments) ||
                 (json_is_string(id) && json_object_set(call, "id", id)))) {
        reader->out_of_memory = true;
        json_decref(call);
        call = NULL;
    }
    json_decref(arguments);
    json_decref(id);
    return call;
}

/* The member of an object that has the first of these keys which it has; "" is no key. */
static json_t *member_of(const json_t *object, const char *const keys[3])
{
    json_t *found = NULL;
    for (size_t i = 0; i < 3 && !found; i++)
        if (keys[i][0]) found = json_object_get(object, keys[i]);
    return found;
}

/* {NAME: arguments}, where the name is a key. */
static json_t *call_of_member(struct calls_reader *reader, json_t *object)
{
    void *member = json_object_iter(object);
    if (json_object_size(object) != 1 || !json_is_object(json_object_iter_value(member))) return NULL;
    json_t *name = calls_made(reader, json_string(json_object_iter_key(member)));
    json_t *call = calls_make(reader, name, json_incref(json_object_iter_value(member)), NULL);
    json_decref(name);
    return call;
}

/* `object` as models write a call: {"name": …, "arguments": …}, or the same as OpenAI's "function". Arguments
 * may be an object in a string. */
static json_t *call_of_object(struct calls_reader *reader, json_t *object, const struct reply_layout *layout)
{
    if (strcmp(layout->name_key, "-") == 0) return call_of_member(reader, object);
    const char *const names[] = {layout->name_key, "name", ""}, *const keys[] = {layout->arguments_key,
                                                                                 "arguments", "parameters"};
    const json_t *function = json_object_get(object, "function");
    if (!json_is_object(function)) function = object;
    json_t *arguments = member_of(function, keys);
    if (!arguments) return NULL;
    if (json_is_string(arguments))
        arguments = calls_json(
            reader, (struct span){json_string_value(arguments), json_string_length(arguments)}, WHOLE, NULL);
    else
        json_incref(arguments);
    json_t *id = json_object_get(object, "id");
    return calls_make(reader, member_of(function, names), arguments, json_incref(id));
}

/* Appends the calls of an object or of an array of objects. False: one of them is none. */
static bool append_objects(struct calls_reader *reader, json_t *calls, json_t *value,
                           const struct reply_layout *layout)
{
    if (json_is_object(value)) return calls_append(reader, calls, call_of_object(reader, value, layout));
    size_t i;
    json_t *object;
    json_array_foreach(value, i, object)
    {
        if (!json_is_object(object) || !calls_append(reader, calls, call_of_object(reader, object, layout)))
            return false;
    }
    return json_array_size(value) > 0;
}

bool calls_read_objects(struct calls_reader *reader, json_t *calls, struct span s,
                        const struct reply_layout *layout)
{
    for (s = span_trim(s); s.length > 0;) {
        json_error_t where;
        json_t *value = calls_json(reader, s, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &where);
        bool good = value && append_objects(reader, calls, value, layout);
        json_decref(value);
        if (!good) return false;
        s = span_trim(span_from(s, (size_t)where.position));
        if (s.length > 0 && (s.data[0] == ';' || s.data[0] == ',')) s = span_trim(span_from(s, 1));
    }
    return json_array_size(calls) > 0;
}

static bool read_objects(struct calls_reader *reader, json_t *calls, struct span s)
{
    static const struct reply_layout usual = {.kind = LAYOUT_OBJECTS};
    return calls_read_objects(reader, calls, s, &usual);
}

/* NAME.call(KEY="VALUE", KEY=JSON…), as Llama 3 calls its built-in tools. */
static bool read_built_in(struct calls_reader *reader, json_t *calls, struct span s)
{
    struct span name, key;
    if (!span_cut(&s, ".call(", &name) || s.length == 0 || s.data[s.length - 1] != ')') return false;
    for (size_t i = 0; i < name.length; i++)
        if (!((name.data[i] | 32) >= 'a' && (name.data[i] | 32) <= 'z') && name.data[i] != '_') return false;
    s = span_trim((struct span){s.data, s.length - 1});
    json_t *arguments = calls_made(reader, json_object());
    bool good = arguments != NULL;
    while (good && s.length > 0) {
        json_error_t where;
        good = span_cut(&s, "=", &key);
        json_t *value = NULL;
        if (good) {
            s = span_trim(s);
            key = span_trim(key);
            value = calls_json(reader, s, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &where);
        }
        good = calls_set(reader, arguments, key, value);
        if (!good) break;
        s = span_trim(span_from(s, (size_t)where.position));
        if (span_starts(s, ",")) s = span_trim(span_from(s, 1));
    }
    if (!good) {
        json_decref(arguments);
        return false;
    }
    json_t *its_name = calls_string(reader, name);
    json_t *call = calls_make(reader, its_name, arguments, NULL);
    json_decref(its_name);
    return calls_append(reader, calls, call);
}

/* `cut`: the end of a program may be missing. */
static bool read_python(struct calls_reader *reader, json_t *calls, struct span s, bool cut)
{
    static const struct span key = {"code", 4};
    if (span_starts(s, "{")) return read_objects(reader, calls, s);
    if (read_built_in(reader, calls, s)) return true;
    if (cut || s.length == 0) return false;
    json_t *name = calls_made(reader, json_string("python")), *arguments = calls_made(reader, json_object());
    json_t *call = NULL;
    if (calls_set(reader, arguments, key, calls_string(reader, s)))
        call = calls_make(reader, name, json_incref(arguments), NULL);
    json_decref(arguments);
    json_decref(name);
    return calls_append(reader, calls, call);
}

/* Appends a call whose name and arguments stand apart. */
static bool append_named(struct calls_reader *reader, json_t *calls, struct span name, struct span arguments,
                         struct span id)
{
    arguments = span_trim(arguments);
    json_t *value =
        arguments.length > 0 ? calls_json(reader, arguments, WHOLE, NULL) : calls_made(reader, json_object());
    json_t *its_name = calls_string(reader, name);
    json_t *call = calls_make(reader, its_name, value, id.length > 0 ? calls_string(reader, id) : NULL);
    json_decref(its_name);
    return calls_append(reader, calls, call);
}

static bool read_mistral(struct calls_reader *reader, json_t *calls, struct span s)
{
    struct span name, id = {0}, before;
    if (span_starts(s, "[")) return read_objects(reader, calls, s);
    size_t brace = span_find(s, "{");
    if (brace < span_find(s, "[ARGS]"))
        return append_named(reader, calls, span_trim((struct span){s.data, brace}), span_from(s, brace), id);
    if (!span_cut(&s, "[ARGS]", &name)) return false;
    if (span_cut(&name, "[CALL_ID]", &before)) {
        id = span_trim(name);
        name = before;
    }
    return append_named(reader, calls, span_trim(name), s, id);
}

static bool read_deepseek(struct calls_reader *reader, json_t *calls, struct span s)
{
    struct span name, after;
    if (!span_cut(&s, "<｜tool▁sep｜>", &name)) return false;
    s = span_trim(s);
    if (!span_starts(s, "{") && span_cut(&s, "```json", &after)) {
        name = after;
        size_t n = strlen("```"); /* at the end: a string may hold others */
        if (s.length < n || memcmp(s.data + s.length - n, "```", n) != 0) return false;
        s.length -= n;
    } else if (span_is(span_trim(name), "function")) {
        size_t brace = span_find(s, "{"); /* the published template leaves out the block of a second call */
        if (brace == SIZE_MAX || brace == 0) return false; /* the name is missing */
        name = (struct span){s.data, brace};
        s = span_from(s, brace);
    }
    return append_named(reader, calls, span_trim(name), s, (struct span){0});
}

json_t *calls_read(struct calls_reader *reader, enum calls_form form, const struct reply_layout *layout,
                   const char *text, size_t length, bool cut)
{
    struct span s = span_trim((struct span){text, length});
    if (length == 0 || memchr(text, 0, length))
        return NULL; /* JSON has no zero bytes, and nothing else should */
    json_t *calls = calls_made(reader, json_array());
    bool good = false;
    if (!calls) return NULL;
    switch (form) {
    case CALLS_OBJECTS: good = read_objects(reader, calls, s); break;
    case CALLS_HERMES:
        good = span_starts(s, "<") ? layout_read(reader, calls, s, layout_of_format(ENGINE_REPLY_HERMES))
                                   : read_objects(reader, calls, s);
        break;
    case CALLS_LAYOUT: {
        /* More arguments may have been to come. */
        bool goes_on = cut && layout->kind == LAYOUT_KEYED && !layout_inner_end(layout)[0];
        good = !goes_on && layout_read(reader, calls, s, layout);
        break;
    }
    case CALLS_BARE: good = layout_read(reader, calls, s, layout_of_bare()); break;
    case CALLS_PYTHON: good = read_python(reader, calls, s, cut); break;
    case CALLS_MISTRAL: good = read_mistral(reader, calls, s); break;
    case CALLS_DEEPSEEK: good = read_deepseek(reader, calls, s); break;
    }
    if (good && have_names(calls, reader->tools)) return calls;
    json_decref(calls);
    return NULL;
}

char *calls_value_text(const json_t *value)
{
    for (size_t digits = 15;; digits++) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        if (!text || digits == 17) return text;
        json_t *again = json_read_text(text, JSON_DECODE_ANY, NULL);
        bool equal = json_equal(value, again);
        json_decref(again);
        if (equal) return text;
        free(text);
    }
}

json_t *calls_named(struct calls_reader *reader, const char *name, const char *text, size_t length)
{
    json_t *calls = calls_made(reader, json_array());
    const struct span its_name = {name, strlen(name)}, arguments = {text, length};
    if (calls && append_named(reader, calls, its_name, arguments, (struct span){0})) return calls;
    json_decref(calls);
    return NULL;
}
