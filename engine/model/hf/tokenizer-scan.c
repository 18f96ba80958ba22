/* tokenizer-scan.c: takes the merges and the words of the vocabulary out of the text of a tokenizer.json.
 * They are most of its values, and Jansson spends more time on them than on everything else. What isn't
 * plainly a list of merges, or a vocabulary, stays where it is, so that Jansson judges it: what is taken
 * out is valid JSON in the place of a value, and the text without it is as valid as before. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <utf8proc.h>

#include "common/array.h"
#include "model/hf/tokenizer-parts.h"

/* ---- Reading ------------------------------------------------------------------------------------------- */

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

/* The character of four hexadecimal digits, as UTF-8; neither zero nor a part of a pair. Takes at most the
 * six bytes of the escape. */
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

/* ---- Merges -------------------------------------------------------------------------------------------- */

/* "left right", or ["left", "right"]. */
static bool read_pair(struct scan *c, char **to, struct engine_string pair[2])
{
    if (scan_take(c, '['))
        return scan_string(c, to, &pair[0]) && scan_take(c, ',') && scan_string(c, to, &pair[1]) &&
               scan_take(c, ']');
    struct engine_string *left = &pair[0], *right = &pair[1];
    if (!scan_string(c, to, left)) return false;
    const char *space = memchr(left->data, ' ', left->length), *end = left->data + left->length;
    if (!space || memchr(space + 1, ' ', (size_t)(end - space) - 1)) return false;
    *right = (struct engine_string){space + 1, (size_t)(end - space) - 1};
    left->length = (size_t)(space - left->data);
    return true;
}

static bool read_pairs(struct scan *c, struct hf_merges *merges)
{
    size_t capacity = 0;
    char *to = merges->text;
    if (!scan_take(c, '[')) return false;
    if (scan_take(c, ']')) return true;
    do {
        if (!ARRAY_RESERVE(merges->pairs, capacity, merges->n + 1)) return false;
        if (!read_pair(c, &to, merges->pairs[merges->n])) return false;
        merges->n++;
    } while (scan_take(c, ','));
    return scan_take(c, ']');
}

char *hf_merges_take(const char *text, size_t size, size_t *rest, struct hf_merges *merges)
{
    struct scan c = {text, text + size};
    *merges = (struct hf_merges){0};
    if (!scan_enter(&c, "model") || !scan_enter(&c, "merges")) return NULL;
    size_t first = (size_t)(c.at - text);
    merges->text = malloc(size - first + 1);
    char *without = merges->text && read_pairs(&c, merges) ? scan_without(text, first, &c, "[]", rest) : NULL;
    if (without) {
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

/* ---- The vocabulary, found by its texts ---------------------------------------------------------------- */

/* ---- Finding words ---- */

/* The seed differs in each process, so that no file can have words that meet. */
static uint64_t hash_of(const struct hf_words *words, const char *text, size_t length)
{
    uint64_t hash = words->seed ^ length, some;
    for (; length > 0; text += sizeof some) {
        size_t n = length < sizeof some ? length : sizeof some;
        some = 0;
        memcpy(&some, text, n);
        length -= n;
        hash = (hash ^ some) * (words->seed | 1);
        hash ^= hash >> 29;
        hash *= 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    return hash;
}

/* The place of a word in the table, or of the gap where it would be. */
static size_t slot_of(const struct hf_words *words, const char *text, size_t length)
{
    size_t at = (size_t)hash_of(words, text, length) & words->mask;
    for (; words->slots[at]; at = (at + 1) & words->mask) {
        struct engine_string word = words->items[words->slots[at] - 1].text;
        if (word.length == length && memcmp(word.data, text, length) == 0) break;
    }
    return at;
}

int64_t hf_words_find(const struct hf_words *words, const char *text, size_t length)
{
    if (!words->slots) return -1;
    uint32_t found = words->slots[slot_of(words, text, length)];
    return found ? (int64_t)words->items[found - 1].id : -1;
}

/* Of equal words the last one is found; *equal: whether there are any. */
static bool make_table(struct hf_words *words, bool *equal)
{
    size_t size = 64;
    while (size < 2 * words->n) size *= 2;
    *equal = false;
    words->slots = calloc(size, sizeof *words->slots);
    words->mask = size - 1;
    if (!words->slots || getrandom(&words->seed, sizeof words->seed, 0) != sizeof words->seed) return false;
    for (size_t i = 0; i < words->n; i++) {
        struct engine_string text = words->items[i].text;
        size_t slot = slot_of(words, text.data, text.length);
        *equal = *equal || words->slots[slot];
        words->slots[slot] = (uint32_t)i + 1;
    }
    return true;
}

/* ---- Making the list ---- */

static bool add_word(struct hf_words *words, size_t *capacity, struct engine_string text, int64_t id)
{
    if (!ARRAY_RESERVE(words->items, *capacity, words->n + 1)) return false;
    words->items[words->n++] = (struct hf_word){text, id};
    return true;
}

bool hf_words_list(json_t *vocabulary, struct hf_words *words)
{
    const char *text;
    size_t length, capacity = 0, i;
    json_t *id;
    bool equal, listed = true;
    *words = (struct hf_words){0};
    json_object_keylen_foreach(vocabulary, text, length, id)
    {
        int64_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        listed = listed && add_word(words, &capacity, (struct engine_string){text, length}, number);
    }
    json_array_foreach(vocabulary, i, id)
    {
        const json_t *piece = json_array_get(id, 0);
        struct engine_string word = {json_string_value(piece), json_string_length(piece)};
        if (word.data) listed = listed && add_word(words, &capacity, word, (int64_t)i);
    }
    if (listed && words->n <= UINT32_MAX / 4 && make_table(words, &equal)) return true;
    hf_words_free(words);
    return false;
}

static bool is_text(struct engine_string text)
{
    for (size_t at = 0; at < text.length;) {
        utf8proc_int32_t character;
        utf8proc_ssize_t n = 1;
        if ((unsigned char)text.data[at] >= 0x80)
            n = utf8proc_iterate((const utf8proc_uint8_t *)text.data + at,
                                 (utf8proc_ssize_t)(text.length - at), &character);
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

/* A number below HF_TOKENS_MAX, as JSON spells it. */
static bool read_id(struct scan *c, int64_t *id)
{
    scan_space(c);
    const char *first = c->at;
    for (*id = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9' && *id < HF_TOKENS_MAX; c->at++)
        *id = 10 * *id + (*c->at - '0');
    return c->at > first && *id < HF_TOKENS_MAX && (*first != '0' || c->at == first + 1);
}

static bool read_words(struct scan *c, struct hf_words *words)
{
    size_t capacity = 0;
    char *to = words->text;
    if (!scan_take(c, '{')) return false;
    do {
        struct engine_string text;
        int64_t id;
        if (!scan_string(c, &to, &text) || !scan_take(c, ':') || !read_id(c, &id) || !is_text(text) ||
            !add_word(words, &capacity, text, id))
            return false;
    } while (scan_take(c, ','));
    return scan_take(c, '}');
}

char *hf_words_take(const char *text, size_t size, size_t *rest, struct hf_words *words)
{
    struct scan c = {text, text + size};
    bool equal;
    *words = (struct hf_words){0};
    if (!scan_enter(&c, "model") || !scan_enter(&c, "vocab")) return NULL;
    size_t first = (size_t)(c.at - text);
    words->text = malloc(size - first + 1);
    if (words->text && read_words(&c, words) && make_table(words, &equal) && !equal) {
        char *without = scan_without(text, first, &c, "{}", rest);
        words->taken = without != NULL;
        if (without) return without;
    }
    hf_words_free(words);
    return NULL;
}

void hf_words_free(struct hf_words *words)
{
    free(words->items);
    free(words->slots);
    free(words->text);
    *words = (struct hf_words){0};
}
