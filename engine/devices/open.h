/* open.h: the devices that a model uses: chosen by --backend, opened, each with a memory budget. */
#ifndef ENGINE_DEVICES_OPEN_H
#define ENGINE_DEVICES_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "devices/limits.h"
#include "plugin-api.h"

#define PACE_TYPES 8

/* How fast products with weights of a type are: as fast as its weights are read, or as fast as it
 * computes. */
struct pace_of_type {
    uint32_t type;      /* enum engine_type */
    double bandwidth;   /* bytes of weights per second */
    double computation; /* operations per second: a multiplication and an addition are two */
    double preparation; /* seconds for each weight that products with several columns take beside these */
};

/* How fast a device is, see measure.h. bandwidth 0: unknown. */
struct device_pace {
    double bandwidth;                      /* bytes of weights per second */
    double integers, floats;               /* operations per second with quantised weights, and with others */
    double overhead;                       /* seconds that any operation takes */
    struct pace_of_type types[PACE_TYPES]; /* [n_types]: those that differ */
    size_t n_types;
};

/* How a device of another process is reached. */
struct device_link {
    double latency;   /* seconds that a message without content takes, one way */
    double bandwidth; /* bytes per second; 0: the device belongs to this process */
    struct engine_traffic traffic;
};

struct open_device {
    char name[48]; /* the plugin's name and the device's id: "cpu", "vulkan0" */
    const struct engine_backend *backend;
    struct engine_device *handle;
    struct engine_device_info info;
    uint64_t budget; /* bytes for weights, cache and activations; PLACE_NO_LIMIT: unknown */
    double speed;    /* GB/s of weights, see measure.h; 0: unknown */
    struct device_pace pace;
    struct device_link link;
    /* In a file: the backend and the handle are those of device 0, to ask what it could do. */
    bool is_described;
};

/* The process that a device is in, as its backend numbers them; 0: this one. */
static inline uint32_t link_process(const struct device_link *link)
{
    return link->bandwidth > 0 ? (uint32_t)link->traffic.peer : 0;
}

/* Whether a part of what its streams have can be waited for. */
static inline bool backend_marks(const struct engine_backend *backend)
{
    return ENGINE_HAS(backend, stream_wait_for) && backend->stream_mark && backend->stream_wait_for;
}

struct engine;

/* Device 0 is always the CPU plugin's. */
struct device_set {
    struct engine *engine;
    struct open_device devices[PLACE_MAX_DEVICES];
    uint32_t n_devices;
};

struct device_request {
    const char *backends; /* "vulkan,opencl:0.1"; NULL: all devices except CPUs reached through a driver */
    const char *const *memory; /* "DEVICE=SIZE", terminated by NULL, or NULL */
    uint32_t n_threads;        /* 0: the plugin decides */
    const char *cluster; /* a file that describes all devices, see cluster.h; NULL: those that are there */
};

/* Opens the devices. A named backend that has no device or does not open is an error; others are skipped with
 * a warning. devices_close closes the set, even if this fails. */
int devices_open(struct engine *engine, const struct device_request *request, struct device_set *set);
void devices_close(struct device_set *set);

/* What may be used of the memory that a device says is free; PLACE_NO_LIMIT: it does not say. */
uint64_t devices_default_budget(const struct engine_device_info *info);

/* The number of the device with this name; false if it is not in the set. */
bool devices_find(const struct device_set *set, const char *name, uint32_t *number);

/* Converts "600M", "1.5G", "123456" to bytes; false if it is not a size. */
bool devices_parse_size(const char *text, uint64_t *bytes);

#endif
