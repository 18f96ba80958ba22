/* measure.c: see measure.h. A token's time is that of reading all weights once, so what counts is how many bytes of weights
 * a device gets through in a matmul of one column. */
#include "measure.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "internal.h"
#include "model/types.h"

#define K       UINT64_C(2048)
#define ROWS    UINT64_C(4096)
#define SECONDS 0.004 /* of matmuls, after one that warms up */

/* What one device needs for it. */
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

/* As many matmuls as fit into the time, in rounds that double. Returns bytes per second, 0 after an error. */
static double run(const struct trial *trial, const struct engine_op_matmul *args, uint64_t bytes)
{
    uint64_t done = 0;
    int status = repeat(trial, args, 1); /* kernels are compiled, memory is there */
    double start = now(), seconds = 0;
    for (uint64_t round = 1; !status && seconds < SECONDS; round *= 2) {
        status = repeat(trial, args, round);
        done += round;
        seconds = now() - start;
    }
    return status ? 0 : (double)(done * bytes) / seconds;
}

/* Weights of zeros take as long as others. */
static double try_type(const struct open_device *device, uint32_t type)
{
    struct trial trial = {.backend = device->backend};
    const struct type_info *info = type_info(type);
    uint64_t row_bytes = K / info->block_length * info->block_size;
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "speed",
                                      .type = type,
                                      .type_name = info->name,
                                      .ne = {K, ROWS, 1, 1},
                                      .uses = ENGINE_WEIGHT_MATMUL,
                                      .data_size = row_bytes * ROWS};
    struct engine_tensor weight = {.struct_size = sizeof weight,
                                   .type = type,
                                   .ne = {K, ROWS, 1, 1},
                                   .nb = {info->block_size, row_bytes, row_bytes * ROWS, row_bytes * ROWS}};
    struct engine_tensor input = {.struct_size = sizeof input,
                                  .type = ENGINE_TYPE_F32,
                                  .ne = {K, 1, 1, 1},
                                  .nb = {4, 4 * K, 4 * K, 4 * K}};
    struct engine_tensor output = {.struct_size = sizeof output,
                                   .type = ENGINE_TYPE_F32,
                                   .ne = {ROWS, 1, 1, 1},
                                   .nb = {4, 4 * ROWS, 4 * ROWS, 4 * ROWS}};
    struct engine_op_matmul args = {
        .struct_size = sizeof args, .weight = &weight, .input = &input, .output = &output};
    double speed = 0;
    if (device->backend->supports(device->handle, ENGINE_OP_MATMUL, &args) != 1) return 0;
    void *data = calloc(1, desc.data_size);
    desc.data = data;
    int status = data ? ENGINE_OK : ENGINE_ERROR_MEMORY;
    if (!status) status = trial.backend->weight_create(device->handle, &desc, &trial.weight);
    if (!status) status = trial.backend->buffer_create(device->handle, 4 * K, &trial.input);
    if (!status) status = trial.backend->buffer_create(device->handle, 4 * ROWS, &trial.output);
    if (!status) status = trial.backend->stream_create(device->handle, &trial.stream);
    weight.weight = trial.weight;
    input.buffer = trial.input;
    output.buffer = trial.output;
    if (!status) speed = run(&trial, &args, desc.data_size);
    if (trial.stream) trial.backend->stream_destroy(trial.stream);
    trial.backend->buffer_destroy(trial.output);
    trial.backend->buffer_destroy(trial.input);
    trial.backend->weight_destroy(trial.weight);
    free(data);
    return speed;
}

/* The number behind the device's name in "vulkan0=300, opencl0.0=40"; false if it isn't there. */
static bool configured_speed(const char *text, const char *name, double *speed)
{
    size_t length = strlen(name);
    while (text && *text) {
        text += strspn(text, ", ");
        if (strncmp(text, name, length) == 0 && text[length] == '=') {
            *speed = strtod(text + length + 1, NULL);
            return true;
        }
        text += strcspn(text, ",");
    }
    return false;
}

static double measure(const struct open_device *device)
{
    double speed = try_type(device, ENGINE_TYPE_Q8_0) * 1e-9;
    if (speed == 0) speed = try_type(device, ENGINE_TYPE_F32) * 1e-9;
    log_line(ENGINE_LOG_INFO, "%s: %.3g GB/s of weights", device->name, speed);
    return speed;
}

/* The engine's entry for an open device. */
static struct device *listed_device(struct engine *engine, const struct open_device *device)
{
    for (size_t i = 0; i < engine->n_devices; i++)
        if (strcmp(engine->devices[i].name, device->name) == 0) return &engine->devices[i];
    return NULL;
}

void measure_speeds(struct device_set *set)
{
    struct engine *engine = set->engine;
    const char *text = engine_setting(engine, "", "speeds");
    pthread_mutex_lock(&engine->devices_lock); /* one at a time, too, so that they don't slow each other */
    for (uint32_t d = 1; d < set->n_devices; d++) {
        struct open_device *device = &set->devices[d];
        struct device *listed = listed_device(engine, device);
        if (configured_speed(text, device->name, &device->speed) || !listed) continue;
        if (listed->speed == 0) listed->speed = measure(device);
        device->speed = listed->speed;
    }
    pthread_mutex_unlock(&engine->devices_lock);
    error_clear();
}
