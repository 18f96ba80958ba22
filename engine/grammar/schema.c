/* schema.c: what to do with each schema of a document (schema.h): messages, tasks, references, types and
 * alternatives. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/json-read.h"
#include "grammar/schema.h"

#define MAX_WORK  2000000 /* keywords looked at */
#define MAX_PART  1024    /* bytes of a part of a pointer */
#define MAX_CHAIN 10000   /* references that lead to references */

/* ---- Messages ---- */

/* The way to the schema being read, as far as there is room: "#/properties/name". */
static void write_path(const struct schema_reader *reader, char *path, size_t size)
{
    const struct schema_label *labels[12];
    size_t count = 0;
    for (size_t at = reader->at; at > 0 && count < 12; at = reader->tasks[at].above) {
        labels[count++] = &reader->tasks[at].label;
        if (*labels[count - 1]->keyword == '#') break;
    }
    size_t length =
        (size_t)snprintf(path, size, "%s", count > 0 && *labels[count - 1]->keyword == '#' ? "" : "#");
    while (count-- > 0 && length < size) {
        /* cppcheck-suppress uninitvar ; the loop above has set the first `count` */
        const struct schema_label *label = labels[count];
        const char *slash = *label->keyword == '#' ? "" : "/";
        int more = snprintf(path + length, size - length, "%s%.60s%s%.40s", slash, label->keyword,
                            label->name ? "/" : "", label->name ? label->name : "");
        length += (size_t)more;
        if (label->number && length < size)
            length += (size_t)snprintf(path + length, size - length, "/%zu", label->number - 1);
    }
}

static uint32_t schema_fail(struct schema_reader *reader, int status, const char *format, va_list arguments)
{
    char path[512], text[256];
    if (reader->exprs->status) return 0;
    write_path(reader, path, sizeof path);
    vsnprintf(text, sizeof text, format, arguments);
    reader->exprs->status = error_raise(status, "JSON schema, %s: %s", path, text);
    return 0;
}

uint32_t schema_wrong(struct schema_reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    schema_fail(reader, ENGINE_ERROR_DATA, format, arguments);
    va_end(arguments);
    return 0;
}

uint32_t schema_refuse(struct schema_reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    schema_fail(reader, ENGINE_ERROR_UNSUPPORTED, format, arguments);
    va_end(arguments);
    return 0;
}

bool schema_spend(struct schema_reader *reader, size_t amount)
{
    reader->work += amount;
    if (reader->work > MAX_WORK)
        schema_refuse(reader, "the schema is too large once its parts are put together");
    return exprs_spend(reader->exprs, amount);
}

static void lack_memory(struct schema_reader *reader)
{
    if (!reader->exprs->status) reader->exprs->status = error_memory("JSON schema");
}

json_t *schema_keep(struct schema_reader *reader, json_t *schema)
{
    if (schema && json_array_append_new(reader->made, schema) == 0) return schema;
    lack_memory(reader);
    return NULL;
}

void schema_append(struct schema_reader *reader, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value)) lack_memory(reader);
}

/* An anchor's name may be cut within a character. */
void schema_set_named(struct schema_reader *reader, json_t *object, const char *name, size_t length,
                      json_t *value)
{
    if (json_object_setn_new_nocheck(object, name, length, value)) lack_memory(reader);
}

void schema_set(struct schema_reader *reader, json_t *object, const char *key, json_t *value)
{
    schema_set_named(reader, object, key, strlen(key), value);
}

/* ---- Schemas to rules ---- */

static size_t slot_of(const struct schema_reader *reader, const json_t *schema)
{
    uint64_t key = (uint64_t)(uintptr_t)schema * 0x9e3779b97f4a7c15ull;
    size_t mask = reader->n_table - 1, at = (size_t)(key >> 32) & mask;
    while (reader->table[at] && reader->tasks[reader->table[at] - 1].schema != schema) at = (at + 1) & mask;
    return at;
}

static bool grow_tasks(struct schema_reader *reader)
{
    if (!GRAMMAR_RESERVE(&reader->exprs->status, reader->tasks, reader->task_capacity, reader->n_tasks + 1))
        return false;
    if (reader->n_tasks * 2 < reader->n_table) return true;
    uint32_t *table = calloc(reader->n_table ? reader->n_table * 2 : 256, sizeof *table);
    if (!table) {
        reader->exprs->status = error_memory("JSON schema");
        return false;
    }
    free(reader->table);
    reader->table = table;
    reader->n_table = reader->n_table ? reader->n_table * 2 : 256;
    for (size_t i = 0; i < reader->n_tasks; i++)
        reader->table[slot_of(reader, reader->tasks[i].schema)] = (uint32_t)i + 1;
    return true;
}

uint32_t schema_value(struct schema_reader *reader, const json_t *schema, struct schema_label label)
{
    if (!schema_spend(reader, 1)) return 0;
    if (json_is_true(schema)) return schema_any_value(reader);
    if (json_is_false(schema)) return expr_never(reader->exprs);
    if (!json_is_object(schema))
        return schema_wrong(reader, "\"%.40s%s%.40s\" should be a schema: an object, true or false",
                            label.keyword, label.name ? "/" : "", label.name ? label.name : "");
    if (!grow_tasks(reader)) return 0;
    size_t slot = slot_of(reader, schema);
    if (!reader->table[slot]) {
        uint32_t rule = reader->n_tasks == 0 ? reader->root : expr_rule_new(reader->exprs, "schema");
        reader->tasks[reader->n_tasks] = (struct schema_task){schema, rule, (uint32_t)reader->at, label};
        reader->table[slot] = (uint32_t)++reader->n_tasks;
    }
    return expr_rule(reader->exprs, reader->tasks[reader->table[slot] - 1].rule);
}

/* ---- References ---- */

/* "$ref", within the document: pointers (RFC 6901), anchors, and definitions that stand in an inner schema
 * though the pointer begins at the top, as some programs write them. */

static unsigned hex_value(char c)
{
    return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
           : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                  : 16;
}

/* Reads a part of a pointer into `part` [MAX_PART], with %20 and then ~0 and ~1 for what they stand for;
 * returns its end. What is too long for any name is cut, and then found nowhere. */
static const char *read_pointer_part(const char *at, char *part, size_t *length)
{
    size_t n = 0, kept = 0;
    for (; *at && *at != '/'; at++) {
        char c = *at;
        if (c == '%' && hex_value(at[1]) < 16 && hex_value(at[2]) < 16) {
            c = (char)(hex_value(at[1]) << 4 | hex_value(at[2]));
            at += 2;
        }
        if (n < MAX_PART) part[n++] = c;
    }
    for (size_t i = 0; i < n; i++) {
        bool escape = part[i] == '~' && i + 1 < n && (part[i + 1] == '0' || part[i + 1] == '1');
        part[kept++] = !escape ? part[i] : part[++i] == '0' ? '~' : '/';
    }
    *length = kept;
    return at;
}

static const json_t *item_named(const json_t *array, const char *name, size_t length)
{
    size_t index = 0;
    if (length == 0 || length > 9 || (length > 1 && *name == '0')) return NULL;
    for (size_t i = 0; i < length; i++) {
        if (name[i] < '0' || name[i] > '9') return NULL;
        index = index * 10 + (size_t)(name[i] - '0');
    }
    return json_array_get(array, index);
}

/* What a pointer leads to from `target`; NULL: nothing. */
static const json_t *follow_pointer(const json_t *target, const char *pointer)
{
    char part[MAX_PART];
    size_t length;
    while (*pointer == '/' && target) {
        pointer = read_pointer_part(pointer + 1, part, &length);
        if (json_is_array(target))
            target = item_named(target, part, length);
        else
            target = json_object_getn(target, part, length);
    }
    return *pointer ? NULL : target;
}

/* Notes the anchors and definitions within `value`; those that come first stay. */
static void find_anchors(struct schema_reader *reader, const json_t *value)
{
    const json_t *inner, *defs = json_object_get(value, "$defs"), *anchor = json_object_get(value, "$anchor");
    const char *name;
    char key[MAX_PART];
    size_t i;
    if (schema_text_of_name(anchor)) {
        snprintf(key, sizeof key, "#%.1000s", schema_text_of_name(anchor));
        if (!json_object_get(reader->anchors, key))
            schema_set(reader, reader->anchors, key, schema_borrow(value));
    }
    json_object_foreach((json_t *)(uintptr_t)defs, name, inner)
    {
        snprintf(key, sizeof key, "#/$defs/%.1000s", name);
        if (!json_object_get(reader->anchors, key))
            schema_set(reader, reader->anchors, key, schema_borrow(inner));
    }
    json_object_foreach((json_t *)(uintptr_t)value, name, inner) find_anchors(reader, inner);
    json_array_foreach(value, i, inner) find_anchors(reader, inner);
}

/* An anchor, or a definition that isn't at the top and what is within it. */
static const json_t *find_anchored(struct schema_reader *reader, const char *text)
{
    char key[MAX_PART], part[MAX_PART];
    const char *rest = "";
    size_t length;
    if (!reader->anchors) {
        reader->anchors = json_object();
        find_anchors(reader, reader->document);
    }
    if (!strncmp(text, "#/$defs/", 8)) {
        rest = read_pointer_part(text + 8, part, &length);
        snprintf(key, sizeof key, "#/$defs/%.*s", (int)(length < 1000 ? length : 1000), part);
    } else {
        snprintf(key, sizeof key, "%.1000s", text);
    }
    return follow_pointer(json_object_get(reader->anchors, key), rest);
}

const json_t *schema_resolve(struct schema_reader *reader, const json_t *reference)
{
    const char *text = schema_text_of_name(reference),
               *id = schema_text_of_name(json_object_get(reader->document, "$id"));
    if (!text) {
        schema_wrong(reader, "\"$ref\" should be a text such as \"#/$defs/name\"");
        return NULL;
    }
    if (!schema_spend(reader, 1 + strlen(text) / 16)) return NULL;
    size_t id_length = id ? strcspn(id, "#") : 0;
    if (id_length > 0 && !strncmp(text, id, id_length) && (text[id_length] == '#' || !text[id_length]))
        text = text[id_length] ? text + id_length : "#";
    if (*text != '#') {
        schema_refuse(
            reader,
            "\"$ref\": \"%.60s\" is not supported: only \"#/…\" and \"#anchor\", within the schema; put "
            "what it means into \"$defs\"",
            text);
        return NULL;
    }
    const json_t *target = follow_pointer(reader->document, text + 1);
    if (!target) target = find_anchored(reader, text);
    if (!target)
        schema_wrong(reader, "\"$ref\": there is no \"%.80s\" in the schema", text);
    else if (!json_is_object(target) && !json_is_boolean(target)) {
        schema_wrong(reader, "\"$ref\": \"%.80s\" is not a schema: it should be an object, true or false",
                     text);
        target = NULL;
    }
    return target;
}

const json_t *schema_behind(struct schema_reader *reader, const json_t *schema)
{
    for (int i = 0; i < MAX_CHAIN; i++) {
        const json_t *reference = json_object_get(schema, "$ref");
        if (!reference || json_object_size(schema) > 1) return schema;
        schema = schema_resolve(reader, reference);
        if (!schema) return NULL;
    }
    schema_refuse(reader, "\"$ref\" leads through more than %d others", MAX_CHAIN);
    return NULL;
}

/* ---- Keywords ---- */

static const struct {
    const char *name;
    unsigned types;
} type_names[] = {
    {"null", TYPE_NULL},       {"boolean", TYPE_BOOLEAN},
    {"integer", TYPE_INTEGER}, {"number", TYPE_INTEGER | TYPE_FRACTION},
    {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
    {"object", TYPE_OBJECT},
};

static unsigned type_named(struct schema_reader *reader, const json_t *name)
{
    const char *text = schema_text_of_name(name);
    for (size_t i = 0; text && i < sizeof type_names / sizeof *type_names; i++)
        if (!strcmp(text, type_names[i].name)) return type_names[i].types;
    schema_wrong(reader, "\"type\" should be null, boolean, integer, number, string, array or object");
    return 0;
}

/* Keywords that say something about values of one type only. */
static const struct {
    const char *name;
    unsigned types;
} hints[] = {
    {"properties", TYPE_OBJECT},
    {"required", TYPE_OBJECT},
    {"additionalProperties", TYPE_OBJECT},
    {"patternProperties", TYPE_OBJECT},
    {"propertyNames", TYPE_OBJECT},
    {"minProperties", TYPE_OBJECT},
    {"maxProperties", TYPE_OBJECT},
    {"items", TYPE_ARRAY},
    {"prefixItems", TYPE_ARRAY},
    {"minItems", TYPE_ARRAY},
    {"maxItems", TYPE_ARRAY},
    {"uniqueItems", TYPE_ARRAY},
    {"contains", TYPE_ARRAY},
    {"pattern", TYPE_STRING},
    {"format", TYPE_STRING},
    {"minLength", TYPE_STRING},
    {"maxLength", TYPE_STRING},
    {"minimum", TYPE_INTEGER | TYPE_FRACTION},
    {"maximum", TYPE_INTEGER | TYPE_FRACTION},
    {"exclusiveMinimum", TYPE_INTEGER | TYPE_FRACTION},
    {"exclusiveMaximum", TYPE_INTEGER | TYPE_FRACTION},
    {"multipleOf", TYPE_INTEGER | TYPE_FRACTION},
};

unsigned schema_types_of(const char *keyword)
{
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (!strcmp(keyword, hints[i].name)) return hints[i].types;
    return 0;
}

/* Without "type", what the other keywords are about; without those, anything. */
unsigned schema_types(struct schema_reader *reader, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *name;
    unsigned types = 0;
    size_t i;
    if (json_is_array(type)) {
        json_array_foreach(type, i, name) types |= type_named(reader, name);
    } else if (type) {
        types = type_named(reader, type);
    }
    if (type && json_is_true(json_object_get(schema, "nullable"))) types |= TYPE_NULL;
    if (type) return types;
    for (i = 0; i < sizeof hints / sizeof *hints; i++)
        if (json_object_get(schema, hints[i].name)) types |= hints[i].types;
    return types ? types : TYPE_ANY;
}

uint32_t schema_count(struct schema_reader *reader, const json_t *schema, const char *key, uint32_t otherwise)
{
    const json_t *value = json_object_get(schema, key);
    if (!value) return otherwise;
    double number = json_number_value(value);
    if (!json_is_number(value) || number < 0 || number != floor(number))
        return schema_wrong(reader, "\"%s\" should be a whole number", key);
    if (number > 1e9)
        return otherwise == EXPR_NO_LIMIT ? EXPR_NO_LIMIT : schema_refuse(reader, "\"%s\" is too large", key);
    return (uint32_t)number;
}

/* Keywords that restrict a text in ways that a grammar cannot, or that nobody has needed yet. */
static bool refuse_keywords(struct schema_reader *reader, const json_t *schema)
{
    static const char *const refused[] = {"$dynamicRef", "$recursiveRef"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (json_object_get(schema, refused[i]))
            return schema_refuse(reader, "\"%s\" is not supported", refused[i]), true;
    return false;
}

/* ---- Alternatives, values, references ---- */

json_t *schema_without(struct schema_reader *reader, const json_t *schema, const char *key)
{
    json_t *copy = schema_keep(reader, json_copy((json_t *)(uintptr_t)schema));
    if (copy) json_object_del(copy, key);
    return copy;
}

bool schema_says_something(const json_t *schema)
{
    static const char *const others[] = {"type",
                                         "$ref",
                                         "allOf",
                                         "anyOf",
                                         "oneOf",
                                         "enum",
                                         "const",
                                         "not",
                                         "unevaluatedProperties",
                                         "unevaluatedItems"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (json_object_get(schema, others[i])) return true;
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (json_object_get(schema, hints[i].name)) return true;
    return false;
}

/* Values of alternatives that only list values, for one list of all. With `once`, those that several
 * alternatives list are left out. */
struct collected {
    json_t *values; /* an array */
    json_t *counts; /* an object: in how many alternatives each is, by schema_key */
    bool once;
};

/* The values of one alternative; false: an error. */
static bool collect_values(struct schema_reader *reader, struct collected *into, const json_t *listed)
{
    json_t *own = json_object(), *value;
    size_t i;
    json_array_foreach(listed, i, value)
    {
        char *key = schema_key(reader, value);
        if (!key || json_object_get(own, key)) {
            free(key);
            continue;
        }
        json_int_t count = json_integer_value(json_object_get(into->counts, key)) + 1;
        schema_set(reader, own, key, json_true());
        schema_set(reader, into->counts, key, json_integer(count));
        if (count == 1) schema_append(reader, into->values, schema_borrow(value));
        free(key);
    }
    json_decref(own);
    return schema_spend(reader, json_array_size(listed));
}

static void add_collected(struct schema_reader *reader, const struct collected *from, uint32_t list)
{
    const json_t *value;
    size_t i;
    json_array_foreach(from->values, i, value)
    {
        char *key = from->once ? schema_key(reader, value) : NULL;
        if (!key || json_integer_value(json_object_get(from->counts, key)) == 1)
            expr_add(reader->exprs, list, schema_literal(reader, value));
        free(key);
    }
}

static uint32_t read_alternatives(struct schema_reader *reader, const json_t *schema, const char *key)
{
    const json_t *alternatives = json_object_get(schema, key), *alternative;
    uint32_t list = expr_alt(reader->exprs);
    size_t i;
    if (!json_is_array(alternatives) || json_array_size(alternatives) == 0)
        return schema_wrong(reader, "\"%s\" should be an array of schemas, with one at least", key);
    const json_t *rest = schema_without(reader, schema, key);
    bool closing = schema_is_closing(schema);
    if (closing) rest = schema_without(reader, rest, "unevaluatedProperties");
    if (closing && rest) rest = schema_without(reader, rest, "unevaluatedItems");
    bool alone = rest && !schema_says_something(rest);
    struct collected collected = {json_array(), json_object(), !strcmp(key, "oneOf")};
    json_array_foreach(alternatives, i, alternative)
    {
        const json_t *both = alone && !closing ? alternative : schema_merge(reader, rest, alternative);
        if (closing && both) both = schema_close(reader, both, schema);
        const json_t *behind = reader->exprs->status ? NULL : schema_behind(reader, both);
        if (reader->exprs->status) break;
        if (behind && (json_object_get(behind, "enum") || json_object_get(behind, "const")) &&
            !json_object_get(behind, "allOf") && !json_object_get(behind, "$ref") &&
            !json_object_get(behind, "anyOf") && !json_object_get(behind, "oneOf") &&
            !json_object_get(behind, "not") && !schema_is_closing(behind))
            collect_values(reader, &collected, schema_listed(reader, behind));
        else
            expr_add(reader->exprs, list, schema_value(reader, both, SCHEMA_LABEL(key, NULL, i + 1)));
    }
    if (!reader->exprs->status) add_collected(reader, &collected, list);
    json_decref(collected.values);
    json_decref(collected.counts);
    return list;
}

static uint32_t read_values(struct schema_reader *reader, const json_t *schema)
{
    const json_t *values = schema_listed(reader, schema), *value;
    uint32_t list = expr_alt(reader->exprs);
    size_t i;
    json_array_foreach(values, i, value) expr_add(reader->exprs, list, schema_literal(reader, value));
    return list;
}

static uint32_t read_types(struct schema_reader *reader, const json_t *schema)
{
    struct exprs *exprs = reader->exprs;
    unsigned types = schema_types(reader, schema);
    uint32_t list = expr_alt(exprs);
    if (!schema_says_something(schema)) return schema_any_value(reader);
    if (types & TYPE_OBJECT) expr_add(exprs, list, schema_object(reader, schema));
    if (types & TYPE_ARRAY) expr_add(exprs, list, schema_array(reader, schema));
    if (types & TYPE_STRING) expr_add(exprs, list, schema_string(reader, schema));
    if (types & (TYPE_INTEGER | TYPE_FRACTION))
        expr_add(exprs, list, schema_number(reader, schema, !(types & TYPE_FRACTION)));
    if (types & TYPE_BOOLEAN) expr_add(exprs, list, expr_text(exprs, "true"));
    if (types & TYPE_BOOLEAN) expr_add(exprs, list, expr_text(exprs, "false"));
    if (types & TYPE_NULL) expr_add(exprs, list, expr_text(exprs, "null"));
    return list;
}

static uint32_t read_schema(struct schema_reader *reader, const json_t *schema)
{
    if (!schema_spend(reader, json_object_size(schema))) return 0;
    const json_t *reference = json_object_get(schema, "$ref");
    if (reference) {
        const json_t *rest = schema_without(reader, schema, "$ref");
        if (rest && !schema_says_something(rest)) {
            const json_t *target = schema_resolve(reader, reference);
            return target ? schema_value(reader, target, SCHEMA_LABEL(json_string_value(reference), NULL, 0))
                          : 0;
        }
    }
    schema = schema_flatten(reader, schema);
    bool alternatives = json_object_get(schema, "anyOf") || json_object_get(schema, "oneOf");
    /* Alternatives get the keywords beside them, "not" included. */
    if (schema && !alternatives && json_object_get(schema, "not")) schema = schema_exclude(reader, schema);
    if (!schema || reader->exprs->status || refuse_keywords(reader, schema)) return 0;
    if (json_is_false(schema)) return expr_never(reader->exprs);
    if (json_is_true(schema)) return schema_any_value(reader);
    if (json_object_get(schema, "anyOf")) return read_alternatives(reader, schema, "anyOf");
    if (json_object_get(schema, "oneOf")) return read_alternatives(reader, schema, "oneOf");
    if (json_object_get(schema, "enum") || json_object_get(schema, "const"))
        return read_values(reader, schema);
    return read_types(reader, schema);
}

/* ---- Documents ---- */

int schema_rules(struct schema_reader *reader, const json_t *schema)
{
    struct exprs *exprs = reader->exprs;
    if (json_is_boolean(schema)) {
        expr_define(exprs, reader->root, json_is_true(schema) ? schema_any_value(reader) : expr_never(exprs));
        return exprs->status;
    }
    schema_value(reader, schema, SCHEMA_LABEL("the schema", NULL, 0));
    for (reader->at = 0; reader->at < reader->n_tasks && !exprs->status; reader->at++) {
        uint32_t body = read_schema(reader, reader->tasks[reader->at].schema);
        if (!exprs->status) expr_define(exprs, reader->tasks[reader->at].rule, body);
    }
    return exprs->status;
}

void schema_reader_free(struct schema_reader *reader)
{
    schema_check_free(reader->check);
    json_decref(reader->made);
    json_decref(reader->anchors);
    json_decref(reader->noted);
    free(reader->tasks);
    free(reader->table);
}

/* Makes the document's rules from `root` on. */
static void read_document(struct exprs *exprs, json_t *document, uint32_t root)
{
    struct schema_reader reader = {.exprs = exprs, .root = root, .document = document, .made = json_array()};
    if (reader.made)
        schema_rules(&reader, document);
    else
        exprs->status = error_memory("JSON schema");
    schema_reader_free(&reader);
}

json_t *schema_text(struct exprs *exprs, const char *text, size_t length, size_t flags, json_error_t *error)
{
    json_t *rounded = json_object();
    json_t *document =
        rounded ? json_read_rounding(text, length, flags | JSON_DECODE_ANY | JSON_ALLOW_NUL, error, rounded)
                : NULL;
    const char *keyword = document ? json_read_listed(document, rounded) : NULL;
    if (!rounded || (!document && json_read_lacked_memory(error)))
        exprs->status = error_memory("JSON schema");
    else if (keyword)
        exprs->status = error_raise(
            ENGINE_ERROR_DATA,
            "JSON schema: \"%s\" has an integer of more than 64 bits, which no double holds", keyword);
    json_decref(rounded);
    if (!exprs->status) return document;
    json_decref(document);
    return NULL;
}

int schema_read(struct exprs *exprs, const char *text, size_t length)
{
    json_error_t error;
    exprs->is_schema = true;
    json_t *document = schema_text(exprs, text, length, 0, &error);
    if (exprs->status) return exprs->status;
    if (!document)
        return exprs->status =
                   error_raise(ENGINE_ERROR_DATA, "JSON schema, line %d: %s", error.line, error.text);
    read_document(exprs, document, 0);
    json_decref(document);
    return exprs->status;
}

uint32_t schema_part(struct exprs *exprs, json_t *document)
{
    uint32_t root = expr_rule_new(exprs, "schema");
    if (!exprs->status) read_document(exprs, document, root);
    return expr_rule(exprs, root);
}

int schema_any_object(struct exprs *exprs)
{
    struct schema_reader reader = {.exprs = exprs};
    expr_define(exprs, 0, schema_any_members(&reader));
    return exprs->status;
}
