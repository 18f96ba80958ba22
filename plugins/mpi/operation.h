/* operation.h: an operation with its tensors, as bytes and back. The struct travels as it is, without its
 * pointers; each tensor that it has follows: type u32, ne and nb u64 each, offset u64, and what it is in
 * (enum place u32, its number u32).
 *
 * This depends neither on MPI nor on either side: what numbers mean is the caller's. */
#ifndef MPI_OPERATION_H
#define MPI_OPERATION_H

#include "bytes.h"
#include "common/ops.h"

enum place { PLACE_NOTHING = 0, PLACE_BUFFER = 1, PLACE_WEIGHT = 2 };

/* Turns a tensor's handles into a place and a number. Returns a status, with a message. */
typedef int operation_naming(void *user, const struct engine_tensor *tensor, uint32_t *place,
                             uint32_t *number);

/* Adds an operation: its number u32, the length of the rest u64, the rest. `naming` NULL: without handles. */
int operation_add(struct bytes *bytes, uint32_t op, const void *args, operation_naming *naming, void *user,
                  int (*fail)(int status, const char *format, ...));

/* An operation that was read. */
struct operation {
    uint32_t op;
    union op_args args; /* points to `tensors` */
    uint32_t n_tensors;
    struct engine_tensor tensors[OP_MAX_OPERANDS];
    uint32_t places[OP_MAX_OPERANDS], numbers[OP_MAX_OPERANDS];
};

/* False: the bytes are not an operation. The handles of its tensors are NULL. */
bool operation_read(struct reader *reader, struct operation *operation);

#endif
