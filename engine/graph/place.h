/* place.h: assigns tensors to devices. A pure function of sizes, memory and requests: it opens no device.
 *
 * Device 0 is the CPU, which takes whatever no other device can or may take. The other devices are filled one
 * after the other, in the order of the layers, so that a token crosses between devices as rarely as possible.
 * The fastest comes first: a token passes through all devices in turn, so its time is the sum of theirs. Of
 * two devices of equal or unknown speed, the one listed later comes first; but of those that are about as
 * fast as each other, the devices of a machine follow each other, and those that are reached fast come first.
 * A device's budget covers its weights, the caches of its layers, and its activations. */
#ifndef ENGINE_GRAPH_PLACE_H
#define ENGINE_GRAPH_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "devices/limits.h"

#define PLACE_NONE SIZE_MAX /* no more followers */

struct place_device {
    const char *name;
    uint64_t budget;      /* bytes; PLACE_NO_LIMIT if unknown. Ignored for device 0. */
    uint64_t activations; /* bytes taken as soon as anything runs on it */
    double speed;         /* relative to the other devices; 0: unknown */
    uint32_t machine; /* devices with the same number exchange activations without a network; 0: this one */
    double reach;     /* seconds that activations take to it */
};

/* The part of the model that a tensor belongs to. Parts are offloaded in this order. */
enum place_part {
    PLACE_LAYER,    /* with `layer` */
    PLACE_OUTPUT,   /* norm and matrix after the last layer: read for every token */
    PLACE_EMBEDDING /* before the first layer: a token reads one row */
};

struct place_tensor {
    const char *name; /* What patterns match: "blk.3.ffn_up.weight"; the cache of a layer is "blk.3.cache". */
    enum place_part part;
    uint32_t layer;
    /* Bit d: device d runs the operations that use it; bit 0 is always set. See place_can. */
    uint64_t can[PLACE_MAX_DEVICES / 64];
    uint64_t bytes[PLACE_MAX_DEVICES]; /* its size on each device */
    /* The first entry with the same data, which a device stores once. For most entries, its own index. */
    size_t group;
    /* The entry that this one is placed with (a bias with its matrix). For most entries, its own index. */
    size_t leader;
    /* The next entry with the same leader, starting at the leader; PLACE_NONE: this is the last. */
    size_t next;
    bool experts; /* matrices of which a token reads only a few: the first to stay on the CPU */
};

struct place_rule {
    const char *pattern; /* with * and ?, as in fnmatch */
    uint32_t device;
};

#define PLACE_ALL UINT32_MAX

struct place_request {
    const struct place_device *devices;
    uint32_t n_devices;
    const struct place_tensor *tensors;
    size_t n_tensors;
    const struct place_rule *rules; /* the first match wins and overrides everything else */
    size_t n_rules;
    uint32_t n_layers;
    /* The number of layers at the end to offload, along with the output; 0: nothing; PLACE_ALL: all layers,
     * the output and the embedding. */
    uint32_t offload;
    /* If not all of these layers fit, try again without their experts: what every token reads goes to the
     * devices first, then experts as long as there is room. */
    bool experts_stay;
};

static inline bool place_can(const struct place_tensor *tensor, uint32_t device)
{
    return tensor->can[device / 64] >> device % 64 & 1;
}

static inline void place_forbid(struct place_tensor *tensor, uint32_t device)
{
    tensor->can[device / 64] &= ~(UINT64_C(1) << device % 64);
}

/* Fills device[i] for tensor i. Returns the number of layers offloaded, fewer than requested if they do not
 * fit. A layer that rules placed completely counts as offloaded. `used` receives the bytes on each device. */
uint32_t place_tensors(const struct place_request *request, uint32_t *device,
                       uint64_t used[PLACE_MAX_DEVICES]);

/* The bytes that tensor i adds to its device, given the entries before it. */
uint64_t place_bytes(const struct place_tensor *tensors, const uint32_t *device, size_t i);

/* Returns whether a rule's pattern matches this tensor. */
bool place_matches(const char *pattern, const char *name);

#endif
