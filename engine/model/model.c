/* model.c: see model.h. Opens files, detects their format, and owns the data that the format's reader makes
 * of them. */
#include "model/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "model/file.h"

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

int model_open(const char *path, const char *tokenizer_path, struct model **model)
{
    int status;
    struct model *opened = calloc(1, sizeof *opened);
    if (!opened) return error_memory("model");

    opened->path = strdup(path);
    if (!opened->path) {
        status = error_memory("model");
        goto cleanup;
    }
    status = model_map_file(path, &opened->data, &opened->size);
    if (status) goto cleanup;
    status = metadata_create(&opened->metadata);
    if (status) goto cleanup;

    if (opened->size == 0) {
        status = error_raise(ENGINE_ERROR_DATA, "%s is empty", path);
    } else if (opened->size >= 4 && memcmp(opened->data, "GGUF", 4) == 0) {
        status = tokenizer_path
                     ? error_raise(
                           ENGINE_ERROR_ARGUMENT,
                           "%s is a GGUF file, which contains its vocabulary: omit the tokenizer file", path)
                     : gguf_read(opened);
    } else {
        status = llama2c_read(opened, tokenizer_path);
    }
    if (status) goto cleanup;
    status = index_tensors(opened);
    if (status) goto cleanup;
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
    model_unmap_file(model->data, model->size);
    free(model->path);
    free(model);
}

const char *model_path(const struct model *model)
{
    return model->path;
}

const char *model_format(const struct model *model)
{
    return model->format;
}

uint64_t model_file_size(const struct model *model)
{
    return model->size;
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
    return &model->tensors[index];
}

const struct model_tensor *model_tensor_find(const struct model *model, const char *name)
{
    size_t position;
    return names_find(&model->names, name, &position) ? &model->tensors[position] : NULL;
}

const void *model_tensor_gather(const struct model_tensor *tensor, void **gathered)
{
    *gathered = NULL;
    if (tensor->data) return tensor->data;
    uint8_t *data = malloc((size_t)tensor->size), *end = data;
    if (!data) {
        error_memory(tensor->name);
        return NULL;
    }
    for (size_t i = 0; i < tensor->n_parts; i++) {
        memcpy(end, tensor->parts[i]->data, (size_t)tensor->parts[i]->size);
        end += tensor->parts[i]->size;
    }
    *gathered = data;
    return data;
}

void model_tensor_release(const struct model *model, const struct model_tensor *tensor)
{
    for (size_t i = 0; i < tensor->n_parts; i++) model_tensor_release(model, tensor->parts[i]);
    if (!tensor->data) return;
    uintptr_t start = (uintptr_t)tensor->data, end = start + (uintptr_t)tensor->size;
    uintptr_t map = (uintptr_t)model->data, map_end = map + (uintptr_t)model->size;
    if (start < map || end > map_end) return; /* converted: it can't be read again from a file */

    /* Whole pages only: the rest of a page may belong to a neighbour that is still in use. */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    start = (start + page - 1) & ~(page - 1);
    end &= ~(page - 1);
    if (start < end) madvise((void *)start, (size_t)(end - start), MADV_DONTNEED);
}
