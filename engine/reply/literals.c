/* literals.c: values that models write in other notations than JSON: Python's literals, and Gemma's, whose
 * strings stand between marks and whose keys stand bare. Called by layout.c. */
#include <string.h>

#include "common/json-read.h"
#include "common/text.h"
#include "reply/internal.h"
#include "reply/span.h"

#define MAX_DEPTH 64 /* nested values */

static const char gemma_quote[] = "<|\"|>";

struct reader {
    struct calls_reader *calls;
    const char *text;
    size_t length, at;
    unsigned depth;
};

static void skip_space(struct reader *r)
{
    while (r->at < r->length && is_json_space(r->text[r->at])) r->at++;
}

static bool is_at(const struct reader *r, const char *mark)
{
    size_t n = strlen(mark);
    return r->length - r->at >= n && memcmp(r->text + r->at, mark, n) == 0;
}

/* Moves past white space and the byte `wanted`. */
static bool pass(struct reader *r, char wanted)
{
    skip_space(r);
    if (r->at == r->length || r->text[r->at] != wanted) return false;
    r->at++;
    return true;
}

/* ---- Strings ---- */

/* False: no memory. */
static bool add_text(struct reader *r, struct text_buffer *text, const char *added, size_t length)
{
    bool good = text_buffer_add(text, added, length);
    if (!good) r->calls->out_of_memory = true;
    return good;
}

static json_t *literal_string(struct reader *r, const char *text, size_t length)
{
    return calls_string(r->calls, (struct span){text, length});
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    char letter = (char)(c | 32);
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

static bool add_character(struct reader *r, struct text_buffer *text, unsigned long code)
{
    char bytes[4];
    size_t n = 0;
    if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    if (code < 0x80) {
        bytes[n++] = (char)code;
    } else if (code < 0x800) {
        bytes[n++] = (char)(0xC0 | code >> 6);
        bytes[n++] = (char)(0x80 | (code & 0x3F));
    } else {
        if (code >= 0x10000) bytes[n++] = (char)(0xF0 | code >> 18);
        bytes[n++] = (char)(code >= 0x10000 ? 0x80 | (code >> 12 & 0x3F) : 0xE0 | code >> 12);
        bytes[n++] = (char)(0x80 | (code >> 6 & 0x3F));
        bytes[n++] = (char)(0x80 | (code & 0x3F));
    }
    return add_text(r, text, bytes, n);
}

/* \xHH, \uHHHH or \UHHHHHHHH, after the backslash. */
static bool read_code(struct reader *r, unsigned n_digits, struct text_buffer *text)
{
    unsigned long code = 0;
    r->at++;
    for (unsigned i = 0; i < n_digits; i++, r->at++) {
        int digit = r->at < r->length ? hex_digit(r->text[r->at]) : -1;
        if (digit < 0) return false;
        code = code << 4 | (unsigned)digit;
    }
    if (code < 0xD800 || code > 0xDBFF || n_digits != 4 || !is_at(r, "\\u"))
        return add_character(r, text, code);
    /* the other half of a pair, as JSON writes it */
    unsigned long low = 0;
    r->at += 2;
    for (unsigned i = 0; i < 4; i++, r->at++) {
        int digit = r->at < r->length ? hex_digit(r->text[r->at]) : -1;
        if (digit < 0) return false;
        low = low << 4 | (unsigned)digit;
    }
    if (low < 0xDC00 || low > 0xDFFF) return false;
    return add_character(r, text, 0x10000 + ((code & 0x3FF) << 10) + (low & 0x3FF));
}

/* What follows a backslash. One that escapes nothing stands for itself. */
static bool read_escape(struct reader *r, struct text_buffer *text)
{
    static const char names[] = "abfnrtv\\'\"", bytes[] = "\a\b\f\n\r\t\v\\'\"";
    if (r->at == r->length) return false;
    char c = r->text[r->at];
    if (c == 'x' || c == 'u' || c == 'U') return read_code(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, text);
    const char *name = strchr(names, c);
    r->at++;
    if (c == '\n') return true;
    if (c && name) return add_text(r, text, &bytes[name - names], 1);
    return add_text(r, text, "\\", 1) && add_text(r, text, &c, 1);
}

/* A string in quotes of one kind. */
static json_t *read_quoted(struct reader *r)
{
    struct text_buffer text = {0};
    char quote = r->text[r->at++];
    bool good = true, ended = false;
    while (good && !ended && r->at < r->length) {
        char c = r->text[r->at++];
        ended = c == quote;
        if (c == '\\')
            good = read_escape(r, &text);
        else if (!ended)
            good = add_text(r, &text, &c, 1);
    }
    json_t *string = good && ended ? literal_string(r, text.data ? text.data : "", text.size) : NULL;
    text_buffer_free(&text);
    return string;
}

/* A string between Gemma's marks, in which nothing is escaped. */
static json_t *read_marked(struct reader *r)
{
    size_t n = strlen(gemma_quote);
    r->at += n;
    const char *from = r->text + r->at,
               *end = r->at < r->length ? memmem(from, r->length - r->at, gemma_quote, n) : NULL;
    if (!end) return NULL;
    r->at += (size_t)(end - from) + n;
    return literal_string(r, from, (size_t)(end - from));
}

static json_t *read_string(struct reader *r)
{
    if (is_at(r, gemma_quote)) return read_marked(r);
    return r->at < r->length && (r->text[r->at] == '"' || r->text[r->at] == '\'') ? read_quoted(r) : NULL;
}

static bool is_at_quote(const struct reader *r)
{
    return r->at < r->length && (r->text[r->at] == '"' || r->text[r->at] == '\'' || is_at(r, gemma_quote));
}

/* ---- Values ---- */

static json_t *read_value(struct reader *r);

/* The bytes up to one of `ends`, without white space at the end. */
static struct engine_string read_bare(struct reader *r, const char *ends)
{
    size_t from = r->at;
    while (r->at < r->length && !strchr(ends, r->text[r->at]) && !is_json_space(r->text[r->at])) r->at++;
    return (struct engine_string){r->text + from, r->at - from};
}

/* true, a number, or a word that stands for itself. */
static json_t *read_word(struct reader *r)
{
    static const struct {
        const char *word;
        json_type type;
    } words[] = {{"True", JSON_TRUE}, {"False", JSON_FALSE}, {"None", JSON_NULL}};
    struct engine_string word = read_bare(r, ",}])");
    if (word.length == 0) return NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (word.length != strlen(words[i].word) || memcmp(word.data, words[i].word, word.length) != 0)
            continue;
        return words[i].type == JSON_NULL ? json_null() : json_boolean(words[i].type == JSON_TRUE);
    }
    json_t *value = calls_json(r->calls, (struct span){word.data, word.length}, JSON_DECODE_ANY, NULL);
    return value ? value : literal_string(r, word.data, word.length);
}

static json_t *read_list(struct reader *r, char end)
{
    json_t *list = calls_made(r->calls, json_array());
    r->at++;
    while (list && !pass(r, end)) {
        bool good = calls_append(r->calls, list, read_value(r));
        skip_space(r);
        good = good && (pass(r, ',') || (r->at < r->length && r->text[r->at] == end));
        if (good) continue;
        json_decref(list);
        list = NULL;
    }
    return list;
}

static struct engine_string read_bare_key(struct reader *r, char separator)
{
    return read_bare(r, separator == '=' ? "=,)" : ":,}");
}

/* The key of a member, after white space, quoted or bare. New reference; NULL: there is none. What begins
 * with a quotation mark is no bare key, even if the string doesn't end. */
static json_t *read_key(struct reader *r, char separator)
{
    skip_space(r);
    if (is_at_quote(r)) return read_string(r);
    struct engine_string word = read_bare_key(r, separator);
    return word.length > 0 ? literal_string(r, word.data, word.length) : NULL;
}

/* A member: KEY separator VALUE. */
static bool read_member(struct reader *r, char separator, json_t *object)
{
    json_t *key = read_key(r, separator);
    const struct span name = {json_string_value(key), json_string_length(key)};
    bool good = key && pass(r, separator) && !json_object_getn(object, name.data, name.length) &&
                calls_set(r->calls, object, name, read_value(r));
    json_decref(key);
    return good;
}

/* After its opening bracket, up to and with `end`. */
static json_t *read_members(struct reader *r, char separator, char end)
{
    json_t *object = calls_made(r->calls, json_object());
    while (object && !pass(r, end)) {
        bool good = read_member(r, separator, object);
        skip_space(r);
        good = good && (pass(r, ',') || (r->at < r->length && r->text[r->at] == end));
        if (good) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}

static json_t *read_value(struct reader *r)
{
    json_t *value = NULL;
    skip_space(r);
    if (r->at == r->length || r->depth == MAX_DEPTH) return NULL;
    r->depth++;
    char c = r->text[r->at];
    if (is_at_quote(r)) {
        value = read_string(r);
    } else if (c == '[' || c == '(') {
        value = read_list(r, c == '[' ? ']' : ')');
    } else if (c == '{') {
        r->at++;
        value = read_members(r, ':', '}');
    } else {
        value = read_word(r);
    }
    r->depth--;
    return value;
}

json_t *literal_object(struct calls_reader *reader, const char *text, size_t length, size_t *end)
{
    struct reader r = {.calls = reader, .text = text, .length = length};
    json_t *object = pass(&r, '{') ? read_members(&r, ':', '}') : NULL;
    *end = r.at;
    return object;
}

json_t *literal_arguments(struct calls_reader *reader, const char *text, size_t length, size_t *end)
{
    struct reader r = {.calls = reader, .text = text, .length = length};
    json_t *object = pass(&r, '(') ? read_members(&r, '=', ')') : NULL;
    *end = r.at;
    return object;
}

json_t *literal_value(struct calls_reader *reader, const char *text, size_t length)
{
    struct reader r = {.calls = reader, .text = text, .length = length};
    json_t *value = read_value(&r);
    skip_space(&r);
    if (r.at == r.length) return value;
    json_decref(value);
    return NULL;
}

/* ---- While they are written ---- */

json_t *literal_key(struct calls_reader *reader, const char *text, size_t length, char separator, size_t *at)
{
    struct reader r = {.calls = reader, .text = text, .length = length, .at = *at};
    json_t *key = read_key(&r, separator);
    if (key && pass(&r, separator)) {
        *at = r.at;
        return key;
    }
    json_decref(key);
    return NULL;
}

bool literal_key_may_come(struct calls_reader *reader, const char *text, size_t length, char separator,
                          size_t at)
{
    struct reader r = {.calls = reader, .text = text, .length = length, .at = at};
    skip_space(&r);
    if (r.at == length || is_at_quote(&r)) {
        json_t *quoted = read_string(&r);
        if (!quoted) return true;
        json_decref(quoted);
    } else if (read_bare_key(&r, separator).length == 0) {
        return false;
    }
    skip_space(&r);
    return r.at == length;
}

/* What follows a quotation mark that opened a string. False: its end hasn't come. */
static bool pass_quoted(struct literal_scan *scan, const char *text, size_t length)
{
    size_t n = strlen(gemma_quote);
    if (scan->quote == gemma_quote[0]) {
        const char *end = memmem(text + scan->at, length - scan->at, gemma_quote, n);
        size_t kept = length - scan->at < n ? length - scan->at : n - 1; /* a mark may begin there */
        scan->at = end ? (size_t)(end - text) + n : length - kept;
        return end != NULL;
    }
    while (scan->at < length) {
        char c = text[scan->at++];
        if (scan->escaped || c == '\\')
            scan->escaped = !scan->escaped;
        else if (c == scan->quote)
            return true;
    }
    return false;
}

/* Moves past what begins a value or a key. False: it's not decided what that is. */
static bool pass_beginning(struct literal_scan *scan, const char *text, size_t length)
{
    char c = text[scan->at];
    size_t quote = literal_quote(text + scan->at, length - scan->at);
    if (quote == SIZE_MAX) return false;
    scan->begins = scan->in_word = false;
    if (quote > 0) {
        scan->quote = c;
        scan->at += quote;
    } else if (!scan->is_key && (c == '[' || c == '(' || c == '{') && scan->depth < MAX_DEPTH) {
        scan->objects = c == '{' ? scan->objects | UINT64_C(1) << scan->depth
                                 : scan->objects & ~(UINT64_C(1) << scan->depth);
        scan->depth++;
        scan->begins = true;
        scan->is_key = c == '{';
        scan->at++;
    } else {
        scan->in_word = true;
    }
    return true;
}

/* A byte in a word or after a value. True: the whole value ends before it, or with it. */
static bool pass_other(struct literal_scan *scan, char c)
{
    bool closes = c == '}' || c == ']' || c == ')';
    bool ends_word = scan->is_key ? c == ':' || c == '}' : closes;
    if (scan->in_word && !ends_word && c != ',' && !is_json_space(c)) return false;
    scan->in_word = false;
    if ((closes || c == ',') && scan->depth == 0) return true;
    if (c == ',') {
        scan->begins = true;
        scan->is_key = scan->objects >> (scan->depth - 1) & 1;
    } else if (c == ':' && scan->is_key) {
        scan->begins = true;
        scan->is_key = false;
    } else if (closes) {
        scan->is_key = false;
        return --scan->depth == 0;
    }
    return false;
}

bool literal_ends(struct literal_scan *scan, const char *text, size_t length)
{
    bool ends = false;
    while (!ends && scan->at < length) {
        if (scan->quote) {
            if (!pass_quoted(scan, text, length)) return false;
            scan->quote = '\0';
        } else if (scan->begins && !is_json_space(text[scan->at])) {
            if (!pass_beginning(scan, text, length)) return false;
        } else {
            ends = pass_other(scan, text[scan->at++]);
        }
    }
    return ends;
}

json_t *literal_next(struct calls_reader *reader, const char *text, size_t length, size_t *at)
{
    struct reader r = {.calls = reader, .text = text, .length = length, .at = *at};
    json_t *value = read_value(&r);
    *at = r.at;
    return value;
}

size_t literal_quote(const char *text, size_t length)
{
    size_t n = strlen(gemma_quote);
    if (length > 0 && (text[0] == '"' || text[0] == '\'')) return 1;
    if (length >= n) return memcmp(text, gemma_quote, n) == 0 ? n : 0;
    return length > 0 && memcmp(text, gemma_quote, length) == 0 ? SIZE_MAX : 0;
}

/* The text up to a mark of Gemma's, or up to where one may begin. */
static bool marked_string_part(struct reader *r, struct text_buffer *out, size_t *used, bool *ended)
{
    size_t n = strlen(gemma_quote), length = r->length;
    const char *text = r->text, *end = length > 0 ? memmem(text, length, gemma_quote, n) : NULL;
    size_t size = end ? (size_t)(end - text) : length;
    for (size_t i = length < n ? 0 : length - n + 1; !end && i < length && size == length; i++)
        if (memcmp(text + i, gemma_quote, length - i) == 0) size = i;
    *ended = end != NULL;
    *used = end ? size + n : size;
    return add_text(r, out, text, size);
}

/* How many bytes an escape at the start of `text` has, at most; SIZE_MAX: that is not decided yet. */
static size_t escape_length(const char *text, size_t length)
{
    if (length < 2) return SIZE_MAX;
    size_t n = text[1] == 'x' ? 4 : text[1] == 'u' ? 6 : text[1] == 'U' ? 10 : 2;
    if (text[1] == 'u' && length >= 4 && (text[2] | 32) == 'd' && strchr("89aAbB", text[3])) n = 12;
    return n > length ? SIZE_MAX : n;
}

bool literal_string_part(struct calls_reader *reader, const char *quote, struct span text,
                         struct text_buffer *out, size_t *used, bool *ended)
{
    struct reader r = {.calls = reader, .text = text.data, .length = text.length};
    bool good = true;
    if (strcmp(quote, gemma_quote) == 0) return marked_string_part(&r, out, used, ended);
    for (*ended = false; good && !*ended && r.at < r.length;) {
        if (r.text[r.at] == '\\' && escape_length(r.text + r.at, r.length - r.at) == SIZE_MAX) break;
        char c = r.text[r.at++];
        *ended = c == quote[0];
        if (c == '\\')
            good = read_escape(&r, out);
        else if (!*ended)
            good = add_text(&r, out, &c, 1);
    }
    *used = r.at;
    return good;
}
