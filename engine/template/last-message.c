/* last-message.c: a conversation that ends within its last message, which a model then goes on with. */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "common/json-read.h"
#include "template/output.h"
#include "template/template.h"

static bool is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Where the text was last written as the user's; NULL: nowhere. */
static const char *find_last(const struct template_output *output, const char *text, size_t length)
{
    for (size_t at = output->length + 1; at-- > 0;)
        if (length <= output->length - at && memcmp(output->text + at, text, length) == 0 &&
            !memchr(output->marks + at, 0, length))
            return output->text + at;
    return NULL;
}

/* Ends the output after the text. Spaces around it may have been left out. */
static int end_after(struct template_output *output, const char *text, size_t length)
{
    while (length > 0 && is_space(*text)) text++, length--;
    size_t trimmed = length;
    while (trimmed > 0 && is_space(text[trimmed - 1])) trimmed--;
    if (trimmed == 0)
        return error_raise(ENGINE_ERROR_DATA,
                           "messages: the last one is empty: there is nothing to go on with");
    const char *found = find_last(output, text, trimmed);
    if (!found)
        return error_raise(
            ENGINE_ERROR_DATA,
            "messages: the template does not write the last one as it is, so it cannot be gone on "
            "with");
    size_t at = (size_t)(found - output->text);
    bool kept = length <= output->length - at && memcmp(found, text, length) == 0;
    output->length = at + (kept ? length : trimmed);
    output->text[output->length] = '\0';
    return ENGINE_OK;
}

int template_output_end_in_last(struct template_output *output, struct engine_string messages)
{
    json_t *all = json_read(messages.data, messages.length, JSON_ALLOW_NUL, NULL);
    const json_t *last = json_array_get(all, json_array_size(all) - 1),
                 *content = json_object_get(last, "content");
    const char *role = json_string_value(json_object_get(last, "role"));
    int status;
    if (!role || strcmp(role, "assistant") != 0 || !json_is_string(content))
        status = error_raise(
            ENGINE_ERROR_DATA,
            "messages: only a text of the assistant can be gone on with, and the last one is none");
    else
        status = end_after(output, json_string_value(content), json_string_length(content));
    json_decref(all);
    return status;
}
