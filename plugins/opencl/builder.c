/* builder.c: see builder.h. */
#include "builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/assert.h"

#define ITEMS_EACH 4 /* work-items of element-wise kernels for each of a processor's units */

uint32_t add_memory(struct builder *builder, cl_mem memory)
{
    ENGINE_ASSERT(builder->launch.n_memories < MAX_MEMORIES);
    builder->launch.memories[builder->launch.n_memories++] = memory;
    return 0;
}

void add_scratch(struct builder *builder, uint64_t size)
{
    builder->launch.scratch_size = size;
    builder->launch.scratch |= 1u << builder->launch.n_memories;
    add_memory(builder, NULL);
}

uint32_t add_view(struct builder *builder, const struct gpu_view *view)
{
    ENGINE_ASSERT(view->offset % 4 == 0); /* kernels count words */
    add_memory(builder, view->buffer->memory);
    return (uint32_t)(view->offset / 4);
}

uint32_t add_values(struct builder *builder, const struct gpu_view *view)
{
    if (!view->present) return add_memory(builder, NULL);
    return view->weight ? add_memory(builder, view->weight->parts[0].memory) : add_view(builder, view);
}

uint32_t stride(const struct gpu_view *view, int dimension)
{
    return view->ne[dimension] == 1 ? 0 : (uint32_t)(view->nb[dimension] / 4);
}

struct shape shape_of(const struct gpu_view *view)
{
    return (struct shape){(uint32_t)view->ne[0], (uint32_t)view->ne[1], (uint32_t)view->ne[2]};
}

struct rows_view rows_view(uint32_t offset, const struct gpu_view *view)
{
    return (struct rows_view){offset, stride(view, 1), stride(view, 2)};
}

void set_parameters(struct builder *builder, const void *parameters, size_t size)
{
    ENGINE_ASSERT(size <= sizeof builder->launch.parameters);
    memcpy(builder->launch.parameters, parameters, size);
    builder->launch.parameters_size = (uint32_t)size;
}

int get_kernel(struct builder *builder, enum source source, const char *options, const char *name,
               size_t group_size)
{
    return kernel_get(builder->device, source, options, name, group_size, &builder->launch.kernel);
}

int get_group_kernel(struct builder *builder, enum source source, const char *name)
{
    char options[32];
    snprintf(options, sizeof options, "-DGROUP=%u", GROUP);
    return get_kernel(builder, source, options, name, builder->device->vectors ? 1 : GROUP);
}

void set_size(struct builder *builder, uint32_t n_dimensions, size_t groups0, size_t groups1, size_t group0,
              size_t group1)
{
    struct launch *launch = &builder->launch;
    ENGINE_ASSERT((n_dimensions == 1 && groups1 * group1 == 1) || n_dimensions == 2);
    ENGINE_ASSERT(group0 > 0 && group1 > 0);
    launch->n_dimensions = n_dimensions;
    launch->group[0] = group0, launch->group[1] = group1;
    launch->global[0] = groups0 * group0, launch->global[1] = groups1 * group1;
}

void spread(struct builder *builder, uint64_t items)
{
    const struct engine_device *device = builder->device;
    uint64_t most = device->vectors ? (uint64_t)device->listed->units * ITEMS_EACH : (uint64_t)1 << 20;
    uint64_t group = device->vectors ? 1 : GROUP, groups = (items + group - 1) / group;
    set_size(builder, 1, (size_t)(groups < most ? groups : most), 1, (size_t)group, 1);
}

int finish(struct builder *builder)
{
    struct launches *recording = builder->recording;
    if (!recording) return launch_run(builder->device, &builder->launch);
    if (!ARRAY_RESERVE(recording->items, recording->room, recording->count + 1))
        return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (recording)");
    recording->items[recording->count++] = builder->launch;
    return ENGINE_OK;
}

struct builder another(const struct builder *builder)
{
    return (struct builder){.device = builder->device, .recording = builder->recording};
}
