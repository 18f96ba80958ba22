/* measure.c: see measure.h. A token takes the time of reading all weights once, so the measure is the bytes
 * of weights per second that a device reads in a matmul of one column. */
#include "devices/measure.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "devices/devices.h"
#include "model/types.h"

#define K          UINT64_C(2048)
#define ROWS       UINT64_C(4096)
#define LEAST_ROWS UINT64_C(16) /* where memory is too small for ROWS */
#define ROUNDS     5
#define SECONDS    0.001 /* minimum time of a round */

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

/* Bytes per second of the fastest of several rounds, because other programs may use the machine during some.
 * The number of matmuls in a round is found by doubling it. */
static int run(const struct trial *trial, const struct engine_op_matmul *args, uint64_t bytes, double *speed)
{
    uint64_t count = 1;
    int status = repeat(trial, args, 1); /* compiles kernels, allocates memory */
    *speed = 0;
    for (int round = 0; !status && round < ROUNDS;) {
        double start = now();
        status = repeat(trial, args, count);
        double seconds = now() - start;
        if (seconds < SECONDS) {
            count *= 2;
            continue;
        }
        double reached = (double)(count * bytes) / seconds;
        if (reached > *speed) *speed = reached;
        round++;
    }
    return status;
}

/* Weights of zeros are as slow as any others. */
static int try_rows(const struct open_device *device, uint32_t type, uint64_t rows, double *speed)
{
    struct trial trial = {.backend = device->backend};
    const struct type_info *info = type_info(type);
    uint64_t row_bytes = K / info->block_length * info->block_size;
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "speed",
                                      .type = type,
                                      .type_name = info->name,
                                      .ne = {K, rows, 1, 1},
                                      .uses = ENGINE_WEIGHT_MATMUL,
                                      .data_size = row_bytes * rows};
    struct engine_tensor weight = {.struct_size = sizeof weight,
                                   .type = type,
                                   .ne = {K, rows, 1, 1},
                                   .nb = {info->block_size, row_bytes, row_bytes * rows, row_bytes * rows}};
    struct engine_tensor input = {.struct_size = sizeof input,
                                  .type = ENGINE_TYPE_F32,
                                  .ne = {K, 1, 1, 1},
                                  .nb = {4, 4 * K, 4 * K, 4 * K}};
    struct engine_tensor output = {.struct_size = sizeof output,
                                   .type = ENGINE_TYPE_F32,
                                   .ne = {rows, 1, 1, 1},
                                   .nb = {4, 4 * rows, 4 * rows, 4 * rows}};
    struct engine_op_matmul args = {
        .struct_size = sizeof args, .weight = &weight, .input = &input, .output = &output};
    if (device->backend->supports(device->handle, ENGINE_OP_MATMUL, &args) != 1)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "it supports no matmul of %s", info->name);
    void *data = calloc(1, desc.data_size);
    desc.data = data;
    int status = data ? ENGINE_OK : error_memory("trial");
    if (!status) status = trial.backend->weight_create(device->handle, &desc, &trial.weight);
    if (!status) status = trial.backend->buffer_create(device->handle, 4 * K, &trial.input);
    if (!status) status = trial.backend->buffer_create(device->handle, 4 * rows, &trial.output);
    if (!status) status = trial.backend->stream_create(device->handle, &trial.stream);
    weight.weight = trial.weight;
    input.buffer = trial.input;
    output.buffer = trial.output;
    if (!status) status = run(&trial, &args, desc.data_size, speed);
    if (trial.stream) trial.backend->stream_destroy(trial.stream);
    trial.backend->buffer_destroy(trial.output);
    trial.backend->buffer_destroy(trial.input);
    trial.backend->weight_destroy(trial.weight);
    free(data);
    return status;
}

/* With as many rows as memory and --memory allow. */
static int try_type(const struct open_device *device, uint32_t type, uint64_t *rows, double *speed)
{
    int status;
    *rows = 2 * ROWS;
    do {
        *rows /= 2;
        status = try_rows(device, type, *rows, speed);
    } while (status == ENGINE_ERROR_MEMORY && *rows > LEAST_ROWS);
    return status;
}

/* The number after the device's name in "vulkan0=300, opencl0.0=40"; false if the name isn't there. */
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

static bool is_listed(const struct engine *engine, const char *name, size_t length)
{
    for (size_t i = 0; i < engine->n_devices; i++)
        if (strlen(engine->devices[i].name) == length && memcmp(engine->devices[i].name, name, length) == 0)
            return true;
    return false;
}

void devices_report_speeds(const struct engine *engine)
{
    for (size_t i = 0; i < config_count(engine->config); i++) {
        const struct config_entry *entry = config_at(engine->config, i);
        if (entry->section[0] || strcmp(entry->key, "speeds") != 0) continue;
        for (const char *text = entry->value; *text; text += strcspn(text, ",")) {
            text += strspn(text, ", ");
            size_t length = strcspn(text, "=");
            if (!is_listed(engine, text, length))
                log_line(ENGINE_LOG_WARNING,
                         "%s:%u: speeds: there is no device %.*s here (`engine devices` lists them)",
                         entry->path, entry->line, (int)length, text);
        }
    }
}

/* GB/s; 0 if it can't be measured. *whole: whether all rows were used. */
static double measure(const struct open_device *device, bool *whole)
{
    double speed = 0;
    uint64_t rows = ROWS;
    error_clear();
    int status = try_type(device, ENGINE_TYPE_Q8_0, &rows, &speed);
    if (status == ENGINE_ERROR_UNSUPPORTED) status = try_type(device, ENGINE_TYPE_F32, &rows, &speed);
    *whole = rows == ROWS;
    if (status) {
        log_line(ENGINE_LOG_WARNING, "%s: cannot measure its speed, assuming that it is the slowest: %s",
                 device->name, error_message());
        return 0;
    }
    log_line(ENGINE_LOG_INFO, "%s: %.3g GB/s of weights", device->name, speed * 1e-9);
    return speed * 1e-9;
}

void devices_measure(struct device_set *set)
{
    struct engine *engine = set->engine;
    const char *text = engine_setting(engine, "", "speeds");
    pthread_mutex_lock(&engine->devices_lock); /* one at a time, so that they don't slow each other */
    for (uint32_t d = 1; d < set->n_devices; d++) {
        struct open_device *device = &set->devices[d];
        struct device *listed = devices_find_open(engine, device->name);
        if (configured_speed(text, device->name, &device->speed) || !listed) continue;
        device->speed = listed->speed;
        if (device->speed != 0) continue;
        bool whole;
        device->speed = measure(device, &whole);
        if (whole) listed->speed = device->speed;
    }
    pthread_mutex_unlock(&engine->devices_lock);
    error_clear();
}
