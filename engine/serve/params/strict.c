/* strict.c: schemas with "strict": true may have no keyword that would be ignored. Grammars ignore those that
 * they don't know (docs/grammars.md), because that is what JSON schema says; "requried" then restricts
 * nothing. */
#include "serve/params/params.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 200

enum kind {
    PLAIN, /* says something that is no schema, or is an annotation */
    SCHEMA,
    SCHEMAS,       /* an array of them, or one */
    NAMED_SCHEMAS, /* an object of them */
};

/* What docs/grammars.md lists, and annotations. */
static const struct {
    const char *name;
    enum kind kind;
} keywords[] = {
    {"type", PLAIN},
    {"nullable", PLAIN},
    {"enum", PLAIN},
    {"const", PLAIN},
    {"not", SCHEMA},
    {"properties", NAMED_SCHEMAS},
    {"required", PLAIN},
    {"additionalProperties", SCHEMA},
    {"patternProperties", NAMED_SCHEMAS},
    {"propertyNames", SCHEMA},
    {"minProperties", PLAIN},
    {"maxProperties", PLAIN},
    {"items", SCHEMAS},
    {"prefixItems", SCHEMAS},
    {"additionalItems", SCHEMA},
    {"minItems", PLAIN},
    {"maxItems", PLAIN},
    {"uniqueItems", PLAIN},
    {"contains", SCHEMA},
    {"minContains", PLAIN},
    {"maxContains", PLAIN},
    {"minLength", PLAIN},
    {"maxLength", PLAIN},
    {"pattern", PLAIN},
    {"format", PLAIN},
    {"minimum", PLAIN},
    {"maximum", PLAIN},
    {"exclusiveMinimum", PLAIN},
    {"exclusiveMaximum", PLAIN},
    {"multipleOf", PLAIN},
    {"anyOf", SCHEMAS},
    {"oneOf", SCHEMAS},
    {"allOf", SCHEMAS},
    {"if", SCHEMA},
    {"then", SCHEMA},
    {"else", SCHEMA},
    {"dependentRequired", PLAIN},
    {"dependentSchemas", NAMED_SCHEMAS},
    {"dependencies", NAMED_SCHEMAS},
    {"unevaluatedItems", SCHEMA},
    {"unevaluatedProperties", SCHEMA},
    {"$ref", PLAIN},
    {"$dynamicRef", PLAIN},
    {"$recursiveRef", PLAIN},
    {"$defs", NAMED_SCHEMAS},
    {"definitions", NAMED_SCHEMAS},
    {"$id", PLAIN},
    {"id", PLAIN},
    {"$anchor", PLAIN},
    {"$dynamicAnchor", PLAIN},
    {"$recursiveAnchor", PLAIN},
    {"$schema", PLAIN},
    {"$vocabulary", PLAIN},
    {"$comment", PLAIN},
    {"title", PLAIN},
    {"description", PLAIN},
    {"default", PLAIN},
    {"example", PLAIN},
    {"examples", PLAIN},
    {"deprecated", PLAIN},
    {"readOnly", PLAIN},
    {"writeOnly", PLAIN},
    {"contentEncoding", PLAIN},
    {"contentMediaType", PLAIN},
    {"contentSchema", PLAIN},
};
#define N_KEYWORDS (sizeof keywords / sizeof *keywords)

/* A schema within others, for the message: "#/properties/name". */
struct place {
    const struct place *above;
    const char *keyword, *name;
    unsigned depth;
};

static void put_place(const struct place *place, char *text, size_t size)
{
    if (!place) {
        snprintf(text, size, "#");
        return;
    }
    put_place(place->above, text, size);
    size_t length = strlen(text);
    snprintf(text + length, size - length, "/%.40s%s%.40s", place->keyword, place->name ? "/" : "",
             place->name ? place->name : "");
}

static bool strict_check_schema(const json_t *schema, const struct place *place, const char *param,
                                struct api_error *error);

static bool check_below(const json_t *value, enum kind kind, const struct place *above, const char *keyword,
                        const char *param, struct api_error *error)
{
    struct place place = {.above = above, .keyword = keyword, .depth = above ? above->depth + 1 : 1};
    const json_t *item;
    size_t i;
    bool good = true;
    if (kind == PLAIN) return true;
    if (kind == NAMED_SCHEMAS) {
        json_object_foreach((json_t *)(size_t)value, place.name, item) good =
            good && strict_check_schema(item, &place, param, error);
        return good;
    }
    if (!json_is_array(value)) return strict_check_schema(value, &place, param, error);
    json_array_foreach(value, i, item)
    {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        place.name = number;
        good = good && strict_check_schema(item, &place, param, error);
    }
    return good;
}

/* What is no schema at all, and what is nested too deep, is for those who enforce it to refuse. */
static bool strict_check_schema(const json_t *schema, const struct place *place, const char *param,
                                struct api_error *error)
{
    const char *name;
    const json_t *value;
    bool good = true;
    if (place && place->depth > MAX_DEPTH) return true;
    json_object_foreach((json_t *)(size_t)schema, name, value)
    {
        char where[200];
        size_t i = 0;
        while (i < N_KEYWORDS && strcmp(keywords[i].name, name) != 0) i++;
        if (!good || strncmp(name, "x-", 2) == 0) continue;
        if (i < N_KEYWORDS) {
            good = check_below(value, keywords[i].kind, place, keywords[i].name, param, error);
            continue;
        }
        put_place(place, where, sizeof where);
        good = api_error_in(
            error, param,
            "JSON schema, %s: \"%.60s\" is not a keyword that can be enforced, which \"strict\" asks "
            "for",
            where, name);
    }
    return good;
}

bool strict_check(const json_t *schema, const char *param, struct api_error *error)
{
    return strict_check_schema(schema, NULL, param, error);
}

bool strict_check_format(const json_t *format, const char *param, struct api_error *error)
{
    const json_t *inner = json_object_get(format, "json_schema");
    const json_t *strict = json_object_get(inner ? inner : format, "strict"),
                 *schema = json_object_get(inner ? inner : format, "schema");
    if (strict && !json_is_null(strict) && !json_is_boolean(strict))
        return api_error_in(error, param, "\"strict\" should be true or false");
    return !json_is_true(strict) || strict_check(schema, param, error);
}
