/* stream.h: what the files about streams share: stream.c, and between.c with the copies from one device to
 * another. */
#ifndef VULKAN_STREAM_H
#define VULKAN_STREAM_H

#include "commands.h"

#define SLOTS     3  /* command buffers from the start */
#define MAX_SLOTS 64 /* at most: more are made where one would have to be waited for */
#define MAX_READS 16

struct slot {
    struct commands commands;
    struct submission submission;
    bool pending;
    uint64_t number; /* of its submission in the stream, from 1 */
};

/* Bytes on their way to host memory. */
struct pending_read {
    void *target;
    uint64_t offset, size; /* in the readback memory */
};

struct carrier;
struct inlet;

struct engine_stream {
    struct engine_device *device;
    struct slot slots[MAX_SLOTS];
    uint32_t n_slots, current;
    bool open;                  /* the current slot's commands are being recorded */
    bool running;               /* something was submitted since the last wait */
    uint64_t n_submitted, done; /* submissions; those that are known to have run */
    struct memory_range readback;
    uint64_t readback_used;
    struct pending_read reads[MAX_READS];
    uint32_t n_reads;
    struct engine_recording *recording;
    struct carrier *carrier; /* of what leaves for other devices; NULL: nothing has */
    struct inlet *inlets;    /* where bytes of other devices arrive */
};

/* The commands to which the stream's next thing is added. */
int stream_open(struct engine_stream *stream, struct commands **commands);
/* Checks a transfer's range within a buffer. */
int stream_check_range(const struct engine_stream *stream, const struct engine_buffer *buffer,
                       uint64_t offset, uint64_t size, const char *what);

/* ---- between.c ----------------------------------------------------------------------------------------- */

/* The first error of what has arrived since the last call. */
int between_status(struct engine_stream *stream);
/* Frees what the stream has for such copies. It has been waited for. */
void between_end(struct engine_stream *stream);

#endif
