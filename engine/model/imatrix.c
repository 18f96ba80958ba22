/* imatrix.c: see imatrix.h. The formats, as llama-imatrix 0.7.0 writes them (--output-format):
 *
 *   gguf  Tensors in F32: NAME.in_sum2 [columns, experts], the sums of the squares, and NAME.counts
 *         [1, experts], the tokens of these sums. Other tensors are ignored. Metadata: imatrix.datasets, the
 *         names of texts; imatrix.chunk_count, their windows.
 *   dat   int32 entries; for each: int32 length and bytes of its name, int32 calls, int32 n, float32 [n]
 *         means times calls. Then, missing in old files: int32 windows, int32 length and bytes of the text's
 *         name. */
#include "model/imatrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "model/file.h"
#include "model/metadata.h"
#include "model/types.h"

#define MAX_NAME 1023 /* bytes */

struct imatrix {
    struct imatrix_entry *entries; /* [n_entries], room for [capacity] */
    size_t n_entries, capacity;
    struct names names;
    char *dataset; /* NULL: unknown */
    uint32_t n_chunks;
};

static int add_entry(struct imatrix *imatrix, const char *name, size_t length, uint64_t n)
{
    if (!ARRAY_RESERVE(imatrix->entries, imatrix->capacity, imatrix->n_entries + 1))
        return error_memory("importance matrix");
    struct imatrix_entry *entry = &imatrix->entries[imatrix->n_entries];
    *entry = (struct imatrix_entry){.name = strndup(name, length), .means = calloc(n, sizeof(float)), .n = n};
    imatrix->n_entries++;
    return entry->name && entry->means ? ENGINE_OK : error_memory("importance matrix");
}

/* ---- GGUF ---- */

static const char sums_suffix[] = ".in_sum2", counts_suffix[] = ".counts";

/* The name of the matrix that a tensor has the sums of, or NULL. */
static const char *sums_of(const struct model_tensor *tensor, size_t *length)
{
    size_t all = strlen(tensor->name), suffix = sizeof sums_suffix - 1;
    if (all <= suffix || all - suffix > MAX_NAME || strcmp(tensor->name + all - suffix, sums_suffix) != 0)
        return NULL;
    *length = all - suffix;
    return tensor->name;
}

static const struct model_tensor *counts_of(const struct model *file, const char *name, size_t length)
{
    char text[MAX_NAME + sizeof counts_suffix];
    memcpy(text, name, length);
    memcpy(text + length, counts_suffix, sizeof counts_suffix);
    return model_tensor_find(file, text);
}

static int add_sums(struct imatrix *imatrix, const struct model *file, const struct model_tensor *sums,
                    size_t length)
{
    const struct model_tensor *counts = counts_of(file, sums->name, length);
    uint64_t n_columns = sums->ne[0], n_experts = sums->ne[1];
    if (!counts || sums->size == 0 || sums->type != ENGINE_TYPE_F32 || counts->type != ENGINE_TYPE_F32 ||
        sums->n_dims > 2 || counts->n_dims > 2 || counts->ne[0] * counts->ne[1] != n_experts)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s lacks counts that fit, or is not F32", model_path(file),
                           sums->name);
    int status = add_entry(imatrix, sums->name, length, n_columns * n_experts);
    if (status) return status;
    struct imatrix_entry *entry = &imatrix->entries[imatrix->n_entries - 1];
    float *means = entry->means;
    entry->counts = malloc((size_t)n_experts * sizeof *entry->counts);
    if (!entry->counts) return error_memory("importance matrix");
    entry->n_counts = n_experts;
    memcpy(entry->counts, counts->data, (size_t)n_experts * sizeof *entry->counts);
    memcpy(means, sums->data, (size_t)sums->size);
    for (uint64_t e = 0; e < n_experts; e++) {
        float count = entry->counts[e];
        for (uint64_t i = e * n_columns; i < (e + 1) * n_columns; i++)
            means[i] = count == 0 ? 0 : means[i] / count;
    }
    return ENGINE_OK;
}

/* What the metadata say of the text. A key of another kind is as good as none. */
static int read_origin(const struct metadata *metadata, struct imatrix *imatrix)
{
    const struct metadata_entry *datasets = metadata_find(metadata, "imatrix.datasets");
    int64_t n_chunks;
    if (metadata_integer(metadata, "imatrix.chunk_count", &n_chunks) && n_chunks > 0 &&
        n_chunks <= UINT32_MAX)
        imatrix->n_chunks = (uint32_t)n_chunks;
    if (!datasets || datasets->type != METADATA_STRING || datasets->count == 0) return ENGINE_OK;
    const struct engine_string *first = datasets->values;
    imatrix->dataset = strndup(first->data, first->length);
    return imatrix->dataset ? ENGINE_OK : error_memory("importance matrix");
}

static int read_gguf(const char *path, struct imatrix *imatrix)
{
    struct model *file;
    int status = model_open(path, NULL, &file);
    if (status) return status;
    status = read_origin(model_metadata(file), imatrix);
    for (size_t i = 0; i < model_tensor_count(file) && !status; i++) {
        const struct model_tensor *tensor = model_tensor_at(file, i);
        size_t length;
        if (sums_of(tensor, &length)) status = add_sums(imatrix, file, tensor, length);
    }
    model_close(file);
    return status;
}

/* ---- The older format ---- */

struct reader {
    const char *path;
    const uint8_t *at, *end;
};

static bool take_bytes(struct reader *reader, uint64_t size, const uint8_t **bytes)
{
    if ((uint64_t)(reader->end - reader->at) < size) return false;
    *bytes = reader->at;
    reader->at += size;
    return true;
}

static bool take_count(struct reader *reader, int32_t least, int32_t *count)
{
    const uint8_t *bytes;
    if (!take_bytes(reader, sizeof *count, &bytes)) return false;
    memcpy(count, bytes, sizeof *count);
    return *count >= least;
}

/* Whether bytes can be a tensor's name: ASCII, without spaces. */
static bool is_name(const uint8_t *bytes, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (bytes[i] < '!' || bytes[i] > '~') return false;
    return n <= MAX_NAME;
}

static int imatrix_damaged(const struct reader *reader, int32_t entry)
{
    return error_raise(ENGINE_ERROR_DATA, "%s: no importance matrix of llama-imatrix, or damaged at entry %d",
                       reader->path, entry + 1);
}

static int read_entry(struct reader *reader, int32_t number, struct imatrix *imatrix)
{
    int32_t length, calls, n;
    const uint8_t *name, *values;
    if (!take_count(reader, 1, &length) || !take_bytes(reader, (uint64_t)length, &name) ||
        !is_name(name, length) || !take_count(reader, 0, &calls) || !take_count(reader, 1, &n) ||
        !take_bytes(reader, (uint64_t)n * sizeof(float), &values))
        return imatrix_damaged(reader, number);
    int status = add_entry(imatrix, (const char *)name, (size_t)length, (uint64_t)n);
    if (status) return status;
    float *means = imatrix->entries[imatrix->n_entries - 1].means;
    memcpy(means, values, (size_t)n * sizeof *means);
    for (int32_t i = 0; i < n && calls > 0; i++) means[i] /= (float)calls;
    return ENGINE_OK;
}

static int read_old(struct reader *reader, struct imatrix *imatrix)
{
    int32_t n_entries;
    if (!take_count(reader, 1, &n_entries))
        return error_raise(ENGINE_ERROR_DATA, "%s: no importance matrix of llama-imatrix", reader->path);
    int status = ENGINE_OK;
    for (int32_t e = 0; e < n_entries && !status; e++) status = read_entry(reader, e, imatrix);
    int32_t n_chunks, length;
    const uint8_t *dataset;
    if (status || !take_count(reader, 0, &n_chunks)) return status;
    imatrix->n_chunks = (uint32_t)n_chunks;
    if (!take_count(reader, 1, &length) || !take_bytes(reader, (uint64_t)length, &dataset)) return ENGINE_OK;
    imatrix->dataset = strndup((const char *)dataset, (size_t)length);
    return imatrix->dataset ? ENGINE_OK : error_memory("importance matrix");
}

/* ---- Both ---- */

static int check_entries(const char *path, struct imatrix *imatrix)
{
    if (imatrix->n_entries == 0)
        return error_raise(ENGINE_ERROR_DATA, "%s: no importance matrix: no tensor's name ends with %s", path,
                           sums_suffix);
    int status = names_create(&imatrix->names, imatrix->n_entries);
    if (status) return status;
    for (size_t e = 0; e < imatrix->n_entries; e++) {
        const struct imatrix_entry *entry = &imatrix->entries[e];
        for (uint64_t i = 0; i < entry->n; i++)
            if (!(entry->means[i] >= 0) || isinf(entry->means[i]))
                return error_raise(
                    ENGINE_ERROR_DATA,
                    "%s: %s has values that are not means of squares (not finite, or negative)", path,
                    entry->name);
        names_add(&imatrix->names, entry->name, e);
    }
    const char *twice = names_sort(&imatrix->names);
    return twice ? error_raise(ENGINE_ERROR_DATA, "%s: %s is there twice", path, twice) : ENGINE_OK;
}

int imatrix_open(const char *path, struct imatrix **imatrix)
{
    struct reader reader = {.path = path};
    const uint8_t *data;
    uint64_t size;
    *imatrix = NULL;
    int status = model_map_file(path, &data, &size);
    if (status) return status;
    struct imatrix *opened = calloc(1, sizeof *opened);
    reader.at = data;
    reader.end = data ? data + size : NULL;
    if (!opened)
        status = error_memory("importance matrix");
    else if (size >= 4 && memcmp(data, "GGUF", 4) == 0)
        status = read_gguf(path, opened);
    else
        status = read_old(&reader, opened);
    model_unmap_file(data, size);
    if (!status) status = check_entries(path, opened);
    if (status) {
        imatrix_close(opened);
        return status;
    }
    *imatrix = opened;
    return ENGINE_OK;
}

void imatrix_close(struct imatrix *imatrix)
{
    if (!imatrix) return;
    for (size_t e = 0; e < imatrix->n_entries; e++) {
        free((char *)(uintptr_t)imatrix->entries[e].name);
        free(imatrix->entries[e].means);
        free(imatrix->entries[e].counts);
    }
    free(imatrix->dataset);
    free(imatrix->entries);
    names_destroy(&imatrix->names);
    free(imatrix);
}

bool imatrix_text(const struct imatrix *imatrix, const char **dataset)
{
    *dataset = imatrix->dataset ? imatrix->dataset : "";
    return imatrix->dataset != NULL;
}

bool imatrix_chunks(const struct imatrix *imatrix, uint32_t *n_chunks)
{
    *n_chunks = imatrix->n_chunks;
    return imatrix->n_chunks > 0;
}

size_t imatrix_count(const struct imatrix *imatrix)
{
    return imatrix->n_entries;
}

const struct imatrix_entry *imatrix_at(const struct imatrix *imatrix, size_t index)
{
    return &imatrix->entries[index];
}

const struct imatrix_entry *imatrix_find(const struct imatrix *imatrix, const char *name)
{
    size_t position;
    return names_find(&imatrix->names, name, &position) ? &imatrix->entries[position] : NULL;
}
