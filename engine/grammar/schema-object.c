/* schema-object.c: objects.
 *
 * Properties come in the order in which the schema names them. Each place in that order is a rule: after it,
 * the names that may come next are a tree of their own. If the number of properties is limited, each place
 * has a rule for each number so far. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "grammar/schema.h"

/* Named properties where all numbers of them have to be told apart. */
#define MAX_COUNTED 64
#define NONE        UINT32_MAX
/* Names that "propertyNames" lists, and patterns side by side. */
#define MAX_NAMES    10000
#define MAX_PATTERNS 64

/* ---- Trees of names ---- */

/* The names that may come next in an object, as a tree by their first bytes, so that a text is followed in
 * one place of the grammar however many names there are.
 *
 * Trees never change: adding a name makes a new tree, which shares all but the way to that name. So an object
 * has a tree for each of its places at little cost. */

#define NAME_TREE_EMPTY UINT32_MAX

struct name_edge {
    const char *text; /* [length] */
    uint32_t length;
    uint32_t node; /* NAME_TREE_EMPTY: the name ends here */
    uint32_t rule; /* of the node, or of what comes after the name */
};

struct name_node {
    uint32_t first, count; /* edges, whose texts begin with different bytes */
    uint32_t rule;
};

struct name_trees {
    struct schema_reader *reader;
    struct name_node *nodes; /* [n_nodes] */
    size_t n_nodes, node_capacity;
    struct name_edge *edges; /* [n_edges] */
    size_t n_edges, edge_capacity;
};

/* A node of edges [count], which may be those of another node; `replaced` (count: none) becomes `edge`, and
 * with none it is one more. */
static uint32_t name_tree_add_node(struct name_trees *trees, uint32_t first, uint32_t count,
                                   uint32_t replaced, struct name_edge edge)
{
    struct exprs *exprs = trees->reader->exprs;
    uint32_t total = count + (replaced == count);
    if (!GRAMMAR_RESERVE(&exprs->status, trees->edges, trees->edge_capacity, trees->n_edges + total) ||
        !GRAMMAR_RESERVE(&exprs->status, trees->nodes, trees->node_capacity, trees->n_nodes + 1) ||
        !schema_spend(trees->reader, total))
        return NAME_TREE_EMPTY;
    struct name_node node = {(uint32_t)trees->n_edges, total, expr_rule_new(exprs, "names")};
    uint32_t list = expr_alt(exprs);
    for (uint32_t i = 0; i < total; i++) {
        struct name_edge one = i == replaced ? edge : trees->edges[first + i];
        trees->edges[trees->n_edges++] = one;
        expr_add(exprs, list,
                 EXPR_SEQ_OF(exprs, expr_literal(exprs, one.text, one.length), expr_rule(exprs, one.rule)));
    }
    expr_define(exprs, node.rule, list);
    trees->nodes[trees->n_nodes] = node;
    return (uint32_t)trees->n_nodes++;
}

/* The tree of the names of `tree` and one more: `text`, which lives as long as the trees, is no beginning of
 * another name, nor the reverse; `rule` comes after it. */
static uint32_t name_tree_add(struct name_trees *trees, uint32_t tree, const char *text, size_t length,
                              uint32_t rule)
{
    struct name_edge leaf = {text, (uint32_t)length, NAME_TREE_EMPTY, rule};
    if (trees->reader->exprs->status || tree == NAME_TREE_EMPTY)
        return name_tree_add_node(trees, 0, 0, 0, leaf);
    struct name_node node = trees->nodes[tree];
    uint32_t at = 0, same = 0;
    while (at < node.count && trees->edges[node.first + at].text[0] != text[0]) at++;
    if (at == node.count) return name_tree_add_node(trees, node.first, node.count, at, leaf);
    struct name_edge edge = trees->edges[node.first + at];
    while (same < edge.length && same < length && edge.text[same] == text[same]) same++;
    ENGINE_ASSERT(same < length && (same < edge.length || edge.node != NAME_TREE_EMPTY));
    uint32_t below;
    if (same == edge.length) {
        below = name_tree_add(trees, edge.node, text + same, length - same, rule);
    } else {
        struct name_edge rest = {edge.text + same, edge.length - same, edge.node, edge.rule};
        struct name_edge other = {text + same, (uint32_t)length - same, NAME_TREE_EMPTY, rule};
        below = name_tree_add_node(trees, 0, 0, 0, rest);
        if (below != NAME_TREE_EMPTY)
            below = name_tree_add_node(trees, trees->nodes[below].first, 1, 1, other);
    }
    if (below == NAME_TREE_EMPTY) return below;
    return name_tree_add_node(trees, node.first, node.count, at,
                              (struct name_edge){edge.text, same, below, trees->nodes[below].rule});
}

/* What a tree stands for. */
static uint32_t name_tree_expr(const struct name_trees *trees, uint32_t tree)
{
    struct exprs *exprs = trees->reader->exprs;
    if (exprs->status) return 0;
    return tree == NAME_TREE_EMPTY ? expr_never(exprs) : expr_rule(exprs, trees->nodes[tree].rule);
}

static void name_trees_free(struct name_trees *trees)
{
    free(trees->nodes);
    free(trees->edges);
}

/* ---- Objects ---- */

struct property {
    const char *name;
    size_t length;
    const json_t *schema;
    bool required;
    uint32_t pair; /* the rule of name and value; uncounted: of what comes after the name */
    char *text;    /* uncounted: the name as JSON */
    uint32_t next; /* uncounted: the rule of what comes after the value */
};

struct object {
    struct schema_reader *reader;
    struct property *properties; /* [count] */
    size_t count, capacity;
    bool closed;          /* no other names than those of `properties` are allowed */
    uint32_t least, most; /* how many properties, in all */
    uint32_t cap;         /* numbers so far are told apart up to here */
    uint32_t other;       /* the rule of a property without a name in the schema; NONE: there are none */
    uint32_t *rules;      /* [count + 1, cap + 1] what comes from a place on */
};

static uint32_t name_literal(struct object *object, const struct property *property)
{
    json_t *name = json_stringn(property->name, property->length);
    uint32_t found = schema_literal(object->reader, name);
    json_decref(name);
    return found;
}

/* ---- Properties ---- */

static uint32_t pair_rule(struct object *object, uint32_t name, const json_t *schema,
                          struct schema_label label)
{
    struct schema_reader *reader = object->reader;
    struct exprs *exprs = reader->exprs;
    uint32_t rule = expr_rule_new(exprs, "property");
    expr_define(exprs, rule,
                EXPR_SEQ_OF(exprs, name, schema_space(reader), expr_text(exprs, ":"), schema_space(reader),
                            schema_value(reader, schema, label), schema_space(reader)));
    return rule;
}

static bool add_property(struct object *object, const char *name, size_t length, const json_t *schema)
{
    if (!GRAMMAR_RESERVE(&object->reader->exprs->status, object->properties, object->capacity,
                         object->count + 1))
        return false;
    object->properties[object->count++] =
        (struct property){.name = name, .length = length, .schema = schema, .pair = NONE};
    return schema_spend(object->reader, 1);
}

/* Properties that are required, some of which "properties" may not name. */
static void read_required(struct object *object, const json_t *schema)
{
    const json_t *required = json_object_get(schema, "required"),
                 *more = json_object_get(schema, "additionalProperties"), *name;
    /* Positions by name, so that long lists don't take long. */
    json_t *places = json_object();
    size_t i;
    for (i = 0; i < object->count; i++)
        schema_set_named(object->reader, places, object->properties[i].name, object->properties[i].length,
                         json_integer((json_int_t)i));
    if (required && !json_is_array(required))
        schema_wrong(object->reader, "\"required\" should be an array of names");
    json_array_foreach(required, i, name)
    {
        if (!json_is_string(name)) {
            schema_wrong(object->reader, "\"required\" should be an array of names");
            break;
        }
        const char *text = json_string_value(name);
        size_t length = json_string_length(name);
        const json_t *place = json_object_getn(places, text, length);
        if (!place) {
            schema_set_named(object->reader, places, text, length, json_integer((json_int_t)object->count));
            if (!add_property(object, text, length, more ? more : json_true())) break;
        }
        size_t at = place ? (size_t)json_integer_value(place) : object->count - 1;
        object->properties[at].required = true;
    }
    json_decref(places);
}

/* Whether objects have properties that the schema doesn't name. As in llama.cpp, they have none if it names
 * some and doesn't speak of others. */
static bool has_others(const json_t *schema)
{
    const json_t *more = json_object_get(schema, "additionalProperties");
    if (more) return !json_is_false(more);
    return !json_object_get(schema, "properties") && !json_object_get(schema, "patternProperties") &&
           !json_is_false(json_object_get(schema, "unevaluatedProperties"));
}

static void forbid_property(struct property *property)
{
    property->schema = json_false();
}

/* "propertyNames" with a list: its names, in that order, are the only ones. */
static void read_name_list(struct object *object, const json_t *schema, const json_t *list)
{
    json_t *names = json_object(), *name;
    const json_t *more = json_object_get(schema, "additionalProperties");
    size_t i;
    json_array_foreach(list, i, name) schema_set_named(object->reader, names, json_string_value(name),
                                                       json_string_length(name), schema_borrow(name));
    for (i = 0; i < object->count; i++) {
        struct property *property = &object->properties[i];
        if (!json_object_getn(names, property->name, property->length)) forbid_property(property);
        json_object_deln(names, property->name, property->length);
    }
    json_array_foreach(list, i, name)
    {
        const char *text = json_string_value(name);
        size_t length = json_string_length(name);
        if (has_others(schema) && json_object_getn(names, text, length))
            add_property(object, text, length, more ? more : json_true());
    }
    json_decref(names);
    object->closed = true;
}

/* "propertyNames": forbids named properties that don't fit it. Returns the schema of other names; NULL:
 * any. */
static const json_t *read_names(struct object *object, const json_t *schema)
{
    struct schema_reader *reader = object->reader;
    const json_t *names = json_object_get(schema, "propertyNames");
    if (!names || json_is_true(names)) return NULL;
    if (json_is_false(names)) {
        for (size_t i = 0; i < object->count; i++) forbid_property(&object->properties[i]);
        object->closed = true;
        return NULL;
    }
    if (!json_is_object(names)) {
        schema_wrong(reader, "\"propertyNames\" should be a schema: an object, true or false");
        return NULL;
    }
    names = schema_merge(reader, names, schema_keep(reader, json_pack("{s:s}", "type", "string")));
    const json_t *list = names ? schema_finite(reader, names, MAX_NAMES) : NULL;
    if (list) {
        read_name_list(object, schema, list);
        return NULL;
    }
    if (!names || object->count == 0) return names;
    if (json_object_get(names, "anyOf") || json_object_get(names, "oneOf") || json_object_get(names, "not") ||
        has_others(schema)) {
        schema_refuse(
            reader, "\"propertyNames\" beside \"properties\" or \"required\" is supported with \"enum\", or "
                    "with lengths and a pattern if \"additionalProperties\" is false");
        return NULL;
    }
    for (size_t i = 0; i < object->count && !reader->exprs->status; i++) {
        struct property *property = &object->properties[i];
        json_t *name = json_stringn(property->name, property->length);
        if (!schema_string_fits(reader, names, name, false)) forbid_property(property);
        json_decref(name);
    }
    return NULL;
}

static void read_properties(struct object *object, const json_t *schema)
{
    json_t *properties = json_object_get(schema, "properties"), *value;
    const char *name;
    size_t length;
    if (properties && !json_is_object(properties)) {
        schema_wrong(object->reader, "\"properties\" should be an object of schemas");
        return;
    }
    json_object_keylen_foreach(properties, name, length, value)
    {
        if (!add_property(object, name, length, value)) return;
    }
    read_required(object, schema);
}

static void define_properties(struct object *object)
{
    for (size_t i = 0; i < object->count && !object->reader->exprs->status; i++) {
        struct property *property = &object->properties[i];
        property->pair = pair_rule(object, name_literal(object, property), property->schema,
                                   SCHEMA_LABEL("properties", property->name, 0));
    }
}

/* ---- Other properties ---- */

/* A pattern of "patternProperties", and the text that all its names begin with. */
struct pattern_name {
    const char *pattern;
    const json_t *schema;
    char beginning[64];
    size_t length;
    bool whole; /* the pattern says nothing more */
};

/* The text of a pattern such as "^x-" up to its first special character; without ^, or with alternatives,
 * none. */
static void read_beginning(struct pattern_name *name)
{
    const char *at = name->pattern;
    if (*at++ != '^' || strchr(name->pattern, '|')) return;
    while (*at && name->length < sizeof name->beginning && !strchr("^$.[]()|?*+{}", *at)) {
        if (*at == '\\' && (isalnum((unsigned char)at[1]) || !at[1])) break;
        at += *at == '\\';
        name->beginning[name->length++] = *at++;
    }
    name->whole = !*at;
    if (*at && strchr("?*+{", *at)) /* how often the last character comes */
        while (name->length > 0 && ((unsigned char)name->beginning[--name->length] & 0xc0) == 0x80) {
        }
}

static bool begins_with(const char *text, size_t length, const struct pattern_name *name)
{
    return name->length <= length && !memcmp(text, name->beginning, name->length);
}

/* Whether each name fits one pattern at most, and no named property fits any. */
static bool are_apart(const struct object *object, const struct pattern_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (names[i].length == 0) return count == 1 && object->count == 0;
        for (size_t j = 0; j < count; j++)
            if (i != j && begins_with(names[j].beginning, names[j].length, &names[i])) return false;
        for (size_t j = 0; j < object->count; j++)
            if (begins_with(object->properties[j].name, object->properties[j].length, &names[i]))
                return false;
    }
    return true;
}

/* Fills `names` [MAX_PATTERNS]; returns their number. */
static size_t read_patterns(struct object *object, const json_t *schema, struct pattern_name *names)
{
    json_t *patterns = json_object_get(schema, "patternProperties"), *value;
    const char *pattern;
    size_t count = 0;
    bool whole = true;
    if (patterns && !json_is_object(patterns))
        schema_wrong(object->reader, "\"patternProperties\" should be an object of schemas");
    if (json_object_size(patterns) > MAX_PATTERNS)
        schema_refuse(object->reader, "\"patternProperties\" is supported for up to %d patterns",
                      MAX_PATTERNS);
    if (object->reader->exprs->status) return 0;
    json_object_foreach(patterns, pattern, value)
    {
        names[count] = (struct pattern_name){.pattern = pattern, .schema = value};
        read_beginning(&names[count]);
        whole &= names[count].whole && names[count].length > 0;
        count++;
    }
    if (!are_apart(object, names, count) || (count > 0 && has_others(schema) && !whole))
        schema_refuse(
            object->reader,
            "\"patternProperties\" is supported with one pattern, or with patterns that begin with ^ and "
            "different texts, such as \"^x-\", which no named property begins with; beside "
            "\"additionalProperties\", with nothing else in the patterns");
    return count;
}

/* The names that are no property's and fit no pattern. */
static uint32_t other_name(struct object *object, const struct pattern_name *patterns, size_t n_patterns)
{
    size_t count = 0;
    struct schema_name *names = calloc(object->count + n_patterns + 1, sizeof *names);
    if (!names) {
        object->reader->exprs->status = error_memory("JSON schema");
        return 0;
    }
    for (size_t i = 0; i < object->count; i++)
        names[count++] =
            (struct schema_name){object->properties[i].name, object->properties[i].length, false};
    for (size_t i = 0; i < n_patterns; i++)
        names[count++] = (struct schema_name){patterns[i].beginning, patterns[i].length, true};
    uint32_t found =
        count > 0 ? schema_other_string(object->reader, names, count) : schema_any_string(object->reader);
    free(names);
    return found;
}

/* Properties that "properties" does not name. `allowed`: the schema of their names; NULL: any. */
static void read_others(struct object *object, const json_t *schema, const json_t *allowed)
{
    struct schema_reader *reader = object->reader;
    struct exprs *exprs = reader->exprs;
    const json_t *more = json_object_get(schema, "additionalProperties");
    struct pattern_name patterns[MAX_PATTERNS];
    size_t n_patterns = read_patterns(object, schema, patterns);
    uint32_t list = expr_alt(exprs);
    if (exprs->status || object->closed || (n_patterns == 0 && !has_others(schema))) return;
    if (allowed && n_patterns > 0) {
        schema_refuse(reader, "\"propertyNames\" beside \"patternProperties\" is not supported");
        return;
    }
    for (size_t i = 0; i < n_patterns; i++) {
        uint32_t name = schema_pattern(reader, patterns[i].pattern, strlen(patterns[i].pattern)).expr;
        name = EXPR_SEQ_OF(exprs, expr_text(exprs, "\""), name, expr_text(exprs, "\""));
        struct schema_label label = {"patternProperties", patterns[i].pattern, 0};
        expr_add(exprs, list, expr_rule(exprs, pair_rule(object, name, patterns[i].schema, label)));
    }
    if (has_others(schema)) {
        uint32_t name = allowed ? schema_value(reader, allowed, SCHEMA_LABEL("propertyNames", NULL, 0))
                                : other_name(object, patterns, n_patterns);
        struct schema_label label = {"additionalProperties", NULL, 0};
        expr_add(exprs, list, expr_rule(exprs, pair_rule(object, name, more ? more : json_true(), label)));
    }
    object->other = expr_rule_new(exprs, "property");
    expr_define(exprs, object->other, list);
}

/* ---- The object ---- */

static uint32_t object_comma(struct object *object)
{
    return EXPR_SEQ_OF(object->reader->exprs, expr_text(object->reader->exprs, ","),
                       schema_space(object->reader));
}

static uint32_t object_pair(struct object *object, uint32_t rule, uint32_t so_far)
{
    uint32_t found = expr_rule(object->reader->exprs, rule);
    return so_far > 0 ? EXPR_SEQ_OF(object->reader->exprs, object_comma(object), found) : found;
}

static uint32_t object_tail(struct object *object, uint32_t so_far)
{
    struct exprs *exprs = object->reader->exprs;
    uint32_t least = object->least > so_far ? object->least - so_far : 0;
    uint32_t most = object->most == EXPR_NO_LIMIT ? EXPR_NO_LIMIT : object->most - so_far;
    if (object->other == NONE) most = 0;
    if (least > most) return expr_never(exprs);
    if (most == 0) return expr_text(exprs, "");
    if (so_far > 0) return expr_repeat(exprs, object_pair(object, object->other, 1), least, most);
    uint32_t more = expr_repeat(exprs, object_pair(object, object->other, 1), least > 0 ? least - 1 : 0,
                                most == EXPR_NO_LIMIT ? most : most - 1);
    uint32_t all = EXPR_SEQ_OF(exprs, object_pair(object, object->other, 0), more);
    return least > 0 ? all : expr_repeat(exprs, all, 0, 1);
}

static uint32_t *rule_at(const struct object *object, size_t at, uint32_t so_far)
{
    return &object->rules[at * (object->cap + 1) + (so_far < object->cap ? so_far : object->cap)];
}

static uint32_t object_from(struct object *object, size_t at, uint32_t so_far)
{
    struct exprs *exprs = object->reader->exprs;
    if (at == object->count) return object_tail(object, so_far);
    const struct property *property = &object->properties[at];
    uint32_t list = expr_alt(exprs);
    if (so_far < object->most)
        expr_add(exprs, list,
                 EXPR_SEQ_OF(exprs, object_pair(object, property->pair, so_far),
                             expr_rule(exprs, *rule_at(object, at + 1, so_far + 1))));
    if (!property->required) expr_add(exprs, list, expr_rule(exprs, *rule_at(object, at + 1, so_far)));
    return list;
}

/* All numbers of properties are told apart. */
static uint32_t counted_members(struct object *object)
{
    struct schema_reader *reader = object->reader;
    struct exprs *exprs = reader->exprs;
    size_t n_rules = (object->count + 1) * (object->cap + 1);
    define_properties(object);
    object->rules = calloc(n_rules, sizeof *object->rules);
    if (!object->rules) {
        exprs->status = error_memory("JSON schema");
        return 0;
    }
    for (size_t i = 0; i < n_rules && !exprs->status; i++) object->rules[i] = expr_rule_new(exprs, "object");
    for (size_t at = 0; at <= object->count && !exprs->status; at++)
        for (uint32_t so_far = 0; so_far <= object->cap && schema_spend(reader, 1); so_far++)
            expr_define(exprs, *rule_at(object, at, so_far), object_from(object, at, so_far));
    return expr_rule(exprs, object->rules[0]);
}

/* The rule of what comes after the name of a property: its value, and then what `next` stands for. */
static bool define_value(struct object *object, struct property *property)
{
    struct schema_reader *reader = object->reader;
    struct exprs *exprs = reader->exprs;
    struct schema_label label = SCHEMA_LABEL("properties", property->name, 0);
    json_t *name = json_stringn(property->name, property->length);
    property->text = json_dumps(name, JSON_ENCODE_ANY);
    json_decref(name);
    if (!property->text && !exprs->status) exprs->status = error_memory("JSON schema");
    property->next = expr_rule_new(exprs, "object");
    property->pair = expr_rule_new(exprs, "property");
    expr_define(exprs, property->pair,
                EXPR_SEQ_OF(exprs, schema_space(reader), expr_text(exprs, ":"), schema_space(reader),
                            schema_value(reader, property->schema, label), schema_space(reader),
                            expr_rule(exprs, property->next)));
    return !exprs->status;
}

/* What comes where the names of `tree` may come next and, unless one of them must, the properties that the
 * schema doesn't name, or nothing. */
static uint32_t object_members_from(struct object *object, const struct name_trees *trees, uint32_t tree,
                                    bool must, uint32_t so_far)
{
    struct exprs *exprs = object->reader->exprs;
    uint32_t list = expr_alt(exprs);
    if (tree != NAME_TREE_EMPTY)
        expr_add(exprs, list,
                 so_far > 0 ? EXPR_SEQ_OF(exprs, object_comma(object), name_tree_expr(trees, tree))
                            : name_tree_expr(trees, tree));
    if (!must) expr_add(exprs, list, object_tail(object, so_far));
    return list;
}

/* Any number of properties. The trees grow from the last one to the first. */
static uint32_t object_members(struct object *object)
{
    struct name_trees trees = {.reader = object->reader};
    uint32_t tree = NAME_TREE_EMPTY, found = 0;
    bool must = false;
    size_t i = 0;
    while (i < object->count && define_value(object, &object->properties[i])) i++;
    while (i-- > 0 && !object->reader->exprs->status) {
        const struct property *property = &object->properties[i];
        expr_define(object->reader->exprs, property->next,
                    object_members_from(object, &trees, tree, must, 1));
        if (property->required) tree = NAME_TREE_EMPTY; /* none may come before it */
        must |= property->required;
        tree = name_tree_add(&trees, tree, property->text, strlen(property->text), property->pair);
    }
    if (!object->reader->exprs->status) found = object_members_from(object, &trees, tree, must, 0);
    name_trees_free(&trees);
    return found;
}

uint32_t schema_object(struct schema_reader *reader, const json_t *schema)
{
    struct object object = {.reader = reader, .other = NONE, .cap = 1};
    size_t n_required = 0;
    uint32_t found = 0;
    bool counted = false;
    object.least = schema_count(reader, schema, "minProperties", 0);
    object.most = schema_count(reader, schema, "maxProperties", EXPR_NO_LIMIT);
    read_properties(&object, schema);
    const json_t *names = reader->exprs->status ? NULL : read_names(&object, schema);
    if (!reader->exprs->status) read_others(&object, schema, names);
    for (size_t i = 0; i < object.count; i++) n_required += object.properties[i].required;
    if (object.least <= n_required) object.least = 0;
    if (object.other == NONE && object.most >= object.count) object.most = EXPR_NO_LIMIT;
    if (object.count > 0 && (object.least > 0 || object.most != EXPR_NO_LIMIT)) {
        object.cap = (uint32_t)object.count;
        counted = true;
        if (object.count > MAX_COUNTED)
            schema_refuse(
                reader, "\"minProperties\" and \"maxProperties\" are supported for up to %d named properties",
                MAX_COUNTED);
    }
    struct exprs *exprs = reader->exprs;
    if (!exprs->status)
        found =
            EXPR_SEQ_OF(exprs, expr_text(exprs, "{"), schema_space(reader),
                        counted ? counted_members(&object) : object_members(&object), expr_text(exprs, "}"));
    for (size_t i = 0; i < object.count; i++) free(object.properties[i].text);
    free(object.properties);
    free(object.rules);
    return found;
}
