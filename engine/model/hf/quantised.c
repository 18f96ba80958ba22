/* quantised.c: matrices that directories have in fewer bits: FP8 with scales, MXFP4, GPTQ's and AWQ's 4 bits,
 * and BitNet's three values. Their values are the published ones, exactly, in a type that can hold them. A
 * matrix [rows, k] is stored
 *
 *   FP8     as E4M3 [rows, k], with .weight_scale_inv, .weight_scale or .scale for blocks, rows or the whole
 *   MXFP4   as _blocks [n, rows, k / 32, 16], two values a byte, and _scales [n, rows, k / 32], powers of
 *           two; or beside FP8 as .weight [rows, k / 2] and .scale [rows, k / 32]
 *   GPTQ    transposed, as .qweight [k / 8, rows], .scales [groups, rows], .qzeros [groups, rows / 8], and
 *           perhaps .g_idx [k], the group of each input
 *   AWQ     transposed, as .qweight [k, rows / 8], and the same scales and zeros; eight values of a word are
 *           in the order 0, 2, 4, 6, 1, 3, 5, 7
 *   BitNet  as U8 [rows / 4, k], where bits 2 i and 2 i + 1 are those of row i * rows / 4 + r, less 1, with
 *           .weight_scale [1]; or as it was trained, with values that are rounded to -m, 0 or m, their mean
 *           magnitude, whenever the model runs
 *
 * MXFP4 becomes GGUF's, FP8 bfloat16 if its scales are powers of two, BitNet if the scale is bfloat16, GPTQ
 * and AWQ Q4_0 if they are symmetric and their groups adjacent; all others float32. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/half.h"
#include "model/file.h"
#include "model/hf/internal.h"
#include "model/hf/names.h"
#include "model/safetensors.h"

#define BLOCK      32 /* of MXFP4 and Q4_0 */
#define SIZE_Q4_0  18
#define SIZE_MXFP4 17

struct quantised {
    struct hf_source source;
    enum hf_method method;
    uint64_t k, n_rows, n;
    const uint8_t *codes;
    /* the companions; NULL: none */
    const struct safetensors_tensor *scales, *zeros, *groups;
    uint64_t block_rows, block_columns; /* values that share a scale */
    uint32_t zero_offset;               /* added to stored zeros */
    float unit;                         /* BitNet: the magnitude of all values that aren't 0 */
};
_Static_assert(offsetof(struct quantised, source) == 0, "a source is its struct quantised");

/* ---- Numbers ------------------------------------------------------------------------------------------- */

static uint32_t word_at(const void *data, uint64_t index)
{
    return engine_load_u32((const uint8_t *)data + 4 * index);
}

static float e4m3_to_float(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24, exponent = code >> 3 & 15, fraction = code & 7;
    if ((code & 0x7f) == 0x7f) return NAN;
    if (exponent == 0) return (float)fraction * (sign ? -1.0f / 512 : 1.0f / 512);
    return engine_float_of_bits(sign | (exponent + 120) << 23 | fraction << 20);
}

/* A number of a tensor of scales: F32, F16, BF16 or F8_E8M0. */
static float scale_at(const struct safetensors_tensor *scales, uint64_t index)
{
    const uint8_t *data = scales->data;
    if (scales->type == ENGINE_TYPE_F32) return engine_float_of_bits(word_at(data, index));
    if (scales->type == ENGINE_TYPE_F16) return engine_load_f16(data + 2 * index);
    if (scales->type == ENGINE_TYPE_BF16) return engine_bf16_to_f32(engine_load_u16(data + 2 * index));
    return ldexpf(1, data[index] - 127);
}

static uint64_t count_of(const struct safetensors_tensor *tensor)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++) n *= tensor->ne[i];
    return n;
}

/* ---- FP8 ----------------------------------------------------------------------------------------------- */

static void decode_fp8(const struct hf_source *source, uint64_t at, uint64_t n, uint8_t *values)
{
    const struct quantised *q = (const struct quantised *)source;
    uint64_t row = at / q->k, column = at % q->k, per_row = (q->k + q->block_columns - 1) / q->block_columns;
    uint64_t per_matrix = (q->n_rows + q->block_rows - 1) / q->block_rows;
    uint64_t first = (row / q->n_rows * per_matrix + row % q->n_rows / q->block_rows) * per_row;
    bool is_one = q->scales && count_of(q->scales) == 1;
    for (uint64_t i = 0; i < n; i++) {
        float value = e4m3_to_float(q->codes[at + i]);
        if (q->scales) value *= scale_at(q->scales, is_one ? 0 : first + (column + i) / q->block_columns);
        uint16_t half = (uint16_t)(engine_bits_of_float(value) >> 16); /* exact where it is used */
        if (source->type == ENGINE_TYPE_F32)
            memcpy(values + 4 * i, &value, sizeof value);
        else
            memcpy(values + 2 * i, &half, sizeof half);
    }
}

/* Products with powers of two fit bfloat16, as long as they are in its range. */
static bool has_powers_of_two(const struct safetensors_tensor *scales)
{
    for (uint64_t i = 0; scales && i < count_of(scales); i++) {
        int exponent;
        float scale = scale_at(scales, i);
        if (frexpf(scale, &exponent) != 0.5f || exponent < -100 || exponent > 100) return false;
    }
    return true;
}

/* ---- BitNet -------------------------------------------------------------------------------------------- */

static void decode_bitnet(const struct hf_source *source, uint64_t at, uint64_t n, uint8_t *values)
{
    const struct quantised *q = (const struct quantised *)source;
    uint64_t row = at / q->k, column = at % q->k, quarter = q->n_rows / 4;
    for (uint64_t i = 0; i < n; i++) {
        int code = q->codes[row % quarter * q->k + column + i] >> (row / quarter * 2) & 3;
        float value = (float)(code - 1) * q->unit;
        uint16_t half = (uint16_t)(engine_bits_of_float(value) >> 16); /* exact where it is used */
        if (source->type == ENGINE_TYPE_F32)
            memcpy(values + 4 * i, &value, sizeof value);
        else
            memcpy(values + 2 * i, &half, sizeof half);
    }
}

/* Values as they were trained; `scales` is the matrix itself. */
static void decode_trained(const struct hf_source *source, uint64_t at, uint64_t n, uint8_t *values)
{
    const struct quantised *q = (const struct quantised *)source;
    for (uint64_t i = 0; i < n; i++) {
        float value = rintf(scale_at(q->scales, at + i) / q->unit);
        value = (value < -1 ? -1 : value > 1 ? 1 : value) * q->unit;
        memcpy(values + 4 * i, &value, sizeof value);
    }
}

static float mean_magnitude(const struct safetensors_tensor *matrix)
{
    double sum = 0;
    uint64_t n = count_of(matrix);
    for (uint64_t i = 0; i < n; i++) sum += fabs((double)scale_at(matrix, i));
    return fmaxf((float)(sum / (double)n), 1e-5f);
}

/* ---- MXFP4 --------------------------------------------------------------------------------------------- */

/* GGUF's blocks: the scale, then bytes with value i and value i + 16. Stored are bytes with values 2 i and
 * 2 i + 1. */
static void decode_mxfp4(const struct hf_source *source, uint64_t at, uint64_t n, uint8_t *values)
{
    const struct quantised *q = (const struct quantised *)source;
    for (uint64_t block = at / BLOCK; block < (at + n) / BLOCK; block++, values += SIZE_MXFP4) {
        const uint8_t *codes = q->codes + block * (BLOCK / 2);
        values[0] = ((const uint8_t *)q->scales->data)[block];
        for (int i = 0; i < BLOCK / 2; i++) {
            int low = codes[i / 2] >> (i % 2 * 4) & 15, high = codes[8 + i / 2] >> (i % 2 * 4) & 15;
            values[1 + i] = (uint8_t)(low | high << 4);
        }
    }
}

/* ---- GPTQ and AWQ -------------------------------------------------------------------------------------- */

/* Where AWQ has each of eight values. */
static const uint8_t awq_places[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static uint32_t code_at(const struct quantised *q, uint64_t row, uint64_t column)
{
    if (q->method == HF_GPTQ) return word_at(q->codes, column / 8 * q->n_rows + row) >> (column % 8 * 4) & 15;
    return word_at(q->codes, column * (q->n_rows / 8) + row / 8) >> (awq_places[row % 8] * 4) & 15;
}

static uint32_t zero_at(const struct quantised *q, uint64_t row, uint64_t group)
{
    uint32_t word = word_at(q->zeros->data, group * (q->n_rows / 8) + row / 8);
    uint32_t zero = word >> ((q->method == HF_GPTQ ? row % 8 : awq_places[row % 8]) * 4);
    return (zero + q->zero_offset) & 15; /* 0 less 1 is stored as 15 */
}

static uint64_t group_of(const struct quantised *q, uint64_t column)
{
    return q->groups ? word_at(q->groups->data, column) : column / q->block_columns;
}

static void decode_groups(const struct hf_source *source, uint64_t at, uint64_t n, uint8_t *values)
{
    const struct quantised *q = (const struct quantised *)source;
    uint64_t row = at / q->k, column = at % q->k;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t group = group_of(q, column + i);
        float scale = scale_at(q->scales, group * q->n_rows + row);
        float value = (float)((int32_t)code_at(q, row, column + i) - (int32_t)zero_at(q, row, group)) * scale;
        memcpy(values + 4 * i, &value, sizeof value);
    }
}

/* Q4_0: the scale as float16, then bytes with value i and value i + 16, each plus 8. */
static void decode_blocks(const struct hf_source *source, uint64_t at, uint64_t n, uint8_t *values)
{
    const struct quantised *q = (const struct quantised *)source;
    for (uint64_t i = 0; i < n; i += BLOCK, values += SIZE_Q4_0) {
        uint64_t row = (at + i) / q->k, column = (at + i) % q->k;
        uint64_t scale = group_of(q, column) * q->n_rows + row;
        memcpy(values, (const uint8_t *)q->scales->data + 2 * scale, 2);
        for (uint64_t k = 0; k < BLOCK / 2; k++)
            values[2 + k] =
                (uint8_t)(code_at(q, row, column + k) | code_at(q, row, column + k + BLOCK / 2) << 4);
    }
}

/* Whether Q4_0 has the same values. */
static bool fits_q4_0(const struct quantised *q)
{
    if (q->k % BLOCK != 0 || q->block_columns % BLOCK != 0 || q->scales->type != ENGINE_TYPE_F16)
        return false;
    for (uint64_t column = 0; q->groups && column < q->k; column++)
        if (group_of(q, column) != column / q->block_columns) return false;
    uint32_t eights = q->zero_offset ? 0x77777777 : 0x88888888;
    for (uint64_t i = 0; i < count_of(q->zeros); i++)
        if (word_at(q->zeros->data, i) != eights) return false;
    return true;
}

/* ---- Companions ---------------------------------------------------------------------------------------- */

static const struct safetensors_tensor *find_stored(const struct model *model, const char *base,
                                                    const char *suffix)
{
    char name[600];
    const struct safetensors_tensor *found = NULL;
    snprintf(name, sizeof name, "%s%s", base, suffix);
    for (size_t i = 0; i < model->n_shards && !found; i++) found = safetensors_find(model->shards[i], name);
    return found;
}

/* Whether a companion has this type, and so many values. */
static bool is_like(const struct safetensors_tensor *tensor, const char *type, uint64_t n)
{
    return tensor && strcmp(tensor->type_name, type) == 0 && count_of(tensor) == n;
}

static int quantised_refuse(const struct model *model, const struct safetensors_tensor *stored,
                            const char *what)
{
    return error_raise(ENGINE_ERROR_DATA, "%s: %s: its %s are missing, or have another type or shape",
                       model->path, stored->name, what);
}

/* Whether the scales are [rows] or [rows, 1]. Their number does not say so: a matrix may have as many
 * blocks as rows. */
static bool has_row_scales(const struct quantised *q, const struct safetensors_tensor *stored)
{
    const struct safetensors_tensor *scales = q->scales;
    if (!scales || scales->n_dims == 0 || count_of(scales) != q->n_rows * q->n) return false;
    uint64_t last = scales->ne[scales->n_dims - 1];
    return scales->n_dims == stored->n_dims ? last == 1 : last == q->n_rows;
}

static int read_fp8(const struct model *model, const struct hf_config *config, const char *base,
                    const struct safetensors_tensor *stored, struct quantised *q)
{
    q->scales = find_stored(model, base, ".weight_scale_inv");
    if (!q->scales) q->scales = find_stored(model, base, ".weight_scale");
    if (!q->scales) q->scales = find_stored(model, base, "_scale_inv");
    if (!q->scales) q->scales = find_stored(model, base, ".scale");
    if (stored->n_dims < 2 || stored->n_dims > 3) return quantised_refuse(model, stored, "rows");
    q->k = stored->ne[stored->n_dims - 1];
    q->n_rows = stored->ne[stored->n_dims - 2];
    q->n = stored->n_dims == 3 ? stored->ne[0] : 1;
    uint64_t count = q->scales ? count_of(q->scales) : 1;
    q->block_rows = config->block_rows;
    q->block_columns = config->block_columns ? config->block_columns : q->k;
    if (has_row_scales(q, stored)) q->block_rows = 1, q->block_columns = q->k;
    uint64_t per_row = (q->k + q->block_columns - 1) / q->block_columns;
    uint64_t per_column = (q->n_rows + q->block_rows - 1) / q->block_rows;
    bool known = !q->scales || q->scales->type != SAFETENSORS_OTHER_TYPE ||
                 strcmp(q->scales->type_name, "F8_E8M0") == 0;
    if (!known || (count != 1 && count != per_row * per_column * q->n))
        return quantised_refuse(model, stored, "scales");
    q->source.decode = decode_fp8;
    q->source.type = has_powers_of_two(q->scales) ? ENGINE_TYPE_BF16 : ENGINE_TYPE_F32;
    return ENGINE_OK;
}

static int read_mxfp4(const struct model *model, const char *base, const struct safetensors_tensor *stored,
                      struct quantised *q)
{
    q->scales = find_stored(model, base, "_scales");
    if (stored->n_dims != 4 || stored->ne[3] != BLOCK / 2 || strcmp(stored->type_name, "U8") != 0)
        return quantised_refuse(model, stored, "blocks");
    q->n = stored->ne[0], q->n_rows = stored->ne[1], q->k = stored->ne[2] * BLOCK;
    if (!is_like(q->scales, "U8", q->n * q->n_rows * stored->ne[2]))
        return quantised_refuse(model, stored, "scales");
    q->source.decode = decode_mxfp4;
    q->source.type = ENGINE_TYPE_MXFP4;
    return ENGINE_OK;
}

/* DeepSeek V4 has the experts of a directory in FP8 so. */
static bool is_mxfp4_beside_fp8(const struct hf_config *config, const struct safetensors_tensor *stored)
{
    return config->method == HF_FP8 && hf_ends_with(stored->name, ".weight") &&
           (strcmp(stored->type_name, "I8") == 0 || strcmp(stored->type_name, "U8") == 0);
}

static int read_mxfp4_beside_fp8(const struct model *model, const char *base,
                                 const struct safetensors_tensor *stored, struct quantised *q)
{
    q->scales = find_stored(model, base, ".scale");
    if (stored->n_dims != 2 || stored->ne[1] % (BLOCK / 2) != 0)
        return quantised_refuse(model, stored, "blocks");
    q->n = 1, q->n_rows = stored->ne[0], q->k = stored->ne[1] * 2;
    if (!is_like(q->scales, "F8_E8M0", q->n_rows * q->k / BLOCK))
        return quantised_refuse(model, stored, "scales");
    q->source.decode = decode_mxfp4;
    q->source.type = ENGINE_TYPE_MXFP4;
    return ENGINE_OK;
}

static int read_groups(const struct model *model, const struct hf_config *config, const char *base,
                       const struct safetensors_tensor *stored, struct quantised *q)
{
    bool packs_inputs = q->method == HF_GPTQ;
    q->scales = find_stored(model, base, ".scales");
    q->zeros = find_stored(model, base, ".qzeros");
    q->groups = packs_inputs ? find_stored(model, base, ".g_idx") : NULL;
    q->zero_offset = config->zero_offset;
    if (stored->n_dims != 2 || strcmp(stored->type_name, "I32") != 0)
        return quantised_refuse(model, stored, "codes");
    q->n = 1;
    q->k = stored->ne[0] * (packs_inputs ? 8 : 1);
    q->n_rows = stored->ne[1] * (packs_inputs ? 1 : 8);
    q->block_columns = config->block_columns ? config->block_columns : q->k; /* 0: one group */
    uint64_t n_groups = (q->k + q->block_columns - 1) / q->block_columns;
    if (q->n_rows % 8 != 0 || !q->scales || q->scales->type == SAFETENSORS_OTHER_TYPE ||
        count_of(q->scales) != n_groups * q->n_rows)
        return quantised_refuse(model, stored, "scales");
    if (!is_like(q->zeros, "I32", n_groups * q->n_rows / 8)) return quantised_refuse(model, stored, "zeros");
    if (q->groups && !is_like(q->groups, "I32", q->k)) return quantised_refuse(model, stored, "groups");
    for (uint64_t i = 0; q->groups && i < q->k; i++)
        if (group_of(q, i) >= n_groups) return quantised_refuse(model, stored, "groups");
    bool fits = fits_q4_0(q);
    q->source.decode = fits ? decode_blocks : decode_groups;
    q->source.type = fits ? ENGINE_TYPE_Q4_0 : ENGINE_TYPE_F32;
    return ENGINE_OK;
}

static int read_bitnet(const struct model *model, const struct hf_config *config, const char *base,
                       const struct safetensors_tensor *stored, struct quantised *q)
{
    if (stored->n_dims != 2) return quantised_refuse(model, stored, "rows");
    q->k = stored->ne[1];
    q->n = 1;
    q->source.type = ENGINE_TYPE_F32;
    if (is_float_type(stored->type)) {
        q->n_rows = stored->ne[0];
        q->scales = stored;
        q->unit = mean_magnitude(stored);
        q->source.decode = decode_trained;
        return ENGINE_OK;
    }
    q->n_rows = 4 * stored->ne[0];
    q->scales = find_stored(model, base, ".weight_scale");
    if (strcmp(stored->type_name, "U8") != 0 || !q->scales || !is_float_type(q->scales->type) ||
        count_of(q->scales) != 1)
        return quantised_refuse(model, stored, "codes or scale");
    q->unit = config->divides_by_scale ? 1 / scale_at(q->scales, 0) : scale_at(q->scales, 0);
    q->source.decode = decode_bitnet;
    if ((engine_bits_of_float(q->unit) & 0xffff) == 0) q->source.type = ENGINE_TYPE_BF16;
    return ENGINE_OK;
}

int hf_quantised_read(const struct model *model, const struct hf_config *config,
                      const struct safetensors_tensor *stored, struct hf_source **source, uint64_t dims[3])
{
    char base[512];
    const char *suffix = hf_quantised_suffix(config, stored);
    bool is_fp8 = !*suffix;
    if (is_fp8 && strstr(stored->name, ".weight")) suffix = ".weight";
    snprintf(base, sizeof base, "%.*s", (int)(strlen(stored->name) - strlen(suffix)), stored->name);
    if (stored->size == 0)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has no values", model->path, stored->name);
    struct quantised *q = metadata_allocate(config->metadata, sizeof *q);
    if (!q) return error_memory("tensor list");
    *q = (struct quantised){.source = {.data = stored->data, .size = stored->size},
                            .method = is_fp8 ? HF_FP8 : config->method,
                            .codes = stored->data};
    int status = is_mxfp4_beside_fp8(config, stored) ? read_mxfp4_beside_fp8(model, base, stored, q)
                 : q->method == HF_FP8               ? read_fp8(model, config, base, stored, q)
                 : q->method == HF_MXFP4             ? read_mxfp4(model, base, stored, q)
                 : q->method == HF_BITNET            ? read_bitnet(model, config, base, stored, q)
                                                     : read_groups(model, config, base, stored, q);
    dims[0] = q->k, dims[1] = q->n_rows, dims[2] = q->n;
    *source = &q->source;
    return status;
}

bool hf_quantised_as_float(struct hf_source *source)
{
    if (source->decode == decode_mxfp4) return false;
    if (source->decode == decode_blocks) source->decode = decode_groups;
    source->type = ENGINE_TYPE_F32;
    return true;
}

/* ---- Names --------------------------------------------------------------------------------------------- */

const char *hf_quantised_suffix(const struct hf_config *config, const struct safetensors_tensor *stored)
{
    bool has_groups = config->method == HF_GPTQ || config->method == HF_AWQ;
    if (strcmp(stored->type_name, "F8_E4M3") == 0) return "";
    if (is_mxfp4_beside_fp8(config, stored)) return ".weight";
    if (has_groups && hf_ends_with(stored->name, ".qweight")) return ".qweight";
    if (config->method == HF_MXFP4 && hf_ends_with(stored->name, "_blocks")) return "_blocks";
    bool is_bitnet = config->method == HF_BITNET && hf_ends_with(stored->name, "_proj.weight");
    if (is_bitnet && (config->rounds_online || strcmp(stored->type_name, "U8") == 0)) return ".weight";
    return NULL;
}

/* ".scale" may also be a name of its own, as of hyper-connections. */
static bool is_scale_of_weight(const struct model *model, const char *name)
{
    char base[512];
    if (!hf_ends_with(name, ".scale") || strlen(name) >= sizeof base) return false;
    snprintf(base, sizeof base, "%.*s", (int)(strlen(name) - strlen(".scale")), name);
    return find_stored(model, base, ".weight") != NULL;
}

bool hf_is_companion(const struct model *model, const struct hf_config *config, const char *name)
{
    static const char *const fp8[] = {".weight_scale_inv", ".weight_scale", "_scale_inv", ".input_scale",
                                      ".activation_scale", ".k_scale",      ".v_scale"};
    static const char *const groups[] = {".scales", ".qzeros", ".g_idx"};
    bool has_groups = config->method == HF_GPTQ || config->method == HF_AWQ;
    for (size_t i = 0; config->method == HF_FP8 && i < sizeof fp8 / sizeof *fp8; i++)
        if (hf_ends_with(name, fp8[i])) return true;
    for (size_t i = 0; has_groups && i < sizeof groups / sizeof *groups; i++)
        if (hf_ends_with(name, groups[i])) return true;
    if (config->method == HF_BITNET && hf_ends_with(name, ".weight_scale")) return true;
    if (config->method == HF_FP8 && is_scale_of_weight(model, name)) return true;
    return config->method == HF_MXFP4 && hf_ends_with(name, "_scales");
}

/* ---- quantization_config ------------------------------------------------------------------------------- */

static void read_bits(struct hf_config *config, const json_t *json)
{
    const char *format = hf_text(config, json, "checkpoint_format|version");
    uint32_t bits = hf_count(config, json, "bits|w_bit", 4);
    double group = hf_number(config, json, "group_size|q_group_size", 128);
    if (bits != 4)
        hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "weights of %u bits are not supported, only 4", bits);
    if (config->method == HF_AWQ && format && strcasecmp(format, "gemm") != 0)
        hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "AWQ of the version '%.32s' is not supported, only gemm",
                format);
    if (group != -1 && (group < 1 || group > INT32_MAX || group != floor(group)))
        hf_fail(config, ENGINE_ERROR_DATA, "group_size is %g", group);
    config->block_columns = group > 0 && !config->status ? (uint32_t)group : 0;
    config->zero_offset = config->method == HF_GPTQ && !(format && strcmp(format, "gptq_v2") == 0);
}

static void read_fp8_blocks(struct hf_config *config, const json_t *json)
{
    const json_t *size = hf_get(json, "weight_block_size");
    config->block_rows = config->block_columns = 128;
    if (!size) return;
    json_int_t rows = json_integer_value(json_array_get(size, 0)),
               columns = json_integer_value(json_array_get(size, 1));
    if (json_array_size(size) != 2 || rows < 1 || columns < 1 || rows > INT32_MAX || columns > INT32_MAX)
        hf_fail(config, ENGINE_ERROR_DATA, "weight_block_size is not two counts");
    if (config->status) return;
    config->block_rows = (uint32_t)rows;
    config->block_columns = (uint32_t)columns;
}

static void read_bitnet_modes(struct hf_config *config, const json_t *json)
{
    const char *class = hf_text(config, json, "linear_class"),
               *mode = hf_text(config, json, "quantization_mode");
    bool is_auto = class && strcmp(class, "autobitlinear") == 0;
    config->rounds_online = is_auto && mode && strcmp(mode, "online") == 0;
    config->divides_by_scale = !is_auto;
    hf_refuse(config, hf_flag(config, json, "use_rms_norm", false), "use_rms_norm");
}

void hf_read_quantisation(struct hf_config *config)
{
    const json_t *json = hf_get(config->root, "quantization_config");
    config->block_rows = config->block_columns = 128;
    if (!json) json = hf_get(config->json, "quantization_config");
    const char *method = hf_text(config, json, "quant_method");
    if (!json || config->status) return;
    if (method && strcmp(method, "fp8") == 0)
        config->method = HF_FP8;
    else if (method && strcmp(method, "mxfp4") == 0)
        config->method = HF_MXFP4;
    else if (method && strcmp(method, "gptq") == 0)
        config->method = HF_GPTQ;
    else if (method && strcmp(method, "awq") == 0)
        config->method = HF_AWQ;
    else if (method && strcmp(method, "bitnet") == 0)
        config->method = HF_BITNET;
    else
        hf_fail(config, ENGINE_ERROR_UNSUPPORTED,
                "quantization_config: '%.32s' is not supported (supported: fp8, mxfp4, gptq, awq, bitnet)",
                method ? method : "(none)");
    if (config->method == HF_FP8) read_fp8_blocks(config, json);
    if (config->method == HF_BITNET) read_bitnet_modes(config, json);
    if (config->method == HF_GPTQ || config->method == HF_AWQ) read_bits(config, json);
}
