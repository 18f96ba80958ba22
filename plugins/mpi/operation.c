/* operation.c: see operation.h. */
#include "operation.h"

#include <string.h>

#include "common/sized.h"

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
    const struct op_info *info = op_info(op);
    union op_args known;
    if (!info) return fail(ENGINE_ERROR_UNSUPPORTED, "operation %u is unknown", op);
    if (sized_size(args) < sizeof(size_t) || !sized_rest_is_zero(args, info->size))
        return fail(ENGINE_ERROR_UNSUPPORTED, "operation %u asks for something unknown", op);
    memset(&known, 0, sizeof known);
    sized_read(&known, info->size, args);
    uint32_t present = 0;
    const struct engine_tensor *tensors[OP_MAX_OPERANDS];
    for (uint32_t i = 0; info->operands[i].name; i++) {
        const struct engine_tensor **place = op_tensor(&known, &info->operands[i]);
        tensors[i] = *place;
        *place = NULL;
        if (tensors[i]) present |= 1u << i;
    }
    bytes_add_u32(bytes, op);
    size_t length = bytes_reserve_u64(bytes);
    bytes_add(bytes, &known, info->size);
    bytes_add_u32(bytes, present);
    for (uint32_t i = 0; info->operands[i].name; i++) {
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
    const struct op_info *info = op_info(operation->op);
    const uint8_t *args = info ? read_bytes(&reader, info->size) : NULL;
    uint32_t present = read_u32(&reader);
    operation->n_tensors = 0;
    memset(&operation->args, 0, sizeof operation->args);
    if (!args || reader.failed) return false;
    memcpy(&operation->args, args, info->size);
    operation->args.struct_size = info->size;
    for (uint32_t i = 0; info->operands[i].name; i++) {
        const struct engine_tensor *tensor = NULL;
        if (present & 1u << i) {
            tensor = &operation->tensors[operation->n_tensors];
            read_tensor(&reader, operation);
            present &= ~(1u << i);
        }
        *op_tensor(&operation->args, &info->operands[i]) = tensor;
    }
    return !reader.failed && reader.left == 0 && present == 0;
}
