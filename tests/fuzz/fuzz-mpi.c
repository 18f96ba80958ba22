/* fuzz-mpi.c: fuzzing target: what arrives at a worker of the plugin mpi, and at rank 0. Input: a byte, and
 *   then 0: messages to a worker, each with its length (u16) before it
 *   1: answers to rank 0 in the same form
 *   2: changes of what rank 0 and two workers say to each other, of CHANGE bytes each: which message (u8; an
 *      answer is one, too), which byte (u16), and what changes in it (u8). Without changes, everything works.
 *
 * A worker's device is one that checks that each range which it gets lies in its memory, and touches the
 * first and the last byte of operands; answers to what rank 0 asks come from the input. Either is refused
 * with a reason, or done. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ops.h"
#include "link.h"
#include "remote.h"
#include "tokenizers.h"
#include "work.h"

enum {
    MOST = 1 << 16, /* bytes of a buffer or weight */
    REPLY = 16      /* of a reply without text and answer */
};

static char reason[256];

static int fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    return status;
}

static void ignore(enum engine_log_level level, const char *format, ...)
{
    (void)level, (void)format;
}

static const char *no_setting(const char *plugin, const char *key)
{
    (void)plugin, (void)key;
    return NULL;
}

static const struct engine_host host = {.struct_size = sizeof host,
                                        .abi_major = ENGINE_ABI_MAJOR,
                                        .abi_minor = ENGINE_ABI_MINOR,
                                        .fail = fail,
                                        .log = ignore,
                                        .setting = no_setting};
const struct engine_host *mpi_host = &host;

/* ---- A device that checks ------------------------------------------------------------------------------ */

/* What each handle points to: memory, and how much. */
struct memory {
    uint64_t size;
    uint8_t bytes[];
};

static struct memory *new_memory(uint64_t size)
{
    struct memory *memory = size <= MOST ? calloc(1, sizeof *memory + (size_t)size) : NULL;
    if (memory) memory->size = size;
    return memory;
}

static int fake_info(uint32_t index, struct engine_device_info *info)
{
    (void)index;
    snprintf(info->description, sizeof info->description, "fake");
    return ENGINE_OK;
}

static int fake_open(uint32_t index, const struct engine_device_options *options,
                     struct engine_device **device)
{
    (void)index, (void)options;
    *device = (struct engine_device *)(void *)new_memory(0);
    return ENGINE_OK;
}

static void fake_close(struct engine_device *device)
{
    free(device);
}

static int fake_supports(struct engine_device *device, uint32_t op, const void *args)
{
    (void)device, (void)op, (void)args;
    return 1;
}

static int fake_weight_size(struct engine_device *device, const struct engine_weight_desc *desc,
                            uint64_t *bytes)
{
    (void)device;
    *bytes = desc->data_size + strlen(desc->name) + strlen(desc->type_name);
    return ENGINE_OK;
}

static int fake_buffer(struct engine_device *device, uint64_t size, struct engine_buffer **buffer)
{
    (void)device;
    *buffer = (struct engine_buffer *)(void *)new_memory(size);
    return *buffer ? ENGINE_OK : fail(ENGINE_ERROR_MEMORY, "out of memory");
}

static void fake_free_buffer(struct engine_buffer *buffer)
{
    free(buffer);
}

static int fake_weight(struct engine_device *device, const struct engine_weight_desc *desc,
                       struct engine_weight **weight)
{
    (void)device;
    struct memory *memory = new_memory(desc->data_size);
    if (!memory) return fail(ENGINE_ERROR_MEMORY, "out of memory");
    if (desc->data_size > 0) memcpy(memory->bytes, desc->data, (size_t)desc->data_size);
    *weight = (struct engine_weight *)(void *)memory;
    return ENGINE_OK;
}

static void fake_free_weight(struct engine_weight *weight)
{
    free(weight);
}

static int fake_stream(struct engine_device *device, struct engine_stream **stream)
{
    (void)device;
    *stream = (struct engine_stream *)(void *)new_memory(0);
    return ENGINE_OK;
}

static void fake_free_stream(struct engine_stream *stream)
{
    free(stream);
}

/* The range of a buffer, which must lie in it. */
static uint8_t *range(struct engine_buffer *buffer, uint64_t offset, uint64_t size)
{
    struct memory *memory = (struct memory *)(void *)buffer;
    if (offset > memory->size || size > memory->size - offset) fuzz_fail("a range is not in its buffer");
    return memory->bytes + offset;
}

/* Every operand lies in its memory. */
static void check_operand(const struct engine_tensor *tensor)
{
    const uint64_t element = tensor->type == ENGINE_TYPE_Q8_0 ? 34 : tensor->type == ENGINE_TYPE_F16 ? 2 : 4;
    uint64_t size = tensor->ne[0] / (tensor->type == ENGINE_TYPE_Q8_0 ? 32 : 1) * element;
    if (!tensor->buffer) return;
    for (int d = 1; d < 4; d++) size += (tensor->ne[d] - 1) * tensor->nb[d];
    range(tensor->buffer, tensor->offset, size);
}

static int fake_enqueue(struct engine_stream *stream, uint32_t op, const void *args)
{
    (void)stream;
    for (const struct op_operand *operand = op_operands(op); operand->name; operand++)
        if (op_given(args, operand)) check_operand(op_given(args, operand));
    return ENGINE_OK;
}

static int fake_write(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                      const void *source, uint64_t size)
{
    (void)stream;
    uint8_t *target = range(buffer, offset, size);
    if (size > 0) memcpy(target, source, (size_t)size);
    return ENGINE_OK;
}

static int fake_read(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                     void *target, uint64_t size)
{
    (void)stream;
    const uint8_t *source = range(buffer, offset, size);
    if (size > 0) memcpy(target, source, (size_t)size);
    return ENGINE_OK;
}

static int fake_copy(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                     struct engine_buffer *source, uint64_t source_offset, uint64_t size)
{
    (void)stream;
    const uint8_t *from = range(source, source_offset, size);
    uint8_t *to = range(target, target_offset, size);
    if (size > 0) memmove(to, from, (size_t)size);
    return ENGINE_OK;
}

static int fake_wait(struct engine_stream *stream)
{
    (void)stream;
    return ENGINE_OK;
}

static const struct engine_backend backend = {
    .struct_size = sizeof backend,
    .device_info = fake_info,
    .device_open = fake_open,
    .device_close = fake_close,
    .supports = fake_supports,
    .weight_size = fake_weight_size,
    .buffer_create = fake_buffer,
    .buffer_destroy = fake_free_buffer,
    .weight_create = fake_weight,
    .weight_destroy = fake_free_weight,
    .stream_create = fake_stream,
    .stream_destroy = fake_free_stream,
    .enqueue = fake_enqueue,
    .write = fake_write,
    .read = fake_read,
    .copy = fake_copy,
    .stream_flush = fake_wait,
    .stream_wait = fake_wait,
};

static const char *last_reason(void)
{
    return reason;
}

static const struct engine_served_device device = {
    .struct_size = sizeof device, .name = "cpu", .backend = &backend};
static const struct engine_served_device *const devices[] = {&device};
static const struct engine_service service = {.struct_size = sizeof service,
                                              .abi_major = ENGINE_ABI_MAJOR,
                                              .abi_minor = ENGINE_ABI_MINOR,
                                              .devices = devices,
                                              .n_devices = 1,
                                              .message = last_reason};

/* The next message of the input. */
static const uint8_t *input;
static size_t input_size;

static bool next_message(struct bytes *message)
{
    if (input_size < 2) return false;
    size_t length = (size_t)(input[0] | input[1] << 8);
    if (length > input_size - 2) length = input_size - 2;
    bytes_free(message);
    bytes_add(message, input + 2, length);
    input += 2 + length;
    input_size -= 2 + length;
    if (message->failed) fuzz_fail("no memory");
    return true;
}

/* ---- Workers ------------------------------------------------------------------------------------------- */

enum { CHANGE = 4, WORKERS = 2 };

/* Those of changes; NULL: there are none, and what they would say is the input's. */
static struct work *workers[WORKERS + 1]; /* at their ranks */
static struct bytes replies[WORKERS + 1];
static struct bytes handed; /* by one of them to another */
static const uint8_t *changes;
static size_t n_changes;
static unsigned n_said;

/* Makes the changes of the next message. */
static void change(struct bytes *message)
{
    for (size_t i = 0; i < n_changes; i++) {
        const uint8_t *one = changes + CHANGE * i;
        size_t place = (size_t)(one[1] | one[2] << 8);
        if (one[0] == n_said && place < message->size) message->data[place] ^= one[3];
    }
    n_said++;
}

static void move(struct bytes *target, struct bytes *source)
{
    bytes_free(target);
    *target = *source;
    *source = (struct bytes){0};
}

static bool send_to_peer(int rank, struct bytes *message, char error[PROTOCOL_TEXT])
{
    (void)error;
    if (rank < 1 || rank > WORKERS) fuzz_fail("a message to nobody");
    move(&handed, message);
    return true;
}

static bool take_from_peer(int rank, struct bytes *message, char error[PROTOCOL_TEXT])
{
    if (rank < 1 || rank > WORKERS) fuzz_fail("a message of nobody");
    if (handed.size > 0) {
        move(message, &handed);
        change(message);
        return true;
    }
    snprintf(error, PROTOCOL_TEXT, "it has ended");
    return next_message(message);
}

static const struct work_peers peers[WORKERS + 1] = {
    {0, WORKERS + 1, send_to_peer, take_from_peer},
    {1, WORKERS + 1, send_to_peer, take_from_peer},
    {2, WORKERS + 1, send_to_peer, take_from_peer},
};

static void be_worker(void)
{
    struct work *work = work_create(&service, &peers[1], "host");
    struct bytes message = {0}, reply = {0};
    if (!work) fuzz_fail("no memory");
    while (next_message(&message)) {
        enum work_next next = work_do(work, message.data, message.size, &reply);
        uint32_t status = 0;
        if (next == WORK_ENDS) break;
        if (next == WORK_CONTINUES) continue;
        if (reply.failed || reply.size < REPLY) fuzz_fail("a reply is none");
        memcpy(&status, reply.data, sizeof status);
        if (status && reply.size == REPLY) fuzz_fail("it fails without a reason");
    }
    work_destroy(work);
    bytes_free(&message);
    bytes_free(&reply);
    bytes_free(&handed);
}

/* ---- Rank 0 -------------------------------------------------------------------------------------------- */

bool link_begin(char error[LINK_ERROR])
{
    (void)error;
    return true;
}

int link_rank(void)
{
    return 0;
}

int link_size(void)
{
    return WORKERS + 1;
}

void link_end(bool together)
{
    (void)together;
}

double link_now(void)
{
    static double time;
    return time += 1e-3;
}

uint64_t link_unsent(int rank)
{
    (void)rank;
    return 0;
}

double link_heard(int rank)
{
    (void)rank;
    return link_now();
}

void link_rest(double waited, double usual)
{
    (void)waited, (void)usual;
}

void link_beat(void)
{
}

void link_attend(bool computes)
{
    (void)computes;
}

bool link_post(int rank, enum link_kind kind, struct bytes *message, char error[LINK_ERROR])
{
    (void)kind, (void)error;
    if (workers[rank]) {
        change(message);
        if (work_do(workers[rank], message->data, message->size, &replies[rank]) != WORK_REPLIES)
            replies[rank].size = 0;
    }
    bytes_free(message);
    return true;
}

int link_take(int rank, enum link_kind kind, struct bytes *message, char error[LINK_ERROR])
{
    if (kind != LINK_REPLY) return 0;
    if (replies[rank].size > 0) {
        move(message, &replies[rank]);
        change(message);
        return 1;
    }
    snprintf(error, LINK_ERROR, "it has ended");
    return next_message(message) ? 1 : -1;
}

/* What a model does, in short. Whatever fails, the rest goes on with what there is. Returns the first
 * failure. */
static int use_devices(struct engine_device *opened[WORKERS])
{
    static const uint8_t data[64] = {1, 2, 3};
    const struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                            .name = "weight",
                                            .type_name = "F32",
                                            .ne = {4, 4, 1, 1},
                                            .data = data,
                                            .data_size = sizeof data};
    struct engine_buffer *buffers[WORKERS] = {NULL};
    struct engine_weight *weight = NULL;
    struct engine_stream *streams[WORKERS] = {NULL};
    struct engine_recording *recording = NULL;
    uint64_t bytes, mark;
    uint8_t target[32] = {0}, other[7];
    int done, status = device_weight_size(opened[0], &desc, &bytes);
    status |= weight_create(opened[0], &desc, &weight);
    for (int i = 0; i < WORKERS; i++) status |= buffer_create(opened[i], 64, &buffers[i]);
    for (int i = 0; i < WORKERS; i++) status |= stream_create(opened[i], &streams[i]);
    if (streams[0] && buffers[0] && streams[1] && buffers[1]) {
        struct engine_tensor tensor = {
            .struct_size = sizeof tensor, .ne = {4, 1, 1, 1}, .nb = {4, 16, 16, 16}, .buffer = buffers[0]};
        const struct engine_op_binary add = {
            .struct_size = sizeof add, .a = &tensor, .b = &tensor, .output = &tensor};
        status |= !device_supports(opened[0], ENGINE_OP_ADD, &add);
        status |= stream_enqueue(streams[0], ENGINE_OP_ADD, &add);
        status |= stream_write(streams[0], buffers[0], 0, data, sizeof data);
        status |= stream_record_begin(streams[0]);
        status |= stream_enqueue(streams[0], ENGINE_OP_ADD, &add);
        status |= stream_record_end(streams[0], &recording);
        if (recording) status |= stream_replay(streams[0], recording);
        status |= stream_pass(streams[0], buffers[0], 0, streams[1], buffers[1], 8, 32);
        status |= stream_flush(streams[0]);
        status |= stream_read(streams[1], buffers[1], 8, target, sizeof target);
        status |= stream_read(streams[1], buffers[1], 0, other, sizeof other);
        status |= stream_done(streams[1], &done);
        status |= stream_mark(streams[1], &mark);
        status |= stream_wait_for(streams[1], mark);
        status |= stream_wait(streams[1]);
        status |= stream_wait(streams[0]);
        if (n_changes == 0 && !status && memcmp(target, data, sizeof target) != 0)
            fuzz_fail("other bytes come than were sent");
    }
    recording_destroy(recording);
    for (int i = 0; i < WORKERS; i++) stream_destroy(streams[i]);
    weight_destroy(weight);
    for (int i = 0; i < WORKERS; i++) buffer_destroy(buffers[i]);
    return status;
}

static int be_rank_0(void)
{
    uint32_t count = 0;
    struct engine_device *opened[WORKERS] = {NULL};
    int status = device_count(&count);
    if (status && !reason[0]) fuzz_fail("refused without a reason");
    for (uint32_t i = 0; i < count && !status; i++) {
        struct engine_device_info info = {.struct_size = sizeof info};
        status = device_info(i, &info);
        if (!status && i < WORKERS) status = device_open(i, NULL, &opened[i]);
    }
    if (!status && count >= WORKERS) status = use_devices(opened);
    for (int i = 0; i < WORKERS; i++) device_close(opened[i]);
    workers_forget();
    return status;
}

static void be_all(const uint8_t *data, size_t size)
{
    changes = data;
    n_changes = size / CHANGE;
    n_said = 0;
    for (int i = 1; i <= WORKERS; i++) {
        workers[i] = work_create(&service, &peers[i], "host");
        if (!workers[i]) fuzz_fail("no memory");
    }
    input_size = 0;
    int status = be_rank_0();
    if (n_changes == 0 && status) fuzz_fail(reason);
    for (int i = 1; i <= WORKERS; i++) {
        work_destroy(workers[i]);
        workers[i] = NULL;
        bytes_free(&replies[i]);
    }
    bytes_free(&handed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t never[CHANGE] = {255};
    if (size < 1) return 0;
    reason[0] = '\0';
    n_changes = 1; /* what comes is none of what rank 0 and workers of this version say */
    changes = never;
    input = data + 1;
    input_size = size - 1;
    if (data[0] == 0) be_worker();
    if (data[0] == 1) be_rank_0();
    if (data[0] == 2) be_all(data + 1, size - 1);
    return 0;
}
