/* weight.c: model tensors on the device. Matrices are stored in panels of 32 rows, so that invocations that
 * work on neighbouring rows read neighbouring memory:
 *
 *   F32            [panel][k / 4][32 rows] of 4 values        (16 bytes each)
 *   F16, BF16      [panel][k / 8][32 rows] of 8 values
 *   Q8_0, Q4_0, IQ4_NL, MXFP4, Q4_K, Q5_K, Q6_K, IQ4_XS
 *                  [panel][block][quad][32 rows] of 16 bytes: what the functions that make quads say, so that
 *                  32 values are next to each other
 *   the others     [panel][block][word][32 rows]: the words of the file's blocks, see struct weight_type
 *
 * Rows are padded with zeros to whole units and panels. Each of several matrices starts a new panel and has
 * an even number of them: kernels take two at a time. What doesn't fit into quads follows after all panels:
 * the scales of blocks, [panel][pair of blocks][32 rows] of 2 bytes each, or IQ4_XS's,
 * [panel][block][32 rows] of 8 bytes. Plain values (norms, biases) are stored as in the file. */
#include <stdlib.h>
#include <string.h>

#include "builder.h"
#include "common/sized.h"

#define PANEL           32
#define MAX_BLOCK_WORDS 28
#define MAX_BLOCK_QUADS 13

/* The memory that a weight takes. */
struct layout {
    uint64_t k, rows, row_size; /* of a matrix; row_size: bytes in the file */
    uint64_t n_matrices, matrix_panels;
    uint64_t n_panels, panel_size, scale_size;
    uint64_t values_size, size; /* of all panels or plain values; with the scales */
};

#define NIBBLES UINT64_C(0x0f0f0f0f0f0f0f0f) /* the low ones of eight bytes */

/* Byte j of a quad has values j and 16 + j: here those of Q4_0, in two's complement. */
static void make_q4_0(const uint8_t *block, uint8_t *quads)
{
    uint64_t half[2];
    memcpy(half, block + 2, 16);
    half[0] ^= 0x8888888888888888u; /* n - 8 in two's complement */
    half[1] ^= 0x8888888888888888u;
    memcpy(quads, half, 16);
}

static void make_q8_0(const uint8_t *block, uint8_t *quads)
{
    memcpy(quads, block + 2, 32);
}

/* Byte j has values 2 j and 2 j + 1, so that shaders find both in a table; the file's has j and 16 + j. */
static void make_pairs(const uint8_t *bytes, uint8_t *quad)
{
    for (size_t j = 0; j < 8; j++) {
        quad[j] = (uint8_t)((bytes[2 * j] & 15) | (bytes[2 * j + 1] & 15) << 4);
        quad[8 + j] = (uint8_t)(bytes[2 * j] >> 4 | (bytes[2 * j + 1] & 0xf0));
    }
}

static void make_iq4_nl(const uint8_t *block, uint8_t *quads)
{
    make_pairs(block + 2, quads);
}

static void make_mxfp4(const uint8_t *block, uint8_t *quads)
{
    make_pairs(block + 1, quads);
}

static void make_iq4_xs(const uint8_t *block, uint8_t *quads)
{
    for (size_t i = 0; i < 8; i++) make_pairs(block + 8 + 16 * i, quads + 16 * i);
}

/* Two quads from 32 bytes, whose low nibbles are 32 values, and the high ones 32 others. */
static void make_nibbles(const uint8_t *bytes, uint8_t *low, uint8_t *high)
{
    for (size_t i = 0; i < 2; i++) {
        uint64_t first, second, quad;
        memcpy(&first, bytes + 8 * i, 8);
        memcpy(&second, bytes + 16 + 8 * i, 8);
        quad = (first & NIBBLES) | (second & NIBBLES) << 4;
        memcpy(low + 8 * i, &quad, 8);
        quad = (first >> 4 & NIBBLES) | (second & ~NIBBLES);
        memcpy(high + 8 * i, &quad, 8);
    }
}

/* A quad of what describes a block of 256: its two scales, then eight scales and minima of 6 bits each: four
 * bits of the scales, four bits of the minima, two bits of each. */
static void make_head(const uint8_t *block, uint8_t *quad)
{
    const uint8_t *levels = block + 4;
    uint32_t words[3] = {0};
    memcpy(quad, block, 4);
    for (size_t i = 0; i < 8; i++) {
        uint32_t first = levels[i], second = levels[i + 4], scale = first & 63, least = second & 63;
        if (i >= 4) {
            scale = (second & 15) | (uint32_t)levels[i - 4] >> 6 << 4;
            least = second >> 4 | first >> 6 << 4;
        }
        words[0] |= (scale & 15) << (4 * i);
        words[1] |= (least & 15) << (4 * i);
        words[2] |= (scale >> 4 | least >> 4 << 2) << (4 * i);
    }
    memcpy(quad + 4, words, 12);
}

/* The head, then a quad for each 32 values. */
static void make_q4_k(const uint8_t *block, uint8_t *quads)
{
    make_head(block, quads);
    for (size_t i = 0; i < 4; i++)
        make_nibbles(block + 16 + 32 * i, quads + 16 + 32 * i, quads + 32 + 32 * i);
}

/* The same with a word of the fifth bits of each 32 values before the quads: bit i of its byte j is that of
 * value 4 i + j. */
static void make_q5_k(const uint8_t *block, uint8_t *quads)
{
    uint32_t fifth[8];
    make_head(block, quads);
    memcpy(fifth, block + 16, 32);
    for (size_t part = 0; part < 8; part++) {
        uint32_t word = 0;
        for (size_t i = 0; i < 8; i++) word |= (fifth[i] >> part & 0x01010101u) << i;
        memcpy(quads + 16 + 4 * part, &word, 4);
    }
    for (size_t i = 0; i < 4; i++)
        make_nibbles(block + 48 + 32 * i, quads + 48 + 32 * i, quads + 64 + 32 * i);
}

/* Sixteen levels; two words of the upper two bits of each 32 values: bits 2 i and 2 i + 1 of byte j are those
 * of value 4 i + j of each half; then the quads. */
static void make_q6_k(const uint8_t *block, uint8_t *quads)
{
    memcpy(quads, block + 192, 16);
    for (size_t part = 0; part < 8; part++) {
        for (size_t half = 0; half < 2; half++) {
            uint32_t upper[4], word = 0;
            memcpy(upper, block + 128 + 32 * (part / 4) + 16 * half, 16);
            for (size_t i = 0; i < 4; i++) word |= (upper[i] >> (2 * (part % 4)) & 0x03030303u) << (2 * i);
            memcpy(quads + 16 + 8 * part + 4 * half, &word, 4);
        }
    }
    for (size_t i = 0; i < 4; i++) { /* each half of 128: values 0 … 31 and 64 … 95, then the others */
        uint8_t *low = quads + 80 + 64 * (i / 2) + 16 * (i % 2);
        make_nibbles(block + 64 * (i / 2) + 32 * (i % 2), low, low + 32);
    }
}

static const struct weight_type types[] = {
    {ENGINE_TYPE_F32, SHADER_MATMUL_F32_FEW, .block_words = 0},
    {ENGINE_TYPE_F16, SHADER_MATMUL_F16_FEW, .block_words = 0},
    {ENGINE_TYPE_BF16, SHADER_MATMUL_BF16_FEW, .block_words = 0},
    {ENGINE_TYPE_Q8_0, SHADER_MATMUL_Q8_0_FEW, .block_quads = 2, make_q8_0, .apart = 2, .in_file = 2},
    {ENGINE_TYPE_Q4_0, SHADER_MATMUL_Q4_0_FEW, .block_quads = 1, make_q4_0, .apart = 2, .in_file = 2},
    {ENGINE_TYPE_Q4_1, SHADER_MATMUL_Q4_1_FEW, .block_words = 5, .head = 4},
    {ENGINE_TYPE_Q5_0, SHADER_MATMUL_Q5_0_FEW, .block_words = 6, .head = 2},
    {ENGINE_TYPE_Q5_1, SHADER_MATMUL_Q5_1_FEW, .block_words = 6, .head = 4},
    {ENGINE_TYPE_Q2_K, SHADER_MATMUL_Q2_K_FEW, .block_words = 21, .head = 4},
    {ENGINE_TYPE_Q3_K, SHADER_MATMUL_Q3_K_FEW, .block_words = 28, .head = 4},
    {ENGINE_TYPE_Q4_K, SHADER_MATMUL_Q4_K_FEW, .block_quads = 9, make_q4_k},
    {ENGINE_TYPE_Q5_K, SHADER_MATMUL_Q5_K_FEW, .block_quads = 11, make_q5_k},
    {ENGINE_TYPE_Q6_K, SHADER_MATMUL_Q6_K_FEW, .block_quads = 13, make_q6_k, .apart = 2, .in_file = 2, 208},
    {ENGINE_TYPE_IQ4_NL, SHADER_MATMUL_IQ4_NL_FEW, .block_quads = 1, make_iq4_nl, .apart = 2, .in_file = 2},
    {ENGINE_TYPE_IQ4_XS, SHADER_MATMUL_IQ4_XS_FEW, .block_quads = 8, make_iq4_xs, .apart = 8, .in_file = 8},
    {ENGINE_TYPE_MXFP4, SHADER_MATMUL_MXFP4_FEW, .block_quads = 1, make_mxfp4, .apart = 2, .in_file = 1},
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
    default:
        gpu_type_block(type, &length, &size);
        return k / length * (weight_type(type)->block_words + 4 * weight_type(type)->block_quads) * 4 * PANEL;
    }
}

/* Bytes of what a panel has behind all panels. */
static uint64_t apart_bytes(uint32_t type, uint64_t n_blocks)
{
    uint32_t each = weight_type(type)->apart;
    return each == 2 ? (n_blocks + 1) / 2 * 4 * PANEL : n_blocks * each * PANEL;
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
    layout->scale_size = apart_bytes(desc->type, k / length);
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

/* The same with quads that are made of blocks. */
static void spread_quads(uint32_t type, const uint8_t *row, uint64_t k, uint8_t *target)
{
    const struct weight_type *known = weight_type(type);
    uint32_t length, size;
    gpu_type_block(type, &length, &size);
    ENGINE_ASSERT(known->block_quads <= MAX_BLOCK_QUADS);
    for (uint64_t b = 0; b < k / length; b++, row += size) {
        uint8_t quads[16 * MAX_BLOCK_QUADS];
        known->make_quads(row, quads);
        for (size_t i = 0; i < known->block_quads; i++, target += (size_t)16 * PANEL)
            memcpy(target, quads + 16 * i, 16);
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
        if (weight_type(type)->block_quads)
            spread_quads(type, row, layout->k, to);
        else
            spread_units(row, layout->row_size, to);
    }
}

/* What a panel has behind all panels. */
static void pack_scales(uint32_t type, const struct layout *layout, const uint8_t *data, uint64_t panel,
                        uint8_t *target)
{
    uint64_t n_rows;
    const uint8_t *rows = panel_rows(layout, data, panel, &n_rows);
    const struct weight_type *known = weight_type(type);
    uint32_t length, size;
    gpu_type_block(type, &length, &size);
    memset(target, 0, layout->scale_size);
    for (uint64_t r = 0; r < n_rows; r++)
        for (uint64_t b = 0; b < layout->k / length; b++) {
            const uint8_t *from = rows + r * layout->row_size + b * size + known->apart_at;
            uint64_t place =
                known->apart == 2 ? (b / 2 * PANEL + r) * 4 + b % 2 * 2 : (b * PANEL + r) * known->apart;
            memcpy(target + place, from, known->in_file);
        }
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
