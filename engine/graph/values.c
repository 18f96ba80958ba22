/* values.c: graphs and the lists that they grow by while they are built, and their values: weights, inputs,
 * caches, and views. See graph.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/half.h"
#include "common/array.h"
#include "common/assert.h"
#include "graph/internal.h"
#include "model/types.h"

/* ---- Graphs ------------------------------------------------------------------------------------------ */

struct graph *graph_create(const struct model *model, struct derived *derived,
                           const struct graph_shape *shape)
{
    struct graph *graph = calloc(1, sizeof *graph);
    if (!graph) {
        error_memory("graph");
        return NULL;
    }
    graph->model = model;
    graph->derived = derived;
    graph->shape = *shape;
    graph->layer = NO_LAYER;
    return graph;
}

void graph_destroy(struct graph *graph)
{
    if (!graph) return;
    for (size_t i = 0; i < graph->n_values; i++) free(graph->values[i]);
    free(graph->values);
    free(graph->nodes);
    free(graph->weights);
    free(graph->caches);
    free(graph->watches);
    free(graph);
}

void graph_fail(struct graph *graph, const char *format, ...)
{
    char message[800], layer[32] = "";
    va_list args;
    if (graph->status) return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (graph->layer != NO_LAYER) snprintf(layer, sizeof layer, " layer %u:", graph->layer);
    graph->status = error_raise(ENGINE_ERROR_DATA, "%s:%s %s", model_path(graph->model), layer, message);
}

bool graph_grow(struct graph *graph, void *array, size_t count, size_t size)
{
    if (graph->status) return false;
    if (array_grow(array, count, size)) return true;
    graph->status = error_memory("graph");
    return false;
}

/* ---- Values ------------------------------------------------------------------------------------------ */

struct value *graph_add_value(struct graph *graph, enum value_kind kind, uint32_t type, const uint64_t ne[4])
{
    if (!graph_grow(graph, &graph->values, graph->n_values, sizeof *graph->values)) return NULL;
    struct value *value = calloc(1, sizeof *value);
    const struct type_info *info = type_info(type);
    if (!value || !info) {
        free(value);
        graph->status = error_memory("graph");
        return NULL;
    }
    struct engine_tensor *tensor = &value->tensor;
    tensor->struct_size = sizeof *tensor;
    tensor->type = type;
    memcpy(tensor->ne, ne, sizeof tensor->ne);
    tensor->nb[0] = info->block_size;
    tensor->nb[1] = ne[0] / info->block_length * info->block_size;
    tensor->nb[2] = tensor->nb[1] * ne[1];
    tensor->nb[3] = tensor->nb[2] * ne[2];
    value->kind = kind;
    value->root = value;
    value->id = (uint32_t)graph->n_values;
    graph->values[graph->n_values++] = value;
    return value;
}

/* ---- Weights ------------------------------------------------------------------------------------------- */

#define FORMAT_NAME(name, format)                                                                            \
    char name[128];                                                                                          \
    va_list args;                                                                                            \
    va_start(args, format);                                                                                  \
    vsnprintf(name, sizeof name, format, args);                                                              \
    va_end(args)

struct value *graph_add_weight(struct graph *graph, const struct model_tensor *tensor)
{
    struct value *value = graph_add_value(graph, VALUE_WEIGHT, tensor->type, tensor->ne);
    if (!value || !graph_grow(graph, &graph->weights, graph->n_weights, sizeof *graph->weights)) return NULL;
    value->index = (uint32_t)graph->n_weights;
    graph->weights[graph->n_weights++] =
        (struct graph_weight){.tensor = tensor, .value = value, .layer = graph->layer, .changes = NO_WEIGHT};
    return value;
}

/* Adds a derived tensor as a weight; NULL means that making it failed. */
static struct value *add_derived(struct graph *graph, const struct model_tensor *tensor)
{
    if (!tensor) graph->status = ENGINE_ERROR_MEMORY;
    return tensor ? graph_add_weight(graph, tensor) : NULL;
}

/* The model's tensor of this name; missing ones are an error unless they are optional. */
static const struct model_tensor *find_tensor(struct graph *graph, const char *name, bool optional)
{
    if (graph->status) return NULL;
    const struct model_tensor *tensor = model_tensor_find(graph->model, name);
    if (!tensor && !optional)
        graph->status =
            error_raise(ENGINE_ERROR_DATA, "%s: the tensor %s is missing", model_path(graph->model), name);
    return tensor;
}

static bool has_shape(struct graph *graph, const struct model_tensor *tensor, const uint64_t ne[3])
{
    if (memcmp(tensor->ne, ne, 3 * sizeof *ne) == 0 && tensor->ne[3] == 1) return true;
    const uint64_t *is = tensor->ne;
    graph->status =
        error_raise(ENGINE_ERROR_DATA,
                    "%s: the tensor %s is %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
                    "; expected %" PRIu64 " x %" PRIu64 " x %" PRIu64,
                    model_path(graph->model), tensor->name, is[0], is[1], is[2], is[3], ne[0], ne[1], ne[2]);
    return false;
}

static struct value *find_weight(struct graph *graph, const uint64_t ne[3], bool optional, const char *name)
{
    const struct model_tensor *tensor = find_tensor(graph, name, optional);
    return tensor && has_shape(graph, tensor, ne) ? graph_add_weight(graph, tensor) : NULL;
}

struct value *graph_weight(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *format, ...)
{
    FORMAT_NAME(name, format);
    return find_weight(graph, (uint64_t[3]){ne0, ne1, 1}, false, name);
}

struct value *graph_weight_optional(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *format, ...)
{
    FORMAT_NAME(name, format);
    return find_weight(graph, (uint64_t[3]){ne0, ne1, 1}, true, name);
}

struct value *graph_matrices(struct graph *graph, uint64_t k, uint64_t rows, uint64_t n, const char *format,
                             ...)
{
    FORMAT_NAME(name, format);
    return find_weight(graph, (uint64_t[3]){k, rows, n}, false, name);
}

static uint64_t count_values(const struct model_tensor *tensor)
{
    uint64_t count = 1;
    for (int i = 0; i < 4; i++)
        if (checked_mul(count, tensor->ne[i], &count)) return UINT64_MAX;
    return count;
}

/* The rows of a tensor that values first ... first + n - 1 are in, which may have to be made. *skipped: how
 * many values come before the first. NULL: out of memory. */
static uint8_t *read_values(struct graph *graph, const struct model_tensor *tensor, uint64_t first,
                            uint64_t n, uint64_t *skipped)
{
    const uint64_t width = tensor->ne[0], row = first / width, end = (first + n + width - 1) / width,
                   n_rows = tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
    uint8_t *rows = malloc((size_t)((end - row) * (tensor->size / n_rows)) + 1);
    if (!rows) {
        graph->status = error_memory(tensor->name);
        return NULL;
    }
    model_tensor_read(tensor, row, end - row, rows);
    *skipped = first - row * width;
    return rows;
}

/* Copies values of a type that model files use for norms and biases; false: graph->status says why not. */
static bool copy_floats(struct graph *graph, const struct model_tensor *tensor, uint64_t first, uint64_t n,
                        float *values)
{
    if (!is_float_type(tensor->type)) {
        graph_fail(graph, "the tensor %s is %s; it must be F32, F16 or BF16", tensor->name,
                   type_info(tensor->type)->name);
        return false;
    }
    uint64_t skipped;
    uint8_t *rows = n > 0 ? read_values(graph, tensor, first, n, &skipped) : NULL;
    if (!rows) return n == 0;
    for (uint64_t i = 0; i < n; i++) values[i] = float_at(tensor->type, rows, skipped + i);
    free(rows);
    return true;
}

/* Adds ne0 x ne1 values of a tensor as a weight of float32. */
static struct value *add_values(struct graph *graph, const struct model_tensor *source, uint64_t first,
                                uint64_t ne0, uint64_t ne1, const char *name)
{
    const struct model_tensor *found = derived_find(graph->derived, name);
    float *values;
    if (found) return graph_add_weight(graph, found);
    found = derived_numbers(graph->derived, source, ne0, ne1, name, &values);
    if (found && !copy_floats(graph, source, first, ne0 * ne1, values)) return NULL;
    return add_derived(graph, found);
}

struct value *graph_values_part(struct graph *graph, const struct model_tensor *source, uint64_t first,
                                uint64_t n, const char *name)
{
    if (graph->status) return NULL;
    uint64_t count = count_values(source);
    if (first <= count && n <= count - first) return add_values(graph, source, first, n, 1, name);
    graph_fail(graph, "the tensor %s has %" PRIu64 " values, too few for %s", source->name, count, name);
    return NULL;
}

struct value *graph_values_repeated(struct graph *graph, uint64_t n, uint64_t times, const char *tensor_name)
{
    char name[160];
    const struct model_tensor *source = find_tensor(graph, tensor_name, false);
    if (!source) return NULL;
    if (count_values(source) != n) {
        graph_fail(graph, "the tensor %s has %" PRIu64 " values; expected %" PRIu64, tensor_name,
                   count_values(source), n);
        return NULL;
    }
    snprintf(name, sizeof name, "%s.repeated", tensor_name);
    const struct model_tensor *found = derived_find(graph->derived, name);
    if (found) return graph_add_weight(graph, found);
    float *values;
    found = derived_numbers(graph->derived, source, n * times, 1, name, &values);
    if (found && !copy_floats(graph, source, 0, n, values)) return NULL;
    for (uint64_t i = n * times; found && i-- > 0;) values[i] = values[i / times];
    return add_derived(graph, found);
}

/* The values of a tensor as F32 [ne0, ne1]: the tensor itself if it has that form, otherwise a copy. */
static struct value *find_values(struct graph *graph, uint64_t ne0, uint64_t ne1, bool optional,
                                 const char *name)
{
    uint64_t n;
    const struct model_tensor *tensor = find_tensor(graph, name, optional);
    if (!tensor) return NULL;
    if (checked_mul(ne0, ne1, &n) || count_values(tensor) != n) {
        graph_fail(graph, "the tensor %s has %" PRIu64 " values; expected %" PRIu64 " x %" PRIu64, name,
                   count_values(tensor), ne0, ne1);
        return NULL;
    }
    bool as_it_is = tensor->type == ENGINE_TYPE_F32 && tensor->ne[0] == ne0 && tensor->ne[1] == ne1;
    return as_it_is ? graph_add_weight(graph, tensor) : add_values(graph, tensor, 0, ne0, ne1, name);
}

struct value *graph_values(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *format, ...)
{
    FORMAT_NAME(name, format);
    return find_values(graph, ne0, ne1, false, name);
}

struct value *graph_values_optional(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *format, ...)
{
    FORMAT_NAME(name, format);
    return find_values(graph, ne0, ne1, true, name);
}

struct value *graph_values_by_index(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *tensor_name,
                                    const uint32_t *index, uint64_t n, const char *name)
{
    const struct model_tensor *source = find_tensor(graph, tensor_name, false);
    if (!source || !has_shape(graph, source, (uint64_t[3]){ne0, ne1, 1})) return NULL;
    const struct model_tensor *found = derived_find(graph->derived, name);
    if (found) return graph_add_weight(graph, found);
    float *values, *row = malloc((size_t)ne0 * sizeof *row);
    found = row ? derived_numbers(graph->derived, source, n, ne0, name, &values) : NULL;
    for (uint64_t i = 0; found && i < n; i++) {
        if (!copy_floats(graph, source, index[i] * ne0, ne0, row)) break;
        for (uint64_t r = 0; r < ne0; r++) values[r * n + i] = row[r];
    }
    free(row);
    return graph->status ? NULL : add_derived(graph, found);
}

struct value *graph_rows(struct graph *graph, const struct model_tensor *source, uint64_t first, uint64_t ne0,
                         uint64_t ne1, const char *name)
{
    if (graph->status) return NULL;
    const uint64_t *ne = source->ne;
    uint64_t n_rows;
    if (checked_mul(ne[1], ne[2], &n_rows) || ne[0] != ne0 || ne[3] != 1 || first > n_rows ||
        ne1 > n_rows - first) {
        graph_fail(graph,
                   "the tensor %s is %" PRIu64 " x %" PRIu64 " x %" PRIu64
                   ", which does not suit %s of %" PRIu64 " x %" PRIu64 " from row %" PRIu64 " on",
                   source->name, ne[0], ne[1], ne[2], name, ne0, ne1, first);
        return NULL;
    }
    const struct model_tensor *found = derived_find(graph->derived, name);
    if (found) return graph_add_weight(graph, found);
    return add_derived(graph, derived_view(graph->derived, source, first, (uint64_t[3]){ne0, ne1, 1}, name));
}

struct value *graph_table(struct graph *graph, uint64_t ne0, uint64_t ne1, uint32_t end, const char *format,
                          ...)
{
    FORMAT_NAME(name, format);
    const struct model_tensor *source = find_tensor(graph, name, false);
    if (!source || !has_shape(graph, source, (uint64_t[3]){ne0, ne1, 1})) return NULL;
    char own[160];
    snprintf(own, sizeof own, "%s.table", name);
    const struct model_tensor *found = derived_find(graph->derived, own);
    if (found) return graph_add_weight(graph, found);
    if (source->type != ENGINE_TYPE_I32) {
        graph_fail(graph, "the tensor %s is %s; it must be I32", name, type_info(source->type)->name);
        return NULL;
    }
    float *values;
    found = derived_numbers(graph->derived, source, ne0, ne1, own, &values);
    uint64_t skipped;
    uint8_t *rows = found ? read_values(graph, source, 0, ne0 * ne1, &skipped) : NULL;
    for (uint64_t i = 0; rows && i < ne0 * ne1; i++) {
        int32_t number;
        memcpy(&number, rows + i * sizeof number, sizeof number);
        values[i] = (float)number;
        if (number >= 0 && (uint32_t)number < end) continue;
        graph_fail(graph, "the tensor %s has %d; its numbers must be from 0 to %u", name, number, end - 1);
        break;
    }
    free(rows);
    return graph->status ? NULL : add_derived(graph, found);
}

struct value *graph_split_rows(struct graph *graph, const struct model_tensor *source, uint64_t k,
                               uint64_t rows, uint64_t n, const char *name)
{
    if (graph->status || !has_shape(graph, source, (uint64_t[3]){k, rows * n, 1})) return NULL;
    const struct model_tensor *found = derived_find(graph->derived, name);
    if (found) return graph_add_weight(graph, found);
    return add_derived(graph, derived_view(graph->derived, source, 0, (uint64_t[3]){k, rows, n}, name));
}

struct value *graph_stack(struct graph *graph, const struct model_tensor *const *parts, uint64_t k,
                          uint64_t rows, uint64_t n, const char *name)
{
    if (graph->status) return NULL;
    for (uint64_t i = 0; i < n; i++) {
        if (!has_shape(graph, parts[i], (uint64_t[3]){k, rows, 1})) return NULL;
        if (parts[i]->type == parts[0]->type) continue;
        graph_fail(graph, "the tensors %s and %s have different types", parts[0]->name, parts[i]->name);
        return NULL;
    }
    const struct model_tensor *found = derived_find(graph->derived, name);
    return found ? graph_add_weight(graph, found)
                 : add_derived(graph, derived_stack(graph->derived, parts, (size_t)n, name));
}

struct value *graph_numbers(struct graph *graph, uint64_t n, const char *name,
                            void (*fill)(const void *user, float *values, uint64_t n), const void *user)
{
    return graph_number_rows(graph, n, 1, name, fill, user);
}

struct value *graph_number_rows(struct graph *graph, uint64_t ne0, uint64_t ne1, const char *name,
                                void (*fill)(const void *user, float *values, uint64_t n), const void *user)
{
    if (graph->status) return NULL;
    const struct model_tensor *found = derived_find(graph->derived, name);
    float *values;
    if (!found) {
        found = derived_numbers(graph->derived, NULL, ne0, ne1, name, &values);
        if (found) fill(user, values, ne0 * ne1);
    }
    return add_derived(graph, found);
}

const struct model_tensor *graph_find(const struct graph *graph, const char *format, ...)
{
    FORMAT_NAME(name, format);
    return model_tensor_find(graph->model, name);
}

/* ---- Inputs and caches --------------------------------------------------------------------------------- */

struct value *graph_input(struct graph *graph, enum graph_input input)
{
    if (graph->inputs[input]) return graph->inputs[input];
    const struct graph_shape *shape = &graph->shape;
    uint64_t ne[4] = {shape->n_tokens, 1, 1, 1};
    if (input == INPUT_OUTPUT_ROWS) ne[0] = shape->n_outputs;
    if (input == INPUT_REACH) ne[1] = 2;
    if (input >= INPUT_POOLED_TABLE && input < INPUT_ROWS) {
        uint32_t period = graph->periods[input - INPUT_POOLED_TABLE];
        uint64_t width = shape->table_width / (period / shape->block_size);
        ne[0] = width > 0 ? width : 1;
        ne[1] = shape->n_sequences;
    }
    const bool is_float = input == INPUT_QUERY_SCALES || input == INPUT_ROWS || input == INPUT_IS_TOKEN;
    if (is_float) {
        ne[0] = input == INPUT_ROWS ? shape->row_width : 1;
        ne[1] = shape->n_tokens;
    }
    if (input == INPUT_BLOCK_TABLE || input == INPUT_WINDOW_TABLE || input == INPUT_SOURCE_TABLE) {
        ne[0] = input == INPUT_SOURCE_TABLE ? shape->source_width : shape->table_width;
        ne[1] = shape->n_sequences;
    }
    uint32_t type = is_float ? ENGINE_TYPE_F32 : ENGINE_TYPE_I32;
    struct value *value = graph_add_value(graph, VALUE_INPUT, type, ne);
    if (value) value->index = (uint32_t)input;
    return graph->inputs[input] = value;
}

static struct value *add_cache(struct graph *graph, uint64_t width, uint64_t n_heads, uint32_t type,
                               uint32_t n_blocks, const struct graph_cache *cache)
{
    const struct graph_shape *shape = &graph->shape;
    uint64_t row;
    if (graph->status) return NULL;
    if (!type_row_size(type, width, &row)) {
        graph->status =
            error_raise(ENGINE_ERROR_UNSUPPORTED,
                        "%s: heads of %" PRIu64 " values do not fit a %s cache; use --cache-type f16 or f32",
                        model_path(graph->model), width, type_info(type)->name);
        return NULL;
    }
    uint32_t period = cache->period ? graph->periods[cache->period - 1] : 1;
    uint64_t rows = period < shape->block_size ? shape->block_size / period : 1;
    uint64_t ne[4] = {width, rows, n_heads, n_blocks};
    struct value *value = graph_add_value(graph, VALUE_CACHE, type, ne);
    if (!value || !graph_grow(graph, &graph->caches, graph->n_caches, sizeof *graph->caches)) return NULL;
    value->index = (uint32_t)graph->n_caches;
    graph->caches[graph->n_caches] = *cache;
    graph->caches[graph->n_caches].value = value;
    graph->caches[graph->n_caches++].layer = graph->layer;
    return value;
}

struct value *graph_cache(struct graph *graph, uint64_t width, uint64_t n_heads, bool windowed)
{
    const struct graph_shape *shape = &graph->shape;
    const struct graph_cache cache = {.windowed = windowed && shape->n_window_blocks > 0};
    return add_cache(graph, width, n_heads, shape->cache_type,
                     cache.windowed ? shape->n_window_blocks : shape->n_blocks, &cache);
}

struct value *graph_pooled_cache(struct graph *graph, uint64_t width, uint32_t period, uint32_t number)
{
    const struct graph_shape *shape = &graph->shape;
    const struct graph_cache cache = {.period = number + 1};
    ENGINE_ASSERT(number < GRAPH_PERIODS);
    ENGINE_ASSERT(period > 0 && (shape->block_size % period == 0 || period % shape->block_size == 0));
    graph->periods[number] = period;
    return add_cache(graph, width, 1, shape->cache_type, shape->n_blocks, &cache);
}

struct value *graph_cache_of(struct graph *graph, uint32_t layer, size_t number)
{
    for (size_t i = 0; i < graph->n_caches && !graph->status; i++)
        if (graph->caches[i].layer == layer && number-- == 0) return graph->caches[i].value;
    if (!graph->status) graph_fail(graph, "reads a cache that layer %u lacks", layer);
    return NULL;
}

struct value *graph_pool_cache(struct graph *graph, uint64_t width, uint64_t n_heads, enum graph_pool pool)
{
    const struct graph_shape *shape = &graph->shape;
    const struct graph_cache cache = {.pool = pool};
    if (pool == POOL_SEQUENCES) return graph_cache(graph, width, n_heads, false);
    return add_cache(graph, width, n_heads, pool == POOL_TEXT ? ENGINE_TYPE_F32 : shape->cache_type,
                     pool == POOL_TEXT ? shape->n_text_blocks : shape->n_source_blocks, &cache);
}

struct value *graph_state(struct graph *graph, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    if (graph->status) return NULL;
    uint64_t n = graph->shape.n_states;
    uint64_t ne[4] = {ne0, ne1, ne2 > 0 ? ne2 : n, ne2 > 0 ? n : 1};
    struct value *value = graph_add_value(graph, VALUE_CACHE, ENGINE_TYPE_F32, ne);
    if (!value || !graph_grow(graph, &graph->caches, graph->n_caches, sizeof *graph->caches)) return NULL;
    value->index = (uint32_t)graph->n_caches;
    graph->caches[graph->n_caches++] =
        (struct graph_cache){.value = value, .layer = graph->layer, .is_state = true};
    return value;
}

void graph_watch(struct graph *graph, uint32_t kind, uint32_t layer, struct value *value)
{
    ENGINE_ASSERT(kind && !(kind & (kind - 1)));
    if (!value || !graph_grow(graph, &graph->watches, graph->n_watches, sizeof *graph->watches)) return;
    graph->watches[graph->n_watches++] = (struct graph_watch){value->root, kind, layer};
}

/* ---- Views --------------------------------------------------------------------------------------------- */

static struct value *add_view(struct graph *graph, const struct value *value, const uint64_t ne[4])
{
    struct value *view = graph_add_value(graph, value->kind, value->tensor.type, ne);
    if (!view) return NULL;
    ENGINE_ASSERT(value->root->root == value->root);
    view->index = value->index;
    view->root = value->root;
    view->view_offset = value->view_offset;
    return view;
}

static bool is_dense(const struct engine_tensor *tensor)
{
    const struct type_info *info = type_info(tensor->type);
    uint64_t size = tensor->ne[0] / info->block_length * info->block_size;
    for (int i = 1; i < 4; i++) {
        if (tensor->ne[i] > 1 && tensor->nb[i] != size) return false;
        size *= tensor->ne[i];
    }
    return true;
}

struct value *graph_reshape(struct graph *graph, struct value *value, uint64_t ne0, uint64_t ne1,
                            uint64_t ne2)
{
    if (!value || graph->status) return NULL;
    const struct engine_tensor *from = &value->tensor;
    uint64_t count = from->ne[0] * from->ne[1] * from->ne[2] * from->ne[3];
    bool splits = ne0 * ne1 == from->ne[0] && ne2 == from->ne[1] && from->ne[2] == 1 && from->ne[3] == 1;
    if (ne0 * ne1 * ne2 != count || (!is_dense(from) && !splits)) {
        graph_fail(graph,
                   "%" PRIu64 " x %" PRIu64 " x %" PRIu64 " values cannot be viewed as %" PRIu64 " x %" PRIu64
                   " x %" PRIu64,
                   from->ne[0], from->ne[1], from->ne[2], ne0, ne1, ne2);
        return NULL;
    }
    struct value *view = add_view(graph, value, (uint64_t[4]){ne0, ne1, ne2, 1});
    if (view && !is_dense(from)) {
        view->tensor.nb[2] = from->nb[1];
        view->tensor.nb[3] = from->nb[1] * ne2;
    }
    return view;
}

struct value *graph_slice(struct graph *graph, struct value *value, uint64_t first, uint64_t n)
{
    if (!value || graph->status) return NULL;
    const struct engine_tensor *from = &value->tensor;
    const struct type_info *info = type_info(from->type);
    bool whole_blocks = first % info->block_length == 0 && n % info->block_length == 0;
    if (n == 0 || first > from->ne[0] || n > from->ne[0] - first || !whole_blocks) {
        graph_fail(graph, "cannot take values %" PRIu64 " to %" PRIu64 " of rows of %" PRIu64 " in %s", first,
                   first + n, from->ne[0], info->name);
        return NULL;
    }
    struct value *view = add_view(graph, value, (uint64_t[4]){n, from->ne[1], from->ne[2], from->ne[3]});
    if (!view) return NULL;
    memcpy(view->tensor.nb, from->nb, sizeof from->nb);
    view->view_offset += first / info->block_length * info->block_size;
    return view;
}
