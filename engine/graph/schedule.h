/* schedule.h: a placed graph as steps to run: runs of operations on one device, copies of activations between
 * devices, and the position of every activation in its device's arena; computing it touches no device
 * (schedule.c). A prepared schedule has its operands bound to device memory and, if the backend supports it,
 * its runs of operations recorded (execute.c). */
#ifndef ENGINE_GRAPH_SCHEDULE_H
#define ENGINE_GRAPH_SCHEDULE_H

#include "devices/open.h"
#include "graph/graph.h"
#include "graph/place.h"

/* The bytes of a value on one device. A value read on several devices has one storage on each. */
struct storage {
    struct value *value; /* A root. Its tensor's buffer and offset are those of this storage. */
    uint32_t device;
    uint64_t offset; /* in the device's arena */
    uint64_t size;
};

/* SCHEDULE_INPUT: hands out the input of a product (WATCH_INPUTS) just before its SCHEDULE_RUN. */
enum schedule_step_kind { SCHEDULE_RUN, SCHEDULE_COPY, SCHEDULE_WATCH, SCHEDULE_INPUT };

struct schedule_step {
    enum schedule_step_kind kind;
    uint32_t device;            /* that runs the step, receives the copy, or has the watched value */
    size_t first_node, n_nodes; /* SCHEDULE_RUN; SCHEDULE_INPUT: the product */
    size_t source;              /* SCHEDULE_COPY, SCHEDULE_WATCH: index of a storage */
    size_t target;              /* SCHEDULE_COPY: index of a storage; SCHEDULE_WATCH: of the graph's watch */
};

struct schedule {
    struct graph *graph; /* owned; its nodes point to the values of the device that they run on */
    struct schedule_step *steps;
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

/* ---- Running ------------------------------------------------------------------------------------------- */

/* The memory and streams of a run. Owned by the context. */
struct executor {
    const struct device_set *set;
    struct engine_stream *streams[PLACE_MAX_DEVICES]; /* NULL for devices without tensors */
    struct engine_buffer *arenas[PLACE_MAX_DEVICES];
    struct engine_weight **weights;    /* [graph weights] */
    struct engine_buffer **caches;     /* [graph caches] */
    bool unflushed[PLACE_MAX_DEVICES]; /* their streams: something may not have been submitted */
    bool is_running;                   /* something may be pending */
    uint8_t *staging;                  /* for copies from devices whose memory the host cannot access */
    size_t staging_size;
};

struct prepared;

/* Takes the watched values of a run, as soon as each is computed. data: the watch's value, dense. Any status
 * but ENGINE_OK ends the run. */
struct watcher {
    int (*take)(const struct watcher *watcher, const struct graph_watch *watch, const float *data);
    /* The input of a product (WATCH_INPUTS), just before it is computed: `data` as the operand's ne and nb
     * say, `experts` the ids, dense, or NULL. NULL if the graph doesn't watch these. */
    int (*take_input)(const struct watcher *watcher, const struct graph *graph, const struct node *node,
                      const uint8_t *data, const int32_t *experts);
};

/* Binds the schedule to memory and records it. Takes over the schedule, even on failure. The arenas are large
 * enough. */
int prepared_create(const struct executor *executor, struct schedule *schedule, struct prepared **prepared);
void prepared_destroy(const struct executor *executor, struct prepared *prepared);
const struct schedule *prepared_schedule(const struct prepared *prepared);

/* Writes the inputs (inputs[i] is dense, with the shape that graph_input gave it), enqueues all steps, and
 * the reading of the first n_rows rows of the logits [n_vocab, n_outputs] into `logits`; 0: none, and what
 * only they need may be left out. `watcher` may be NULL if the graph watches nothing. Waits only where
 * something goes through the host. What is started next follows in the same streams: so devices that hold
 * different layers work on different batches at once. `logits`, `prepared` and the arenas must stay until
 * executor_wait. */
int prepared_start(struct executor *executor, struct prepared *prepared,
                   const void *const inputs[INPUT_COUNT], float *logits, uint32_t n_rows,
                   const struct watcher *watcher);
/* Waits for everything that was started, also after an error. The first error of a device. */
int executor_wait(struct executor *executor);
/* Names what has been started so far, on each device, and waits for that: devices whose backends can tell it
 * from what comes later go on with the latter; of others everything is waited for. The first error of a
 * device. */
int executor_mark(struct executor *executor, uint64_t marks[PLACE_MAX_DEVICES]);
int executor_wait_for(struct executor *executor, const uint64_t marks[PLACE_MAX_DEVICES]);
/* prepared_start and executor_wait. */
int prepared_run(struct executor *executor, struct prepared *prepared, const void *const inputs[INPUT_COUNT],
                 float *logits, uint32_t n_rows, const struct watcher *watcher);

#endif
