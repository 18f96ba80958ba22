/* internal.h: what stands behind the opaque types of engine.h, for the files that implement them: engine.c, devices.c,
 * engine-model.c, plan.c, context.c. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "base/config.h"
#include "engine.h"
#include "hardware.h"
#include "model/model.h"
#include "plugins/plugins.h"

/* A device that a backend has announced. */
struct device {
    char name[48];               /* the plugin's name and info.id: "vulkan0" */
    const struct plugin *plugin; /* the backend */
    uint32_t index;              /* within the plugin */
    struct hardware hardware;
    double speed; /* GB/s of weights, see measure.h; 0: not measured yet */
};

struct engine {
    struct config *config;
    struct plugins *plugins;
    char *installed_model;  /* NULL: none */
    struct device *devices; /* [n_devices]; see list_devices */
    size_t n_devices;
    bool devices_listed;
    pthread_mutex_t devices_lock; /* over the three above, and over the backends' functions marked [main] */
};

/* Asks all backends for their devices, at the first call, and fills engine->devices. A backend that fails is logged and
 * passed over. Under devices_lock. */
int list_devices(struct engine *engine);

/* Says in the log which backends find nothing to work with on this machine (no driver's library, say), one line each:
 * where devices are listed or chosen by us, not where somebody asks for others by name. Under devices_lock. */
void report_absent_backends(struct engine *engine);

/* The device that is used in place of this one where neither is asked for: the same hardware, of a higher rank or listed
 * earlier. NULL: none. Under devices_lock. */
const struct device *preferred_device(const struct engine *engine, const struct device *device);

/* What a device says of itself now, with its free memory; made safe to print. Under devices_lock. */
int get_device_info(const struct device *device, struct engine_device_info *info);

struct engine_model {
    struct engine *engine;
    struct model *model;
    struct engine_metadata getters;
    char *architecture, *name;                        /* "" if the model doesn't say */
    const struct engine_tokenizer_api *tokenizer_api; /* NULL until the tokenizer is first asked for */
    struct engine_tokenizer *tokenizer;
};

#endif
