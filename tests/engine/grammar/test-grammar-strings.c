/* test-grammar-strings.c: strings in JSON schemas: patterns, lengths, formats. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "grammar-fixture.h"

TestSuite(grammar_strings);

Test(grammar_strings, patterns)
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

Test(grammar_strings, patterns_with_lengths)
{
    const char *name = "{\"pattern\":\"^[a-z][a-z0-9]*$\",\"minLength\":2,\"maxLength\":4}";
    schema_fits(name, LIST("\"ab\"", "\"a123\""));
    schema_fails(name, LIST("\"a\"", "\"a1234\""));
    schema_fits("{\"pattern\":\"^[a-z]{3}$\",\"minLength\":1,\"maxLength\":3}", LIST("\"abc\""));
    /* Where the parts decide on the length together. */
    const char *pairs = "{\"pattern\":\"^(ab|[xy]z?)*$\",\"minLength\":2,\"maxLength\":3}";
    schema_fits(pairs, LIST("\"ab\"", "\"xy\"", "\"xzy\"", "\"abx\"", "\"yab\""));
    schema_fails(pairs, LIST("\"\"", "\"x\"", "\"abab\"", "\"a\"", "\"aba\"", "\"xyxy\""));
    const char *mail = "{\"format\":\"email\",\"maxLength\":12}";
    schema_fits(mail, LIST("\"ab@cd.org\"", "\"abcde@fg.org\""));
    schema_fails(mail, LIST("\"abcdef@gh.org\"", "\"ab@\""));
    /* As pydantic writes them; and lengths that are not followed together with the format. */
    const char *url = "{\"format\":\"uri\",\"minLength\":1,\"maxLength\":2083}";
    schema_fits(url, LIST("\"http://localhost:11434/v1?a=b#c\""));
    schema_fails(url, LIST("\"http://a b\"", "\"\""));
    schema_fits("{\"format\":\"email\",\"maxLength\":254}", LIST("\"j.r.doe@example.com\""));
    schema_fails("{\"format\":\"email\",\"maxLength\":254}", LIST("\"j r\""));
    schema_fits("{\"format\":\"uri\",\"maxLength\":9}", LIST("\"urn:a:b\""));
    schema_fails("{\"format\":\"uri\",\"maxLength\":9}", LIST("\"urn:abcdef\"", "\"a b\""));
    schema_fits("{\"format\":\"json-pointer\",\"maxLength\":1000}", LIST("\"/a/b\""));
    const char *within = "{\"pattern\":\"b\",\"minLength\":3,\"maxLength\":4}";
    schema_fits(within, LIST("\"abc\"", "\"bbbb\"", "\"\\u00e9\xc3\xa9\\nb\""));
    schema_fails(within, LIST("\"ab\"", "\"aaa\"", "\"abcde\""));
    const char *long_ones = "{\"pattern\":\"^(a{2,5000}b?)+$\",\"minLength\":3}";
    schema_fits(long_ones, LIST("\"aaa\"", "\"aab\"", "\"aabaabaa\""));
    schema_fails(long_ones, LIST("\"aa\"", "\"ab\"", "\"aabab\""));
    schema_fits("{\"pattern\":\"^((a*)*b?)*$\",\"maxLength\":2}", LIST("\"\"", "\"a\"", "\"ab\"", "\"bb\""));
    schema_fits("{\"pattern\":\"^(a|bc){0,99999}$\",\"maxLength\":2}", LIST("\"aa\"", "\"bc\""));
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"pattern\":\"^(ab){2,}$\",\"maxLength\":3}",
                           "no text of finite length");
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"pattern\":\"^(ab)+$\",\"minLength\":3,\"maxLength\":3}",
                           "no text of finite length");
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"pattern\":\"^((a|bc){100}d?){100}$\",\"maxLength\":15000}",
                           "\"maxLength\" are not supported beside");
    grammar_expect_refused(GRAMMAR_SCHEMA, "{\"pattern\":\"^(ab?c*)*$\",\"maxLength\":100000}",
                           "\"maxLength\" are not supported beside");
}

Test(grammar_strings, formats)
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
        {"date-time", "1998-12-31t23:59:60.123456789z", "1998-12-31T23:58:60Z"},
        {"date-time", "2026-01-01T05:29:60+05:30", "2026-01-01T05:30:60+05:30"},
        {"date-time", "2026-01-01T15:59:60-08:00", "2026-01-01T15:59:60+08:00"},
        {"time", "12:00:00.12345678901234567890Z", "12:00:00.Z"},
        {"email", "a.b+c@example.org", "a..b@example.org"},
        {"email", "j.r.r.tolkien@example.com", ".j@example.com"},
        {"email", "o'brien+x@localhost", "o brien@localhost"},
        {"email", "\\\"two words\\\"@example.com", "two words@example.com"},
        {"email", "root@[127.0.0.1]", "root@[127.0.0.256]"},
        {"email", "root@[IPv6:::1]", "root@[::1]"},
        {"email", "a_name_of_just_about_forty_characters_x@a-host-of-40-characters-xxxxxxxxxxxxxxxxx.io",
         "a@"},
        {"idn-email", "\xec\x8b\xa4\xeb\xa1\x80@\xec\x8b\xa4\xeb\xa1\x80.\xed\x85\x8c", "a b@c.d"},
        {"hostname", "a-label-of-sixty-three-characters-which-is-the-most-that-dns-ha.x", "a-.b"},
        {"hostname", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", "a..b"},
        {"idn-hostname",
         "b\xc3\xbc"
         "cher.example",
         "a b.example"},
        {"hostname", "a-b.example.org", "-a.org"},
        {"hostname", "kafka-bootstrap.my-kafka-project-namespace-production.svc.cluster.local", "a_b.local"},
        {"email", "reply+AAAB1234567890ABCDEFGHIJKLMNOP.1234567890abc@reply.github.com",
         "a..b@reply.github.com"},
        {"email", "me@email.mailgun-sandbox-of-a-customer1234567890.example.com", "me@email..example.com"},
        {"ipv4", "255.0.10.199", "256.0.0.1"},
        {"ipv6", "2001:db8:0:0:0:0:0:1", "2001:db8"},
        {"ipv6", "2001:db8::1", "2001:::1"},
        {"ipv6", "::", ":1"},
        {"ipv6", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:8::"},
        {"ipv6", "::2:3:4:5:6:7:8", "1::2::3"},
        {"uri", "mailto:a@example.org", "mailto"},
        {"ipv6", "::ffff:192.168.0.1", "::ffff:192.168.0.256"},
        {"ipv6", "1:2:3:4:5:6:7.8.9.10", "1:2:3:4:5:6:7:8.9.10.11"},
        {"ipv6", "1::2:3:1.2.3.4", "1::2::1.2.3.4"},
        {"uri", "http://localhost:11434/v1", "http://localhost:port/v1"},
        {"uri", "http://me:pw@[::1]:27017/a%20b;c,(d)/?q=1&r='*+!'#f/?", "http://a/%2"},
        {"uri", "file:///etc/hosts", "://a"},
        {"uri", "tel:+1-816-555-1212", "1tel:2"},
        {"uri", "data:text/plain;base64,SGk=", "http://a/ b"},
        {"uri", "postgres://u:p@db.example.org:5432/x?sslmode=require", "http://a\\\\b"},
        {"uri", "urn:", "http://[::1/"},
        {"iri",
         "https://b\xc3\xbc"
         "cher.example/\xe6\x9c\xac?\xee\x80\x80#x",
         "https://a/\xee\x80\x80"},
        {"uri-reference", "/a/b?c#d", "a b"},
        {"uri-reference", "../x/./y.html", "a|b"},
        {"uri-reference", "", "1:2"},
        {"uri-reference", "//example.org/x", "\xc3\xa9"},
        {"iri-reference", "caf\xc3\xa9/x", "a b"},
        {"uri-template", "http://a.b/{term:1}/{+x}{?q,lang*}{#f}", "http://a.b/{term"},
        {"json-pointer", "/\xc3\xa9/a%20b//", "/~2"},
        {"json-pointer", "/a~1b/0", "a"},
        {"relative-json-pointer", "1/a", "/a"},
        {"uri", "https://example.org:80/a/b?c=d#e", "example.org"},
    };
    char schema[64], text[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(schema, sizeof schema, "{\"type\":\"string\",\"format\":\"%s\"}", cases[i].format);
        snprintf(text, sizeof text, "\"%s\"", cases[i].fits);
        grammar_expect(GRAMMAR_SCHEMA, schema, text, GRAMMAR_FITS);
        snprintf(text, sizeof text, "\"%s\"", cases[i].fails);
        grammar_expect(GRAMMAR_SCHEMA, schema, text, GRAMMAR_DOES_NOT_FIT);
    }
    schema_fits("{\"type\":\"string\",\"format\":\"password\"}", LIST("\"a\""));
    /* Listed values stand for themselves. */
    schema_fits("{\"format\":\"uri\",\"const\":\"not a uri\"}", LIST("\"not a uri\""));
    schema_fits("{\"format\":\"email\",\"minLength\":3,\"enum\":[\"x y z\",\"a\"]}", LIST("\"x y z\""));
    schema_fails("{\"format\":\"email\",\"minLength\":3,\"enum\":[\"x y z\",\"a\"]}", LIST("\"a\""));
    schema_fits("{\"propertyNames\":{\"format\":\"date\"},\"properties\":{\"x\":{}},"
                "\"additionalProperties\":false}",
                LIST("{\"x\":1}"));
    schema_fits("{\"type\":\"integer\",\"format\":\"int32\"}", LIST("1"));
    /* A pattern says more than a format. */
    schema_fits("{\"pattern\":\"^[0-9]+$\",\"format\":\"date\"}", LIST("\"12\""));
}

static void count_warning(void *user, enum engine_log_level level, const char *line)
{
    int *count = user;
    cr_assert_eq(level, ENGINE_LOG_WARNING);
    cr_assert(strstr(line, "the format \"phone number\" says nothing here"), "%s", line);
    ++*count;
}

/* An unknown format is an annotation; its author gets a word, once. */
Test(grammar_strings, unknown_formats)
{
    int count = 0;
    log_to(count_warning, &count);
    schema_fits(
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"format\":\"phone\\nnumber\"},"
        "\"b\":{\"format\":\"phone\\nnumber\",\"maxLength\":3}}}",
        LIST("{\"a\":\"anything\",\"b\":\"abc\"}"));
    cr_assert_eq(count, 1);
    log_to(NULL, NULL);
}
