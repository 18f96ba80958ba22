/* engine-model.c: the functions of engine.h that say what a model's file has. engine.c opens and closes
 * models. */
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "internal.h"
#include "model/model.h"
#include "model/types.h"
#include "model/verify.h"

int engine_model_verify(const char *path, const char *tokenizer_path,
                        const struct engine_verify_options *options, struct engine_verified *verified)
{
    struct engine_verify_options known = {0};
    struct verified found;
    int status = options ? SIZED_CHECK(options, engine_verify_options, user) : ENGINE_OK;
    if (!status && verified) status = SIZED_CHECK(verified, engine_verified, n_bytes);
    if (status) return status;
    if (options) sized_read(&known, sizeof known, options);
    status = model_verify(path, tokenizer_path, known.progress, known.user, &found);
    if (status || !verified) return status;
    struct engine_verified result = {
        .n_files = found.n_files, .n_unknown = found.n_unknown, .n_bytes = found.n_bytes};
    sized_write(verified, &result, sizeof result);
    return ENGINE_OK;
}

const struct engine_metadata *engine_model_metadata(const struct engine_model *model)
{
    return &model->getters;
}

size_t engine_model_metadata_count(const struct engine_model *model)
{
    return metadata_count(model_metadata(model->model));
}

void engine_model_metadata_at(const struct engine_model *model, size_t index,
                              struct engine_metadata_entry *entry)
{
    const struct metadata_entry *found = metadata_at(model_metadata(model->model), index);
    *entry = (struct engine_metadata_entry){
        .key = found->key, .type = metadata_entry_type(found), .count = found->count};
}

size_t engine_model_tensor_count(const struct engine_model *model)
{
    return model_tensor_count(model->model);
}

void engine_model_tensor_at(const struct engine_model *model, size_t index,
                            struct engine_model_tensor *tensor)
{
    const struct model_tensor *found = model_tensor_at(model->model, index);
    *tensor = (struct engine_model_tensor){
        .name = found->name,
        .type_name = type_info(found->type)->name,
        .type = found->type,
        .n_dims = found->n_dims,
        .size = found->size,
    };
    memcpy(tensor->ne, found->ne, sizeof tensor->ne);
}

/* Tensors may share bytes of the file, so that even their number of elements could overflow. */
static uint64_t count_parameters(const struct model *model)
{
    uint64_t total = 0;
    for (size_t i = 0; i < model_tensor_count(model); i++) {
        const uint64_t *ne = model_tensor_at(model, i)->ne;
        if (checked_add(total, ne[0] * ne[1] * ne[2] * ne[3], &total)) return UINT64_MAX;
    }
    return total;
}

int engine_model_get_info(const struct engine_model *model, struct engine_model_info *info)
{
    int status = SIZED_CHECK(info, engine_model_info, n_parameters);
    if (status != ENGINE_OK) return status;
    struct engine_model_info known = {
        .format = model_format(model->model),
        .architecture = model->architecture,
        .name = model->name,
        .file_size = model_file_size(model->model),
        .n_parameters = count_parameters(model->model),
    };
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}
