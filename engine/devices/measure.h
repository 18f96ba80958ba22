/* measure.h: how fast devices are: their speeds, by which a model is shared between several; and their paces,
 * how fast they compute and are reached, as predictions need it: measured, or described in a file
 * (cluster.h). */
#ifndef ENGINE_DEVICES_MEASURE_H
#define ENGINE_DEVICES_MEASURE_H

#include "devices/trial.h"

/* Sets the speed of every device except the CPU: from the setting `speeds`, else from a matmul of a few
 * milliseconds, run when the engine first needs the speeds. A device that cannot be measured keeps 0, and a
 * warning gives the reason. */
void devices_measure(struct device_set *set);

/* Warns about accelerators of this machine, chosen though nobody asked for them, that are less than half as
 * fast as the CPU: a plugin can call anything an accelerator. Measures both, unless the setting `speeds` has
 * them. */
void devices_warn_slow(struct device_set *set);

/* Warns about names in the setting `speeds` that no listed device has. Requires devices_lock. */
void devices_report_speeds(const struct engine *engine);

/* ---- Paces ---- */

/* Bytes of weights that tell how fast memory is read: many more than caches hold. */
#define PACE_BYTES (UINT64_C(512) << 20)

/* Fills the pace and the link of each device of the set that has none. `tokens` [n]: for each type whose own
 * pace matters, the products of a token with weights of this type, in order, up to PACE_BYTES; the most
 * frequent type first, at most PACE_TYPES. Takes part of a second for each device and type. ENGINE_ERROR…: a
 * device can't be measured. */
int devices_measure_pace(struct device_set *set, const struct trial_chain *tokens, size_t n);

/* Bytes of weights per second, and operations per second, in products with weights of this type. */
struct pace_of_type pace_for(const struct device_pace *pace, uint32_t type);

#endif
