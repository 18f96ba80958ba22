/* schedule.h: a placed graph as steps to run: runs of operations on one device, copies of activations between
 * devices, and the position of every activation in its device's arena. Computing it touches no device. */
#ifndef ENGINE_GRAPH_SCHEDULE_H
#define ENGINE_GRAPH_SCHEDULE_H

#include "graph/graph.h"
#include "graph/place.h"

/* The bytes of a value on one device. A value read on several devices has one storage on each. */
struct storage {
    struct value *value; /* A root. Its tensor's buffer and offset are those of this storage. */
    uint32_t device;
    uint64_t offset; /* in the device's arena */
    uint64_t size;
};

/* STEP_INPUT: hands out the input of a product (WATCH_INPUTS) just before its STEP_RUN. */
enum step_kind { STEP_RUN, STEP_COPY, STEP_WATCH, STEP_INPUT };

struct step {
    enum step_kind kind;
    uint32_t device;            /* that runs the step, receives the copy, or has the watched value */
    size_t first_node, n_nodes; /* STEP_RUN; STEP_INPUT: the product */
    size_t source;              /* STEP_COPY, STEP_WATCH: index of a storage */
    size_t target;              /* STEP_COPY: index of a storage; STEP_WATCH: of the graph's watch */
};

struct schedule {
    struct graph *graph; /* owned; its nodes point to the values of the device that they run on */
    struct step *steps;
    size_t n_steps;
    struct storage *storages;
    size_t n_storages;
    uint64_t arena[PLACE_MAX_DEVICES]; /* bytes of activations on each device */
    size_t n_copies;                   /* between devices, per run */
    uint64_t copy_bytes;
};

/* Takes over the graph, even on failure. `alignment[d]`: bytes, a power of two. */
int schedule_create(struct graph *graph, const uint32_t alignment[PLACE_MAX_DEVICES],
                    struct schedule **schedule);
void schedule_destroy(struct schedule *schedule);

/* How many steps are needed if nobody asks for logits: those up to the last one that writes to a cache. */
size_t schedule_lasting(const struct schedule *schedule);

#endif
