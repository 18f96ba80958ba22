/* info.c: what a model's file says about embeddings. */
#include <stdlib.h>

#include "arch/arch.h"
#include "base/error.h"
#include "base/sized.h"
#include "internal.h"

/* GGUF's pooling_type: 0 none, then the values of enum engine_pooling; 4 ranks pairs of texts. */
static uint32_t pooling_of(const struct model *model, bool is_encoder)
{
    struct hparams reader = {.model = model};
    uint32_t otherwise = is_encoder ? ENGINE_POOLING_MEAN : ENGINE_POOLING_LAST;
    if (!hparams_family(model, reader.prefix)) return otherwise;
    uint32_t type = hparams_count(&reader, "pooling_type", 0);
    return type >= ENGINE_POOLING_MEAN && type <= ENGINE_POOLING_LAST ? type : otherwise;
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
    const struct engine_embedding_info known = {
        .struct_size = sizeof known,
        .is_encoder = arch.is_encoder,
        .pooling = pooling_of(model->model, arch.is_encoder),
        .n_embd = arch.n_embd,
        .n_context =
            arch.n_positions > 0 && arch.n_positions < arch.n_context ? arch.n_positions : arch.n_context,
    };
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}
