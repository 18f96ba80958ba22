/* test-json-read.c: common/json-read.h. */
#include "common/json-read.h"

#include <criterion/criterion.h>
#include <stdint.h>

static json_t *read_any(const char *text)
{
    json_error_t error;
    json_t *json = json_read_text(text, JSON_DECODE_ANY, &error);
    cr_assert(json, "%s: %s", text, error.text);
    return json;
}

/* Integers of 64 bits stay integers, in a text with larger ones too. */
Test(json_read, integers)
{
    json_t *json =
        read_any("[9223372036854775807, -9223372036854775808, 9223372036854775808, 9007199254740993]");
    cr_assert_eq(json_integer_value(json_array_get(json, 0)), INT64_MAX);
    cr_assert_eq(json_integer_value(json_array_get(json, 1)), INT64_MIN);
    cr_assert(json_is_real(json_array_get(json, 2)));
    cr_assert_eq(json_integer_value(json_array_get(json, 3)), 9007199254740993);
    json_decref(json);
}

/* Larger ones are the doubles that strtod reads, whatever their length. */
Test(json_read, doubles)
{
    static const char *const numbers[] = {"9223372036854775808",
                                          "-9223372036854775809",
                                          "9999999999999999999",
                                          "18446744073709551615",
                                          "-18446744073709551615",
                                          "18446744073709550591", /* halfway between two doubles */
                                          "18446744073709550593",
                                          "100000000000000000000000000000000000000001",
                                          "-123456789012345678901234567890123456789012345678901234567890"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        json_t *json = read_any(numbers[i]);
        cr_assert(json_is_real(json), "%s", numbers[i]);
        cr_assert_eq(json_real_value(json), strtod(numbers[i], NULL), "%s", numbers[i]);
        json_decref(json);
    }
    for (size_t digits = 19; digits < 309; digits++) {
        char text[400];
        memset(text, '9', digits);
        text[digits] = '\0';
        json_t *json = read_any(text);
        cr_assert_eq(json_real_value(json), strtod(text, NULL), "%zu", digits);
        json_decref(json);
    }
}

/* Strings that look like numbers are no numbers, and names with quotes are no ends of strings. */
Test(json_read, strings)
{
    json_t *json = read_any("{\"a\\\"18446744073709551615\\\\\": \"99999999999999999999\", \"b\": "
                            "99999999999999999999, \"c\": [\"\\\\\", 99999999999999999999]}");
    cr_assert_str_eq(json_string_value(json_object_get(json, "a\"18446744073709551615\\")),
                     "99999999999999999999");
    cr_assert_eq(json_real_value(json_object_get(json, "b")), 1e20);
    cr_assert_eq(json_real_value(json_array_get(json_object_get(json, "c"), 1)), 1e20);
    json_decref(json);
}

static void expect_error(const char *text, int line, const char *what)
{
    json_error_t error;
    json_t *json = json_read_text(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    cr_assert_null(json, "%s", text);
    cr_assert(strstr(error.text, what), "%s: %s", text, error.text);
    cr_assert_eq(error.line, line, "%s: line %d", text, error.line);
}

/* What no double holds is an error that says so; other mistakes are told as before. */
Test(json_read, errors)
{
    char digits[400];
    memset(digits, '9', 399);
    digits[399] = '\0';
    expect_error("[1,\n1e400]", 2, "a number above 1.8e308, the largest double near '1e400'");
    expect_error("[-1e400]", 1, "largest double near '-1e400'");
    expect_error(digits, 1, "largest double");
    expect_error("[99999999999999999999,\n 1e400]", 2, "largest double near '1e400'");
    expect_error("[99999999999999999999,\n\n x]", 3, "near 'x'");
    expect_error("{\"a\": 99999999999999999999, \"a\": 1}", 1, "duplicate");
    expect_error("[-099999999999999999999]", 1, "");
    expect_error("[99999999999999999999 1]", 1, "");
    expect_error("99999999999999999999x", 1, "end of file expected");
    cr_assert_null(json_read_text("[1e400]", 0, NULL));
}

/* Several values in one text: each is read up to where it ends. */
Test(json_read, values_in_a_row)
{
    static const char text[] = "{\"a\": [99999999999999999999, \"}\"]} {\"b\": 1e999";
    json_error_t error;
    json_t *json = json_read(text, strlen(text), JSON_DISABLE_EOF_CHECK, &error);
    cr_assert(json);
    cr_assert_eq(error.position, (int)strlen("{\"a\": [99999999999999999999, \"}\"]}"));
    json_decref(json);
    json = json_read("99999999999999999999, 1", 23, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &error);
    cr_assert(json);
    cr_assert_eq(error.position, 20);
    json_decref(json);
}
