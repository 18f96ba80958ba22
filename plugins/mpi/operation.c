/* operation.c: see operation.h. */
#include "operation.h"

#include <string.h>

#include "common/sized.h"

#define AT(name, field) offsetof(struct engine_op_##name, field)
#define NONE            SIZE_MAX

/* Where an operation's struct has pointers to tensors. */
static const struct layout {
    size_t size;
    size_t tensors[OPERATION_TENSORS]; /* up to NONE */
} layouts[] = {
    [ENGINE_OP_MATMUL] = {sizeof(struct engine_op_matmul),
                          {AT(matmul, weight), AT(matmul, input), AT(matmul, output), AT(matmul, gate),
                           AT(matmul, bias), AT(matmul, residual), AT(matmul, experts), AT(matmul, mix),
                           NONE}},
    [ENGINE_OP_ATTENTION] = {sizeof(struct engine_op_attention),
                             {AT(attention, q), AT(attention, k), AT(attention, v),
                              AT(attention, block_table), AT(attention, sequences), AT(attention, positions),
                              AT(attention, output), AT(attention, slopes), AT(attention, sinks),
                              AT(attention, weights), AT(attention, distance_bias), NONE}},
    [ENGINE_OP_CACHE_WRITE] = {sizeof(struct engine_op_cache_write),
                               {AT(cache_write, input), AT(cache_write, slots), AT(cache_write, cache),
                                NONE}},
    [ENGINE_OP_ROPE] = {sizeof(struct engine_op_rope),
                        {AT(rope, input), AT(rope, positions), AT(rope, output), AT(rope, factors), NONE}},
    [ENGINE_OP_NORM] = {sizeof(struct engine_op_norm),
                        {AT(norm, input), AT(norm, output), AT(norm, weight), AT(norm, bias), NONE}},
    [ENGINE_OP_GET_ROWS] = {sizeof(struct engine_op_get_rows),
                            {AT(get_rows, source), AT(get_rows, rows), AT(get_rows, output), NONE}},
    [ENGINE_OP_ADD] = {sizeof(struct engine_op_binary),
                       {AT(binary, a), AT(binary, b), AT(binary, output), NONE}},
    [ENGINE_OP_MUL] = {sizeof(struct engine_op_binary),
                       {AT(binary, a), AT(binary, b), AT(binary, output), NONE}},
    [ENGINE_OP_ACTIVATE] = {sizeof(struct engine_op_activate),
                            {AT(activate, input), AT(activate, factor), AT(activate, output), NONE}},
    [ENGINE_OP_ROUTE] = {sizeof(struct engine_op_route),
                         {AT(route, logits), AT(route, bias), AT(route, ids), AT(route, weights), NONE}},
    [ENGINE_OP_CONCAT] = {sizeof(struct engine_op_concat),
                          {AT(concat, a), AT(concat, b), AT(concat, output), NONE}},
    [ENGINE_OP_CONV] = {sizeof(struct engine_op_conv),
                        {AT(conv, input), AT(conv, weight), AT(conv, positions), AT(conv, states),
                         AT(conv, state), AT(conv, output), NONE}},
    [ENGINE_OP_SCAN] = {sizeof(struct engine_op_scan),
                        {AT(scan, q), AT(scan, k), AT(scan, v), AT(scan, decay), AT(scan, rates), AT(scan, a),
                         AT(scan, b), AT(scan, erase), AT(scan, bonus), AT(scan, positions), AT(scan, states),
                         AT(scan, state), AT(scan, output), NONE}},
};

static const struct layout *layout_of(uint32_t op)
{
    return op < sizeof layouts / sizeof *layouts && layouts[op].size ? &layouts[op] : NULL;
}

static void add_tensor(struct bytes *bytes, const struct engine_tensor *tensor, uint32_t place,
                       uint32_t number)
{
    bytes_add_u32(bytes, tensor->type);
    bytes_add(bytes, tensor->ne, sizeof tensor->ne);
    bytes_add(bytes, tensor->nb, sizeof tensor->nb);
    bytes_add_u64(bytes, tensor->offset);
    bytes_add_u32(bytes, place);
    bytes_add_u32(bytes, number);
}

int operation_add(struct bytes *bytes, uint32_t op, const void *args, operation_naming *naming, void *user,
                  int (*fail)(int status, const char *format, ...))
{
    const struct layout *layout = layout_of(op);
    union op_args known;
    if (!layout) return fail(ENGINE_ERROR_UNSUPPORTED, "operation %u is unknown", op);
    if (sized_size(args) < sizeof(size_t) || !sized_rest_is_zero(args, layout->size))
        return fail(ENGINE_ERROR_UNSUPPORTED, "operation %u asks for something unknown", op);
    memset(&known, 0, sizeof known);
    sized_read(&known, layout->size, args);
    uint32_t present = 0;
    const struct engine_tensor *tensors[OPERATION_TENSORS];
    for (uint32_t i = 0; layout->tensors[i] != NONE; i++) {
        void *place = (char *)&known + layout->tensors[i];
        memcpy(&tensors[i], place, sizeof tensors[i]);
        memset(place, 0, sizeof tensors[i]);
        if (tensors[i]) present |= 1u << i;
    }
    bytes_add_u32(bytes, op);
    size_t length = bytes_reserve_u64(bytes);
    bytes_add(bytes, &known, layout->size);
    bytes_add_u32(bytes, present);
    for (uint32_t i = 0; layout->tensors[i] != NONE; i++) {
        uint32_t place = PLACE_NOTHING, number = 0;
        if (!tensors[i]) continue;
        int status = naming ? naming(user, tensors[i], &place, &number) : ENGINE_OK;
        if (status) return status;
        add_tensor(bytes, tensors[i], place, number);
    }
    bytes_set_length(bytes, length);
    return bytes->failed ? fail(ENGINE_ERROR_MEMORY, "out of memory (operation)") : ENGINE_OK;
}

static void read_tensor(struct reader *reader, struct operation *operation)
{
    uint32_t i = operation->n_tensors++;
    struct engine_tensor *tensor = &operation->tensors[i];
    *tensor = (struct engine_tensor){.struct_size = sizeof *tensor, .type = read_u32(reader)};
    for (int d = 0; d < 4; d++) tensor->ne[d] = read_u64(reader);
    for (int d = 0; d < 4; d++) tensor->nb[d] = read_u64(reader);
    tensor->offset = read_u64(reader);
    operation->places[i] = read_u32(reader);
    operation->numbers[i] = read_u32(reader);
}

bool operation_read(struct reader *message, struct operation *operation)
{
    operation->op = read_u32(message);
    struct reader reader = read_part(message, read_u64(message));
    const struct layout *layout = layout_of(operation->op);
    const uint8_t *args = layout ? read_bytes(&reader, layout->size) : NULL;
    uint32_t present = read_u32(&reader);
    operation->n_tensors = 0;
    memset(&operation->args, 0, sizeof operation->args);
    if (!args || reader.failed) return false;
    memcpy(&operation->args, args, layout->size);
    operation->args.struct_size = layout->size;
    for (uint32_t i = 0; layout->tensors[i] != NONE; i++) {
        const struct engine_tensor *tensor = NULL;
        if (present & 1u << i) {
            tensor = &operation->tensors[operation->n_tensors];
            read_tensor(&reader, operation);
            present &= ~(1u << i);
        }
        memcpy((char *)&operation->args + layout->tensors[i], &tensor, sizeof tensor);
    }
    return !reader.failed && reader.left == 0 && present == 0;
}
