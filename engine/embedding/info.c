/* info.c: what a model's file says about embeddings. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/sized.h"
#include "embedding/dense.h"
#include "embedding/head.h"
#include "internal.h"

/* GGUF's pooling_type: 0 none, then the values of enum engine_pooling; 4 ranks pairs of texts. */
static uint32_t pooling_of(const struct model *model, bool is_encoder, bool has_head)
{
    struct hparams reader = {.model = model};
    uint32_t otherwise = is_encoder ? ENGINE_POOLING_MEAN : ENGINE_POOLING_LAST;
    if (!hparams_family(model, reader.prefix)) return otherwise;
    uint32_t type = hparams_count(&reader, "pooling_type", 0);
    if (type == ENGINE_POOLING_RANK && has_head) return type;
    return type >= ENGINE_POOLING_MEAN && type <= ENGINE_POOLING_LAST ? type : otherwise;
}

/* Tokens that a text may have: sentence-transformers' max_seq_length, or all that the model was made for. */
static uint32_t longest_text(const struct model *model, const struct arch_info *arch)
{
    struct hparams reader = {.model = model};
    uint32_t n =
        arch->n_positions > 0 && arch->n_positions < arch->n_context ? arch->n_positions : arch->n_context;
    uint32_t length =
        hparams_family(model, reader.prefix) ? hparams_count(&reader, "engine.text_length", 0) : 0;
    return length > 0 && length < n ? length : n;
}

int engine_model_embedding_info(struct engine_model *model, struct engine_embedding_info *info)
{
    int status = SIZED_CHECK(info, engine_embedding_info, is_encoder);
    if (status) return status;
    const struct architecture *architecture = arch_of(model->model);
    if (!architecture) return ENGINE_ERROR_UNSUPPORTED;
    void *hparams = calloc(1, architecture->size);
    struct arch_info arch = {0};
    if (!hparams) return error_memory("model");
    status = arch_read(architecture, model->model, hparams, &arch);
    free(hparams);
    if (status) return status;
    struct head head;
    struct dense dense;
    bool has_head = head_describe(model, &head, &status);
    if (!status) status = dense_describe(model, &dense);
    if (status) return status;
    const struct engine_embedding_info known = {
        .struct_size = sizeof known,
        .is_encoder = arch.is_encoder,
        .pooling = pooling_of(model->model, arch.is_encoder, has_head),
        .n_embd = arch.n_embd,
        .has_source = arch.has_source,
        .n_context = longest_text(model->model, &arch),
        .n_labels = head.n_labels,
        .label_scores = head.label_scores,
        .n_values = dense.n_out,
    };
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}

int engine_model_label(const struct engine_model *model, uint32_t index, struct engine_string *label)
{
    const struct engine_metadata *metadata = &model->getters;
    char key[128];
    size_t count = 0;
    snprintf(key, sizeof key, "%.80s.classifier.output_labels", model->architecture);
    if (metadata->get_count(metadata->context, key, &count) != ENGINE_OK || index >= count)
        return error_raise(ENGINE_ERROR_NOT_FOUND, "the model's file has no name for label %u", index);
    return metadata->get_strings(metadata->context, key, index, 1, label);
}
