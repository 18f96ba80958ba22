/* llama2c.c: reads checkpoints of https://github.com/karpathy/llama2.c and presents them as a GGUF file of
 * architecture `llama`: the same metadata keys, the same tensor names, rows in the same layout.
 *
 * All versions: int32 dim, hidden_dim, n_layers, n_heads, n_kv_heads, n_vocab, n_positions, then the weights
 * without names. The order of the weights and the data around these numbers depend on the version:
 *   0  nothing before; a negative n_vocab: the output matrix isn't the embedding; float32
 *   1  before: "ak42" (as a little-endian uint32) and int32 1; after: a byte "output is the embedding";
 *      weights from byte 256 on; float32
 *   2  like 1, with an int32 group length after that byte; norms are float32, matrices int8 in groups, which
 *      continue from row to row: all of a matrix's int8, then a float32 scale for each group
 *
 * Norm epsilon and rope theta are not in the file; llama2.c defines them as constants. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "model/file.h"
#include "model/types.h"

#define MAGIC         0x616b3432u
#define HEADER_SIZE_0 28
#define HEADER_SIZE   256 /* versions 1 and 2 */
#define NORM_EPSILON  1e-5f
#define ROPE_THETA    10000.0f
#define MAX_PARTS     14

struct checkpoint {
    uint32_t version;
    uint32_t dim, hidden_dim, n_layers, n_heads, n_kv_heads, n_vocab, n_positions;
    bool tied;        /* the output matrix is the embedding */
    uint32_t n_group; /* weights that share a scale; version 2 only */
};

/* A range of the file: a tensor, or one for each layer, in order. */
struct part {
    const char *name;    /* "attn_q.weight"; NULL: no longer used */
    bool per_layer;      /* its name is prefixed with "blk.N." */
    bool is_matrix;      /* [k, rows]; else [k] */
    uint64_t k, rows;    /* rows is 1 for vectors */
    uint64_t n_elements; /* of one tensor */
    uint64_t size;       /* bytes of one tensor in the file */
    uint64_t start;      /* offset of the first one */
};

struct layout {
    struct part parts[MAX_PARTS]; /* in the file's order */
    size_t n_parts;
    uint64_t end; /* the size the file must have */
};

/* ---- Header ---- */

static int32_t int_at(const uint8_t *data, size_t offset)
{
    int32_t value;
    memcpy(&value, data + offset, sizeof value);
    return value;
}

/* Reads the seven numbers from `at` on. False if they don't describe a Llama model. */
static bool read_numbers(const uint8_t *at, struct checkpoint *checkpoint)
{
    int32_t numbers[7];
    for (size_t i = 0; i < 7; i++) numbers[i] = int_at(at, i * 4);
    checkpoint->tied = numbers[5] > 0;
    if (checkpoint->version == 0 && numbers[5] < 0 && numbers[5] > INT32_MIN) numbers[5] = -numbers[5];
    for (size_t i = 0; i < 7; i++)
        if (numbers[i] <= 0) return false;
    checkpoint->dim = (uint32_t)numbers[0];
    checkpoint->hidden_dim = (uint32_t)numbers[1];
    checkpoint->n_layers = (uint32_t)numbers[2];
    checkpoint->n_heads = (uint32_t)numbers[3];
    checkpoint->n_kv_heads = (uint32_t)numbers[4];
    checkpoint->n_vocab = (uint32_t)numbers[5];
    checkpoint->n_positions = (uint32_t)numbers[6];
    /* rope rotates pairs */
    return checkpoint->dim % checkpoint->n_heads == 0 && checkpoint->n_heads % checkpoint->n_kv_heads == 0 &&
           checkpoint->dim / checkpoint->n_heads % 2 == 0;
}

static int fail_format(const struct model *model)
{
    return error_raise(ENGINE_ERROR_DATA, "%s is neither a GGUF file nor a complete llama2.c checkpoint",
                       model->path);
}

static int read_header(const struct model *model, struct checkpoint *checkpoint)
{
    const uint8_t *data = model->data;
    if (model->size < HEADER_SIZE_0) return fail_format(model);
    if ((uint32_t)int_at(data, 0) != MAGIC) {
        checkpoint->version = 0;
        return read_numbers(data, checkpoint) ? ENGINE_OK : fail_format(model);
    }
    checkpoint->version = (uint32_t)int_at(data, 4);
    if (checkpoint->version != 1 && checkpoint->version != 2)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s is a llama2.c checkpoint of version %" PRIu32 "; this engine reads 0, 1 and 2",
                           model->path, checkpoint->version);
    if (model->size < HEADER_SIZE)
        return error_raise(ENGINE_ERROR_DATA, "%s: the file ends within its header; it is truncated",
                           model->path);
    if (!read_numbers(data + 8, checkpoint))
        return error_raise(ENGINE_ERROR_DATA, "%s: its header does not describe a Llama model", model->path);
    checkpoint->tied = data[36] != 0;
    if (checkpoint->version == 2) {
        int32_t n_group = int_at(data, 37);
        if (n_group <= 0)
            return error_raise(ENGINE_ERROR_DATA, "%s: its groups have %" PRId32 " weights", model->path,
                               n_group);
        checkpoint->n_group = (uint32_t)n_group;
    }
    return ENGINE_OK;
}

/* ---- Layout ---- */

static void add_part(struct layout *layout, const char *name, bool per_layer, uint64_t k, uint64_t rows)
{
    layout->parts[layout->n_parts++] = (struct part){
        .name = name, .per_layer = per_layer, .is_matrix = rows != 0, .k = k, .rows = rows ? rows : 1};
}

/* The parts in the file's order. Shapes are [k, rows]: llama2.c's (rows, k). */
static void list_parts(const struct checkpoint *c, struct layout *layout)
{
    uint64_t dim = c->dim, hidden = c->hidden_dim, head_dim = c->dim / c->n_heads;
    uint64_t kv_dim = head_dim * c->n_kv_heads;

    if (c->version == 0) {
        add_part(layout, "token_embd.weight", false, dim, c->n_vocab);
        add_part(layout, "attn_norm.weight", true, dim, 0);
    } else {
        add_part(layout, "attn_norm.weight", true, dim, 0);
        add_part(layout, "ffn_norm.weight", true, dim, 0);
        add_part(layout, "output_norm.weight", false, dim, 0);
        add_part(layout, "token_embd.weight", false, dim, c->n_vocab);
    }
    add_part(layout, "attn_q.weight", true, dim, dim);
    add_part(layout, "attn_k.weight", true, dim, kv_dim);
    add_part(layout, "attn_v.weight", true, dim, kv_dim);
    add_part(layout, "attn_output.weight", true, dim, dim);
    if (c->version == 0) add_part(layout, "ffn_norm.weight", true, dim, 0);
    add_part(layout, "ffn_gate.weight", true, dim, hidden); /* w1 */
    add_part(layout, "ffn_down.weight", true, hidden, dim); /* w2 */
    add_part(layout, "ffn_up.weight", true, dim, hidden);   /* w3 */
    if (c->version == 0) {
        add_part(layout, "output_norm.weight", false, dim, 0);
        add_part(layout, NULL, false, c->n_positions * head_dim, 0); /* rope's cosines and sines */
    }
    if (!c->tied) add_part(layout, "output.weight", false, dim, c->n_vocab);
}

/* Sets n_elements and size; false on overflow or if groups don't divide the tensor. */
static bool measure_part(const struct checkpoint *checkpoint, struct part *part)
{
    uint64_t scales;
    if (checked_mul(part->k, part->rows, &part->n_elements)) return false;
    if (checkpoint->version != 2 || !part->is_matrix)
        return !checked_mul(part->n_elements, sizeof(float), &part->size);
    if (part->n_elements % checkpoint->n_group != 0) return false;
    return !checked_mul(part->n_elements / checkpoint->n_group, sizeof(float), &scales) &&
           !checked_add(part->n_elements, scales, &part->size);
}

/* Computes where everything is. The sum must be exactly the file's size: version 0 has no other signature. */
static int lay_out(const struct model *model, const struct checkpoint *checkpoint, struct layout *layout)
{
    list_parts(checkpoint, layout);
    layout->end = checkpoint->version == 0 ? HEADER_SIZE_0 : HEADER_SIZE;
    for (size_t i = 0; i < layout->n_parts; i++) {
        struct part *part = &layout->parts[i];
        uint64_t size;
        part->start = layout->end;
        if (!measure_part(checkpoint, part) ||
            checked_mul(part->size, part->per_layer ? checkpoint->n_layers : 1, &size) ||
            checked_add(layout->end, size, &layout->end))
            return checkpoint->version == 0
                       ? fail_format(model)
                       : error_raise(ENGINE_ERROR_DATA, "%s: its header describes an impossible model",
                                     model->path);
    }
    if (layout->end == model->size) return ENGINE_OK;
    if (checkpoint->version == 0)
        return error_raise(
            ENGINE_ERROR_DATA,
            "%s is neither a GGUF file nor a complete llama2.c checkpoint (which would have %" PRIu64
            " bytes instead of %" PRIu64 ")",
            model->path, layout->end, model->size);
    return error_raise(ENGINE_ERROR_DATA,
                       "%s: the file has %" PRIu64 " bytes, but its header describes %" PRIu64
                       ": it is truncated or damaged",
                       model->path, model->size, layout->end);
}

/* ---- Tensors ---- */

/* float32 to float16, rounded to nearest, ties to even. True if the result is a normal float16 (or 0), so
 * that rounding loses no more than float16's 11 bits imply. */
static bool to_half(float value, uint16_t *half)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude == 0) {
        *half = (uint16_t)sign;
        return true;
    }
    if (magnitude < 0x38800000) return false;                  /* below 2^-14 */
    magnitude += 0x0fff + (magnitude >> 13 & 1);               /* round at bit 13 */
    if (magnitude >= 0x47800000) return false;                 /* 65536 and more, infinity, NaN */
    *half = (uint16_t)(sign | (magnitude - 0x38000000) >> 13); /* exponent bias 127 to 15 */
    return true;
}

static float scale_at(const uint8_t *scales, uint64_t group)
{
    float scale;
    memcpy(&scale, scales + group * sizeof scale, sizeof scale);
    return scale;
}

/* The type of a version 2 matrix: Q8_0 if its blocks of 32 lie within one group and one row, and float16 can
 * hold the scales; otherwise float32, which is exact. */
static int choose_type(const struct model *model, const struct checkpoint *checkpoint,
                       struct model_tensor *tensor, const uint8_t *source, uint64_t n_elements)
{
    const uint8_t *scales = source + n_elements;
    bool blocks_fit = checkpoint->n_group % 32 == 0 && tensor->ne[0] % 32 == 0;
    bool halves_fit = true;
    uint16_t half;
    for (uint64_t i = 0; i < n_elements / checkpoint->n_group; i++) {
        float scale = scale_at(scales, i);
        if (!isfinite(scale))
            return error_raise(ENGINE_ERROR_DATA,
                               "%s: %s has a scale that is not a number: the file is damaged", model->path,
                               tensor->name);
        halves_fit = halves_fit && to_half(scale, &half);
    }
    tensor->type = blocks_fit && halves_fit ? ENGINE_TYPE_Q8_0 : ENGINE_TYPE_F32;
    tensor->size = tensor->type == ENGINE_TYPE_Q8_0 ? n_elements / 32 * 34 : n_elements * sizeof(float);
    return ENGINE_OK;
}

/* int8 groups to tensor->type. */
static void llama2c_convert(const struct checkpoint *checkpoint, const struct model_tensor *tensor,
                            const uint8_t *source, uint64_t n_elements, void *target)
{
    const int8_t *values = (const int8_t *)source; /* [n_elements] */
    const uint8_t *scales = source + n_elements;   /* [n_elements / n_group] float32, maybe unaligned */
    if (tensor->type == ENGINE_TYPE_F32) {
        float *out = target;
        for (uint64_t i = 0; i < n_elements; i++)
            out[i] = (float)values[i] * scale_at(scales, i / checkpoint->n_group);
        return;
    }
    uint8_t *out = target; /* blocks of a float16 scale and 32 int8 */
    for (uint64_t i = 0; i < n_elements; i += 32, out += 34) {
        uint16_t half = 0;
        to_half(scale_at(scales, i / checkpoint->n_group), &half);
        memcpy(out, &half, sizeof half);
        memcpy(out + 2, values + i, 32);
    }
}

static const char *make_name(struct metadata *metadata, const struct part *part, uint32_t layer)
{
    char name[64];
    if (part->per_layer)
        snprintf(name, sizeof name, "blk.%" PRIu32 ".%s", layer, part->name);
    else
        snprintf(name, sizeof name, "%s", part->name);
    char *kept = metadata_allocate(metadata, strlen(name) + 1);
    return kept ? strcpy(kept, name) : NULL;
}

/* Fills the tensor list; data points into the file. */
static int list_tensors(struct model *model, const struct checkpoint *checkpoint, const struct layout *layout)
{
    /* Every tensor has bytes in the file, so their number is limited by its size. */
    int status = model_reserve_tensors(model, (size_t)checkpoint->n_layers * 9 + 3);
    if (status) return status;
    for (size_t i = 0; i < layout->n_parts; i++) {
        const struct part *part = &layout->parts[i];
        if (!part->name) continue;
        for (uint32_t layer = 0; layer < (part->per_layer ? checkpoint->n_layers : 1); layer++) {
            struct model_tensor *tensor = &model->tensors[model->n_tensors++];
            *tensor = (struct model_tensor){
                .name = make_name(model->metadata, part, layer),
                .type = ENGINE_TYPE_F32,
                .n_dims = part->is_matrix ? 2 : 1,
                .ne = {part->k, part->rows, 1, 1},
                .data = model->data + part->start + layer * part->size,
                .size = part->n_elements * sizeof(float),
            };
            if (!tensor->name) return error_memory("tensor list");
        }
    }
    return ENGINE_OK;
}

/* Version 2: replaces the matrices, which are groups of int8, with tensors of types that GGUF has. */
static int convert_matrices(struct model *model, const struct checkpoint *checkpoint)
{
    uint64_t total = 0, padded;
    for (size_t i = 0; i < model->n_tensors; i++) {
        struct model_tensor *tensor = &model->tensors[i];
        if (tensor->n_dims != 2) continue;
        int status = choose_type(model, checkpoint, tensor, tensor->data, tensor->ne[0] * tensor->ne[1]);
        if (status) return status;
        if (checked_align(tensor->size, 64, &padded) || checked_add(total, padded, &total))
            return error_memory("weights");
    }
    if (total > SIZE_MAX) return error_memory("weights");
    model->converted = aligned_alloc(64, (size_t)total);
    if (!model->converted) return error_memory("weights");

    uint8_t *target = model->converted;
    for (size_t i = 0; i < model->n_tensors; i++) {
        struct model_tensor *tensor = &model->tensors[i];
        if (tensor->n_dims != 2) continue;
        llama2c_convert(checkpoint, tensor, tensor->data, tensor->ne[0] * tensor->ne[1], target);
        tensor->data = target;
        target += (tensor->size + 63) / 64 * 64;
    }
    return ENGINE_OK;
}

/* ---- Metadata ---- */

static int llama2c_describe(struct model *model, const struct checkpoint *checkpoint)
{
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        {"llama.context_length", checkpoint->n_positions},
        {"llama.embedding_length", checkpoint->dim},
        {"llama.block_count", checkpoint->n_layers},
        {"llama.feed_forward_length", checkpoint->hidden_dim},
        {"llama.attention.head_count", checkpoint->n_heads},
        {"llama.attention.head_count_kv", checkpoint->n_kv_heads},
        {"llama.rope.dimension_count", checkpoint->dim / checkpoint->n_heads},
        {"llama.vocab_size", checkpoint->n_vocab},
    };
    struct metadata *metadata = model->metadata;
    int status = metadata_add_string(metadata, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !status; i++)
        status = metadata_add_u32(metadata, numbers[i].key, numbers[i].value);
    if (!status) status = metadata_add_f32(metadata, "llama.attention.layer_norm_rms_epsilon", NORM_EPSILON);
    if (!status) status = metadata_add_f32(metadata, "llama.rope.freq_base", ROPE_THETA);
    return status;
}

int llama2c_read(struct model *model, const char *tokenizer_path)
{
    struct checkpoint checkpoint = {0};
    struct layout layout = {.n_parts = 0};
    int status = read_header(model, &checkpoint);
    if (!status) status = lay_out(model, &checkpoint, &layout);
    if (!status) status = list_tensors(model, &checkpoint, &layout);
    if (!status && checkpoint.version == 2) status = convert_matrices(model, &checkpoint);
    if (!status) status = llama2c_describe(model, &checkpoint);
    if (!status && tokenizer_path)
        status = llama2c_read_tokenizer(tokenizer_path, checkpoint.n_vocab, model->metadata);
    if (!status) status = metadata_finish(model->metadata);
    snprintf(model->format, sizeof model->format, "llama2.c version %" PRIu32, checkpoint.version);
    return status;
}
