/* device.h: shared by the files of the Vulkan backend: the process's instance, an open device and its parts.
 *
 * All work of a device goes through one queue, in the order of submission (submit.c); command buffers begin
 * with a barrier after everything before them. Memory comes in blocks, each under one VkBuffer; buffers and
 * weights are ranges of these. */
#ifndef VULKAN_DEVICE_H
#define VULKAN_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "device-memory.h"
#include "functions.h"
#include "identity.h"
#include "operand.h"
#include "rope-table.h"
#include "shaders.h"

extern const struct engine_host *vulkan_host;
extern struct vulkan_functions vk;

/* ---- instance.c: the loader, the instance, the devices ------------------------------------------------- */

/* Cooperative matrices, float16 times float16 to float32. */
struct cooperative {
    uint32_t rows, columns, depth;        /* rows x depth by depth x columns; rows 0: not available */
    uint32_t region_rows, region_columns; /* computed by a subgroup, in a workgroup's tile */
    uint32_t subgroup; /* invocations of a subgroup to ask for; 0: there is only one size */
};

struct physical_device {
    VkPhysicalDevice handle;
    VkPhysicalDeviceProperties properties;
    uint8_t uuid[VK_UUID_SIZE];
    char pci_address[GPU_PCI_ADDRESS];    /* "" if unknown */
    char driver[VK_MAX_DRIVER_NAME_SIZE]; /* "" if unknown */
    uint32_t queue_family;
    uint32_t time_bits;     /* of its time stamps; 0: it has none */
    bool has_addresses;     /* bufferDeviceAddress, 64-bit integers */
    bool has_half;          /* arithmetic in float16 */
    bool has_dot, fast_dot; /* dot products of bytes; in hardware */
    bool has_subgroups;     /* sums and maxima over subgroups in compute shaders */
    bool has_shuffles;      /* and shuffles within full subgroups of 8 … 128 invocations */
    uint32_t subgroup;      /* invocations of those */
    struct cooperative cooperative;
    bool has_budget;     /* VK_EXT_memory_budget */
    bool has_statistics; /* of its compiler, and they are wanted: statistics.c */
    uint64_t max_buffer; /* bytes of one allocation and one buffer */
};

/* Opens the loader, makes the instance and the list of devices, once. */
int instance_devices(const struct physical_device **devices, uint32_t *count);
/* Fills memory_free, memory_total. */
void physical_memory(const struct physical_device *device, uint64_t *bytes_free, uint64_t *bytes_total);
/* ENGINE_ERROR and the validation layers' message if they have found something; ENGINE_OK if they are off. */
int validation_status(void);
/* Fails if [vulkan] validation is none of off, on and gpu. */
int validation_check_setting(void);

/* cooperative.c: fills device->cooperative, for Vulkan 1.3 with VK_KHR_cooperative_matrix. */
void cooperative_find(struct physical_device *device);

/* Turns a VkResult into a status, with a message "what: …". */
int vulkan_error(VkResult result, const char *what);

/* ---- memory.c ------------------------------------------------------------------------------------------ */

struct memory_block;

struct memory_range {
    struct memory_block *block; /* NULL: nothing allocated */
    uint64_t offset, size;
};

enum memory_kind { MEMORY_DEVICE, MEMORY_STAGING, MEMORY_KINDS };

int memory_allocate(struct engine_device *device, enum memory_kind kind, uint64_t size, const char *what,
                    struct memory_range *range);
void memory_free(struct engine_device *device, struct memory_range *range);
VkBuffer memory_buffer(const struct memory_range *range);
/* The address in shaders of the range's buffer; 0 if shaders don't use addresses. */
uint64_t memory_address(const struct memory_range *range);
/* The host's pointer to the range, or NULL. */
uint8_t *memory_pointer(const struct memory_range *range);
/* Whether the host can access all ranges of a kind. */
bool memory_is_seen(const struct engine_device *device, enum memory_kind kind);
/* The memory that a request of `size` bytes takes. */
uint64_t memory_size(uint64_t size);
/* Chooses the types of memory; fails if there is none. */
int memory_choose(struct engine_device *device);

/* ---- submit.c: the queue ------------------------------------------------------------------------------- */

/* Something for the queue. Whoever has it waits for it before it is used again. */
struct submission {
    VkCommandBuffer commands; /* VK_NULL_HANDLE: none, only the fence */
    VkFence fence;
    const bool *awaits; /* it is held back while that is true; under the device's lock. NULL: it isn't */
    /* Under the device's lock. */
    struct submission *next;
    bool is_held;
    VkResult result; /* of the submission */
};

int submission_setup(struct engine_device *device);
void submission_teardown(struct engine_device *device);
/* Submits it, now or when its turn comes: errors of that are returned by submission_wait. */
VkResult submission_add(struct engine_device *device, struct submission *submission);
/* Submits those that were held back, as far as they may go. Under the device's lock. */
void submission_go_on(struct engine_device *device);
/* Waits until it has run, and resets its fence. */
VkResult submission_wait(struct engine_device *device, struct submission *submission);
/* Whether submission_wait would return at once. */
bool submission_is_over(struct engine_device *device, const struct submission *submission);
/* Waits until everything has run. */
void device_wait_idle(struct engine_device *device);

/* ---- The device ---------------------------------------------------------------------------------------- */

#define MAX_BINDINGS  13
#define MAX_CONSTANTS 12
#define MAX_PUSH      128 /* bytes; every device has these */
#define UPLOAD_SLOTS  2
#define UPLOAD_SIZE   (8u << 20)

struct pipeline_key {
    enum shader shader;
    uint32_t constants[MAX_CONSTANTS]; /* by constant_id */
    uint32_t full_subgroups;           /* 1: the shader needs them */
    uint32_t subgroup_size;            /* required by the shader; 0: any */
};

struct pipeline {
    struct pipeline *next;
    struct pipeline_key key;
    VkPipeline handle; /* VK_NULL_HANDLE: it isn't compiled yet */
    VkResult result;   /* of compiling it */
};

/* Memory for results that an operation passes from one dispatch to the next. Operations use it one after the
 * other; recordings keep using memory that has become too small for others. */
struct scratch {
    struct scratch *next;
    struct memory_range range;
};

struct upload_slot {
    struct memory_range staging;
    struct submission submission;
    bool pending;
};

struct engine_device {
    const struct physical_device *physical;
    VkDevice handle;
    VkQueue queue;
    VkCommandPool command_pool;
    /* Guards the queue, and what carriers of bytes share with this device (between.c). */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct submission *held, **last_held; /* those that are held back, in their order */
    struct gpu_limits limits;
    uint64_t max_range; /* bytes of a storage buffer binding */
    uint32_t max_groups[2];
    struct gpu_budget budget; /* of buffers, weights and scratch memory */

    uint32_t memory_type[MEMORY_KINDS];
    struct memory_block *blocks;

    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
    VkPipelineCache pipeline_cache;
    size_t pipeline_cache_size; /* of the file that was read */
    struct pipeline *pipelines;

    struct rope_tables rope_tables;
    struct scratch *scratch; /* largest first */
    struct upload_slot uploads[UPLOAD_SLOTS];
    uint32_t next_upload;
    bool addresses;          /* use the shaders for software drivers */
    bool half;               /* use the shaders with products in float16 */
    bool dot;                /* use the shaders with integer dot products */
    bool cooperative;        /* use the shaders with cooperative matrices */
    bool subgroups;          /* use the shaders that sum over subgroups */
    bool shuffles;           /* use those that shuffle within subgroups */
    bool splits;             /* attention over few heads and long contexts */
    uint32_t few_columns;    /* up to this many go through shaders/matmul-few.glsl: 1 … 16 */
    uint32_t few_rows;       /* the most rows of its workgroups */
    uint32_t max_norm_lanes; /* the most invocations of a norm's workgroup */
    uint32_t unrolled;       /* values of k whose products are unrolled in shaders/matmul-tiled.glsl */
    /* What a slow device of this kind does in a second; how many seconds of that are submitted at once. */
    struct {
        double flops, bytes;
    } speed;
    double submission;
    struct times *times; /* times.c; NULL: nobody wants to know */
};

struct engine_buffer {
    struct gpu_buffer base;
    struct memory_range range;
};

struct engine_weight {
    struct gpu_weight base;
    struct memory_range range;
    uint64_t panel_size, scale_size; /* bytes of a panel of values and of its scales */
    uint64_t n_panels;               /* 0: plain values */
    uint64_t matrix_panels;          /* of one matrix, if there are several: an even number */
    float *values;                   /* of plain values: rope makes its angles from these */
    uint64_t charged;                /* against the memory limit */
};

_Static_assert(offsetof(struct engine_buffer, base) == 0, "first, for plugins/gpu");
_Static_assert(offsetof(struct engine_weight, base) == 0, "first, for plugins/gpu");

/* pipeline.c */
int pipeline_setup(struct engine_device *device);
void pipeline_teardown(struct engine_device *device);
int pipeline_get(struct engine_device *device, const struct pipeline_key *key, VkPipeline *handle);
/* Makes note of a pipeline that will be needed; pipelines_make compiles those that aren't there yet, on
 * several threads where the device is no software driver, which has its own. */
int pipeline_want(struct engine_device *device, const struct pipeline_key *key);
int pipelines_make(struct engine_device *device);

/* statistics.c: whether a device tells what its compiler makes, and somebody wants to know. */
bool statistics_are_wanted(VkPhysicalDevice device);
/* Writes them for a pipeline that was made with them. */
void statistics_write(const struct engine_device *device, const struct pipeline_key *key,
                      VkPipeline pipeline);

/* upload.c: transfers outside of streams. They run after everything submitted before them. */
int upload_setup(struct engine_device *device);
void upload_teardown(struct engine_device *device);
/* Waits for a free slot and returns its UPLOAD_SIZE bytes of staging memory. */
int upload_begin(struct engine_device *device, struct upload_slot **slot);
/* Copies the first `size` bytes of the slot to `target` + offset. */
int upload_submit(struct engine_device *device, struct upload_slot *slot, const struct memory_range *target,
                  uint64_t offset, uint64_t size);
int upload_bytes(struct engine_device *device, const struct memory_range *target, uint64_t offset,
                 const void *source, uint64_t size);
int upload_zeros(struct engine_device *device, const struct memory_range *target);

/* device.c: at least `size` bytes of scratch memory. */
int scratch_get(struct engine_device *device, uint64_t size, const struct memory_range **range);

/* weight.c: the layout of weights of a type in memory: of words, of quads, or values in units. */
struct weight_type {
    uint32_t type;
    enum shader first;          /* of its WEIGHT_SHADERS */
    uint32_t block_words, head; /* words of a block, the first of which holds its first `head` bytes; or 0 */
    uint32_t block_quads;       /* pieces of 16 bytes, which make_quads makes of a block of the file; or 0 */
    void (*make_quads)(const uint8_t *block, uint8_t *quads);
    uint32_t apart, in_file,
        apart_at; /* bytes of a block behind all panels; of them in the file, and where */
};
/* NULL: no shaders for this type. */
const struct weight_type *weight_type(uint32_t type);
bool weight_type_known(uint32_t type);

/* shaders/matmul-few.glsl */
#define FEW_SHARES      16 /* invocations that divide k */
#define MAX_FEW_COLUMNS 16

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
bool op_has_kernel(uint32_t op);
int op_supports(struct engine_device *device, uint32_t op, const void *args);
int op_memory(struct engine_device *device, uint32_t op, const void *args, uint64_t *bytes);
int stream_create(struct engine_device *device, struct engine_stream **stream);
void stream_destroy(struct engine_stream *stream);
int stream_enqueue(struct engine_stream *stream, uint32_t op, const void *args);
int stream_write(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                 const void *source, uint64_t size);
int stream_read(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset, void *target,
                uint64_t size);
int stream_copy(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                struct engine_buffer *source, uint64_t source_offset, uint64_t size);
int stream_copy_between(struct engine_stream *source, struct engine_buffer *from, uint64_t from_offset,
                        struct engine_stream *target, struct engine_buffer *to, uint64_t to_offset,
                        uint64_t size);
int stream_flush(struct engine_stream *stream);
int stream_wait(struct engine_stream *stream);
int stream_done(struct engine_stream *stream, int *done);
int stream_record_begin(struct engine_stream *stream);
int stream_record_end(struct engine_stream *stream, struct engine_recording **recording);
int stream_replay(struct engine_stream *stream, struct engine_recording *recording);
void recording_destroy(struct engine_recording *recording);

#endif
