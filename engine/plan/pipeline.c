/* pipeline.c: how batches are cut so that devices with different layers work at once: while one has a part of the batch,
 * those before it have the next ones. Streams keep the order, so a part finds the cache as the parts before it have left
 * it, and results don't change. */
#include "model/types.h"
#include "plan/plan.h"

/* How many tokens take as long to compute as reading the weights for them: few on one core, more with each core, which
 * share the memory, and with each byte of a weight; a GPU computes many. */
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

/* The number of such devices. */
static uint32_t count_devices(const struct engine_plan *plan, struct cost *cost)
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
        if (bytes[d] == 0 || bytes[d] < most / LEAST_SHARE) continue;
        n_devices++;
        if (plan->set.devices[d].info.kind != ENGINE_DEVICE_CPU && cost->reading < TOKENS_ON_A_GPU)
            cost->reading = TOKENS_ON_A_GPU;
    }
    cost->fixed = cost->reading / 2;
    if (are_floats && cost->fixed < TOKENS_OF_FLOATS) cost->fixed = TOKENS_OF_FLOATS;
    return n_devices;
}

/* Tokens of each part if a batch of n is cut into so many: numbers that few shapes of graphs have in common. */
static uint32_t part_of(uint32_t n, uint32_t n_parts)
{
    const uint32_t part = (n + n_parts - 1) / n_parts, step = part > 128 ? 16 : part > 16 ? 4 : 1;
    return (part + step - 1) / step * step;
}

/* With k devices and p parts, the batch takes p + k - 1 times as long as a part on one device. */
uint32_t plan_part(const struct engine_plan *plan, size_t n_tokens)
{
    struct cost cost;
    const uint32_t n = n_tokens < plan->n_batch ? (uint32_t)n_tokens : plan->n_batch;
    const uint32_t n_devices = count_devices(plan, &cost);
    uint32_t best = plan->n_batch;
    double least = 0;
    if (n_devices < 2 || plan->info.is_encoder || plan->watch.kinds) return best;
    for (uint32_t n_parts = 1; n_parts <= n; n_parts++) {
        const uint32_t part = part_of(n, n_parts);
        const uint32_t times = (n + part - 1) / part + n_devices - 1;
        const double time = (double)times * ((part > cost.reading ? part : cost.reading) + cost.fixed);
        if (n_parts > 1 && time >= least) continue;
        least = time;
        if (n_parts > 1) best = part;
    }
    return best;
}
