/* json-nul.c: see json-nul.h. */
#include "commands/json-nul.h"

#include <stdio.h>
#include <string.h>

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
/* Fields that are data, whatever they consist of: parts of schemas, and variables of templates. */
static const char *const data[] = {"const", "enum", "default", "examples", "chat_template_kwargs", NULL};
/* Fields of a line, not of what is in it, that are only given back. */
static const char *const given_back[] = {"id", "custom_id", NULL};
/* Fields that are data if they are objects: arguments of calls. */
static const char *const data_objects[] = {"arguments", "parsed_arguments", "input", NULL};

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0) names++;
    return *names != NULL;
}

/* `name`: of the field that the value is in. `used`: bytes of `where` before it. */
static bool search(const json_t *json, const char *name, char where[JSON_NUL_WHERE], size_t used)
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
        if (search(value, name, where, used + (size_t)n)) return true;
    }
    json_object_foreach((json_t *)(size_t)json, key, value)
    {
        if (used == 0 && is_among(key, given_back)) continue;
        if (is_among(key, data) || (json_is_object(value) && is_among(key, data_objects))) continue;
        int n = snprintf(where + used, JSON_NUL_WHERE - used, "%s%s", used > 0 ? "." : "", key);
        if (search(value, key, where, used + (size_t)n)) return true;
    }
    return false;
}

bool json_has_nul(const json_t *json, char where[JSON_NUL_WHERE])
{
    where[0] = '\0';
    return search(json, "", where, 0);
}
