/* json.c: see json.h. Jansson limits the depth, to 2048. */
#include "model/hf/json.h"

#include <inttypes.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/text.h"
#include "common/json-read.h"
#include "model/file.h"

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
        status = text_begin(path, &text, &length);
        *json = !status && length > 0 ? json_read(text, length, JSON_REJECT_DUPLICATES, &error) : NULL;
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
