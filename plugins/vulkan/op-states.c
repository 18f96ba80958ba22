/* op-states.c: operations that keep a state for each sequence: causal convolution and the linear
 * recurrence. */
#include "builder.h"

#define SCAN_LANES   128 /* invocations of a workgroup, */
#define SCAN_COLUMNS 16  /* and the values of a head that it takes */

/* The use of decay in shaders/scan.comp. */
enum { DECAY_ABSENT, DECAY_OF_HEADS, DECAY_OF_KEYS, DECAY_WITH_RATES };

/* Adds one of the two dispatches of a convolution. */
static int conv_dispatch(struct builder *builder, const struct gpu_call *call, bool keep)
{
    const struct gpu_view *v = call->views, *input = &v[OPERAND(conv, input)];
    builder->dispatch.key.shader = SHADER_CONV;
    builder->dispatch.key.constants[1] = keep;
    struct conv_parameters p = {.n = (uint32_t)input->ne[0],
                                .n_tokens = (uint32_t)input->ne[1],
                                .taps = (uint32_t)v[OPERAND(conv, weight)].ne[0]};
    BIND_ROWS(builder, 0, input, ACCESS_READ, p, input);
    BIND_ROWS(builder, 5, &v[OPERAND(conv, output)], ACCESS_WRITE, p,
              output); /* as far as validation can tell */
    bind_values(builder, 1, &v[OPERAND(conv, weight)]);
    p.positions_offset = bind_view(builder, 2, &v[OPERAND(conv, positions)], ACCESS_READ);
    p.states_offset = bind_view(builder, 3, &v[OPERAND(conv, states)], ACCESS_READ);
    p.state_offset =
        bind_view(builder, 4, &v[OPERAND(conv, state)], keep ? ACCESS_READ | ACCESS_WRITE : ACCESS_READ);
    SET_PARAMETERS(builder, p);
    spread(builder, input->ne[0] * input->ne[1]);
    return add(builder);
}

int op_conv(struct builder *builder, const struct gpu_call *call)
{
    struct builder second = {.device = builder->device, .commands = builder->commands};
    int status = conv_dispatch(builder, call, false);
    return status ? status : conv_dispatch(&second, call, true);
}

int op_scan(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *q = &v[OPERAND(scan, q)], *values = &v[OPERAND(scan, v)];
    const struct gpu_view *decay = &v[OPERAND(scan, decay)], *rates = &v[OPERAND(scan, rates)];
    uint64_t value_dim = values->ne[0], n_heads = values->ne[1];
    builder->dispatch.key = (struct pipeline_key){
        .shader = SHADER_SCAN,
        .constants = {SCAN_LANES, (uint32_t)q->ne[0], (uint32_t)value_dim, (uint32_t)(n_heads / q->ne[1]),
                      !decay->present     ? DECAY_ABSENT
                      : rates->present    ? DECAY_WITH_RATES
                      : decay->ne[0] == 1 ? DECAY_OF_HEADS
                                          : DECAY_OF_KEYS,
                      v[OPERAND(scan, a)].present, v[OPERAND(scan, erase)].present,
                      v[OPERAND(scan, bonus)].present}};
    struct scan_parameters p = {.n_tokens = (uint32_t)q->ne[2],
                                .scale = call->args.scan.scale == 0 ? 1 : call->args.scan.scale};
    BIND_ROWS(builder, 0, q, ACCESS_READ, p, q);
    BIND_ROWS(builder, 1, &v[OPERAND(scan, k)], ACCESS_READ, p, k);
    BIND_ROWS(builder, 2, values, ACCESS_READ, p, v);
    BIND_ROWS(builder, 6, &v[OPERAND(scan, output)], ACCESS_WRITE, p, output);
    p.positions_offset = bind_view(builder, 3, &v[OPERAND(scan, positions)], ACCESS_READ);
    p.states_offset = bind_view(builder, 4, &v[OPERAND(scan, states)], ACCESS_READ);
    p.state_offset = bind_view(builder, 5, &v[OPERAND(scan, state)], ACCESS_READ | ACCESS_WRITE);
    if (decay->present) BIND_ROWS(builder, 7, decay, ACCESS_READ, p, decay);
    if (v[OPERAND(scan, a)].present) BIND_ROWS(builder, 9, &v[OPERAND(scan, a)], ACCESS_READ, p, a);
    if (v[OPERAND(scan, b)].present) BIND_ROWS(builder, 10, &v[OPERAND(scan, b)], ACCESS_READ, p, b);
    if (v[OPERAND(scan, erase)].present)
        BIND_ROWS(builder, 11, &v[OPERAND(scan, erase)], ACCESS_READ, p, erase);
    SET_PARAMETERS(builder, p);
    if (rates->present) bind_values(builder, 8, rates);
    if (v[OPERAND(scan, bonus)].present) bind_values(builder, 12, &v[OPERAND(scan, bonus)]);
    uint64_t groups = (value_dim + SCAN_COLUMNS - 1) / SCAN_COLUMNS;
    if (groups > builder->device->max_groups[0] || n_heads > builder->device->max_groups[1])
        return vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED, "scan: too many heads or values");
    builder->dispatch.groups[0] = (uint32_t)groups;
    builder->dispatch.groups[1] = (uint32_t)n_heads;
    return add(builder);
}
