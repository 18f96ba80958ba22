/* schema-format.c: the formats of strings as regular expressions, after their standards, up to lengths that docs/grammars.md
 * says. They are put together from parts; DIGITS, HEX and the like are classes, EXTRA what characters beyond ASCII a class
 * has besides. */
#include <string.h>

#include "grammar/schema.h"

/* ---- Dates and times: RFC 3339 ---- */

#define MONTHS_AND_DAYS                                                                                      \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"                 \
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP                                                                                                 \
    "(?:0[48]|[2468][048]|[13579][26])" /* as the last digits of a year, or as those of its century */
#define DATE     "(?:" YEAR "-" MONTHS_AND_DAYS "|(?:[0-9]{2}" LEAP "|" LEAP "00)-02-29)"
#define FRACTION "(?:\\.[0-9]{1,20})?"
#define OFFSET   "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
/* A leap second is at 23:59:60 in UTC: elsewhere, the hour `h` says how far from there, in hours and their quarters.
 * `east`: h + 1; `west`: 23 - h. */
#define LEAP_HOUR(h, east, west)                                                                             \
    "|" h ":(?:59:60" FRACTION "(?:\\+" east "|-" west "):00|29:60" FRACTION "(?:\\+" h "|-" west            \
    "):30|14:60" FRACTION "(?:\\+" h ":15|-" west ":45)|44:60" FRACTION "(?:\\+" h ":45|-" west ":15))"
#define LEAP_SECOND                                                                                          \
    "23:59:60" FRACTION "(?:[Zz]|[+-]00:00)" LEAP_HOUR("00", "01", "23") LEAP_HOUR("01", "02", "22")         \
        LEAP_HOUR("02", "03", "21") LEAP_HOUR("03", "04", "20") LEAP_HOUR("04", "05", "19")                  \
            LEAP_HOUR("05", "06", "18") LEAP_HOUR("06", "07", "17") LEAP_HOUR("07", "08", "16")              \
                LEAP_HOUR("08", "09", "15") LEAP_HOUR("09", "10", "14") LEAP_HOUR("10", "11", "13")          \
                    LEAP_HOUR("11", "12", "12") LEAP_HOUR("12", "13", "11") LEAP_HOUR("13", "14", "10")      \
                        LEAP_HOUR("14", "15", "09") LEAP_HOUR("15", "16", "08") LEAP_HOUR("16", "17", "07")  \
                            LEAP_HOUR("17", "18", "06") LEAP_HOUR("18", "19", "05")                          \
                                LEAP_HOUR("19", "20", "04") LEAP_HOUR("20", "21", "03")                      \
                                    LEAP_HOUR("21", "22", "02")                                              \
                                        LEAP_HOUR("22", "23", "01") "|23:(?:29:60" FRACTION                  \
                                                                    "(?:\\+23|-00):30|14:60" FRACTION        \
                                                                    "(?:\\+23:15|-00:45)|44:60" FRACTION     \
                                                                    "(?:\\+23:45|-00:15))"
#define TIME      "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]" FRACTION OFFSET "|" LEAP_SECOND ")"
#define SPAN      "[0-9]{1,9}"
#define SPAN_TIME "[T](?:" SPAN "H(?:" SPAN "M(?:" SPAN "S)?)?|" SPAN "M(?:" SPAN "S)?|" SPAN "S)"
#define SPAN_DAYS "(?:" SPAN "Y(?:" SPAN "M(?:" SPAN "D)?)?|" SPAN "M(?:" SPAN "D)?|" SPAN "D)"

#define UUID "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

/* ---- Hosts: RFC 1123, 4291, 5890 ---- */

/* Characters of IRIs beyond ASCII (RFC 3987). */
#define UCS                                                                                                  \
    "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{1fffd}\\u{20000}-\\u{2fffd}"                \
    "\\u{30000}-\\u{3fffd}\\u{40000}-\\u{dfffd}\\u{e1000}-\\u{efffd}"
/* Letters, marks and digits of names of hosts, roughly: no spaces, controls, dots of any kind, and private characters. */
#define LETTERS                                                                                              \
    "\\u00b7\\u00df-\\u00f6\\u00f8-\\u1fff\\u200c\\u200d\\u2c00-\\u2dff\\u3005-\\u3007\\u3021-\\u3029"       \
    "\\u3041-\\ud7ff\\uf900-\\ufdcf\\ufe20-\\ufe2f\\ufe70-\\ufefc\\u{10000}-\\u{1fffd}\\u{20000}-\\u{3fffd}"
#define LABEL(extra, n) "[A-Za-z0-9" extra "](?:[A-Za-z0-9" extra "\\-]{0," n "}[A-Za-z0-9" extra "])?"
/* At most 253 characters: three labels of 63, six of 41, ten of which the first has 63 and the others 20, or 42 of 5. In an
 * address of at most 254, 189: two of 63, four of 46, seven, or 31. */
#define HOST_OF(extra, dot, a, length, b, c, d)                                                              \
    "(?:" LABEL(extra, "61") "(?:" dot LABEL(extra, "61") "){0," a "}|" LABEL(extra, length) "(?:" dot       \
    LABEL(extra, length) "){0," b "}|" LABEL(extra, "61") "(?:" dot                                          \
    LABEL(extra, "18") "){0," c "}|" LABEL(extra, "3") "(?:" dot                                             \
    LABEL(extra, "3") "){0," d "})"
#define HOST          HOST_OF("", "\\.", "2", "39", "5", "9", "41")
#define IDN_DOT       "[.\\u3002\\uff0e\\uff61]"
#define IDN_HOST      HOST_OF(LETTERS, IDN_DOT, "2", "39", "5", "9", "41")
#define MAIL_HOST     HOST_OF("", "\\.", "1", "44", "3", "6", "30")
#define IDN_MAIL_HOST HOST_OF(LETTERS, IDN_DOT, "1", "44", "3", "6", "30")
#define BYTE          "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4          BYTE "(?:\\." BYTE "){3}"
/* Eight groups of digits, of which "::" stands for some that are 0; the last two may be an IPv4 address. */
#define GROUP "[0-9a-fA-F]{1,4}"
#define IPV6                                                                                                 \
    "(?:(?:" GROUP ":){7}" GROUP "|(?:" GROUP ":){1,7}:|(?:" GROUP ":){1,6}:" GROUP "|(?:" GROUP             \
    ":){1,5}(?::" GROUP "){2}|(?:" GROUP ":){1,4}(?::" GROUP "){3}|(?:" GROUP ":){1,3}(?::" GROUP            \
    "){4}|(?:" GROUP ":){1,2}(?::" GROUP "){5}|" GROUP ":(?::" GROUP "){6}|:(?::" GROUP "){1,7}|::"          \
    "|(?:" GROUP ":){6}" IPV4 "|::(?:" GROUP ":){0,5}" IPV4 "|(?:" GROUP ":){1,5}:" IPV4 "|(?:" GROUP        \
    ":){1,4}:" GROUP ":" IPV4 "|(?:" GROUP ":){1,3}(?::" GROUP "){2}:" IPV4 "|(?:" GROUP ":){1,2}(?::" GROUP \
    "){3}:" IPV4 "|" GROUP ":(?::" GROUP "){4}:" IPV4 ")"

/* ---- Addresses: RFC 5321, 6531 ---- */

#define ATOM(extra)      "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" extra "\\-]"
#define TWO(extra, a, b) ATOM(extra) "{1," a "}\\." ATOM(extra) "{1," b "}"
#define QUOTED(extra)    "\"(?:[ !#-\\[\\]-~" extra "]|\\\\[ -~]){0,31}\""
/* At most 64 characters: one piece, two, three of 20, or any with 32 besides the dots. Or a text in quotes. */
#define LOCAL(extra)                                                                                                   \
    "(?:" ATOM(extra) "{1,64}|" TWO(extra, "31", "32") "|" TWO(extra, "47", "16") "|" TWO(extra, "16", "47") "|" ATOM( \
        extra) "{1,20}(?:\\." ATOM(extra) "{1,20}){2}|" ATOM(extra) "(?:\\.?" ATOM(extra) "){0,31}|" QUOTED(extra) ")"
/* The same in 32 characters, and a host in 65. */
#define SHORT_LOCAL(extra)                                                                                   \
    "(?:" ATOM(extra) "{1,32}|" ATOM(extra) "{1,15}\\." ATOM(extra) "{1,16}|" ATOM(                          \
        extra) "{1,10}(?:\\." ATOM(extra) "{1,10}){2}|" ATOM(extra) "(?:\\.?" ATOM(extra) "){0,15})"
#define SHORT_HOST(extra, dot)                                                                               \
    "(?:" LABEL(extra, "28") "(?:" dot LABEL(extra, "28") ")?|" LABEL(extra, "16") "(?:" dot LABEL(          \
        extra, "16") "){0,2}|" LABEL(extra, "3") "(?:" dot                                                   \
    LABEL(extra, "3") "){0,10})"
#define MAIL(extra, host) LOCAL(extra) "@(?:" host "|\\[(?:" IPV4 "|[Ii][Pp][Vv]6:" IPV6 ")\\])"

/* ---- Identifiers of resources: RFC 3986, 3987, 6570 ---- */

/* The most parts of a path and so on, each a character or "%20". SHORT ones make at most 2,000 characters. */
#define LONG  "128", "253", "2000", "2000", "1000"
#define SHORT "16", "85", "300", "200", "49"

#define PERCENT    "%[0-9A-Fa-f]{2}"
#define PLAIN      "A-Za-z0-9._~!$&'()*+,;=\\-" /* unreserved, and delimiters within a part */
#define PART(x, n) "(?:[" PLAIN x "]|" PERCENT "){" n "}"
#define AUTHORITY(x, user, host)                                                                             \
    "(?:" PART(":" x, "0," user) "@)?(?:\\[(?:" IPV6 "|[Vv][0-9A-Fa-f]{1,4}\\.[" PLAIN                       \
                                 ":]{1,64})\\]|" PART(x, "0," host) ")(?::[0-9]{0,5})?"
#define AFTER_HOST(x, user, host, path) "//" AUTHORITY(x, user, host) "(?:/" PART(":@/" x, "0," path) ")?"
#define ABSOLUTE(x, path)               "/(?:" PART(":@" x, "1") PART(":@/" x, "0," path) ")?"
#define ROOTLESS(x, path)               PART(":@" x, "1") PART(":@/" x, "0," path)
#define NO_SCHEME(x, host, path)        PART("@" x, "1," host) "(?:/" PART(":@/" x, "0," path) ")?"
#define ENDS(x, own, query, fragment)                                                                        \
    "(?:\\?" PART(":@/?" x own, "0," query) ")?(?:#" PART(":@/?" x, "0," fragment) ")?"
#define SCHEME "[A-Za-z][A-Za-z0-9+.\\-]{0,31}:"
#define URI_OF(x, own, user, host, path, query, fragment)                                                    \
    SCHEME "(?:" AFTER_HOST(x, user, host, path) "|" ABSOLUTE(x, path) "|" ROOTLESS(x, path) ")?" ENDS(      \
        x, own, query, fragment)
#define REFERENCE_OF(x, own, user, host, path, query, fragment)                                              \
    "(?:" URI_OF(x, own, user, host, path, query, fragment) "|(?:" AFTER_HOST(                               \
        x, user, host, path) "|" ABSOLUTE(x, path) "|" NO_SCHEME(x, host, path) ")?" ENDS(x, own, query,     \
                                                                                          fragment) ")"
/* Lets LONG and SHORT become several arguments. */
#define URI(x, own, lengths)       URI_OF(x, own, lengths)
#define REFERENCE(x, own, lengths) REFERENCE_OF(x, own, lengths)
#define PRIVATE                    "\\ue000-\\uf8ff\\u{f0000}-\\u{ffffd}\\u{100000}-\\u{10fffd}"
#define VARIABLE                                                                                             \
    "(?:[A-Za-z0-9_]|" PERCENT ")(?:\\.?(?:[A-Za-z0-9_]|" PERCENT ")){0,63}(?::[1-9][0-9]{0,3}|\\*)?"
#define TEMPLATE                                                                                             \
    "(?:[!#$&'()*+,./0-9:;=?@A-Z\\[\\]_a-z~" UCS PRIVATE "\\-]|" PERCENT "|\\{[+#./;?&=,!@|]?" VARIABLE      \
    "(?:," VARIABLE "){0,31}\\}){0,2000}"

#define POINTER "(?:/(?:[^/~]|~[01]){0,200}){0,32}"

static const struct {
    const char *name, *pattern;
    const char *shorter; /* for lengths that the pattern is beyond; NULL: none */
} formats[SCHEMA_FORMATS] = {
    {"date", "^" DATE "$", NULL},
    {"time", "^" TIME "$", NULL},
    {"date-time", "^" DATE "[Tt]" TIME "$", NULL},
    {"duration", "^P(?:" SPAN_DAYS "(?:" SPAN_TIME ")?|" SPAN_TIME "|" SPAN "W)$", NULL},
    {"uuid", "^" UUID "$", NULL},
    {"uuid1", "^" UUID "$", NULL},
    {"uuid2", "^" UUID "$", NULL},
    {"uuid3", "^" UUID "$", NULL},
    {"uuid4", "^" UUID "$", NULL},
    {"uuid5", "^" UUID "$", NULL},
    {"email", "^" MAIL("", MAIL_HOST) "$", "^" SHORT_LOCAL("") "@" SHORT_HOST("", "\\.") "$"},
    {"idn-email", "^" MAIL("\\u0080-\\u{10ffff}", IDN_MAIL_HOST) "$",
     "^" SHORT_LOCAL("\\u0080-\\u{10ffff}") "@" SHORT_HOST(LETTERS, IDN_DOT) "$"},
    {"hostname", "^" HOST "$", NULL},
    {"idn-hostname", "^" IDN_HOST "$", NULL},
    {"ipv4", "^" IPV4 "$", NULL},
    {"ipv6", "^" IPV6 "$", NULL},
    {"uri", "^" URI("", "", LONG) "$", "^" URI("", "", SHORT) "$"},
    {"iri", "^" URI(UCS, PRIVATE, LONG) "$", "^" URI(UCS, PRIVATE, SHORT) "$"},
    {"uri-reference", "^" REFERENCE("", "", LONG) "$", "^" REFERENCE("", "", SHORT) "$"},
    {"iri-reference", "^" REFERENCE(UCS, PRIVATE, LONG) "$", "^" REFERENCE(UCS, PRIVATE, SHORT) "$"},
    {"uri-template", "^" TEMPLATE "$", NULL},
    {"json-pointer", "^" POINTER "$", NULL},
    {"relative-json-pointer", "^(?:0|[1-9][0-9]{0,8})(?:#|" POINTER ")$", NULL},
};

/* Formats that say how a text is used, not how it looks. */
static const char *const free_formats[] = {"password", "binary",   "byte", "char", "string",
                                           "text",     "markdown", "html", "regex"};

const char *schema_format_shorter(size_t number)
{
    return formats[number].shorter;
}

const char *schema_format(const char *name, size_t *number)
{
    for (size_t i = 0; i < SCHEMA_FORMATS; i++) {
        *number = i;
        if (!strcmp(name, formats[i].name)) return formats[i].pattern;
    }
    return NULL;
}

bool schema_format_is_free(const char *name)
{
    for (size_t i = 0; i < sizeof free_formats / sizeof *free_formats; i++)
        if (!strcmp(name, free_formats[i])) return true;
    return false;
}
