/* json.c: see json.h. Jansson limits the depth, to 2048. */
#include "model/hf/json.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/json-read.h"
#include "model/file.h"

int hf_json_hide_infinity(const char *text, size_t length, char **copy)
{
    static const char word[] = "Infinity";
    const size_t size = strlen(word);
    bool is_string = false;
    *copy = NULL;
    if (length < size || !memmem(text, length, word, size)) return ENGINE_OK;
    *copy = malloc(length);
    if (!*copy) return error_memory("JSON");
    memcpy(*copy, text, length);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\' && is_string)
            i++;
        else if (text[i] == '"')
            is_string = !is_string;
        else if (!is_string && length - i >= size && memcmp(text + i, word, size) == 0) {
            if (i > 0 && text[i - 1] == '-') (*copy)[i - 1] = ' ';
            memcpy(*copy + i, "null    ", size);
        }
    }
    return ENGINE_OK;
}

static int read_file(const char *path, uint64_t limit, bool is_array, json_t **json)
{
    const uint8_t *data = NULL;
    uint64_t size = 0;
    json_error_t error;
    *json = NULL;
    int status = model_map_file(path, &data, &size);
    if (status) return status;
    if (size > limit) {
        status = error_raise(ENGINE_ERROR_DATA, "%s has %" PRIu64 " bytes; at most %" PRIu64 " are read",
                             path, size, limit);
    } else {
        const char *text = (const char *)data;
        size_t length = (size_t)size;
        char *copy = NULL;
        status = text_begin(path, &text, &length);
        if (!status) status = hf_json_hide_infinity(text, length, &copy);
        if (copy) text = copy;
        *json = !status && length > 0 ? json_read(text, length, JSON_REJECT_DUPLICATES, &error) : NULL;
        free(copy);
        if (status)
            *json = NULL;
        else if (!*json)
            status = error_raise(ENGINE_ERROR_DATA, "%s is not valid JSON: %s", path,
                                 length > 0 ? error.text : "it is empty");
        else if (is_array ? !json_is_array(*json) : !json_is_object(*json))
            status =
                error_raise(ENGINE_ERROR_DATA, "%s is not a JSON %s", path, is_array ? "array" : "object");
    }
    model_unmap_file(data, size);
    if (!status) return ENGINE_OK;
    json_decref(*json);
    *json = NULL;
    return status;
}

int hf_json_read(const char *path, uint64_t limit, json_t **json)
{
    return read_file(path, limit, false, json);
}

int hf_json_read_array(const char *path, uint64_t limit, json_t **json)
{
    return read_file(path, limit, true, json);
}
