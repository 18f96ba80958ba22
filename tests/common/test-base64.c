/* test-base64.c: base64 to bytes: RFC 4648's examples, and what else is written. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/base64.h"

Test(base64, read)
{
    static const struct {
        const char *text, *bytes;
    } cases[] = {
        {"", ""},
        {"Zg==", "f"},
        {"Zm8=", "fo"},
        {"Zm9v", "foo"},
        {"Zm9vYg==", "foob"},
        {"Zm9vYmE=", "fooba"},
        {"Zm9vYmFy", "foobar"},
        {"Zm9vYmE", "fooba"}, /* without padding */
        {"Zm9v\r\nYmFy\r\n", "foobar"},
        {"Zm9vYg==\n", "foob"},
        {"+/+/", "\xfb\xff\xbf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t length = strlen(cases[i].text);
        uint8_t bytes[32];
        size_t size = 99;
        cr_assert_leq(base64_room(length), sizeof bytes);
        cr_expect(base64_read(cases[i].text, length, bytes, &size), "%s", cases[i].text);
        cr_expect_eq(size, strlen(cases[i].bytes), "%s: %zu bytes", cases[i].text, size);
        cr_expect_eq(memcmp(bytes, cases[i].bytes, size), 0, "%s", cases[i].text);
    }
    static const char *const bad[] = {"Z", "Zm9vZ", "Zm=v", "Zm9v!", "Zm9_", " Zm9v", "=Zm9v"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint8_t bytes[32];
        size_t size;
        cr_expect_not(base64_read(bad[i], strlen(bad[i]), bytes, &size), "%s", bad[i]);
    }
}
