/* test-grammar-schema.c: JSON schemas, each keyword for itself. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "grammar-fixture.h"

TestSuite(grammar_schema);

static void fits(const char *schema, const char *const *texts)
{
    for (; *texts; texts++) grammar_expect(GRAMMAR_SCHEMA, schema, *texts, GRAMMAR_FITS);
}

static void fails(const char *schema, const char *const *texts)
{
    for (; *texts; texts++) grammar_expect(GRAMMAR_SCHEMA, schema, *texts, GRAMMAR_DOES_NOT_FIT);
}

#define LIST(...)                                                                                            \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

Test(grammar_schema, any_value)
{
    const char *values[] = {"null",  "true", "false",   "0",  "-12.5e-3",
                            "\"a\"", "[]",   "[1,[2]]", "{}", "{\"a\": {\"b\": [null]}}",
                            NULL};
    fits("{}", values);
    fits("true", values);
    fits("{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[1],\"x-mine\":2,\"$comment\":"
         "\"\"}",
         values);
    fails("{}",
          LIST("", "nul", "01", "1.", ".5", "+1", "1e", "'a'", "[1,]", "{\"a\"}", "{a:1}", "tru e", "1e123"));
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
    fits("{\"type\":\"array\"}", LIST("[ 1 , 2 ]", "[\n\t1\n ,\n2\n]"));
    fails("{\"type\":\"array\"}", LIST(" []", "[] ", "[  1]", "[\r1]", "[\n\n1]"));
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
    fits(any, LIST("\"\"", "\"a b\"", "\"\\\"\\\\\\b\\f\\n\\r\\t\"", "\"\\u00e9\\u20AC\\ud83d\\ude00\"",
                   "\"\xe2\x82\xac\""));
    fails(any, LIST("\"", "\"\n\"", "\"\\q\"", "\"\\u12\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\u0000\"",
                    "\"\xff\"", "a"));
    const char *some = "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}";
    fits(some, LIST("\"ab\"", "\"abc\"", "\"\xc3\xa9\\n\"", "\"\\ud83d\\ude00x\""));
    fails(some, LIST("\"a\"", "\"abcd\"", "\"\\n\""));
    fits("{\"minLength\":2}", LIST("\"ab\"", "\"abcdefgh\""));
    fails("{\"minLength\":2}", LIST("\"a\"", "1"));
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}",
                           "no text of finite length");
}

Test(grammar_schema, types)
{
    fits("{\"type\":[\"string\",\"null\"]}", LIST("\"a\"", "null"));
    fails("{\"type\":[\"string\",\"null\"]}", LIST("1", "[]"));
    fits("{\"type\":\"boolean\",\"nullable\":true}", LIST("true", "false", "null"));
    fits("{\"type\":\"integer\"}", LIST("0", "-1", "1234567890123456"));
    fails("{\"type\":\"integer\"}", LIST("1.5", "1e3", "12345678901234567", "00", "-"));
    fits("{\"type\":\"number\"}", LIST("0", "-1.5", "1e-3", "1.25E+10"));
    fits("{\"type\":[\"integer\",\"number\"]}", LIST("1.5"));
}

Test(grammar_schema, values)
{
    fits("{\"const\":{\"a\":[1,0.1,\"\xc3\xa9\\n\"]}}", LIST("{\"a\":[1,0.1,\"\xc3\xa9\\n\"]}"));
    fits("{\"enum\":[\"a\",1,1.5,null,true,[1],{}]}", LIST("\"a\"", "1", "1.5", "null", "true", "[1]", "{}"));
    fails("{\"enum\":[\"a\",1]}", LIST("\"b\"", "a", "2", "11"));
    fits("{\"type\":\"string\",\"enum\":[\"a\",null,\"abc\"],\"maxLength\":1}", LIST("\"a\""));
    fails("{\"type\":\"string\",\"enum\":[\"a\",null,\"abc\"],\"maxLength\":1}", LIST("null", "\"abc\""));
    fails("{\"type\":\"integer\",\"enum\":[1,5,9],\"minimum\":2,\"exclusiveMaximum\":9}", LIST("1", "9"));
    fits("{\"enum\":[\"ab\",\"b\",4,6],\"pattern\":\"^a\",\"multipleOf\":3}", LIST("\"ab\"", "6"));
    fails("{\"enum\":[\"ab\",\"b\",4,6],\"pattern\":\"^a\",\"multipleOf\":3}", LIST("\"b\"", "4"));
    fits("{\"enum\":[\"2024-01-31\",\"2024-01-32\"],\"format\":\"date\"}", LIST("\"2024-01-31\""));
    fails("{\"enum\":[\"2024-01-31\",\"2024-01-32\"],\"format\":\"date\"}", LIST("\"2024-01-32\""));
    fits("{\"enum\":[1,{\"a\":1,\"b\":[2.0]}],\"allOf\":[{\"const\":{\"b\":[2],\"a\":1.0}}]}",
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
    fits("{\"type\":\"integer\",\"minimum\":-9223372036854775807}",
         LIST("-9223372036854775807", "9223372036854775807"));
    fails("{\"type\":\"integer\",\"minimum\":-9223372036854775807}", LIST("-9223372036854775808"));
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
    fails("{\"type\":\"number\",\"exclusiveMaximum\":2.5}", LIST("2.4999999999999999"));
    fits("{\"type\":\"number\",\"exclusiveMaximum\":2.5}", LIST("2.49999999999999", "2.4"));
    fits("{\"type\":\"number\",\"minimum\":0.1234567890123456}", LIST("0.1234567890123456"));
    fits("{\"type\":\"number\",\"minimum\":0.5,\"maximum\":12}", LIST("12", "12.0", "1", "0.50", "11.9999"));
    fails("{\"type\":\"number\",\"minimum\":0.5,\"maximum\":12}",
          LIST("12.01", "0", "0.4999", "13", "1e0", "-1"));
}

Test(grammar_schema, multiples)
{
    fits("{\"type\":\"integer\",\"multipleOf\":7}", LIST("0", "7", "-14", "7000000000000000"));
    fails("{\"type\":\"integer\",\"multipleOf\":7}", LIST("1", "-13", "7000001", "70000000000000000"));
    fits("{\"type\":\"integer\",\"multipleOf\":25,\"minimum\":30,\"exclusiveMaximum\":100}",
         LIST("50", "75"));
    fails("{\"type\":\"integer\",\"multipleOf\":25,\"minimum\":30,\"exclusiveMaximum\":100}",
          LIST("25", "100", "0"));
    fits("{\"type\":\"number\",\"multipleOf\":0.01}", LIST("1", "1.2", "1.25"));
    fails("{\"type\":\"number\",\"multipleOf\":0.01}", LIST("1.255"));
    fails("{\"type\":\"number\",\"multipleOf\":1,\"minimum\":0}", LIST("1.5"));
}

/* Multiples of a number in units of 1 / `units`, within the bounds, against division. */
static void all_multiples(const char *rest, const char *divisor, long long units, long long unit_divisor,
                          long long low, long long high)
{
    char schema[160], text[32];
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
    fits("{\"type\":\"integer\",\"multipleOf\":2.5}", LIST("5", "0", "-15"));
    fails("{\"type\":\"integer\",\"multipleOf\":2.5}", LIST("2", "7.5"));
}

Test(grammar_schema, unique_items)
{
    const char *some = "{\"items\":{\"enum\":[\"a\",\"b\",\"a\",1,1.0]},\"uniqueItems\":true,\"maxItems\":2}";
    fits(some, LIST("[]", "[\"a\"]", "[1 , \"b\"]", "[\"b\",\"a\"]"));
    fails(some, LIST("[\"a\",\"a\"]", "[1,1]", "[1,\"a\",\"b\"]", "[1,]", "[,1]"));
    const char *all = "{\"items\":{\"type\":[\"boolean\",\"null\"]},\"uniqueItems\":true,\"minItems\":3}";
    fits(all, LIST("[null,true,false]", "[false,true,null]"));
    fails(all, LIST("[]", "[true,false]", "[true,false,true]", "[true,false,null,null]"));
    fits("{\"items\":{\"$ref\":\"#/$defs/d\"},\"uniqueItems\":true,\"$defs\":{\"d\":{\"type\":\"integer\","
         "\"minimum\":1,\"maximum\":6}}}",
         LIST("[6,1,2,3,5,4]"));
    fails("{\"items\":{\"type\":\"boolean\"},\"uniqueItems\":true,\"minItems\":3}",
          (const char *const[]){NULL});
    fits("{\"items\":{\"type\":\"string\"},\"uniqueItems\":true,\"maxItems\":1}", LIST("[\"x\"]"));
    fits("{\"type\":\"array\",\"uniqueItems\":false}", LIST("[1,1]"));
}

Test(grammar_schema, not )
{
    const char *names =
        "{\"type\":[\"string\",\"null\"],\"not\":{\"enum\":[\"\",\"ab\",\"abc\",\"\xc3\xa9\",null]}}";
    fits(names, LIST("\"a\"", "\"abcd\"", "\"b\"", "\"\xc3\xa8\""));
    fails(names, LIST("\"\"", "\"ab\"", "\"abc\"", "\"\\u0061b\"", "\"\xc3\xa9\"", "null", "1"));
    fits("{\"enum\":[1,\"a\",2,null],\"not\":{\"const\":1.0}}", LIST("\"a\"", "2", "null"));
    fails("{\"enum\":[1,\"a\",2,null],\"not\":{\"const\":1.0}}", LIST("1"));
    fails("{\"enum\":[1,\"a\",2,null],\"not\":{\"type\":\"integer\"}}", LIST("1", "2"));
    fits("{\"not\":{\"type\":[\"object\",\"number\"]}}", LIST("[1]", "\"\"", "null"));
    fails("{\"not\":{\"type\":[\"object\",\"number\"]}}", LIST("1", "{}", "1.5"));
    fits("{\"type\":\"integer\",\"minimum\":1,\"maximum\":9,\"not\":{\"enum\":[5,7]}}", LIST("4", "6"));
    fails("{\"type\":\"integer\",\"minimum\":1,\"maximum\":9,\"not\":{\"enum\":[5,7]}}",
          LIST("5", "7", "10"));
    fits("{\"type\":\"string\",\"minLength\":1,\"not\":{\"const\":\"\"}}", LIST("\"a\""));
    fails("{\"type\":\"string\",\"allOf\":[{\"not\":{\"const\":\"a\"}},{\"not\":{\"const\":\"b\"}}]}",
          LIST("\"a\"", "\"b\""));
    const char *beside = "{\"anyOf\":[{\"enum\":[1,2]},{\"type\":\"string\"}],\"not\":{\"enum\":[2,\"x\"]}}";
    fits(beside, LIST("1", "\"y\""));
    fails(beside, LIST("2", "\"x\""));
    fits("{\"type\":\"null\",\"not\":false}", LIST("null"));
}

Test(grammar_schema, arrays)
{
    fits("{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", LIST("[]", "[1]", "[1,2,3]"));
    fails("{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", LIST("[\"a\"]", "[1,]", "[1 2]"));
    const char *some = "{\"items\":{\"type\":\"null\"},\"minItems\":2,\"maxItems\":3}";
    fits(some, LIST("[null,null]", "[null,null,null]"));
    fails(some, LIST("[]", "[null]", "[null,null,null,null]"));
    fits("{\"items\":{\"type\":\"null\"},\"maxItems\":0}", LIST("[]"));
    fits("{\"items\":false}", LIST("[]"));
    fails("{\"items\":false}", LIST("[1]"));
    const char *tuple = "{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"items\":{\"type\":"
                        "\"boolean\"},\"maxItems\":4}";
    fits(tuple, LIST("[1,null]", "[1,null,true,false]"));
    fails(tuple, LIST("[null,1]", "[1,null,true,true,true]"));
    fits("{\"items\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", LIST("[1,null]"));
    fails("{\"items\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", LIST("[1,null,1]"));
    fits("{\"prefixItems\":[{\"type\":\"null\"}],\"minItems\":2}", LIST("[null,1]"));
}

Test(grammar_schema, objects)
{
    const char *schema =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"},"
        "\"c\":{\"type\":\"boolean\"}},\"required\":[\"b\"]}";
    fits(schema, LIST("{\"b\":null}", "{\"a\":1,\"b\":null,\"c\":true}", "{\"b\":null,\"c\":true}",
                      "{ \"a\" : 1 , \"b\" : null }"));
    fails(schema, LIST("{}", "{\"a\":1}", "{\"b\":null,\"a\":1}", "{\"b\":null,\"d\":1}", "{\"b\":null,}",
                       "{\"b\":null,\"b\":null}"));
    fits("{\"type\":\"object\",\"properties\":{\"a\":true}}", LIST("{}", "{\"a\":[1]}"));
    fits("{\"type\":\"object\",\"properties\":{\"\":{\"const\":1},\"\\\"\\n\xc3\xa9\":{\"const\":2}}}",
         LIST("{\"\":1,\"\\\"\\n\xc3\xa9\":2}"));
    fits("{\"required\":[\"x\"]}", LIST("{\"x\":1}", "{\"x\":1,\"y\":2}"));
    fails("{\"required\":[\"x\"]}", LIST("{}", "{\"y\":2}"));
    fits("{\"properties\":{\"a\":false,\"b\":{\"const\":1}}}", LIST("{\"b\":1}"));
    fails("{\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":false,\"required\":[\"b\"]}",
          (const char *const[]){NULL});
}

Test(grammar_schema, other_properties)
{
    const char *schema =
        "{\"properties\":{\"a\":{\"const\":1},\"ab\":{\"const\":2},\"\xc3\xa9\":{\"const\":3}},"
        "\"additionalProperties\":{\"type\":\"null\"}}";
    fits(schema, LIST("{}", "{\"a\":1}", "{\"a\":1,\"ab\":2,\"x\":null,\"y\":null}", "{\"x\":null}",
                      "{\"abc\":null}", "{\"\":null}", "{\"b\":null}", "{\"ax\":null}", "{\"\xc3\xa8\":null}",
                      "{\"\xc3\xa9\xc3\xa9\":null}", "{\"\\n\":null}"));
    /* Neither as it is nor with escapes. */
    fails(schema, LIST("{\"a\":null}", "{\"ab\":null}", "{\"\xc3\xa9\":null}", "{\"\\u0061\":null}",
                       "{\"x\":1}", "{\"x\":null,\"a\":1}"));
    fits("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
         LIST("{}", "{\"a\":1,\"b\":2}"));
    fails("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}", LIST("{\"a\":null}"));
    fits("{\"type\":\"object\",\"additionalProperties\":false}", LIST("{}"));
    fails("{\"type\":\"object\",\"additionalProperties\":false}", LIST("{\"a\":1}"));
    fits("{\"properties\":{\"a\":true},\"additionalProperties\":true}", LIST("{\"a\":1,\"b\":[]}"));
    fits("{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"null\"}},\"additionalProperties\":"
         "false}",
         LIST("{}", "{\"x-a\":null,\"x-b\":null}"));
    fails("{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"null\"}}}", LIST("{\"y\":null}"));
    fits("{\"type\":\"object\",\"propertyNames\":{\"maxLength\":2}}", LIST("{\"ab\":1}"));
    fails("{\"type\":\"object\",\"propertyNames\":{\"maxLength\":2}}", LIST("{\"abc\":1}"));
    fits("{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"p\",\"q\"]}}", LIST("{\"q\":1}"));
}

Test(grammar_schema, pattern_properties)
{
    const char *two =
        "{\"properties\":{\"a\":{\"const\":1}},\"patternProperties\":{\"^S_\":{\"type\":\"string\"},"
        "\"^I_[0-9]+$\":{\"type\":\"integer\"}}}";
    fits(two, LIST("{}", "{\"a\":1,\"S_x\":\"\",\"I_12\":3,\"S_\":\"y\"}"));
    fails(two, LIST("{\"S_x\":1}", "{\"I_1\":\"\"}", "{\"I_\":1}", "{\"b\":1}", "{\"a\":2}"));
    const char *more =
        "{\"patternProperties\":{\"^x-\":{\"type\":\"null\"},\"^\\\\$\":{\"type\":\"null\"}},"
        "\"properties\":{\"x\":{\"const\":1}},\"additionalProperties\":{\"type\":\"integer\"}}";
    fits(more, LIST("{\"x\":1,\"x-a\":null,\"x_a\":5,\"$y\":null,\"y\":0,\"\":1}"));
    fails(more,
          LIST("{\"x-a\":5}", "{\"x-\":5}", "{\"$\":5}", "{\"x\":2}", "{\"x_\":null}", "{\"\\u0078-\":5}"));
}

Test(grammar_schema, property_names)
{
    const char *list = "{\"propertyNames\":{\"enum\":[\"p\",\"q\",\"r\",5]},\"minProperties\":2}";
    fits(list, LIST("{\"p\":1,\"q\":[]}", "{\"p\":1,\"q\":2,\"r\":3}"));
    fails(list, LIST("{\"p\":1}", "{\"p\":1,\"p\":1}", "{\"p\":1,\"s\":1}"));
    const char *named = "{\"properties\":{\"a\":true,\"bcd\":true},\"propertyNames\":{\"maxLength\":2}}";
    fits(named, LIST("{\"a\":1}", "{}"));
    fails(named, LIST("{\"bcd\":1}"));
    fits("{\"properties\":{\"a\":{\"const\":1},\"c\":true},\"propertyNames\":{\"enum\":[\"a\",\"b\"]},"
         "\"additionalProperties\":{\"const\":2}}",
         LIST("{\"a\":1,\"b\":2}"));
    fails("{\"properties\":{\"a\":{\"const\":1},\"c\":true},\"propertyNames\":{\"enum\":[\"a\",\"b\"]},"
          "\"additionalProperties\":{\"const\":2}}",
          LIST("{\"c\":1}", "{\"b\":1}"));
    fits("{\"type\":\"object\",\"propertyNames\":false}", LIST("{}"));
    fails("{\"type\":\"object\",\"propertyNames\":false}", LIST("{\"a\":1}"));
}

Test(grammar_schema, numbers_of_properties)
{
    const char *schema = "{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{\"const\":3}},"
                         "\"minProperties\":1,\"maxProperties\":2}";
    fits(schema, LIST("{\"a\":1}", "{\"c\":3}", "{\"a\":1,\"c\":3}"));
    fails(schema, LIST("{}", "{\"a\":1,\"b\":2,\"c\":3}"));
    fits("{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
         LIST("{\"a\":1}", "{\"a\":1,\"b\":1}"));
    fails("{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
          LIST("{}", "{\"a\":1,\"b\":1,\"c\":1}"));
    const char *more =
        "{\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":{\"const\":2},\"minProperties\":2}";
    fits(more, LIST("{\"a\":1,\"b\":2}", "{\"b\":2,\"c\":2}"));
    fails(more, LIST("{\"a\":1}", "{\"b\":2}"));
}

Test(grammar_schema, alternatives)
{
    fits("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", LIST("1", "null"));
    fits("{\"oneOf\":[{\"const\":\"a\"},{\"const\":\"b\"}]}", LIST("\"a\"", "\"b\""));
    /* Values that two alternatives list are none of "oneOf". */
    fits("{\"oneOf\":[{\"enum\":[1,2,2]},{\"const\":3},{\"enum\":[1.0,4]}]}", LIST("2", "3", "4"));
    fails("{\"oneOf\":[{\"enum\":[1,2,2]},{\"const\":3},{\"enum\":[1.0,4]}]}", LIST("1", "1.0"));
    fits("{\"anyOf\":[{\"enum\":[1,2]},{\"enum\":[1,4]},{\"type\":\"null\"}]}", LIST("1", "2", "4", "null"));
    /* With keywords beside them. */
    const char *beside = "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"],"
                         "\"anyOf\":[{\"properties\":{\"b\":{\"const\":2}},\"required\":[\"b\"]},{"
                         "\"properties\":{\"c\":{\"const\":3}}}]}";
    fits(beside, LIST("{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":3}", "{\"a\":1}"));
    fails(beside, LIST("{\"b\":2}", "{\"a\":1,\"d\":1}"));
    fits("{\"type\":\"integer\",\"anyOf\":[{\"maximum\":3},{\"minimum\":8}]}", LIST("3", "8", "-5"));
    fails("{\"type\":\"integer\",\"anyOf\":[{\"maximum\":3},{\"minimum\":8}]}", LIST("4", "7", "\"a\""));
}

Test(grammar_schema, all_of)
{
    const char *both =
        "{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":3}},\"required\":[\"a\"]},"
        "{\"properties\":{\"a\":{\"maximum\":5},\"b\":{\"type\":\"null\"}}}]}";
    fits(both, LIST("{\"a\":3}", "{\"a\":5,\"b\":null}"));
    fails(both, LIST("{}", "{\"a\":2}", "{\"a\":6}", "{\"a\":3.5}"));
    fits("{\"allOf\":[{\"enum\":[1,2,3]},{\"enum\":[2,3,4]},{\"const\":3}]}", LIST("3"));
    fails("{\"allOf\":[{\"enum\":[1,2,3]},{\"enum\":[2,3,4]}]}", LIST("1", "4"));
    fits("{\"allOf\":[{\"type\":[\"string\",\"null\"]},{\"type\":[\"null\",\"integer\"]}]}", LIST("null"));
    fits("{\"allOf\":[{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]},{\"anyOf\":[{\"type\":"
         "\"integer\"},{\"type\":\"null\"}]}]}",
         LIST("1"));
    fails("{\"allOf\":[{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]},{\"anyOf\":[{\"type\":"
          "\"integer\"},{\"type\":\"null\"}]}]}",
          LIST("null", "\"a\""));
    fits("{\"allOf\":[{\"items\":{\"minimum\":2}},{\"items\":{\"type\":\"integer\"},\"maxItems\":1}]}",
         LIST("[2]", "[]"));
    fails("{\"allOf\":[{\"items\":{\"minimum\":2}},{\"items\":{\"type\":\"integer\"},\"maxItems\":1}]}",
          LIST("[1]", "[2,2]"));
    /* What one schema forbids, the other can't allow. */
    const char *closed = "{\"allOf\":[{\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":false},{"
                         "\"properties\":{\"b\":{\"const\":2}}}]}";
    fits(closed, LIST("{\"a\":1}", "{}"));
    fails(closed, LIST("{\"b\":2}", "{\"a\":1,\"b\":2}"));
}

Test(grammar_schema, references)
{
    fits("{\"items\":{\"$ref\":\"#/properties/x\"},\"properties\":{\"x\":{\"type\":\"null\"}}}",
         LIST("[null]"));
    fits("{\"$ref\":\"#/$defs/a/anyOf/1\",\"$defs\":{\"a\":{\"anyOf\":[true,{\"const\":2}]}}}", LIST("2"));
    fits("{\"$ref\":\"#/$defs/a~01%25/%C3%A9\",\"$defs\":{\"a~1%\":{\"\xc3\xa9\":{\"const\":2}}}}",
         LIST("2"));
    fits("{\"$ref\":\"#//x\",\"\":{\"x\":{\"const\":2}}}", LIST("2"));
    fits("{\"$ref\":\"#here\",\"$defs\":{\"a\":{\"$anchor\":\"here\",\"const\":2}}}", LIST("2"));
    fits("{\"$id\":\"https://example.org/s\",\"$ref\":\"https://example.org/s#/$defs/a\",\"$defs\":{\"a\":{"
         "\"const\":2}}}",
         LIST("2"));
    /* Definitions of an inner schema, found from the top as llama.cpp does. */
    fits("{\"items\":{\"$ref\":\"#/$defs/a/items\",\"$defs\":{\"a\":{\"items\":{\"const\":2}}}}}",
         LIST("[2,2]"));
    fits("{\"type\":\"array\",\"prefixItems\":{\"type\":\"null\"}}", LIST("[]", "[null,null]"));
    fits("{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"type\":\"integer\"}}}", LIST("1"));
    fits("{\"items\":{\"$ref\":\"#/definitions/a~1b%20c\"},\"definitions\":{\"a/b "
         "c\":{\"type\":\"integer\"}}}",
         LIST("[1,2]"));
    const char *tree = "{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"kids\":{\"type\":"
                       "\"array\",\"items\":{\"$ref\":\"#\"}}},"
                       "\"required\":[\"v\"]}";
    fits(tree, LIST("{\"v\":1}", "{\"v\":1,\"kids\":[{\"v\":2,\"kids\":[]},{\"v\":3}]}"));
    fails(tree, LIST("{\"v\":1,\"kids\":[{}]}"));
    fits("{\"$ref\":\"#/$defs/a\",\"maximum\":3,\"$defs\":{\"a\":{\"type\":\"integer\"}}}", LIST("3"));
    fails("{\"$ref\":\"#/$defs/a\",\"maximum\":3,\"$defs\":{\"a\":{\"type\":\"integer\"}}}", LIST("4"));
    fits("{\"allOf\":[{\"$ref\":\"#/$defs/base\"},{\"properties\":{\"next\":{\"$ref\":\"#\"}}}],"
         "\"$defs\":{\"base\":{\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}}}",
         LIST("{\"n\":1}", "{\"n\":1,\"next\":{\"n\":2,\"next\":{\"n\":3}}}"));
}

Test(grammar_schema, patterns)
{
    static const struct {
        const char *pattern;
        const char *fits[6], *fails[6];
    } cases[] = {
        {"^ab?c*$", {"a", "ab", "acc", "abcc"}, {"", "b", "abb", "xa"}},
        {"^(a|bc)+$", {"a", "bc", "abca"}, {"", "b", "ac"}},
        {"^(?:x{2}|y{1,2}|z{2,})$", {"xx", "y", "yy", "zz", "zzzz"}, {"x", "yyy", "z"}},
        {"^\\\\d\\\\w\\\\s$", {"1a ", "9_\\t"}, {"aa ", "1- ", "1ax"}},
        {"^\\\\D\\\\W\\\\S$", {"a-b", "x x"}, {"1-b", "aab", "a- "}},
        {"^[a-c_-]+$", {"abc", "_-"}, {"d", ""}},
        {"^[^a-c]$", {"d", "\xc3\xa9", "\\\""}, {"a", "c", "dd"}},
        {"^[\\\\d.]+$", {"1.2"}, {"a"}},
        {"^[^\\\\s\\\\d]$", {"a"}, {" ", "1"}},
        {"^.$", {"a", "\xe2\x82\xac", "\\\\", "\\t"}, {"\\n", "ab"}},
        {"^\\\\x41\\\\u00e9\\\\.\\\\/\\\\$$", {"A\xc3\xa9./$"}, {"A\xc3\xa9x/$"}},
        {"^a.*b$", {"ab", "axxb"}, {"a", "abx"}},
        {"b", {"b", "abc", "xxb"}, {"", "a"}},
        {"^b", {"b", "bc"}, {"ab"}},
        {"b$", {"b", "ab"}, {"bc"}},
        {"^a$|^bc|d$", {"a", "bc", "bcx", "xd"}, {"ab", "xbc", "dx"}},
        {"^(?<name>a)\\\"$", {"a\\\""}, {"a"}},
        {"^a{,2}$", {"", "a", "aa"}, {"a{,2}", "aaa"}},
        {"^a{}{,}{x$", {"a{}{,}{x"}, {"a"}},
        {"(^a$|^b$)", {"a", "b"}, {"ab", "xa"}},
        {"(?:(^a[)]|b$))", {"a)c", "xb"}, {"xa)", "bx"}},
        {"(a)(b)", {"xaby"}, {"a"}},
        {"^a+?b$", {"ab", "aab"}, {"b"}},
        {"^$", {""}, {"a"}},
    };
    char schema[128], text[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(schema, sizeof schema, "{\"type\":\"string\",\"pattern\":\"%s\"}", cases[i].pattern);
        for (size_t j = 0; j < 6 && cases[i].fits[j]; j++) {
            snprintf(text, sizeof text, "\"%s\"", cases[i].fits[j]);
            grammar_expect(GRAMMAR_SCHEMA, schema, text, GRAMMAR_FITS);
        }
        for (size_t j = 0; j < 6 && cases[i].fails[j]; j++) {
            snprintf(text, sizeof text, "\"%s\"", cases[i].fails[j]);
            grammar_expect(GRAMMAR_SCHEMA, schema, text, GRAMMAR_DOES_NOT_FIT);
        }
    }
}

Test(grammar_schema, patterns_with_lengths)
{
    const char *name = "{\"pattern\":\"^[a-z][a-z0-9]*$\",\"minLength\":2,\"maxLength\":4}";
    fits(name, LIST("\"ab\"", "\"a123\""));
    fails(name, LIST("\"a\"", "\"a1234\""));
    fits("{\"pattern\":\"^[a-z]{3}$\",\"minLength\":1,\"maxLength\":3}", LIST("\"abc\""));
    /* Where the parts decide on the length together. */
    const char *pairs = "{\"pattern\":\"^(ab|[xy]z?)*$\",\"minLength\":2,\"maxLength\":3}";
    fits(pairs, LIST("\"ab\"", "\"xy\"", "\"xzy\"", "\"abx\"", "\"yab\""));
    fails(pairs, LIST("\"\"", "\"x\"", "\"abab\"", "\"a\"", "\"aba\"", "\"xyxy\""));
    const char *mail = "{\"format\":\"email\",\"maxLength\":12}";
    fits(mail, LIST("\"ab@cd.org\"", "\"abcde@fg.org\""));
    fails(mail, LIST("\"abcdef@gh.org\"", "\"ab@cd\""));
    const char *within = "{\"pattern\":\"b\",\"minLength\":3,\"maxLength\":4}";
    fits(within, LIST("\"abc\"", "\"bbbb\"", "\"\\u00e9\xc3\xa9\\nb\""));
    fails(within, LIST("\"ab\"", "\"aaa\"", "\"abcde\""));
    const char *long_ones = "{\"pattern\":\"^(a{2,5000}b?)+$\",\"minLength\":3}";
    fits(long_ones, LIST("\"aaa\"", "\"aab\"", "\"aabaabaa\""));
    fails(long_ones, LIST("\"aa\"", "\"ab\"", "\"aabab\""));
    fits("{\"pattern\":\"^((a*)*b?)*$\",\"maxLength\":2}", LIST("\"\"", "\"a\"", "\"ab\"", "\"bb\""));
    fits("{\"pattern\":\"^(a|bc){0,99999}$\",\"maxLength\":2}", LIST("\"aa\"", "\"bc\""));
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"pattern\":\"^(ab){2,}$\",\"maxLength\":3}",
                           "no text of finite length");
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"pattern\":\"^(ab)+$\",\"minLength\":3,\"maxLength\":3}",
                           "no text of finite length");
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"pattern\":\"^((a|bc){100}d?){100}$\",\"maxLength\":15000}",
                           "\"maxLength\" are not supported beside");
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"pattern\":\"^(ab?c*)*$\",\"maxLength\":100000}",
                           "\"maxLength\" are not supported beside");
}

Test(grammar_schema, formats)
{
    static const struct {
        const char *format, *fits, *fails;
    } cases[] = {
        {"date", "2024-02-28", "2024-02-30"},
        {"date", "1999-12-31", "1999-13-01"},
        {"date", "2024-02-29", "2023-02-29"},
        {"date", "2000-02-29", "1900-02-29"},
        {"date", "0400-02-29", "0000-02-28"},
        {"time", "23:59:59Z", "24:00:00Z"},
        {"time", "00:00:00.125+01:30", "00:00:00"},
        {"date-time", "2024-06-30T12:00:00Z", "2024-06-31T12:00:00Z"},
        {"duration", "P1Y2M3DT4H5M6S", "P1S"},
        {"duration", "P3W", "P"},
        {"uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-42661417400"},
        {"email", "a.b+c@example.org", "a@b"},
        {"hostname", "a-b.example.org", "-a.org"},
        {"ipv4", "255.0.10.199", "256.0.0.1"},
        {"ipv6", "2001:db8:0:0:0:0:0:1", "2001:db8"},
        {"ipv6", "2001:db8::1", "2001:::1"},
        {"ipv6", "::", ":1"},
        {"ipv6", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:8::"},
        {"ipv6", "::2:3:4:5:6:7:8", "1::2::3"},
        {"uri", "mailto:a@example.org", "mailto:"},
        {"uri-reference", "/a/b?c#d", "a b"},
        {"json-pointer", "/a~1b/0", "a"},
        {"relative-json-pointer", "1/a", "/a"},
        {"uri", "https://example.org:80/a/b?c=d#e", "example.org"},
    };
    char schema[64], text[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(schema, sizeof schema, "{\"type\":\"string\",\"format\":\"%s\"}", cases[i].format);
        snprintf(text, sizeof text, "\"%s\"", cases[i].fits);
        grammar_expect(GRAMMAR_SCHEMA, schema, text, GRAMMAR_FITS);
        snprintf(text, sizeof text, "\"%s\"", cases[i].fails);
        grammar_expect(GRAMMAR_SCHEMA, schema, text, GRAMMAR_DOES_NOT_FIT);
    }
    fits("{\"type\":\"string\",\"format\":\"password\"}", LIST("\"a\""));
    fits("{\"type\":\"integer\",\"format\":\"int32\"}", LIST("1"));
    /* A pattern says more than a format. */
    fits("{\"pattern\":\"^[0-9]+$\",\"format\":\"date\"}", LIST("\"12\""));
}

static void count_warning(void *user, enum engine_log_level level, const char *line)
{
    int *count = user;
    cr_assert_eq(level, ENGINE_LOG_WARNING);
    cr_assert(strstr(line, "the format \"phone number\" says nothing here"), "%s", line);
    ++*count;
}

/* An unknown format is an annotation; its author gets a word, once. */
Test(grammar_schema, unknown_formats)
{
    int count = 0;
    log_to(count_warning, &count);
    fits("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"format\":\"phone\\nnumber\"},"
         "\"b\":{\"format\":\"phone\\nnumber\",\"maxLength\":3}}}",
         LIST("{\"a\":\"anything\",\"b\":\"abc\"}"));
    cr_assert_eq(count, 1);
    log_to(NULL, NULL);
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
        {"{\"not\":{\"minLength\":2}}", "\"not\" is supported for"},
        {"{\"type\":\"integer\",\"not\":{\"const\":5}}", "\"not\" is supported for"},
        {"{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "\"not\" is supported for"},
        {"{\"type\":\"string\",\"maxLength\":3,\"not\":{\"const\":\"a\"}}",
         "\"not\" is supported for strings"},
        {"{\"if\":{},\"then\":{}}", "\"if\" is not supported"},
        {"{\"contains\":{}}", "\"contains\" is not supported"},
        {"{\"dependentRequired\":{}}", "\"dependentRequired\" is not supported"},
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
        {"{\"$ref\":\"#/type\",\"type\":\"string\"}", "is no schema"},
        {"{\"$ref\":\"#/anyOf/x\",\"anyOf\":[true]}", "there is no"},
        {"{\"$ref\":\"#nowhere\"}", "there is no"},
        {"{\"$ref\":5}", "\"$ref\" should be a text"},
        {"{\"enum\":[[1]],\"minItems\":1}", "\"minItems\" beside \"enum\""},
        /* Where it is. */
        {"{\"properties\":{\"a\":{\"items\":{\"anyOf\":[true,{\"if\":true}]}}}}",
         "#/properties/a/items/anyOf/1: \"if\""},
        {"{\"properties\":{\"a\":{\"$ref\":\"#/$defs/b\"}},\"$defs\":{\"b\":{\"items\":{\"if\":true}}}}",
         "JSON schema, #/$defs/b/items: \"if\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        grammar_expect_refused(GRAMMAR_SCHEMA, cases[i].schema, cases[i].message);
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
