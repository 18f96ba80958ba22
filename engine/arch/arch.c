/* arch.c: the table of families, and the lookup of a model's family. See arch.h. */
#include "arch/arch.h"

#include <string.h>

#include "arch/families.h"
#include "arch/hparams.h"
#include "base/error.h"
#include "common/assert.h"

#define X(name) &arch_##name,
static const struct architecture *const architectures[] = {FAMILIES(X)};
#undef X
enum { N_FAMILIES = sizeof architectures / sizeof *architectures };

#define X(name) &arch_##name,
static const struct architecture *const eyes[] = {EYES(X)};
#undef X

/* ---- Those that the engine doesn't run ----------------------------------------------------------------- */

static const struct hf_type refused[] = {
    {.name = "deberta-v2", .refusal = "encoders of a kind that is not supported"},
    {.name = "electra", .refusal = "encoders of a kind that is not supported"},
    {.name = "bart", .refusal = "encoders with a decoder, of a kind that is not supported"},
    {.name = "whisper", .refusal = "encoders with a decoder, of a kind that is not supported"},
    {.name = "rwkv", .refusal = "recurrent, of a kind that is not supported"},
    {.name = "falcon_mamba", .refusal = "recurrent, of a kind that is not supported"},
    {.name = "jamba", .refusal = "recurrent, of a kind that is not supported"},
    {0},
};

/* Directories that are refused in words of their own, and files that `engine quantize` reads. */
static const struct architecture others[] = {
    {.name = "", .hf = {.types = refused}},
    {.name = "deci", .quantize = {.n_layers = 80}},
};
enum { N_OTHERS = sizeof others / sizeof *others };

/* ---- Finding ------------------------------------------------------------------------------------------- */

const struct architecture *arch_at(size_t index)
{
    if (index < N_FAMILIES) return architectures[index];
    return index - N_FAMILIES < N_OTHERS ? &others[index - N_FAMILIES] : NULL;
}

const struct architecture *arch_named(const char *name)
{
    const struct architecture *architecture;
    for (size_t i = 0; (architecture = arch_at(i)); i++)
        if (strcmp(architecture->name, name) == 0) return architecture;
    return NULL;
}

const struct architecture *arch_eye_at(size_t index)
{
    return index < sizeof eyes / sizeof *eyes ? eyes[index] : NULL;
}

/* The eye of a file that has "clip" as its family. */
static const struct architecture *find_eye(const struct model *model)
{
    struct engine_string projector;
    if (!metadata_string(model_metadata(model), "clip.projector_type", &projector) &&
        !metadata_string(model_metadata(model), "clip.vision.projector_type", &projector)) {
        error_raise(ENGINE_ERROR_DATA, "%s: no clip.projector_type in the metadata", model_path(model));
        return NULL;
    }
    for (size_t i = 0; i < sizeof eyes / sizeof *eyes; i++)
        if (projector.length == strlen(eyes[i]->projector) &&
            memcmp(projector.data, eyes[i]->projector, projector.length) == 0)
            return eyes[i];
    error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: eyes of the kind '%.*s' are not supported", model_path(model),
                (int)(projector.length < 64 ? projector.length : 64), projector.data);
    return NULL;
}

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
    if (strcmp(name, "clip") == 0) return find_eye(model);
    const struct architecture *architecture = arch_named(name);
    if (architecture && architecture->read) return architecture;
    error_raise(ENGINE_ERROR_UNSUPPORTED,
                "%s: the model family '%s' is not supported; see docs/models.md for those that are",
                model_path(model), name);
    return NULL;
}

int arch_read(const struct architecture *architecture, const struct model *model, void *hparams,
              struct arch_info *info)
{
    struct hparams reader = {.model = model};
    ENGINE_ASSERT(architecture->read && architecture->build);
    hparams_family(model, reader.prefix);
    architecture->read(&reader, hparams, info);
    if (architecture->kind == ARCH_EYE) return reader.status;
    info->n_embd = hparams_count_required(&reader, "embedding_length");
    info->makes_vectors = info->is_encoder || hparams_has(&reader, "pooling_type") ||
                          hparams_has(&reader, "classifier.output_labels");
    return reader.status;
}
