/* tokenizer-merges.c: takes the merges out of the text of a tokenizer.json. They are most of its values, and Jansson spends
 * more time on them than on everything else. What isn't plainly a list of merges stays where it is, so that Jansson
 * judges it: what is taken out is valid JSON in the place of a value, and the text without it is as valid as before. */
#include <stdlib.h>
#include <string.h>

#include "model/hf/tokenizer-parts.h"

struct cursor {
    const char *at, *end;
};

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t')) c->at++;
}

static bool take(struct cursor *c, char wanted)
{
    skip_space(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

/* ---- Finding them -------------------------------------------------------------------------------------- */

/* After the quote that begins a string. */
static bool skip_string(struct cursor *c)
{
    while (c->at < c->end) {
        char first = *c->at++;
        if (first == '"') return true;
        if (first == '\\' && c->at < c->end) c->at++;
    }
    return false;
}

/* To the comma or bracket after a value. */
static bool skip_value(struct cursor *c)
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

/* From the beginning of an object to the value of a key that is spelled so. */
static bool enter(struct cursor *c, const char *key)
{
    size_t length = strlen(key);
    if (!take(c, '{')) return false;
    do {
        if (!take(c, '"')) return false;
        const char *name = c->at;
        if (!skip_string(c)) return false;
        bool same = (size_t)(c->at - name) == length + 1 && memcmp(name, key, length) == 0;
        if (!take(c, ':')) return false;
        skip_space(c);
        if (same) return true;
        if (!skip_value(c)) return false;
    } while (take(c, ','));
    return false;
}

/* ---- Reading them -------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The character of four hexadecimal digits, as UTF-8; neither zero nor a part of a pair. Takes at most the six bytes of
 * the escape. */
static bool read_escape(struct cursor *c, char **to)
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

/* A string, written to *to, which has room for as many bytes as the text. That it is UTF-8 shows when the vocabulary has
 * it. */
static bool read_string(struct cursor *c, char **to, struct engine_string *string)
{
    if (!take(c, '"')) return false;
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
            if (first != '"' && first != '\\' && first != '/') return false;
        }
        *(*to)++ = first;
    }
    return false;
}

/* "left right", or ["left", "right"]. */
static bool read_pair(struct cursor *c, char **to, struct engine_string pair[2])
{
    if (take(c, '['))
        return read_string(c, to, &pair[0]) && take(c, ',') && read_string(c, to, &pair[1]) && take(c, ']');
    struct engine_string *left = &pair[0], *right = &pair[1];
    if (!read_string(c, to, left)) return false;
    const char *space = memchr(left->data, ' ', left->length), *end = left->data + left->length;
    if (!space || memchr(space + 1, ' ', (size_t)(end - space) - 1)) return false;
    *right = (struct engine_string){space + 1, (size_t)(end - space) - 1};
    left->length = (size_t)(space - left->data);
    return true;
}

static bool read_pairs(struct cursor *c, struct hf_merges *merges)
{
    size_t capacity = 0;
    char *to = merges->text;
    if (!take(c, '[')) return false;
    if (take(c, ']')) return true;
    do {
        if (merges->n == capacity) {
            capacity = 2 * capacity + 1024;
            struct engine_string(*pairs)[2] = realloc(merges->pairs, capacity * sizeof *pairs);
            if (!pairs) return false;
            merges->pairs = pairs;
        }
        if (!read_pair(c, &to, merges->pairs[merges->n])) return false;
        merges->n++;
    } while (take(c, ','));
    return take(c, ']');
}

char *hf_merges_take(const char *text, size_t size, size_t *rest, struct hf_merges *merges)
{
    struct cursor c = {text, text + size};
    *merges = (struct hf_merges){0};
    if (!enter(&c, "model") || !enter(&c, "merges")) return NULL;
    size_t first = (size_t)(c.at - text);
    char *without = NULL;
    merges->text = malloc(size - first + 1);
    if (merges->text && read_pairs(&c, merges) && (without = malloc(size + 2))) {
        size_t after = (size_t)(c.end - c.at);
        memcpy(without, text, first);
        memcpy(without + first, "[]", 2);
        memcpy(without + first + 2, c.at, after);
        *rest = first + 2 + after;
        merges->taken = true;
        return without;
    }
    hf_merges_free(merges);
    return NULL;
}

void hf_merges_free(struct hf_merges *merges)
{
    free(merges->text);
    free(merges->pairs);
    *merges = (struct hf_merges){0};
}
