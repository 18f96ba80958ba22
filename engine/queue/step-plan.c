/* step-plan.c: see step-plan.h. */
#include "queue/step-plan.h"

#include "common/assert.h"

#define NONE SIZE_MAX

static uint64_t blocks_for(uint64_t positions, uint32_t block)
{
    return (positions + block - 1) / block;
}

/* Free blocks that a request takes for `n` more positions. */
static uint64_t blocks_more(const struct step_request *request, size_t n, uint32_t block)
{
    return blocks_for((uint64_t)request->n_cached + n, block) - blocks_for(request->n_cached, block);
}

/* The same for all of its sequences. */
static uint64_t blocks_more_each(const struct step_request *request, size_t n, uint32_t block)
{
    return (1 + (uint64_t)request->n_growing) * blocks_more(request, n, block) + request->n_parting;
}

/* Free blocks that a waiting request takes for `n` positions beyond those found in the cache. */
static uint64_t blocks_to_begin(const struct step_request *request, size_t n, uint32_t block)
{
    return blocks_for(request->n_unowned, block) + blocks_more(request, n, block);
}

/* How many of its next tokens a request can store in `n_blocks` more. */
static size_t fitting(const struct step_request *request, size_t n, uint64_t n_blocks, uint32_t block)
{
    uint64_t rest = (block - request->n_cached % block) % block; /* of the block it has begun */
    uint64_t most = rest + n_blocks * block;
    return n < most ? n : (size_t)most;
}

static size_t last_running(const struct step_request *requests, size_t n)
{
    while (n-- > 0)
        if (requests[n].running) return n;
    return NONE;
}

static size_t count_running(const struct step_request *requests, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += requests[i].running;
    return count;
}

/* The sequences that running requests have; `decoding`: only those that are decoded. */
static size_t count_sequences(const struct step_request *requests, size_t n, bool decoding)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (requests[i].running && (requests[i].decoding || !decoding))
            count += 1 + (decoding ? requests[i].n_growing : requests[i].n_beside);
    return count;
}

/* The free blocks that remain once each running request has what it needs for its next token. */
static uint64_t blocks_to_start(const struct step_request *requests, size_t n,
                                const struct step_limits *limits)
{
    uint64_t left = limits->free_positions / limits->block, needed = 0;
    for (size_t i = 0; i < n; i++)
        if (requests[i].running)
            needed += blocks_more_each(&requests[i], requests[i].n_pending + 1, limits->block);
    return needed < left ? left - needed : 0;
}

/* Starts the first waiting request, or chooses one to make room for it. STEP_RUN: neither. */
static enum step_action step_plan_start(const struct step_request *requests, size_t n,
                                        const struct step_limits *limits, size_t *which)
{
    size_t first = 0, n_running = count_running(requests, n);
    while (first < n && (requests[first].running || requests[first].held)) first++;
    if (first == n) return STEP_RUN;
    const struct step_request *request = &requests[first];
    *which = first;
    if (n_running == 0) { /* it has the whole cache: the token after the pending ones may need no position */
        uint64_t needed = blocks_to_begin(request, request->n_pending, limits->block);
        bool fits = needed * limits->block <= limits->free_positions;
        return fits ? STEP_START : STEP_FULL;
    }
    uint64_t needed = blocks_to_begin(request, request->n_pending + 1, limits->block) + request->n_parting;
    size_t n_sequences = count_sequences(requests, n, false) + 1 + request->n_beside;
    if (n_sequences <= limits->n_sequences && needed <= blocks_to_start(requests, n, limits))
        return STEP_START;
    size_t last = last_running(requests, n);
    if (requests[last].priority >= request->priority) return STEP_RUN;
    *which = last;
    return STEP_PUT_BACK;
}

/* Decoding requests get all of their tokens or none. STEP_RUN: there is room for each. */
static enum step_action take_decoding(struct step_request *requests, size_t n, uint32_t block,
                                      uint64_t *n_free, size_t *which)
{
    for (size_t i = 0; i < n; i++) {
        struct step_request *request = &requests[i];
        if (!request->running || !request->decoding) continue;
        uint64_t needed = blocks_more_each(request, request->n_pending, block);
        if (needed > *n_free) {
            *which = last_running(requests, n); /* it may be the request itself */
            return count_running(requests, n) > 1 ? STEP_PUT_BACK : STEP_FULL;
        }
        *n_free -= needed;
        request->n_now = request->n_pending;
    }
    return STEP_RUN;
}

/* Gives a prompt up to `most` more tokens. Returns how many. */
static size_t give(struct step_request *request, size_t most, uint32_t block, uint64_t *n_free)
{
    struct step_request then = *request;
    then.n_cached += request->n_now;
    size_t n = request->n_pending - request->n_now;
    if (n > most) n = most;
    n = fitting(&then, n, *n_free, block);
    *n_free -= blocks_more(&then, n, block);
    request->n_now += n;
    ENGINE_ASSERT(request->n_now <= request->n_pending);
    return n;
}

static bool reads_prompt(const struct step_request *request)
{
    return request->running && !request->decoding && request->n_now < request->n_pending;
}

/* Among the prompts of the highest priority that can take more tokens, the one with the fewest left. */
static size_t least_missing(const struct step_request *requests, size_t n, uint32_t block, uint64_t n_free)
{
    size_t best = NONE, least = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct step_request *request = &requests[i];
        if (best != NONE && request->priority < requests[best].priority) break;
        struct step_request then = *request;
        then.n_cached += request->n_now;
        if (!reads_prompt(request) || request->n_pending - request->n_now >= least ||
            fitting(&then, 1, n_free, block) == 0)
            continue;
        best = i;
        least = request->n_pending - request->n_now;
    }
    return best;
}

/* A prompt without room while lower ranks hold some puts back the last of those. */
static enum step_action room_for_prompt(const struct step_request *requests, size_t n, uint32_t block,
                                        uint64_t n_free, size_t *which)
{
    size_t first = 0, last = last_running(requests, n);
    while (first < n && !reads_prompt(&requests[first])) first++;
    if (first == n || fitting(&requests[first], 1, n_free, block) > 0) return STEP_RUN;
    *which = last;
    if (count_running(requests, n) == 1) return STEP_FULL;
    return last > first ? STEP_PUT_BACK : STEP_RUN;
}

/* By rank, each prompt that fits as a whole. */
static void take_whole_prompts(struct step_request *requests, size_t n, uint32_t block, uint64_t *n_free,
                               size_t budget)
{
    for (size_t i = 0; i < n; i++) {
        struct step_request *request = &requests[i];
        bool fits = request->n_pending <= budget &&
                    fitting(request, request->n_pending, *n_free, block) == request->n_pending;
        if (reads_prompt(request) && fits) budget -= give(request, budget, block, n_free);
    }
}

static void take_prompts(struct step_request *requests, size_t n, uint32_t block, uint64_t *n_free,
                         size_t budget)
{
    size_t by_rank = budget - budget / 4;
    for (size_t i = 0; i < n && by_rank > 0; i++) {
        if (!reads_prompt(&requests[i])) continue;
        size_t given = give(&requests[i], by_rank, block, n_free);
        by_rank -= given;
        budget -= given;
    }
    while (budget > 0) {
        size_t best = least_missing(requests, n, block, *n_free);
        if (best == NONE) break;
        budget -= give(&requests[best], budget, block, n_free);
    }
}

enum step_action step_plan(struct step_request *requests, size_t n, const struct step_limits *limits,
                           size_t *which)
{
    ENGINE_ASSERT(limits->free_positions % limits->block == 0);
    for (size_t i = 0; i < n; i++) {
        ENGINE_ASSERT(i == 0 || requests[i - 1].priority >= requests[i].priority);
        ENGINE_ASSERT(requests[i].n_pending > 0);
        requests[i].n_now = 0;
    }
    if (n == 0) return STEP_NOTHING;
    enum step_action action = step_plan_start(requests, n, limits, which);
    if (action != STEP_RUN) return action;
    uint64_t n_free = limits->free_positions / limits->block;
    action = take_decoding(requests, n, limits->block, &n_free, which);
    if (action != STEP_RUN) return action;

    action = room_for_prompt(requests, n, limits->block, n_free, which);
    if (action != STEP_RUN) return action;

    size_t n_decoding = count_sequences(requests, n, true);
    size_t room = limits->n_batch > n_decoding ? limits->n_batch - n_decoding : 1;
    size_t budget = n_decoding > 0 && limits->n_chunk < room ? limits->n_chunk : room;
    if (limits->whole)
        take_whole_prompts(requests, n, limits->block, &n_free, limits->n_batch);
    else
        take_prompts(requests, n, limits->block, &n_free, budget);
    return STEP_RUN;
}

size_t step_room(const struct step_request *requests, size_t n, const struct step_limits *limits,
                 size_t which)
{
    uint64_t n_free = limits->free_positions / limits->block, needed = 0;
    for (size_t i = 0; i < n; i++) {
        const struct step_request *request = &requests[i];
        size_t more = request->n_now + request->n_guess;
        needed += request->decoding ? blocks_more_each(request, more, limits->block)
                                    : blocks_more(request, more, limits->block);
    }
    struct step_request then = requests[which];
    then.n_cached += then.n_now + then.n_guess;
    return needed > n_free ? 0 : fitting(&then, SIZE_MAX, n_free - needed, limits->block);
}
