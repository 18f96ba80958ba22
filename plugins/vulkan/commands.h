/* commands.h: a list of dispatches in a Vulkan command buffer, with only the barriers that they need. */
#ifndef VULKAN_COMMANDS_H
#define VULKAN_COMMANDS_H

#include "device.h"

enum access {
    ACCESS_READ = 1,
    ACCESS_WRITE = 2,
    ACCESS_CONSTANT = 4 /* weights: never written by a dispatch */
};

struct binding {
    VkBuffer buffer; /* VK_NULL_HANDLE: not used */
    uint64_t offset, size;
    unsigned access;
    uint64_t address; /* of the buffer; 0 if shaders don't use addresses */
};

#define MAX_SHAPE 4

struct dispatch {
    struct pipeline_key key;
    struct binding bindings[MAX_BINDINGS];
    uint32_t push[MAX_PUSH / 4];
    uint32_t groups[2];
    uint64_t flops;            /* of products, at most; 0: none that would count */
    uint64_t bytes;            /* of what is bound, those that are read and written; 0: all of it */
    uint32_t shape[MAX_SHAPE]; /* for people; 0 ends it */
};

#define MAX_TOUCHED 64

/* Memory that dispatches have read or written since the last barrier. */
struct touched {
    VkBuffer buffer;
    uint64_t start, end;
    unsigned access;
};

struct descriptor_pool;
struct timing;

/* A dispatch that wrote its binding 1, and nobody has written to its bindings 0 and 1 since. */
struct kept_dispatch {
    bool is_kept;
    struct dispatch dispatch;
};

struct commands {
    struct engine_device *device;
    VkCommandBuffer handle;
    VkPipeline bound; /* the pipeline that was bound last */
    double seconds;   /* that its dispatches may take, see dispatch_seconds */
    struct touched touched[MAX_TOUCHED];
    uint32_t n_touched;
    struct kept_dispatch kept;
    struct descriptor_pool *pools; /* newest first */
    /* Of a recording: its dispatches wait until all are known, so that pipelines are compiled together. */
    bool defers;
    struct dispatch *waiting; /* [n_waiting] */
    uint32_t n_waiting;
    struct timing *timing; /* times.c; NULL: none yet */
};

/* The bytes that a dispatch reads and writes. */
uint64_t dispatch_bytes(const struct dispatch *dispatch);
/* How long a dispatch may take on a slow device of its kind: reckoned from its products and bytes, never
 * measured. */
double dispatch_seconds(const struct engine_device *device, const struct dispatch *dispatch);
/* Adds a dispatch. */
int commands_dispatch(struct commands *commands, const struct dispatch *dispatch);
/* Adds a dispatch that reads its binding 0 alone and writes its binding 1 alone, unless the last one so added
 * was the same and its results are still there. */
int commands_dispatch_once(struct commands *commands, const struct dispatch *dispatch);
/* Records those that wait. */
int commands_settle(struct commands *commands);
/* A full barrier between everything before and everything after; `host` if the host reads the results. */
void commands_barrier(struct commands *commands, bool host);
/* Frees the descriptor sets: the commands have run and are about to be recorded again. */
int commands_reset(struct commands *commands);
void commands_destroy(struct commands *commands);

/* ops.c: checks an operation and adds its dispatches. */
int op_append(struct engine_device *device, struct commands *commands, uint32_t op, const void *args);

#endif
