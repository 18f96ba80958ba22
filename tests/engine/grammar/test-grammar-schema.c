/* test-grammar-schema.c: JSON schemas, each keyword for itself. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar-fixture.h"

TestSuite(grammar_schema);

Test(grammar_schema, any_value)
{
    const char *values[] = {"null",  "true", "false",   "0",  "-12.5e-3",
                            "\"a\"", "[]",   "[1,[2]]", "{}", "{\"a\": {\"b\": [null]}}",
                            NULL};
    schema_fits("{}", values);
    schema_fits("true", values);
    schema_fits(
        "{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[1],\"x-mine\":2,\"$comment\":"
        "\"\"}",
        values);
    schema_fails("{}", LIST("", "nul", "01", "1.", ".5", "+1", "1e", "'a'", "[1,]", "{\"a\"}", "{a:1}",
                            "tru e", "1e123"));
    grammar_expect_refused(GRAMMAR_SCHEMA, "false", "no text of finite length");
}

Test(grammar_schema, any_object)
{
    grammar_expect(GRAMMAR_JSON_OBJECT, "", "{\"a\": [1, \"b\", null]}", GRAMMAR_FITS);
    grammar_expect(GRAMMAR_JSON_OBJECT, "", "{}", GRAMMAR_FITS);
    grammar_expect(GRAMMAR_JSON_OBJECT, "", "[]", GRAMMAR_DOES_NOT_FIT);
    grammar_expect(GRAMMAR_JSON_OBJECT, "", "{\"a\": 1", GRAMMAR_DOES_NOT_FIT);
}

Test(grammar_schema, white_space)
{
    char text[80], blanks[32];
    schema_fits("{\"type\":\"array\"}", LIST("[ 1 , 2 ]", "[\n\t1\n ,\n2\n]"));
    schema_fails("{\"type\":\"array\"}", LIST(" []", "[] ", "[  1]", "[\r1]", "[\n\n1]"));
    for (int n = 18; n <= 21; n++) {
        snprintf(blanks, sizeof blanks, "\n%*s", n - 1, "");
        snprintf(text, sizeof text, "[%s1%s]", blanks, blanks);
        grammar_expect(GRAMMAR_SCHEMA, "{\"type\":\"array\"}", text,
                       n <= 20 ? GRAMMAR_FITS : GRAMMAR_DOES_NOT_FIT);
    }
}

Test(grammar_schema, strings)
{
    const char *any = "{\"type\":\"string\"}";
    schema_fits(any, LIST("\"\"", "\"a b\"", "\"\\\"\\\\\\b\\f\\n\\r\\t\"",
                          "\"\\u00e9\\u20AC\\ud83d\\ude00\"", "\"\xe2\x82\xac\""));
    schema_fails(any, LIST("\"", "\"\n\"", "\"\\q\"", "\"\\u12\"", "\"\\ud83d\"", "\"\\ude00\"",
                           "\"\\u0000\"", "\"\xff\"", "a"));
    const char *some = "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}";
    schema_fits(some, LIST("\"ab\"", "\"abc\"", "\"\xc3\xa9\\n\"", "\"\\ud83d\\ude00x\""));
    schema_fails(some, LIST("\"a\"", "\"abcd\"", "\"\\n\""));
    schema_fits("{\"minLength\":2}", LIST("\"ab\"", "\"abcdefgh\""));
    schema_fails("{\"minLength\":2}", LIST("\"a\"", "1"));
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}",
                           "no text of finite length");
}

Test(grammar_schema, types)
{
    schema_fits("{\"type\":[\"string\",\"null\"]}", LIST("\"a\"", "null"));
    schema_fails("{\"type\":[\"string\",\"null\"]}", LIST("1", "[]"));
    schema_fits("{\"type\":\"boolean\",\"nullable\":true}", LIST("true", "false", "null"));
    schema_fits("{\"type\":\"integer\"}", LIST("0", "-1", "1234567890123456"));
    schema_fails("{\"type\":\"integer\"}", LIST("1.5", "1e3", "12345678901234567", "00", "-"));
    schema_fits("{\"type\":\"number\"}", LIST("0", "-1.5", "1e-3", "1.25E+10"));
    schema_fits("{\"type\":[\"integer\",\"number\"]}", LIST("1.5"));
}

Test(grammar_schema, values)
{
    schema_fits("{\"const\":{\"a\":[1,0.1,\"\xc3\xa9\\n\"]}}", LIST("{\"a\":[1,0.1,\"\xc3\xa9\\n\"]}"));
    schema_fits("{\"enum\":[\"a\",1,1.5,null,true,[1],{}]}",
                LIST("\"a\"", "1", "1.5", "null", "true", "[1]", "{}"));
    schema_fails("{\"enum\":[\"a\",1]}", LIST("\"b\"", "a", "2", "11"));
    schema_fits("{\"type\":\"string\",\"enum\":[\"a\",null,\"abc\"],\"maxLength\":1}", LIST("\"a\""));
    schema_fails("{\"type\":\"string\",\"enum\":[\"a\",null,\"abc\"],\"maxLength\":1}",
                 LIST("null", "\"abc\""));
    schema_fails("{\"type\":\"integer\",\"enum\":[1,5,9],\"minimum\":2,\"exclusiveMaximum\":9}",
                 LIST("1", "9"));
    schema_fits("{\"enum\":[\"ab\",\"b\",4,6],\"pattern\":\"^a\",\"multipleOf\":3}", LIST("\"ab\"", "6"));
    schema_fails("{\"enum\":[\"ab\",\"b\",4,6],\"pattern\":\"^a\",\"multipleOf\":3}", LIST("\"b\"", "4"));
    /* Beside a list, a format is an annotation. */
    schema_fits("{\"enum\":[\"2024-01-31\",\"2024-01-32\"],\"format\":\"date\"}",
                LIST("\"2024-01-31\"", "\"2024-01-32\""));
    schema_fits("{\"enum\":[1,{\"a\":1,\"b\":[2.0]}],\"allOf\":[{\"const\":{\"b\":[2],\"a\":1.0}}]}",
                LIST("{\"a\":1,\"b\":[2.0]}"));
}

/* More values than are followed one by one. */
Test(grammar_schema, many_values)
{
    static char text[600000];
    char *at = text + sprintf(text, "{\"enum\":[null");
    for (int i = 0; i < 40000; i++) at += sprintf(at, ",\"v%x\"", i * 7);
    strcpy(at, "]}");
    struct grammar *grammar = grammar_of(GRAMMAR_SCHEMA, text);
    for (int i = 0; i < 2000; i++) {
        char value[16];
        snprintf(value, sizeof value, "\"v%x\"", i * 93);
        cr_assert_eq(grammar_takes(grammar, value), i * 93 % 7 == 0, "%s", value);
    }
    grammar_destroy(grammar);
}

static void bounds(const char *schema, long long low, long long high, long long from, long long to)
{
    char text[32];
    struct grammar *grammar = grammar_of(GRAMMAR_SCHEMA, schema);
    for (long long n = from; n <= to; n++) {
        snprintf(text, sizeof text, "%lld", n);
        cr_assert_eq(grammar_takes(grammar, text), n >= low && n <= high, "%s: %s", schema, text);
    }
    grammar_destroy(grammar);
}

Test(grammar_schema, integer_bounds)
{
    bounds("{\"type\":\"integer\",\"minimum\":-12,\"maximum\":234}", -12, 234, -130, 1030);
    bounds("{\"type\":\"integer\",\"minimum\":7}", 7, 9999, -20, 130);
    bounds("{\"type\":\"integer\",\"maximum\":7}", -9999, 7, -130, 130);
    bounds("{\"type\":\"integer\",\"maximum\":-107}", -9999, -107, -230, 30);
    bounds("{\"type\":\"integer\",\"exclusiveMinimum\":0,\"exclusiveMaximum\":100}", 1, 99, -20, 130);
    bounds("{\"type\":\"integer\",\"minimum\":1.5,\"maximum\":9.5}", 2, 9, -3, 20);
    bounds("{\"type\":\"integer\",\"minimum\":5,\"exclusiveMinimum\":true}", 6, 9999, 0, 20);
    bounds("{\"type\":\"integer\",\"minimum\":99,\"maximum\":101}", 99, 101, 0, 200);
    schema_fits("{\"type\":\"integer\",\"minimum\":-9223372036854775807}",
                LIST("-9223372036854775807", "9223372036854775807"));
    schema_fails("{\"type\":\"integer\",\"minimum\":-9223372036854775807}", LIST("-9223372036854775808"));
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}",
                           "no text of finite length");
}

/* Numbers with up to three digits after the point, against comparisons. */
Test(grammar_schema, number_bounds)
{
    static const struct {
        const char *schema;
        double low, high;
        bool low_out, high_out;
    } cases[] = {
        {"{\"type\":\"number\",\"minimum\":-1.25,\"maximum\":2.5}", -1.25, 2.5, false, false},
        {"{\"type\":\"number\",\"exclusiveMinimum\":-1.25,\"exclusiveMaximum\":2.5}", -1.25, 2.5, true, true},
        {"{\"type\":\"number\",\"exclusiveMinimum\":0}", 0, 1e9, true, false},
        {"{\"type\":\"number\",\"minimum\":0.125,\"maximum\":0.13}", 0.125, 0.13, false, false},
        {"{\"type\":\"number\",\"maximum\":-0.5}", -1e9, -0.5, false, false},
        {"{\"type\":\"number\",\"minimum\":1,\"maximum\":1}", 1, 1, false, false},
    };
    char text[32];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int n = -2600; n <= 2600; n += 5) {
            double value = n / 1000.0;
            bool inside = (value > cases[c].low || (value == cases[c].low && !cases[c].low_out)) &&
                          (value < cases[c].high || (value == cases[c].high && !cases[c].high_out));
            if (n == 0) continue; /* -0.000 */
            snprintf(text, sizeof text, "%.3f", value);
            grammar_expect(GRAMMAR_SCHEMA, cases[c].schema, text,
                           inside ? GRAMMAR_FITS : GRAMMAR_DOES_NOT_FIT);
        }
    /* What a double rounds to the bound. */
    schema_fails("{\"type\":\"number\",\"exclusiveMaximum\":2.5}", LIST("2.4999999999999999"));
    schema_fits("{\"type\":\"number\",\"exclusiveMaximum\":2.5}", LIST("2.49999999999999", "2.4"));
    schema_fits("{\"type\":\"number\",\"minimum\":0.1234567890123456}", LIST("0.1234567890123456"));
    schema_fits("{\"type\":\"number\",\"minimum\":0.5,\"maximum\":12}",
                LIST("12", "12.0", "1", "0.50", "11.9999"));
    schema_fails("{\"type\":\"number\",\"minimum\":0.5,\"maximum\":12}",
                 LIST("12.01", "0", "0.4999", "13", "1e0", "-1"));
}

Test(grammar_schema, multiples)
{
    schema_fits("{\"type\":\"integer\",\"multipleOf\":7}", LIST("0", "7", "-14", "7000000000000000"));
    schema_fails("{\"type\":\"integer\",\"multipleOf\":7}", LIST("1", "-13", "7000001", "70000000000000000"));
    schema_fits("{\"type\":\"integer\",\"multipleOf\":25,\"minimum\":30,\"exclusiveMaximum\":100}",
                LIST("50", "75"));
    schema_fails("{\"type\":\"integer\",\"multipleOf\":25,\"minimum\":30,\"exclusiveMaximum\":100}",
                 LIST("25", "100", "0"));
    schema_fits("{\"type\":\"number\",\"multipleOf\":0.01}", LIST("1", "1.2", "1.25"));
    schema_fails("{\"type\":\"number\",\"multipleOf\":0.01}", LIST("1.255"));
    schema_fails("{\"type\":\"number\",\"multipleOf\":1,\"minimum\":0}", LIST("1.5"));
}

/* Multiples of a number in units of 1 / `units`, within the bounds, against division. */
static void all_multiples(const char *rest, const char *divisor, long long units, long long unit_divisor,
                          long long low, long long high)
{
    char schema[160], text[48];
    snprintf(schema, sizeof schema, "{\"type\":\"number\",\"multipleOf\":%s%s}", divisor, rest);
    struct grammar *grammar = grammar_of(GRAMMAR_SCHEMA, schema);
    for (long long n = -2500; n <= 2500; n++) {
        long long whole = n / units, part = n % units;
        const char *sign = n < 0 ? "-" : "";
        if (units == 1 || part == 0)
            snprintf(text, sizeof text, "%lld", whole);
        else
            snprintf(text, sizeof text, "%s%lld.%0*lld", sign, llabs(whole), units == 10 ? 1 : 2,
                     llabs(part));
        bool fits_in = n % unit_divisor == 0 && n >= low && n <= high;
        cr_assert_eq(grammar_takes(grammar, text), fits_in, "%s: %s", schema, text);
    }
    grammar_destroy(grammar);
}

Test(grammar_schema, multiples_and_bounds)
{
    all_multiples("", "0.25", 100, 25, -9999, 9999);
    all_multiples(",\"minimum\":-3.1", "2.5", 10, 25, -31, 9999);
    all_multiples(",\"exclusiveMinimum\":0,\"maximum\":12.07", "0.05", 100, 5, 1, 1207);
    all_multiples(",\"maximum\":-14", "7", 1, 7, -9999, -14);
    all_multiples(",\"minimum\":0", "250", 1, 250, 0, 9999);
    all_multiples(",\"minimum\":10,\"maximum\":2200", "1100", 1, 1100, 10, 2200);
    schema_fits("{\"type\":\"integer\",\"multipleOf\":2.5}", LIST("5", "0", "-15"));
    schema_fails("{\"type\":\"integer\",\"multipleOf\":2.5}", LIST("2", "7.5"));
}

Test(grammar_schema, unique_items)
{
    const char *some = "{\"items\":{\"enum\":[\"a\",\"b\",\"a\",1,1.0]},\"uniqueItems\":true,\"maxItems\":2}";
    schema_fits(some, LIST("[]", "[\"a\"]", "[1 , \"b\"]", "[\"b\",\"a\"]"));
    schema_fails(some, LIST("[\"a\",\"a\"]", "[1,1]", "[1,\"a\",\"b\"]", "[1,]", "[,1]"));
    const char *all = "{\"items\":{\"type\":[\"boolean\",\"null\"]},\"uniqueItems\":true,\"minItems\":3}";
    schema_fits(all, LIST("[null,true,false]", "[false,true,null]"));
    schema_fails(all, LIST("[]", "[true,false]", "[true,false,true]", "[true,false,null,null]"));
    schema_fits(
        "{\"items\":{\"$ref\":\"#/$defs/d\"},\"uniqueItems\":true,\"$defs\":{\"d\":{\"type\":\"integer\","
        "\"minimum\":1,\"maximum\":6}}}",
        LIST("[6,1,2,3,5,4]"));
    schema_fails("{\"items\":{\"type\":\"boolean\"},\"uniqueItems\":true,\"minItems\":3}",
                 (const char *const[]){NULL});
    schema_fits("{\"items\":{\"type\":\"string\"},\"uniqueItems\":true,\"maxItems\":1}", LIST("[\"x\"]"));
    schema_fits("{\"type\":\"array\",\"uniqueItems\":false}", LIST("[1,1]"));
}

Test(grammar_schema, not )
{
    const char *names =
        "{\"type\":[\"string\",\"null\"],\"not\":{\"enum\":[\"\",\"ab\",\"abc\",\"\xc3\xa9\",null]}}";
    schema_fits(names, LIST("\"a\"", "\"abcd\"", "\"b\"", "\"\xc3\xa8\""));
    schema_fails(names, LIST("\"\"", "\"ab\"", "\"abc\"", "\"\\u0061b\"", "\"\xc3\xa9\"", "null", "1"));
    schema_fits("{\"enum\":[1,\"a\",2,null],\"not\":{\"const\":1.0}}", LIST("\"a\"", "2", "null"));
    schema_fails("{\"enum\":[1,\"a\",2,null],\"not\":{\"const\":1.0}}", LIST("1"));
    schema_fails("{\"enum\":[1,\"a\",2,null],\"not\":{\"type\":\"integer\"}}", LIST("1", "2"));
    schema_fits("{\"not\":{\"type\":[\"object\",\"number\"]}}", LIST("[1]", "\"\"", "null"));
    schema_fails("{\"not\":{\"type\":[\"object\",\"number\"]}}", LIST("1", "{}", "1.5"));
    schema_fits("{\"type\":\"integer\",\"minimum\":1,\"maximum\":9,\"not\":{\"enum\":[5,7]}}",
                LIST("4", "6"));
    schema_fails("{\"type\":\"integer\",\"minimum\":1,\"maximum\":9,\"not\":{\"enum\":[5,7]}}",
                 LIST("5", "7", "10"));
    schema_fits("{\"type\":\"string\",\"minLength\":1,\"not\":{\"const\":\"\"}}", LIST("\"a\""));
    schema_fails("{\"type\":\"string\",\"allOf\":[{\"not\":{\"const\":\"a\"}},{\"not\":{\"const\":\"b\"}}]}",
                 LIST("\"a\"", "\"b\""));
    const char *beside = "{\"anyOf\":[{\"enum\":[1,2]},{\"type\":\"string\"}],\"not\":{\"enum\":[2,\"x\"]}}";
    schema_fits(beside, LIST("1", "\"y\""));
    schema_fails(beside, LIST("2", "\"x\""));
    schema_fits("{\"type\":\"null\",\"not\":false}", LIST("null"));
    /* Numbers between those that are not to be. */
    const char *numbers = "{\"type\":[\"integer\",\"string\"],\"not\":{\"enum\":[5,\"a\",-3]}}";
    schema_fits(numbers, LIST("4", "6", "-4", "0", "\"b\"", "55"));
    schema_fails(numbers, LIST("5", "-3", "\"a\""));
    const char *pair =
        "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"not\":{\"required\":[\"a\",\"b\"]}}";
    schema_fits(pair, LIST("{}", "{\"a\":1}", "{\"b\":1}"));
    schema_fails(pair, LIST("{\"a\":1,\"b\":1}"));
    schema_fits("{\"type\":\"string\",\"not\":{\"minLength\":2}}", LIST("\"\"", "\"a\""));
    schema_fails("{\"type\":\"string\",\"not\":{\"minLength\":2}}", LIST("\"ab\""));
}

Test(grammar_schema, arrays)
{
    schema_fits("{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", LIST("[]", "[1]", "[1,2,3]"));
    schema_fails("{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", LIST("[\"a\"]", "[1,]", "[1 2]"));
    const char *some = "{\"items\":{\"type\":\"null\"},\"minItems\":2,\"maxItems\":3}";
    schema_fits(some, LIST("[null,null]", "[null,null,null]"));
    schema_fails(some, LIST("[]", "[null]", "[null,null,null,null]"));
    schema_fits("{\"items\":{\"type\":\"null\"},\"maxItems\":0}", LIST("[]"));
    schema_fits("{\"items\":false}", LIST("[]"));
    schema_fails("{\"items\":false}", LIST("[1]"));
    const char *tuple = "{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"items\":{\"type\":"
                        "\"boolean\"},\"maxItems\":4}";
    schema_fits(tuple, LIST("[1,null]", "[1,null,true,false]"));
    schema_fails(tuple, LIST("[null,1]", "[1,null,true,true,true]"));
    schema_fits("{\"items\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", LIST("[1,null]"));
    schema_fails("{\"items\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", LIST("[1,null,1]"));
    schema_fits("{\"prefixItems\":[{\"type\":\"null\"}],\"minItems\":2}", LIST("[null,1]"));
}

Test(grammar_schema, objects)
{
    const char *schema =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"},"
        "\"c\":{\"type\":\"boolean\"}},\"required\":[\"b\"]}";
    schema_fits(schema, LIST("{\"b\":null}", "{\"a\":1,\"b\":null,\"c\":true}", "{\"b\":null,\"c\":true}",
                             "{ \"a\" : 1 , \"b\" : null }"));
    schema_fails(schema, LIST("{}", "{\"a\":1}", "{\"b\":null,\"a\":1}", "{\"b\":null,\"d\":1}",
                              "{\"b\":null,}", "{\"b\":null,\"b\":null}"));
    schema_fits("{\"type\":\"object\",\"properties\":{\"a\":true}}", LIST("{}", "{\"a\":[1]}"));
    schema_fits("{\"type\":\"object\",\"properties\":{\"\":{\"const\":1},\"\\\"\\n\xc3\xa9\":{\"const\":2}}}",
                LIST("{\"\":1,\"\\\"\\n\xc3\xa9\":2}"));
    schema_fits("{\"required\":[\"x\"]}", LIST("{\"x\":1}", "{\"x\":1,\"y\":2}"));
    schema_fails("{\"required\":[\"x\"]}", LIST("{}", "{\"y\":2}"));
    schema_fits("{\"properties\":{\"a\":false,\"b\":{\"const\":1}}}", LIST("{\"b\":1}"));
    schema_fails("{\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":false,\"required\":[\"b\"]}",
                 (const char *const[]){NULL});
}

Test(grammar_schema, other_properties)
{
    const char *schema =
        "{\"properties\":{\"a\":{\"const\":1},\"ab\":{\"const\":2},\"\xc3\xa9\":{\"const\":3}},"
        "\"additionalProperties\":{\"type\":\"null\"}}";
    schema_fits(schema, LIST("{}", "{\"a\":1}", "{\"a\":1,\"ab\":2,\"x\":null,\"y\":null}", "{\"x\":null}",
                             "{\"abc\":null}", "{\"\":null}", "{\"b\":null}", "{\"ax\":null}",
                             "{\"\xc3\xa8\":null}", "{\"\xc3\xa9\xc3\xa9\":null}", "{\"\\n\":null}"));
    /* Neither as it is nor with escapes. */
    schema_fails(schema, LIST("{\"a\":null}", "{\"ab\":null}", "{\"\xc3\xa9\":null}", "{\"\\u0061\":null}",
                              "{\"x\":1}", "{\"x\":null,\"a\":1}"));
    schema_fits("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
                LIST("{}", "{\"a\":1,\"b\":2}"));
    schema_fails("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
                 LIST("{\"a\":null}"));
    schema_fits("{\"type\":\"object\",\"additionalProperties\":false}", LIST("{}"));
    schema_fails("{\"type\":\"object\",\"additionalProperties\":false}", LIST("{\"a\":1}"));
    schema_fits("{\"properties\":{\"a\":true},\"additionalProperties\":true}", LIST("{\"a\":1,\"b\":[]}"));
    schema_fits(
        "{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"null\"}},\"additionalProperties\":"
        "false}",
        LIST("{}", "{\"x-a\":null,\"x-b\":null}"));
    schema_fails("{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"null\"}}}",
                 LIST("{\"y\":null}"));
    schema_fits("{\"type\":\"object\",\"propertyNames\":{\"maxLength\":2}}", LIST("{\"ab\":1}"));
    schema_fails("{\"type\":\"object\",\"propertyNames\":{\"maxLength\":2}}", LIST("{\"abc\":1}"));
    schema_fits("{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"p\",\"q\"]}}", LIST("{\"q\":1}"));
}

Test(grammar_schema, pattern_properties)
{
    const char *two =
        "{\"properties\":{\"a\":{\"const\":1}},\"patternProperties\":{\"^S_\":{\"type\":\"string\"},"
        "\"^I_[0-9]+$\":{\"type\":\"integer\"}}}";
    schema_fits(two, LIST("{}", "{\"a\":1,\"S_x\":\"\",\"I_12\":3,\"S_\":\"y\"}"));
    schema_fails(two, LIST("{\"S_x\":1}", "{\"I_1\":\"\"}", "{\"I_\":1}", "{\"b\":1}", "{\"a\":2}"));
    const char *more =
        "{\"patternProperties\":{\"^x-\":{\"type\":\"null\"},\"^\\\\$\":{\"type\":\"null\"}},"
        "\"properties\":{\"x\":{\"const\":1}},\"additionalProperties\":{\"type\":\"integer\"}}";
    schema_fits(more, LIST("{\"x\":1,\"x-a\":null,\"x_a\":5,\"$y\":null,\"y\":0,\"\":1}"));
    schema_fails(more, LIST("{\"x-a\":5}", "{\"x-\":5}", "{\"$\":5}", "{\"x\":2}", "{\"x_\":null}",
                            "{\"\\u0078-\":5}"));
}

Test(grammar_schema, property_names)
{
    const char *list = "{\"propertyNames\":{\"enum\":[\"p\",\"q\",\"r\",5]},\"minProperties\":2}";
    schema_fits(list, LIST("{\"p\":1,\"q\":[]}", "{\"p\":1,\"q\":2,\"r\":3}"));
    schema_fails(list, LIST("{\"p\":1}", "{\"p\":1,\"p\":1}", "{\"p\":1,\"s\":1}"));
    const char *named = "{\"properties\":{\"a\":true,\"bcd\":true},\"propertyNames\":{\"maxLength\":2}}";
    schema_fits(named, LIST("{\"a\":1}", "{}"));
    schema_fails(named, LIST("{\"bcd\":1}"));
    schema_fits("{\"properties\":{\"a\":{\"const\":1},\"c\":true},\"propertyNames\":{\"enum\":[\"a\",\"b\"]},"
                "\"additionalProperties\":{\"const\":2}}",
                LIST("{\"a\":1,\"b\":2}"));
    schema_fails(
        "{\"properties\":{\"a\":{\"const\":1},\"c\":true},\"propertyNames\":{\"enum\":[\"a\",\"b\"]},"
        "\"additionalProperties\":{\"const\":2}}",
        LIST("{\"c\":1}", "{\"b\":1}"));
    schema_fits("{\"type\":\"object\",\"propertyNames\":false}", LIST("{}"));
    schema_fails("{\"type\":\"object\",\"propertyNames\":false}", LIST("{\"a\":1}"));
}

Test(grammar_schema, numbers_of_properties)
{
    const char *schema = "{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{\"const\":3}},"
                         "\"minProperties\":1,\"maxProperties\":2}";
    schema_fits(schema, LIST("{\"a\":1}", "{\"c\":3}", "{\"a\":1,\"c\":3}"));
    schema_fails(schema, LIST("{}", "{\"a\":1,\"b\":2,\"c\":3}"));
    schema_fits("{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
                LIST("{\"a\":1}", "{\"a\":1,\"b\":1}"));
    schema_fails("{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
                 LIST("{}", "{\"a\":1,\"b\":1,\"c\":1}"));
    const char *more =
        "{\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":{\"const\":2},\"minProperties\":2}";
    schema_fits(more, LIST("{\"a\":1,\"b\":2}", "{\"b\":2,\"c\":2}"));
    schema_fails(more, LIST("{\"a\":1}", "{\"b\":2}"));
}

Test(grammar_schema, alternatives)
{
    schema_fits("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", LIST("1", "null"));
    schema_fits("{\"oneOf\":[{\"const\":\"a\"},{\"const\":\"b\"}]}", LIST("\"a\"", "\"b\""));
    /* Values that two alternatives list are none of "oneOf". */
    schema_fits("{\"oneOf\":[{\"enum\":[1,2,2]},{\"const\":3},{\"enum\":[1.0,4]}]}", LIST("2", "3", "4"));
    schema_fails("{\"oneOf\":[{\"enum\":[1,2,2]},{\"const\":3},{\"enum\":[1.0,4]}]}", LIST("1", "1.0"));
    schema_fits("{\"anyOf\":[{\"enum\":[1,2]},{\"enum\":[1,4]},{\"type\":\"null\"}]}",
                LIST("1", "2", "4", "null"));
    /* With keywords beside them. */
    const char *beside = "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"],"
                         "\"anyOf\":[{\"properties\":{\"b\":{\"const\":2}},\"required\":[\"b\"]},{"
                         "\"properties\":{\"c\":{\"const\":3}}}]}";
    schema_fits(beside, LIST("{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":3}", "{\"a\":1}"));
    schema_fails(beside, LIST("{\"b\":2}", "{\"a\":1,\"d\":1}"));
    schema_fits("{\"type\":\"integer\",\"anyOf\":[{\"maximum\":3},{\"minimum\":8}]}", LIST("3", "8", "-5"));
    schema_fails("{\"type\":\"integer\",\"anyOf\":[{\"maximum\":3},{\"minimum\":8}]}",
                 LIST("4", "7", "\"a\""));
}

Test(grammar_schema, all_of)
{
    const char *both =
        "{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":3}},\"required\":[\"a\"]},"
        "{\"properties\":{\"a\":{\"maximum\":5},\"b\":{\"type\":\"null\"}}}]}";
    schema_fits(both, LIST("{\"a\":3}", "{\"a\":5,\"b\":null}"));
    schema_fails(both, LIST("{}", "{\"a\":2}", "{\"a\":6}", "{\"a\":3.5}"));
    schema_fits("{\"allOf\":[{\"enum\":[1,2,3]},{\"enum\":[2,3,4]},{\"const\":3}]}", LIST("3"));
    schema_fails("{\"allOf\":[{\"enum\":[1,2,3]},{\"enum\":[2,3,4]}]}", LIST("1", "4"));
    schema_fits("{\"allOf\":[{\"type\":[\"string\",\"null\"]},{\"type\":[\"null\",\"integer\"]}]}",
                LIST("null"));
    schema_fits(
        "{\"allOf\":[{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]},{\"anyOf\":[{\"type\":"
        "\"integer\"},{\"type\":\"null\"}]}]}",
        LIST("1"));
    schema_fails(
        "{\"allOf\":[{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]},{\"anyOf\":[{\"type\":"
        "\"integer\"},{\"type\":\"null\"}]}]}",
        LIST("null", "\"a\""));
    schema_fits("{\"allOf\":[{\"items\":{\"minimum\":2}},{\"items\":{\"type\":\"integer\"},\"maxItems\":1}]}",
                LIST("[2]", "[]"));
    schema_fails(
        "{\"allOf\":[{\"items\":{\"minimum\":2}},{\"items\":{\"type\":\"integer\"},\"maxItems\":1}]}",
        LIST("[1]", "[2,2]"));
    /* What one schema forbids, the other can't allow. */
    const char *closed = "{\"allOf\":[{\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":false},{"
                         "\"properties\":{\"b\":{\"const\":2}}}]}";
    schema_fits(closed, LIST("{\"a\":1}", "{}"));
    schema_fails(closed, LIST("{\"b\":2}", "{\"a\":1,\"b\":2}"));
}

Test(grammar_schema, references)
{
    schema_fits("{\"items\":{\"$ref\":\"#/properties/x\"},\"properties\":{\"x\":{\"type\":\"null\"}}}",
                LIST("[null]"));
    schema_fits("{\"$ref\":\"#/$defs/a/anyOf/1\",\"$defs\":{\"a\":{\"anyOf\":[true,{\"const\":2}]}}}",
                LIST("2"));
    schema_fits("{\"$ref\":\"#/$defs/a~01%25/%C3%A9\",\"$defs\":{\"a~1%\":{\"\xc3\xa9\":{\"const\":2}}}}",
                LIST("2"));
    schema_fits("{\"$ref\":\"#//x\",\"\":{\"x\":{\"const\":2}}}", LIST("2"));
    schema_fits("{\"$ref\":\"#here\",\"$defs\":{\"a\":{\"$anchor\":\"here\",\"const\":2}}}", LIST("2"));
    schema_fits(
        "{\"$id\":\"https://example.org/s\",\"$ref\":\"https://example.org/s#/$defs/a\",\"$defs\":{\"a\":{"
        "\"const\":2}}}",
        LIST("2"));
    /* Definitions of an inner schema, found from the top as llama.cpp does. */
    schema_fits("{\"items\":{\"$ref\":\"#/$defs/a/items\",\"$defs\":{\"a\":{\"items\":{\"const\":2}}}}}",
                LIST("[2,2]"));
    schema_fits("{\"type\":\"array\",\"prefixItems\":{\"type\":\"null\"}}", LIST("[]", "[null,null]"));
    schema_fits("{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"type\":\"integer\"}}}", LIST("1"));
    schema_fits("{\"items\":{\"$ref\":\"#/definitions/a~1b%20c\"},\"definitions\":{\"a/b "
                "c\":{\"type\":\"integer\"}}}",
                LIST("[1,2]"));
    const char *tree = "{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"kids\":{\"type\":"
                       "\"array\",\"items\":{\"$ref\":\"#\"}}},"
                       "\"required\":[\"v\"]}";
    schema_fits(tree, LIST("{\"v\":1}", "{\"v\":1,\"kids\":[{\"v\":2,\"kids\":[]},{\"v\":3}]}"));
    schema_fails(tree, LIST("{\"v\":1,\"kids\":[{}]}"));
    schema_fits("{\"$ref\":\"#/$defs/a\",\"maximum\":3,\"$defs\":{\"a\":{\"type\":\"integer\"}}}", LIST("3"));
    schema_fails("{\"$ref\":\"#/$defs/a\",\"maximum\":3,\"$defs\":{\"a\":{\"type\":\"integer\"}}}",
                 LIST("4"));
    schema_fits("{\"allOf\":[{\"$ref\":\"#/$defs/base\"},{\"properties\":{\"next\":{\"$ref\":\"#\"}}}],"
                "\"$defs\":{\"base\":{\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}}}",
                LIST("{\"n\":1}", "{\"n\":1,\"next\":{\"n\":2,\"next\":{\"n\":3}}}"));
}

Test(grammar_schema, refused)
{
    static const struct {
        const char *schema, *message;
    } cases[] = {
        {"{", "JSON schema, line 1"},
        {"", "JSON schema, line 1"},
        {"[]", "should be a schema"},
        {"{\"type\":\"text\"}", "\"type\" should be"},
        {"{\"properties\":{\"a\":{\"type\":5}}}", "#/properties/a: \"type\" should be"},
        {"{\"not\":{}}", "no text of finite length"},
        {"{\"not\":{\"pattern\":\"a\"}}", "\"pattern\" is not supported in an \"if\" or a \"not\""},
        {"{\"type\":\"boolean\",\"default\":true,\"not\":{\"const\":[]},\"minItems\":1,\"type\":[\"array\","
         "\"null\"]}",
         "\"not\" is supported for"},
        {"{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "\"not\" is supported for"},
        {"{\"type\":\"string\",\"maxLength\":3,\"not\":{\"const\":\"a\"}}",
         "\"not\" is supported for strings"},
        {"{\"type\":\"array\",\"uniqueItems\":true}", "\"uniqueItems\" is supported for up to"},
        {"{\"$ref\":\"#/$defs/x\"}", "there is no \"#/$defs/x\""},
        {"{\"$ref\":\"https://example.org/a\"}", "is not supported: only \"#/"},
        {"{\"$ref\":\"#\"}", "nothing in between"},
        {"{\"allOf\":[{\"$ref\":\"#\"}]}", "go in a circle"},
        {"{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "no text of finite length"},
        {"{\"anyOf\":[]}", "\"anyOf\" should be an array"},
        {"{\"enum\":5}", "\"enum\" should be an array"},
        {"{\"enum\":[]}", "no text of finite length"},
        {"{\"items\":5}", "\"items\" should be a schema"},
        {"{\"properties\":5}", "\"properties\" should be an object"},
        {"{\"properties\":{\"a\":{}},\"required\":[5]}", "\"required\" should be an array of names"},
        {"{\"type\":\"string\",\"minLength\":-1}", "\"minLength\" should be a whole number"},
        {"{\"type\":\"integer\",\"minimum\":\"a\"}", "\"minimum\" should be a number"},
        {"{\"type\":\"integer\",\"multipleOf\":0}", "\"multipleOf\" should be a number above 0"},
        {"{\"type\":\"number\",\"multipleOf\":0.0001234}", "\"multipleOf\" is supported up to"},
        {"{\"type\":\"integer\",\"multipleOf\":4096,\"minimum\":0}", "\"multipleOf\" is supported up to"},
        {"{\"pattern\":\"^(?=a)\"}", "lookaround is not supported"},
        {"{\"pattern\":\"(a)\\\\1\"}", "back-references are not supported"},
        {"{\"pattern\":\"a\\\\b\"}", "word boundaries"},
        {"{\"pattern\":\"\\\\p{L}\"}", "\\p is not supported"},
        {"{\"pattern\":\"a^b\"}", "^ and $ are supported only"},
        {"{\"pattern\":\"(a\"}", ") is missing"},
        {"{\"pattern\":\"a)\"}", "( is missing"},
        {"{\"pattern\":\"[a\"}", "[ isn't closed"},
        {"{\"pattern\":\"*a\"}", "nothing to repeat"},
        {"{\"pattern\":\"[b-a]\"}", "ends before it begins"},
        {"{\"allOf\":[{\"pattern\":\"a\"},{\"pattern\":\"b\"}]}", "can't be put together"},
        {"{\"patternProperties\":{\"a\":{},\"b\":{}}}", "\"patternProperties\" is supported"},
        {"{\"patternProperties\":{\"^ab\":{},\"^a\":{}}}", "\"patternProperties\" is supported"},
        {"{\"patternProperties\":{\"^a|b\":{},\"^c\":{}}}", "\"patternProperties\" is supported"},
        {"{\"patternProperties\":{\"^ab?\":{},\"^ac\":{}}}", "\"patternProperties\" is supported"},
        {"{\"properties\":{\"ab\":{}},\"patternProperties\":{\"^a\":{}}}",
         "\"patternProperties\" is supported"},
        {"{\"patternProperties\":{\"^a$\":{}},\"additionalProperties\":true}",
         "\"patternProperties\" is supported"},
        {"{\"properties\":{\"a\":{}},\"propertyNames\":{\"maxLength\":2},\"additionalProperties\":true}",
         "\"propertyNames\" beside"},
        {"{\"$ref\":\"#/type\",\"type\":\"string\"}", "is not a schema"},
        {"{\"$ref\":\"#/anyOf/x\",\"anyOf\":[true]}", "there is no"},
        {"{\"$ref\":\"#nowhere\"}", "there is no"},
        {"{\"$ref\":5}", "\"$ref\" should be a text"},
        /* A NUL ends no name. */
        {"{\"type\":\"string\\u0000\"}", "\"type\" should be"},
        {"{\"properties\":{\"enum\":{\"type\":[\"null\",\"string\\u0000\"]}}}",
         "#/properties/enum: \"type\" should"},
        {"{\"format\":\"date\\u0000x\"}", "\"format\" should be a name"},
        {"{\"$ref\":\"#/$defs/a\\u0000b\",\"$defs\":{\"a\":{}}}", "\"$ref\" should be a text"},
        {"{\"$ref\":\"#a\",\"$defs\":{\"b\":{\"$anchor\":\"a\\u0000b\"}}}", "there is no \"#a\""},
        {"{\"enum\":[[1]],\"minItems\":1}", "\"minItems\" beside \"enum\""},
        /* Where it is. */
        {"{\"properties\":{\"a\":{\"items\":{\"anyOf\":[true,{\"$dynamicRef\":\"#a\"}]}}}}",
         "#/properties/a/items/anyOf/1: \"$dyn"},
        {"{\"properties\":{\"a\":{\"$ref\":\"#/$defs/"
         "b\"}},\"$defs\":{\"b\":{\"items\":{\"$dynamicRef\":\"#a\"}}}}",
         "JSON schema, #/$defs/b/items: \"$dyn"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        grammar_expect_refused(GRAMMAR_SCHEMA, cases[i].schema, cases[i].message);
}

/* Integers above 2^53 that are one double. */
Test(grammar_schema, integers_that_doubles_do_not_have)
{
    schema_fits("{\"enum\":[9007199254740992,9007199254740993],\"maximum\":9007199254740992}",
                LIST("9007199254740992"));
    schema_fails("{\"enum\":[9007199254740992,9007199254740993],\"maximum\":9007199254740992}",
                 LIST("9007199254740993"));
    const char *sum = "{\"allOf\":[{\"minimum\":9007199254740993},{\"minimum\":9007199254740992.0}],"
                      "\"type\":\"integer\",\"maximum\":9007199254740994}";
    schema_fits(sum, LIST("9007199254740993", "9007199254740994"));
    schema_fails(sum, LIST("9007199254740992"));
    const char *other = "{\"type\":\"integer\",\"not\":{\"const\":9007199254740993}}";
    schema_fits(other, LIST("9007199254740992", "9007199254740994"));
    schema_fails(other, LIST("9007199254740993"));
    schema_fits("{\"enum\":[9007199254740993,9007199254740994],\"multipleOf\":2}", LIST("9007199254740994"));
    schema_fails("{\"enum\":[9007199254740993,9007199254740994],\"multipleOf\":2}", LIST("9007199254740993"));
    /* Numbers without a fraction are integers, however they are written. */
    schema_fits("{\"enum\":[1e18],\"const\":1000000000000000000}", LIST("1000000000000000000"));
    const char *few = "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"integer\","
                      "\"minimum\":9223372036854775806,\"maximum\":9223372036854775807}}";
    schema_fits(few, LIST("[9223372036854775807,9223372036854775806]", "[]"));
    schema_fails(few, LIST("[9223372036854775806,9223372036854775806]"));
}

/* Thousands of properties, of which each is one of many that may come next. */
Test(grammar_schema, many_properties)
{
    enum { COUNT = 5000 };
    static char text[COUNT * 40];
    char *at = text + sprintf(text, "{\"properties\":{");
    for (int i = 0; i < COUNT; i++) at += sprintf(at, "%s\"p%x\":{\"const\":%d}", i ? "," : "", i, i % 10);
    strcpy(at, "},\"required\":[\"p800\",\"p900\"],\"additionalProperties\":{\"type\":\"null\"}}");
    struct grammar *grammar = grammar_of(GRAMMAR_SCHEMA, text);
    cr_assert(grammar_takes(grammar, "{\"p800\":8,\"p900\":4}"));
    cr_assert(grammar_takes(grammar, "{\"p0\":0,\"p7ff\":7,\"p800\":8,\"p9\\u0041\":null}") == false);
    cr_assert(grammar_takes(grammar,
                            "{\"p1\":1,\"p11\":7,\"p800\":8,\"p811\":5,\"p900\":4,\"p1387\":9,\"q\":null}"));
    cr_assert(!grammar_takes(grammar, "{\"p11\":7,\"p1\":1,\"p800\":8,\"p900\":4}"), "in another order");
    cr_assert(!grammar_takes(grammar, "{\"p1\":1,\"p900\":4}"), "one is missing");
    cr_assert(!grammar_takes(grammar, "{\"p800\":8,\"p900\":4,\"p1\":1}"), "in another order");
    cr_assert(!grammar_takes(grammar, "{\"p800\":8,\"p900\":4,\"p1388\":null,\"p1387\":9}"));
    cr_assert(!grammar_takes(grammar, "{\"p800\":8,\"p900\":4,\"p1\":null}"), "a name that has a schema");
    grammar_destroy(grammar);
}

/* Merging that multiplies, and long lists: a message or an answer, soon. */
Test(grammar_schema, hostile)
{
    static char text[120000];
    struct grammar *grammar;
    strcpy(text, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{");
    for (int i = 0; i < 30; i++)
        sprintf(text + strlen(text),
                "\"a%d\":{\"allOf\":[{\"$ref\":\"#/$defs/a%d\"},{\"$ref\":\"#/$defs/a%d\"}]},", i, i + 1,
                i + 1);
    strcat(text, "\"a30\":{\"type\":\"null\"}}}");
    grammar_expect_refused(GRAMMAR_SCHEMA, text, "too large once its parts are put together");
    char *at = text + sprintf(text, "{\"required\":[");
    for (int i = 0; i < 8000; i++) at += sprintf(at, "%s\"name%d\"", i ? "," : "", i);
    strcpy(at, "]}");
    cr_assert_eq(grammar_create(grammar_bytes(), GRAMMAR_SCHEMA, text, strlen(text), &grammar), ENGINE_OK);
    grammar_destroy(grammar);
    memset(text, '[', 100000);
    text[100000] = '\0';
    grammar_expect_refused(GRAMMAR_SCHEMA, text, "JSON schema, line 1");
}

/* Bounds that are too large to be followed digit by digit, and that no number without an exponent gets to. */
Test(grammar_schema, large_bounds)
{
    static const char *const upper[] = {
        "{\"type\":\"number\",\"maximum\":1e18}",
        "{\"type\":\"number\",\"maximum\":1000000000000000000000}",
        "{\"type\":\"number\",\"exclusiveMaximum\":1e19}",
        "{\"anyOf\":[{\"type\":\"number\",\"maximum\":1e300},{\"type\":\"null\"}]}",
        "{\"allOf\":[{\"type\":\"number\",\"maximum\":1e20},{\"maximum\":1e21}]}",
        "{\"type\":\"number\",\"minimum\":-1e20,\"maximum\":1e20}",
        "{\"type\":\"number\",\"not\":{\"minimum\":1e20}}"};
    for (size_t i = 0; i < sizeof upper / sizeof *upper; i++) {
        schema_fits(upper[i], LIST("1", "9999999999999999", "-9999999999999999", "1.5", "0"));
        schema_fails(upper[i], LIST("1e84", "1e301", "8472.34e84"));
    }
    const char *lower = "{\"type\":\"number\",\"minimum\":-1e20}";
    schema_fits(lower, LIST("1", "-9999999999999999"));
    schema_fails(lower, LIST("-1e21", "-1e84"));
    schema_fits("{\"minimum\":1e17,\"maximum\":1e18}", LIST("1000000000000000000", "100000000000000001"));
    schema_fails("{\"minimum\":1e17,\"maximum\":1e18}", LIST("1000000000000000001", "1000000000000000000.1"));
    schema_fails("{\"minimum\":1e16,\"exclusiveMaximum\":1e18}", LIST("1000000000000000000"));
    schema_fits("{\"exclusiveMinimum\":1e18}", LIST("1000000000000000001"));
    grammar_expect_refused(GRAMMAR_SCHEMA,
                           "{\"minimum\":9223372036854775808,\"exclusiveMinimum\":9223372036854775807}",
                           "has too many digits");
    schema_fails("{\"minimum\":9007199254740997,\"exclusiveMinimum\":9007199254740995}",
                 LIST("9007199254740996"));
    /* A far bound takes no digits after the point from near numbers. */
    schema_fits("{\"type\":\"number\",\"minimum\":0,\"maximum\":1e15}",
                LIST("0.12345678901234", "999999999.125", "999999999999999.5"));
    schema_fits("{\"type\":\"number\",\"maximum\":1000000000000000000}", LIST("-0.001", "3.14159"));
    schema_fits("{\"type\":\"integer\",\"maximum\":18446744073709551615}", LIST("9999999999999999"));
    schema_fails("{\"type\":\"integer\",\"maximum\":18446744073709551615}", LIST("1e2"));
    static const char *const refused[] = {"{\"minimum\":1e20}",
                                          "{\"maximum\":-1e20}",
                                          "{\"exclusiveMinimum\":1e19}",
                                          "{\"minimum\":1e300,\"maximum\":1e301}",
                                          "{\"minimum\":1e20,\"multipleOf\":5}",
                                          "{\"not\":{\"maximum\":1e20}}"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        grammar_expect_refused(GRAMMAR_SCHEMA, refused[i], "has too many digits");
    static const char *const listed[] = {"{\"const\":18446744073709551615}",
                                         "{\"enum\":[1,-9223372036854775809]}",
                                         "{\"enum\":[{\"a\":[100000000000000000000000000001]}]}",
                                         "{\"properties\":{\"a\":{\"const\":9223372036854775809}}}"};
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++)
        grammar_expect_refused(GRAMMAR_SCHEMA, listed[i], "has an integer of more than 64 bits");
    schema_fits("{\"enum\":[9223372036854775807,-9223372036854775808,0.5,1e300]}",
                LIST("9223372036854775807", "-9223372036854775808", "0.5", "1e300"));
    schema_fits("{\"type\":\"object\",\"properties\":{\"const\":{\"maximum\":18446744073709551615}}}",
                LIST("{}"));
    schema_fails("{\"type\":\"number\",\"multipleOf\":5,\"maximum\":1e20}", LIST("5e84", "7"));
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"maximum\":1e400}", "the largest double near '1e400'");
}

/* How often an array contains something. */
Test(grammar_schema, contains_at_most)
{
    const char *never = "{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":0,\"maxContains\":0}";
    schema_fits(never, LIST("[]", "[2]", "[\"a\",3]"));
    schema_fails(never, LIST("[1]", "[2,1]"));
    schema_fits("{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":0}",
                LIST("[]", "[1,1]", "[2]"));
    const char *one =
        "{\"type\":\"array\",\"contains\":{\"const\":\"a\"},\"minContains\":0,\"maxContains\":1}";
    schema_fits(one, LIST("[]", "[\"a\"]", "[1,\"a\",\"b\",{}]"));
    schema_fails(one, LIST("[\"a\",\"a\"]", "[\"a\",1,\"a\"]"));
    const char *between =
        "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",3]},\"contains\":{\"enum\":[\"a\",3]},"
        "\"minContains\":2,\"maxContains\":3,\"minItems\":3,\"maxItems\":5}";
    schema_fits(between, LIST("[\"a\",3,\"b\"]", "[\"b\",\"a\",\"b\",3,\"a\"]", "[3,3,3]"));
    schema_fails(between, LIST("[\"a\",3]", "[\"a\",\"b\",\"b\"]", "[\"a\",\"a\",\"a\",\"a\"]",
                               "[\"a\",\"a\",\"b\",\"b\",\"b\",\"b\"]"));
    const char *several = "{\"type\":\"array\",\"contains\":{\"type\":\"integer\"},\"minContains\":2}";
    schema_fits(several, LIST("[1,2]", "[\"x\",1,[],2,3]"));
    schema_fails(several, LIST("[]", "[1]", "[\"x\",1,\"y\"]"));
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"contains\":{\"const\":1},\"maxContains\":0}", "no text");
    /* Limits that the length of the array makes idle, or never met. */
    const char *idle =
        "{\"type\":\"array\",\"maxItems\":2,\"contains\":{\"type\":\"integer\"},\"maxContains\":100}";
    schema_fits(idle, LIST("[1]", "[1,2]", "[\"a\",1]"));
    schema_fails(idle, LIST("[]", "[\"a\"]", "[1,2,3]"));
    grammar_expect_refused(
        GRAMMAR_SCHEMA, "{\"type\":\"array\",\"maxItems\":3,\"contains\":{},\"minContains\":70}", "no text");
    /* Those of another schema don't count. */
    const char *apart = "{\"type\":\"array\",\"allOf\":[{\"contains\":{\"const\":1}},{\"minContains\":0}]}";
    schema_fits(apart, LIST("[1]", "[2,1]"));
    schema_fails(apart, LIST("[]", "[2]"));
}
