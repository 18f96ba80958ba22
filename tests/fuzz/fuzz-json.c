/* fuzz-json.c: fuzzing target: JSON. Input: a byte of flags, and a text. Jansson's reader says the same of
 * it, except for numbers that it can't hold and bytes 0, one of which it passes after a number. */
#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"
#include "tokenizers.h"

static const size_t flags[] = {JSON_REJECT_DUPLICATES, JSON_DECODE_ANY, JSON_DISABLE_EOF_CHECK,
                               JSON_ALLOW_NUL};

/* 19 digits in a row: more than an integer of 64 bits may have. */
static bool has_large_integer(const char *text, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length && n < 19; i++) n = text[i] >= '0' && text[i] <= '9' ? n + 1 : 0;
    return n == 19;
}

static void compare(const char *text, size_t length, size_t flag_bits, const json_t *json,
                    const json_error_t *error)
{
    json_error_t expected_error;
    json_t *expected = json_loadb(text, length, flag_bits, &expected_error);
    if (!expected && json_error_code(&expected_error) == json_error_numeric_overflow) return;
    if (!expected != !json) fuzz_fail("read by one only");
    if (json && !json_equal(json, expected)) fuzz_fail("another value");
    if (json && error->position != expected_error.position) fuzz_fail("another end");
    if (!json && (strcmp(error->text, expected_error.text) != 0 || error->line != expected_error.line ||
                  error->column != expected_error.column || error->position != expected_error.position))
        fuzz_fail("another mistake");
    json_decref(expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    size_t length = size - 1, flag_bits = 0;
    char *text = malloc(size); /* of its own, so that sanitizers see its end */
    if (!text) return 0;
    memcpy(text, data + 1, length);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (data[0] >> i & 1) flag_bits |= flags[i];
    json_error_t error;
    json_t *json = json_read(text, length, flag_bits, &error);
    if (!json && !error.text[0]) fuzz_fail("refused without a reason");
    if (!memchr(text, '\0', length) && !has_large_integer(text, length))
        compare(text, length, flag_bits, json, &error);
    json_decref(json);
    free(text);
    return 0;
}
