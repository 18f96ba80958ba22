/* json.c: see json.h. */
#include "commands/json.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "commands/signals.h"
#include "commands/utf8.h"
#include "common/json-read.h"

/* ---- Memory ---- */

/* Jansson says by NULL that memory has run out, which then stands in for a value or leaves a field out: too many places to
 * check each. A command has nothing to go on with, so it ends here. */
static void *allocate(size_t size)
{
    void *block = malloc(size);
    if (block) return block;
    signals_end_program("out of memory (JSON)");
}

void json_end_without_memory(void)
{
    json_set_alloc_funcs(allocate, free);
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
