/* devices.h: the devices that backends announce, listed once for an engine. */
#ifndef ENGINE_DEVICES_DEVICES_H
#define ENGINE_DEVICES_DEVICES_H

#include "devices/hardware.h"
#include "internal.h"

/* A device that a backend has announced. */
struct device {
    char name[48];               /* the plugin's name and info.id: "vulkan0" */
    const struct plugin *plugin; /* the backend */
    uint32_t index;              /* within the plugin */
    struct hardware hardware;
    double speed; /* GB/s of weights, see measure.h; 0: not measured yet */
};

/* Asks all backends for their devices, at the first call, and fills engine->devices. A backend that fails is logged and
 * passed over. Under devices_lock. */
int devices_list(struct engine *engine);

/* The listed device of this name; NULL: none. Under devices_lock. */
struct device *devices_find_open(const struct engine *engine, const char *name);

/* Says in the log which backends find nothing to work with on this machine (no driver's library, say), one line each:
 * where devices are listed or chosen by us, not where somebody asks for others by name. Under devices_lock. */
void report_absent_backends(struct engine *engine);

/* The device that is used in place of this one where neither is asked for: the same hardware, of a higher rank or listed
 * earlier. NULL: none. Under devices_lock. */
const struct device *devices_preferred(const struct engine *engine, const struct device *device);

/* What a device says of itself now, with its free memory; made safe to print. Under devices_lock. */
int devices_get_info(const struct device *device, struct engine_device_info *info);

#endif
