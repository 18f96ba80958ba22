/* pieces.c: see pieces.h. */
#include "model/hf/pieces.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/half.h"
#include "model/types.h"

struct assembly {
    struct model_maker maker; /* first: it is found by its address */
    const struct hf_piece *pieces;
    size_t n_pieces;
    uint64_t row_size; /* bytes */
};

static uint64_t rows_of(const struct hf_piece *piece)
{
    return piece->ne[1] * piece->ne[2] * piece->ne[3];
}

static uint64_t bytes_of(const struct hf_source *source, uint64_t n)
{
    const struct type_info *info = type_info(source->type);
    return n / info->block_length * info->block_size;
}

/* Multiplies values in place, rounding to their type. */
static void multiply(uint32_t type, float factor, uint64_t n, uint8_t *values)
{
    for (uint64_t i = 0; i < n; i++) {
        float value;
        uint16_t half;
        if (type == ENGINE_TYPE_F32) {
            memcpy(&value, values + 4 * i, sizeof value);
            value *= factor;
            memcpy(values + 4 * i, &value, sizeof value);
            continue;
        }
        memcpy(&half, values + 2 * i, sizeof half);
        if (type == ENGINE_TYPE_F16)
            half = engine_f32_to_f16(engine_f16_to_f32(half) * factor);
        else
            half = bfloat_from_float(engine_bf16_to_f32(half) * factor);
        memcpy(values + 2 * i, &half, sizeof half);
    }
}

static void copy_row(const struct hf_piece *piece, uint64_t row, uint8_t *to, uint64_t row_size)
{
    const struct hf_source *source = piece->source;
    uint64_t at = piece->start + row % piece->ne[1] * piece->stride[1] +
                  row / piece->ne[1] % piece->ne[2] * piece->stride[2] +
                  row / piece->ne[1] / piece->ne[2] * piece->stride[3];
    if (source->decode) {
        if (piece->stride[0] == 1)
            source->decode(source, at, piece->ne[0], to);
        else
            for (uint64_t i = 0; i < piece->ne[0]; i++)
                source->decode(source, at + i * piece->stride[0], 1, to + i * bytes_of(source, 1));
        return;
    }
    uint64_t size = bytes_of(source, 1);
    const uint8_t *from = source->data + at * size;
    if (piece->stride[0] == 1)
        memcpy(to, from, (size_t)row_size);
    else
        for (uint64_t i = 0; i < piece->ne[0]; i++)
            memcpy(to + i * size, from + i * piece->stride[0] * size, (size_t)size);
}

static void make_rows(const struct model_maker *maker, uint64_t first, uint64_t n, uint8_t *rows)
{
    const struct assembly *assembly = (const struct assembly *)maker;
    for (size_t i = 0; i < assembly->n_pieces && n > 0; i++) {
        const struct hf_piece *piece = &assembly->pieces[i];
        uint64_t end = rows_of(piece);
        for (; first < end && n > 0; first++, n--) {
            copy_row(piece, first, rows, assembly->row_size);
            if (piece->factor != 0) multiply(piece->source->type, piece->factor, piece->ne[0], rows);
            rows += assembly->row_size;
        }
        first -= first < end ? first : end;
    }
}

/* Whether a piece's values are where they should be, and aligned. */
static bool is_dense(const struct hf_piece *piece)
{
    uint64_t stride = 1;
    if (piece->source->decode || piece->factor != 0) return false;
    for (int i = 0; i < 4; i++) {
        if (piece->ne[i] != 1 && piece->stride[i] != stride) return false;
        stride *= piece->ne[i];
    }
    uintptr_t size = (uintptr_t)bytes_of(piece->source, 1);
    return ((uintptr_t)piece->source->data + piece->start * size) % size == 0;
}

int hf_assemble(struct metadata *metadata, const struct hf_piece *pieces, size_t n_pieces,
                const uint64_t ne[4], struct model_tensor *tensor)
{
    const struct hf_source *first = pieces[0].source;
    uint64_t row_size;
    tensor->type = first->type;
    tensor->is_exact = first->decode && first->type != ENGINE_TYPE_F32;
    tensor->n_dims = 1;
    for (uint32_t i = 0; i < 4; i++) {
        tensor->ne[i] = ne[i];
        if (ne[i] > 1) tensor->n_dims = i + 1;
    }
    if (!type_row_size(first->type, ne[0], &row_size) ||
        checked_mul(row_size, ne[1] * ne[2] * ne[3], &tensor->size))
        return error_raise(ENGINE_ERROR_DATA, "%s has rows of %llu values, which are not whole blocks",
                           tensor->name, (unsigned long long)ne[0]);
    if (n_pieces == 1 && is_dense(pieces)) {
        tensor->data = first->data + bytes_of(first, pieces->start);
        return ENGINE_OK;
    }
    struct assembly *assembly = metadata_allocate(metadata, sizeof *assembly);
    struct model_bytes *sources = metadata_allocate(metadata, n_pieces * sizeof *sources);
    if (!assembly || !sources) return error_memory("tensor list");
    for (size_t i = 0; i < n_pieces; i++)
        sources[i] = (struct model_bytes){pieces[i].source->data, pieces[i].source->size};
    *assembly = (struct assembly){.maker = {.make = make_rows, .sources = sources, .n_sources = n_pieces},
                                  .pieces = pieces,
                                  .n_pieces = n_pieces,
                                  .row_size = row_size};
    tensor->maker = &assembly->maker;
    return ENGINE_OK;
}
