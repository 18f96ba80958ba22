/* weight.c: takes over model tensors. Weights of matmuls are packed into panels (types.h) by all threads;
 * each matrix of a weight with several starts a new panel, and a weight of one also serves get-rows from its
 * panels. Weights that only give rows stay as they are in the file, in place if the engine keeps them; plain
 * values (norms, biases) are copied. */
#include <stdlib.h>
#include <string.h>

#include "common/sized.h"
#include "cpu.h"
#include "pool.h"
#include "types.h"

/* The size and the place of a weight. */
struct layout {
    const struct weight_type *type, *packed_type; /* in the file, of panels */
    uint64_t k, rows, n_matrices;                 /* rows of a matrix */
    uint64_t row_size;                            /* in the file */
    uint64_t packed_size;                         /* 0: no panels */
    uint64_t plain_size;                          /* 0: no copy */
    bool in_place;
};

static const char *weight_name(const struct engine_weight_desc *desc)
{
    return desc->name ? desc->name : "weight";
}

static size_t n_panels(uint64_t rows)
{
    return (rows + PANEL - 1) / PANEL;
}

/* The type of the panels. Small matrices with short rows become float32, so that their inputs aren't rounded
 * to int8: they stay in the caches either way, where few bits save little. The setting `integers` of the
 * section [cpu], which ENGINE_CPU_INTEGERS overrides, may be "all", which leaves them as they are (so that
 * tests reach the kernels for int8 with them, and results are rounded as in llama.cpp), or "none", which
 * turns all matrices into float32, for exact results. Matrices whose inputs should stay as they are keep
 * their blocks if there are kernels for that. */
static int choose_panels(const struct engine_weight_desc *desc, struct layout *layout)
{
    enum { MOST = 1 << 18 /* values in all */ };
    const char *integers = getenv("ENGINE_CPU_INTEGERS"), *name = "ENGINE_CPU_INTEGERS";
    if (!integers || !*integers) integers = cpu_host->setting("cpu", "integers"), name = "[cpu] integers";
    bool all = integers && strcmp(integers, "all") == 0, none = integers && strcmp(integers, "none") == 0;
    if (integers && *integers && !all && !none && strcmp(integers, "auto") != 0)
        return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "%s is '%s'; it can be 'auto', 'all' or 'none'", name,
                              integers);
    bool small = layout->k <= CHUNK && layout->rows * layout->n_matrices <= MOST / layout->k;
    bool converted = (none || (small && !all)) && layout->type->kind == TILE_INT8;
    layout->packed_type = converted                    ? weight_type(ENGINE_TYPE_F32)
                          : desc->exact_inputs && !all ? weight_type_exact(layout->type)
                                                       : layout->type;
    layout->packed_size =
        layout->n_matrices * n_panels(layout->rows) * weight_panel_size(layout->packed_type, layout->k);
    return ENGINE_OK;
}

static int plan_layout(const struct engine_weight_desc *desc, struct layout *layout)
{
    enum { OTHER_USES = ENGINE_WEIGHT_MATMUL | ENGINE_WEIGHT_ROWS | ENGINE_WEIGHT_VALUES };
    const char *name = weight_name(desc);
    const struct weight_type *type = weight_type(desc->type);
    if (!type)
        return cpu_host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: type %s is not supported", name,
                              desc->type_name ? desc->type_name : "?");
    bool matrices = desc->uses == ENGINE_WEIGHT_MATRICES;
    if (!matrices && (desc->uses == 0 || (desc->uses & ~(uint32_t)OTHER_USES)))
        return cpu_host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: unknown uses %#x", name, desc->uses);
    if ((desc->uses & ENGINE_WEIGHT_VALUES) && desc->type != ENGINE_TYPE_F32)
        return cpu_host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: the values have type %s; they must be F32", name,
                              type->name);
    uint64_t k = desc->ne[0], rows = 1, n_matrices = matrices ? desc->ne[2] : 1, size;
    if (matrices && desc->ne[3] != 1)
        return cpu_host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: matrices with four dimensions are not supported",
                              name);
    for (int i = 1; i < 4; i++)
        if (desc->ne[i] == 0 || __builtin_mul_overflow(rows, desc->ne[i], &rows))
            return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "%s: the shape is empty or too large", name);
    if (k == 0 || k % type->block_length != 0)
        return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "%s: rows of %llu values are not whole blocks of %s",
                              name, (unsigned long long)k, type->name);
    /* A packed panel takes less than PANEL * (8 * k + 64) bytes for every type; each matrix may have one
     * panel that its rows don't fill. */
    if (rows > UINT64_MAX / 64 / PANEL ||
        __builtin_mul_overflow(k + 8, (rows + n_matrices * PANEL) * 8, &size) || size > SIZE_MAX / 2)
        return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "%s: the shape is too large", name);
    rows /= n_matrices;
    *layout = (struct layout){
        .type = type, .k = k, .rows = rows, .n_matrices = n_matrices, .row_size = weight_row_size(type, k)};
    bool panels = matrices || (desc->uses & ENGINE_WEIGHT_MATMUL), values = desc->uses & ENGINE_WEIGHT_VALUES;
    int status = panels ? choose_panels(desc, layout) : ENGINE_OK;
    layout->in_place = !panels && !values && desc->data_is_kept;
    if ((values || !panels) && !layout->in_place)
        layout->plain_size = round_up(rows * layout->row_size, CPU_ALIGNMENT);
    return status;
}

int weight_size(struct engine_device *device, const struct engine_weight_desc *desc, uint64_t *bytes)
{
    (void)device;
    struct engine_weight_desc given;
    sized_read(&given, sizeof given, desc);
    struct layout layout = {0};
    int status = plan_layout(&given, &layout);
    if (!status) *bytes = layout.packed_size + layout.plain_size;
    return status;
}

/* ---- Packing --------------------------------------------------------------------------------------- */

struct packing {
    const struct layout *layout;
    const uint8_t *data;
    uint8_t *packed;
    bool opened;
};

/* n columns of a panel's rows. */
static void pack_chunk(const struct layout *layout, const uint8_t *rows, size_t n_rows, size_t n,
                       uint8_t *chunk)
{
    const struct weight_type *from = layout->type, *to = layout->packed_type;
    if (from->format == to->format) { /* the same type, exact or not */
        to->pack(to, rows, layout->row_size, n_rows, n, chunk);
        return;
    }
    float values[PANEL][CHUNK];
    for (size_t r = 0; r < n_rows; r++) weight_to_float(from, rows + r * layout->row_size, n, values[r]);
    to->pack(to, (const uint8_t *)values, sizeof values[0], n_rows, n, chunk);
}

/* One phase, with a task for each panel. */
static size_t open_packing(void *context)
{
    struct packing *packing = context;
    const struct layout *layout = packing->layout;
    size_t n = packing->opened ? 0 : layout->n_matrices * n_panels(layout->rows);
    packing->opened = true;
    return n;
}

static void pack_panel(void *context, unsigned thread, size_t panel)
{
    (void)thread;
    const struct packing *packing = context;
    const struct layout *layout = packing->layout;
    const struct weight_type *type = layout->packed_type;
    size_t per_matrix = n_panels(layout->rows), size = weight_panel_size(type, layout->k);
    size_t chunk_size = type->chunk_size(type, CHUNK), columns_size = weight_row_size(layout->type, CHUNK);
    size_t first = panel % per_matrix * PANEL, n_rows = smaller(PANEL, layout->rows - first);
    const uint8_t *rows = packing->data + (panel / per_matrix * layout->rows + first) * layout->row_size;
    uint8_t *chunk = packing->packed + panel * size;
    for (size_t i = 0; i < layout->k; i += CHUNK, rows += columns_size, chunk += chunk_size)
        pack_chunk(layout, rows, n_rows, smaller(CHUNK, layout->k - i), chunk);
}

int weight_create(struct engine_device *device, const struct engine_weight_desc *desc,
                  struct engine_weight **out)
{
    struct engine_weight_desc given;
    sized_read(&given, sizeof given, desc);
    struct layout layout = {0};
    int status = plan_layout(&given, &layout);
    if (status) return status;
    const char *name = weight_name(&given);
    uint64_t size = layout.n_matrices * layout.rows * layout.row_size;
    if (!given.data || given.data_size < size)
        return cpu_host->fail(ENGINE_ERROR_ARGUMENT, "%s: %llu bytes of data, but its shape requires %llu",
                              name, (unsigned long long)given.data_size, (unsigned long long)size);
    struct engine_weight *weight = calloc(1, sizeof *weight);
    if (!weight) return cpu_host->fail(ENGINE_ERROR_MEMORY, "%s: out of memory", name);
    weight->device = device;
    weight->type = layout.type;
    weight->packed_type = layout.packed_type;
    weight->k = layout.k;
    weight->rows = layout.rows;
    weight->n_matrices = layout.n_matrices;
    memcpy(weight->ne, given.ne, sizeof weight->ne);
    weight->memory_size = layout.packed_size + layout.plain_size;
    if (weight->memory_size) {
        weight->memory = device_allocate(device, weight->memory_size, name);
        if (!weight->memory) {
            free(weight);
            return ENGINE_ERROR_MEMORY;
        }
    }
    if (layout.packed_size) {
        struct packing packing = {.layout = &layout, .data = given.data, .packed = weight->memory};
        static const struct pool_work pack = {open_packing, pack_panel};
        pool_run(device->pool, &pack, &packing);
        weight->packed = weight->memory;
    }
    if (layout.in_place) weight->plain = given.data;
    if (layout.plain_size) {
        uint8_t *plain = weight->memory + layout.packed_size;
        memcpy(plain, given.data, size);
        weight->plain = plain;
    }
    *out = weight;
    return ENGINE_OK;
}

void weight_destroy(struct engine_weight *weight)
{
    if (!weight) return;
    device_free(weight->device, weight->memory, weight->memory_size);
    free(weight);
}
