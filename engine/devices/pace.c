/* pace.c: see pace.h. */
#include "devices/pace.h"

#include "base/error.h"
#include "common/sized.h"
#include "devices/trial.h"
#include "model/types.h"

#define ROUNDS 3
/* Weights that no cache holds, and products that take long enough to be told from their start. */
#define READ_K       UINT64_C(4096)
#define READ_BYTES   (UINT64_C(128) << 20)
#define LEAST_BYTES  (UINT64_C(1) << 20) /* where memory is too small for that */
#define COMPUTE_K    UINT64_C(2048)
#define COMPUTE_ROWS UINT64_C(1024)
#define COLUMNS      UINT64_C(256)
#define SMALL        UINT64_C(32)

struct pace_of_type pace_for(const struct device_pace *pace, uint32_t type)
{
    for (size_t i = 0; i < pace->n_types; i++)
        if (pace->types[i].type == type) return pace->types[i];
    bool is_float = type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_F16 || type == ENGINE_TYPE_BF16;
    return (struct pace_of_type){type, pace->bandwidth, is_float ? pace->floats : pace->integers};
}

/* Bytes per second with as many rows as memory allows. */
static int measure_reading(const struct open_device *device, uint32_t type, double *bandwidth)
{
    int status = ENGINE_ERROR_MEMORY;
    struct trial_shape shape = {type, READ_K, 1, 1};
    const uint64_t row = trial_bytes(&shape);
    for (uint64_t bytes = READ_BYTES; status == ENGINE_ERROR_MEMORY && bytes >= LEAST_BYTES; bytes /= 2) {
        double seconds;
        shape.rows = bytes / row;
        status = trial_product(device, &shape, ROUNDS, &seconds);
        if (!status) *bandwidth = (double)trial_bytes(&shape) / (seconds - device->pace.overhead);
    }
    return status;
}

static int measure_type(const struct open_device *device, uint32_t type, struct pace_of_type *pace)
{
    const struct trial_shape shape = {type, COMPUTE_K, COMPUTE_ROWS, COLUMNS};
    double seconds;
    pace->type = type;
    int status = measure_reading(device, type, &pace->bandwidth);
    if (!status) status = trial_product(device, &shape, ROUNDS, &seconds);
    if (!status) pace->computation = 2.0 * (double)(shape.k * shape.rows * shape.columns) / seconds;
    return status;
}

/* Types that the device has no product for don't count. */
static int measure_device(struct open_device *device, const uint32_t *types, size_t n_types)
{
    struct device_pace *pace = &device->pace;
    const struct trial_shape small = {ENGINE_TYPE_F32, SMALL, SMALL, 1};
    struct pace_of_type integers, floats;
    pace->overhead = 0;
    int status = trial_product(device, &small, ROUNDS, &pace->overhead);
    if (!status) status = measure_type(device, ENGINE_TYPE_Q8_0, &integers);
    if (!status) status = measure_type(device, ENGINE_TYPE_F16, &floats);
    if (status) return error_wrap(status, "%s: cannot measure its speed", device->name);
    pace->bandwidth = integers.bandwidth > floats.bandwidth ? integers.bandwidth : floats.bandwidth;
    pace->integers = integers.computation;
    pace->floats = floats.computation;
    for (size_t i = 0; i < n_types && pace->n_types < PACE_TYPES; i++) {
        struct pace_of_type *of = &pace->types[pace->n_types];
        if (types[i] == ENGINE_TYPE_Q8_0 || types[i] == ENGINE_TYPE_F16)
            *of = types[i] == ENGINE_TYPE_F16 ? floats : integers;
        else
            status = measure_type(device, types[i], of);
        if (status == ENGINE_ERROR_UNSUPPORTED) continue;
        if (status) return error_wrap(status, "%s: cannot measure its speed", device->name);
        pace->n_types++;
    }
    return ENGINE_OK;
}

int devices_measure_pace(struct device_set *set, const uint32_t *types, size_t n_types)
{
    int status = ENGINE_OK;
    error_clear();
    for (uint32_t d = 0; d < set->n_devices && !status; d++)
        if (set->devices[d].pace.bandwidth == 0) status = measure_device(&set->devices[d], types, n_types);
    return status;
}
