/* json-read.h: reads JSON by Jansson, whose integers have 64 bits. JSON sets numbers no range (RFC 8259, section 6), so
 * larger integers are read as doubles here, as JavaScript does, instead of making the whole text an error. */
#ifndef COMMON_JSON_READ_H
#define COMMON_JSON_READ_H

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many bytes at `text`, which is not empty, are a number or go on with one. */
static inline size_t json_read_number(const char *text, size_t length)
{
    size_t n = 0;
    while (n < length && ((text[n] >= '0' && text[n] <= '9') || memchr("+-.eE", text[n], 5))) n++;
    return n;
}

/* Writes an integer that doesn't fit into 64 bits as a double of as many characters, 17 digits and an exponent with
 * leading zeros, so that places in the text stay. Any other number stays too. */
static inline void json_read_shorten(char *number, size_t length)
{
    char copy[320], digits[40];
    size_t sign = *number == '-', n_digits = length - sign;
    if (n_digits < 19 || n_digits > 309 || number[sign] == '0') return;
    for (size_t i = sign; i < length; i++)
        if (number[i] < '0' || number[i] > '9') return;
    memcpy(copy, number, length);
    copy[length] = '\0';
    errno = 0;
    (void)strtoll(copy, NULL, 10);
    double value = strtod(copy, NULL);
    if (errno != ERANGE || value - value != 0) return;                    /* it fits, or is infinite */
    snprintf(digits, sizeof digits, "%.16e", value < 0 ? -value : value); /* d, a point, 16 digits, e+xx */
    long exponent = strtol(strchr(digits, 'e') + 1, NULL, 10) - 16;
    snprintf(copy, sizeof copy, "%.*s%c%.16se%0*ld", (int)sign, "-", digits[0], digits + 2,
             (int)(n_digits - 18), exponent);
    memcpy(number, copy, length);
}

static inline void json_read_shorten_all(char *text, size_t length)
{
    bool string = false;
    for (size_t at = 0; at < length; at++) {
        size_t n = string ? 0 : json_read_number(text + at, length - at);
        if (text[at] == '"') string = !string;
        if (text[at] == '\\' && string) at++;
        if (n == 0) continue;
        json_read_shorten(text + at, n);
        at += n - 1;
    }
}

/* Where the first value of a text ends: a text may hold many, each of which is read alone. */
static inline size_t json_read_end(const char *text, size_t length)
{
    size_t depth = 0;
    bool string = false;
    for (size_t at = 0; at < length; at++) {
        bool opens = !string && (text[at] == '[' || text[at] == '{');
        bool closes = !string && (text[at] == ']' || text[at] == '}');
        size_t n = string || opens || closes ? 0 : json_read_number(text + at, length - at);
        if (text[at] == '"') string = !string;
        if (text[at] == '\\' && string) at++;
        if (n > 0) at += n - 1;
        depth += opens;
        if (closes && depth <= 1) return at + 1;
        depth -= closes;
        if (n > 0 && depth == 0) return at + 1;
    }
    return length;
}

static inline void json_read_no_memory(json_error_t *error)
{
    snprintf(error->text, sizeof error->text - 1, "out of memory");
    error->text[sizeof error->text - 1] = (char)json_error_out_of_memory;
}

/* By a function that reads as json_loadb does. `error` may be NULL. */
static inline json_t *json_read_by(json_t *load(const char *text, size_t length, size_t flags,
                                                json_error_t *error),
                                   const char *text, size_t length, size_t flags, json_error_t *error)
{
    json_error_t own, *why = error ? error : &own;
    json_t *json = load(text, length, flags, why);
    if (json || json_error_code(why) != json_error_numeric_overflow) return json;
    if (flags & JSON_DISABLE_EOF_CHECK) length = json_read_end(text, length);
    char *copy = malloc(length + 1);
    if (!copy) {
        json_read_no_memory(why);
        return NULL;
    }
    memcpy(copy, text, length);
    json_read_shorten_all(copy, length);
    json = load(copy, length, flags, why);
    free(copy);
    if (!json && json_error_code(why) == json_error_numeric_overflow) {
        char near[60];
        const char *context = strstr(why->text, " near ");
        snprintf(near, sizeof near, "%.50s", context ? context : "");
        snprintf(why->text, sizeof why->text - 1, "a number above 1.8e308, the largest double%s", near);
    }
    return json;
}

/* As json_loadb. */
static inline json_t *json_read(const char *text, size_t length, size_t flags, json_error_t *error)
{
    return json_read_by(json_loadb, text, length, flags, error);
}

/* The same of a text that ends with NUL. */
static inline json_t *json_read_text(const char *text, size_t flags, json_error_t *error)
{
    return json_read(text, strlen(text), flags, error);
}

#endif
