/* model.c: see model.h. Opens files and directories, detects their format, and owns the data that the
 * format's reader makes of them. */
#include "model/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/threads.h"
#include "common/assert.h"
#include "model/file.h"
#include "model/hf/directory.h"
#include "model/safetensors.h"
#include "model/types.h"

#define ROWS_TAKEN (256u << 10) /* bytes of rows that a thread makes at a time */

/* What Git has instead of a large file that Git LFS has not fetched. */
static bool is_pointer(const void *data, uint64_t size)
{
    static const char first[] = "version https://git-lfs.github.com/spec/";
    return size > sizeof first && size < 1024 && memcmp(data, first, sizeof first - 1) == 0;
}

int model_map_file(const char *path, const uint8_t **data, uint64_t *size)
{
    int status;
    /* Don't wait for the other end of a pipe. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return error_raise(ENGINE_ERROR, "cannot open %s: %s", path, strerror(errno));

    struct stat info;
    if (fstat(file, &info) != 0) {
        status = error_raise(ENGINE_ERROR, "cannot read %s: %s", path, strerror(errno));
        goto cleanup;
    }
    if (!S_ISREG(info.st_mode)) {
        status = error_raise(ENGINE_ERROR_DATA, "%s is %s, not a regular file", path,
                             S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
        goto cleanup;
    }
    void *mapped = NULL;
    if (info.st_size > 0) {
        if ((uint64_t)info.st_size > SIZE_MAX) {
            status = error_raise(ENGINE_ERROR_UNSUPPORTED, "%s is too large for this machine's address space",
                                 path);
            goto cleanup;
        }
        mapped = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (mapped == MAP_FAILED) {
            status = error_raise(ENGINE_ERROR, "cannot map %s into memory: %s", path, strerror(errno));
            goto cleanup;
        }
    }
    if (mapped && is_pointer(mapped, (uint64_t)info.st_size)) {
        munmap(mapped, (size_t)info.st_size);
        status =
            error_raise(ENGINE_ERROR_DATA, "%s only points to the file: fetch it with `git lfs pull`", path);
        goto cleanup;
    }
    *data = mapped;
    *size = (uint64_t)info.st_size;
    status = ENGINE_OK;

cleanup:
    close(file);
    return status;
}

void model_unmap_file(const uint8_t *data, uint64_t size)
{
    if (data) munmap((void *)data, (size_t)size);
}

int model_reserve_tensors(struct model *model, size_t count)
{
    model->tensors = calloc(count ? count : 1, sizeof *model->tensors);
    return model->tensors ? ENGINE_OK : error_memory("tensor list");
}

static int index_tensors(struct model *model)
{
    int status = names_create(&model->names, model->n_tensors);
    if (status) return status;
    for (size_t i = 0; i < model->n_tensors; i++) names_add(&model->names, model->tensors[i].name, i);
    const char *twice = names_sort(&model->names);
    if (twice) return error_raise(ENGINE_ERROR_DATA, "%s: the tensor %s occurs twice", model->path, twice);
    return ENGINE_OK;
}

/* Says that only the text part is used of a model that has others, too. A file of those alone has no
 * tokens. */
static void tell_of_senses(struct model *model)
{
    static const char *const starts[] = {"v.", "a.", "mm."};
    bool has_tokens = false;
    for (size_t i = 0; i < model->n_tensors; i++) {
        const char *name = model->tensors[i].name;
        has_tokens |= strcmp(name, "token_embd.weight") == 0;
        for (size_t k = 0; k < sizeof starts / sizeof *starts; k++)
            model->has_senses |= strncmp(name, starts[k], strlen(starts[k])) == 0;
    }
    if (model->has_senses && has_tokens)
        log_line(ENGINE_LOG_WARNING, "%s: the model also reads pictures or sound; only its text part is used",
                 model->path);
}

int model_open_eye(const char *path, struct model **model)
{
    struct model *opened = calloc(1, sizeof *opened);
    if (!opened) return error_memory("model");
    int status = hf_hub_find(path, &opened->path);
    if (!status && !opened->path) opened->path = strdup(path);
    if (!status && !opened->path) status = error_memory("model");
    if (!status) status = metadata_create(&opened->metadata);
    if (!status) status = hf_read_eye(opened);
    if (!status) status = index_tensors(opened);
    if (!status) *model = opened;
    if (status) model_close(opened);
    return status;
}

int model_open(const char *path, const char *tokenizer_path, struct model **model)
{
    int status;
    struct model *opened = calloc(1, sizeof *opened);
    if (!opened) return error_memory("model");

    status = hf_hub_find(path, &opened->path);
    if (status) goto cleanup;
    if (!opened->path) opened->path = strdup(path);
    if (!opened->path) {
        status = error_memory("model");
        goto cleanup;
    }
    path = opened->path;
    status = metadata_create(&opened->metadata);
    if (status) goto cleanup;
    if (hf_is_directory(path)) {
        status = tokenizer_path ? error_raise(ENGINE_ERROR_ARGUMENT,
                                              "%s is a directory, which contains its vocabulary: omit the "
                                              "tokenizer file",
                                              path)
                                : hf_read(opened);
        if (status) goto cleanup;
        goto index;
    }
    status = model_map_file(path, &opened->data, &opened->size);
    if (status) goto cleanup;

    if (opened->size == 0) {
        status = error_raise(ENGINE_ERROR_DATA, "%s is empty", path);
    } else if (opened->size >= 4 && memcmp(opened->data, "GGUF", 4) == 0) {
        status = tokenizer_path
                     ? error_raise(
                           ENGINE_ERROR_ARGUMENT,
                           "%s is a GGUF file, which contains its vocabulary: omit the tokenizer file", path)
                     : gguf_read(opened);
    } else if (hf_is_part(path)) {
        status =
            error_raise(ENGINE_ERROR_ARGUMENT, "%s is one file of a model: name its folder instead", path);
    } else {
        status = llama2c_read(opened, tokenizer_path);
    }
    if (status) goto cleanup;
index:
    status = index_tensors(opened);
    if (status) goto cleanup;
    tell_of_senses(opened);
    *model = opened;
    opened = NULL;

cleanup:
    model_close(opened);
    return status;
}

void model_close(struct model *model)
{
    if (!model) return;
    names_destroy(&model->names);
    free(model->tensors);
    free(model->converted);
    metadata_destroy(model->metadata);
    for (size_t i = 0; i < model->n_shards; i++) safetensors_close(model->shards[i]);
    for (size_t i = 0; i < model->n_parts; i++) model_close(model->parts[i]);
    free(model->parts);
    free(model->shards);
    if (model->data) model_unmap_file(model->data, model->size);
    free(model->path);
    free(model);
}

const char *model_path(const struct model *model)
{
    return model->path;
}

bool model_is_directory(const struct model *model)
{
    return model->shards != NULL;
}

const char *model_format(const struct model *model)
{
    return model->format;
}

uint64_t model_file_size(const struct model *model)
{
    uint64_t size = model->size;
    for (size_t i = 0; i < model->n_parts; i++) size += model->parts[i]->size;
    return size;
}

const struct metadata *model_metadata(const struct model *model)
{
    return model->metadata;
}

size_t model_tensor_count(const struct model *model)
{
    return model->n_tensors;
}

const struct model_tensor *model_tensor_at(const struct model *model, size_t index)
{
    ENGINE_ASSERT(index < model->n_tensors);
    return &model->tensors[index];
}

const struct model_tensor *model_tensor_find(const struct model *model, const char *name)
{
    size_t position;
    return names_find(&model->names, name, &position) ? &model->tensors[position] : NULL;
}

static uint64_t count_rows(const struct model_tensor *tensor)
{
    return tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
}

void model_tensor_read(const struct model_tensor *tensor, uint64_t first, uint64_t n, uint8_t *rows)
{
    uint64_t row_size = count_rows(tensor) ? tensor->size / count_rows(tensor) : 0;
    ENGINE_ASSERT(n <= count_rows(tensor) && first <= count_rows(tensor) - n);
    ENGINE_ASSERT(tensor->maker || tensor->data || n * row_size == 0);
    if (tensor->maker)
        tensor->maker->make(tensor->maker, tensor->first_row + first, n, rows);
    else if (n * row_size > 0)
        memcpy(rows, (const uint8_t *)tensor->data + first * row_size, (size_t)(n * row_size));
}

/* Rows that threads take some of at a time. */
struct rows {
    const struct model_tensor *tensor;
    uint64_t n, row_size, n_taken; /* those that a thread takes */
    _Atomic uint64_t next;
    uint8_t *data;
};

static void *read_rows(void *argument)
{
    struct rows *rows = argument;
    for (;;) {
        uint64_t first = rows->n_taken * atomic_fetch_add(&rows->next, 1);
        if (first >= rows->n) return NULL;
        uint64_t left = rows->n - first;
        model_tensor_read(rows->tensor, first, left < rows->n_taken ? left : rows->n_taken,
                          rows->data + first * rows->row_size);
    }
}

static int load_rows(const struct model_tensor *tensor, uint32_t n_threads, uint8_t *data)
{
    const struct model_maker *maker = tensor->maker;
    if (maker && maker->load) return maker->load(maker, tensor->first_row, count_rows(tensor), data);
    if (tensor->size == 0) return ENGINE_OK;
    struct rows rows = {.tensor = tensor, .n = count_rows(tensor), .data = data};
    rows.row_size = tensor->size / rows.n;
    rows.n_taken = 1 + ROWS_TAKEN / rows.row_size;
    return threads_run(n_threads, (rows.n - 1) / rows.n_taken + 1, read_rows, &rows);
}

int model_tensor_gather(const struct model_tensor *tensor, uint32_t n_threads, const void **data,
                        void **gathered)
{
    *gathered = NULL;
    *data = tensor->data;
    if (tensor->data) return ENGINE_OK;
    uint8_t *made = malloc((size_t)tensor->size), *end = made;
    if (!made) return error_memory(tensor->name);
    int status = tensor->n_parts == 0 ? load_rows(tensor, n_threads, made) : ENGINE_OK;
    for (size_t i = 0; i < tensor->n_parts && !status; i++) {
        status = load_rows(tensor->parts[i], n_threads, end);
        end += tensor->parts[i]->size;
    }
    if (status) {
        free(made);
        return status;
    }
    *data = *gathered = made;
    return ENGINE_OK;
}

void *model_allocate(struct model *model, size_t size)
{
    return metadata_allocate(model->metadata, size);
}

void model_allow_rounding(struct model *model)
{
    for (size_t i = 0; i < model->n_tensors; i++) model->tensors[i].is_exact = false;
}

void model_tensor_convert(struct model *model, const struct model_tensor *tensor, uint32_t type,
                          const struct model_maker *maker)
{
    ENGINE_ASSERT(tensor >= model->tensors && tensor < model->tensors + model->n_tensors);
    struct model_tensor *own = &model->tensors[tensor - model->tensors];
    uint64_t row_size = 0;
    type_row_size(type, own->ne[0], &row_size); /* the type was chosen to fit */
    own->type = type;
    own->size = row_size * count_rows(own);
    own->data = NULL;
    own->maker = maker;
    own->first_row = 0;
}

/* Whether bytes are in a mapped file: others were converted, and can't be read again. */
static bool is_mapped(const struct model *model, uintptr_t start, uint64_t size)
{
    uintptr_t map = (uintptr_t)model->data;
    if (start >= map && start - map <= model->size && size <= model->size - (start - map)) return true;
    for (size_t i = 0; i < model->n_shards; i++)
        if (safetensors_contains(model->shards[i], (const void *)start, size)) return true;
    for (size_t i = 0; i < model->n_parts; i++)
        if (is_mapped(model->parts[i], start, size)) return true;
    return false;
}

static void release_bytes(const struct model *model, const void *data, uint64_t size)
{
    uintptr_t start = (uintptr_t)data, end = start + (uintptr_t)size;
    if (!is_mapped(model, start, size)) return;

    /* Whole pages only: the rest of a page may belong to a neighbour that is still in use. */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    start = (start + page - 1) & ~(page - 1);
    end &= ~(page - 1);
    if (start < end) madvise((void *)start, (size_t)(end - start), MADV_DONTNEED);
}

void model_tensor_release(const struct model *model, const struct model_tensor *tensor)
{
    for (size_t i = 0; i < tensor->n_parts; i++) model_tensor_release(model, tensor->parts[i]);
    for (size_t i = 0; tensor->maker && i < tensor->maker->n_sources; i++)
        release_bytes(model, tensor->maker->sources[i].data, tensor->maker->sources[i].size);
    if (tensor->data) release_bytes(model, tensor->data, tensor->size);
}
