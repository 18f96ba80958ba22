/* hardware.h: tells which devices are the same piece of hardware, see struct engine_device_info. */
#ifndef ENGINE_DEVICES_HARDWARE_H
#define ENGINE_DEVICES_HARDWARE_H

#include <stdbool.h>

#include "plugin-api.h"

/* What identifies a device's hardware. */
struct hardware {
    char pci_address[24];
    uint8_t uuid[16];
    uint32_t rank;
};

struct hardware hardware_of(const struct engine_device_info *info);
bool hardware_same(const struct hardware *a, const struct hardware *b);

#endif
