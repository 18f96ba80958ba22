/* limits.h: how many devices one model is spread over, and what a budget is where none is known. */
#ifndef ENGINE_DEVICES_LIMITS_H
#define ENGINE_DEVICES_LIMITS_H

#include <stdint.h>

#define PLACE_MAX_DEVICES 16
#define PLACE_NO_LIMIT    UINT64_MAX

#endif
