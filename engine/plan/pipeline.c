/* pipeline.c: how batches are cut so that devices with different layers work at once: while one has a part of the batch,
 * those before it have the next ones. Streams keep the order, so a part finds the cache as the parts before it have left
 * it, and results don't change. */
#include "plan/plan.h"

/* With k devices and n parts, all parts take the time of n + k - 1 on one device. Parts should still be long enough for a
 * device to do its best: a processor needs few tokens for that, a GPU many. */
#define PARTS_PER_DEVICE 16
#define LEAST_ON_CPUS    32
#define LEAST_ON_GPUS    128

/* A device counts if it has at least this part of the products of the largest one's weights. */
#define LEAST_SHARE 8

uint32_t plan_part(const struct engine_plan *plan, size_t n_tokens)
{
    uint64_t bytes[PLACE_MAX_DEVICES] = {0}, most = 0;
    uint32_t n_devices = 0, least = LEAST_ON_CPUS;
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct plan_weight *weight = &plan->weights[i];
        if (weight->uses & (ENGINE_WEIGHT_MATMUL | ENGINE_WEIGHT_MATRICES))
            bytes[plan->device[i]] += weight->tensor->size;
    }
    for (uint32_t d = 0; d < plan->set.n_devices; d++)
        if (bytes[d] > most) most = bytes[d];
    for (uint32_t d = 0; d < plan->set.n_devices; d++) {
        if (bytes[d] == 0 || bytes[d] < most / LEAST_SHARE) continue;
        n_devices++;
        if (plan->set.devices[d].info.kind != ENGINE_DEVICE_CPU) least = LEAST_ON_GPUS;
    }
    if (n_devices < 2 || plan->info.is_encoder || plan->watch.kinds) return plan->n_batch;
    size_t part = n_tokens / ((size_t)PARTS_PER_DEVICE * (n_devices - 1)) / 16 * 16;
    if (part < least) part = least;
    return part < plan->n_batch ? (uint32_t)part : plan->n_batch;
}
