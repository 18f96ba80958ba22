/* knows-1.0.c: says of every operation of 1.0 whether it could be run, by the rules of the frozen header
 * alone, which it is compiled from; runs none but the example's. test-claims.c asks it. */
#define engine_plugin_entry example_entry
#include "../../examples/backend-minimal/minimal.c"
#undef engine_plugin_entry

#include <stdbool.h>

static bool same_shape(const struct engine_tensor *a, const struct engine_tensor *b)
{
    return memcmp(a->ne, b->ne, sizeof a->ne) == 0;
}

static bool binary_fits(const struct engine_op_binary *m)
{
    return same_shape(m->a, m->output) &&
           (same_shape(m->a, m->b) ||
            (m->b->ne[0] == m->a->ne[0] && m->b->ne[1] * m->b->ne[2] * m->b->ne[3] == 1));
}

static bool attention_fits(const struct engine_op_attention *m)
{
    return same_shape(m->k, m->v) && same_shape(m->q, m->output) && m->q->ne[0] == m->k->ne[0];
}

static bool matmul_fits(const struct engine_op_matmul *m)
{
    return m->activation <= ENGINE_ACTIVATION_SILU && m->weight->ne[2] == 1 && m->input->ne[2] == 1 &&
           m->output->ne[2] == 1 && (!m->bias || m->bias->ne[1] == 1);
}

static size_t known_size(uint32_t op)
{
    static const size_t sizes[] = {
        [ENGINE_OP_MATMUL] = sizeof(struct engine_op_matmul),
        [ENGINE_OP_ATTENTION] = sizeof(struct engine_op_attention),
        [ENGINE_OP_CACHE_WRITE] = sizeof(struct engine_op_cache_write),
        [ENGINE_OP_ROPE] = sizeof(struct engine_op_rope),
        [ENGINE_OP_NORM] = sizeof(struct engine_op_norm),
        [ENGINE_OP_GET_ROWS] = sizeof(struct engine_op_get_rows),
        [ENGINE_OP_ADD] = sizeof(struct engine_op_binary),
        [ENGINE_OP_MUL] = sizeof(struct engine_op_binary),
        [ENGINE_OP_ACTIVATE] = sizeof(struct engine_op_activate),
    };
    return op < sizeof sizes / sizeof *sizes ? sizes[op] : 0;
}

static int knows(struct engine_device *device, uint32_t op, const void *args)
{
    const size_t known = known_size(op), size = *(const size_t *)args;
    (void)device;
    if (known == 0) return 0;
    for (size_t i = known; i < size; i++)
        if (((const char *)args)[i]) return 0;
    switch (op) {
    case ENGINE_OP_MATMUL: return matmul_fits(args);
    case ENGINE_OP_ATTENTION: return attention_fits(args);
    case ENGINE_OP_NORM: return ((const struct engine_op_norm *)args)->kind == ENGINE_NORM_RMS;
    case ENGINE_OP_ADD:
    case ENGINE_OP_MUL: return binary_fits(args);
    case ENGINE_OP_ACTIVATE:
        return ((const struct engine_op_activate *)args)->activation <= ENGINE_ACTIVATION_SILU;
    default: return 1;
    }
}

ENGINE_EXPORT const struct engine_plugin *engine_plugin_entry(const struct engine_host *services)
{
    static struct engine_plugin known;
    static struct engine_backend asked;
    known = *example_entry(services);
    asked = backend;
    asked.supports = knows;
    known.backend = &asked;
    known.name = "knows";
    return &known;
}
