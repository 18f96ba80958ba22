/* measure.h: how fast devices are beside each other, where a model is to be shared out among several. */
#ifndef ENGINE_DEVICES_MEASURE_H
#define ENGINE_DEVICES_MEASURE_H

#include "devices/open.h"

/* Sets the speed of every device but the CPU: what the setting `speeds` says, else what a matmul of a few milliseconds
 * gave when the engine first needed to know. A device that can't be measured keeps 0, and a warning says why. */
void devices_measure(struct device_set *set);

#endif
