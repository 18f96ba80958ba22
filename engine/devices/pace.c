/* pace.c: see pace.h. */
#include "devices/pace.h"

#include "base/error.h"
#include "common/sized.h"
#include "model/types.h"

/* Minimum times of a round: memory is shared with others more than processors are, so reading takes longer to know. */
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
    const struct trial_matrix matrix = {SIDE, SIDE, false};
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

/* What doesn't depend on the number of columns, as if weights are made floats for all of them, shows in the difference of
 * many and few. */
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
