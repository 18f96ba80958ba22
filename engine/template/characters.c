/* characters.c: UTF-8, and what Python says about characters (value.h). Unicode's properties come from
 * utf8proc. */
#include "common/assert.h"
#include "template/value.h"

#include <utf8proc.h>

uint32_t utf8_read(const char *text, size_t *length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    *length = utf8_length(*bytes);
    if (*length == 1) return *bytes;
    uint32_t c = *bytes & (0x7Fu >> *length);
    ENGINE_ASSERT((bytes[1] & 0xC0) == 0x80);
    for (size_t i = 1; i < *length; i++) c = c << 6 | (bytes[i] & 0x3F);
    return c;
}

size_t utf8_write(uint32_t c, char text[4])
{
    if (c < 0x80) {
        text[0] = (char)c;
        return 1;
    }
    size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, c >>= 6) text[i] = (char)(0x80 | (c & 0x3F));
    text[0] = (char)((0xF00 >> length & 0xFF) | c);
    return length;
}

size_t utf8_check(const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        if ((unsigned char)text[at] < 0x80) {
            at++;
            continue;
        }
        utf8proc_int32_t c;
        size_t left = length - at < 4 ? length - at : 4;
        utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)left, &c);
        if (n <= 0) return at;
        at += (size_t)n;
    }
    return length;
}

bool character_is_space(uint32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool character_is_line_end(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

static utf8proc_category_t category_of(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool character_is_printable(uint32_t c)
{
    if (c < 0x7F) return c >= ' ';
    switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

bool character_is_letter(uint32_t c)
{
    switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return true;
    default: return false;
    }
}

bool character_is_decimal(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_ND;
}

bool character_is_digit(uint32_t c)
{
    /* The superscripts, subscripts and circled digits that Unicode calls digits. */
    return character_is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool character_is_numeric(uint32_t c)
{
    utf8proc_category_t found = category_of(c);
    return found == UTF8PROC_CATEGORY_ND || found == UTF8PROC_CATEGORY_NL || found == UTF8PROC_CATEGORY_NO;
}

bool character_is_word(uint32_t c)
{
    return c == '_' || character_is_letter(c) || character_is_numeric(c);
}

bool character_is_upper(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_LU;
}

bool character_is_lower(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}

bool character_is_title(uint32_t c)
{
    return category_of(c) == UTF8PROC_CATEGORY_LT;
}

/* Characters whose other case is several characters. */
static const struct {
    uint32_t c;
    uint32_t upper[3], title[3];
} special[] = {
    {0xDF, {'S', 'S'}, {'S', 's'}},
    {0x149, {0x2BC, 'N'}, {0x2BC, 'N'}},
    {0x1F0, {'J', 0x30C}, {'J', 0x30C}},
    {0x587, {0x535, 0x552}, {0x535, 0x582}},
    {0xFB00, {'F', 'F'}, {'F', 'f'}},
    {0xFB01, {'F', 'I'}, {'F', 'i'}},
    {0xFB02, {'F', 'L'}, {'F', 'l'}},
    {0xFB03, {'F', 'F', 'I'}, {'F', 'f', 'i'}},
    {0xFB04, {'F', 'F', 'L'}, {'F', 'f', 'l'}},
    {0xFB05, {'S', 'T'}, {'S', 't'}},
    {0xFB06, {'S', 'T'}, {'S', 't'}},
};

size_t character_convert(uint32_t c, enum character_case to, uint32_t out[3])
{
    out[0] = c;
    if (c < 0x80) {
        bool upper = to == CASE_UPPER || to == CASE_TITLE;
        if (upper && c >= 'a' && c <= 'z') out[0] = c - 32;
        if (!upper && c >= 'A' && c <= 'Z') out[0] = c + 32;
        return 1;
    }
    for (size_t i = 0; (to == CASE_UPPER || to == CASE_TITLE) && i < sizeof special / sizeof *special; i++) {
        if (special[i].c != c) continue;
        const uint32_t *found = to == CASE_UPPER ? special[i].upper : special[i].title;
        size_t count = 0;
        for (; count < 3 && found[count]; count++) out[count] = found[count];
        return count;
    }
    if (to == CASE_FOLD && (c == 0xDF || c == 0x1E9E)) {
        out[0] = out[1] = 's';
        return 2;
    }
    if (to == CASE_LOWER && c == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    utf8proc_int32_t from = (utf8proc_int32_t)c;
    out[0] = (uint32_t)(to == CASE_UPPER   ? utf8proc_toupper(from)
                        : to == CASE_TITLE ? utf8proc_totitle(from)
                                           : utf8proc_tolower(from));
    return 1;
}
