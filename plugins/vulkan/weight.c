/* weight.c: model tensors on the device. Matrices are stored in panels of 32 rows, so that invocations that
 * work on neighbouring rows read neighbouring memory:
 *
 *   F32            [panel][k / 4][32 rows] of 4 values        (16 bytes each)
 *   F16, BF16      [panel][k / 8][32 rows] of 8 values
 *   Q8_0           [panel][block][2 halves][32 rows] of 16 values
 *   Q4_0           [panel][block][32 rows] of 32 values: byte j holds values j and 16 + j, in two's
 *                  complement
 *   the others     [panel][block][word][32 rows]: the words of the file's blocks, see struct weight_type
 *
 * Rows are padded with zeros to whole units and panels. Each of several matrices starts a new panel and has
 * an even number of them: kernels take two at a time. The scales of Q8_0's and Q4_0's blocks (float16) follow
 * after all panels: [panel][pair of blocks][32 rows] of 2 scales. Plain values (norms, biases) are stored as
 * in the file. */
#include <stdlib.h>
#include <string.h>

#include "builder.h"
#include "common/sized.h"

#define PANEL           32
#define MAX_BLOCK_WORDS 53

/* The memory that a weight takes. */
struct layout {
    uint64_t k, rows, row_size; /* of a matrix; row_size: bytes in the file */
    uint64_t n_matrices, matrix_panels;
    uint64_t n_panels, panel_size, scale_size;
    uint64_t values_size, size; /* of all panels or plain values; with the scales */
};

static const struct weight_type types[] = {
    {ENGINE_TYPE_F32, SHADER_MATMUL_F32_FEW, 0, 0},
    {ENGINE_TYPE_F16, SHADER_MATMUL_F16_FEW, 0, 0},
    {ENGINE_TYPE_BF16, SHADER_MATMUL_BF16_FEW, 0, 0},
    {ENGINE_TYPE_Q8_0, SHADER_MATMUL_Q8_0_FEW, 0, 0},
    {ENGINE_TYPE_Q4_0, SHADER_MATMUL_Q4_0_FEW, 0, 0},
    {ENGINE_TYPE_Q4_1, SHADER_MATMUL_Q4_1_FEW, 5, 4},
    {ENGINE_TYPE_Q5_0, SHADER_MATMUL_Q5_0_FEW, 6, 2},
    {ENGINE_TYPE_Q5_1, SHADER_MATMUL_Q5_1_FEW, 6, 4},
    {ENGINE_TYPE_Q2_K, SHADER_MATMUL_Q2_K_FEW, 21, 4},
    {ENGINE_TYPE_Q3_K, SHADER_MATMUL_Q3_K_FEW, 28, 4},
    {ENGINE_TYPE_Q4_K, SHADER_MATMUL_Q4_K_FEW, 36, 4},
    {ENGINE_TYPE_Q5_K, SHADER_MATMUL_Q5_K_FEW, 44, 4},
    {ENGINE_TYPE_Q6_K, SHADER_MATMUL_Q6_K_FEW, 53, 4},
    {ENGINE_TYPE_IQ4_NL, SHADER_MATMUL_IQ4_NL_FEW, 5, 2},
    {ENGINE_TYPE_IQ4_XS, SHADER_MATMUL_IQ4_XS_FEW, 34, 4},
    {ENGINE_TYPE_MXFP4, SHADER_MATMUL_MXFP4_FEW, 5, 1},
};

const struct weight_type *weight_type(uint32_t type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) return &types[i];
    return NULL;
}

bool weight_type_known(uint32_t type)
{
    return weight_type(type) != NULL;
}

/* Bytes of a panel of rows of k values. */
static uint64_t panel_bytes(uint32_t type, uint64_t k)
{
    uint32_t length, size;
    switch (type) {
    case ENGINE_TYPE_F32: return (k + 3) / 4 * 16 * PANEL;
    case ENGINE_TYPE_F16:
    case ENGINE_TYPE_BF16: return (k + 7) / 8 * 16 * PANEL;
    case ENGINE_TYPE_Q8_0: return k / 32 * 32 * PANEL;
    case ENGINE_TYPE_Q4_0: return k / 32 * 16 * PANEL;
    default:
        gpu_type_block(type, &length, &size);
        return k / length * weight_type(type)->block_words * 4 * PANEL;
    }
}

static int weight_unsupported(const struct engine_weight_desc *desc, const char *why)
{
    return vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: %s", desc->name ? desc->name : "weight", why);
}

static int plan_layout(const struct engine_device *device, const struct engine_weight_desc *desc,
                       struct layout *layout)
{
    uint32_t length, block_size;
    uint64_t k = desc->ne[0], rows = desc->ne[1], n_matrices = desc->ne[2];
    bool values = desc->uses == ENGINE_WEIGHT_VALUES, matrices = desc->uses == ENGINE_WEIGHT_MATRICES;
    const uint32_t known_uses = ENGINE_WEIGHT_MATMUL | ENGINE_WEIGHT_ROWS | ENGINE_WEIGHT_VALUES;
    if (!weight_type_known(desc->type) || !gpu_type_block(desc->type, &length, &block_size))
        return weight_unsupported(desc, "no shader for its type");
    if (desc->uses == 0 || (desc->uses & ~known_uses && !matrices) ||
        (desc->uses & ENGINE_WEIGHT_VALUES && (!values || desc->type != ENGINE_TYPE_F32)))
        return weight_unsupported(desc, "cannot be kept for all of its uses");
    if (k == 0 || rows == 0 || n_matrices == 0 || (n_matrices != 1 && !matrices) || desc->ne[3] != 1 ||
        k % length != 0 || k > UINT32_MAX / 2 || rows > UINT32_MAX / 2 || n_matrices > UINT32_MAX / 2)
        return weight_unsupported(desc, "it is not a matrix");
    *layout =
        (struct layout){.k = k, .rows = rows, .row_size = k / length * block_size, .n_matrices = n_matrices};
    if (values) {
        layout->values_size = layout->size = k * rows * 4;
        return layout->size <= device->max_range ? ENGINE_OK : weight_unsupported(desc, "too large");
    }
    layout->panel_size = panel_bytes(desc->type, k);
    bool scales_apart = desc->type == ENGINE_TYPE_Q8_0 || desc->type == ENGINE_TYPE_Q4_0;
    layout->scale_size = scales_apart ? (k / 32 + 1) / 2 * 4 * PANEL : 0;
    uint64_t panels = (rows + PANEL - 1) / PANEL;
    layout->matrix_panels = matrices ? panels + panels % 2 : panels;
    layout->n_panels = layout->matrix_panels * n_matrices;
    /* Two panels at once can be bound, and one fits into the staging memory. */
    if (layout->panel_size > UPLOAD_SIZE || 2 * layout->panel_size > device->max_range)
        return weight_unsupported(desc, "its rows are too long");
    /* Kernels count rows and panels in 32 bits; a matrix's are workgroups at once. */
    if (matrices &&
        (layout->n_panels > UINT32_MAX / PANEL || layout->matrix_panels > device->max_groups[0] / MAX_PARTS))
        return weight_unsupported(desc, "it has too many rows");
    layout->values_size = layout->n_panels * layout->panel_size;
    layout->size = layout->values_size + layout->n_panels * layout->scale_size;
    return ENGINE_OK;
}

int weight_size(struct engine_device *device, const struct engine_weight_desc *desc, uint64_t *bytes)
{
    struct engine_weight_desc given;
    sized_read(&given, sizeof given, desc);
    struct layout layout = {0};
    int status = plan_layout(device, &given, &layout);
    if (!status) *bytes = memory_size(layout.size);
    return status;
}

/* ---- Packing ------------------------------------------------------------------------------------------- */

/* A row of `size` bytes in units of 16, the last one padded: unit u goes to target + u * 16 * PANEL. */
static void spread_units(const uint8_t *row, size_t size, uint8_t *target)
{
    size_t u = 0;
    for (; (u + 1) * 16 <= size; u++) memcpy(target + u * 16 * PANEL, row + u * 16, 16);
    if (size % 16) memcpy(target + u * 16 * PANEL, row + u * 16, size % 16);
}

/* A row of blocks: word i of a block goes to target + i * 4 * PANEL. */
static void spread_blocks(uint32_t type, const uint8_t *row, uint64_t k, uint8_t *target)
{
    const struct weight_type *known = weight_type(type);
    uint32_t length, size;
    gpu_type_block(type, &length, &size);
    for (uint64_t b = 0; b < k / length; b++, row += size) {
        uint8_t words[4 * MAX_BLOCK_WORDS] = {0};
        memcpy(words, row, known->head);
        memcpy(words + 4, row + known->head, size - known->head);
        for (size_t i = 0; i < known->block_words; i++, target += (size_t)4 * PANEL)
            memcpy(target, words + 4 * i, 4);
    }
}

/* Where a panel's rows begin in the data, and how many there are. */
static const uint8_t *panel_rows(const struct layout *layout, const uint8_t *data, uint64_t panel,
                                 uint64_t *n_rows)
{
    uint64_t matrix = panel / layout->matrix_panels, first = panel % layout->matrix_panels * PANEL;
    /* none in the panel that makes their number even */
    uint64_t rest = first < layout->rows ? layout->rows - first : 0;
    *n_rows = rest < PANEL ? rest : PANEL;
    return data + (matrix * layout->rows + (rest > 0 ? first : 0)) * layout->row_size;
}

/* The values of a panel, without scales. The target is zero where nothing is written. */
static void pack_panel(uint32_t type, const struct layout *layout, const uint8_t *data, uint64_t panel,
                       uint8_t *target)
{
    uint64_t n_rows;
    const uint8_t *row = panel_rows(layout, data, panel, &n_rows);
    bool tail = n_rows < PANEL || layout->row_size % 16 != 0;
    if (tail) memset(target, 0, layout->panel_size);
    for (uint64_t r = 0; r < n_rows; r++, row += layout->row_size) {
        uint8_t *to = target + r * 16;
        if (weight_type(type)->block_words) {
            spread_blocks(type, row, layout->k, target + r * 4);
            continue;
        }
        if (type == ENGINE_TYPE_Q4_0) {
            for (uint64_t b = 0; b < layout->k / 32; b++) {
                uint64_t half[2];
                memcpy(half, row + b * 18 + 2, 16);
                half[0] ^= 0x8888888888888888u; /* n - 8 in two's complement */
                half[1] ^= 0x8888888888888888u;
                memcpy(to + b * 16 * PANEL, half, 16);
            }
        } else if (type == ENGINE_TYPE_Q8_0) {
            for (uint64_t b = 0; b < layout->k / 32; b++) {
                memcpy(to + 2 * b * 16 * PANEL, row + b * 34 + 2, 16);
                memcpy(to + (2 * b + 1) * 16 * PANEL, row + b * 34 + 18, 16);
            }
        } else {
            spread_units(row, layout->row_size, to);
        }
    }
}

static void pack_scales(uint32_t type, const struct layout *layout, const uint8_t *data, uint64_t panel,
                        uint8_t *target)
{
    uint64_t n_rows;
    const uint8_t *rows = panel_rows(layout, data, panel, &n_rows);
    uint64_t block_size = type == ENGINE_TYPE_Q4_0 ? 18 : 34, n_blocks = layout->k / 32;
    memset(target, 0, layout->scale_size);
    for (uint64_t r = 0; r < n_rows; r++)
        for (uint64_t b = 0; b < n_blocks; b++)
            memcpy(target + (b / 2 * PANEL + r) * 4 + b % 2 * 2, rows + r * layout->row_size + b * block_size,
                   2);
}

typedef void pack_function(uint32_t type, const struct layout *layout, const uint8_t *data, uint64_t panel,
                           uint8_t *target);

/* Packs all panels, `size` bytes each, to `offset` of the range: in place where the host sees it, else as
 * many at a time as fit into a staging buffer. */
static int pack_all(struct engine_device *device, const struct memory_range *range, uint64_t offset,
                    uint64_t size, pack_function *pack, const struct engine_weight_desc *desc,
                    const struct layout *layout)
{
    uint8_t *mapped = memory_pointer(range);
    for (uint64_t panel = 0; panel < layout->n_panels;) {
        uint64_t count = UPLOAD_SIZE / size;
        if (count > layout->n_panels - panel) count = layout->n_panels - panel;
        struct upload_slot *slot = NULL;
        int status = mapped ? ENGINE_OK : upload_begin(device, &slot);
        if (status) return status;
        uint8_t *target = mapped ? mapped + offset + panel * size : memory_pointer(&slot->staging);
        for (uint64_t i = 0; i < count; i++)
            pack(desc->type, layout, desc->data, panel + i, target + i * size);
        if (!mapped) status = upload_submit(device, slot, range, offset + panel * size, count * size);
        if (status) return status;
        panel += count;
    }
    return ENGINE_OK;
}

static int weight_fill(struct engine_device *device, struct engine_weight *weight,
                       const struct engine_weight_desc *desc, const struct layout *layout)
{
    if (layout->n_panels == 0) {
        weight->values = malloc(layout->size);
        if (!weight->values) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (plain values)");
        memcpy(weight->values, desc->data, layout->size);
        uint8_t *mapped = memory_pointer(&weight->range);
        if (!mapped) return upload_bytes(device, &weight->range, 0, desc->data, layout->size);
        memcpy(mapped, desc->data, layout->size);
        return ENGINE_OK;
    }
    int status = pack_all(device, &weight->range, 0, layout->panel_size, pack_panel, desc, layout);
    if (status || layout->scale_size == 0) return status;
    return pack_all(device, &weight->range, layout->values_size, layout->scale_size, pack_scales, desc,
                    layout);
}

int weight_create(struct engine_device *device, const struct engine_weight_desc *desc,
                  struct engine_weight **out)
{
    struct engine_weight_desc given;
    sized_read(&given, sizeof given, desc);
    struct layout layout = {0};
    const char *name = given.name ? given.name : "weight";
    int status = plan_layout(device, &given, &layout);
    if (status) return status;
    if (!given.data || given.data_size / layout.row_size / layout.n_matrices < layout.rows)
        return vulkan_host->fail(ENGINE_ERROR_ARGUMENT, "%s: there is less data than its shape requires",
                                 name);
    struct engine_weight *weight = calloc(1, sizeof *weight);
    if (!weight) return vulkan_host->fail(ENGINE_ERROR_MEMORY, "%s: out of memory", name);
    weight->base = (struct gpu_weight){.device = device, .type = given.type, .uses = given.uses};
    memcpy(weight->base.ne, given.ne, sizeof weight->base.ne);
    weight->panel_size = layout.panel_size;
    weight->scale_size = layout.scale_size;
    weight->n_panels = layout.n_panels;
    weight->matrix_panels = given.uses == ENGINE_WEIGHT_MATRICES ? layout.matrix_panels : 0;
    status = gpu_charge(vulkan_host, &device->budget, memory_size(layout.size), name);
    if (!status) {
        weight->charged = memory_size(layout.size);
        status = memory_allocate(device, MEMORY_DEVICE, layout.size, name, &weight->range);
    }
    if (!status) status = weight_fill(device, weight, &given, &layout);
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
    device_wait_idle(device); /* its upload may be under way */
    memory_free(device, &weight->range);
    gpu_discharge(&device->budget, weight->charged);
    free(weight->values);
    free(weight);
}
