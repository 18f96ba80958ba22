/* engine-importance.c: the functions of engine.h for importance matrices. */
#include <stdlib.h>

#include "base/error.h"
#include "base/sized.h"
#include "internal.h"
#include "model/imatrix-sums.h"

struct engine_importance {
    struct imatrix_sums *sums;
};

int engine_importance_create(struct engine_importance **out)
{
    struct engine_importance *importance = calloc(1, sizeof *importance);
    if (!importance) return error_memory("importance matrix");
    int status = imatrix_sums_create(&importance->sums);
    if (status)
        free(importance);
    else
        *out = importance;
    return status;
}

void engine_importance_destroy(struct engine_importance *importance)
{
    if (!importance) return;
    imatrix_sums_destroy(importance->sums);
    free(importance);
}

int engine_importance_add(struct engine_importance *importance, const struct engine_watched *value)
{
    struct engine_watched known;
    int status = SIZED_CHECK(value, engine_watched, n_used);
    if (status) return status;
    sized_read(&known, sizeof known, value);
    if (known.kind != ENGINE_WATCH_INPUTS || !known.weight)
        return error_raise(ENGINE_ERROR_ARGUMENT, "an importance matrix takes values of ENGINE_WATCH_INPUTS");
    const struct imatrix_input input = {
        .name = known.weight,
        .rows = known.data,
        .n_columns = known.ne[0],
        .n_rows = known.ne[1],
        .n_tokens = known.ne[2],
        .n_matrices = known.n_matrices,
        .experts = known.experts,
        .n_used = known.n_used,
    };
    return imatrix_sums_add(importance->sums, &input);
}

int engine_importance_read(struct engine_importance *importance, const char *path)
{
    return imatrix_sums_merge(importance->sums, path);
}

int engine_importance_write(const struct engine_importance *importance,
                            const struct engine_importance_text *text,
                            int (*write)(void *user, const void *data, size_t size), void *user)
{
    struct engine_importance_text known = {0};
    int status = SIZED_CHECK(text, engine_importance_text, chunk_size);
    if (status) return status;
    sized_read(&known, sizeof known, text);
    const struct imatrix_origin origin = {known.name, known.n_chunks, known.chunk_size};
    uint8_t *bytes;
    size_t size;
    status = imatrix_sums_write(importance->sums, &origin, &bytes, &size);
    if (status) return status;
    status = write(user, bytes, size);
    free(bytes);
    return status;
}

int engine_importance_get_info(const struct engine_importance *importance,
                               struct engine_importance_info *info)
{
    int status = SIZED_CHECK(info, engine_importance_info, n_unused);
    if (status) return status;
    struct engine_importance_info known = {.n_matrices = imatrix_sums_count(importance->sums),
                                           .n_unused = imatrix_sums_unused(importance->sums)};
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}
