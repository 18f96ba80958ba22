/* arch.c: the table of families, and the lookup of a model's family. See arch.h. */
#include "arch/arch.h"

#include <string.h>

#include "arch/families.h"
#include "base/error.h"

#define X(name) &arch_##name,
static const struct architecture *const architectures[] = {FAMILIES(X)};
#undef X

const struct architecture *arch_of(const struct model *model)
{
    char name[HPARAMS_PREFIX_SIZE];
    struct engine_string type;
    if (metadata_string(model_metadata(model), "general.type", &type) && type.length == strlen("adapter") &&
        memcmp(type.data, "adapter", type.length) == 0) {
        error_raise(ENGINE_ERROR_UNSUPPORTED,
                    "%s is an adapter, not a model: name its model with -m, and the adapter with --lora",
                    model_path(model));
        return NULL;
    }
    if (!hparams_family(model, name)) {
        error_raise(ENGINE_ERROR_DATA, "%s: no general.architecture in the metadata", model_path(model));
        return NULL;
    }
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (strcmp(architectures[i]->name, name) == 0) return architectures[i];
    error_raise(ENGINE_ERROR_UNSUPPORTED,
                "%s: the model family '%s' is not supported; see docs/models.md for those that are",
                model_path(model), name);
    return NULL;
}

int arch_read(const struct architecture *architecture, const struct model *model, void *hparams,
              struct arch_info *info)
{
    struct hparams reader = {.model = model};
    hparams_family(model, reader.prefix);
    architecture->read(&reader, hparams, info);
    info->n_embd = hparams_count_required(&reader, "embedding_length");
    info->makes_vectors = info->is_encoder || hparams_has(&reader, "pooling_type") ||
                          hparams_has(&reader, "classifier.output_labels");
    return reader.status;
}
