/* grow.c: how long the context is if the caller has not said. Weights are placed with room for the positions
 * that plan_read_options begins with. Then the cache grows, by what each device has left: to the trained
 * length for each sequence, or until the first device is full. Where even the first length does not fit into
 * the memory of the CPU, it shrinks. */
#include "common/assert.h"
#include "kv/cache.h"
#include "plan/internal.h"

#define LEAST_BLOCKS 128 /* the cache shrinks to 4,096 positions, no further */
#define MAX_ROUNDS   6

static int arrange(struct engine_plan *plan)
{
    plan_forget(plan);
    int status = plan_survey(plan);
    if (!status) status = plan_check_adapters(plan);
    return status ? status : plan_place_listed(plan);
}

static int arrange_blocks(struct engine_plan *plan, uint32_t n_blocks, uint32_t longest)
{
    const uint64_t n_positions = (uint64_t)n_blocks * KV_BLOCK_SIZE;
    plan->n_context = n_positions < longest ? (uint32_t)n_positions : longest;
    plan_set_blocks(plan, n_blocks);
    return arrange(plan);
}

/* The first device that is over its budget; n_devices: none is. */
static uint32_t overfull(const struct engine_plan *plan)
{
    uint32_t d = 0;
    while (d < plan->set.n_devices &&
           (plan->set.devices[d].budget == PLACE_NO_LIMIT || plan->used[d] <= plan->set.devices[d].budget))
        d++;
    return d;
}

/* Bytes that a block takes in a cache on this device; 0: the cache is elsewhere, or has no more blocks where
 * there are more positions. */
static uint64_t growing_bytes(const struct engine_plan *plan, const struct plan_cache *cache, uint32_t device)
{
    const bool grows = cache->pool == POOL_SEQUENCES && !cache->is_state && !cache->windowed;
    return grows && plan->device[cache->entry] == device ? cache->size / cache->n_blocks : 0;
}

uint64_t plan_block_bytes(const struct engine_plan *plan, uint32_t device)
{
    uint64_t bytes = 0;
    for (size_t c = 0; c < plan->n_caches; c++) bytes += growing_bytes(plan, &plan->caches[c], device);
    return bytes;
}

/* How many blocks more the caches of a device may have. */
static uint64_t room_of(const struct engine_plan *plan, uint32_t device, uint64_t most)
{
    const struct open_device *d = &plan->set.devices[device];
    const uint64_t block = plan_block_bytes(plan, device), max_buffer = device > 0 ? d->info.max_buffer : 0;
    if (block > 0 && device > 0 && plan->shares_devices) return 0;
    for (size_t c = 0; c < plan->n_caches && max_buffer > 0; c++) {
        const uint64_t bytes = growing_bytes(plan, &plan->caches[c], device);
        const uint64_t fits = bytes > 0 ? max_buffer / bytes : UINT64_MAX;
        if (fits < plan->n_blocks + most) most = fits > plan->n_blocks ? fits - plan->n_blocks : 0;
    }
    if (block == 0 || d->budget == PLACE_NO_LIMIT) return most;
    const uint64_t room = d->budget > plan->used[device] ? (d->budget - plan->used[device]) / block : 0;
    return room < most ? room : most;
}

/* How many blocks more the caches of the CPU may have by engine_limit_growth. */
static uint64_t growth_limit(const struct engine_plan *plan)
{
    struct claims *claims = &plan->model->engine->claims;
    const uint64_t block = plan_block_bytes(plan, 0);
    pthread_mutex_lock(&claims->lock);
    const uint64_t bytes = claims->max_grown;
    pthread_mutex_unlock(&claims->lock);
    return block > 0 && bytes < UINT64_MAX ? bytes / block : UINT64_MAX;
}

/* Adds blocks, fewer each time that what else grows with them does not fit or would move a weight. */
static int grow(struct engine_plan *plan, uint32_t longest, uint32_t most)
{
    const uint32_t n_blocks = plan->n_blocks, n_offloaded = plan->n_offloaded;
    uint64_t more = most - n_blocks;
    int status = ENGINE_OK;
    const uint64_t limit = growth_limit(plan);
    if (limit < more) more = limit, plan->limiting_device = 0;
    for (uint32_t d = 0; d < plan->set.n_devices; d++) {
        const uint64_t room = room_of(plan, d, more);
        if (room < more) more = room, plan->limiting_device = d;
    }
    for (int round = 0; more > 0 && !status; round++, more = more * 3 / 4) {
        if (round == MAX_ROUNDS) more = 0;
        status = arrange_blocks(plan, n_blocks + (uint32_t)more, longest);
        const uint32_t full = overfull(plan);
        if (status || (full == plan->set.n_devices && plan->n_offloaded == n_offloaded)) break;
        plan->limiting_device = full < plan->set.n_devices ? full : plan->set.n_devices - 1;
    }
    plan->n_ready_blocks = n_blocks;
    return status;
}

int plan_place(struct engine_plan *plan)
{
    if (!plan->grows) return arrange(plan);
    const uint32_t longest = plan_longest_context(&plan->info);
    uint64_t most = (uint64_t)kv_blocks_for(longest) * plan->n_sequences;
    if (most > INT32_MAX / KV_BLOCK_SIZE) most = INT32_MAX / KV_BLOCK_SIZE;
    int status = arrange_blocks(plan, plan->n_ready_blocks, longest);
    while (!status && overfull(plan) == 0 && plan->n_blocks > LEAST_BLOCKS)
        status = arrange_blocks(plan, plan->n_blocks / 2, longest);
    if (!status && plan->n_blocks < most && overfull(plan) == plan->set.n_devices)
        status = grow(plan, longest, (uint32_t)most);
    if (status) return status;
    ENGINE_ASSERT(kv_blocks_for(plan->n_context) <= plan->n_blocks);
    plan->limit = plan->n_context < longest   ? ENGINE_CONTEXT_MEMORY
                  : longest < plan->n_trained ? ENGINE_CONTEXT_ROPE
                                              : ENGINE_CONTEXT_TRAINED;
    return plan_check_needed(plan);
}
