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

/* Larger ones are the doubles that strtod reads, at any length. */
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

/* ---- Jansson's own reader ---- */

static void expect_same(const char *text, size_t length, size_t flags)
{
    json_error_t error, expected_error;
    json_t *expected = json_loadb(text, length, flags, &expected_error),
           *json = json_read(text, length, flags, &error);
    if (expected || json_error_code(&expected_error) != json_error_numeric_overflow) {
        cr_assert(!expected == !json && (!json || json_equal(expected, json)), "%s", text);
        cr_assert_str_eq(error.text, expected_error.text, "%s", text);
        cr_assert_eq(error.position, expected_error.position, "%s", text);
        if (!json) {
            cr_assert_eq(json_error_code(&error), json_error_code(&expected_error), "%s", text);
            cr_assert_eq(error.line, expected_error.line, "%s", text);
            cr_assert_eq(error.column, expected_error.column, "%s", text);
        }
    }
    json_decref(json);
    json_decref(expected);
}

static uint32_t below(uint64_t *state, size_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % limit);
}

/* Puts a byte in, takes one out, replaces one, or cuts the text. */
static size_t change(char *text, size_t length, uint64_t *state)
{
    static const char bytes[] = "{}[]:,\"\\u09adfD8nEe+-.x\x80\xc3\xa9\xf0\x9f\xff\xed\xe0 \n\x01/b";
    size_t at = below(state, length + 1);
    char byte = bytes[below(state, sizeof bytes - 1)];
    switch (below(state, 8)) {
    case 0: return at;
    case 1:
    case 2:
    case 3:
        memmove(text + at + 1, text + at, length - at);
        text[at] = byte;
        return length + 1;
    case 4:
    case 5:
        if (at == length) return length;
        memmove(text + at, text + at + 1, length - at - 1);
        return length - 1;
    default:
        if (at < length) text[at] = byte;
        return length;
    }
}

/* Values and mistakes are Jansson's, of texts that are JSON and of such with mistakes in them. */
Test(json_read, as_jansson)
{
    static const char *const texts[] = {
        ("{\"a\": [1, 2.5, -3e10, true, false, null, \"x\\u00e9\\ud83d\\ude00\\n\\\\\"], \"b\": "
         "{\"c\": \"\u00e9\U0001F600\u20ac\"}}"),
        "[1, 2, {\"k\": 0.5E+3, \"k\": 1}]",
        "\"\\u0000abc\\/\\b\\f\\r\\t\\\"\"",
        "[\n  12345678901234567,\n  \"a string of more than twenty\", -0, 0.0, 1e-400]  ",
        "{\"\": \"\", \"\\u0041\": [[[]]], \"z\": {}}",
        "[\"\\ud800\", \"\\udc00\", \"\\ud800\\u0041\"]",
        "  -12.25e-1 x",
        "tru nullx false",
        "[1e5, 1E+5, 1e, 1., 01, -]",
    };
    uint64_t state = 1;
    for (size_t i = 0; i < 30000; i++) {
        char text[200] = "";
        const char *seed = texts[i % (sizeof texts / sizeof *texts)];
        size_t length = strlen(seed), flags = 0;
        memcpy(text, seed, length);
        for (size_t n = below(&state, 4); n > 0; n--) length = change(text, length, &state);
        text[length] = '\0';
        if (below(&state, 2)) flags |= JSON_REJECT_DUPLICATES;
        if (below(&state, 2)) flags |= JSON_DECODE_ANY;
        if (below(&state, 2)) flags |= JSON_DISABLE_EOF_CHECK;
        if (below(&state, 2)) flags |= JSON_ALLOW_NUL;
        expect_same(text, length, flags);
    }
}

Test(json_read, depth)
{
    for (size_t depth = 2047; depth <= 2049; depth++) {
        char text[2 * 2049];
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        expect_same(text, 2 * depth, 0);
    }
}

/* A byte 0 is no JSON, wherever it is: Jansson passes it after a number. */
Test(json_read, nul_bytes)
{
    static const char *const texts[] = {"[1@]", "[@1]",    "[\"@\"]", "[]@",
                                        "@[]",  "[true@]", "[1,@2]",  "{\"a\"@:1}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[16] = "";
        json_error_t error;
        size_t length = strlen(texts[i]);
        for (size_t k = 0; k < length; k++) text[k] = texts[i][k] == '@' ? '\0' : texts[i][k];
        cr_assert_null(json_read(text, length, JSON_ALLOW_NUL, &error), "%s", texts[i]);
        cr_assert(*error.text, "%s", texts[i]);
    }
}

/* ---- Memory ---- */

static size_t n_allocations, failing;
static bool from_there_on;

static void *allocate(size_t size)
{
    n_allocations++;
    return n_allocations == failing || (from_there_on && n_allocations > failing) ? NULL : malloc(size);
}

static void fail_each(const char *text, const json_t *expected)
{
    for (failing = 1;; failing++) {
        json_error_t error;
        n_allocations = 0;
        json_t *json = json_read_text(text, JSON_DECODE_ANY, &error);
        if (n_allocations < failing) {
            cr_assert(json_equal(json, expected), "%s", text);
            json_decref(json);
            return;
        }
        cr_assert_null(json, "%s: allocation %zu", text, failing);
        cr_assert(json_read_lacked_memory(&error), "%s", error.text);
        cr_assert_geq(error.line, 1);
    }
}

/* Where an allocation of Jansson's fails nothing is read, of strings of any length, and no text without a
 * part. */
Test(json_read, no_memory)
{
    char text[2400];
    json_malloc_t usual;
    json_free_t release;
    json_get_alloc_funcs(&usual, &release);
    for (size_t length = 1; length < 1100; length += length < 140 ? 1 : 61) {
        snprintf(text, sizeof text, "{\"%0*d\": [1, -2.5, \"%0*d\", {\"a\": null}]}", (int)length, 1,
                 (int)length, 2);
        json_t *expected = json_read_text(text, 0, NULL);
        cr_assert(expected);
        json_set_alloc_funcs(allocate, release);
        from_there_on = length % 2;
        fail_each(text, expected);
        json_set_alloc_funcs(usual, release);
        json_decref(expected);
    }
}
