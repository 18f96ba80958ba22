/* examples.h: operations as they may be, on zeros, each with its forms: what check-arguments.c takes
 * something away from or changes. tests/common/test-ops.c tries the rule of common/ops.h on them. */
#ifndef ENGINE_CHECK_EXAMPLES_H
#define ENGINE_CHECK_EXAMPLES_H

#include "check/fixture.h"
#include "common/ops.h"

struct example {
    uint32_t op;
    /* "matmul, gate": the operation, and its form unless it is the plain one, which comes first. */
    const char *what;
    void (*make)(struct fixture *fixture, union op_args *args);
};

/* Those of an operation follow one another. NULL after the last. */
const struct example *example_at(size_t i);
/* The tensors belong to the fixture. */
union op_args example_make(struct fixture *fixture, const struct example *example);

/* Tensors of zeros. */
struct engine_tensor *example_floats(struct fixture *fixture, uint64_t ne0, uint64_t ne1, uint64_t ne2);
struct engine_tensor *example_numbers(struct fixture *fixture, uint64_t ne0, uint64_t ne1);
struct engine_tensor *example_cache(struct fixture *fixture, const uint64_t ne[4]);
struct engine_tensor *example_weight(struct fixture *fixture, uint32_t use, uint64_t n, uint64_t rows);
struct engine_tensor *example_values(struct fixture *fixture, uint64_t n, uint64_t rows);

#endif
