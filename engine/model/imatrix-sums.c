/* imatrix-sums.c: see imatrix-sums.h. */
#include "model/imatrix-sums.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "common/array.h"
#include "engine.h"
#include "model/gguf-write.h"
#include "model/metadata.h"
#include "model/types.h"

/* A matrix, or those of all heads or experts. Experts are counted separately; heads all see each token. */
struct sum {
    char *name;
    uint64_t n_columns, n_matrices;
    double *squares;  /* [n_columns, n_matrices] */
    uint64_t *counts; /* [n_counts] tokens */
    uint64_t n_counts;
};

struct imatrix_sums {
    struct sum *items; /* [n], sorted by name */
    size_t n, capacity;
    uint64_t n_chunks; /* of the files read */
    char **datasets;   /* [n_datasets], theirs */
    size_t n_datasets;
};

int imatrix_sums_create(struct imatrix_sums **sums)
{
    *sums = calloc(1, sizeof **sums);
    return *sums ? ENGINE_OK : error_memory("importance matrix");
}

void imatrix_sums_destroy(struct imatrix_sums *sums)
{
    if (!sums) return;
    for (size_t i = 0; i < sums->n; i++) {
        free(sums->items[i].name);
        free(sums->items[i].squares);
        free(sums->items[i].counts);
    }
    for (size_t i = 0; i < sums->n_datasets; i++) free(sums->datasets[i]);
    free(sums->datasets);
    free(sums->items);
    free(sums);
}

/* ---- Adding -------------------------------------------------------------------------------------------- */

/* Where a name is, or belongs. */
static size_t place_of(const struct imatrix_sums *sums, const char *name)
{
    size_t low = 0, high = sums->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(sums->items[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int sums_insert(struct imatrix_sums *sums, size_t place, const struct sum *shape)
{
    uint64_t n_values;
    if (checked_mul(shape->n_columns, shape->n_matrices, &n_values) || n_values > SIZE_MAX / sizeof(double))
        return error_memory("importance matrix");
    if (!ARRAY_RESERVE(sums->items, sums->capacity, sums->n + 1)) return error_memory("importance matrix");
    struct sum made = *shape;
    made.name = strdup(shape->name);
    made.squares = calloc((size_t)n_values, sizeof *made.squares);
    made.counts = calloc((size_t)made.n_counts, sizeof *made.counts);
    if (!made.name || !made.squares || !made.counts) {
        free(made.name);
        free(made.squares);
        free(made.counts);
        return error_memory("importance matrix");
    }
    memmove(&sums->items[place + 1], &sums->items[place], (sums->n - place) * sizeof *sums->items);
    sums->items[place] = made;
    sums->n++;
    return ENGINE_OK;
}

/* The sums of a matrix of this name and shape. */
static int sums_find(struct imatrix_sums *sums, const struct sum *shape, struct sum **found)
{
    size_t place = place_of(sums, shape->name);
    if (place == sums->n || strcmp(sums->items[place].name, shape->name) != 0) {
        int status = sums_insert(sums, place, shape);
        if (status) return status;
    }
    struct sum *sum = *found = &sums->items[place];
    /* A file has the columns of all heads in one row. */
    if (sum->n_columns * sum->n_matrices == shape->n_columns * shape->n_matrices &&
        sum->n_counts == shape->n_counts)
        return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA,
                       "importance matrix: %s has %" PRIu64 " columns times %" PRIu64
                       " matrices, here %" PRIu64 " times %" PRIu64 ": sums of another model",
                       shape->name, sum->n_columns, sum->n_matrices, shape->n_columns, shape->n_matrices);
}

/* Adds the squares of a row; returns whether their sum is finite. */
static bool add_row(double *squares, const float *row, uint64_t n)
{
    double total = 0;
    for (uint64_t i = 0; i < n; i++) {
        double square = (double)row[i] * (double)row[i];
        squares[i] += square;
        total += square;
    }
    return isfinite(total) != 0;
}

static bool add_token(struct sum *sum, const struct imatrix_input *input, uint64_t t)
{
    uint64_t n = input->n_columns, n_rows = input->n_rows;
    const float *rows = input->rows + t * n_rows * n;
    bool finite = true;
    for (uint64_t r = 0; r < n_rows && !input->experts; r++)
        finite &= add_row(sum->squares + r * n, rows + r * n, n);
    for (uint64_t u = 0; u < input->n_used && input->experts; u++) {
        uint64_t expert = (uint64_t)input->experts[t * input->n_used + u];
        if (expert >= input->n_matrices) return false;
        finite &= add_row(sum->squares + expert * n, rows + (n_rows > 1 ? u * n : 0), n);
        sum->counts[expert]++;
    }
    if (!input->experts) sum->counts[0]++;
    return finite;
}

int imatrix_sums_add(struct imatrix_sums *sums, const struct imatrix_input *input)
{
    const struct sum shape = {.name = (char *)(uintptr_t)input->name,
                              .n_columns = input->n_columns,
                              .n_matrices = input->n_matrices,
                              .n_counts = input->experts ? input->n_matrices : 1};
    uint64_t rows_wanted = input->experts ? input->n_used : input->n_matrices;
    struct sum *sum;
    if (input->n_rows != rows_wanted && !(input->experts && input->n_rows == 1))
        return error_raise(ENGINE_ERROR_ARGUMENT, "%s: %" PRIu64 " rows of a token for %" PRIu64 " matrices",
                           input->name, input->n_rows, rows_wanted);
    int status = sums_find(sums, &shape, &sum);
    for (uint64_t t = 0; t < input->n_tokens && !status; t++)
        if (!add_token(sum, input, t))
            status = error_raise(ENGINE_ERROR_DATA,
                                 "the model computed values that are not finite: inputs of %s", input->name);
    return status;
}

/* ---- Files --------------------------------------------------------------------------------------------- */

static int add_dataset(struct imatrix_sums *sums, const char *name)
{
    if (!ARRAY_GROW(sums->datasets, sums->n_datasets)) return error_memory("importance matrix");
    char *copy = strdup(name);
    if (copy) sums->datasets[sums->n_datasets++] = copy;
    return copy ? ENGINE_OK : error_memory("importance matrix");
}

static int merge_entry(struct imatrix_sums *sums, const char *path, const struct imatrix_entry *entry)
{
    struct sum *sum;
    if (entry->n_counts == 0)
        return error_raise(
            ENGINE_ERROR_DATA,
            "%s: the older format doesn't say how many tokens there were; only importance matrices "
            "in GGUF can go on",
            path);
    uint64_t n_columns = entry->n / entry->n_counts;
    const struct sum shape = {.name = (char *)(uintptr_t)entry->name,
                              .n_columns = n_columns,
                              .n_matrices = entry->n_counts,
                              .n_counts = entry->n_counts};
    for (uint64_t c = 0; c < entry->n_counts; c++)
        if (!(entry->counts[c] >= 0 && entry->counts[c] < 1e15f))
            return error_raise(ENGINE_ERROR_DATA, "%s: %s has counts that are not numbers of tokens", path,
                               entry->name);
    int status = sums_find(sums, &shape, &sum);
    if (status) return error_wrap(status, "%s", path);
    for (uint64_t i = 0; i < entry->n; i++)
        sum->squares[i] += (double)entry->means[i] * (double)entry->counts[i / n_columns];
    for (uint64_t c = 0; c < entry->n_counts; c++) sum->counts[c] += (uint64_t)entry->counts[c];
    return ENGINE_OK;
}

int imatrix_sums_merge(struct imatrix_sums *sums, const char *path)
{
    struct imatrix *imatrix;
    const char *dataset;
    uint32_t n_chunks;
    int status = imatrix_open(path, &imatrix);
    if (status) return status;
    for (size_t i = 0; i < imatrix_count(imatrix) && !status; i++)
        status = merge_entry(sums, path, imatrix_at(imatrix, i));
    if (!status && imatrix_chunks(imatrix, &n_chunks)) sums->n_chunks += n_chunks;
    if (!status && imatrix_text(imatrix, &dataset)) status = add_dataset(sums, dataset);
    imatrix_close(imatrix);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------------------- */

static uint64_t tokens_of(const struct sum *sum)
{
    uint64_t tokens = 0;
    for (uint64_t c = 0; c < sum->n_counts; c++) tokens += sum->counts[c];
    return tokens;
}

static int add_datasets(const struct imatrix_sums *sums, const char *own, struct metadata *metadata)
{
    size_t n = sums->n_datasets + (own ? 1 : 0);
    struct engine_string *names = metadata_allocate(metadata, (n + 1) * sizeof *names);
    if (!names) return error_memory("metadata");
    for (size_t i = 0; i < n; i++) {
        const char *name = i < sums->n_datasets ? sums->datasets[i] : own;
        names[i] = (struct engine_string){name, strlen(name)};
    }
    return metadata_add(metadata, &(struct metadata_entry){.key = "imatrix.datasets",
                                                           .type = METADATA_STRING,
                                                           .is_array = true,
                                                           .count = n,
                                                           .values = names});
}

static int make_metadata(const struct imatrix_sums *sums, const struct imatrix_origin *origin,
                         struct metadata *metadata)
{
    uint64_t n_chunks = sums->n_chunks + origin->n_chunks;
    int status = metadata_add_string(metadata, "general.type", "imatrix");
    if (!status) status = add_datasets(sums, origin->dataset, metadata);
    if (!status)
        status = metadata_add_u32(metadata, "imatrix.chunk_count",
                                  n_chunks < UINT32_MAX ? (uint32_t)n_chunks : UINT32_MAX);
    if (!status) status = metadata_add_u32(metadata, "imatrix.chunk_size", origin->chunk_size);
    return status ? status : metadata_finish(metadata);
}

/* A tensor of the file with its name, from `name` and the suffix. */
static int list(struct metadata *metadata, struct gguf_tensor *tensor, const char *name, const char *suffix,
                uint64_t n_columns, uint64_t n_rows)
{
    size_t size = strlen(name) + strlen(suffix) + 1;
    char *full = metadata_allocate(metadata, size);
    if (!full) return error_memory("importance matrix");
    snprintf(full, size, "%s%s", name, suffix);
    *tensor = (struct gguf_tensor){.name = full,
                                   .type = ENGINE_TYPE_F32,
                                   .n_dims = n_rows > 1 ? 2 : 1,
                                   .ne = {n_columns, n_rows, 1, 1},
                                   .size = n_columns * n_rows * sizeof(float)};
    return ENGINE_OK;
}

/* Appends the data of a matrix's two tensors. Unused heads don't exist, so a row has all of them. */
static void put_data(const struct sum *sum, const struct gguf_tensor pair[2], uint8_t *data)
{
    float *squares = (float *)(void *)(data + pair[0].offset),
          *counts = (float *)(void *)(data + pair[1].offset);
    for (uint64_t i = 0; i < sum->n_columns * sum->n_matrices; i++) squares[i] = (float)sum->squares[i];
    for (uint64_t c = 0; c < sum->n_counts; c++) counts[c] = (float)sum->counts[c];
}

static int make_file(const struct imatrix_sums *sums, struct metadata *metadata, struct gguf_tensor *tensors,
                     uint8_t **bytes, size_t *size)
{
    size_t n = 0, header_size;
    uint64_t alignment, start;
    uint8_t *header;
    int status = ENGINE_OK;
    for (size_t i = 0; i < sums->n && !status; i++) {
        const struct sum *sum = &sums->items[i];
        uint64_t per_count = sum->n_columns * sum->n_matrices / sum->n_counts;
        if (tokens_of(sum) == 0) continue;
        status = list(metadata, &tensors[n++], sum->name, ".in_sum2", per_count, sum->n_counts);
        if (!status) status = list(metadata, &tensors[n++], sum->name, ".counts", 1, sum->n_counts);
    }
    if (!status && n == 0)
        return error_raise(ENGINE_ERROR_ARGUMENT, "importance matrix: there are no sums to write");
    if (!status) status = gguf_header(metadata, tensors, n, &header, &header_size, &alignment);
    if (status) return status;
    start = (header_size + alignment - 1) / alignment * alignment;
    *size = (size_t)(start + tensors[n - 1].offset +
                     (tensors[n - 1].size + alignment - 1) / alignment * alignment);
    *bytes = calloc(1, *size);
    if (*bytes) memcpy(*bytes, header, header_size);
    free(header);
    if (!*bytes) return error_memory("importance matrix");
    for (size_t i = 0, t = 0; i < sums->n; i++) {
        if (tokens_of(&sums->items[i]) == 0) continue;
        put_data(&sums->items[i], &tensors[t], *bytes + start);
        t += 2;
    }
    return ENGINE_OK;
}

int imatrix_sums_write(const struct imatrix_sums *sums, const struct imatrix_origin *origin, uint8_t **bytes,
                       size_t *size)
{
    struct metadata *metadata;
    int status = metadata_create(&metadata);
    if (status) return status;
    struct gguf_tensor *tensors = calloc(2 * sums->n + 1, sizeof *tensors);
    status = tensors ? make_metadata(sums, origin, metadata) : error_memory("importance matrix");
    if (!status) status = make_file(sums, metadata, tensors, bytes, size);
    free(tensors);
    metadata_destroy(metadata);
    return status;
}

size_t imatrix_sums_count(const struct imatrix_sums *sums)
{
    return sums->n;
}

uint64_t imatrix_sums_unused(const struct imatrix_sums *sums)
{
    uint64_t n = 0;
    for (size_t i = 0; i < sums->n; i++)
        for (uint64_t c = 0; c < sums->items[i].n_counts; c++) n += sums->items[i].counts[c] == 0;
    return n;
}

/* ---- The functions of engine.h ------------------------------------------------------------------------- */

struct engine_importance {
    struct imatrix_sums *sums;
};

int engine_importance_create(struct engine_importance **out)
{
    struct engine_importance *importance = calloc(1, sizeof *importance);
    if (!importance) return error_memory("importance matrix");
    int status = imatrix_sums_create(&importance->sums);
    if (status)
        free(importance);
    else
        *out = importance;
    return status;
}

void engine_importance_destroy(struct engine_importance *importance)
{
    if (!importance) return;
    imatrix_sums_destroy(importance->sums);
    free(importance);
}

int engine_importance_add(struct engine_importance *importance, const struct engine_watched *value)
{
    struct engine_watched known;
    int status = SIZED_CHECK(value, engine_watched, n_used);
    if (status) return status;
    sized_read(&known, sizeof known, value);
    if (known.kind != ENGINE_WATCH_INPUTS || !known.weight)
        return error_raise(ENGINE_ERROR_ARGUMENT, "an importance matrix takes values of ENGINE_WATCH_INPUTS");
    const struct imatrix_input input = {
        .name = known.weight,
        .rows = known.data,
        .n_columns = known.ne[0],
        .n_rows = known.ne[1],
        .n_tokens = known.ne[2],
        .n_matrices = known.n_matrices,
        .experts = known.experts,
        .n_used = known.n_used,
    };
    return imatrix_sums_add(importance->sums, &input);
}

int engine_importance_read(struct engine_importance *importance, const char *path)
{
    return imatrix_sums_merge(importance->sums, path);
}

int engine_importance_write(const struct engine_importance *importance,
                            const struct engine_importance_text *text,
                            int (*write)(void *user, const void *data, size_t size), void *user)
{
    struct engine_importance_text known = {0};
    int status = SIZED_CHECK(text, engine_importance_text, chunk_size);
    if (status) return status;
    sized_read(&known, sizeof known, text);
    const struct imatrix_origin origin = {known.name, known.n_chunks, known.chunk_size};
    uint8_t *bytes;
    size_t size;
    status = imatrix_sums_write(importance->sums, &origin, &bytes, &size);
    if (status) return status;
    status = write(user, bytes, size);
    free(bytes);
    return status;
}

int engine_importance_get_info(const struct engine_importance *importance,
                               struct engine_importance_info *info)
{
    int status = SIZED_CHECK(info, engine_importance_info, n_unused);
    if (status) return status;
    struct engine_importance_info known = {.n_matrices = imatrix_sums_count(importance->sums),
                                           .n_unused = imatrix_sums_unused(importance->sums)};
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}
