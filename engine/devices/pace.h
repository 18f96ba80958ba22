/* pace.h: how fast the devices of a set compute and are reached, as predictions need it: measured, or described in a
 * file (cluster.h). */
#ifndef ENGINE_DEVICES_PACE_H
#define ENGINE_DEVICES_PACE_H

#include "devices/open.h"

/* Fills the pace and the link of each device of the set that has none. `types` [n_types]: those whose own pace matters,
 * at most PACE_TYPES. Takes part of a second for each device and type. ENGINE_ERROR…: a device can't be
 * measured. */
int devices_measure_pace(struct device_set *set, const uint32_t *types, size_t n_types);

/* Bytes of weights per second, and operations per second, in products with weights of this type. */
struct pace_of_type pace_for(const struct device_pace *pace, uint32_t type);

#endif
