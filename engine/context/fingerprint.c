/* fingerprint.c: identifies a model as far as its caches depend on it: the family's metadata, and the names,
 * shapes, types and samples of the tensors. */
#include <stdlib.h>
#include <string.h>

#include "context/context.h"

#define SAMPLE 64 /* bytes at the beginning, middle and end of a tensor */

uint64_t hash_add(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t word;
    for (size_t i = 0; i < size; i += sizeof word) {
        word = 0;
        memcpy(&word, bytes + i, size - i < sizeof word ? size - i : sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return (hash ^ size) * 0xff51afd7ed558ccdu;
}

static uint64_t add_text(uint64_t hash, const char *text)
{
    return hash_add(hash, text, strlen(text));
}

/* A tensor without data of its own: samples of its first and last row; parts have their own names. */
static uint64_t add_made(uint64_t hash, const struct model_tensor *tensor)
{
    uint64_t n_rows = tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
    size_t row_size = n_rows > 0 ? (size_t)(tensor->size / n_rows) : 0;
    uint8_t *row = tensor->maker && row_size > 0 ? malloc(row_size) : NULL;
    if (!row) return hash;
    model_tensor_read(tensor, 0, 1, row);
    hash = hash_add(hash, row, row_size);
    model_tensor_read(tensor, n_rows - 1, 1, row);
    hash = hash_add(hash, row, row_size);
    free(row);
    return hash;
}

static uint64_t add_tensor(uint64_t hash, const struct model_tensor *tensor)
{
    hash = add_text(hash, tensor->name);
    hash = hash_add(hash, &tensor->type, sizeof tensor->type);
    hash = hash_add(hash, tensor->ne, sizeof tensor->ne);
    if (!tensor->data) return add_made(hash, tensor);
    const unsigned char *data = tensor->data;
    if (tensor->size <= (uint64_t)3 * SAMPLE) return hash_add(hash, data, (size_t)tensor->size);
    hash = hash_add(hash, data, SAMPLE);
    hash = hash_add(hash, data + tensor->size / 2, SAMPLE);
    return hash_add(hash, data + tensor->size - SAMPLE, SAMPLE);
}

static uint64_t add_entry(uint64_t hash, const struct metadata_entry *entry)
{
    hash = add_text(hash, entry->key);
    if (entry->type != METADATA_STRING)
        return hash_add(hash, entry->values, entry->count * metadata_element_size(entry->type));
    const struct engine_string *texts = entry->values;
    for (size_t i = 0; i < entry->count; i++) hash = hash_add(hash, texts[i].data, texts[i].length);
    return hash;
}

uint64_t context_adapters_hash(const struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    uint64_t hash = 0;
    for (size_t i = 0; i < plan->n_adapters; i++) {
        const struct graph_adapter *used = &plan->adapters[i];
        if (used->scale == 0) continue;
        hash = hash_add(hash ? hash : 1, &used->scale, sizeof used->scale);
        for (size_t k = 0; k < used->adapter->n_parts; k++) {
            const struct adapter_part *part = &used->adapter->parts[k];
            hash = add_text(hash, part->target);
            hash = hash_add(hash, &part->scale, sizeof part->scale);
            hash = add_tensor(add_tensor(hash, &part->a), &part->b);
        }
    }
    return hash;
}

uint64_t context_fingerprint(const struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    const struct model *model = plan->model->model;
    const struct metadata *metadata = model_metadata(model);
    const char *family = plan->architecture->name;
    uint64_t hash = add_text(1, family);
    for (size_t i = 0; i < metadata_count(metadata); i++) {
        const struct metadata_entry *entry = metadata_at(metadata, i);
        if (strncmp(entry->key, family, strlen(family)) == 0) hash = add_entry(hash, entry);
    }
    for (size_t i = 0; i < model_tensor_count(model); i++) hash = add_tensor(hash, model_tensor_at(model, i));
    /* The context's length may decide which of them are used (rope factors, for example). */
    for (size_t i = 0; i < plan->n_weights; i++)
        if (!plan->weights[i].is_factor) hash = add_tensor(hash, plan->weights[i].tensor);
    uint64_t adapters = context_adapters_hash(context);
    return adapters ? hash_add(hash, &adapters, sizeof adapters) : hash;
}
