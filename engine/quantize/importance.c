/* importance.c: see importance.h.
 *
 * With inputs of mean zero that don't depend on each other, the expected squared error of a row's product is the sum
 * of the squared errors of its weights, each times the mean square of its input: that is what the weights are. Only
 * their ratios within a block matter. They are limited to 10^4, so that sums in float32 keep the smaller ones. */
#include "quantize/importance.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "model/imatrix.h"
#include "model/types.h"
#include "quantize/encode.h"
#include "quantize/values.h"

#define LEAST_WEIGHT 1e-4f /* of the largest in a block */

static void scale_block(const float *means, size_t n, float *weights)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) most = means[i] > most ? means[i] : most;
    for (size_t i = 0; i < n; i++) {
        float weight = most > 0 ? means[i] / most : 1;
        weights[i] = weight > LEAST_WEIGHT ? weight : LEAST_WEIGHT;
    }
}

static int make_weights(const char *path, const struct imatrix_entry *entry,
                        const struct model_tensor *tensor, uint32_t type, float **weights)
{
    const uint64_t *ne = tensor->ne;
    size_t length = type_info(type)->block_length;
    if (ne[3] != 1 || entry->n / ne[2] != ne[0] || entry->n % ne[2] != 0)
        return error_raise(
            ENGINE_ERROR_DATA,
            "%s: of another model: %s has %llu values, the model's %llu columns times %llu matrices", path,
            entry->name, (unsigned long long)entry->n, (unsigned long long)ne[0], (unsigned long long)ne[2]);
    *weights = malloc(entry->n * sizeof **weights);
    if (!*weights) return error_memory("importance matrix");
    for (uint64_t i = 0; i < entry->n; i += length) scale_block(entry->means + i, length, *weights + i);
    return ENGINE_OK;
}

static bool is_weighted(const struct selection *selection, size_t i)
{
    const struct model_tensor *tensor = selection->tensors[i];
    return values_count(tensor) > 0 && selection->types[i] != tensor->type &&
           encode_uses_weights(selection->types[i]);
}

static int find_weights(const struct selection *selection, const char *path, const struct imatrix *imatrix,
                        struct importance *importance)
{
    size_t n_weighted = 0, n_missing = 0;
    const char *missing = NULL;
    int status = ENGINE_OK;
    for (size_t i = 0; i < selection->n && !status; i++) {
        const struct model_tensor *tensor = selection->tensors[i];
        const struct imatrix_entry *entry = imatrix_find(imatrix, tensor->name);
        if (!is_weighted(selection, i)) continue;
        n_weighted++;
        if (entry) {
            status = make_weights(path, entry, tensor, selection->types[i], &importance->weights[i]);
            continue;
        }
        missing = missing ? missing : tensor->name;
        n_missing++;
    }
    if (status || n_missing == 0) return status;
    if (n_missing == n_weighted)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: of another model: it has values for none of the %zu matrices, but for %s",
                           path, n_weighted, imatrix_at(imatrix, 0)->name);
    log_line(ENGINE_LOG_WARNING, "%s lacks %zu of %zu matrices (%s%s): all columns of these count the same",
             path, n_missing, n_weighted, missing, n_missing > 1 ? ", …" : "");
    return ENGINE_OK;
}

int importance_read(const struct selection *selection, const char *path, struct importance *importance)
{
    struct imatrix *imatrix;
    *importance = (struct importance){.n = selection->n};
    int status = imatrix_open(path, &imatrix);
    if (status) return status;
    const char *dataset;
    bool named = imatrix_text(imatrix, &dataset);
    importance->weights = calloc(selection->n + 1, sizeof *importance->weights);
    importance->dataset = named ? strdup(dataset) : NULL;
    importance->n_entries = imatrix_count(imatrix);
    imatrix_chunks(imatrix, &importance->n_chunks);
    if (importance->weights && (importance->dataset || !named))
        status = find_weights(selection, path, imatrix, importance);
    else
        status = error_memory("importance matrix");
    imatrix_close(imatrix);
    return status;
}

void importance_free(struct importance *importance)
{
    for (size_t i = 0; importance->weights && i < importance->n; i++) free(importance->weights[i]);
    free(importance->weights);
    free(importance->dataset);
    *importance = (struct importance){0};
}
