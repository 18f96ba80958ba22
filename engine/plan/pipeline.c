/* pipeline.c: how batches are cut so that devices with different layers work at once: while one has a part of the batch,
 * those before it have the next ones. Streams keep the order, so a part finds the cache as the parts before it have left
 * it, and results don't change. */
#include <math.h>

#include "plan/plan.h"

/* How many tokens take as long to compute as reading the weights for them: few on one core, more with each core, which
 * share the memory, and many on a GPU. */
#define TOKENS_PER_THREAD 4
#define TOKENS_ON_A_GPU   64

/* A device counts if it has at least this part of the products of the largest one's weights. */
#define LEAST_SHARE 8

/* The number of such devices, and for how many tokens the slowest to read its weights does that as long as it computes. */
static uint32_t count_devices(const struct engine_plan *plan, double *balance)
{
    uint64_t bytes[PLACE_MAX_DEVICES] = {0}, most = 0;
    uint32_t n_devices = 0;
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct plan_weight *weight = &plan->weights[i];
        if (weight->uses & (ENGINE_WEIGHT_MATMUL | ENGINE_WEIGHT_MATRICES))
            bytes[plan->device[i]] += weight->tensor->size;
    }
    for (uint32_t d = 0; d < plan->set.n_devices; d++)
        if (bytes[d] > most) most = bytes[d];
    *balance = TOKENS_PER_THREAD * (double)plan->n_threads;
    for (uint32_t d = 0; d < plan->set.n_devices; d++) {
        if (bytes[d] == 0 || bytes[d] < most / LEAST_SHARE) continue;
        n_devices++;
        if (plan->set.devices[d].info.kind != ENGINE_DEVICE_CPU && *balance < TOKENS_ON_A_GPU)
            *balance = TOKENS_ON_A_GPU;
    }
    return n_devices;
}

/* With k devices and n parts, the batch takes n + k - 1 times as long as a part on one device, and that takes as long as
 * `balance` tokens and the part's own. The sum of that is least for this n. */
uint32_t plan_part(const struct engine_plan *plan, size_t n_tokens)
{
    double balance, n = (double)(n_tokens < plan->n_batch ? n_tokens : plan->n_batch);
    const uint32_t n_devices = count_devices(plan, &balance);
    if (n_devices < 2 || plan->info.is_encoder || plan->watch.kinds) return plan->n_batch;
    double parts = floor(sqrt((n_devices - 1) * n / balance) + 0.5);
    if (parts > n / (2 * balance)) parts = floor(n / (2 * balance));
    if (parts < 2) return plan->n_batch;
    const uint32_t part = (uint32_t)ceil(n / parts), step = part > 128 ? 16 : part > 16 ? 4 : 1;
    return (part + step - 1) / step * step;
}
