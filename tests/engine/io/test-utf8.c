/* test-utf8.c: bytes cut into characters and the parts that one U+FFFD stands for. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include "io/display.h"
#include "io/json.h"

#define R "\xEF\xBF\xBD"

/* The examples of Unicode's section 3.9 (tables 3-8 to 3-11), and ends of texts. */
Test(utf8, one_mark_for_a_maximal_subpart)
{
    static const char *const cases[][2] = {
        {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", R R R R R R R R "A"},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", R R R R R R R R "A"},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", R R R R R "A" R R "B"},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", R R R R "A"},
        {"\xF0\x9F\x98", R},
        {"\xF0\x9F", R},
        {"\xF0", R},
        {"\xF0\x9F\x98z", R "z"},
        {"\xE2\x82\xE2\x82\xAC", R "\xE2\x82\xAC"},
        {"\xF0\x9F\x98\xF0\x9F\x98\x80", R "\xF0\x9F\x98\x80"},
        {"\xC3", R},
        {"\xF5\x80", R R},
        {"\xC3\xA9", "\xC3\xA9"},
        {"\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF", "\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *json = json_text(cases[i][0], strlen(cases[i][0]));
        cr_expect_str_eq(json_string_value(json), cases[i][1], "case %zu", i);
        json_decref(json);
    }
    json_t *json = json_text("a\0\xE2\x82", 4);
    cr_expect(json_string_length(json) == 5 && memcmp(json_string_value(json), "a\0" R, 5) == 0);
    json_decref(json);
}

Test(utf8, only_what_is_there_is_read)
{
    bool whole;
    cr_expect_eq(utf8_next("\xE2\x82\xAC", 3, &whole), 3);
    cr_expect(whole);
    cr_expect_eq(utf8_next("\xE2\x82\xAC", 2, &whole), 2);
    cr_expect_not(whole);
    cr_expect_eq(utf8_next("\xE2\x82\xAC", 1, &whole), 1);
    cr_expect_not(whole);
    cr_expect_eq(utf8_next("\0", 1, &whole), 1);
    cr_expect(whole);
}
