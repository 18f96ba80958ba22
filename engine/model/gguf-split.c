/* gguf-split.c: a GGUF model in several files, as llama-gguf-split and `engine quantize --split-size` write
 * them.
 *
 * They are called NAME-00001-of-00003.gguf and so on. Each has split.no (from 0 on), split.count and
 * split.tensors.count, the tensors of all parts. Only the first has the model's metadata. Parts that the
 * engine writes also have split.id, a hash of the metadata and the list of all tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "model/file.h"

#define MAX_PARTS 99999
#define SUFFIX    (sizeof "-00001-of-00003.gguf" - 1)

/* What a part's metadata say. */
struct place {
    int64_t number, count, n_tensors, id; /* id 0: none */
};

static struct place place_of(const struct model *part)
{
    struct place place = {0, 1, -1, 0};
    metadata_integer(part->metadata, "split.no", &place.number);
    metadata_integer(part->metadata, "split.count", &place.count);
    metadata_integer(part->metadata, "split.tensors.count", &place.n_tensors);
    metadata_integer(part->metadata, "split.id", &place.id);
    return place;
}

int64_t gguf_count_parts(const char *path)
{
    size_t length = strlen(path);
    unsigned number, count;
    int end = 0;
    if (length <= SUFFIX) return 1;
    const char *suffix = path + length - SUFFIX;
    if (strspn(suffix + 1, "0123456789") != 5 || strspn(suffix + 10, "0123456789") != 5) return 1;
    if (sscanf(suffix, "-%5u-of-%5u.gguf%n", &number, &count, &end) != 2 || end != (int)SUFFIX) return 1;
    return number > 0 && number <= count ? (int64_t)count : 1;
}

char *gguf_part_path(const char *path, int64_t number, int64_t count)
{
    size_t length = strlen(path) - SUFFIX, size = length + SUFFIX + 32;
    char *name = malloc(size);
    if (name)
        snprintf(name, size, "%.*s-%05" PRId64 "-of-%05" PRId64 ".gguf", (int)length, path, number + 1,
                 count);
    else
        error_memory("model");
    return name;
}

/* Whether the name of a part fits its metadata; the others are found by it. */
static int check_name(const struct model *part, const struct place *place)
{
    char expected[64];
    size_t length = strlen(part->path);
    if (place->count > MAX_PARTS || place->number < 0 || place->number >= place->count)
        return error_raise(ENGINE_ERROR_DATA, "%s: split.no is %" PRId64 " and split.count %" PRId64,
                           part->path, place->number, place->count);
    snprintf(expected, sizeof expected, "-%05" PRId64 "-of-%05" PRId64 ".gguf", place->number + 1,
             place->count);
    if (length > SUFFIX && strcmp(part->path + length - SUFFIX, expected) == 0) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA,
                       "%s is part %" PRId64 " of %" PRId64 " of a model: its name has to end in %s",
                       part->path, place->number + 1, place->count, expected);
}

static int open_part(const char *path, struct model **part)
{
    *part = calloc(1, sizeof **part);
    if (!*part) return error_memory("model");
    (*part)->path = strdup(path);
    int status = (*part)->path ? metadata_create(&(*part)->metadata) : error_memory("model");
    if (!status) status = model_map_file(path, &(*part)->data, &(*part)->size);
    if (status) return status;
    if ((*part)->size < 4 || memcmp((*part)->data, "GGUF", 4) != 0)
        return error_raise(ENGINE_ERROR_DATA, "%s is not a GGUF file, but one of a model's parts", path);
    return gguf_read_file(*part);
}

/* Opens another part of a model and checks that it is one. */
static int open_other(const struct model *model, const struct place *first, int64_t number,
                      struct model **part)
{
    char *path = gguf_part_path(model->path, number, first->count);
    if (!path) return ENGINE_ERROR_MEMORY;
    int status = open_part(path, part);
    free(path);
    if (status)
        return error_wrap(status, "part %" PRId64 " of %" PRId64 " of the model", number + 1, first->count);
    struct place place = place_of(*part);
    status = check_name(*part, &place);
    if (!status &&
        (place.count != first->count || place.n_tensors != first->n_tensors || place.id != first->id))
        status = error_raise(ENGINE_ERROR_DATA, "%s and %s are parts of different models", model->path,
                             (*part)->path);
    return status;
}

/* Appends the tensors of all parts. */
static int split_join(struct model *model, const struct place *first)
{
    size_t n = 0, room = model->n_tensors;
    for (size_t i = 0; i < model->n_parts; i++) n += model->parts[i]->n_tensors;
    if (first->n_tensors >= 0 && (uint64_t)first->n_tensors != n + model->n_tensors)
        return error_raise(ENGINE_ERROR_DATA, "%s: the parts have %zu tensors; the model has %" PRId64,
                           model->path, n + model->n_tensors, first->n_tensors);
    if (!ARRAY_FIT(model->tensors, room, n + model->n_tensors + 1)) return error_memory("tensor list");
    for (size_t i = 0; i < model->n_parts; i++) {
        const struct model *part = model->parts[i];
        if (part->n_tensors > 0)
            memcpy(model->tensors + model->n_tensors, part->tensors,
                   part->n_tensors * sizeof *model->tensors);
        model->n_tensors += part->n_tensors;
    }
    return ENGINE_OK;
}

/* The model was opened by another part than the first, which has its metadata. */
static int go_to_first(struct model *model, const struct place *place)
{
    char *path = gguf_part_path(model->path, 0, place->count);
    if (!path) return ENGINE_ERROR_MEMORY;
    model_unmap_file(model->data, model->size);
    metadata_destroy(model->metadata);
    free(model->tensors);
    free(model->path);
    *model = (struct model){.path = path};
    int status = metadata_create(&model->metadata);
    if (!status) status = model_map_file(path, &model->data, &model->size);
    if (!status && (model->size < 4 || memcmp(model->data, "GGUF", 4) != 0))
        status = error_raise(ENGINE_ERROR_DATA, "%s is not a GGUF file, but one of a model's parts", path);
    if (!status) status = gguf_read_file(model);
    return status ? error_wrap(status, "part 1 of %" PRId64 " of the model", place->count) : ENGINE_OK;
}

int gguf_read(struct model *model)
{
    int status = gguf_read_file(model);
    if (status) return status;
    struct place place = place_of(model);
    if (place.count <= 1) return ENGINE_OK;
    status = check_name(model, &place);
    if (!status && place.number > 0) {
        struct place other = place;
        status = go_to_first(model, &other);
        if (!status) place = place_of(model);
        if (!status) status = check_name(model, &place);
        if (!status &&
            (place.count != other.count || place.n_tensors != other.n_tensors || place.id != other.id))
            status = error_raise(ENGINE_ERROR_DATA, "%s is the first part of another model", model->path);
    }
    if (status) return status;
    model->parts = calloc((size_t)place.count, sizeof(struct model *));
    if (!model->parts) return error_memory("model");
    for (int64_t i = 1; i < place.count && !status; i++)
        status = open_other(model, &place, i, &model->parts[model->n_parts++]);
    return status ? status : split_join(model, &place);
}
