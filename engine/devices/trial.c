/* trial.c: see trial.h. */
#include "devices/trial.h"

#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "model/types.h"

/* Everything that one device needs for the measurement. */
struct trial {
    const struct engine_backend *backend;
    struct engine_weight **weights; /* [n_weights] */
    struct engine_tensor weight;    /* that of `args` */
    uint64_t n_weights;
    struct engine_buffer *input, *output;
    struct engine_stream *stream;
    struct engine_op_matmul args;
    struct engine_recording *recording; /* of a product with each weight; NULL: the backend has none */
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int multiply(struct trial *trial)
{
    int status = ENGINE_OK;
    for (uint64_t i = 0; i < trial->n_weights && !status; i++) {
        trial->weight.weight = trial->weights[i];
        status = trial->backend->enqueue(trial->stream, ENGINE_OP_MATMUL, &trial->args);
    }
    return status;
}

/* As graphs are run: recorded, where that is possible. */
static int record(struct trial *trial)
{
    const struct engine_backend *backend = trial->backend;
    if (!ENGINE_HAS(backend, recording_destroy) || !backend->record_begin || !backend->record_end ||
        !backend->replay || !backend->recording_destroy)
        return ENGINE_OK;
    int status = backend->record_begin(trial->stream);
    if (status) return status;
    status = multiply(trial);
    int ended = backend->record_end(trial->stream, &trial->recording);
    return status ? status : ended;
}

/* Runs all products `count` times and waits; 0 or a status. */
static int repeat(struct trial *trial, uint64_t count)
{
    int status = ENGINE_OK;
    for (uint64_t i = 0; i < count && !status; i++)
        status = trial->recording ? trial->backend->replay(trial->stream, trial->recording) : multiply(trial);
    return status ? status : trial->backend->stream_wait(trial->stream);
}

static int compare(const void *one, const void *other)
{
    const double *a = one, *b = other;
    return (*a > *b) - (*a < *b);
}

/* How often all products run in a round is found by doubling it. Fills rounds[n], ascending. */
static int run(struct trial *trial, double least, double *rounds, int n)
{
    uint64_t count = 1;
    int status = repeat(trial, 1); /* compiles kernels, allocates memory */
    for (int round = 0; !status && round < n;) {
        double start = now();
        status = repeat(trial, count);
        double seconds = now() - start;
        if (seconds < least)
            count *= 2;
        else
            rounds[round++] = seconds / (double)(count * trial->n_weights);
    }
    qsort(rounds, (size_t)n, sizeof *rounds, compare);
    return status;
}

uint64_t trial_bytes(const struct trial_shape *shape)
{
    const struct type_info *info = type_info(shape->type);
    return shape->k / info->block_length * info->block_size * shape->rows;
}

/* Weights of zeros are as slow as any others. */
static int create_weights(struct trial *trial, const struct open_device *device,
                          const struct engine_weight_desc *given)
{
    struct engine_weight_desc desc = *given;
    void *data = calloc(1, desc.data_size);
    int status = data ? ENGINE_OK : error_memory("trial");
    desc.data = data;
    for (uint64_t i = 0; i < trial->n_weights && !status; i++)
        status = trial->backend->weight_create(device->handle, &desc, &trial->weights[i]);
    free(data);
    return status;
}

static void destroy(struct trial *trial)
{
    const struct engine_backend *backend = trial->backend;
    if (trial->recording) backend->recording_destroy(trial->recording);
    if (trial->stream) backend->stream_destroy(trial->stream);
    backend->buffer_destroy(trial->output);
    backend->buffer_destroy(trial->input);
    for (uint64_t i = 0; i < trial->n_weights && trial->weights; i++)
        backend->weight_destroy(trial->weights[i]);
    free(trial->weights);
}

int trial_product(const struct open_device *device, const struct trial_shape *shape, double least,
                  double *fastest, double *typical)
{
    double rounds[TRIAL_ROUNDS] = {0};
    const int n_rounds = typical ? TRIAL_ROUNDS : 5;
    struct trial trial = {.backend = device->backend, .n_weights = shape->n_weights};
    const struct type_info *info = type_info(shape->type);
    const uint64_t k = shape->k, rows = shape->rows, columns = shape->columns;
    uint64_t row_bytes = k / info->block_length * info->block_size;
    const struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                            .name = "speed",
                                            .type = shape->type,
                                            .type_name = info->name,
                                            .ne = {k, rows, 1, 1},
                                            .uses = ENGINE_WEIGHT_MATMUL,
                                            .data_size = row_bytes * rows};
    struct engine_tensor input = {.struct_size = sizeof input,
                                  .type = ENGINE_TYPE_F32,
                                  .ne = {k, columns, 1, 1},
                                  .nb = {4, 4 * k, 4 * k * columns, 4 * k * columns}};
    struct engine_tensor output = {.struct_size = sizeof output,
                                   .type = ENGINE_TYPE_F32,
                                   .ne = {rows, columns, 1, 1},
                                   .nb = {4, 4 * rows, 4 * rows * columns, 4 * rows * columns}};
    trial.weight =
        (struct engine_tensor){.struct_size = sizeof trial.weight,
                               .type = shape->type,
                               .ne = {k, rows, 1, 1},
                               .nb = {info->block_size, row_bytes, row_bytes * rows, row_bytes * rows}};
    trial.args = (struct engine_op_matmul){
        .struct_size = sizeof trial.args, .weight = &trial.weight, .input = &input, .output = &output};
    if (device->backend->supports(device->handle, ENGINE_OP_MATMUL, &trial.args) != 1)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "it supports no matmul of %s", info->name);
    trial.weights = calloc(trial.n_weights, sizeof(*trial.weights));
    int status = trial.weights ? create_weights(&trial, device, &desc) : error_memory("trial");
    if (!status) status = trial.backend->buffer_create(device->handle, 4 * k * columns, &trial.input);
    if (!status) status = trial.backend->buffer_create(device->handle, 4 * rows * columns, &trial.output);
    if (!status) status = trial.backend->stream_create(device->handle, &trial.stream);
    input.buffer = trial.input;
    output.buffer = trial.output;
    if (!status) status = record(&trial);
    if (!status) status = run(&trial, least, rounds, n_rounds);
    if (!status && fastest) *fastest = rounds[0];
    if (!status && typical) *typical = rounds[n_rounds / 2];
    destroy(&trial);
    return status;
}
