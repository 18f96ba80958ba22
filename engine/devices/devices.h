/* devices.h: the devices of all backends, listed once per engine. */
#ifndef ENGINE_DEVICES_DEVICES_H
#define ENGINE_DEVICES_DEVICES_H

#include "devices/hardware.h"
#include "internal.h"

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
 * logged and skipped. Requires devices_lock. */
int devices_list(struct engine *engine);

/* The listed device of this name; NULL: none. Requires devices_lock. */
struct device *devices_find_open(const struct engine *engine, const char *name);

/* Logs which backends have nothing to work with on this machine (no driver library, say), one line each. For
 * use when devices are listed or chosen automatically, not when the user names others. Requires
 * devices_lock. */
void report_absent_backends(struct engine *engine);

/* The device that replaces this one unless either is requested: the same hardware with a higher rank, or
 * listed earlier. NULL: none. Requires devices_lock. */
const struct device *devices_preferred(const struct engine *engine, const struct device *device);

/* The device's current description, including its free memory, made safe to print. Requires devices_lock. */
int devices_get_info(const struct device *device, struct engine_device_info *info);

#endif
