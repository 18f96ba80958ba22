/* pipeline.c: how batches are cut so that devices with different layers work at once: while one has a part of
 * the batch, those before it have the next ones. Streams keep the order, so a part finds the cache as the
 * parts before it have left it, and results don't change. */
#include "model/types.h"
#include "plan/plan.h"

/* How many tokens take as long to compute as reading the weights for them: few on one core, more with each
 * core, which share the memory, and with each byte of a weight; a GPU computes many. */
#define TOKENS_PER_BYTE        7 /* of weights that are multiplied as whole numbers */
#define TOKENS_PER_FLOATS_BYTE 2
#define TOKENS_ON_A_GPU        64
/* How many tokens take as long as making floats of half precision ready for any number of them on the CPU. */
#define TOKENS_OF_FLOATS 10

/* A device counts if it has at least this part of the products of the largest one's weights. */
#define LEAST_SHARE 8

/* What a part costs the slowest device, in tokens that it computes in that time. */
struct cost {
    double reading; /* of weights, at least, as products wait for them */
    double fixed;   /* beside that, for operations and messages */
};

/* Fills counts[d]: whether device d counts. Returns the number of such devices. */
static uint32_t count_devices(const struct engine_plan *plan, struct cost *cost,
                              bool counts[PLACE_MAX_DEVICES])
{
    uint64_t bytes[PLACE_MAX_DEVICES] = {0}, most = 0;
    double all = 0, floats = 0, n_weights = 0;
    uint32_t n_devices = 0;
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct plan_weight *weight = &plan->weights[i];
        const struct model_tensor *tensor = weight->tensor;
        if (!(weight->uses & (ENGINE_WEIGHT_MATMUL | ENGINE_WEIGHT_MATRICES))) continue;
        bytes[plan->device[i]] += tensor->size;
        all += (double)tensor->size;
        n_weights += (double)tensor->ne[0] * (double)tensor->ne[1] * (double)tensor->ne[2];
        if (type_info(tensor->type)->block_length == 1) floats += (double)tensor->size;
    }
    for (uint32_t d = 0; d < plan->set.n_devices; d++)
        if (bytes[d] > most) most = bytes[d];
    const bool are_floats = floats > all / 2;
    cost->reading = (are_floats ? TOKENS_PER_FLOATS_BYTE : TOKENS_PER_BYTE) * (double)plan->n_threads;
    if (n_weights > 0) cost->reading *= all / n_weights;
    for (uint32_t d = 0; d < plan->set.n_devices; d++) {
        counts[d] = bytes[d] > 0 && bytes[d] >= most / LEAST_SHARE;
        if (!counts[d]) continue;
        n_devices++;
        if (plan->set.devices[d].info.kind != ENGINE_DEVICE_CPU && cost->reading < TOKENS_ON_A_GPU)
            cost->reading = TOKENS_ON_A_GPU;
    }
    cost->fixed = cost->reading / 2;
    if (are_floats && cost->fixed < TOKENS_OF_FLOATS) cost->fixed = TOKENS_OF_FLOATS;
    return n_devices;
}

/* Tokens of each part if a batch of n is cut into so many: numbers that few shapes of graphs have in
 * common. */
static uint32_t part_of(uint32_t n, uint32_t n_parts)
{
    const uint32_t part = (n + n_parts - 1) / n_parts, step = part > 128 ? 16 : part > 16 ? 4 : 1;
    return (part + step - 1) / step * step;
}

static double time_of(const struct cost *cost, uint32_t part)
{
    return (part > cost->reading ? part : cost->reading) + cost->fixed;
}

/* The best size of the parts of a batch, and the time that the batch then takes. With k devices and p parts
 * it is p + k - 1 times that of a part on one device. */
static uint32_t best_part(const struct cost *cost, uint32_t n, uint32_t n_devices, double *least)
{
    uint32_t best = n;
    for (uint32_t n_parts = 1; n_parts <= n; n_parts++) {
        const uint32_t part = part_of(n, n_parts);
        const uint32_t times = (n + part - 1) / part + n_devices - 1;
        const double time = (double)times * time_of(cost, part);
        if (n_parts > 1 && time >= *least) continue;
        *least = time;
        if (n_parts > 1) best = part;
    }
    return best;
}

uint32_t plan_part(const struct engine_plan *plan, size_t n_tokens)
{
    struct cost cost;
    bool counts[PLACE_MAX_DEVICES];
    double least;
    const uint32_t n = n_tokens < plan->n_batch ? (uint32_t)n_tokens : plan->n_batch;
    const uint32_t n_devices = count_devices(plan, &cost, counts);
    if (n_devices < 2 || plan->info.is_encoder || plan->watch.kinds || n == 0) return plan->n_batch;
    const uint32_t part = best_part(&cost, n, n_devices, &least);
    return part < n ? part : plan->n_batch;
}

/* Whether the logits come from devices that can be waited for without what they have been told since. */
static bool has_marks(const struct engine_plan *plan)
{
    for (size_t i = 0; i < plan->n_weights; i++)
        if (plan->entries[i].part == PLACE_OUTPUT &&
            !backend_marks(plan->set.devices[plan->device[i]].backend))
            return false;
    return true;
}

/* In how many processes the devices that count are, and how many the one with most of them has. */
static uint32_t count_processes(const struct engine_plan *plan, const bool *counts, uint32_t *most)
{
    const struct open_device *devices = plan->set.devices;
    uint32_t n_processes = 0;
    *most = 0;
    for (uint32_t d = 0; d < plan->set.n_devices; d++) {
        uint32_t n = 0;
        for (uint32_t e = d; e < plan->set.n_devices && counts[d]; e++)
            n += counts[e] && link_process(&devices[d].link) == link_process(&devices[e].link);
        bool is_first = counts[d];
        for (uint32_t e = 0; e < d; e++)
            if (counts[e] && link_process(&devices[d].link) == link_process(&devices[e].link))
                is_first = false;
        n_processes += is_first;
        if (n > *most) *most = n;
    }
    return n_processes;
}

/* A group goes through all devices, one after the other. Devices of one process take turns, so with n groups
 * the one that has most of them is busy n times with each. To be worth it, that has to be faster by a
 * twentieth than the parts of a step, which all wait for each other. */
uint32_t plan_groups(const struct engine_plan *plan, size_t n_tokens)
{
    struct cost cost;
    bool counts[PLACE_MAX_DEVICES];
    double least;
    uint32_t best = 1, most;
    if (plan->set.n_devices < 2 || n_tokens < 2 || n_tokens > plan->n_batch || plan->info.is_encoder ||
        plan->watch.kinds || !has_marks(plan))
        return best;
    const uint32_t n_devices = count_devices(plan, &cost, counts);
    const uint32_t n_processes = count_processes(plan, counts, &most);
    if (n_processes < 2) return best;
    best_part(&cost, (uint32_t)n_tokens, n_devices, &least);
    least *= 0.95;
    for (uint32_t n = 2; n <= n_processes && n <= PLAN_MAX_GROUPS && n <= n_tokens; n++) {
        const uint32_t times = n * most > n_devices ? n * most : n_devices;
        const double time = times * time_of(&cost, ((uint32_t)n_tokens + n - 1) / n);
        if (time >= least) continue;
        least = time;
        best = n;
    }
    return best;
}
