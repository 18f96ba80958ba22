/* test-json.c: numbers in JSON that programs print. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"
#include "io/json.h"

static void expect_text(const char *text)
{
    json_t *json = json_read_text(text, JSON_DECODE_ANY, NULL);
    char *exact = json_exact_text(json, JSON_COMPACT | JSON_ENCODE_ANY);
    cr_expect_str_eq(exact, text);
    free(exact);
    json_decref(json);
}

/* Numbers come out as they went in, if that is the shortest way; strings are left alone. */
Test(json, exact_numbers)
{
    expect_text("[1234567890.55,0.1,0.30000000000000004,-2.5,5.0,1234567890123456789,-0.0,true,null]");
    expect_text(
        "{\"a 0.10000000000000001\":\"\\\"0.10000000000000001\\\\\",\"b\":[0.1,{\"c\":0.2}],\"d\":0.3}");
    expect_text("0.7");
    expect_text("[]");
    expect_text("\"\\\\\"");
}

/* Of any double that isn't infinite. */
Test(json, numbers_read_back)
{
    uint64_t state = 1;
    json_t *list = json_array();
    for (size_t i = 0; i < 20000; i++) {
        double number;
        state = state * 6364136223846793005u + 1442695040888963407u;
        memcpy(&number, &state, sizeof number);
        if (i % 4 == 0) number = (double)(int64_t)state / 1000;
        if (isfinite(number)) json_array_append_new(list, json_real(number));
    }
    char *text = json_exact_text(list, 0);
    json_t *again = json_read_text(text, 0, NULL);
    cr_assert(json_equal(again, list));
    json_decref(again);
    json_decref(list);
    free(text);
}

Test(json, rounded_numbers)
{
    json_t *number = json_rounded((double)0.7f, 7);
    char *text = json_exact_text(number, JSON_ENCODE_ANY);
    cr_assert_str_eq(text, "0.7");
    free(text);
    json_decref(number);
}
