/* builder.c: see builder.h. */
#include "builder.h"

#define ROW_LANES 64 /* invocations of a workgroup of element-wise operations */

void bind_range(struct builder *builder, int number, const struct memory_range *range, uint64_t offset,
                uint64_t size, unsigned access)
{
    ENGINE_ASSERT(number >= 0 && number < MAX_BINDINGS);
    ENGINE_ASSERT(offset + size <= range->size);
    builder->dispatch.bindings[number] =
        (struct binding){memory_buffer(range), range->offset + offset, size, access, memory_address(range)};
}

uint32_t bind_view(struct builder *builder, int number, const struct gpu_view *view, unsigned access)
{
    uint64_t start = view->offset & ~(uint64_t)255, end = (view->offset + view->bytes + 15) & ~(uint64_t)15;
    bind_range(builder, number, &view->buffer->range, start, end - start, access);
    return (uint32_t)((view->offset - start) / 4);
}

uint32_t stride(const struct gpu_view *view, int dimension)
{
    return view->ne[dimension] == 1 ? 0 : (uint32_t)(view->nb[dimension] / 4);
}

uint32_t bind_values(struct builder *builder, int number, const struct gpu_view *view)
{
    if (!view->weight) return bind_view(builder, number, view, ACCESS_READ);
    bind_range(builder, number, &view->weight->range, 0, memory_size(view->ne[0] * view->ne[1] * 4),
               ACCESS_CONSTANT);
    return 0;
}

void set_shape(struct builder *builder, const struct gpu_view *view)
{
    for (int i = 0; i < 3; i++) builder->dispatch.shape[i] = (uint32_t)view->ne[i];
}

uint32_t least(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

void spread(struct builder *builder, uint64_t n)
{
    builder->dispatch.key.constants[0] = ROW_LANES;
    builder->dispatch.groups[0] = least((n + ROW_LANES - 1) / ROW_LANES, builder->device->max_groups[0]);
    builder->dispatch.groups[1] = 1;
}

int add(struct builder *builder)
{
    return commands_dispatch(builder->commands, &builder->dispatch);
}

uint64_t panels_in_part(const struct engine_device *device, const struct engine_weight *weight)
{
    uint64_t panels = device->max_range / weight->panel_size;
    uint64_t most = device->max_groups[0] / MAX_PARTS;
    if (panels > most && !weight->matrix_panels) panels = most;
    if (panels >= weight->n_panels) return weight->n_panels;
    return panels & ~(uint64_t)1;
}

void bind_panels(struct builder *builder, int number, const struct engine_weight *weight, uint64_t first,
                 uint64_t count)
{
    ENGINE_ASSERT(first + count <= weight->n_panels);
    bind_range(builder, number, &weight->range, first * weight->panel_size, count * weight->panel_size,
               ACCESS_CONSTANT);
    if (weight->scale_size)
        bind_range(builder, number + 1, &weight->range,
                   weight->n_panels * weight->panel_size + first * weight->scale_size,
                   count * weight->scale_size, ACCESS_CONSTANT);
}
