/* cpu.h: shared by the files of the CPU plugin: the host's services, the device, its buffers and weights.
 *
 *   plugin.c   the entry point and its one device               device.c  devices, buffers, their memory
 *   weight.c   model tensors, packed                            stream.c  queues of operations, recordings
 *   list.c     steps, their dependencies, running them          pool.c    the threads
 *   op-*.c     operations: arguments checked, made into steps   operand.c tensors checked, made into views
 *   matmul-*.c the steps of ENGINE_OP_MATMUL, see matmul.h
 *   types.c    the weight types                                 kernels.h arithmetic, by instruction set
 *   isa.c      choice of the instruction set                    system.c  the machine's processors, memory
 *   memory.c   memory in huge pages */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

#define CPU_ALIGNMENT 64 /* bytes; of buffers, weights and scratch memory: a cache line, a vector */

struct kernels;
struct list;
struct pool;
struct region;
struct weight_type;

/* The host's services; set by engine_plugin_entry. */
extern const struct engine_host *cpu_host;

struct engine_device {
    const struct kernels *kernels;
    struct pool *pool;
    uint64_t memory_limit; /* bytes; 0: none */
    uint64_t memory_used;  /* by buffers and weights */
    struct region *region; /* see memory.h */
    uint8_t *scratch;      /* of the running operations: the shared part, then each thread's own */
    size_t scratch_size;
};

struct engine_buffer {
    struct engine_device *device;
    uint8_t *data;
    uint64_t size;
};

struct engine_weight {
    struct engine_device *device;
    const struct weight_type *type;        /* in the file */
    const struct weight_type *packed_type; /* of the panels */
    uint64_t k, rows;                      /* of a matrix, [k, rows] */
    /* 1 unless made for ENGINE_WEIGHT_MATRICES: other dimensions are counted into rows. */
    uint64_t n_matrices;
    uint64_t ne[4];        /* as in the file */
    const uint8_t *packed; /* panels, see types.h, matrix after matrix; NULL if no matmul uses it */
    const uint8_t *plain;  /* rows as in the file, or NULL where `packed` serves them */
    uint8_t *memory;       /* memory that the weight owns for `packed` and `plain`; NULL: none */
    uint64_t memory_size;
};

/* Zeroed memory, aligned to CPU_ALIGNMENT and, if it is large, in huge pages where the system has them.
 * Counted against the device's limit. NULL after host->fail. */
void *device_allocate(struct engine_device *device, uint64_t size, const char *what);
void device_free(struct engine_device *device, void *memory, uint64_t size);

/* Scratch memory of at least `size` bytes, contents undefined. */
int device_reserve_scratch(struct engine_device *device, size_t size);

/* The functions of struct engine_backend, by file. */
int device_open(uint32_t index, const struct engine_device_options *options, struct engine_device **device);
void device_close(struct engine_device *device);
int buffer_create(struct engine_device *device, uint64_t size, struct engine_buffer **buffer);
void buffer_destroy(struct engine_buffer *buffer);
void *buffer_pointer(struct engine_buffer *buffer);

int weight_size(struct engine_device *device, const struct engine_weight_desc *desc, uint64_t *bytes);
int weight_create(struct engine_device *device, const struct engine_weight_desc *desc,
                  struct engine_weight **weight);
void weight_destroy(struct engine_weight *weight);

int op_supports(struct engine_device *device, uint32_t op, const void *args);
/* Appends the steps of an operation to a list. */
int op_append(struct engine_device *device, struct list *list, uint32_t op, const void *args);

int stream_create(struct engine_device *device, struct engine_stream **stream);
void stream_destroy(struct engine_stream *stream);
int stream_enqueue(struct engine_stream *stream, uint32_t op, const void *args);
int stream_write(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                 const void *source, uint64_t size);
int stream_read(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset, void *target,
                uint64_t size);
int stream_copy(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                struct engine_buffer *source, uint64_t source_offset, uint64_t size);
int stream_flush(struct engine_stream *stream);
int stream_copy_between(struct engine_stream *source, struct engine_buffer *from, uint64_t from_offset,
                        struct engine_stream *target, struct engine_buffer *to, uint64_t to_offset,
                        uint64_t size);
int stream_done(struct engine_stream *stream, int *done);
int stream_wait(struct engine_stream *stream);
int stream_record_begin(struct engine_stream *stream);
int stream_record_end(struct engine_stream *stream, struct engine_recording **recording);
int stream_replay(struct engine_stream *stream, struct engine_recording *recording);
void recording_destroy(struct engine_recording *recording);

#endif
