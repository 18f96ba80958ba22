/* devices.h: the devices of all backends, listed once per engine. */
#ifndef ENGINE_DEVICES_DEVICES_H
#define ENGINE_DEVICES_DEVICES_H

#include "internal.h"
#include "plugins/plugins.h"

/* What tells which devices are the same piece of hardware, see struct engine_device_info. */
struct hardware {
    char pci_address[24];
    uint8_t uuid[16];
    uint32_t rank;
};

struct hardware hardware_of(const struct engine_device_info *info);
bool hardware_same(const struct hardware *a, const struct hardware *b);

/* A device listed by a backend. */
struct device {
    char name[48];               /* the plugin's name and info.id: "vulkan0" */
    const struct plugin *plugin; /* the backend */
    uint32_t index;              /* within the plugin */
    bool is_cpu;
    struct hardware hardware;
    double speed; /* GB/s of weights, see measure.h; 0: not measured yet */
};

/* On the first call, asks all backends for their devices and fills engine->devices. A backend that fails is
 * skipped; devices_report_failures says why. Requires devices_lock. */
int devices_list(struct engine *engine);

/* The listed device of this name; NULL: none. Requires devices_lock. */
struct device *devices_find_open(const struct engine *engine, const char *name);

/* Logs why backends cannot list their devices, one line each: as a warning, or at the level `absent` if this
 * machine has nothing for the backend to work with (no driver library, say), which is a fault only where
 * devices are asked about. For use when devices are listed or chosen automatically, not when the user names
 * others. Requires devices_lock. */
void devices_report_failures(struct engine *engine, enum engine_log_level absent);

/* The device that replaces this one unless either is requested: the same hardware with a higher rank, or
 * listed earlier. NULL: none. Requires devices_lock. */
const struct device *devices_preferred(const struct engine *engine, const struct device *device);

/* The device's current description, including its free memory, made safe to print. Requires devices_lock. */
int devices_get_info(const struct device *device, struct engine_device_info *info);

#endif
