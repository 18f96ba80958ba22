/* schema-array.c: arrays. */
#include <stdlib.h>

#include "base/error.h"
#include "grammar/schema.h"

/* With "uniqueItems", the set of the items so far decides what may follow: a rule for each set. */
#define MAX_UNIQUE 10
/* How many items "contains" may have counted. */
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

/* How many items an array has to have, and how many of them are what "contains" says: states of a position
 * and a count. */
struct counting {
    struct exprs *exprs;
    uint32_t separator, any, other, contained; /* rules; `other`: an item that isn't counted */
    uint32_t least, most, at_least, at_most;   /* of items, and of those that are contained */
    uint32_t n_items, n_contained;             /* beyond these, one state stands for all */
    uint32_t *rules;                           /* [n_items + 1, n_contained + 1] */
};

static uint32_t state_of(const struct counting *counting, uint32_t items, uint32_t contained)
{
    if (items > counting->n_items) items = counting->n_items;
    if (contained > counting->n_contained) contained = counting->n_contained;
    return expr_rule(counting->exprs, counting->rules[items * (counting->n_contained + 1) + contained]);
}

/* What may follow `items` items, of which `contained` are counted. */
static uint32_t counted_from(const struct counting *counting, uint32_t items, uint32_t contained)
{
    struct exprs *exprs = counting->exprs;
    uint32_t list = expr_alt(exprs), choice = expr_alt(exprs);
    bool limited = counting->at_most != EXPR_NO_LIMIT;
    if (items >= counting->least && contained >= counting->at_least)
        expr_add(exprs, list, expr_text(exprs, ""));
    if (counting->most != EXPR_NO_LIMIT && items >= counting->most) return list;
    uint32_t other = expr_rule(exprs, limited ? counting->other : counting->any);
    expr_add(exprs, choice, EXPR_SEQ_OF(exprs, other, state_of(counting, items + 1, contained)));
    if (contained < (limited ? counting->at_most : counting->at_least))
        expr_add(exprs, choice,
                 EXPR_SEQ_OF(exprs, expr_rule(exprs, counting->contained),
                             state_of(counting, items + 1, contained + 1)));
    if (items > 0) choice = EXPR_SEQ_OF(exprs, expr_rule(exprs, counting->separator), choice);
    expr_add(exprs, list, choice);
    return list;
}

static uint32_t item_rule(struct schema_reader *reader, const json_t *schema, const char *key)
{
    uint32_t rule = expr_rule_new(reader->exprs, key);
    expr_define(reader->exprs, rule,
                EXPR_SEQ_OF(reader->exprs, schema_value(reader, schema, SCHEMA_LABEL(key, NULL, 0)),
                            schema_space(reader)));
    return rule;
}

/* Without a limit for those that are contained, any item may go uncounted. */
static void counting_rules(struct schema_reader *reader, const json_t *schema, struct counting *counting)
{
    struct exprs *exprs = reader->exprs;
    const json_t *items = json_object_get(schema, "items"), *contains = json_object_get(schema, "contains");
    if (!items) items = json_true();
    const json_t *both = schema_keep(reader, json_pack("{s:[O,O]}", "allOf", items, contains));
    counting->separator = expr_rule_new(exprs, "separator");
    expr_define(exprs, counting->separator, array_separator(reader));
    counting->contained = item_rule(reader, both, "contains");
    if (counting->at_most == EXPR_NO_LIMIT) {
        counting->any = item_rule(reader, items, "items");
    } else {
        const json_t *rest = schema_keep(reader, json_pack("{s:[O,{s:O}]}", "allOf", items, "not", contains));
        counting->other = item_rule(reader, rest, "items");
    }
}

/* Arrays in which the items are counted that are what "contains" says. */
static uint32_t containing(struct schema_reader *reader, const json_t *schema, struct counting counting)
{
    struct exprs *exprs = reader->exprs;
    const json_t *items = json_object_get(schema, "items");
    if (counting.most != EXPR_NO_LIMIT && counting.at_least > counting.most) return expr_never(exprs);
    if (counting.most != EXPR_NO_LIMIT && counting.at_most >= counting.most) counting.at_most = EXPR_NO_LIMIT;
    bool limited = counting.at_most != EXPR_NO_LIMIT;
    counting.n_items = counting.most != EXPR_NO_LIMIT ? counting.most
                       : counting.least > 0           ? counting.least
                                                      : 1;
    counting.n_contained = limited ? counting.at_most : counting.at_least;
    if (json_object_get(schema, "prefixItems") || json_is_array(items) ||
        json_is_true(json_object_get(schema, "uniqueItems")) || counting.n_items > MAX_PLACES ||
        counting.n_contained > MAX_PLACES)
        return schema_refuse(
            reader,
            "\"contains\" is supported without \"prefixItems\" and \"uniqueItems\", and with "
            "up to %d items to be counted",
            MAX_PLACES);
    uint32_t width = counting.n_contained + 1, n_states = (counting.n_items + 1) * width;
    counting.rules = calloc(n_states, sizeof *counting.rules);
    if (!counting.rules) {
        exprs->status = error_memory("JSON schema");
        return 0;
    }
    counting_rules(reader, schema, &counting);
    for (uint32_t i = 0; i < n_states && !exprs->status; i++)
        counting.rules[i] = expr_rule_new(exprs, "counted");
    for (uint32_t i = 0; i < n_states && schema_spend(reader, 4); i++)
        expr_define(exprs, counting.rules[i], counted_from(&counting, i / width, i % width));
    uint32_t all = EXPR_SEQ_OF(exprs, expr_text(exprs, "["), schema_space(reader), state_of(&counting, 0, 0),
                               expr_text(exprs, "]"));
    free(counting.rules);
    return all;
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
        if (at_least > 0 || at_most != EXPR_NO_LIMIT)
            return containing(
                reader, schema,
                (struct counting){
                    .exprs = exprs, .least = least, .most = most, .at_least = at_least, .at_most = at_most});
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
