/* pace.h: how fast the devices of a set compute and are reached, as predictions need it: measured, or described in a
 * file (cluster.h). */
#ifndef ENGINE_DEVICES_PACE_H
#define ENGINE_DEVICES_PACE_H

#include "devices/trial.h"

/* Bytes of weights that tell how fast memory is read: many more than caches hold. */
#define PACE_BYTES (UINT64_C(512) << 20)

/* Fills the pace and the link of each device of the set that has none. `tokens` [n]: for each type whose own pace
 * matters, the products of a token with weights of this type, in order, up to PACE_BYTES; the most frequent type first, at
 * most PACE_TYPES. Takes part of a second for each device and type. ENGINE_ERROR…: a device can't be measured. */
int devices_measure_pace(struct device_set *set, const struct trial_chain *tokens, size_t n);

/* Bytes of weights per second, and operations per second, in products with weights of this type. */
struct pace_of_type pace_for(const struct device_pace *pace, uint32_t type);

#endif
