/* broken.c: the example backend with one fault, chosen by BROKEN, each of which the conformance suite has to find. */
#define engine_plugin_entry sound_entry
#include "../../examples/backend-minimal/minimal.c"
#undef engine_plugin_entry

#include <signal.h>

enum fault {
    LAST_TOKEN,  /* the last token of a long batch is left out */
    INPUT,       /* uses the input's room for what it works out */
    LATE_WRITE,  /* reads what is written later, when the caller may have reused it */
    FALSE_CLAIM, /* claims to add residuals, and doesn't */
    LEAK,        /* gives no buffer back */
    CRASH,       /* on weights in Q8_0 */
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

static int crash(struct engine_device *device, const struct engine_weight_desc *desc,
                 struct engine_weight **weight)
{
    if (desc->type == ENGINE_TYPE_Q8_0) raise(SIGSEGV);
    return weight_create(device, desc, weight);
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
    case LEAK: broken.buffer_destroy = never_destroy; break;
    case CRASH: broken.weight_create = crash; break;
    case END: broken.enqueue = end; break;
    }
    changed.name = "broken";
    changed.backend = &broken;
    return &changed;
}
