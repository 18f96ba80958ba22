/* limits.h: the number of devices that a model can use, and the value of an unknown budget. */
#ifndef ENGINE_DEVICES_LIMITS_H
#define ENGINE_DEVICES_LIMITS_H

#include <stdint.h>

#define PLACE_MAX_DEVICES 128
#define PLACE_NO_LIMIT    UINT64_MAX

#endif
