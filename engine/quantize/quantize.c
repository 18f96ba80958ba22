/* quantize.c: engine_model_quantize of engine.h: a model with its matrices in other types, as a GGUF file. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/sized.h"
#include "internal.h"
#include "model/gguf-write.h"
#include "model/types.h"
#include "quantize/convert.h"
#include "quantize/encode.h"
#include "quantize/mix.h"

#define QUANTIZATION_VERSION 2 /* of the layouts in encode.h: general.quantization_version */

struct job {
    const struct model *model;
    const struct mix *mix;
    struct mix_wish *wishes; /* [n_wishes] */
    size_t n_wishes;
    struct metadata *metadata;           /* of the new file */
    const struct model_tensor **tensors; /* [n], in the new file's order */
    uint32_t *types;                     /* [n] */
    struct gguf_tensor *list;            /* [n] */
    struct conversion *conversions;      /* [n] */
    size_t n;
    uint8_t *header;
    size_t header_size;
    /* zeros; none if there are no tensors, so that a small file can't demand a large one */
    uint64_t behind_header;
};

/* ---- Requested types ---- */

static int read_wish(const char *text, struct mix_wish *wish)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "'%s': expected PATTERN=TYPE, such as blk.*.ffn_down.*=Q6_K", text);
    if (!type_by_name(equals + 1, &wish->type) || !quantize_encoder(wish->type))
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "'%s': cannot write the type %s; choose F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, "
                           "Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL or IQ4_XS",
                           text, equals + 1);
    wish->pattern = strndup(text, (size_t)(equals - text));
    return wish->pattern ? ENGINE_OK : error_memory("patterns");
}

static int read_wishes(struct job *job, const char *const *only)
{
    size_t n = 0;
    while (only && only[n]) n++;
    job->wishes = calloc(n + 1, sizeof *job->wishes);
    if (!job->wishes) return error_memory("patterns");
    for (; job->n_wishes < n; job->n_wishes++) {
        int status = read_wish(only[job->n_wishes], &job->wishes[job->n_wishes]);
        if (status) return status;
    }
    return ENGINE_OK;
}

/* A pattern that changes nothing is a mistake. */
static int check_wishes(const struct job *job)
{
    for (size_t w = 0; w < job->n_wishes; w++) {
        size_t i = 0;
        while (i < job->n &&
               !(mix_may_quantize(job->tensors[i]) && mix_matches(&job->wishes[w], job->tensors[i])))
            i++;
        if (i == job->n)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "'%s' matches no tensor that can be quantised (`engine info` lists the "
                               "tensors; norms and vectors are kept)",
                               job->wishes[w].pattern);
    }
    return ENGINE_OK;
}

/* ---- The new file ---- */

/* Copies the model's metadata, except its quantisation and its place in a split model. */
static int make_metadata(struct job *job)
{
    static const char *const left_out[] = {"general.quantization_version", "general.file_type", "split.no",
                                           "split.count", "split.tensors.count"};
    const struct metadata *old = model_metadata(job->model);
    int status = metadata_create(&job->metadata);
    for (size_t i = 0; i < metadata_count(old) && !status; i++) {
        const struct metadata_entry *entry = metadata_at(old, i);
        size_t k = 0;
        while (k < sizeof left_out / sizeof *left_out && strcmp(entry->key, left_out[k]) != 0) k++;
        if (k == sizeof left_out / sizeof *left_out) status = metadata_add(job->metadata, entry);
    }
    if (!status) status = metadata_add_u32(job->metadata, left_out[0], QUANTIZATION_VERSION);
    if (!status) status = metadata_add_u32(job->metadata, left_out[1], job->mix->file_type);
    return status ? status : metadata_finish(job->metadata);
}

static bool is_number(uint32_t type)
{
    return type == ENGINE_TYPE_F64 || (type >= ENGINE_TYPE_I8 && type <= ENGINE_TYPE_I64);
}

/* Whether the tensor can be turned into its new type. */
static int check_source(const struct job *job, size_t i)
{
    const struct model_tensor *tensor = job->tensors[i];
    if (job->types[i] == tensor->type || quantize_encodes_from(tensor->type)) return ENGINE_OK;
    return error_raise(
        ENGINE_ERROR_UNSUPPORTED,
        "%s: %s is already %s; only F32, F16 and BF16 can be quantised (start from the original model)",
        model_path(job->model), tensor->name, type_info(tensor->type)->name);
}

static int choose_types(struct job *job, bool pure)
{
    job->n = model_tensor_count(job->model);
    job->tensors = calloc(job->n + 1, sizeof *job->tensors);
    job->types = calloc(job->n + 1, sizeof *job->types);
    job->list = calloc(job->n + 1, sizeof *job->list);
    job->conversions = calloc(job->n + 1, sizeof *job->conversions);
    if (!job->tensors || !job->types || !job->list || !job->conversions) return error_memory("tensors");
    for (size_t i = 0; i < job->n; i++) job->tensors[i] = model_tensor_at(job->model, i);
    mix_sort(job->tensors, job->n);
    int status = check_wishes(job);
    if (status) return status;
    mix_choose(job->mix, pure, job->wishes, job->n_wishes, model_metadata(job->model), job->tensors, job->n,
               job->types);
    for (size_t i = 0; i < job->n && !status; i++) {
        if (is_number(job->tensors[i]->type))
            job->types[i] = job->tensors[i]->type; /* a table, not weights */
        status = check_source(job, i);
    }
    return status;
}

static int lay_out(struct job *job)
{
    uint64_t alignment;
    for (size_t i = 0; i < job->n; i++) {
        const struct model_tensor *tensor = job->tensors[i];
        struct gguf_tensor *entry = &job->list[i];
        uint64_t row, rows = tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
        if (!type_row_size(job->types[i], tensor->ne[0], &row) || checked_mul(row, rows, &entry->size))
            return error_raise(ENGINE_ERROR_DATA, "%s: %s would be too large", model_path(job->model),
                               tensor->name);
        entry->name = tensor->name;
        entry->type = job->types[i];
        entry->n_dims = tensor->n_dims;
        memcpy(entry->ne, tensor->ne, sizeof entry->ne);
    }
    int status = gguf_header(job->metadata, job->list, job->n, &job->header, &job->header_size, &alignment);
    if (!status && job->n > 0) job->behind_header = -(uint64_t)job->header_size & (alignment - 1);
    for (size_t i = 0; i < job->n && !status; i++)
        job->conversions[i] = (struct conversion){.from = job->tensors[i],
                                                  .type = job->types[i],
                                                  .size = job->list[i].size,
                                                  .after = -job->list[i].size & (alignment - 1)};
    return status;
}

static void job_free(struct job *job)
{
    for (size_t w = 0; w < job->n_wishes; w++) free((char *)(uintptr_t)job->wishes[w].pattern);
    free(job->wishes);
    metadata_destroy(job->metadata);
    free(job->tensors);
    free(job->types);
    free(job->list);
    free(job->conversions);
    free(job->header);
}

/* ---- All ---- */

/* As many as the processors available to this process, unless set otherwise. */
static uint32_t count_threads(const struct engine_model *model, const struct engine_quantize_options *options)
{
    const char *text = engine_setting(model->engine, "", "threads");
    cpu_set_t set;
    if (options->n_threads) return options->n_threads;
    if (text) return (uint32_t)strtoul(text, NULL, 10); /* config.c has checked the value */
    if (sched_getaffinity(0, sizeof set, &set) == 0) return (uint32_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

int engine_model_quantize(struct engine_model *model, const struct engine_quantize_options *options)
{
    struct job job = {.model = model->model};
    int status = SIZED_CHECK(options, engine_quantize_options, user);
    if (status) return status;
    if (!options->type || !options->write)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a type and a write function are required");
    job.mix = mix_by_name(options->type);
    if (!job.mix)
        return error_raise(ENGINE_ERROR_ARGUMENT, "cannot write the type %s; choose one of %s", options->type,
                           mix_names());
    struct convert_calls calls = {
        .write = options->write, .progress = options->progress, .user = options->user};
    status = read_wishes(&job, options->only);
    if (!status) status = choose_types(&job, options->pure != 0);
    if (!status) status = make_metadata(&job);
    if (!status) status = lay_out(&job);
    if (!status) status = calls.write(calls.user, job.header, job.header_size);
    if (!status) status = quantize_write_zeros(&calls, job.behind_header);
    if (!status)
        status = quantize_convert(job.model, job.conversions, job.n, count_threads(model, options), &calls);
    job_free(&job);
    return status;
}
