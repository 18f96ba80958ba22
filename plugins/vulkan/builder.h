/* builder.h: assembles a dispatch. Operations fill the parameters of a shader, and bind the memory that it
 * reads and writes. */
#ifndef VULKAN_BUILDER_H
#define VULKAN_BUILDER_H

#include <string.h>
#include <sys/types.h>

#include "commands.h"
#include "common/assert.h"

/* The structs of the shaders' parameters. */
#define PARAMETERS_OF_C
#include "shaders/parameters.glsl"

#define PANEL_ROWS 32 /* rows in a panel of a weight */
#define MAX_PARTS  4  /* workgroups for a panel, see struct matmul_form */

struct builder {
    struct engine_device *device;
    struct commands *commands;
    struct dispatch dispatch;
};

/* What the table of times says of the dispatch: a tensor's dimensions. */
void set_shape(struct builder *builder, const struct gpu_view *view);

/* Sets the parameters of the dispatch: a struct of parameters.glsl. */
#define SET_PARAMETERS(builder, parameters)                                                                  \
    do {                                                                                                     \
        _Static_assert(sizeof(parameters) <= MAX_PUSH, "more parameters than can be pushed");                \
        memcpy((builder)->dispatch.push, &(parameters), sizeof(parameters));                                 \
    } while (0)

void bind_range(struct builder *builder, int number, const struct memory_range *range, uint64_t offset,
                uint64_t size, unsigned access);
/* Binds a tensor in a buffer. Returns its first word in the binding. */
uint32_t bind_view(struct builder *builder, int number, const struct gpu_view *view, unsigned access);
/* The stride of a dimension in words; 0 if it has just one element. */
uint32_t stride(const struct gpu_view *view, int dimension);
/* Binds a tensor, and sets the parameters that are its offset and strides: `name` begins theirs. */
#define BIND_ROWS(builder, number, view, access, parameters, name)                                           \
    do {                                                                                                     \
        (parameters).name##_offset = bind_view(builder, number, view, access);                               \
        (parameters).name##_stride1 = stride(view, 1);                                                       \
        (parameters).name##_stride2 = stride(view, 2);                                                       \
    } while (0)
/* Binds plain values: a weight or an activation. Returns their first word in the binding. */
uint32_t bind_values(struct builder *builder, int number, const struct gpu_view *view);

uint32_t least(uint64_t a, uint32_t b);
/* Workgroups for `n` elements; beyond the device's limit kernels loop with a stride. */
void spread(struct builder *builder, uint64_t n);
int add(struct builder *builder);

/* Panels of a weight that can be bound at once: an even number, so that parts begin at valid binding
 * offsets. */
uint64_t panels_in_part(const struct engine_device *device, const struct engine_weight *weight);
/* Binds panels first … first+count-1 as bindings number (values) and number+1 (scales). */
void bind_panels(struct builder *builder, int number, const struct engine_weight *weight, uint64_t first,
                 uint64_t count);

/* op-attention.c */
int op_attention(struct builder *builder, const struct gpu_call *call);
/* The scratch memory that it takes. */
uint64_t op_attention_scratch(const struct engine_device *device, const struct gpu_call *call);

/* op-matmul.c */
int op_matmul(struct builder *builder, const struct gpu_call *call);
/* The scratch memory that it takes. */
uint64_t op_matmul_scratch(const struct engine_device *device, const struct gpu_call *call);

/* op-states.c */
int op_conv(struct builder *builder, const struct gpu_call *call);
int op_scan(struct builder *builder, const struct gpu_call *call);

#endif
