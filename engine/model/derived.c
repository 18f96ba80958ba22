/* derived.c: see derived.h. */
#include "model/derived.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "common/assert.h"
#include "model/types.h"

struct derived_tensor {
    struct model_tensor tensor; /* its name is owned */
    void *owned;                /* numbers, or the list of parts; NULL if neither */
};

struct derived {
    struct derived_tensor **tensors; /* [n_tensors], by name; pointers stay valid when the list grows */
    size_t n_tensors, capacity;
};

struct derived *derived_create(void)
{
    struct derived *derived = calloc(1, sizeof *derived);
    if (!derived) error_memory("weights");
    return derived;
}

static void destroy_tensor(struct derived_tensor *tensor)
{
    if (!tensor) return;
    free((char *)(uintptr_t)tensor->tensor.name);
    free(tensor->owned);
    free(tensor);
}

void derived_destroy(struct derived *derived)
{
    if (!derived) return;
    for (size_t i = 0; i < derived->n_tensors; i++) destroy_tensor(derived->tensors[i]);
    free(derived->tensors);
    free(derived);
}

/* The index of a name in the sorted list: that of its tensor, or where it would be inserted. */
static size_t place_of(const struct derived *derived, const char *name)
{
    size_t low = 0, high = derived->n_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(derived->tensors[middle]->tensor.name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct model_tensor *derived_find(const struct derived *derived, const char *name)
{
    size_t place = place_of(derived, name);
    bool found = place < derived->n_tensors && strcmp(derived->tensors[place]->tensor.name, name) == 0;
    return found ? &derived->tensors[place]->tensor : NULL;
}

/* Adds a tensor of this name, type and shape; takes ownership of `owned`, even on failure. */
static struct model_tensor *derived_add(struct derived *derived, const char *name, uint32_t type,
                                        const uint64_t ne[3], void *owned)
{
    struct derived_tensor *added = calloc(1, sizeof *added);
    char *copy = strdup(name);
    bool has_room = ARRAY_RESERVE(derived->tensors, derived->capacity, derived->n_tensors + 1);
    if (!added || !copy || !has_room) {
        free(added);
        free(copy);
        free(owned);
        error_memory("weights");
        return NULL;
    }
    const struct type_info *info = type_info(type);
    added->owned = owned;
    added->tensor = (struct model_tensor){
        .name = copy,
        .type = type,
        .n_dims = ne[2] > 1   ? 3
                  : ne[1] > 1 ? 2
                              : 1,
        .ne = {ne[0], ne[1], ne[2], 1},
        .size = ne[0] / info->block_length * info->block_size * ne[1] * ne[2],
    };
    size_t place = place_of(derived, name);
    memmove(&derived->tensors[place + 1], &derived->tensors[place],
            (derived->n_tensors - place) * sizeof(struct derived_tensor *));
    derived->tensors[place] = added;
    derived->n_tensors++;
    return &added->tensor;
}

const struct model_tensor *derived_view(struct derived *derived, const struct model_tensor *source,
                                        uint64_t first, const uint64_t ne[3], const char *name)
{
    const struct type_info *info = type_info(source->type);
    ENGINE_ASSERT(ne[0] == source->ne[0] &&
                  first + ne[1] * ne[2] <= source->ne[1] * source->ne[2] * source->ne[3]);
    struct model_tensor *view = derived_add(derived, name, source->type, ne, NULL);
    if (!view) return NULL;
    view->source = source;
    view->maker = source->maker;
    view->is_exact = source->is_exact;
    view->first_row = source->first_row + first;
    if (source->data)
        view->data =
            (const uint8_t *)source->data + source->ne[0] / info->block_length * info->block_size * first;
    return view;
}

const struct model_tensor *derived_stack(struct derived *derived, const struct model_tensor *const *parts,
                                         size_t n_parts, const char *name)
{
    const struct model_tensor **kept = malloc(n_parts * sizeof(struct model_tensor *));
    if (!kept) {
        error_memory("weights");
        return NULL;
    }
    memcpy(kept, parts, n_parts * sizeof(struct model_tensor *));
    for (size_t i = 1; i < n_parts; i++)
        ENGINE_ASSERT(parts[i]->type == parts[0]->type && parts[i]->size == parts[0]->size);
    const uint64_t ne[3] = {parts[0]->ne[0], parts[0]->ne[1], n_parts};
    struct model_tensor *stack = derived_add(derived, name, parts[0]->type, ne, (void *)kept);
    if (!stack) return NULL;
    stack->parts = kept;
    stack->n_parts = n_parts;
    stack->is_exact = parts[0]->is_exact;
    return stack;
}

const struct model_tensor *derived_numbers(struct derived *derived, const struct model_tensor *source,
                                           uint64_t ne0, uint64_t ne1, const char *name, float **values)
{
    float *numbers = calloc((size_t)ne0, (size_t)ne1 * sizeof *numbers);
    if (!numbers) {
        error_memory("weights");
        return NULL;
    }
    struct model_tensor *tensor =
        derived_add(derived, name, ENGINE_TYPE_F32, (const uint64_t[3]){ne0, ne1, 1}, numbers);
    if (!tensor) return NULL;
    tensor->source = source;
    tensor->data = *values = numbers;
    return tensor;
}
