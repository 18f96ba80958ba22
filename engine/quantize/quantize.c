/* quantize.c: engine_model_quantize of engine.h: a model with its matrices in other types, as a GGUF file.
 *
 * An importance matrix may weigh errors. With inputs of mean zero that don't depend on each other, the
 * expected squared error of a row's product is the sum of the squared errors of its weights, each times
 * the mean square of its input: that is what the weights are. Only their ratios within a block matter.
 * They are limited to 10^4, so that sums in float32 keep the smaller ones. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "internal.h"
#include "model/gguf-write.h"
#include "model/imatrix.h"
#include "model/types.h"
#include "quantize/encode.h"
#include "quantize/mix.h"
#include "quantize/values.h"

#define QUANTIZATION_VERSION 2 /* of the layouts in encode.h: general.quantization_version */

/* ---- The importance matrix ----------------------------------------------------------------------------- */

/* For each tensor of a selection: weights as values_convert takes them, or NULL. */
struct importance {
    float **weights; /* [n] */
    size_t n;
    /* What the file says of itself, for quantize.imatrix.* in the metadata. */
    size_t n_entries;
    uint32_t n_chunks; /* 0: unknown */
    char *dataset;     /* NULL: unknown */
};

#define LEAST_WEIGHT 1e-4f /* of the largest in a block */

static void scale_block(const float *means, size_t n, float *weights)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) most = means[i] > most ? means[i] : most;
    for (size_t i = 0; i < n; i++) {
        float weight = most > 0 ? means[i] / most : 1;
        weights[i] = weight > LEAST_WEIGHT ? weight : LEAST_WEIGHT;
    }
}

static int make_weights(const char *path, const struct imatrix_entry *entry,
                        const struct model_tensor *tensor, uint32_t type, float **weights)
{
    const uint64_t *ne = tensor->ne;
    size_t length = type_info(type)->block_length;
    if (ne[3] != 1 || entry->n / ne[2] != ne[0] || entry->n % ne[2] != 0)
        return error_raise(
            ENGINE_ERROR_DATA,
            "%s: of another model: %s has %llu values, the model's %llu columns times %llu matrices", path,
            entry->name, (unsigned long long)entry->n, (unsigned long long)ne[0], (unsigned long long)ne[2]);
    *weights = malloc(entry->n * sizeof **weights);
    if (!*weights) return error_memory("importance matrix");
    for (uint64_t i = 0; i < entry->n; i += length) scale_block(entry->means + i, length, *weights + i);
    return ENGINE_OK;
}

static bool is_weighted(const struct selection *selection, size_t i)
{
    const struct model_tensor *tensor = selection->tensors[i];
    return values_count(tensor) > 0 && selection->types[i] != tensor->type &&
           encode_uses_weights(selection->types[i]);
}

static int find_weights(const struct selection *selection, const char *path, const struct imatrix *imatrix,
                        struct importance *importance)
{
    size_t n_weighted = 0, n_missing = 0;
    const char *missing = NULL;
    int status = ENGINE_OK;
    for (size_t i = 0; i < selection->n && !status; i++) {
        const struct model_tensor *tensor = selection->tensors[i];
        const struct imatrix_entry *entry = imatrix_find(imatrix, tensor->name);
        if (!is_weighted(selection, i)) continue;
        n_weighted++;
        if (entry) {
            status = make_weights(path, entry, tensor, selection->types[i], &importance->weights[i]);
            continue;
        }
        missing = missing ? missing : tensor->name;
        n_missing++;
    }
    if (status || n_missing == 0) return status;
    if (n_missing == n_weighted)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: of another model: it has values for none of the %zu matrices, but for %s",
                           path, n_weighted, imatrix_at(imatrix, 0)->name);
    log_line(ENGINE_LOG_WARNING, "%s lacks %zu of %zu matrices (%s%s): all columns of these count the same",
             path, n_missing, n_weighted, missing, n_missing > 1 ? ", …" : "");
    return ENGINE_OK;
}

/* Reads a file (see imatrix.h) for the matrices whose new types use weights. The log names it if some of
 * them are missing. ENGINE_ERROR_DATA: the file is none, or of another model. importance_free is to be
 * called in any case. */
static int importance_read(const struct selection *selection, const char *path, struct importance *importance)
{
    struct imatrix *imatrix;
    *importance = (struct importance){.n = selection->n};
    int status = imatrix_open(path, &imatrix);
    if (status) return status;
    const char *dataset;
    bool named = imatrix_text(imatrix, &dataset);
    importance->weights = calloc(selection->n + 1, sizeof *importance->weights);
    importance->dataset = named ? strdup(dataset) : NULL;
    importance->n_entries = imatrix_count(imatrix);
    imatrix_chunks(imatrix, &importance->n_chunks);
    if (importance->weights && (importance->dataset || !named))
        status = find_weights(selection, path, imatrix, importance);
    else
        status = error_memory("importance matrix");
    imatrix_close(imatrix);
    return status;
}

static void importance_free(struct importance *importance)
{
    for (size_t i = 0; importance->weights && i < importance->n; i++) free(importance->weights[i]);
    free(importance->weights);
    free(importance->dataset);
    *importance = (struct importance){0};
}

/* ---- The file ------------------------------------------------------------------------------------------ */

/* A file of its own, or the whole. */
struct part {
    size_t first, n;           /* its tensors */
    struct metadata *metadata; /* NULL: the job's */
    uint8_t *header;
    size_t header_size;
    /* zeros; none if there are no tensors, so that a small file can't demand a large one */
    uint64_t behind_header;
};

struct job {
    const struct model *model;
    struct selection selection;     /* its tensors are in the new file's order */
    const char *imatrix;            /* the file of importance; NULL: not given */
    struct importance importance;   /* of these tensors */
    struct metadata *metadata;      /* of the new file, or of its first part */
    struct gguf_tensor *list;       /* [n] */
    struct conversion *conversions; /* [n] */
    size_t n;
    struct part *parts; /* [n_parts] */
    uint32_t n_parts;
    uint64_t split_size; /* bytes of a part; 0: one file */
};

/* ---- The new file ---- */

/* What llama-quantize says of an importance matrix. */
static const char *const imatrix_keys[] = {"quantize.imatrix.file", "quantize.imatrix.dataset",
                                           "quantize.imatrix.entries_count", "quantize.imatrix.chunks_count"};

static int add_imatrix(const struct job *job)
{
    const struct importance *importance = &job->importance;
    struct metadata *metadata = job->metadata;
    int status = metadata_add_string(metadata, imatrix_keys[0], job->imatrix);
    if (!status && importance->dataset)
        status = metadata_add_string(metadata, imatrix_keys[1], importance->dataset);
    if (!status) status = metadata_add_u32(metadata, imatrix_keys[2], (uint32_t)importance->n_entries);
    if (!status && importance->n_chunks > 0)
        status = metadata_add_u32(metadata, imatrix_keys[3], importance->n_chunks);
    return status;
}

static bool is_among(const char *key, const char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

/* Copies the model's metadata, except its quantisation and its place in a split model. */
static int make_metadata(struct job *job)
{
    static const char *const left_out[] = {
        "general.quantization_version", "general.file_type", "split.no", "split.count",
        "split.tensors.count",          "split.id"};
    const struct metadata *old = model_metadata(job->model);
    int status = metadata_create(&job->metadata);
    for (size_t i = 0; i < metadata_count(old) && !status; i++) {
        const struct metadata_entry *entry = metadata_at(old, i);
        if (is_among(entry->key, left_out, sizeof left_out / sizeof *left_out)) continue;
        if (job->imatrix && is_among(entry->key, imatrix_keys, sizeof imatrix_keys / sizeof *imatrix_keys))
            continue;
        status = metadata_add(job->metadata, entry);
    }
    if (!status) status = metadata_add_u32(job->metadata, left_out[0], QUANTIZATION_VERSION);
    if (!status) status = metadata_add_u32(job->metadata, left_out[1], job->selection.mix->file_type);
    if (!status && job->imatrix) status = add_imatrix(job);
    return status; /* make_places completes it */
}

static int list_tensors(struct job *job)
{
    const uint32_t *types = job->selection.types;
    job->n = job->selection.n;
    job->list = calloc(job->n + 1, sizeof *job->list);
    job->conversions = calloc(job->n + 1, sizeof *job->conversions);
    job->parts = calloc(job->n + 1, sizeof *job->parts);
    if (!job->list || !job->conversions || !job->parts) return error_memory("tensors");
    for (size_t i = 0; i < job->n; i++) {
        const struct model_tensor *tensor = job->selection.tensors[i];
        struct gguf_tensor *entry = &job->list[i];
        uint64_t row, rows = tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
        if (!type_row_size(types[i], tensor->ne[0], &row) || checked_mul(row, rows, &entry->size))
            return error_raise(ENGINE_ERROR_DATA, "%s: %s would be too large", model_path(job->model),
                               tensor->name);
        entry->name = tensor->name;
        entry->type = types[i];
        entry->n_dims = tensor->n_dims;
        memcpy(entry->ne, tensor->ne, sizeof entry->ne);
    }
    return ENGINE_OK;
}

/* ---- Parts ---- */

#define SPLIT_KEYS 160 /* bytes of a part's own metadata, at most */
#define MAX_PARTS  99999

/* Bytes that a tensor adds to a part: its entry in the list, its data, and the zeros after both. */
static uint64_t bytes_in_part(const struct gguf_tensor *tensor, uint64_t alignment)
{
    return 24 + strlen(tensor->name) + 8 * (uint64_t)tensor->n_dims + tensor->size + alignment;
}

/* Divides the tensors, in their order, so that parts have at most split_size bytes. A tensor that is
 * larger has a part of its own. */
static int quantize_divide(struct job *job)
{
    uint8_t *header;
    size_t header_size;
    uint64_t alignment, used;
    job->n_parts = 1;
    job->parts[0].n = job->n;
    if (job->split_size == 0) return ENGINE_OK;
    int status = gguf_header(job->metadata, NULL, 0, &header, &header_size, &alignment);
    if (status) return status;
    free(header);
    used = header_size + SPLIT_KEYS;
    job->parts[0].n = 0;
    for (size_t i = 0; i < job->n; i++) {
        struct part *part = &job->parts[job->n_parts - 1];
        uint64_t size = bytes_in_part(&job->list[i], alignment);
        if (part->n > 0 && used + size > job->split_size) {
            *++part = (struct part){.first = i};
            job->n_parts++;
            used = SPLIT_KEYS;
        }
        part->n++;
        used += size;
    }
    if (job->n_parts > MAX_PARTS)
        return error_raise(ENGINE_ERROR_ARGUMENT, "there would be %u parts; at most %d are possible",
                           job->n_parts, MAX_PARTS);
    return ENGINE_OK;
}

static uint64_t hash_bytes(uint64_t hash, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

/* The first row of each tensor. */
static int hash_rows(const struct job *job, uint64_t *hash)
{
    for (size_t i = 0; i < job->n; i++) {
        const struct model_tensor *tensor = job->selection.tensors[i];
        size_t size = (size_t)(tensor->size / (tensor->ne[1] * tensor->ne[2] * tensor->ne[3]));
        uint8_t *row = malloc(size + 1);
        if (!row) return error_memory("tensors");
        model_tensor_read(tensor, 0, 1, row);
        *hash = hash_bytes(*hash, row, size);
        free(row);
    }
    return ENGINE_OK;
}

/* A hash (FNV-1a) that other models' parts don't have: of the metadata, the list of all tensors and the
 * beginning of each, of 63 bits. */
static int identify(struct job *job, uint64_t *id)
{
    uint8_t *header;
    size_t size;
    uint64_t alignment;
    int status = gguf_header(job->metadata, job->list, job->n, &header, &size, &alignment);
    if (status) return status;
    *id = hash_bytes(14695981039346656037u, header, size);
    free(header);
    status = hash_rows(job, id);
    *id &= INT64_MAX;
    return status;
}

/* The keys by which programs know a part. */
static int add_place(const struct job *job, struct metadata *metadata, uint32_t number, uint64_t id)
{
    uint16_t *places = metadata_allocate(metadata, 2 * sizeof *places);
    int32_t *n_tensors = metadata_allocate(metadata, sizeof *n_tensors);
    uint64_t *kept = metadata_allocate(metadata, sizeof *kept);
    if (!places || !n_tensors || !kept) return error_memory("metadata");
    places[0] = (uint16_t)number, places[1] = (uint16_t)job->n_parts;
    *n_tensors = (int32_t)job->n;
    *kept = id;
    const struct metadata_entry entries[] = {
        {.key = "split.no", .type = METADATA_U16, .count = 1, .values = &places[0]},
        {.key = "split.count", .type = METADATA_U16, .count = 1, .values = &places[1]},
        {.key = "split.tensors.count", .type = METADATA_I32, .count = 1, .values = n_tensors},
        {.key = "split.id", .type = METADATA_U64, .count = 1, .values = kept},
    };
    int status = ENGINE_OK;
    for (size_t i = 0; i < sizeof entries / sizeof *entries && !status; i++)
        status = metadata_add(metadata, &entries[i]);
    return status;
}

/* The first part has the model's metadata, the others only their places. */
static int make_places(struct job *job)
{
    uint64_t id = 0;
    int64_t alignment;
    if (job->split_size == 0) return metadata_finish(job->metadata);
    bool aligned = metadata_integer(model_metadata(job->model), "general.alignment", &alignment);
    int status = identify(job, &id);
    for (uint32_t p = 0; p < job->n_parts && !status; p++) {
        struct metadata *metadata = job->metadata;
        if (p > 0) {
            status = metadata_create(&job->parts[p].metadata);
            metadata = job->parts[p].metadata;
            if (!status && aligned)
                status = metadata_add_u32(metadata, "general.alignment", (uint32_t)alignment);
        }
        if (!status) status = add_place(job, metadata, p, id);
        if (!status) status = metadata_finish(metadata);
    }
    return status;
}

static int lay_out(struct job *job)
{
    int status = list_tensors(job);
    if (!status) status = quantize_divide(job);
    if (!status) status = make_places(job);
    for (uint32_t p = 0; p < job->n_parts && !status; p++) {
        struct part *part = &job->parts[p];
        uint64_t alignment;
        status = gguf_header(part->metadata ? part->metadata : job->metadata, job->list + part->first,
                             part->n, &part->header, &part->header_size, &alignment);
        if (status) return status;
        if (part->n > 0) part->behind_header = -(uint64_t)part->header_size & (alignment - 1);
        for (size_t i = part->first; i < part->first + part->n; i++)
            job->conversions[i] =
                (struct conversion){.from = job->selection.tensors[i],
                                    .type = job->selection.types[i],
                                    .weights = job->importance.weights ? job->importance.weights[i] : NULL,
                                    .size = job->list[i].size,
                                    .after = -job->list[i].size & (alignment - 1)};
    }
    return status;
}

static void job_free(struct job *job)
{
    selection_free(&job->selection);
    importance_free(&job->importance);
    metadata_destroy(job->metadata);
    for (uint32_t p = 0; job->parts && p < job->n_parts; p++) {
        if (job->parts[p].metadata) metadata_destroy(job->parts[p].metadata);
        free(job->parts[p].header);
    }
    free(job->parts);
    free(job->list);
    free(job->conversions);
}

/* ---- All ---- */

static int write_part(const struct job *job, uint32_t p, uint32_t n_threads, struct convert_calls *calls)
{
    const struct part *part = &job->parts[p];
    int status = calls->write(calls->user, part->header, part->header_size);
    if (!status) status = quantize_write_zeros(calls, part->behind_header);
    if (!status)
        status = quantize_convert(job->model, job->conversions + part->first, part->n, n_threads, calls);
    for (size_t i = part->first; i < part->first + part->n; i++)
        calls->before += job->conversions[i].from->size;
    return status;
}

int engine_model_quantize(struct engine_model *model, const struct engine_quantize_options *given)
{
    struct engine_quantize_options options;
    int status = SIZED_CHECK(given, engine_quantize_options, user);
    if (status) return status;
    sized_read(&options, sizeof options, given);
    if (!options.type || !options.write)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a type and a write function are required");
    if (options.split_size > 0 && !options.begin_part)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a split_size requires begin_part");
    if (model->is_converted)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%s was opened with a type for loading: open it without",
                           model_path(model->model));
    struct job job = {.model = model->model, .split_size = options.split_size, .imatrix = options.imatrix};
    struct convert_calls calls = {.write = options.write, .progress = options.progress, .user = options.user};
    status = selection_make(job.model, options.type, options.only, options.pure != 0, &job.selection);
    if (!status && options.imatrix)
        status = importance_read(&job.selection, options.imatrix, &job.importance);
    if (!status) status = make_metadata(&job);
    if (!status) status = lay_out(&job);
    for (size_t i = 0; i < job.n && !status; i++) calls.total += job.conversions[i].from->size;
    for (uint32_t p = 0; p < job.n_parts && !status; p++) {
        if (job.split_size > 0) status = options.begin_part(options.user, p, job.n_parts);
        if (!status) status = write_part(&job, p, threads_count(model->engine, options.n_threads), &calls);
    }
    job_free(&job);
    return status;
}
