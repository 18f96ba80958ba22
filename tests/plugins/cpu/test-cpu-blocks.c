/* test-cpu-blocks.c: what the CPU plugin makes of the blocks of quantised types, for each instruction set:
 * through ENGINE_OP_GET_ROWS, equal to gguf-py to the bit (except for the sign of zeros); and through
 * ENGINE_OP_MATMUL, within the rounding of the input. The cases are the conformance suite's, which leaves the
 * instruction set to the plugin. */
#include <criterion/criterion.h>

#include "backend-fixture.h"
#include "cpu-settings.h"

/* Runs a case for all types under all instruction sets. */
static void run_all(void (*run)(struct fixture *fixture, const struct hashed_case *c), struct hashed_case c)
{
    for (size_t t = 0; (c.type = hashed_type_at(t)); t++)
        for (size_t i = 0; i < N_CPU_ISAS; i++) {
            struct fixture fixture;
            if (!cpu_open(&fixture, cpu_isas[i], 2)) continue;
            run(&fixture, &c);
            fixture_close(&fixture);
        }
}

Test(cpu_blocks, rows_are_what_gguf_py_makes_of_them)
{
    run_all(run_hashed_rows_case, (struct hashed_case){.uses = ENGINE_WEIGHT_ROWS});
    run_all(run_hashed_rows_case, (struct hashed_case){.uses = ENGINE_WEIGHT_ROWS | ENGINE_WEIGHT_MATMUL});
}

Test(cpu_blocks, products_are_those_of_the_values)
{
    run_all(run_hashed_matmul_case, (struct hashed_case){.tokens = 1});
    run_all(run_hashed_matmul_case, (struct hashed_case){.tokens = 13});
    run_all(run_hashed_matmul_case, (struct hashed_case){.tokens = 13, .matrices = 8});
}
