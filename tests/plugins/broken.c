/* broken.c: the example backend with one fault, chosen by BROKEN, each of which the conformance suite has to
 * find. */
#define engine_plugin_entry sound_entry
#include "../../examples/backend-minimal/minimal.c"
#undef engine_plugin_entry

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum fault {
    LAST_TOKEN,  /* the last token of a long batch is left out */
    INPUT,       /* uses the input's room for what it works out */
    LATE_WRITE,  /* reads what is written later, when the caller may have reused it */
    FALSE_CLAIM, /* claims to add residuals, and doesn't */
    STRIDES,     /* takes rows as if nothing were between them */
    LEAK,        /* gives no buffer back */
    LEAK_WEIGHT, /* gives no weight back */
    LEAK_HANDLE, /* gives a weight's values back, and not itself */
    HANG,        /* in an operation, with a process that it has begun */
    HANG_OPEN,   /* in device_open */
    PROCESS,     /* leaves a process of a session of its own */
    THREAD,      /* leaves a thread */
    PART,        /* no fault: claims rows of whole words alone */
    CRASH,       /* on weights in Q8_0 */
    LONG,        /* loses what is beyond 4,096 values of a row */
    TALL,        /* loses rows beyond 1,024 */
    TALLEST,     /* loses rows beyond 30,000 */
    GRID,        /* is wrong for IQ2_XXS alone */
    KEEPS,       /* keeps 4 KiB of each operation */
    BATCHES,     /* claims batch invariance, and rounds batches of five or more tokens otherwise */
    END          /* ends the process, as if all had been well */
};

static int long_batches_lack_a_token(struct engine_stream *stream, uint32_t op, const void *args)
{
    struct engine_tensor in, out;
    if (!supports((struct engine_device *)stream, op, args)) return enqueue(stream, op, args);
    struct engine_op_matmul m = *(const struct engine_op_matmul *)args;
    if (m.input->ne[1] < 30) return enqueue(stream, op, args);
    m.struct_size = sizeof m;
    in = *m.input, out = *m.output;
    in.ne[1]--, out.ne[1]--;
    m.input = &in, m.output = &out;
    return enqueue(stream, op, &m);
}

static int spoil_input(struct engine_stream *stream, uint32_t op, const void *args)
{
    const struct engine_op_matmul *m = args;
    int status = enqueue(stream, op, args);
    if (status == ENGINE_OK) memset(m->input->buffer->data + m->input->offset, 0, sizeof(float));
    return status;
}

static struct {
    struct engine_buffer *buffer;
    uint64_t offset, size;
    const void *source;
} late;

static void write_late(void)
{
    if (late.buffer) memcpy(late.buffer->data + late.offset, late.source, late.size);
    late.buffer = NULL;
}

static int late_write(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                      const void *source, uint64_t size)
{
    write_late();
    if (offset > buffer->size || size > buffer->size - offset || size == 0 || size > 100)
        return write_buffer(stream, buffer, offset, source, size);
    late.buffer = buffer, late.offset = offset, late.size = size, late.source = source;
    return ENGINE_OK;
}

static int late_read(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                     void *target, uint64_t size)
{
    write_late();
    return read_buffer(stream, buffer, offset, target, size);
}

static int late_copy(struct engine_stream *stream, struct engine_buffer *to, uint64_t to_offset,
                     struct engine_buffer *from, uint64_t from_offset, uint64_t size)
{
    write_late();
    return copy_buffer(stream, to, to_offset, from, from_offset, size);
}

static int late_enqueue(struct engine_stream *stream, uint32_t op, const void *args)
{
    write_late();
    return enqueue(stream, op, args);
}

static int late_wait(struct engine_stream *stream)
{
    write_late();
    return stream_end(stream);
}

static struct engine_op_matmul without_residual(const void *args)
{
    struct engine_op_matmul m = *(const struct engine_op_matmul *)args;
    m.residual = NULL;
    return m;
}

static int false_supports(struct engine_device *device, uint32_t op, const void *args)
{
    const struct engine_op_matmul m =
        op == ENGINE_OP_MATMUL ? without_residual(args) : (struct engine_op_matmul){0};
    if (op == ENGINE_OP_MATMUL && ((const struct engine_op_matmul *)args)->struct_size > sizeof m)
        return supports(device, op, args);
    return op == ENGINE_OP_MATMUL && supports(device, op, &m);
}

static int false_enqueue(struct engine_stream *stream, uint32_t op, const void *args)
{
    if (!false_supports((struct engine_device *)stream, op, args)) return FAIL(UNSUPPORTED, "not supported");
    const struct engine_op_matmul m = without_residual(args);
    return enqueue(stream, op, &m);
}

static void never_destroy(struct engine_buffer *buffer)
{
    (void)buffer;
}

static int without_strides(struct engine_stream *stream, uint32_t op, const void *args)
{
    struct engine_tensor in, out;
    if (!supports((struct engine_device *)stream, op, args)) return enqueue(stream, op, args);
    struct engine_op_matmul m = *(const struct engine_op_matmul *)args;
    m.struct_size = sizeof m;
    in = *m.input, out = *m.output;
    in.nb[1] = 4 * in.ne[0], out.nb[1] = 4 * out.ne[0];
    m.input = &in, m.output = &out;
    return enqueue(stream, op, &m);
}

static int of_words(struct engine_device *device, uint32_t op, const void *args)
{
    return supports(device, op, args) && ((const struct engine_op_matmul *)args)->input->ne[0] % 32 == 0;
}

static int enqueue_words(struct engine_stream *stream, uint32_t op, const void *args)
{
    if (!of_words((struct engine_device *)stream, op, args)) return FAIL(UNSUPPORTED, "not supported");
    return enqueue(stream, op, args);
}

static void never_destroy_weight(struct engine_weight *weight)
{
    (void)weight;
}

static void destroy_values(struct engine_weight *weight)
{
    if (weight) free(((struct engine_buffer *)weight)->data);
}

/* Goes on until somebody ends it: as a process, whose id is then in the file that TEST_PID_FILE names. */
static void begin_process(void)
{
    const char *path = getenv("TEST_PID_FILE");
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        for (;;) pause();
    }
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%d\n%d\n", (int)pid, (int)getpid());
    fclose(file);
}

static int hang(struct engine_stream *stream, uint32_t op, const void *args)
{
    (void)stream, (void)op, (void)args;
    begin_process();
    return pause();
}

static int hang_open(uint32_t index, const struct engine_device_options *options,
                     struct engine_device **device)
{
    (void)index, (void)options, (void)device;
    return pause();
}

static void leave_process(struct engine_device *device)
{
    begin_process();
    device_close(device);
}

static void *go_on(void *nothing)
{
    for (;;) usleep(1000);
    return nothing;
}

static void leave_thread(struct engine_device *device)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, go_on, NULL) == 0) pthread_detach(thread);
    device_close(device);
}

static int crash(struct engine_device *device, const struct engine_weight_desc *desc,
                 struct engine_weight **weight)
{
    if (desc->type == ENGINE_TYPE_Q8_0) raise(SIGSEGV);
    return weight_create(device, desc, weight);
}

static int invariant_info(uint32_t index, struct engine_device_info *info)
{
    int status = device_info(index, info);
    if (status == ENGINE_OK &&
        info->struct_size >= offsetof(struct engine_device_info, flags) + sizeof info->flags)
        info->flags = ENGINE_DEVICE_BATCH_INVARIANT;
    return status;
}

/* Changes the last bit of the first value. */
static int round_otherwise(struct engine_stream *stream, uint32_t op, const void *args)
{
    const struct engine_op_matmul *m = args;
    int status = enqueue(stream, op, args);
    if (status == ENGINE_OK && m->input->ne[1] >= 5) m->output->buffer->data[m->output->offset] ^= 1;
    return status;
}

/* Adds to the results what lets them be wrong, if the weight has more than `k` values a row or `rows`
 * rows. */
static int spoil_large(struct engine_stream *stream, uint32_t op, const void *args, uint64_t k, uint64_t rows)
{
    const struct engine_op_matmul *m = args;
    int status = enqueue(stream, op, args);
    if (status != ENGINE_OK || (m->weight->ne[0] <= k && m->weight->ne[1] <= rows)) return status;
    char *last = m->output->buffer->data + m->output->offset + (m->weight->ne[1] - 1) * sizeof(float);
    memset(last, 0, sizeof(float));
    return status;
}

static int lose_long(struct engine_stream *stream, uint32_t op, const void *args)
{
    return spoil_large(stream, op, args, 4096, UINT64_MAX);
}

static int lose_tall(struct engine_stream *stream, uint32_t op, const void *args)
{
    return spoil_large(stream, op, args, UINT64_MAX, 1024);
}

static int lose_tallest(struct engine_stream *stream, uint32_t op, const void *args)
{
    return spoil_large(stream, op, args, UINT64_MAX, 30000);
}

static int lose_grid(struct engine_stream *stream, uint32_t op, const void *args)
{
    const struct engine_op_matmul *m = args;
    return spoil_large(stream, op, args, m->weight->type == ENGINE_TYPE_IQ2_XXS ? 0 : UINT64_MAX, UINT64_MAX);
}

/* Large weights, of which only those faults show that concern them, are not taken otherwise: it saves
 * time. */
static int small_weight_size(struct engine_device *device, const struct engine_weight_desc *desc,
                             uint64_t *bytes)
{
    if (desc->ne[0] * desc->ne[1] > (uint64_t)1 << 20) return ENGINE_ERROR_UNSUPPORTED;
    return weight_size(device, desc, bytes);
}

/* Allocated, and written, but never freed. */
static int keep(struct engine_stream *stream, uint32_t op, const void *args)
{
    static void *volatile kept;
    kept = malloc(4096);
    if (kept) memset(kept, 1, 4096);
    return enqueue(stream, op, args);
}

static int end(struct engine_stream *stream, uint32_t op, const void *args)
{
    (void)stream, (void)op, (void)args;
    exit(0);
}

ENGINE_EXPORT const struct engine_plugin *engine_plugin_entry(const struct engine_host *services)
{
    static struct engine_backend broken;
    static struct engine_plugin changed;
    changed = *sound_entry(services);
    broken = backend;
    if (BROKEN != TALLEST) broken.weight_size = small_weight_size;
    switch ((enum fault)BROKEN) {
    case LAST_TOKEN: broken.enqueue = long_batches_lack_a_token; break;
    case INPUT: broken.enqueue = spoil_input; break;
    case LATE_WRITE:
        broken.write = late_write;
        broken.read = late_read;
        broken.copy = late_copy;
        broken.enqueue = late_enqueue;
        broken.stream_wait = late_wait;
        break;
    case FALSE_CLAIM:
        broken.supports = false_supports;
        broken.enqueue = false_enqueue;
        break;
    case STRIDES: broken.enqueue = without_strides; break;
    case LEAK_WEIGHT: broken.weight_destroy = never_destroy_weight; break;
    case LEAK_HANDLE: broken.weight_destroy = destroy_values; break;
    case HANG: broken.enqueue = hang; break;
    case HANG_OPEN: broken.device_open = hang_open; break;
    case PROCESS: broken.device_close = leave_process; break;
    case PART:
        broken.supports = of_words;
        broken.enqueue = enqueue_words;
        break;
    case THREAD: broken.device_close = leave_thread; break;
    case LEAK: broken.buffer_destroy = never_destroy; break;
    case CRASH: broken.weight_create = crash; break;
    case LONG: broken.enqueue = lose_long; break;
    case TALL: broken.enqueue = lose_tall; break;
    case TALLEST: broken.enqueue = lose_tallest; break;
    case GRID: broken.enqueue = lose_grid; break;
    case KEEPS: broken.enqueue = keep; break;
    case BATCHES:
        broken.device_info = invariant_info;
        broken.enqueue = round_otherwise;
        break;
    case END: broken.enqueue = end; break;
    }
    changed.name = "broken";
    changed.backend = &broken;
    return &changed;
}
