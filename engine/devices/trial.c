/* trial.c: see trial.h. */
#include "devices/trial.h"

#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "model/types.h"

#define SECONDS 0.001 /* minimum time of a round */

/* Everything that one device needs for the measurement. */
struct trial {
    const struct engine_backend *backend;
    struct engine_weight *weight;
    struct engine_buffer *input, *output;
    struct engine_stream *stream;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Runs a matmul `count` times and waits; 0 or a status. */
static int repeat(const struct trial *trial, const struct engine_op_matmul *args, uint64_t count)
{
    int status = ENGINE_OK;
    for (uint64_t i = 0; i < count && !status; i++)
        status = trial->backend->enqueue(trial->stream, ENGINE_OP_MATMUL, args);
    return status ? status : trial->backend->stream_wait(trial->stream);
}

/* The number of matmuls in a round is found by doubling it. */
static int run(const struct trial *trial, const struct engine_op_matmul *args, int n_rounds, double *least)
{
    uint64_t count = 1;
    int status = repeat(trial, args, 1); /* compiles kernels, allocates memory */
    *least = 0;
    for (int round = 0; !status && round < n_rounds;) {
        double start = now();
        status = repeat(trial, args, count);
        double seconds = now() - start;
        if (seconds < SECONDS) {
            count *= 2;
            continue;
        }
        seconds /= (double)count;
        if (round == 0 || seconds < *least) *least = seconds;
        round++;
    }
    return status;
}

uint64_t trial_bytes(const struct trial_shape *shape)
{
    const struct type_info *info = type_info(shape->type);
    return shape->k / info->block_length * info->block_size * shape->rows;
}

/* Weights of zeros are as slow as any others. */
int trial_product(const struct open_device *device, const struct trial_shape *shape, int n_rounds,
                  double *seconds)
{
    struct trial trial = {.backend = device->backend};
    const struct type_info *info = type_info(shape->type);
    const uint64_t k = shape->k, rows = shape->rows, columns = shape->columns;
    uint64_t row_bytes = k / info->block_length * info->block_size;
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "speed",
                                      .type = shape->type,
                                      .type_name = info->name,
                                      .ne = {k, rows, 1, 1},
                                      .uses = ENGINE_WEIGHT_MATMUL,
                                      .data_size = row_bytes * rows};
    struct engine_tensor weight = {.struct_size = sizeof weight,
                                   .type = shape->type,
                                   .ne = {k, rows, 1, 1},
                                   .nb = {info->block_size, row_bytes, row_bytes * rows, row_bytes * rows}};
    struct engine_tensor input = {.struct_size = sizeof input,
                                  .type = ENGINE_TYPE_F32,
                                  .ne = {k, columns, 1, 1},
                                  .nb = {4, 4 * k, 4 * k * columns, 4 * k * columns}};
    struct engine_tensor output = {.struct_size = sizeof output,
                                   .type = ENGINE_TYPE_F32,
                                   .ne = {rows, columns, 1, 1},
                                   .nb = {4, 4 * rows, 4 * rows * columns, 4 * rows * columns}};
    struct engine_op_matmul args = {
        .struct_size = sizeof args, .weight = &weight, .input = &input, .output = &output};
    if (device->backend->supports(device->handle, ENGINE_OP_MATMUL, &args) != 1)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "it supports no matmul of %s", info->name);
    void *data = calloc(1, desc.data_size);
    desc.data = data;
    int status = data ? ENGINE_OK : error_memory("trial");
    if (!status) status = trial.backend->weight_create(device->handle, &desc, &trial.weight);
    if (!status) status = trial.backend->buffer_create(device->handle, 4 * k * columns, &trial.input);
    if (!status) status = trial.backend->buffer_create(device->handle, 4 * rows * columns, &trial.output);
    if (!status) status = trial.backend->stream_create(device->handle, &trial.stream);
    weight.weight = trial.weight;
    input.buffer = trial.input;
    output.buffer = trial.output;
    if (!status) status = run(&trial, &args, n_rounds, seconds);
    if (trial.stream) trial.backend->stream_destroy(trial.stream);
    trial.backend->buffer_destroy(trial.output);
    trial.backend->buffer_destroy(trial.input);
    trial.backend->weight_destroy(trial.weight);
    free(data);
    return status;
}
