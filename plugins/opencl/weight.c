/* weight.c: model tensors on the device. Matrices are stored in panels of 32 rows, the words of the rows side
 * by side, so that work-items that take neighbouring rows read neighbouring memory, and vectors of rows are
 * one read:
 *
 *   [panel][block][word][32 rows]
 *
 * A block is that of the file, its first bytes (see `head`) in a word of their own, except for:
 *
 *   F32, F16, BF16  32 values
 *   Q8_0, Q4_0      two of the file's blocks: their scales in one word, then the bytes of both; Q8_0's with
 *                   128 added
 *
 * Rows are padded with zeros to whole blocks, matrices to whole panels; each of several matrices starts a new
 * panel. A weight that is larger than one allocation may be is split between panels. Plain values (norms,
 * biases) are stored as in the file, also padded to whole panels. */
#include <stdlib.h>
#include <string.h>

#include "common/sized.h"
#include "device.h"

#define MAX_BLOCK_WORDS 53

struct weight_type {
    uint32_t type;
    uint32_t length, words; /* values and words of a block */
    uint32_t head;          /* bytes of the file's block that are its first word */
};

static const struct weight_type types[] = {
    {ENGINE_TYPE_F32, 32, 32, 4},   {ENGINE_TYPE_F16, 32, 16, 4},   {ENGINE_TYPE_BF16, 32, 16, 4},
    {ENGINE_TYPE_Q8_0, 64, 17, 2},  {ENGINE_TYPE_Q4_0, 64, 9, 2},   {ENGINE_TYPE_Q4_1, 32, 5, 4},
    {ENGINE_TYPE_Q5_0, 32, 6, 2},   {ENGINE_TYPE_Q5_1, 32, 6, 4},   {ENGINE_TYPE_Q2_K, 256, 21, 4},
    {ENGINE_TYPE_Q3_K, 256, 28, 4}, {ENGINE_TYPE_Q4_K, 256, 36, 4}, {ENGINE_TYPE_Q5_K, 256, 44, 4},
    {ENGINE_TYPE_Q6_K, 256, 53, 4}, {ENGINE_TYPE_IQ4_NL, 32, 5, 2}, {ENGINE_TYPE_IQ4_XS, 256, 34, 4},
    {ENGINE_TYPE_MXFP4, 32, 5, 1},
};

/* The memory that a weight takes. */
struct layout {
    const struct weight_type *type;
    uint64_t k, rows, n_matrices; /* rows: of one matrix */
    uint64_t row_size;            /* bytes in the file */
    uint64_t n_blocks;            /* of a row */
    uint64_t matrix_panels, n_panels, panel_size, part_panels;
    uint64_t size;
    bool values;
};

static const struct weight_type *find_type(uint32_t type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) return &types[i];
    return NULL;
}

bool weight_type_known(uint32_t type)
{
    return find_type(type) != NULL;
}

static int weight_unsupported(const struct engine_weight_desc *desc, const char *why)
{
    return opencl_host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: %s", desc->name ? desc->name : "weight", why);
}

static int plan_layout(const struct engine_device *device, const struct engine_weight_desc *desc,
                       struct layout *layout)
{
    uint32_t length, block_size;
    uint64_t k = desc->ne[0], rows = desc->ne[1], n_matrices = desc->ne[2], n_rows;
    const uint32_t all_uses =
        ENGINE_WEIGHT_MATMUL | ENGINE_WEIGHT_ROWS | ENGINE_WEIGHT_VALUES | ENGINE_WEIGHT_MATRICES;
    bool values = desc->uses == ENGINE_WEIGHT_VALUES, matrices = desc->uses == ENGINE_WEIGHT_MATRICES;
    const struct weight_type *type = find_type(desc->type);
    if (!type || !gpu_type_block(desc->type, &length, &block_size))
        return weight_unsupported(desc, "no kernel for its type");
    if (desc->uses == 0 || desc->uses & ~all_uses || (desc->uses & ENGINE_WEIGHT_MATRICES && !matrices) ||
        (desc->uses & ENGINE_WEIGHT_VALUES && (!values || desc->type != ENGINE_TYPE_F32)))
        return weight_unsupported(desc, "cannot be kept for all of its uses");
    if (k == 0 || rows == 0 || n_matrices == 0 || desc->ne[3] != 1 || k % length != 0 || k > UINT32_MAX / 2 ||
        rows > UINT32_MAX / 2 || __builtin_mul_overflow(rows + PANEL_ROWS - 1, n_matrices, &n_rows) ||
        n_rows > UINT32_MAX)
        return weight_unsupported(desc, "it is not a matrix");
    if (n_matrices > 1 && !matrices) return weight_unsupported(desc, "it has three dimensions");
    *layout = (struct layout){.type = type,
                              .k = k,
                              .rows = rows,
                              .n_matrices = n_matrices,
                              .row_size = k / length * block_size,
                              .values = values};
    layout->matrix_panels = (rows + PANEL_ROWS - 1) / PANEL_ROWS;
    layout->n_panels = values ? 1 : layout->matrix_panels * n_matrices;
    layout->n_blocks = (k + type->length - 1) / type->length;
    layout->panel_size = values ? (k * rows + PANEL_ROWS - 1) / PANEL_ROWS * PANEL_ROWS * 4
                                : layout->n_blocks * type->words * 4 * PANEL_ROWS;
    if (layout->panel_size > device->largest) return weight_unsupported(desc, "its rows are too long");
    layout->part_panels = device->largest / layout->panel_size;
    layout->size = layout->n_panels * layout->panel_size;
    return ENGINE_OK;
}

int weight_size(struct engine_device *device, const struct engine_weight_desc *desc, uint64_t *bytes)
{
    struct engine_weight_desc given;
    sized_read(&given, sizeof given, desc);
    struct layout layout = {0};
    int status = plan_layout(device, &given, &layout);
    if (!status) *bytes = layout.size;
    return status;
}

/* ---- Packing ------------------------------------------------------------------------------------------- */

/* Puts the words of block `number` of a row together; `words` is zero. */
static void gather_block(const struct layout *layout, const uint8_t *row, uint64_t number, uint8_t *words)
{
    const struct weight_type *type = layout->type;
    uint32_t length, size;
    gpu_type_block(type->type, &length, &size);
    uint64_t first = number * (type->length / length), end = first + type->length / length;
    if (end > layout->k / length) end = layout->k / length;
    if (length == 1) {
        memcpy(words, row + first * size, (size_t)((end - first) * size));
    } else if (type->length == length) {
        memcpy(words, row + first * size, type->head);
        memcpy(words + 4, row + first * size + type->head, size - type->head);
    } else {
        for (uint64_t b = first; b < end; b++) {
            memcpy(words + 2 * (b - first), row + b * size, 2);
            memcpy(words + 4 + (size - 2) * (b - first), row + b * size + 2, size - 2);
        }
        for (uint32_t i = 4; type->type == ENGINE_TYPE_Q8_0 && i < 4 * type->words; i++) words[i] ^= 0x80;
    }
}

static void pack_panel(const struct layout *layout, const uint8_t *data, uint64_t panel, uint8_t *target)
{
    uint64_t matrix = panel / layout->matrix_panels, first = panel % layout->matrix_panels * PANEL_ROWS;
    uint64_t n_rows = layout->rows - first < PANEL_ROWS ? layout->rows - first : PANEL_ROWS;
    data += (matrix * layout->rows + first) * layout->row_size;
    uint32_t n_words = layout->type->words;
    for (uint64_t b = 0; b < layout->n_blocks; b++, target += (size_t)n_words * PANEL_ROWS * 4) {
        uint32_t lines[MAX_BLOCK_WORDS][PANEL_ROWS] = {{0}};
        for (uint64_t r = 0; r < n_rows; r++) {
            uint32_t words[MAX_BLOCK_WORDS] = {0};
            gather_block(layout, data + r * layout->row_size, b, (uint8_t *)words);
            for (uint32_t i = 0; i < n_words; i++) lines[i][r] = words[i];
        }
        memcpy(target, lines, (size_t)n_words * PANEL_ROWS * 4);
    }
}

/* ---- Creating ------------------------------------------------------------------------------------------ */

#define STAGING (8u << 20) /* bytes that are packed before they go to a device with memory of its own */

/* Packs panels of a part in place, or a few at a time in staging memory. */
static int fill_part(struct engine_device *device, const struct weight_part *part,
                     const struct engine_weight_desc *desc, const struct layout *layout)
{
    uint64_t at_once = device->listed->shares_memory ? part->n_panels : STAGING / layout->panel_size;
    if (at_once == 0) at_once = 1;
    uint8_t *staging = NULL;
    int status = ENGINE_OK;
    if (!device->listed->shares_memory && !(staging = malloc((size_t)(at_once * layout->panel_size))))
        return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (uploads)");
    for (uint64_t panel = 0; panel < part->n_panels && !status; panel += at_once) {
        uint64_t count = part->n_panels - panel < at_once ? part->n_panels - panel : at_once;
        void *target = staging;
        if (!staging)
            status = memory_map(device, part->memory, panel * layout->panel_size, count * layout->panel_size,
                                false, &target);
        for (uint64_t i = 0; i < count && !status; i++)
            pack_panel(layout, desc->data, part->first_panel + panel + i,
                       (uint8_t *)target + i * layout->panel_size);
        if (status) break;
        status = staging ? memory_write(device, part->memory, panel * layout->panel_size, staging,
                                        count * layout->panel_size)
                         : memory_unmap(device, part->memory, target);
    }
    free(staging);
    return status;
}

static int fill_values(struct engine_device *device, struct engine_weight *weight,
                       const struct engine_weight_desc *desc, const struct layout *layout)
{
    weight->values = calloc(1, (size_t)layout->size);
    if (!weight->values) return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (plain values)");
    memcpy(weight->values, desc->data, (size_t)(layout->k * layout->rows * 4));
    return memory_write(device, weight->parts[0].memory, 0, weight->values, layout->size);
}

static int create_parts(struct engine_device *device, struct engine_weight *weight,
                        const struct engine_weight_desc *desc, const struct layout *layout)
{
    uint64_t n_parts = (layout->n_panels + layout->part_panels - 1) / layout->part_panels;
    weight->parts = calloc((size_t)n_parts, sizeof *weight->parts);
    if (!weight->parts) return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (weight)");
    int status = ENGINE_OK;
    for (uint64_t i = 0; i < n_parts && !status; i++) {
        struct weight_part *part = &weight->parts[weight->n_parts++];
        part->first_panel = i * layout->part_panels;
        part->n_panels = layout->n_panels - part->first_panel;
        if (part->n_panels > layout->part_panels) part->n_panels = layout->part_panels;
        status =
            memory_allocate(device, part->n_panels * layout->panel_size, desc->name, &part->memory, NULL);
        if (!status)
            status = layout->values ? fill_values(device, weight, desc, layout)
                                    : fill_part(device, part, desc, layout);
    }
    return status ? status : device_finish(device);
}

int weight_create(struct engine_device *device, const struct engine_weight_desc *desc,
                  struct engine_weight **out)
{
    struct engine_weight_desc given;
    sized_read(&given, sizeof given, desc);
    struct layout layout = {0};
    if (!given.name) given.name = "weight";
    int status = plan_layout(device, &given, &layout);
    if (status) return status;
    if (!given.data || given.data_size / layout.row_size < layout.rows * layout.n_matrices)
        return opencl_host->fail(ENGINE_ERROR_ARGUMENT, "%s: there is less data than its shape requires",
                                 given.name);
    struct engine_weight *weight = calloc(1, sizeof *weight);
    if (!weight) return opencl_host->fail(ENGINE_ERROR_MEMORY, "%s: out of memory", given.name);
    weight->base = (struct gpu_weight){.device = device, .type = given.type, .uses = given.uses};
    memcpy(weight->base.ne, given.ne, sizeof weight->base.ne);
    status = gpu_charge(opencl_host, &device->budget, layout.size, given.name);
    if (!status) {
        weight->charged = layout.size;
        status = create_parts(device, weight, &given, &layout);
    }
    if (status) {
        weight_destroy(weight);
        return status;
    }
    *out = weight;
    return ENGINE_OK;
}

void weight_destroy(struct engine_weight *weight)
{
    if (!weight) return;
    struct engine_device *device = weight->base.device;
    if (weight->values) rope_tables_forget(device, &device->rope_tables, weight);
    for (uint32_t i = 0; i < weight->n_parts; i++) memory_free(device, weight->parts[i].memory, NULL);
    gpu_discharge(&device->budget, weight->charged);
    free(weight->parts);
    free(weight->values);
    free(weight);
}
