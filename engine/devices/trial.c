/* trial.c: how long products take on a device, see measure.h. */
#include "devices/measure.h"

#include <stdlib.h>

#include "base/error.h"
#include "common/clock.h"
#include "model/types.h"

#define MAX_SECONDS 3.0 /* after which no round begins */

/* A product, and what belongs to it. */
struct product {
    struct engine_weight *weights[2]; /* the matrix and its gate */
    struct engine_tensor matrix, gate, input, output;
    struct engine_op_matmul args;
};

/* Everything that one device needs for the measurement. */
struct trial {
    const struct engine_backend *backend;
    struct product *products; /* [n] */
    size_t n;
    struct engine_buffer *input, *output; /* of all, as long as the longest */
    struct engine_stream *stream;
    struct engine_recording *recording; /* of a chain; NULL: the backend has none */
};

static int trial_multiply(struct trial *trial)
{
    int status = ENGINE_OK;
    for (size_t i = 0; i < trial->n && !status; i++)
        status = trial->backend->enqueue(trial->stream, ENGINE_OP_MATMUL, &trial->products[i].args);
    return status;
}

/* As graphs are run: recorded, where that is possible. */
static int trial_record(struct trial *trial)
{
    const struct engine_backend *backend = trial->backend;
    if (!ENGINE_HAS(backend, recording_destroy) || !backend->record_begin || !backend->record_end ||
        !backend->replay || !backend->recording_destroy)
        return ENGINE_OK;
    int status = backend->record_begin(trial->stream);
    if (status) return status;
    status = trial_multiply(trial);
    int ended = backend->record_end(trial->stream, &trial->recording);
    return status ? status : ended;
}

/* Runs the chain `count` times and waits; 0 or a status. */
static int repeat(struct trial *trial, uint64_t count)
{
    int status = ENGINE_OK;
    for (uint64_t i = 0; i < count && !status; i++)
        status = trial->recording ? trial->backend->replay(trial->stream, trial->recording)
                                  : trial_multiply(trial);
    return status ? status : trial->backend->stream_wait(trial->stream);
}

static int trial_compare(const void *one, const void *other)
{
    const double *a = one, *b = other;
    return (*a > *b) - (*a < *b);
}

/* How often the chain runs in a round is found by doubling it. Fills rounds[*n], ascending; *n becomes
 * smaller if they take long. */
static int trial_measure_runs(struct trial *trial, double least, double *rounds, int *n)
{
    const double begin = seconds_now();
    uint64_t count = 1;
    int round = 0, status = repeat(trial, 1); /* compiles kernels, allocates memory */
    while (!status && round < *n && (round == 0 || seconds_now() - begin < MAX_SECONDS)) {
        double start = seconds_now();
        status = repeat(trial, count);
        double seconds = seconds_now() - start;
        if (seconds < least)
            count *= 2;
        else
            rounds[round++] = seconds / (double)count;
    }
    *n = round;
    qsort(rounds, (size_t)round, sizeof *rounds, trial_compare);
    return status;
}

static uint64_t row_bytes(uint32_t type, uint64_t k)
{
    const struct type_info *info = type_info(type);
    return k / info->block_length * info->block_size;
}

uint64_t trial_bytes(uint32_t type, const struct trial_matrix *matrix)
{
    return row_bytes(type, matrix->k) * matrix->rows * (matrix->has_gate ? 2 : 1);
}

static struct engine_tensor activations(uint64_t n, uint64_t columns)
{
    return (struct engine_tensor){.struct_size = sizeof(struct engine_tensor),
                                  .type = ENGINE_TYPE_F32,
                                  .ne = {n, columns, 1, 1},
                                  .nb = {4, 4 * n, 4 * n * columns, 4 * n * columns}};
}

/* Fills a product except its memory. */
static void trial_describe(struct product *product, uint32_t type, const struct trial_matrix *matrix,
                           uint64_t columns)
{
    const uint64_t row = row_bytes(type, matrix->k), all = row * matrix->rows;
    product->matrix = (struct engine_tensor){.struct_size = sizeof(struct engine_tensor),
                                             .type = type,
                                             .ne = {matrix->k, matrix->rows, 1, 1},
                                             .nb = {type_info(type)->block_size, row, all, all}};
    product->gate = product->matrix;
    product->input = activations(matrix->k, columns);
    product->output = activations(matrix->rows, columns);
    product->args = (struct engine_op_matmul){.struct_size = sizeof product->args,
                                              .weight = &product->matrix,
                                              .gate = matrix->has_gate ? &product->gate : NULL,
                                              .activation = matrix->has_gate ? ENGINE_ACTIVATION_SILU
                                                                             : ENGINE_ACTIVATION_NONE,
                                              .input = &product->input,
                                              .output = &product->output};
}

/* Describes all products. ENGINE_ERROR_UNSUPPORTED: one of them is none of the device's. */
static int describe_all(struct trial *trial, const struct open_device *device,
                        const struct trial_chain *chain)
{
    for (size_t i = 0; i < trial->n; i++) {
        struct product *product = &trial->products[i];
        trial_describe(product, chain->type, &chain->matrices[i], chain->columns);
        if (device->backend->supports(device->handle, ENGINE_OP_MATMUL, &product->args) != 1)
            return error_raise(ENGINE_ERROR_UNSUPPORTED, "it supports no matmul of %s",
                               type_info(chain->type)->name);
    }
    return ENGINE_OK;
}

/* Weights of zeros are as slow as any others. */
static int create_weights(struct trial *trial, const struct open_device *device,
                          const struct trial_chain *chain)
{
    uint64_t longest = 0;
    for (size_t i = 0; i < chain->n; i++) {
        uint64_t bytes = row_bytes(chain->type, chain->matrices[i].k) * chain->matrices[i].rows;
        if (bytes > longest) longest = bytes;
    }
    void *data = calloc(1, longest);
    int status = data ? ENGINE_OK : error_memory("trial");
    for (size_t i = 0; i < 2 * chain->n && !status; i++) {
        const struct trial_matrix *matrix = &chain->matrices[i / 2];
        struct product *product = &trial->products[i / 2];
        const struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                                .name = "speed",
                                                .type = chain->type,
                                                .type_name = type_info(chain->type)->name,
                                                .ne = {matrix->k, matrix->rows, 1, 1},
                                                .uses = ENGINE_WEIGHT_MATMUL,
                                                .data = data,
                                                .data_size =
                                                    row_bytes(chain->type, matrix->k) * matrix->rows};
        if (i % 2 == 0 || matrix->has_gate)
            status = trial->backend->weight_create(device->handle, &desc, &product->weights[i % 2]);
        product->matrix.weight = product->weights[0];
        product->gate.weight = product->weights[1];
    }
    free(data);
    return status;
}

static int create_buffers(struct trial *trial, const struct open_device *device,
                          const struct trial_chain *chain)
{
    uint64_t k = 0, rows = 0;
    for (size_t i = 0; i < chain->n; i++) {
        if (chain->matrices[i].k > k) k = chain->matrices[i].k;
        if (chain->matrices[i].rows > rows) rows = chain->matrices[i].rows;
    }
    int status = trial->backend->buffer_create(device->handle, 4 * k * chain->columns, &trial->input);
    if (!status)
        status = trial->backend->buffer_create(device->handle, 4 * rows * chain->columns, &trial->output);
    for (size_t i = 0; i < trial->n; i++) {
        trial->products[i].input.buffer = trial->input;
        trial->products[i].output.buffer = trial->output;
    }
    return status;
}

static void trial_destroy(struct trial *trial)
{
    const struct engine_backend *backend = trial->backend;
    if (trial->recording) backend->recording_destroy(trial->recording);
    if (trial->stream) backend->stream_destroy(trial->stream);
    backend->buffer_destroy(trial->output);
    backend->buffer_destroy(trial->input);
    for (size_t i = 0; i < trial->n; i++)
        for (int k = 0; k < 2; k++) backend->weight_destroy(trial->products[i].weights[k]);
    free(trial->products);
}

int trial_run(const struct open_device *device, const struct trial_chain *chain, double least,
              double *fastest, double *typical)
{
    double rounds[TRIAL_ROUNDS] = {0};
    int n_rounds = typical ? TRIAL_ROUNDS : 5;
    struct trial trial = {.backend = device->backend};
    trial.products = calloc(chain->n, sizeof(*trial.products));
    if (!trial.products) return error_memory("trial");
    trial.n = chain->n;
    int status = describe_all(&trial, device, chain);
    if (!status) status = create_weights(&trial, device, chain);
    if (!status) status = create_buffers(&trial, device, chain);
    if (!status) status = trial.backend->stream_create(device->handle, &trial.stream);
    if (!status) status = trial_record(&trial);
    if (!status) status = trial_measure_runs(&trial, least, rounds, &n_rounds);
    if (!status && fastest) *fastest = rounds[0];
    if (!status && typical) *typical = rounds[n_rounds / 2];
    trial_destroy(&trial);
    return status;
}
