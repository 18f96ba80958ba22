/* json-read.h: reads JSON into Jansson's values. Jansson's own reader, json_loadb, isn't used: 2.14 doesn't
 * notice when a string can't grow, and then reads and writes past its end. This reader stops when memory runs
 * out. It also reads integers of more than 64 bits as doubles, as JavaScript does, because JSON doesn't limit
 * numbers (RFC 8259, section 6). Its messages are Jansson's, and it allocates as Jansson does, so that
 * whoever gives Jansson other functions (json_set_alloc_funcs) sees each failure. */
#ifndef COMMON_JSON_READ_H
#define COMMON_JSON_READ_H

#include <errno.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_READ_DEPTH 2048 /* nested values */

enum json_read_token { JSON_READ_END, JSON_READ_WRONG, JSON_READ_STRING, JSON_READ_VALUE, JSON_READ_SIGN };

/* Results of json_read_peek other than a byte. */
enum { JSON_READ_NO_MORE = -1, JSON_READ_NO_UTF8 = -2 };

struct json_reader {
    const char *text;
    size_t length, at, flags, depth;
    size_t start; /* of the token that ends at `at` */
    size_t valid; /* the end of the UTF-8 sequence that was checked last */
    bool broken;  /* it isn't UTF-8 at `at` */
    enum json_read_token token;
    json_t *value; /* of JSON_READ_VALUE: owned until it is taken */
    char *string;  /* of JSON_READ_STRING: [n_string] bytes and a NUL, with room for [room] */
    size_t n_string, room;
    json_error_t *error;
    json_t *rounded;        /* an array for integers that became doubles of another value; NULL: not wanted */
    json_malloc_t allocate; /* Jansson's */
    json_free_t release;
};

/* ---- Mistakes ---- */

static inline bool json_read_has_failed(const struct json_reader *reader)
{
    return reader->error->text[0] != '\0';
}

/* Where the mistake is. */
static inline void json_read_place(struct json_reader *reader)
{
    json_error_t *error = reader->error;
    error->line = 1;
    error->column = 0;
    error->position = (int)reader->at;
    for (size_t i = 0; i < reader->at; i++)
        if (reader->text[i] == '\n') {
            error->line++;
            error->column = 0;
        } else if ((reader->text[i] & 0xC0) != 0x80) {
            error->column++;
        }
}

/* Records a mistake, unless an earlier one is recorded. */
__attribute__((format(printf, 3, 4))) static inline void
json_read_fail(struct json_reader *reader, enum json_error_code code, const char *format, ...)
{
    json_error_t *error = reader->error;
    char what[JSON_ERROR_TEXT_LENGTH / 2];
    const char *token = reader->text + reader->start;
    size_t n_token = reader->at - reader->start;
    bool empty = n_token == 0 || *token == '\0';
    if (json_read_has_failed(reader)) return;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (empty && code == json_error_invalid_syntax) code = json_error_premature_end_of_input;
    if (empty && !reader->broken)
        snprintf(error->text, sizeof error->text - 1, "%s near end of file", what);
    else if (!empty && n_token <= 20)
        snprintf(error->text, sizeof error->text - 1, "%s near '%.*s'", what, (int)n_token, token);
    else
        snprintf(error->text, sizeof error->text - 1, "%s", what);
    error->text[sizeof error->text - 1] = (char)code;
    json_read_place(reader);
}

static inline void json_read_no_memory(struct json_reader *reader)
{
    if (json_read_has_failed(reader)) return;
    snprintf(reader->error->text, sizeof reader->error->text - 1, "out of memory");
    reader->error->text[sizeof reader->error->text - 1] = (char)json_error_out_of_memory;
    json_read_place(reader);
}

/* ---- Bytes ---- */

/* The length of the sequence at `text`; 0: it isn't UTF-8. */
static inline size_t json_read_utf8(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    if (n < 2 || n > length) return n == 1;
    unsigned char least = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80; /* neither longer than needed */
    unsigned char most = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;  /* nor surrogates nor too large */
    if (s[1] < least || s[1] > most) return 0;
    for (size_t i = 2; i < n; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    return n;
}

/* The next byte, or the reason for having none. */
static inline int json_read_peek(struct json_reader *reader)
{
    if (reader->broken) return JSON_READ_NO_UTF8;
    if (reader->at == reader->length) return JSON_READ_NO_MORE;
    int byte = (unsigned char)reader->text[reader->at];
    if (byte < 0x80 || reader->at < reader->valid) return byte;
    size_t n = json_read_utf8(reader->text + reader->at, reader->length - reader->at);
    reader->valid = reader->at + n;
    if (n > 0) return byte;
    reader->broken = true;
    json_read_fail(reader, json_error_invalid_utf8, "unable to decode byte 0x%x", (unsigned)byte);
    return JSON_READ_NO_UTF8;
}

static inline int json_read_take(struct json_reader *reader)
{
    int byte = json_read_peek(reader);
    if (byte >= 0) reader->at++;
    return byte;
}

static inline bool json_read_is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

static inline bool json_read_is_letter(int byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static inline bool json_read_is_hex(int byte)
{
    return json_read_is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

/* Makes room for `size` bytes in reader->string, whose contents are lost. */
static inline bool json_read_reserve(struct json_reader *reader, size_t size)
{
    if (size <= reader->room) return true;
    reader->release(reader->string);
    reader->room = size < SIZE_MAX / 2 ? 2 * size : size;
    reader->string = reader->allocate(reader->room);
    if (reader->string) return true;
    reader->room = 0;
    json_read_no_memory(reader);
    return false;
}

/* ---- Strings ---- */

static inline bool json_read_pass_escape(struct json_reader *reader)
{
    int byte = json_read_take(reader);
    if (byte != 'u') return byte > 0 && strchr("\"\\/bfnrt", byte);
    for (int i = 0; i < 4; i++)
        if (!json_read_is_hex(json_read_take(reader))) return false;
    return true;
}

/* Reads a string up to its closing quote, inclusive. */
static inline bool json_read_pass_string(struct json_reader *reader)
{
    for (reader->at++;;) {
        int byte = json_read_peek(reader);
        if (byte == JSON_READ_NO_UTF8) return false;
        if (byte == JSON_READ_NO_MORE)
            json_read_fail(reader, json_error_premature_end_of_input, "premature end of input");
        else if (byte == '\n')
            json_read_fail(reader, json_error_invalid_syntax, "unexpected newline");
        else if (byte < 0x20)
            json_read_fail(reader, json_error_invalid_syntax, "control character 0x%x", (unsigned)byte);
        if (byte < 0x20) return false;
        reader->at++;
        if (byte == '"') return true;
        if (byte == '\\' && !json_read_pass_escape(reader)) {
            json_read_fail(reader, json_error_invalid_syntax, "invalid escape");
            return false;
        }
    }
}

/* The value of four hexadecimal digits, which have been checked. */
static inline unsigned json_read_hex(const char *digits)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 4 |
                (unsigned)(json_read_is_digit(digits[i]) ? digits[i] - '0' : (digits[i] & 0xDF) - 'A' + 10);
    return value;
}

/* The character of a \u escape at `from`, and the length of the escape; 0: half of a surrogate pair. */
static inline unsigned json_read_unicode(struct json_reader *reader, const char *from, size_t *n)
{
    unsigned high = json_read_hex(from + 2), low = 0;
    *n = 6;
    if (high < 0xD800 || high > 0xDFFF) return high;
    bool pair = high < 0xDC00 && from[6] == '\\' && from[7] == 'u';
    if (pair) low = json_read_hex(from + 8);
    *n = pair && low >= 0xDC00 && low <= 0xDFFF ? 12 : 0;
    if (*n == 0 && pair)
        json_read_fail(reader, json_error_invalid_syntax, "invalid Unicode '\\u%04X\\u%04X'", high, low);
    else if (*n == 0)
        json_read_fail(reader, json_error_invalid_syntax, "invalid Unicode '\\u%04X'", high);
    return 0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF);
}

static inline char *json_read_put(char *to, unsigned character)
{
    static const unsigned char firsts[] = {0, 0, 0xC0, 0xE0, 0xF0};
    int n = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, character >>= 6) to[i] = (char)(0x80 | (character & 0x3F));
    to[0] = (char)(firsts[n] | character);
    return to + n;
}

static inline void json_read_string(struct json_reader *reader)
{
    static const char names[] = "bfnrt", bytes[] = "\b\f\n\r\t";
    reader->token = JSON_READ_WRONG;
    if (!json_read_pass_string(reader) || !json_read_reserve(reader, reader->at - reader->start)) return;
    const char *from = reader->text + reader->start + 1, *end = reader->text + reader->at - 1;
    char *to = reader->string; /* a character is never longer than its escape */
    while (from < end) {
        const char *escape = memchr(from, '\\', (size_t)(end - from));
        size_t n = (size_t)((escape ? escape : end) - from);
        memcpy(to, from, n);
        to += n;
        from += n;
        if (!escape) break;
        if (from[1] == 'u') {
            to = json_read_put(to, json_read_unicode(reader, from, &n));
            if (n == 0) return;
        } else {
            const char *name = strchr(names, from[1]);
            *to++ = name ? bytes[name - names] : from[1];
            n = 2;
        }
        from += n;
    }
    *to = '\0';
    reader->n_string = (size_t)(to - reader->string);
    reader->token = JSON_READ_STRING;
}

/* ---- Numbers ---- */

static inline bool json_read_pass_digits(struct json_reader *reader)
{
    if (!json_read_is_digit(json_read_peek(reader))) return false;
    while (json_read_is_digit(json_read_peek(reader))) reader->at++;
    return true;
}

/* Reads a number to its end. *is_real: it has a fraction or an exponent. */
static inline bool json_read_pass_number(struct json_reader *reader, bool *is_real)
{
    if (json_read_peek(reader) == '-') reader->at++;
    if (json_read_peek(reader) == '0') {
        reader->at++;
        if (json_read_is_digit(json_read_peek(reader))) return false;
    } else if (!json_read_pass_digits(reader)) {
        return false;
    }
    int byte = json_read_peek(reader);
    *is_real = byte == '.' || byte == 'e' || byte == 'E';
    if (byte == '.') {
        reader->at++;
        if (!json_read_pass_digits(reader)) return false;
        byte = json_read_peek(reader);
    }
    if (byte != 'e' && byte != 'E') return true;
    reader->at++;
    byte = json_read_peek(reader);
    if (byte == '+' || byte == '-') reader->at++;
    return json_read_pass_digits(reader);
}

/* Takes a new value; NULL: records that memory ran out. */
static inline void json_read_made(struct json_reader *reader, json_t *value)
{
    reader->token = value ? JSON_READ_VALUE : JSON_READ_WRONG;
    reader->value = value;
    if (!value) json_read_no_memory(reader);
}

/* Names a value by its address, so that it is found among many. */
static inline void json_read_rounded_name(const json_t *value, char name[32])
{
    snprintf(name, 32, "%p", (const void *)value);
}

static inline bool json_read_note_rounded(json_t *rounded, json_t *value)
{
    char name[32];
    json_read_rounded_name(value, name);
    return json_object_set(rounded, name, value) == 0;
}

static inline void json_read_number(struct json_reader *reader)
{
    bool is_real;
    reader->token = JSON_READ_WRONG;
    if (!json_read_pass_number(reader, &is_real)) return;
    size_t n = reader->at - reader->start;
    if (!json_read_reserve(reader, n + 1)) return;
    memcpy(reader->string, reader->text + reader->start, n);
    reader->string[n] = '\0';
    errno = 0;
    long long integer = is_real ? 0 : strtoll(reader->string, NULL, 10);
    if (!is_real && errno != ERANGE) {
        json_read_made(reader, json_integer(integer));
        return;
    }
    char *point = memchr(reader->string, '.', n);
    if (point) *point = *localeconv()->decimal_point; /* strtod's */
    double real = strtod(reader->string, NULL);
    if (isinf(real))
        json_read_fail(reader, json_error_numeric_overflow, "a number above 1.8e308, the largest double");
    else
        json_read_made(reader, json_real(real));
    if (!reader->value || is_real || !reader->rounded) return;
    char exact[400];
    snprintf(exact, sizeof exact, "%.0f", real);
    if (strcmp(exact, reader->string) == 0 || json_read_note_rounded(reader->rounded, reader->value)) return;
    json_decref(reader->value);
    json_read_made(reader, NULL);
}

/* ---- Tokens and values ---- */

static inline void json_read_word(struct json_reader *reader)
{
    const char *word = reader->text + reader->start;
    while (json_read_is_letter(json_read_peek(reader))) reader->at++;
    size_t n = reader->at - reader->start;
    reader->token = JSON_READ_VALUE;
    if (n == 4 && memcmp(word, "true", n) == 0)
        reader->value = json_true();
    else if (n == 5 && memcmp(word, "false", n) == 0)
        reader->value = json_false();
    else if (n == 4 && memcmp(word, "null", n) == 0)
        reader->value = json_null();
    else
        reader->token = JSON_READ_WRONG;
}

static inline void json_read_next(struct json_reader *reader)
{
    int byte;
    for (;;) {
        reader->start = reader->at;
        byte = json_read_peek(reader);
        if (byte != ' ' && byte != '\t' && byte != '\n' && byte != '\r') break;
        reader->at++;
    }
    reader->token = byte == JSON_READ_NO_MORE ? JSON_READ_END : JSON_READ_WRONG;
    if (byte < 0) return;
    if (byte == '"') {
        json_read_string(reader);
    } else if (byte == '-' || json_read_is_digit(byte)) {
        json_read_number(reader);
    } else if (json_read_is_letter(byte)) {
        json_read_word(reader);
    } else {
        if (byte > 0 && strchr("{}[]:,", byte)) reader->token = JSON_READ_SIGN;
        reader->at = byte < 0x80 ? reader->at + 1 : reader->valid;
    }
}

static inline bool json_read_is(const struct json_reader *reader, char sign)
{
    return reader->token == JSON_READ_SIGN && reader->text[reader->start] == sign;
}

static inline json_t *json_read_value(struct json_reader *reader);

/* Reads the value that begins with the current token into `array`, which owns it. */
static inline bool json_read_element(struct json_reader *reader, json_t *array)
{
    json_t *value = json_read_value(reader);
    if (!value) return false;
    if (json_array_append_new(array, value) == 0) return true;
    json_read_no_memory(reader);
    return false;
}

/* A copy of the current key, which the caller releases. */
static inline char *json_read_key(struct json_reader *reader, const json_t *object)
{
    if (reader->token != JSON_READ_STRING)
        json_read_fail(reader, json_error_invalid_syntax, "string or '}' expected");
    else if (memchr(reader->string, '\0', reader->n_string))
        json_read_fail(reader, json_error_null_byte_in_key, "NUL byte in object key not supported");
    else if ((reader->flags & JSON_REJECT_DUPLICATES) && json_object_get(object, reader->string))
        json_read_fail(reader, json_error_duplicate_key, "duplicate object key");
    else {
        char *key = reader->allocate(reader->n_string + 1);
        if (!key) json_read_no_memory(reader);
        return key ? memcpy(key, reader->string, reader->n_string + 1) : NULL;
    }
    return NULL;
}

static inline bool json_read_member(struct json_reader *reader, json_t *object)
{
    char *key = json_read_key(reader, object);
    if (!key) return false;
    json_t *value = NULL;
    json_read_next(reader);
    if (json_read_is(reader, ':')) {
        json_read_next(reader);
        value = json_read_value(reader);
    } else {
        json_read_fail(reader, json_error_invalid_syntax, "':' expected");
    }
    bool good = value && json_object_set_new_nocheck(object, key, value) == 0;
    if (value && !good) json_read_no_memory(reader);
    reader->release(key);
    return good;
}

/* Reads an array or an object, whose opening bracket is the current token. */
static inline json_t *json_read_container(struct json_reader *reader)
{
    bool array = json_read_is(reader, '[');
    char end = array ? ']' : '}';
    json_t *all = array ? json_array() : json_object();
    if (!all) {
        json_read_no_memory(reader);
        return NULL;
    }
    json_read_next(reader);
    if (json_read_is(reader, end)) return all;
    while (!array || reader->token != JSON_READ_END) {
        if (array ? !json_read_element(reader, all) : !json_read_member(reader, all)) goto failed;
        json_read_next(reader);
        if (!json_read_is(reader, ',')) break;
        json_read_next(reader);
    }
    if (json_read_is(reader, end)) return all;
    json_read_fail(reader, json_error_invalid_syntax, "'%c' expected", end);
failed:
    json_decref(all);
    return NULL;
}

static inline json_t *json_read_value(struct json_reader *reader)
{
    json_t *value = NULL;
    if (++reader->depth > JSON_READ_DEPTH) {
        json_read_fail(reader, json_error_stack_overflow, "maximum parsing depth reached");
    } else if (reader->token == JSON_READ_STRING) {
        if (!(reader->flags & JSON_ALLOW_NUL) && memchr(reader->string, '\0', reader->n_string)) {
            json_read_fail(reader, json_error_null_character,
                           "\\u0000 is not allowed without JSON_ALLOW_NUL");
            return NULL;
        }
        json_read_made(reader, json_stringn_nocheck(reader->string, reader->n_string));
        value = reader->value;
        reader->value = NULL;
    } else if (reader->token == JSON_READ_VALUE) {
        value = reader->value;
        reader->value = NULL;
    } else if (json_read_is(reader, '[') || json_read_is(reader, '{')) {
        value = json_read_container(reader);
    } else {
        json_read_fail(reader, json_error_invalid_syntax, "%s token",
                       reader->token == JSON_READ_WRONG ? "invalid" : "unexpected");
    }
    reader->depth--;
    return value;
}

static inline json_t *json_read_all(struct json_reader *reader)
{
    json_read_next(reader);
    if (!(reader->flags & JSON_DECODE_ANY) && !json_read_is(reader, '[') && !json_read_is(reader, '{')) {
        json_read_fail(reader, json_error_invalid_syntax, "'[' or '{' expected");
        return NULL;
    }
    json_t *json = json_read_value(reader);
    if (!json || (reader->flags & JSON_DISABLE_EOF_CHECK)) return json;
    json_read_next(reader);
    if (reader->token == JSON_READ_END) return json;
    json_read_fail(reader, json_error_end_of_input_expected, "end of file expected");
    json_decref(json);
    return NULL;
}

/* As json_read below. *rounded, an object, receives the values of integers that no double holds. */
static inline json_t *json_read_rounding(const char *text, size_t length, size_t flags, json_error_t *error,
                                         json_t *rounded)
{
    json_error_t own = {0};
    struct json_reader reader = {
        .text = text, .length = length, .flags = flags, .error = error ? error : &own, .rounded = rounded};
    json_get_alloc_funcs(&reader.allocate, &reader.release);
    *reader.error = (json_error_t){.line = -1, .column = -1, .source = "<buffer>"};
    json_t *json = json_read_all(&reader);
    if (json) reader.error->position = (int)reader.at;
    json_decref(reader.value);
    reader.release(reader.string);
    return json;
}

/* As json_loadb, with the flags JSON_REJECT_DUPLICATES, JSON_DECODE_ANY, JSON_DISABLE_EOF_CHECK and
 * JSON_ALLOW_NUL. `error` may be NULL. */
static inline json_t *json_read(const char *text, size_t length, size_t flags, json_error_t *error)
{
    return json_read_rounding(text, length, flags, error, NULL);
}

/* `names`: the members of the object are named by a schema's author. */
static inline const char *json_read_listed_in(const json_t *json, const json_t *rounded, const char *keyword,
                                              bool names)
{
    static const char *const of_names[] = {"properties", "patternProperties", "dependentSchemas", "$defs",
                                           "definitions"};
    const char *key, *found = NULL;
    json_t *value;
    size_t i;
    if (keyword && json_is_real(json)) {
        char name[32];
        json_read_rounded_name(json, name);
        if (json_object_get(rounded, name)) return keyword;
    }
    json_array_foreach(json, i, value)
    {
        found = json_read_listed_in(value, rounded, keyword, false);
        if (found) return found;
    }
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        if (!names && !keyword && (strcmp(key, "default") == 0 || strcmp(key, "examples") == 0)) continue;
        bool lists = !names && (strcmp(key, "const") == 0 || strcmp(key, "enum") == 0), named = false;
        for (i = 0; !names && i < sizeof of_names / sizeof *of_names; i++)
            named = named || strcmp(key, of_names[i]) == 0;
        found = json_read_listed_in(value, rounded, keyword ? keyword : lists ? key : NULL, named);
        if (found) return found;
    }
    return NULL;
}

/* The first keyword, "const" or "enum", that lists a value which json_read_rounding has rounded: a schema
 * would have it written with other digits. NULL: none. */
static inline const char *json_read_listed(const json_t *json, const json_t *rounded)
{
    return json_object_size(rounded) > 0 ? json_read_listed_in(json, rounded, NULL, false) : NULL;
}

/* Whether json_read failed because memory ran out. */
static inline bool json_read_lacked_memory(const json_error_t *error)
{
    return json_error_code(error) == json_error_out_of_memory;
}

/* As json_read, for a text that ends with NUL. */
static inline json_t *json_read_text(const char *text, size_t flags, json_error_t *error)
{
    return json_read(text, strlen(text), flags, error);
}

#endif
