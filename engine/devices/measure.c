/* measure.c: see measure.h. A token takes the time of reading all weights once, so the measure is the bytes
 * of weights per second that a device reads in a matmul of one column. */
#include "devices/measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "common/assert.h"
#include "common/lock.h"
#include "common/sized.h"
#include "devices/devices.h"
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
        struct trial_matrix matrix = {K, *rows, false};
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
    ENGINE_ASSERT(lock_is_mine(&engine->devices_lock));
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

/* Sets a device's speed: as configured, as found before, or as measured now. Requires devices_lock, so that
 * no two are measured at once, which would slow both. */
static void learn_speed(struct engine *engine, struct open_device *device)
{
    ENGINE_ASSERT(lock_is_mine(&engine->devices_lock));
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

/* How fast a device is, as a share of the CPU's speed; 0: unknown. Speeds in engine.conf have a unit of their
 * own, so they are compared only with each other. Requires devices_lock. */
static double share_of_cpu(struct device_set *set, uint32_t d)
{
    ENGINE_ASSERT(lock_is_mine(&set->engine->devices_lock));
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

/* ---- Paces --------------------------------------------------------------------------------------------- */

/* Minimum times of a round: memory is shared with others more than processors are, so reading takes longer to
 * know. */
#define READ_SECONDS    0.02
#define COMPUTE_SECONDS 0.002
/* Matrices such as models have, and products that take long enough to be told from their start. */
#define SIDE    UINT64_C(2048)
#define COLUMNS UINT64_C(256)
#define FEW     UINT64_C(16)
#define SMALL   UINT64_C(32)

struct pace_of_type pace_for(const struct device_pace *pace, uint32_t type)
{
    for (size_t i = 0; i < pace->n_types; i++)
        if (pace->types[i].type == type) return pace->types[i];
    bool is_float = type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_F16 || type == ENGINE_TYPE_BF16;
    return (struct pace_of_type){type, pace->bandwidth, is_float ? pace->floats : pace->integers, 0};
}

/* Bytes per second in the products of a token: of as many as memory allows. */
static int measure_reading(const struct open_device *device, const struct trial_chain *token,
                           double *bandwidth)
{
    int status = ENGINE_ERROR_MEMORY;
    struct trial_chain chain = *token;
    for (; status == ENGINE_ERROR_MEMORY && chain.n > 0; chain.n /= 2) {
        double seconds, bytes = 0;
        for (size_t i = 0; i < chain.n; i++) bytes += (double)trial_bytes(chain.type, &chain.matrices[i]);
        status = trial_run(device, &chain, READ_SECONDS, NULL, &seconds);
        if (status) continue;
        /* Operations start while others run, where starting takes longer than reading. */
        const double reading = seconds - (double)chain.n * device->pace.overhead;
        *bandwidth = bytes / (reading > seconds / 10 ? reading : seconds / 10);
    }
    return status;
}

/* The same with square matrices. */
static int measure_plain(const struct open_device *device, uint32_t type, double *bandwidth)
{
    enum { MATRICES = 128 };
    struct trial_matrix matrices[MATRICES];
    for (int i = 0; i < MATRICES; i++) matrices[i] = (struct trial_matrix){SIDE, SIDE, false};
    return measure_reading(device, &(struct trial_chain){type, 1, matrices, MATRICES}, bandwidth);
}

static int measure_product(const struct open_device *device, uint32_t type, uint64_t columns, double *seconds)
{
    struct trial_matrix matrix = {SIDE, SIDE, false};
    return trial_run(device, &(struct trial_chain){type, columns, &matrix, 1}, COMPUTE_SECONDS, NULL,
                     seconds);
}

static int measure_computing(const struct open_device *device, uint32_t type, double *computation)
{
    double seconds;
    int status = measure_product(device, type, COLUMNS, &seconds);
    if (!status) *computation = 2.0 * (double)(SIDE * SIDE * COLUMNS) / seconds;
    return status;
}

/* What doesn't depend on the number of columns, as if weights are made floats for all of them, shows in the
 * difference of many and few. */
static int measure_parts(const struct open_device *device, struct pace_of_type *of)
{
    const double weights = (double)(SIDE * SIDE);
    double many, few;
    int status = measure_product(device, of->type, COLUMNS, &many);
    if (!status) status = measure_product(device, of->type, FEW, &few);
    if (status) return status;
    const double column = (many - few) / (double)(COLUMNS - FEW), fixed = few - column * (double)FEW;
    of->preparation = fixed > 0 && column > 0 ? fixed / weights : 0;
    of->computation = 2 * weights * (double)COLUMNS / (many - of->preparation * weights);
    return ENGINE_OK;
}

/* Types that the device has no product for don't count. */
static int measure_types(struct device_pace *pace, const struct open_device *device,
                         const struct trial_chain *tokens, size_t n)
{
    for (size_t i = 0; i < n && pace->n_types < PACE_TYPES; i++) {
        struct pace_of_type *of = &pace->types[pace->n_types];
        of->type = tokens[i].type;
        int status = measure_reading(device, &tokens[i], &of->bandwidth);
        if (status == ENGINE_ERROR_MEMORY) status = measure_plain(device, of->type, &of->bandwidth);
        if (!status) status = measure_parts(device, of);
        if (status && status != ENGINE_ERROR_UNSUPPORTED) return status;
        pace->n_types += !status;
    }
    return ENGINE_OK;
}

/* Seconds that one of several small products takes. */
static int measure_overhead(const struct open_device *device, double *overhead)
{
    enum { PRODUCTS = 16 };
    struct trial_matrix matrices[PRODUCTS];
    for (int i = 0; i < PRODUCTS; i++) matrices[i] = (struct trial_matrix){SMALL, SMALL, false};
    double seconds;
    int status = trial_run(device, &(struct trial_chain){ENGINE_TYPE_F32, 1, matrices, PRODUCTS},
                           COMPUTE_SECONDS, NULL, &seconds);
    if (!status) *overhead = seconds / (double)PRODUCTS;
    return status;
}

static int measure_device(struct open_device *device, const struct trial_chain *tokens, size_t n)
{
    struct device_pace *pace = &device->pace;
    int status = measure_overhead(device, &pace->overhead);
    if (!status) status = measure_computing(device, ENGINE_TYPE_Q8_0, &pace->integers);
    if (!status) status = measure_computing(device, ENGINE_TYPE_F16, &pace->floats);
    if (!status) status = measure_types(pace, device, tokens, n);
    if (!status && pace->n_types == 0) status = measure_plain(device, ENGINE_TYPE_Q8_0, &pace->bandwidth);
    if (pace->n_types > 0) pace->bandwidth = pace->types[0].bandwidth;
    return status ? error_wrap(status, "%s: cannot measure its speed", device->name) : ENGINE_OK;
}

int devices_measure_pace(struct device_set *set, const struct trial_chain *tokens, size_t n)
{
    int status = ENGINE_OK;
    error_clear();
    for (uint32_t d = 0; d < set->n_devices && !status; d++)
        if (set->devices[d].pace.bandwidth == 0) status = measure_device(&set->devices[d], tokens, n);
    return status;
}
