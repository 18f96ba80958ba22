/* arguments.h: what the checks of arguments stand on: a request that can't be is refused by `supports` and by
 * `enqueue`. */
#ifndef ENGINE_CHECK_ARGUMENTS_H
#define ENGINE_CHECK_ARGUMENTS_H

#include "check/suite.h"

/* A request that can't be: `what` is wrong with it. */
void suite_expect_refusal(struct suite *suite, uint32_t op, const void *args, int wanted, const char *what);
/* Stops as unclaimed unless the plugin supports it. */
void suite_only_if(struct suite *suite, uint32_t op, const void *args);
/* Changes each dimension of each operand in turn, after which they don't go together any more; but for those
 * dimensions that nothing else depends on, bits of suite_bit. */
void suite_expect_fitting_shapes(struct suite *suite, uint32_t op, void *args, uint64_t free_ones);
uint64_t suite_bit(unsigned operand, unsigned dimension);
/* Zeros. */
struct engine_tensor *suite_floats(struct suite *suite, uint64_t ne0, uint64_t ne1, uint64_t ne2);

#endif
