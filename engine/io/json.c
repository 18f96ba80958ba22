/* json.c: see json.h. */
#include "io/json.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"
#include "io/display.h"
#include "io/files.h"
#include "io/messages.h"
#include "io/signals.h"

/* ---- Memory ---- */

/* Jansson says by NULL that memory has run out, which then stands in for a value or leaves a field out: too
 * many places to check each. A command has nothing to go on with, so it ends here. */
static void *json_malloc(size_t size)
{
    void *block = malloc(size);
    if (block) return block;
    signals_end_program("out of memory (JSON)");
}

void json_end_without_memory(void)
{
    json_set_alloc_funcs(json_malloc, free);
}

/* ---- Values ---- */

json_t *json_text(const char *text, size_t length)
{
    if (!text) return json_null();
    json_t *json = json_stringn(text, length);
    if (json) return json;

    char *mended = malloc(length * 3 + 1); /* U+FFFD has three bytes */
    size_t used = 0;
    for (size_t i = 0, bytes; mended && i < length; i += bytes) {
        bool whole;
        bytes = utf8_next(text + i, length - i, &whole);
        memcpy(mended + used, whole ? text + i : "\xef\xbf\xbd", whole ? bytes : 3);
        used += whole ? bytes : 3;
    }
    json = mended ? json_stringn(mended, used) : NULL;
    free(mended);
    return json;
}

json_t *json_line(const char *text)
{
    return json_text(text, text ? strlen(text) : 0);
}

json_t *json_buffer(const struct text_buffer *text)
{
    return json_text(text->data ? text->data : "", text->size);
}

json_t *json_count(uint64_t number)
{
    return json_integer(number > INT64_MAX ? INT64_MAX : (json_int_t)number);
}

json_t *json_seed(uint64_t seed)
{
    char text[24];
    if (seed <= INT64_MAX) return json_integer((json_int_t)seed);
    snprintf(text, sizeof text, "%" PRIu64, seed);
    return json_string(text);
}

json_t *json_rounded(double number, int digits)
{
    char text[32];
    snprintf(text, sizeof text, "%.*g", digits, number);
    return json_real(strtod(text, NULL));
}

/* The number at `text`, of `length` bytes, with fewer digits if these say the same. Its length then. */
static size_t shorten_number(char *text, size_t length)
{
    double number = strtod(text, NULL);
    for (int digits = 15; digits < 17; digits++) {
        char shorter[40];
        int n = snprintf(shorter, sizeof shorter - 2, "%.*g", digits, number);
        if (strtod(shorter, NULL) != number) continue;
        if (!strpbrk(shorter, ".e")) n += snprintf(shorter + n, sizeof shorter - (size_t)n, ".0");
        if ((size_t)n >= length) return length;
        memcpy(text, shorter, (size_t)n);
        return (size_t)n;
    }
    return length;
}

char *json_exact_text(const json_t *json, size_t flags)
{
    static const char of_numbers[] = "+-.0123456789Ee";
    char *text = json_dumps(json, flags | JSON_REAL_PRECISION(17)), *to = text;
    bool in_string = false;
    for (char *from = text; from && *from;) {
        size_t n = in_string ? 0 : strspn(from, of_numbers);
        bool is_long = n > 15 && memchr(from, '.', n);
        if (n == 0) {
            if (*from == '"') in_string = !in_string;
            n = in_string && *from == '\\' ? 2 : 1;
        }
        size_t kept = is_long ? shorten_number(from, n) : n;
        memmove(to, from, kept);
        to += kept;
        from += n;
    }
    if (to) *to = '\0';
    return text;
}

int json_check_objects(const char *path, const char *text, size_t size, const char *what, json_t **json)
{
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    json_error_t reason;
    *json = json_read(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &reason);
    if (!*json)
        return command_error(ENGINE_ERROR_DATA, "%s: not JSON: line %d: %s", name, reason.line, reason.text);
    bool objects = json_is_array(*json);
    for (size_t i = 0; objects && i < json_array_size(*json); i++)
        objects = json_is_object(json_array_get(*json, i));
    if (objects) return ENGINE_OK;
    json_decref(*json);
    *json = NULL;
    return command_error(ENGINE_ERROR_DATA, "%s: not an array of %s (JSON objects)", name, what);
}

int json_print(json_t *json)
{
    if (!json) {
        command_error(ENGINE_ERROR_MEMORY, "out of memory (JSON)");
        return command_fail();
    }
    /* main.c checks at the end that standard output took everything. */
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
    return 0;
}

/* ---- Requests ---- */

/* Fields that are no schemas and have none. */
static const char *const without_schemas[] = {
    "messages", "input", "prompt", "system", "metadata", "id", "chat_template_kwargs", NULL};

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0) names++;
    return *names != NULL;
}

json_t *json_read_request(const char *text, size_t length, const char **keyword, json_error_t *error)
{
    const char *name;
    json_t *value, *rounded = json_object();
    json_t *json = json_read_rounding(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, error, rounded);
    *keyword = NULL;
    json_object_foreach(json, name, value)
    {
        if (!*keyword && !is_among(name, without_schemas)) *keyword = json_read_listed(value, rounded);
    }
    json_decref(rounded);
    return json;
}

/* ---- Texts with a NUL ---------------------------------------------------------------------------------- */

/* Fields that are prose: a text, or an array of texts. */
static const char *const prose[] = {"prompt",
                                    "input",
                                    "text",
                                    "texts",
                                    "content",
                                    "system",
                                    "instructions",
                                    "output",
                                    "thinking",
                                    "arguments",
                                    "stop",
                                    "ban",
                                    "query",
                                    "documents",
                                    "answers",
                                    "suffix",
                                    "reasoning",
                                    "stop_sequences",
                                    "input_prefix",
                                    "input_suffix",
                                    "reasoning_content",
                                    "title",
                                    "description",
                                    "dry_sequence_breakers",
                                    NULL};
/* Fields that are data of any form: parts of schemas, and variables of templates. */
static const char *const data[] = {"const", "enum", "default", "examples", "chat_template_kwargs", NULL};
/* Fields of a line, not of what is in it, that are only given back. */
static const char *const given_back[] = {"id", "custom_id", NULL};
/* Fields that are data if they are objects: arguments of calls. */
static const char *const data_objects[] = {"arguments", "parsed_arguments", "input", NULL};

/* `name`: of the field that the value is in. `used`: bytes of `where` before it. */
static bool find_nul(const json_t *json, const char *name, char where[JSON_NUL_WHERE], size_t used)
{
    const char *key;
    json_t *value;
    size_t i;
    if (used >= JSON_NUL_WHERE) used = JSON_NUL_WHERE - 1; /* a place too long to be named is cut */
    if (json_is_string(json))
        return strlen(json_string_value(json)) != json_string_length(json) && !is_among(name, prose);
    json_array_foreach(json, i, value)
    {
        int n = snprintf(where + used, JSON_NUL_WHERE - used, "[%zu]", i);
        if (find_nul(value, name, where, used + (size_t)n)) return true;
    }
    json_object_foreach((json_t *)(size_t)json, key, value)
    {
        if (used == 0 && is_among(key, given_back)) continue;
        if (is_among(key, data) || (json_is_object(value) && is_among(key, data_objects))) continue;
        int n = snprintf(where + used, JSON_NUL_WHERE - used, "%s%s", used > 0 ? "." : "", key);
        if (find_nul(value, key, where, used + (size_t)n)) return true;
    }
    return false;
}

bool json_has_nul(const json_t *json, char where[JSON_NUL_WHERE])
{
    where[0] = '\0';
    return find_nul(json, "", where, 0);
}
