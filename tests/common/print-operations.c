/* print-operations.c: the table of common/ops.h as lines, for tests/tools/operations:
 *   NUMBER NAME SIZE
 *   NUMBER NAME OPERAND OFFSET ROLE TYPE… USE… FLAG… */
#include <stdio.h>

#include "common/ops.h"

static void print_bits(unsigned bits, const char *const names[])
{
    for (int i = 0; names[i]; i++)
        if (bits >> i & 1) printf(" %s", names[i]);
}

int main(void)
{
    static const char *const roles[] = {"in", "out", NULL}, *const types[] = {"F32",  "I32", "F16",
                                                                              "Q8_0", "any", NULL};
    static const char *const uses[] = {"MATMUL", "ROWS", "VALUES", "MATRICES", NULL};
    static const char *const flags[] = {"optional", "either", "in-place", "", "", "cache", "state", NULL};
    const unsigned not_in_the_header = OP_PLACES | OP_FOLLOWED;
    for (uint32_t op = 0; op < 1000; op++) {
        const struct op_info *info = op_info(op);
        if (!info) continue;
        printf("%u %s %zu\n", op, info->name, info->size);
        for (const struct op_operand *operand = info->operands; operand->name; operand++) {
            printf("%u %s %s %zu", op, info->name, operand->name, operand->offset);
            print_bits(operand->role, roles);
            print_bits(operand->types, types);
            print_bits(operand->uses, uses);
            print_bits(operand->flags & ~not_in_the_header, flags);
            printf("\n");
        }
    }
    return 0;
}
