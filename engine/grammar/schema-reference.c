/* schema-reference.c: "$ref", within the document: pointers (RFC 6901), anchors, and definitions that stand in an inner
 * schema though the pointer begins at the top, as some programs write them. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "grammar/schema.h"

#define MOST_PART 1024
/* References that lead to references. */
#define MOST_CHAIN 10000

static unsigned hex_value(char c)
{
    return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
           : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                  : 16;
}

/* Reads a part of a pointer into `part` [MOST_PART], with %20 and then ~0 and ~1 for what they stand for; returns its
 * end. What is too long for any name is cut, and then found nowhere. */
static const char *read_part(const char *at, char *part, size_t *length)
{
    size_t n = 0, kept = 0;
    for (; *at && *at != '/'; at++) {
        char c = *at;
        if (c == '%' && hex_value(at[1]) < 16 && hex_value(at[2]) < 16) {
            c = (char)(hex_value(at[1]) << 4 | hex_value(at[2]));
            at += 2;
        }
        if (n < MOST_PART) part[n++] = c;
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
static const json_t *follow(const json_t *target, const char *pointer)
{
    char part[MOST_PART];
    size_t length;
    while (*pointer == '/' && target) {
        pointer = read_part(pointer + 1, part, &length);
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
    char key[MOST_PART];
    size_t i;
    if (schema_text_of_name(anchor)) {
        snprintf(key, sizeof key, "#%.1000s", schema_text_of_name(anchor));
        if (!json_object_get(reader->anchors, key))
            json_object_set(reader->anchors, key, (json_t *)(uintptr_t)value);
    }
    json_object_foreach((json_t *)(uintptr_t)defs, name, inner)
    {
        snprintf(key, sizeof key, "#/$defs/%.1000s", name);
        if (!json_object_get(reader->anchors, key))
            json_object_set(reader->anchors, key, (json_t *)(uintptr_t)inner);
    }
    json_object_foreach((json_t *)(uintptr_t)value, name, inner) find_anchors(reader, inner);
    json_array_foreach(value, i, inner) find_anchors(reader, inner);
}

/* An anchor, or a definition that isn't at the top and what is within it. */
static const json_t *anchored(struct schema_reader *reader, const char *text)
{
    char key[MOST_PART], part[MOST_PART];
    const char *rest = "";
    size_t length;
    if (!reader->anchors) {
        reader->anchors = json_object();
        find_anchors(reader, reader->document);
    }
    if (!strncmp(text, "#/$defs/", 8)) {
        rest = read_part(text + 8, part, &length);
        snprintf(key, sizeof key, "#/$defs/%.*s", (int)(length < 1000 ? length : 1000), part);
    } else {
        snprintf(key, sizeof key, "%.1000s", text);
    }
    return follow(json_object_get(reader->anchors, key), rest);
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
    const json_t *target = follow(reader->document, text + 1);
    if (!target) target = anchored(reader, text);
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
    for (int i = 0; i < MOST_CHAIN; i++) {
        const json_t *reference = json_object_get(schema, "$ref");
        if (!reference || json_object_size(schema) > 1) return schema;
        schema = schema_resolve(reader, reference);
        if (!schema) return NULL;
    }
    schema_refuse(reader, "\"$ref\" leads through more than %d others", MOST_CHAIN);
    return NULL;
}
