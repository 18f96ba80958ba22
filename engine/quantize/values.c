/* values.c: see values.h. */
#include "quantize/values.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "model/types.h"
#include "quantize/encode.h"

uint64_t values_count(const struct model_tensor *tensor)
{
    const uint64_t *ne = tensor->ne; /* their product was checked when the file was read */
    return ne[0] * ne[1] * ne[2] * ne[3];
}

size_t values_size(uint32_t type, uint64_t n)
{
    const struct type_info *info = type_info(type);
    return (size_t)(n / info->block_length * info->block_size);
}

/* A tensor that has to be made gives whole rows. False: out of memory. */
static bool decode(const struct model_tensor *tensor, uint64_t at, size_t n, float *x)
{
    if (tensor->data) {
        quantize_decode(tensor->type, (const uint8_t *)tensor->data + values_size(tensor->type, at), n, x);
        return true;
    }
    uint64_t row = tensor->ne[0], first = at / row, n_rows = (at + n - 1) / row - first + 1;
    uint8_t *rows = malloc(values_size(tensor->type, n_rows * row));
    if (!rows) return false;
    model_tensor_read(tensor, first, n_rows, rows);
    quantize_decode(tensor->type, rows + values_size(tensor->type, at - first * row), n, x);
    free(rows);
    return true;
}

/* Row by row, since all rows of a matrix have the same weights. */
static void encode_weighted_rows(const struct model_tensor *tensor, uint32_t type, const float *weights,
                                 uint64_t at, size_t n, const float *x, uint8_t *bytes)
{
    uint64_t n_columns = tensor->ne[0], size = n_columns * tensor->ne[1];
    for (size_t i = 0; i < n;) {
        uint64_t column = (at + i) % n_columns, matrix = (at + i) / size;
        size_t some = n_columns - column < n - i ? (size_t)(n_columns - column) : n - i;
        quantize_encoder(type)(x + i, weights + matrix * n_columns + column, some,
                               bytes + values_size(type, i));
        i += some;
    }
}

enum values_result values_convert(const struct model_tensor *tensor, uint32_t type, const float *weights,
                                  uint64_t at, size_t n, float *x, uint8_t *bytes)
{
    if (!decode(tensor, at, n, x)) return VALUES_NO_MEMORY;
    float largest = encode_largest(type);
    bool good = true;
    for (size_t i = 0; i < n; i++) good &= fabsf(x[i]) <= largest; /* false for NaN */
    if (!good) return VALUES_WRONG;
    if (weights)
        encode_weighted_rows(tensor, type, weights, at, n, x, bytes);
    else
        quantize_encoder(type)(x, NULL, n, bytes);
    return quantize_encoded_is_finite(type, bytes, n) ? VALUES_OK : VALUES_WRONG;
}
