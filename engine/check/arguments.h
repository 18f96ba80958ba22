/* arguments.h: the base of the checks of arguments: `supports` and `enqueue` must refuse an invalid
 * request. */
#ifndef ENGINE_CHECK_ARGUMENTS_H
#define ENGINE_CHECK_ARGUMENTS_H

#include "check/suite.h"

/* The plugin must refuse an invalid request; `what` says what is wrong with it. */
void suite_expect_refusal(struct suite *suite, uint32_t op, const void *args, int wanted, const char *what);
/* Stops as unclaimed unless the plugin supports the request. */
void suite_only_if(struct suite *suite, uint32_t op, const void *args);
/* Changes each dimension of each operand in turn, so that the operands no longer fit together, and expects a
 * refusal. Leaves out the dimensions in free_ones (bits from suite_bit), which nothing else depends on. */
void suite_expect_fitting_shapes(struct suite *suite, uint32_t op, void *args, uint64_t free_ones);
uint64_t suite_bit(unsigned operand, unsigned dimension);
/* A tensor of zeros. */
struct engine_tensor *suite_floats(struct suite *suite, uint64_t ne0, uint64_t ne1, uint64_t ne2);

#endif
