/* schema-array.c: arrays. */
#include <stdlib.h>

#include "base/error.h"
#include "grammar/schema.h"

/* With "uniqueItems", the set of the items so far decides what may follow: a rule for each set. */
#define MAX_UNIQUE 10
/* Where an item may stand that an array has to contain. */
#define MAX_PLACES 64

/* Items after the first `count`: their schema; NULL: none may follow. */
static const json_t *rest_of(const json_t *schema, const json_t *items, const json_t *first, uint32_t least)
{
    const json_t *rest = json_is_array(items) ? json_object_get(schema, "additionalItems") : items;
    if (rest) return json_is_false(rest) ? NULL : rest;
    /* Without a word about them, there are only those that have to be. */
    return json_array_size(first) < least || !first ? json_true() : NULL;
}

static uint32_t array_separator(struct schema_reader *reader)
{
    return EXPR_SEQ_OF(reader->exprs, expr_text(reader->exprs, ","), schema_space(reader));
}

/* What may follow the items of a set, from the first value not in it. */
static uint32_t unique_from(struct schema_reader *reader, const json_t *values, const uint32_t *rules,
                            uint32_t set, uint32_t least, uint32_t most)
{
    struct exprs *exprs = reader->exprs;
    uint32_t list = expr_alt(exprs), count = (uint32_t)__builtin_popcount(set);
    const json_t *value;
    size_t i;
    if (count >= least) expr_add(exprs, list, expr_text(exprs, ""));
    json_array_foreach(values, i, value)
    {
        if (count >= most || (set >> i & 1)) continue;
        uint32_t item = EXPR_SEQ_OF(exprs, schema_literal(reader, value), schema_space(reader),
                                    expr_rule(exprs, rules[set | 1u << i]));
        expr_add(exprs, list, count > 0 ? EXPR_SEQ_OF(exprs, array_separator(reader), item) : item);
    }
    return list;
}

/* Different ones of a few values, in any order. */
static uint32_t unique_items(struct schema_reader *reader, const json_t *schema, uint32_t least,
                             uint32_t most)
{
    struct exprs *exprs = reader->exprs;
    const json_t *items = json_object_get(schema, "items");
    const json_t *flat = json_is_object(items) ? schema_flatten(reader, items) : NULL;
    const json_t *values = flat ? schema_finite(reader, flat, MAX_UNIQUE) : NULL;
    if (exprs->status) return 0;
    if (!values || json_object_get(schema, "prefixItems"))
        return schema_refuse(
            reader,
            "\"uniqueItems\" is supported for up to %d values that \"items\" lists, as in \"enum\": "
            "leave it out, and check the array afterwards",
            MAX_UNIQUE);
    uint32_t n_sets = 1u << json_array_size(values), *rules = calloc(n_sets, sizeof *rules);
    if (!rules) {
        exprs->status = error_memory("JSON schema");
        return 0;
    }
    for (uint32_t set = 0; set < n_sets; set++) rules[set] = expr_rule_new(exprs, "unique");
    for (uint32_t set = 0; set < n_sets && schema_spend(reader, MAX_UNIQUE); set++)
        expr_define(exprs, rules[set], unique_from(reader, values, rules, set, least, most));
    uint32_t found = EXPR_SEQ_OF(exprs, expr_text(exprs, "["), schema_space(reader),
                                 expr_rule(exprs, rules[0]), expr_text(exprs, "]"));
    free(rules);
    return found;
}

/* Arrays of which no item is what "contains" says. */
static const json_t *without_contained(struct schema_reader *reader, const json_t *schema)
{
    const json_t *items = json_object_get(schema, "items");
    if (json_object_get(schema, "prefixItems") || json_is_array(items)) {
        schema_refuse(reader, "\"maxContains\" 0 is not supported beside \"prefixItems\"");
        return NULL;
    }
    json_t *copy = schema_keep(reader, json_copy((json_t *)(size_t)schema));
    json_t *both = json_pack("{s:[O,{s:O}]}", "allOf", items ? items : json_true(), "not",
                             json_object_get(schema, "contains"));
    schema_set(reader, copy, "items", both);
    if (!copy) return NULL;
    json_object_del(copy, "contains");
    return copy;
}

/* Arrays of which one item at least is what "contains" says: it may be the first, the second, and so on. */
static uint32_t containing(struct schema_reader *reader, const json_t *schema, uint32_t least, uint32_t most)
{
    struct exprs *exprs = reader->exprs;
    const json_t *items = json_object_get(schema, "items"), *contains = json_object_get(schema, "contains");
    uint32_t last = most != EXPR_NO_LIMIT ? most : least > 0 ? least : 1;
    if (schema_count(reader, schema, "minContains", 1) != 1 || json_object_get(schema, "maxContains") ||
        json_object_get(schema, "prefixItems") || json_is_array(items) ||
        json_is_true(json_object_get(schema, "uniqueItems")) || last > MAX_PLACES)
        return schema_refuse(
            reader,
            "\"contains\" is supported with \"minContains\" up to 1, without \"maxContains\", "
            "\"prefixItems\" and \"uniqueItems\", and with up to %d items to be counted",
            MAX_PLACES);
    const json_t *both =
        schema_keep(reader, json_pack("{s:[O,O]}", "allOf", items ? items : json_true(), contains));
    uint32_t list = expr_alt(exprs);
    for (uint32_t at = 0; at < last && schema_spend(reader, 1); at++) {
        uint32_t before = EXPR_SEQ_OF(
            exprs, schema_value(reader, items ? items : json_true(), SCHEMA_LABEL("items", NULL, 0)),
            schema_space(reader), array_separator(reader));
        uint32_t after =
            EXPR_SEQ_OF(exprs, array_separator(reader),
                        schema_value(reader, items ? items : json_true(), SCHEMA_LABEL("items", NULL, 0)),
                        schema_space(reader));
        bool any = most == EXPR_NO_LIMIT && at + 1 == last;
        uint32_t left = least > at + 1 ? least - at - 1 : 0;
        expr_add(exprs, list,
                 EXPR_SEQ_OF(exprs, expr_repeat(exprs, before, at, any ? EXPR_NO_LIMIT : at),
                             schema_value(reader, both, SCHEMA_LABEL("contains", NULL, 0)),
                             schema_space(reader),
                             expr_repeat(exprs, after, left,
                                         any                     ? EXPR_NO_LIMIT
                                         : most == EXPR_NO_LIMIT ? most
                                                                 : most - at - 1)));
    }
    return EXPR_SEQ_OF(exprs, expr_text(exprs, "["), schema_space(reader), list, expr_text(exprs, "]"));
}

uint32_t schema_array(struct schema_reader *reader, const json_t *schema)
{
    struct exprs *exprs = reader->exprs;
    const json_t *items = json_object_get(schema, "items"), *first = json_object_get(schema, "prefixItems"),
                 *item;
    uint32_t least = schema_count(reader, schema, "minItems", 0);
    uint32_t most = schema_count(reader, schema, "maxItems", EXPR_NO_LIMIT);
    if (json_is_array(items)) first = items;
    if (first && !json_is_array(first)) {
        /* As llama.cpp, which takes one schema here as that of all items. */
        if (!items) items = first;
        first = NULL;
    }
    if (json_object_get(schema, "contains")) {
        uint32_t at_least = schema_count(reader, schema, "minContains", 1),
                 at_most = schema_count(reader, schema, "maxContains", EXPR_NO_LIMIT);
        if (at_least > at_most) return expr_never(exprs);
        if (at_most == 0) {
            const json_t *rest = without_contained(reader, schema);
            return rest ? schema_array(reader, rest) : 0;
        }
        if (at_least > 0 || at_most != EXPR_NO_LIMIT) return containing(reader, schema, least, most);
    }
    if (json_is_true(json_object_get(schema, "uniqueItems")) && most > 1)
        return unique_items(reader, schema, least, most);

    uint32_t list = EXPR_SEQ_OF(exprs, expr_text(exprs, "["), schema_space(reader)), count = 0;
    size_t i;
    json_array_foreach(first, i, item)
    {
        if (json_is_false(item)) most = count; /* there may be none here */
        if (count == most || !schema_spend(reader, 1)) break;
        if (count++ > 0) expr_add(exprs, list, array_separator(reader));
        expr_add(exprs, list,
                 schema_value(reader, item,
                              SCHEMA_LABEL(json_is_array(items) ? "items" : "prefixItems", NULL, i + 1)));
        expr_add(exprs, list, schema_space(reader));
    }
    const json_t *rest = rest_of(schema, items, first, least);
    struct schema_label label = {json_is_array(items) ? "additionalItems" : "items", NULL, 0};
    least = least > count ? least - count : 0;
    if (most != EXPR_NO_LIMIT) most -= count;
    if (!rest) most = 0;
    if (least > most) return expr_never(exprs);
    if (most > 0) {
        if (count > 0) {
            uint32_t more = EXPR_SEQ_OF(exprs, array_separator(reader), schema_value(reader, rest, label),
                                        schema_space(reader));
            expr_add(exprs, list, expr_repeat(exprs, more, least, most));
        } else {
            uint32_t more = EXPR_SEQ_OF(exprs, array_separator(reader), schema_value(reader, rest, label),
                                        schema_space(reader));
            uint32_t all = EXPR_SEQ_OF(
                exprs, schema_value(reader, rest, label), schema_space(reader),
                expr_repeat(exprs, more, least > 0 ? least - 1 : 0, most == EXPR_NO_LIMIT ? most : most - 1));
            expr_add(exprs, list, least > 0 ? all : expr_repeat(exprs, all, 0, 1));
        }
    }
    expr_add(exprs, list, expr_text(exprs, "]"));
    return list;
}
