/* info.c: `engine info`: a model file's metadata and tensors. Values are read into JSON once, for both kinds
 * of output. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "common/memory-stream.h"
#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"

#define JSON_ELEMENTS  100 /* of an array, unless all are requested */
#define SHOWN_ELEMENTS 16
#define SHOWN_BYTES    60

/* ---- Metadata ---- */

/* Element `index` of an array, or, with SIZE_MAX, a scalar. json_null for a number that JSON can't hold;
 * NULL: no memory. */
static json_t *read_element(const struct engine_metadata *m, const char *key, const char *type, size_t index)
{
    bool is_array = index != SIZE_MAX;
    int status;
    if (strcmp(type, "str") == 0) {
        struct engine_string text = {"", 0};
        status = is_array ? m->get_strings(m->context, key, index, 1, &text)
                          : m->get_string(m->context, key, &text);
        return status == ENGINE_OK ? json_text(text.data, text.length) : json_null();
    }
    if (type[0] == 'f') {
        double number = 0;
        float element = 0;
        status = is_array ? m->get_floats(m->context, key, index, 1, &element)
                          : m->get_float(m->context, key, &number);
        json_t *real = status == ENGINE_OK ? json_real(is_array ? (double)element : number) : NULL;
        return real ? real : json_null(); /* no JSON for infinity and NaN */
    }
    int64_t integer = 0;
    int boolean = 0;
    if (is_array) {
        status = m->get_integers(m->context, key, index, 1, &integer);
    } else if (strcmp(type, "bool") == 0) {
        status = m->get_boolean(m->context, key, &boolean);
        integer = boolean;
    } else {
        status = m->get_integer(m->context, key, &integer);
    }
    if (status != ENGINE_OK) return json_null();
    return strcmp(type, "bool") == 0 ? json_boolean(integer) : json_integer(integer);
}

/* A value; of an array, the first `limit` elements. NULL: no memory. */
static json_t *read_value(const struct engine_metadata *metadata, const struct engine_metadata_entry *entry,
                          size_t limit)
{
    if (strncmp(entry->type, "arr[", 4) != 0)
        return read_element(metadata, entry->key, entry->type, SIZE_MAX);
    char type[8] = "";
    sscanf(entry->type, "arr[%7[a-z0-9]]", type);
    json_t *array = json_array();
    for (size_t i = 0; i < entry->count && i < limit; i++) {
        if (json_array_append_new(array, read_element(metadata, entry->key, type, i)) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

/* ---- For programs ---- */

static json_t *describe_metadata(const struct engine_model *model, size_t limit)
{
    const struct engine_metadata *metadata = engine_model_metadata(model);
    json_t *all = json_object();
    for (size_t i = 0; i < engine_model_metadata_count(model); i++) {
        struct engine_metadata_entry entry;
        engine_model_metadata_at(model, i, &entry);
        json_t *key = json_line(entry.key);
        json_t *item = json_pack("{s:s, s:o, s:o}", "type", entry.type, "count", json_count(entry.count),
                                 "value", read_value(metadata, &entry, limit));
        int failed = json_object_set_new(all, json_string_value(key), item);
        json_decref(key);
        if (failed) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *describe_tensors(const struct engine_model *model)
{
    json_t *all = json_array();
    for (size_t i = 0; i < engine_model_tensor_count(model); i++) {
        struct engine_model_tensor tensor;
        engine_model_tensor_at(model, i, &tensor);
        json_t *shape = json_array();
        for (uint32_t d = 0; d < tensor.n_dims; d++) json_array_append_new(shape, json_count(tensor.ne[d]));
        json_t *item = json_pack("{s:o, s:s, s:o, s:o}", "name", json_line(tensor.name), "type",
                                 tensor.type_name, "shape", shape, "bytes", json_count(tensor.size));
        if (json_array_append_new(all, item) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

/* The bytes of all tensors. */
static uint64_t total_size(const struct engine_model *model)
{
    uint64_t total = 0;
    for (size_t i = 0; i < engine_model_tensor_count(model); i++) {
        struct engine_model_tensor tensor;
        engine_model_tensor_at(model, i, &tensor);
        total += tensor.size; /* tensors don't overlap in the file, so this fits */
    }
    return total;
}

static int print_json(const struct engine_model *model, const char *path, size_t limit)
{
    struct engine_model_info info = {.struct_size = sizeof info};
    engine_model_get_info(model, &info);
    json_t *totals =
        json_pack("{s:o, s:o, s:o}", "tensors", json_count(engine_model_tensor_count(model)), "parameters",
                  json_count(info.n_parameters), "bytes", json_count(total_size(model)));
    return json_print(json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "file", json_line(path), "format",
                                info.format, "file_size", json_count(info.file_size), "architecture",
                                json_line(info.architecture), "name", json_line(info.name), "metadata",
                                describe_metadata(model, limit), "tensors", describe_tensors(model), "totals",
                                totals));
}

/* ---- For people ---- */

/* A text with what a terminal would hide or obey as escapes; NULL: no memory. The caller frees it. */
static char *shown_text(const json_t *value)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    quoted_print_line((struct engine_string){json_string_value(value), json_string_length(value)}, out);
    memory_stream_end(out, &text);
    return text;
}

/* A value on one line, cut to SHOWN_BYTES between two characters; `more`: the array had more elements. */
static void add_value(struct table *table, const json_t *value, bool more)
{
    char *text = json_is_string(value) ? shown_text(value)
                                       : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(7));
    if (!text) table->is_lost = true;
    size_t length = text ? strlen(text) : 0, shown = length;
    const char *end = "";
    if (length > SHOWN_BYTES) {
        end = "…";
        shown = SHOWN_BYTES;
        while (shown > 0 && ((unsigned char)text[shown] & 0xc0) == 0x80) shown--;
    } else if (more && length > 0) {
        end = ", …";
        shown--; /* the closing bracket */
    }
    table_add(table, "%.*s%s", (int)shown, text ? text : "", end);
    free(text);
}

static int print_metadata(const struct engine_model *model)
{
    struct table table = {.n_columns = 4, .alignment = "llrl"};
    table_add(&table, "METADATA");
    table_add(&table, "TYPE");
    table_add(&table, "COUNT");
    table_add(&table, "VALUE");
    for (size_t i = 0; i < engine_model_metadata_count(model); i++) {
        struct engine_metadata_entry entry;
        engine_model_metadata_at(model, i, &entry);
        json_t *value = read_value(engine_model_metadata(model), &entry, SHOWN_ELEMENTS);
        table_add(&table, "%s", entry.key);
        table_add(&table, "%s", entry.type);
        if (json_is_array(value))
            table_add(&table, "%zu", entry.count);
        else
            table_add(&table, "%s", "");
        add_value(&table, value, json_is_array(value) && entry.count > SHOWN_ELEMENTS);
        json_decref(value);
    }
    return table_print(&table, "no metadata", stdout);
}

static int print_tensors(const struct engine_model *model)
{
    struct table table = {.n_columns = 4, .alignment = "llrr"};
    table_add(&table, "TENSOR");
    table_add(&table, "TYPE");
    table_add(&table, "SHAPE");
    table_add(&table, "BYTES");
    for (size_t i = 0; i < engine_model_tensor_count(model); i++) {
        struct engine_model_tensor tensor;
        char shape[96] = "";
        engine_model_tensor_at(model, i, &tensor);
        for (uint32_t d = 0; d < tensor.n_dims; d++) {
            size_t used = strlen(shape);
            snprintf(shape + used, sizeof shape - used, "%s%" PRIu64, d ? " x " : "", tensor.ne[d]);
        }
        table_add(&table, "%s", tensor.name);
        table_add(&table, "%s", tensor.type_name);
        table_add(&table, "%s", shape);
        table_add(&table, "%" PRIu64, tensor.size);
    }
    return table_print(&table, "no tensors", stdout);
}

static int print_tables(const struct engine_model *model)
{
    struct engine_model_info info = {.struct_size = sizeof info};
    engine_model_get_info(model, &info);
    printf("%s, %s\n\n", info.format, size_text(info.file_size).text);
    int status = print_metadata(model);
    putchar('\n');
    if (status == 0) status = print_tensors(model);
    printf("\n%zu tensors, %" PRIu64 " parameters, %" PRIu64 " bytes (%s)\n",
           engine_model_tensor_count(model), info.n_parameters, total_size(model),
           size_text(total_size(model)).text);
    return status;
}

int command_info(const struct arguments *arguments)
{
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    struct arguments of_model = *arguments; /* MODEL stands for -m */
    int status;
    if (arguments->words.count > 0) of_model.model = arguments->words.items[0];
    if (open_engine(arguments, &engine) != ENGINE_OK || open_model(&of_model, engine, &model) != ENGINE_OK) {
        status = command_fail();
        goto cleanup;
    }
    if (arguments->json)
        status = print_json(model, path_of_model(&of_model, engine),
                            arguments->verbose ? SIZE_MAX : JSON_ELEMENTS);
    else
        status = print_tables(model);

cleanup:
    engine_model_close(model);
    engine_close(engine);
    return status;
}
