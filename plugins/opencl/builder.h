/* builder.h: puts launches together: their memories, parameters and sizes. The parameter structs of
 * operations match those of the kernels' sources word for word. */
#ifndef OPENCL_BUILDER_H
#define OPENCL_BUILDER_H

#include "launch.h"

#define GROUP 64u /* work-items of a group: rows, norms, attention */

/* A launch under construction. */
struct builder {
    struct engine_device *device;
    struct launches *recording;
    struct launch launch;
};

/* For another launch of the same operation. */
struct builder another(const struct builder *builder);

/* Adds an argument; NULL: one that isn't used. Returns 0, its first word. */
uint32_t add_memory(struct builder *builder, cl_mem memory);
/* Adds the scratch memory; the operation takes `size` bytes of it in all. */
void add_scratch(struct builder *builder, uint64_t size);
/* Adds a tensor in a buffer. Returns its first word. */
uint32_t add_view(struct builder *builder, const struct gpu_view *view);
/* Adds plain values: a weight, a row of an activation, or nothing. Returns their first word. */
uint32_t add_values(struct builder *builder, const struct gpu_view *view);

/* The stride of a dimension in words; 0 if it has just one element. */
uint32_t stride(const struct gpu_view *view, int dimension);

struct shape {
    uint32_t n, n1, n2;
};

struct rows_view {
    uint32_t offset, stride1, stride2;
};

struct shape shape_of(const struct gpu_view *view);
struct rows_view rows_view(uint32_t offset, const struct gpu_view *view);

void set_parameters(struct builder *builder, const void *parameters, size_t size);
void set_size(struct builder *builder, uint32_t n_dimensions, size_t groups0, size_t groups1, size_t group0,
              size_t group1);
/* Work-items for `items`; if there are fewer, element-wise kernels loop with a stride. */
void spread(struct builder *builder, uint64_t items);

int get_kernel(struct builder *builder, enum source source, const char *options, const char *name,
               size_t group_size);
/* Kernels that are written for groups of GROUP, and for groups of one work-item with vectors. */
int get_group_kernel(struct builder *builder, enum source source, const char *name);

/* Runs the launch or keeps it. */
int finish(struct builder *builder);

/* ---- Operations, by file ------------------------------------------------------------------------------- */

/* op-matmul.c */
int matmul(struct builder *builder, const struct gpu_call *call);
/* The scratch memory that it takes. */
uint64_t matmul_memory(const struct engine_device *device, const struct gpu_call *call);

/* op-attention.c */
int attention(struct builder *builder, const struct gpu_call *call);
/* The scratch memory that it takes. */
uint64_t attention_memory(const struct engine_device *device, const struct gpu_call *call);
int cache_write(struct builder *builder, const struct gpu_call *call);

/* op-rows.c */
int rope(struct builder *builder, const struct gpu_call *call);
int norm(struct builder *builder, const struct gpu_call *call);
/* Sums, products, activations, rows that are joined. */
int element_wise(struct builder *builder, const struct gpu_call *call);
int get_rows(struct builder *builder, const struct gpu_call *call);
int route(struct builder *builder, const struct gpu_call *call);

/* op-states.c */
int conv(struct builder *builder, const struct gpu_call *call);
int scan(struct builder *builder, const struct gpu_call *call);

#endif
