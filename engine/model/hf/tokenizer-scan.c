/* tokenizer-scan.c: see tokenizer-scan.h. */
#include "model/hf/tokenizer-scan.h"

#include <stdlib.h>
#include <string.h>

void scan_space(struct scan *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t')) c->at++;
}

bool scan_take(struct scan *c, char wanted)
{
    scan_space(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

/* After the quote that begins a string. */
static bool skip_string(struct scan *c)
{
    while (c->at < c->end) {
        char first = *c->at++;
        if (first == '"') return true;
        if (first == '\\' && c->at < c->end) c->at++;
    }
    return false;
}

/* To the comma or bracket after a value. */
static bool skip_value(struct scan *c)
{
    size_t depth = 0;
    while (c->at < c->end) {
        char first = *c->at;
        bool closes = first == '}' || first == ']';
        if (depth == 0 && (closes || first == ',')) return true;
        c->at++;
        if (first == '"' && !skip_string(c)) return false;
        if (first == '{' || first == '[') depth++;
        if (closes) depth--;
    }
    return false;
}

bool scan_enter(struct scan *c, const char *key)
{
    size_t length = strlen(key);
    if (!scan_take(c, '{')) return false;
    do {
        if (!scan_take(c, '"')) return false;
        const char *name = c->at;
        if (!skip_string(c)) return false;
        bool same = (size_t)(c->at - name) == length + 1 && memcmp(name, key, length) == 0;
        if (!scan_take(c, ':')) return false;
        scan_space(c);
        if (same) return true;
        if (!skip_value(c)) return false;
    } while (scan_take(c, ','));
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The character of four hexadecimal digits, as UTF-8; neither zero nor a part of a pair. Takes at most the six bytes of
 * the escape. */
static bool read_escape(struct scan *c, char **to)
{
    unsigned code = 0;
    if (c->end - c->at < 4) return false;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*c->at++);
        if (digit < 0) return false;
        code = code << 4 | (unsigned)digit;
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000)) return false;
    if (code >= 0x800) *(*to)++ = (char)(0xe0 | code >> 12);
    if (code >= 0x80) *(*to)++ = (char)(code >= 0x800 ? 0x80 | (code >> 6 & 0x3f) : 0xc0 | code >> 6);
    *(*to)++ = (char)(code >= 0x80 ? 0x80 | (code & 0x3f) : code);
    return true;
}

bool scan_string(struct scan *c, char **to, struct engine_string *string)
{
    static const char names[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
    if (!scan_take(c, '"')) return false;
    string->data = *to;
    while (c->at < c->end) {
        char first = *c->at++;
        if (first == '"') {
            string->length = (size_t)(*to - string->data);
            return true;
        }
        if ((unsigned char)first < 0x20) return false;
        if (first == '\\') {
            if (c->at == c->end) return false;
            first = *c->at++;
            if (first == 'u') {
                if (!read_escape(c, to)) return false;
                continue;
            }
            const char *named = first ? strchr(names, first) : NULL;
            if (!named) return false;
            first = characters[named - names];
        }
        *(*to)++ = first;
    }
    return false;
}

char *scan_without(const char *text, size_t first, const struct scan *c, const char *instead, size_t *rest)
{
    size_t after = (size_t)(c->end - c->at), length = strlen(instead);
    char *without = malloc(first + length + after);
    if (!without) return NULL;
    memcpy(without, text, first);
    memcpy(without + first, instead, length);
    if (after) memcpy(without + first + length, c->at, after);
    *rest = first + length + after;
    return without;
}
