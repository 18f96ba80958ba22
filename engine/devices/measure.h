/* measure.h: compares the speed of devices, to share a model between several. */
#ifndef ENGINE_DEVICES_MEASURE_H
#define ENGINE_DEVICES_MEASURE_H

#include "devices/open.h"

/* Sets the speed of every device except the CPU: from the setting `speeds`, else from a matmul of a few
 * milliseconds, run when the engine first needs the speeds. A device that cannot be measured keeps 0, and a
 * warning gives the reason. */
void devices_measure(struct device_set *set);

/* Warns about accelerators of this machine, chosen though nobody asked for them, that are less than half as fast as
 * the CPU: a plugin can call anything an accelerator. Measures both, unless the setting `speeds` has them. */
void devices_warn_slow(struct device_set *set);

/* Warns about names in the setting `speeds` that no listed device has. Requires devices_lock. */
void devices_report_speeds(const struct engine *engine);

#endif
