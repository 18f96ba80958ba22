/* gguf.c: adapters in GGUF files, as llama.cpp's convert_lora_to_gguf writes them: general.type "adapter",
 * adapter.type "lora", adapter.lora.alpha, and for each matrix NAME the tensors NAME.lora_a [n_in, r] and
 * NAME.lora_b [r, n_out]; for experts with a third dimension. The token embedding's are [r, n_vocab] and [r,
 * n_embd]. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/adapter.h"
#include "base/error.h"

#define SUFFIX_SIZE 7 /* of ".lora_a" */

static bool text_is(const struct metadata *metadata, const char *key, const char *expected)
{
    struct engine_string text;
    return metadata_string(metadata, key, &text) && text.length == strlen(expected) &&
           memcmp(text.data, expected, text.length) == 0;
}

static int check_kind(const struct model *model, const struct adapter *adapter)
{
    const struct metadata *metadata = model_metadata(adapter->file);
    struct engine_string family = {0}, expected = {0};
    if (!text_is(metadata, "general.type", "adapter"))
        return error_raise(ENGINE_ERROR_DATA,
                           "%s is not an adapter: its general.type is not \"adapter\" (is it a model?)",
                           adapter->path);
    if (!text_is(metadata, "adapter.type", "lora"))
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: only adapters of type \"lora\" are supported",
                           adapter->path);
    if (metadata_find(metadata, "adapter.alora.invocation_tokens"))
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s: activated LoRA (adapter.alora.invocation_tokens) is not supported",
                           adapter->path);
    metadata_string(model_metadata(model), "general.architecture", &expected);
    if (!metadata_string(metadata, "general.architecture", &family) || family.length != expected.length ||
        memcmp(family.data, expected.data, family.length) != 0)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s is an adapter of another model: its family is %.*s, that of %s is %.*s",
                           adapter->path, (int)family.length, family.length ? family.data : "",
                           model_path(model), (int)expected.length, expected.length ? expected.data : "");
    return ENGINE_OK;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), n = strlen(suffix);
    return length > n && strcmp(name + length - n, suffix) == 0;
}

/* Adds the part whose first factor is `a`. */
static int add_part(struct adapter *adapter, const struct model_tensor *a, double alpha)
{
    size_t length = strlen(a->name) - SUFFIX_SIZE;
    char *target = adapter_allocate(adapter, length + 1);
    char *other = adapter_allocate(adapter, length + SUFFIX_SIZE + 1);
    if (!target || !other) return ENGINE_ERROR_MEMORY;
    memcpy(target, a->name, length);
    memcpy(other, a->name, length);
    memcpy(other + length, ".lora_b", SUFFIX_SIZE);
    const struct model_tensor *b = model_tensor_find(adapter->file, other);
    if (!b)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has no counterpart %s", adapter->path, a->name, other);
    adapter->parts[adapter->n_parts++] = (struct adapter_part){
        .target = target,
        .is_rows = strcmp(target, "token_embd.weight") == 0 || strcmp(target, "position_embd.weight") == 0,
        .a = *a,
        .b = *b,
        .scale = (float)(alpha != 0 ? alpha / (double)b->ne[0] : 1),
    };
    return ENGINE_OK;
}

int adapter_read_gguf(const struct model *model, struct adapter *adapter)
{
    double alpha = 0;
    adapter->format = "GGUF";
    int status = model_open(adapter->path, NULL, &adapter->file);
    if (status) return error_wrap(status, "reading an adapter");
    status = check_kind(model, adapter);
    if (status) return status;
    metadata_float(model_metadata(adapter->file), "adapter.lora.alpha", &alpha);
    if (!isfinite(alpha))
        return error_raise(ENGINE_ERROR_DATA, "%s: adapter.lora.alpha is not finite", adapter->path);
    size_t n = model_tensor_count(adapter->file);
    adapter->parts = calloc(n + 1, sizeof *adapter->parts);
    if (!adapter->parts) return error_memory("adapter");
    for (size_t i = 0; i < n && !status; i++) {
        const struct model_tensor *tensor = model_tensor_at(adapter->file, i);
        if (ends_with(tensor->name, ".lora_a")) {
            status = add_part(adapter, tensor, alpha);
        } else if (!ends_with(tensor->name, ".lora_b")) {
            status = error_raise(ENGINE_ERROR_UNSUPPORTED,
                                 "%s: the tensor %s is not a factor of a low-rank adapter (NAME.lora_a, "
                                 "NAME.lora_b); trained biases and whole tensors are not supported",
                                 adapter->path, tensor->name);
        }
    }
    /* Each .lora_a has its .lora_b; so if there are as many of both, each .lora_b has its .lora_a. */
    if (!status && 2 * adapter->n_parts != n)
        status = error_raise(ENGINE_ERROR_DATA, "%s: a tensor NAME.lora_b has no counterpart NAME.lora_a",
                             adapter->path);
    return status;
}
