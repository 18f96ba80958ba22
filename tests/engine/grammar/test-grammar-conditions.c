/* test-grammar-conditions.c: JSON schemas in which one part decides on another: "if", "dependentRequired",
 * "dependentSchemas", "contains", "unevaluatedProperties", "unevaluatedItems". */
#include <criterion/criterion.h>
#include <stdio.h>

#include "grammar-fixture.h"

TestSuite(grammar_conditions);

Test(grammar_conditions, if_then_else)
{
    const char *address = "{\"type\":\"object\",\"properties\":{\"country\":{\"enum\":[\"US\",\"CA\",\"DE\"]}"
                          ",\"zip\":{\"type\":"
                          "\"string\"}},\"required\":[\"country\",\"zip\"],\"if\":{\"properties\":{"
                          "\"country\":{\"const\":\"US\"}}},"
                          "\"then\":{\"properties\":{\"zip\":{\"pattern\":\"^[0-9]{5}$\"}}},"
                          "\"else\":{\"properties\":{\"zip\":{\"pattern\":\"^[A-Z]{3}$\"}}}}";
    schema_fits(address,
                LIST("{\"country\":\"US\",\"zip\":\"12345\"}", "{\"country\":\"CA\",\"zip\":\"ABC\"}"));
    schema_fails(address,
                 LIST("{\"country\":\"US\",\"zip\":\"ABC\"}", "{\"country\":\"DE\",\"zip\":\"12345\"}",
                      "{\"country\":\"FR\",\"zip\":\"ABC\"}"));
    /* A property that isn't there fulfils the condition. */
    const char *optional =
        "{\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":\"integer\"}},\"if\":{\"properties\":{"
        "\"a\":{"
        "\"const\":\"x\"}}},\"then\":{\"required\":[\"b\"]},\"else\":{\"properties\":{\"b\":false}}}";
    schema_fits(optional, LIST("{\"b\":1}", "{\"a\":\"x\",\"b\":1}", "{\"a\":\"y\"}", "{\"a\":\"xx\"}"));
    schema_fails(optional, LIST("{}", "{\"a\":\"x\"}", "{\"a\":\"y\",\"b\":1}"));
    /* Unless it is required there. */
    const char *given = "{\"properties\":{\"a\":{\"type\":\"boolean\"},\"b\":{\"type\":\"null\"}},\"if\":{"
                        "\"properties\":{\"a\":{"
                        "\"const\":true}},\"required\":[\"a\"]},\"then\":{\"required\":[\"b\"]}}";
    schema_fits(given, LIST("{}", "{\"b\":null}", "{\"a\":true,\"b\":null}", "{\"a\":false}"));
    schema_fails(given, LIST("{\"a\":true}"));
}

Test(grammar_conditions, several)
{
    const char *shapes =
        "{\"type\":\"object\",\"properties\":{\"kind\":{\"enum\":[\"circle\",\"square\",\"point\"]},\"r\":{"
        "\"type\":"
        "\"integer\"},\"w\":{\"type\":\"integer\"}},\"required\":[\"kind\"],\"allOf\":["
        "{\"if\":{\"properties\":{\"kind\":{\"const\":\"circle\"}}},\"then\":{\"required\":[\"r\"]}},"
        "{\"if\":{\"properties\":{\"kind\":{\"const\":\"square\"}}},\"then\":{\"required\":[\"w\"]}},"
        "{\"if\":{\"properties\":{\"kind\":{\"enum\":[\"point\",\"circle\"]}}},\"then\":{\"properties\":{"
        "\"w\":false}}}]}";
    schema_fits(shapes, LIST("{\"kind\":\"circle\",\"r\":1}", "{\"kind\":\"square\",\"w\":1}",
                             "{\"kind\":\"square\",\"r\":2,\"w\":1}", "{\"kind\":\"point\"}"));
    schema_fails(shapes, LIST("{\"kind\":\"circle\"}", "{\"kind\":\"square\",\"r\":1}",
                              "{\"kind\":\"circle\",\"r\":1,\"w\":1}", "{\"kind\":\"point\",\"w\":1}"));
    /* One within the other. */
    const char *nested =
        "{\"type\":\"integer\",\"minimum\":0,\"maximum\":99,\"if\":{\"minimum\":10},\"then\":{\"if\":{"
        "\"maximum\":19},\"then\":{\"const\":15},\"else\":{\"multipleOf\":10}},\"else\":{\"maximum\":2}}";
    schema_fits(nested, LIST("0", "2", "15", "20", "90"));
    schema_fails(nested, LIST("3", "9", "10", "19", "21"));
}

Test(grammar_conditions, opposites)
{
    static const struct {
        const char *condition, *holds, *fails; /* among integers, short texts, arrays and objects */
    } cases[] = {
        {"{\"const\":5}", "5", "4"},
        {"{\"const\":5}", "5", "6"},
        {"{\"const\":5}", "5", "\"a\""},
        {"{\"enum\":[3,\"a\",5]}", "3", "4"},
        {"{\"enum\":[3,\"a\",5]}", "\"a\"", "\"b\""},
        {"{\"type\":\"string\"}", "\"a\"", "1"},
        {"{\"type\":[\"string\",\"array\"]}", "[]", "{}"},
        {"{\"exclusiveMinimum\":3}", "4", "3"},
        {"{\"exclusiveMaximum\":3}", "2", "3"},
        {"{\"maxLength\":1}", "\"a\"", "\"ab\""},
        {"{\"minLength\":2}", "\"ab\"", "\"a\""},
        {"{\"minItems\":2}", "[1,2]", "[1]"},
        {"{\"maxItems\":1}", "[1]", "[1,2]"},
        {"{\"type\":\"array\",\"maxItems\":1}", "[1]", "5"},
        {"{\"minProperties\":1}", "{\"a\":1}", "{}"},
        {"{\"required\":[\"a\"]}", "{\"a\":1}", "{\"b\":1}"},
        {"{\"properties\":{\"a\":{\"properties\":{\"b\":{\"const\":1}},\"required\":[\"b\"]}}}",
         "{\"a\":{\"b\":1}}", "{\"a\":{\"b\":2}}"},
        {"{\"not\":{\"type\":\"string\"}}", "1", "\"a\""},
        {"{\"anyOf\":[{\"const\":1},{\"type\":\"string\"}]}", "\"a\"", "2"},
        {"{\"allOf\":[{\"minimum\":2},{\"maximum\":3}]}", "3", "4"},
        {"{\"$ref\":\"#/$defs/text\"}", "\"a\"", "1"},
        {"true", "1", NULL},
        {"false", NULL, "1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char schema[512];
        for (int holds = 0; holds < 2; holds++) {
            snprintf(
                schema, sizeof schema,
                "{\"if\":%s,\"%s\":false,\"type\":[\"integer\",\"string\",\"array\",\"object\"],\"$defs\":{"
                "\"text\":{\"type\":\"string\"}}}",
                cases[i].condition, holds ? "else" : "then");
            const char *good = holds ? cases[i].holds : cases[i].fails,
                       *bad = holds ? cases[i].fails : cases[i].holds;
            if (!good) continue;
            schema_fits(schema, LIST(good));
            if (bad) schema_fails(schema, LIST(bad));
        }
    }
}

Test(grammar_conditions, dependent)
{
    const char *card =
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"card\":{\"type\":\"integer\"},"
        "\"address\":{\"type\":\"string\"}},\"required\":[\"name\"],\"dependentRequired\":{\"card\":["
        "\"address\"]}}";
    schema_fits(card, LIST("{\"name\":\"\"}", "{\"name\":\"\",\"address\":\"\"}",
                           "{\"name\":\"\",\"card\":1,\"address\":\"\"}"));
    schema_fails(card, LIST("{\"name\":\"\",\"card\":1}"));
    const char *old =
        "{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"dependencies\":{\"a\":[\"b\"],\"b\":{\"properties\":{"
        "\"c\":{\"const\":1}},\"required\":[\"c\"]}}}";
    schema_fits(old, LIST("{}", "{\"c\":2}", "{\"b\":2,\"c\":1}", "{\"a\":1,\"b\":2,\"c\":1}"));
    schema_fails(old, LIST("{\"a\":1}", "{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":2}"));
    /* Without other words about names, all are allowed. */
    const char *any = "{\"type\":\"object\",\"dependentSchemas\":{\"a\":{\"required\":[\"b\"]}}}";
    schema_fits(any, LIST("{}", "{\"x\":1}", "{\"a\":1,\"b\":1}"));
    schema_fails(any, LIST("{\"a\":1}", "{\"x\":1,\"a\":1}"));
}

Test(grammar_conditions, contains)
{
    const char *some = "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"contains\":{\"minimum\":10}}";
    schema_fits(some, LIST("[10]", "[1,2,30]", "[30,2,1]", "[1,99,98]"));
    schema_fails(some, LIST("[]", "[1,2]", "[\"a\",10]"));
    const char *bounded = "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"contains\":{\"const\":7},"
                          "\"minItems\":2,\"maxItems\":3}";
    schema_fits(bounded, LIST("[7,1]", "[1,7]", "[1,7,1]", "[1,1,7]", "[7,7,7]"));
    schema_fails(bounded, LIST("[7]", "[1,1,1]", "[1,1,1,7]", "[7,1,1,1]"));
    const char *least = "{\"type\":\"array\",\"contains\":{\"const\":7},\"minItems\":3}";
    schema_fits(least, LIST("[7,1,1]", "[1,1,7]", "[1,1,1,1,7,2]"));
    schema_fails(least, LIST("[1,7]", "[1,1,1]", "[1,1,1,1]"));
    schema_fits("{\"type\":\"array\",\"contains\":{\"const\":7},\"minContains\":0}", LIST("[]", "[1]"));
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"contains\":{},\"prefixItems\":[{}]}",
                           "\"contains\" is supported without");
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"contains\":{},\"minContains\":65}",
                           "\"contains\" is supported without");
}

Test(grammar_conditions, refused)
{
    static const struct {
        const char *schema, *message;
    } cases[] = {
        {"{\"if\":{\"pattern\":\"a\"},\"then\":false}", "\"pattern\" is not supported in an \"if\""},
        {"{\"if\":{\"properties\":{\"a\":{\"multipleOf\":2}}},\"else\":false}",
         "\"multipleOf\" is not supported in"},
        {"{\"if\":{\"type\":\"integer\"},\"else\":{\"const\":1.5}}", "the opposite of the type \"integer\""},
        {"{\"if\":5,\"then\":true}", "a schema should be"},
        {"{\"dependentRequired\":5}", "\"dependentRequired\" should be an object"},
        {"{\"dependentRequired\":{\"a\":[5]}}", "should have arrays of names"},
        {"{\"dependentSchemas\":{\"a\":5}}", "a schema should be"},
        {"{\"if\":{\"$ref\":\"#\"},\"then\":true}", "go in a circle"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        grammar_expect_refused(GRAMMAR_SCHEMA, cases[i].schema, cases[i].message);
}

/* What is not evaluated by the schema itself or by what holds beside it, is not there. */
Test(grammar_conditions, unevaluated_properties)
{
    const char *merged = "{\"$ref\":\"#/$defs/a\",\"properties\":{\"y\":{}},\"unevaluatedProperties\":false,"
                         "\"$defs\":{\"a\":{\"properties\":{\"x\":{}}}}}";
    schema_fits(merged, LIST("{}", "{\"y\":1,\"x\":2}"));
    schema_fails(merged, LIST("{\"z\":1}"));
    const char *cousins = "{\"allOf\":[{\"properties\":{\"x\":{}}},{\"unevaluatedProperties\":false}]}";
    schema_fits(cousins, LIST("{}", "3"));
    schema_fails(cousins, LIST("{\"x\":1}"));
    const char *below = "{\"properties\":{\"y\":{}},\"$ref\":\"#/$defs/a\","
                        "\"$defs\":{\"a\":{\"unevaluatedProperties\":false}}}";
    schema_fits(below, LIST("{}"));
    schema_fails(below, LIST("{\"y\":1}"));
    const char *either =
        "{\"properties\":{\"x\":{}},\"anyOf\":[{\"properties\":{\"y\":{}},\"required\":[\"y\"]},"
        "{\"properties\":{\"z\":{}}}],\"unevaluatedProperties\":false}";
    schema_fits(either, LIST("{\"x\":1,\"y\":2}", "{\"z\":2}", "{}"));
    schema_fails(either, LIST("{\"w\":2}"));
    const char *within = "{\"anyOf\":[{\"properties\":{\"y\":{}},\"unevaluatedProperties\":false}],"
                         "\"properties\":{\"x\":{}}}";
    schema_fits(within, LIST("{\"y\":1}"));
    schema_fails(within, LIST("{\"x\":1}"));
    const char *required = "{\"properties\":{\"x\":{}},\"required\":[\"y\"],\"unevaluatedProperties\":false}";
    grammar_expect_refused(GRAMMAR_SCHEMA, required, "no text");
    const char *needed =
        "{\"properties\":{\"x\":{}},\"dependentSchemas\":{\"w\":{}},\"unevaluatedProperties\":false}";
    schema_fits(needed, LIST("{\"x\":1}"));
    schema_fails(needed, LIST("{\"w\":1}"));
    const char *kinds = "{\"properties\":{\"k\":{\"enum\":[1,2]}},\"required\":[\"k\"],"
                        "\"if\":{\"properties\":{\"k\":{\"const\":1}}},\"then\":{\"properties\":{\"a\":{}}},"
                        "\"else\":{\"properties\":{\"b\":{}}},\"unevaluatedProperties\":false}";
    schema_fits(kinds, LIST("{\"k\":1,\"a\":0}", "{\"k\":2,\"b\":0}"));
    schema_fails(kinds, LIST("{\"k\":1,\"b\":0}", "{\"k\":2,\"a\":0}", "{\"k\":2,\"c\":0}"));
    grammar_expect_refused(
        GRAMMAR_SCHEMA,
        "{\"if\":{\"properties\":{\"k\":{\"const\":1}}},\"then\":{\"properties\":{\"a\":{}}},"
        "\"unevaluatedProperties\":false}",
        "\"unevaluatedProperties\" beside an \"if\" or a \"not\"");
    grammar_expect_refused(GRAMMAR_SCHEMA,
                           "{\"not\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},"
                           "\"unevaluatedProperties\":false}",
                           "\"unevaluatedProperties\" beside an \"if\" or a \"not\"");
    grammar_expect_refused(GRAMMAR_SCHEMA,
                           "{\"allOf\":[{\"anyOf\":[{\"properties\":{\"x\":{}}},{\"properties\":{\"y\":{}}}],"
                           "\"unevaluatedProperties\":false},{\"properties\":{\"z\":{}}}]}",
                           "\"unevaluatedProperties\" beside alternatives");
}

/* A schema for properties that nothing evaluates. */
Test(grammar_conditions, unevaluated_properties_with_a_schema)
{
    const char *merged = "{\"$ref\":\"#/$defs/a\",\"unevaluatedProperties\":{\"type\":\"integer\"},"
                         "\"$defs\":{\"a\":{\"properties\":{\"x\":{\"type\":\"string\"}}}}}";
    schema_fits(merged, LIST("{}", "{\"x\":\"a\"}", "{\"x\":\"a\",\"z\":1}"));
    schema_fails(merged, LIST("{\"x\":1}", "{\"z\":\"a\"}"));
    const char *either = "{\"anyOf\":[{\"properties\":{\"x\":{\"const\":1}},\"required\":[\"x\"]},"
                         "{\"properties\":{\"y\":{}}}],\"unevaluatedProperties\":{\"type\":\"null\"}}";
    schema_fits(either, LIST("{\"x\":1,\"z\":null}", "{\"y\":2,\"z\":null}"));
    schema_fails(either, LIST("{\"x\":2}", "{\"x\":1,\"z\":0}"));
    /* `true` inside says nothing to what is outside. */
    schema_fits("{\"allOf\":[{\"unevaluatedProperties\":true}],\"properties\":{\"x\":{}}}",
                LIST("{\"x\":1}"));
    grammar_expect_refused(
        GRAMMAR_SCHEMA, "{\"anyOf\":[{\"enum\":[{\"a\":1}],\"unevaluatedProperties\":false},{\"const\":1}]}",
        "beside \"enum\" or \"const\" is not supported");
}

/* The same of items. */
Test(grammar_conditions, unevaluated_items)
{
    const char *merged = "{\"$ref\":\"#/$defs/a\",\"unevaluatedItems\":false,"
                         "\"$defs\":{\"a\":{\"prefixItems\":[{\"type\":\"string\"},{}]}}}";
    schema_fits(merged, LIST("[\"a\",1]"));
    schema_fails(merged, LIST("[1,1]", "[\"a\",1,2]"));
    const char *rest = "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"}],"
                       "\"unevaluatedItems\":{\"type\":\"integer\"}}";
    schema_fits(rest, LIST("[\"a\"]", "[\"a\",1,2]"));
    schema_fails(rest, LIST("[\"a\",1,\"b\"]", "[1]"));
    const char *cousins = "{\"allOf\":[{\"prefixItems\":[{}]},{\"unevaluatedItems\":false}]}";
    schema_fails(cousins, LIST("[1]"));
    const char *all = "{\"items\":{\"type\":\"integer\"},\"unevaluatedItems\":false}";
    schema_fits(all, LIST("[]", "[1,2]"));
    schema_fails(all, LIST("[\"a\"]"));
    const char *inner = "{\"allOf\":[{\"unevaluatedItems\":true}],\"unevaluatedItems\":false}";
    schema_fits(inner, LIST("[]", "[1]", "3"));
    const char *none = "{\"unevaluatedItems\":false}";
    schema_fits(none, LIST("[]", "3", "{}"));
    schema_fails(none, LIST("[1]"));
    /* The longer prefix of two that hold counts. */
    const char *either = "{\"prefixItems\":[{\"const\":1}],\"anyOf\":[{\"prefixItems\":[{},{\"const\":2}]},"
                         "{\"prefixItems\":[{},{},{\"const\":3}]}],\"unevaluatedItems\":false}";
    schema_fits(either, LIST("[1,2]", "[1,0,3]"));
    schema_fails(either, LIST("[1,2,4]", "[1,0]", "[1,2,3,4]"));
    const char *condition = "{\"properties\":{\"k\":{}},\"if\":{\"maxItems\":1},"
                            "\"then\":{\"prefixItems\":[{\"const\":1}]},"
                            "\"else\":{\"prefixItems\":[{\"const\":2},{}]},\"unevaluatedItems\":false}";
    schema_fits(condition, LIST("[1]", "[2,0]"));
    schema_fails(condition, LIST("[2]", "[1,0]", "[2,0,0]"));
    /* What "contains" describes has been evaluated. */
    const char *contains = "{\"type\":\"array\",\"contains\":{\"const\":1},\"unevaluatedItems\":false}";
    schema_fits(contains, LIST("[1]", "[1,1]"));
    schema_fails(contains, LIST("[]", "[1,2]", "[2]"));
    const char * or
        = "{\"type\":\"array\",\"contains\":{\"const\":1},\"unevaluatedItems\":{\"const\":\"a\"}}";
    schema_fits(or, LIST("[1]", "[\"a\",1]"));
    schema_fails(or, LIST("[\"a\"]", "[1,2]"));
    const char *draft7 = "{\"items\":[{\"const\":1}],\"unevaluatedItems\":{\"const\":2}}";
    schema_fits(draft7, LIST("[1]", "[1,2,2]"));
    schema_fails(draft7, LIST("[2]", "[1,1]"));
    /* A failed condition evaluates nothing. */
    grammar_expect_refused(GRAMMAR_SCHEMA,
                           "{\"if\":{\"not\":{\"prefixItems\":[{}]}},\"then\":{},\"unevaluatedItems\":false}",
                           "\"unevaluatedItems\" beside an \"if\" or a \"not\"");
    grammar_expect_refused(GRAMMAR_SCHEMA,
                           "{\"allOf\":[{\"anyOf\":[{\"prefixItems\":[{}]},{\"prefixItems\":[{},{}]}],"
                           "\"unevaluatedItems\":false},{\"prefixItems\":[{}]}]}",
                           "\"unevaluatedItems\" beside alternatives");
}
