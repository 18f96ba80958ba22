/* measure.c: see measure.h. A token takes the time of reading all weights once, so the measure is the bytes
 * of weights per second that a device reads in a matmul of one column. */
#include "devices/measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "devices/devices.h"
#include "devices/trial.h"
#include "model/types.h"

#define K          UINT64_C(2048)
#define ROWS       UINT64_C(4096)
#define LEAST_ROWS UINT64_C(16) /* where memory is too small for ROWS */
#define SECONDS    0.001        /* minimum time of a round */

/* With as many rows as memory and --memory allow. */
static int try_type(const struct open_device *device, uint32_t type, uint64_t *rows, double *speed)
{
    int status;
    *rows = 2 * ROWS;
    do {
        *rows /= 2;
        const struct trial_matrix matrix = {K, *rows, false};
        const struct trial_chain chain = {type, 1, &matrix, 1};
        double seconds;
        status = trial_run(device, &chain, SECONDS, &seconds, NULL);
        if (!status) *speed = (double)trial_bytes(type, &matrix) / seconds;
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

/* Sets a device's speed: as configured, as found before, or as measured now. Requires devices_lock, so that no
 * two are measured at once, which would slow both. */
static void learn_speed(struct engine *engine, struct open_device *device)
{
    struct device *listed = devices_find_open(engine, device->name);
    if (configured_speed(engine_setting(engine, "", "speeds"), device->name, &device->speed) || !listed)
        return;
    device->speed = listed->speed;
    if (device->speed != 0) return;
    bool whole;
    device->speed = measure(device, &whole);
    if (whole) listed->speed = device->speed;
}

void devices_measure(struct device_set *set)
{
    pthread_mutex_lock(&set->engine->devices_lock);
    for (uint32_t d = 1; d < set->n_devices; d++) learn_speed(set->engine, &set->devices[d]);
    pthread_mutex_unlock(&set->engine->devices_lock);
    error_clear();
}

/* How fast a device is, as a share of the CPU's speed; 0: unknown. Speeds in engine.conf have a unit of their own,
 * so they are compared only with each other. Requires devices_lock. */
static double share_of_cpu(struct device_set *set, uint32_t d)
{
    const char *text = engine_setting(set->engine, "", "speeds");
    struct open_device cpu = set->devices[0], device = set->devices[d]; /* copies: placing doesn't use this */
    double configured;
    if (configured_speed(text, cpu.name, &configured) != configured_speed(text, device.name, &configured))
        return 0;
    learn_speed(set->engine, &device);
    if (device.speed != 0) learn_speed(set->engine, &cpu);
    return device.speed != 0 && cpu.speed != 0 ? device.speed / cpu.speed : 0;
}

void devices_warn_slow(struct device_set *set)
{
    pthread_mutex_lock(&set->engine->devices_lock);
    for (uint32_t d = 1; d < set->n_devices; d++) {
        const struct open_device *device = &set->devices[d];
        const uint32_t kind = device->info.kind;
        if (kind == ENGINE_DEVICE_CPU || kind == ENGINE_DEVICE_GPU || kind == ENGINE_DEVICE_INTEGRATED_GPU)
            continue;
        if (device->link.bandwidth > 0 || device->is_described) continue;
        const double share = share_of_cpu(set, d);
        if (share == 0 || share >= 0.5) continue;
        log_line(
            ENGINE_LOG_WARNING,
            "%s (%s) reads weights at %.2g of the CPU's speed, and is used because its plugin calls it an "
            "accelerator; --backend cpu leaves it out",
            device->name, device->info.description, share);
    }
    pthread_mutex_unlock(&set->engine->devices_lock);
    error_clear();
}
