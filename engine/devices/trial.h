/* trial.h: how long a product takes on a device. */
#ifndef ENGINE_DEVICES_TRIAL_H
#define ENGINE_DEVICES_TRIAL_H

#include "devices/open.h"

/* Weights [k, rows] of a type, input [k, columns]; so many weights, one after the other. */
struct trial_shape {
    uint32_t type;
    uint64_t k, rows, columns, n_weights;
};

enum { TRIAL_ROUNDS = 15 };

/* Measures in rounds of several products, of `least` seconds at least. *fastest, *typical: seconds that one product takes in
 * the fastest of 5 rounds, because other programs may use the machine during some, and in the median of TRIAL_ROUNDS; one
 * of them may be NULL. ENGINE_ERROR_MEMORY: there is too little; ENGINE_ERROR_UNSUPPORTED: no such product. */
int trial_product(const struct open_device *device, const struct trial_shape *shape, double least,
                  double *fastest, double *typical);
/* Bytes of one of the weights. */
uint64_t trial_bytes(const struct trial_shape *shape);

#endif
