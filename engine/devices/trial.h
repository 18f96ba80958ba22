/* trial.h: how long a product takes on a device. */
#ifndef ENGINE_DEVICES_TRIAL_H
#define ENGINE_DEVICES_TRIAL_H

#include "devices/open.h"

/* Weights [k, rows] of a type, input [k, columns]. */
struct trial_shape {
    uint32_t type;
    uint64_t k, rows, columns;
};

/* Seconds that one product takes in the fastest of `n_rounds` rounds of several products, because other programs may
 * use the machine during some. ENGINE_ERROR_MEMORY: there is too little; ENGINE_ERROR_UNSUPPORTED: no such product. */
int trial_product(const struct open_device *device, const struct trial_shape *shape, int n_rounds,
                  double *seconds);
/* Bytes of the weights. */
uint64_t trial_bytes(const struct trial_shape *shape);

#endif
