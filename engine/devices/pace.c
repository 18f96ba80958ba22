/* pace.c: see pace.h. */
#include "devices/pace.h"

#include "base/error.h"
#include "common/sized.h"
#include "devices/trial.h"
#include "model/types.h"

/* Minimum times of a round: memory is shared with others more than processors are, so reading takes longer to know. */
#define READ_SECONDS    0.02
#define COMPUTE_SECONDS 0.002
/* Matrices as models have them, so many that no cache holds all, nor the tables of their pages; and products that take
 * long enough to be told from their start. */
#define SIDE        UINT64_C(2048)
#define READ_BYTES  (UINT64_C(512) << 20)
#define LEAST_BYTES (UINT64_C(8) << 20) /* where memory is too small for that */
#define COLUMNS     UINT64_C(256)
#define SMALL       UINT64_C(32)

struct pace_of_type pace_for(const struct device_pace *pace, uint32_t type)
{
    for (size_t i = 0; i < pace->n_types; i++)
        if (pace->types[i].type == type) return pace->types[i];
    bool is_float = type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_F16 || type == ENGINE_TYPE_BF16;
    return (struct pace_of_type){type, pace->bandwidth, is_float ? pace->floats : pace->integers};
}

/* Bytes per second with as many matrices as memory allows. */
static int measure_reading(const struct open_device *device, uint32_t type, double *bandwidth)
{
    int status = ENGINE_ERROR_MEMORY;
    struct trial_shape shape = {type, SIDE, SIDE, 1, 1};
    const uint64_t size = trial_bytes(&shape);
    for (uint64_t bytes = READ_BYTES; status == ENGINE_ERROR_MEMORY && bytes >= LEAST_BYTES; bytes /= 2) {
        double seconds;
        shape.n_weights = (bytes + size - 1) / size;
        status = trial_product(device, &shape, READ_SECONDS, NULL, &seconds);
        if (status) continue;
        /* Operations start while others run, where starting takes longer than reading. */
        const double reading = seconds - device->pace.overhead;
        *bandwidth = (double)size / (reading > seconds / 10 ? reading : seconds / 10);
    }
    return status;
}

static int measure_computing(const struct open_device *device, uint32_t type, double *computation)
{
    const struct trial_shape shape = {type, SIDE, SIDE, COLUMNS, 1};
    double seconds;
    int status = trial_product(device, &shape, COMPUTE_SECONDS, NULL, &seconds);
    if (!status) *computation = 2.0 * (double)(shape.k * shape.rows * shape.columns) / seconds;
    return status;
}

/* The types of the model, the most frequent first; those that the device has no product for don't count. */
static int measure_types(struct device_pace *pace, const struct open_device *device, const uint32_t *types,
                         size_t n_types)
{
    for (size_t i = 0; i < n_types && pace->n_types < PACE_TYPES; i++) {
        struct pace_of_type *of = &pace->types[pace->n_types];
        of->type = types[i];
        int status = measure_reading(device, types[i], &of->bandwidth);
        if (!status) status = measure_computing(device, types[i], &of->computation);
        if (status && status != ENGINE_ERROR_UNSUPPORTED) return status;
        pace->n_types += !status;
    }
    return ENGINE_OK;
}

static int measure_device(struct open_device *device, const uint32_t *types, size_t n_types)
{
    struct device_pace *pace = &device->pace;
    const struct trial_shape small = {ENGINE_TYPE_F32, SMALL, SMALL, 1, 16};
    pace->overhead = 0;
    int status = trial_product(device, &small, COMPUTE_SECONDS, NULL, &pace->overhead);
    if (!status) status = measure_computing(device, ENGINE_TYPE_Q8_0, &pace->integers);
    if (!status) status = measure_computing(device, ENGINE_TYPE_F16, &pace->floats);
    if (!status) status = measure_types(pace, device, types, n_types);
    if (!status && pace->n_types == 0) status = measure_reading(device, ENGINE_TYPE_Q8_0, &pace->bandwidth);
    if (pace->n_types > 0) pace->bandwidth = pace->types[0].bandwidth;
    return status ? error_wrap(status, "%s: cannot measure its speed", device->name) : ENGINE_OK;
}

int devices_measure_pace(struct device_set *set, const uint32_t *types, size_t n_types)
{
    int status = ENGINE_OK;
    error_clear();
    for (uint32_t d = 0; d < set->n_devices && !status; d++)
        if (set->devices[d].pace.bandwidth == 0) status = measure_device(&set->devices[d], types, n_types);
    return status;
}
