/* place.h: which tensor lives on which device. A pure function of sizes, memory and wishes: it opens no device.
 *
 * Device 0 is the CPU, which takes whatever no other device can or may take. The others are filled one
 * after the other, along with the order of the layers, so that a token crosses from device to device as rarely as
 * possible: the fastest first, for a token passes through all of them in turn and its time is the sum; of two that are as
 * fast or not known, the one that is listed later. What counts against a device's budget: its weights, the caches of its
 * layers, its activations. */
#ifndef ENGINE_GRAPH_PLACE_H
#define ENGINE_GRAPH_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "devices/limits.h"

#define PLACE_NONE SIZE_MAX /* no further follower */

struct place_device {
    const char *name;
    uint64_t budget;      /* bytes; PLACE_NO_LIMIT if not known. Not looked at for device 0. */
    uint64_t activations; /* bytes that it takes as soon as anything runs on it */
    double speed;         /* beside the others; 0: not known */
};

/* Which part of the model a tensor belongs to. The parts are offloaded in this order. */
enum place_part {
    PLACE_LAYER,    /* with `layer` */
    PLACE_OUTPUT,   /* norm and matrix behind the last layer: read for every token */
    PLACE_EMBEDDING /* in front of the first: one row is read for a token */
};

struct place_tensor {
    const char *name; /* what patterns match: "blk.3.ffn_up.weight"; the cache of a layer is "blk.3.cache" */
    enum place_part part;
    uint32_t layer;
    uint32_t can;                      /* bit d: device d runs the operations that use it; bit 0 is set */
    uint64_t bytes[PLACE_MAX_DEVICES]; /* what it takes on each device */
    size_t
        group; /* the first entry for the same data, which is kept once on a device; its own number for most */
    size_t
        leader; /* the entry that this one is placed with (a bias with its matrix); its own number for most */
    size_t
        next; /* the next of the entries that follow the same leader, from the leader on; PLACE_NONE: the last */
    bool experts; /* matrices of which a token reads few: the first to stay on the CPU */
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
    const struct place_rule *rules; /* first match wins, before everything else */
    size_t n_rules;
    uint32_t n_layers;
    /* The last so many layers and the output; 0: nothing; PLACE_ALL: all layers, the output and the embedding. */
    uint32_t offload;
    /* Where not all of these layers fit as they are, try again without their experts: what every token reads goes to the
     * devices first, then experts as long as there is room. */
    bool experts_stay;
};

/* Fills device[i] for tensor i. Returns how many layers were offloaded: fewer than asked for if they don't fit; one that rules
 * have placed whole counts as offloaded. `used` receives the bytes on each device. */
uint32_t place_tensors(const struct place_request *request, uint32_t *device,
                       uint64_t used[PLACE_MAX_DEVICES]);

/* What tensor i adds to the device that it was put on, given the entries before it. */
uint64_t place_bytes(const struct place_tensor *tensors, const uint32_t *device, size_t i);

/* Whether a rule's pattern names this tensor. */
bool place_matches(const char *pattern, const char *name);

#endif
