/* op-states.c: operations that keep a state for each sequence: causal convolution and the linear
 * recurrence. */
#include <stdio.h>

#include "builder.h"

#define SCAN_COLUMNS 16 /* values of a head that a group of kernels/states.cl takes, */
#define SCAN_PARTS   8  /* and the work-items that share each of them on a GPU */

/* What both kernels of a convolution take. */
struct conv_parameters {
    uint32_t n, n_tokens, taps;
    struct rows_view input, output;
    uint32_t positions_offset, states_offset, state_offset;
};

static int conv_launch(struct builder *builder, const char *name, struct conv_parameters *p)
{
    uint64_t lanes = builder->device->vectors ? 16 : 1;
    set_parameters(builder, p, sizeof *p);
    spread(builder, (p->n + lanes - 1) / lanes * p->n_tokens);
    int status = get_group_kernel(builder, SOURCE_STATES, name);
    return status ? status : finish(builder);
}

int conv(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *input = &v[OPERAND(conv, input)],
                          *output = &v[OPERAND(conv, output)];
    struct builder second = another(builder);
    struct conv_parameters p = {.n = (uint32_t)input->ne[0],
                                .n_tokens = (uint32_t)input->ne[1],
                                .taps = (uint32_t)v[OPERAND(conv, weight)].ne[0]};
    p.input = rows_view(add_view(builder, input), input);
    add_values(builder, &v[OPERAND(conv, weight)]);
    p.positions_offset = add_view(builder, &v[OPERAND(conv, positions)]);
    p.states_offset = add_view(builder, &v[OPERAND(conv, states)]);
    p.state_offset = add_view(builder, &v[OPERAND(conv, state)]);
    p.output = rows_view(add_view(builder, output), output);
    int status = conv_launch(builder, "conv", &p);
    if (status) return status;
    add_view(&second, input);
    add_view(&second, &v[OPERAND(conv, positions)]);
    add_view(&second, &v[OPERAND(conv, states)]);
    add_view(&second, &v[OPERAND(conv, state)]);
    return conv_launch(&second, "keep_inputs", &p);
}

/* The use of decay in kernels/states.cl. */
enum { DECAY_ABSENT, DECAY_OF_HEADS, DECAY_OF_KEYS, DECAY_WITH_RATES };

static struct rows_view optional_view(struct builder *builder, const struct gpu_view *view)
{
    if (view->present) return rows_view(add_view(builder, view), view);
    return (struct rows_view){add_memory(builder, NULL), 0, 0};
}

int scan(struct builder *builder, const struct gpu_call *call)
{
    const struct gpu_view *v = call->views, *q = &v[OPERAND(scan, q)], *values = &v[OPERAND(scan, v)];
    const struct gpu_view *decay = &v[OPERAND(scan, decay)], *rates = &v[OPERAND(scan, rates)];
    uint64_t value_dim = values->ne[0], n_heads = values->ne[1];
    unsigned use = !decay->present     ? DECAY_ABSENT
                   : rates->present    ? DECAY_WITH_RATES
                   : decay->ne[0] == 1 ? DECAY_OF_HEADS
                                       : DECAY_OF_KEYS;
    size_t group = builder->device->vectors ? 1 : SCAN_COLUMNS * SCAN_PARTS;
    char options[160];
    snprintf(
        options, sizeof options,
        "-DKEY_DIM=%u -DVALUE_DIM=%u -DHEADS_IN_GROUP=%u -DDECAY=%u -DHAS_A=%d -DHAS_ERASE=%d -DHAS_BONUS=%d",
        (unsigned)q->ne[0], (unsigned)value_dim, (unsigned)(n_heads / q->ne[1]), use,
        v[OPERAND(scan, a)].present, v[OPERAND(scan, erase)].present, v[OPERAND(scan, bonus)].present);
    int status = get_kernel(builder, SOURCE_STATES, options, "scan", group);
    if (status) return status;
    struct {
        uint32_t n_tokens;
        struct rows_view q, k, v, decay, a, b, erase, output;
        uint32_t positions_offset, states_offset, state_offset;
        float scale;
    } p = {.n_tokens = (uint32_t)q->ne[2], .scale = call->args.scan.scale == 0 ? 1 : call->args.scan.scale};
    p.q = rows_view(add_view(builder, q), q);
    p.k = rows_view(add_view(builder, &v[OPERAND(scan, k)]), &v[OPERAND(scan, k)]);
    p.v = rows_view(add_view(builder, values), values);
    p.decay = optional_view(builder, decay);
    add_values(builder, rates);
    p.a = optional_view(builder, &v[OPERAND(scan, a)]);
    p.b = optional_view(builder, &v[OPERAND(scan, b)]);
    p.erase = optional_view(builder, &v[OPERAND(scan, erase)]);
    add_values(builder, &v[OPERAND(scan, bonus)]);
    p.positions_offset = add_view(builder, &v[OPERAND(scan, positions)]);
    p.states_offset = add_view(builder, &v[OPERAND(scan, states)]);
    p.state_offset = add_view(builder, &v[OPERAND(scan, state)]);
    p.output = rows_view(add_view(builder, &v[OPERAND(scan, output)]), &v[OPERAND(scan, output)]);
    set_parameters(builder, &p, sizeof p);
    set_size(builder, 2, (size_t)((value_dim + SCAN_COLUMNS - 1) / SCAN_COLUMNS), (size_t)n_heads, group, 1);
    return finish(builder);
}
