/* matrices.c: see matrices.h. */
#include "embedding/matrices.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "quantize/values.h"

#define MOST_VALUES ((uint64_t)1 << 28) /* of a matrix */

static double identity(double x)
{
    return x;
}

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double gelu(double x)
{
    return x * 0.5 * (1 + erf(x * 0.70710678118654752));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

activation_function *matrices_activation(const char *name)
{
    static const struct {
        const char *name;
        activation_function *compute;
    } all[] = {{"identity", identity}, {"tanh", tanh}, {"gelu", gelu},
               {"relu", relu},         {"silu", silu}, {"sigmoid", sigmoid}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i].name) == 0) return all[i].compute;
    return NULL;
}

const struct model_tensor *matrices_find(struct hparams *h, const char *name, uint64_t columns)
{
    const struct model_tensor *tensor = model_tensor_find(h->model, name);
    if (!tensor) return NULL;
    bool is_small = tensor->ne[0] > 0 && tensor->ne[1] > 0 && tensor->ne[0] <= MOST_VALUES / tensor->ne[1] &&
                    tensor->ne[2] == 1 && tensor->ne[3] == 1;
    if (tensor->ne[0] == columns && is_small) return tensor;
    hparams_fail(h, ENGINE_ERROR_DATA,
                 "the tensor %s has %" PRIu64 " x %" PRIu64 " values; %" PRIu64 " columns were expected",
                 name, tensor->ne[0], tensor->ne[1], columns);
    return NULL;
}

int matrices_load(const struct engine_model *model, const char *name, float **values)
{
    const struct model_tensor *tensor = model_tensor_find(model->model, name);
    *values = NULL;
    if (!tensor) return ENGINE_OK;
    size_t n = (size_t)values_count(tensor);
    float *loaded = malloc(n * sizeof *loaded), *scratch = malloc(n * sizeof *scratch);
    enum values_result result = VALUES_NO_MEMORY;
    if (loaded && scratch)
        result = values_convert(tensor, ENGINE_TYPE_F32, NULL, 0, n, scratch, (uint8_t *)loaded);
    free(scratch);
    *values = loaded;
    if (result == VALUES_OK) return ENGINE_OK;
    return result == VALUES_WRONG
               ? error_raise(ENGINE_ERROR_DATA, "%s: the tensor %s has values that are not finite",
                             model_path(model->model), name)
               : error_memory("matrix of the model's embeddings");
}

double matrices_row(const float *matrix, const float *bias, uint32_t n, uint32_t row, const double *x)
{
    const float *weights = matrix + (size_t)row * n;
    double sum = bias ? (double)bias[row] : 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)weights[i] * x[i];
    return sum;
}
