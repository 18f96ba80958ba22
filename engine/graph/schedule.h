/* schedule.h: a placed graph as steps to run: runs of operations on one device, copies of activations between devices,
 * and where in each device's arena every activation lies. Computing it touches no device. */
#ifndef ENGINE_GRAPH_SCHEDULE_H
#define ENGINE_GRAPH_SCHEDULE_H

#include "graph/graph.h"
#include "graph/place.h"

/* The bytes of a value on one device. A value that is read on several devices has one for each. */
struct storage {
    struct value *value; /* a root: its tensor's buffer and offset are those of this storage */
    uint32_t device;
    uint64_t offset; /* in the device's arena */
    uint64_t size;
};

enum step_kind { STEP_RUN, STEP_COPY };

struct step {
    enum step_kind kind;
    uint32_t device;            /* that runs, or that the copy goes to */
    size_t first_node, n_nodes; /* STEP_RUN */
    size_t source, target;      /* STEP_COPY: numbers of storages */
};

struct schedule {
    struct graph *graph; /* owned; its nodes point at the values of the device that they run on */
    struct step *steps;
    size_t n_steps;
    struct storage *storages;
    size_t n_storages;
    uint64_t arena[PLACE_MAX_DEVICES]; /* bytes of activations on each device */
    size_t n_copies;                   /* between devices, in each run */
    uint64_t copy_bytes;
};

/* Takes over the graph, also on failure. `alignment[d]`: bytes, a power of two. */
int schedule_create(struct graph *graph, const uint32_t alignment[PLACE_MAX_DEVICES],
                    struct schedule **schedule);
void schedule_destroy(struct schedule *schedule);

#endif
