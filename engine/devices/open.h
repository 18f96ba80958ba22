/* open.h: the devices that a model is spread over: chosen by --backend, opened, with the memory that may be used on
 * each. */
#ifndef ENGINE_DEVICES_OPEN_H
#define ENGINE_DEVICES_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "devices/limits.h"
#include "plugin-api.h"

struct open_device {
    char name[48]; /* the plugin's name and the device's id: "cpu", "vulkan0" */
    const struct engine_backend *backend;
    struct engine_device *handle;
    struct engine_device_info info;
    uint64_t budget; /* bytes for weights, cache and activations; PLACE_NO_LIMIT: not known */
    double speed;    /* GB/s of weights, see measure.h; 0: not known */
};

struct engine;

/* Device 0 is always the CPU plugin's. */
struct device_set {
    struct engine *engine;
    struct open_device devices[PLACE_MAX_DEVICES];
    uint32_t n_devices;
};

struct device_request {
    const char *backends;      /* "vulkan,opencl:0.1"; NULL: every device that is no CPU behind a driver */
    const char *const *memory; /* "DEVICE=SIZE", ended by NULL, or NULL */
    uint32_t n_threads;        /* 0: the plugin decides */
};

/* Opens them. A backend that was named and has no device, or that doesn't open, is an error; one that wasn't named is
 * passed over with a warning. The set is closed by devices_close, also if this fails. */
int devices_open(struct engine *engine, const struct device_request *request, struct device_set *set);
void devices_close(struct device_set *set);

/* The number of a device by its name; false if it isn't in the set. */
bool devices_find(const struct device_set *set, const char *name, uint32_t *number);

/* "600M", "1.5G", "123456" in bytes; false if it is no size. */
bool devices_parse_size(const char *text, uint64_t *bytes);

#endif
