/* device.h: shared by the files of the OpenCL backend: the devices, an open device and its parts.
 *
 * All work of a device goes through one queue, in order. Kernels come in two forms, see kernels/common.cl:
 * for GPUs, and for processors with vector registers. */
#ifndef OPENCL_DEVICE_H
#define OPENCL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "device-memory.h"
#include "functions.h"
#include "identity.h"
#include "operand.h"
#include "rope-table.h"

extern const struct engine_host *opencl_host;
extern struct opencl_functions cl;

/* ---- platforms.c: the loader, and the devices ---------------------------------------------------------- */

struct listed_device {
    cl_platform_id platform;
    cl_device_id handle;
    char id[16];                       /* "0.1": platform and device */
    char pci_address[GPU_PCI_ADDRESS]; /* "" if unknown */
    uint8_t uuid[16];                  /* zeros if unknown */
    char name[128], driver[64], version[128], platform_version[128];
    cl_device_type type;
    uint32_t units;
    uint64_t max_group; /* work-items of a group */
    uint64_t max_items; /* of its first dimension */
    uint64_t local_size, max_allocation, memory;
    bool shares_memory; /* with the host */
    bool has_pointers;  /* and the host may use them at any time: fine-grained buffers */
    bool has_dot;       /* products of bytes, in hardware */
    bool has_subgroups; /* sums over subgroups */
    bool has_half;      /* float16 as a type */
    bool has_free_memory;
    bool is_pocl;
};

int list_devices(const struct listed_device **devices, uint32_t *count);
/* ENGINE_ERROR_NOT_FOUND, with the reason why the list is empty. */
int fail_without_devices(void);
void listed_memory(const struct listed_device *device, uint64_t *bytes_free, uint64_t *bytes_total);

bool has_extension(cl_device_id device, const char *name);

/* identity.c: fills device->pci_address and device->uuid. */
void find_identity(struct listed_device *device);

/* Turns an OpenCL error into a status, with a message "what: …". */
int opencl_error(cl_int error, const char *what);

/* ---- program.c ----------------------------------------------------------------------------------------- */

enum source {
    SOURCE_MATMUL,
    SOURCE_INPUTS,
    SOURCE_EXPERTS,
    SOURCE_GET_ROWS,
    SOURCE_ATTENTION,
    SOURCE_ROWS,
    SOURCE_STATES
};

struct program;

struct kernel {
    struct kernel *next;
    char name[32];
    cl_kernel handle;
};

/* A kernel of a program, which is built at the first request. `options` are definitions in addition to the
 * form's own: "-DTYPE=2 -DTOKENS=1". `group_size`: work-items in the groups that will run it. */
int kernel_get(struct engine_device *device, enum source source, const char *options, const char *name,
               size_t group_size, const struct kernel **kernel);
void programs_release(struct engine_device *device);

/* build-log.c: the log of a program that couldn't be built, starting at the first line with an error. */
#define BUILD_LOG_SIZE 2000
void build_log(const struct engine_device *device, cl_program program, char text[BUILD_LOG_SIZE]);

/* ---- An open device ------------------------------------------------------------------------------------ */

/* Memory for results that an operation passes from one kernel to the next. Operations use it one after the
 * other; it grows. */
struct scratch {
    cl_mem memory;
    uint64_t size; /* counted in the device's budget */
};

struct command {
    cl_event event;
    const char *what; /* a kernel's name, "write", … */
    void *staging;    /* host memory that it reads, to be freed behind it; NULL: none */
};
#define MAX_COMMANDS 1024

struct engine_device {
    const struct listed_device *listed;
    cl_context context;
    cl_command_queue queue;
    struct command commands[MAX_COMMANDS]; /* enqueued since the last wait for the queue */
    uint32_t n_commands;
    struct gpu_limits limits;
    struct gpu_budget budget;  /* of buffers and weights */
    uint64_t largest;          /* bytes of one allocation */
    bool vectors;              /* kernels for processors, see kernels/common.cl */
    bool groups_are_too_large; /* those of a kernel, for this device: see device_takes_vectors */
    uint32_t few_rows;         /* the most rows of a work-group for few columns, see op-matmul.c */
    bool integers;             /* products of quantised weights with inputs rounded to bytes */
    bool small_integers;       /* of small matrices, too */
    bool vnni;                 /* by the processor's own instruction */
    struct program *programs;
    struct rope_tables rope_tables;
    struct scratch scratch;
};

struct engine_buffer {
    struct gpu_buffer base;
    cl_mem memory;
    uint8_t *pointer; /* if the host may use it at any time, or NULL */
};

/* Panels first … of a weight. */
struct weight_part {
    cl_mem memory;
    uint64_t first_panel, n_panels;
};

struct engine_weight {
    struct gpu_weight base;
    struct weight_part *parts; /* [n_parts] */
    uint32_t n_parts;
    float *values;    /* of plain values: rope makes its turns from these */
    uint64_t charged; /* against the memory limit */
};

_Static_assert(offsetof(struct engine_buffer, base) == 0, "first, for plugins/gpu");
_Static_assert(offsetof(struct engine_weight, base) == 0, "first, for plugins/gpu");

/* memory.c: device memory of `size` bytes; *pointer as in struct engine_buffer (NULL: not wanted). */
int memory_allocate(struct engine_device *device, uint64_t size, const char *what, cl_mem *memory,
                    uint8_t **pointer);
void memory_free(struct engine_device *device, cl_mem memory, uint8_t *pointer);
/* Transfers outside of streams, complete on return. */
int memory_write(struct engine_device *device, cl_mem memory, uint64_t offset, const void *source,
                 uint64_t size);
/* Maps the memory for the host to fill, until memory_unmap: in place if the device shares memory with the
 * host. */
int memory_map(struct engine_device *device, cl_mem memory, uint64_t offset, uint64_t size, bool read,
               void **pointer);
int memory_unmap(struct engine_device *device, cl_mem memory, void *pointer);

/* Makes scratch memory at least `size` bytes. */
int scratch_reserve(struct engine_device *device, uint64_t size);

/* commands.c. The place for a command's event, to be called before it is enqueued. `what` must stay valid
 * until the queue is waited for. */
int command_begin(struct engine_device *device, const char *what, cl_event **event);
/* Waits for all commands. The first that failed is the error. */
int device_finish(struct engine_device *device);
/* Flushes; whether device_finish would return at once. */
int device_is_done(struct engine_device *device, int *done);

/* between.c: a copy in the order of both queues. It is flushed in the source's. */
int device_copy(struct engine_device *source, cl_mem from, uint64_t from_offset, struct engine_device *target,
                cl_mem to, uint64_t to_offset, uint64_t size);
/* Waits until drivers call nothing of this plugin any more, for a second at most: one that has lost its
 * device may never. */
void copies_settle(void);

/* weight.c */
#define PANEL_ROWS 32
bool weight_type_known(uint32_t type);

/* device.c: changes to kernels for processors if a kernel's groups turned out to be too large. False if they
 * weren't, or if the configuration chooses the kernels. */
bool device_takes_vectors(struct engine_device *device);

/* ops.c: builds a program that every model needs. */
int op_try(struct engine_device *device);

/* ---- The border ---------------------------------------------------------------------------------------- */

int device_open(uint32_t index, const struct engine_device_options *options, struct engine_device **device);
void device_close(struct engine_device *device);
int buffer_create(struct engine_device *device, uint64_t size, struct engine_buffer **buffer);
void buffer_destroy(struct engine_buffer *buffer);
void *buffer_pointer(struct engine_buffer *buffer);
int weight_size(struct engine_device *device, const struct engine_weight_desc *desc, uint64_t *bytes);
int weight_create(struct engine_device *device, const struct engine_weight_desc *desc,
                  struct engine_weight **weight);
void weight_destroy(struct engine_weight *weight);
int op_memory(struct engine_device *device, uint32_t op, const void *args, uint64_t *bytes);
bool op_has_kernel(uint32_t op);
int op_supports(struct engine_device *device, uint32_t op, const void *args);
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
int stream_wait(struct engine_stream *stream);
int stream_done(struct engine_stream *stream, int *done);
int stream_copy_between(struct engine_stream *source, struct engine_buffer *from, uint64_t from_offset,
                        struct engine_stream *target, struct engine_buffer *to, uint64_t to_offset,
                        uint64_t size);
int stream_record_begin(struct engine_stream *stream);
int stream_record_end(struct engine_stream *stream, struct engine_recording **recording);
int stream_replay(struct engine_stream *stream, struct engine_recording *recording);
void recording_destroy(struct engine_recording *recording);

#endif
