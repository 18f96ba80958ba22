/* test-step-plan.c: what the queue does next, on paper: who starts, who gets how many tokens, who is put
 * back. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "queue/step-plan.h"

TestSuite(step_plan);

static const struct step_limits roomy = {
    .n_sequences = 8, .block = 32, .free_positions = 32 * 1000, .n_batch = 512, .n_chunk = 64};

static struct step_request waiting(size_t n_pending)
{
    return (struct step_request){.n_pending = n_pending};
}

static struct step_request reading(size_t n_cached, size_t n_pending)
{
    return (struct step_request){.running = true, .n_cached = n_cached, .n_pending = n_pending};
}

static struct step_request decoding(size_t n_cached)
{
    return (struct step_request){.running = true, .decoding = true, .n_cached = n_cached, .n_pending = 1};
}

static void expect(struct step_request *requests, size_t n, const struct step_limits *limits,
                   enum step_action action, size_t which)
{
    size_t got = SIZE_MAX;
    cr_assert_eq(step_plan(requests, n, limits, &got), action);
    if (which != SIZE_MAX) cr_assert_eq(got, which, "%zu, not %zu", got, which);
}

Test(step_plan, nothing_and_the_first)
{
    struct step_request one[] = {waiting(5)};
    expect(NULL, 0, &roomy, STEP_NOTHING, SIZE_MAX);
    expect(one, 1, &roomy, STEP_START, 0);
    one[0].running = true;
    expect(one, 1, &roomy, STEP_RUN, SIZE_MAX);
    cr_assert_eq(one[0].n_now, 5);
}

Test(step_plan, a_long_prompt_does_not_stop_those_who_decode)
{
    struct step_request requests[] = {reading(0, 10000), decoding(40), decoding(50)};
    expect(requests, 3, &roomy, STEP_RUN, SIZE_MAX);
    cr_assert_eq(requests[0].n_now, 64);
    cr_assert_eq(requests[1].n_now, 1);
    cr_assert_eq(requests[2].n_now, 1);
}

Test(step_plan, alone_a_prompt_takes_the_whole_batch)
{
    struct step_request requests[] = {reading(0, 10000)};
    expect(requests, 1, &roomy, STEP_RUN, SIZE_MAX);
    cr_assert_eq(requests[0].n_now, 512);
}

/* The first takes three quarters, the shortest the rest; what it leaves goes on to the next shortest. */
Test(step_plan, a_short_prompt_behind_a_long_one)
{
    struct step_request requests[] = {reading(0, 10000), reading(0, 300), reading(0, 20)};
    expect(requests, 3, &roomy, STEP_RUN, SIZE_MAX);
    cr_assert_eq(requests[0].n_now, 384);
    cr_assert_eq(requests[1].n_now, 108);
    cr_assert_eq(requests[2].n_now, 20);
}

Test(step_plan, priority_goes_before_brevity)
{
    struct step_request requests[] = {reading(0, 10000), reading(0, 20)};
    requests[0].priority = 1;
    expect(requests, 2, &roomy, STEP_RUN, SIZE_MAX);
    cr_assert_eq(requests[0].n_now, 512);
    cr_assert_eq(requests[1].n_now, 0);
}

Test(step_plan, several_tokens_of_one_that_decodes_go_together)
{
    struct step_request requests[] = {decoding(40)};
    requests[0].n_pending = 5; /* guessed ones among them */
    expect(requests, 1, &roomy, STEP_RUN, SIZE_MAX);
    cr_assert_eq(requests[0].n_now, 5);
}

Test(step_plan, one_that_waits_starts_when_there_is_a_sequence)
{
    struct step_limits limits = roomy;
    struct step_request requests[] = {decoding(40), decoding(10), waiting(3)};
    expect(requests, 3, &limits, STEP_START, 2);
    limits.n_sequences = 2;
    expect(requests, 3, &limits, STEP_RUN, SIZE_MAX);
    cr_assert_eq(requests[2].n_now, 0);
}

/* What it finds in the cache may be blocks that nobody has any more: they are among the free ones. */
Test(step_plan, what_is_found_counts_once)
{
    struct step_limits limits = roomy;
    limits.free_positions = 4 * 32;
    struct step_request requests[] = {decoding(33), {.n_cached = 64, .n_pending = 31}};
    expect(requests, 2, &limits, STEP_START, 1);
    requests[1].n_unowned = 64;
    expect(requests, 2, &limits, STEP_START, 1);
    limits.free_positions = 2 * 32;
    expect(requests, 2, &limits, STEP_RUN, SIZE_MAX);
    requests[1].n_unowned = 0; /* others have these blocks: they take no room */
    expect(requests, 2, &limits, STEP_START, 1);
}

/* Five blocks are free: three of them are for the rest of the prompt that is being read, one for who
 * decodes. */
Test(step_plan, room_that_others_need_is_not_given_away)
{
    struct step_limits limits = roomy;
    limits.free_positions = 5 * 32;
    struct step_request requests[] = {reading(32, 95), decoding(64), waiting(31)};
    expect(requests, 3, &limits, STEP_START, 2);
    requests[2].n_pending = 32; /* and the token behind it */
    expect(requests, 3, &limits, STEP_RUN, SIZE_MAX);
}

Test(step_plan, the_youngest_is_put_back)
{
    struct step_limits limits = roomy;
    limits.free_positions = 0;
    struct step_request requests[] = {decoding(64), decoding(40), decoding(41), waiting(7)};
    expect(requests, 4, &limits, STEP_PUT_BACK, 2);
    /* It may be the one that needs the room. */
    struct step_request itself[] = {decoding(40), decoding(64)};
    expect(itself, 2, &limits, STEP_PUT_BACK, 1);
    /* A prompt that finds none waits, as long as others go on. */
    struct step_request prompt[] = {decoding(40), reading(64, 10)};
    expect(prompt, 2, &limits, STEP_RUN, SIZE_MAX);
    cr_assert_eq(prompt[0].n_now, 1);
    cr_assert_eq(prompt[1].n_now, 0);
    /* One of higher rank doesn't. */
    struct step_request first[] = {reading(64, 10), decoding(40)};
    expect(first, 2, &limits, STEP_PUT_BACK, 1);
}

Test(step_plan, alone_in_a_full_cache)
{
    struct step_limits limits = roomy;
    limits.free_positions = 0;
    struct step_request requests[] = {decoding(64), waiting(7)};
    expect(requests, 2, &limits, STEP_FULL, 0);
    struct step_request prompt[] = {reading(64, 3)};
    expect(prompt, 1, &limits, STEP_FULL, 0);
    struct step_request large[] = {waiting(7)};
    expect(large, 1, &limits, STEP_FULL, 0);
}

Test(step_plan, higher_priorities_take_the_place_of_lower_ones)
{
    struct step_limits limits = roomy;
    limits.n_sequences = 2;
    struct step_request requests[] = {waiting(7), decoding(40), decoding(41)};
    expect(requests, 3, &limits, STEP_RUN, SIZE_MAX); /* equals do not */
    requests[0].priority = 1;
    expect(requests, 3, &limits, STEP_PUT_BACK, 2);
    requests[2] = waiting(42);
    expect(requests, 3, &limits, STEP_START, 0);
}

/* ---- A queue on paper: every request ends, for all sizes ---------------------------------------------- */

static uint32_t random_state;

static uint32_t below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

struct job {
    size_t n_prompt, n_wanted, n_tokens; /* tokens: the number so far */
};

#define MAX_JOBS 24

static uint64_t blocks(size_t n, uint32_t block)
{
    return (n + block - 1) / block;
}

static size_t sum_now(const struct step_request *requests, size_t n, bool decoding_ones)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        if (requests[i].decoding == decoding_ones) sum += requests[i].n_now;
    return sum;
}

/* Runs what was planned. Jobs that have their tokens leave. */
static void run_planned(struct step_request *requests, struct job *jobs, size_t *n)
{
    for (size_t i = *n; i-- > 0;) {
        struct step_request *request = &requests[i];
        if (request->n_now == 0) continue;
        cr_assert(request->running && request->n_now <= request->n_pending);
        request->n_cached += request->n_now;
        if (request->n_cached < jobs[i].n_tokens) continue;
        if (++jobs[i].n_tokens < jobs[i].n_prompt + jobs[i].n_wanted) continue;
        (*n)--;
        for (size_t j = i; j < *n; j++) requests[j] = requests[j + 1], jobs[j] = jobs[j + 1];
    }
}

static void try_queue(void)
{
    struct step_request requests[MAX_JOBS] = {0};
    struct job jobs[MAX_JOBS];
    struct step_limits limits = {.n_sequences = 1 + below(8),
                                 .block = 1 + below(40),
                                 .n_batch = 1 + below(100),
                                 .n_chunk = 1 + below(40)};
    uint64_t n_blocks = 0;
    size_t n = 1 + below(MAX_JOBS), steps = 0, actions = 0, which;
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (struct job){.n_prompt = 1 + below(200), .n_wanted = 1 + below(60)};
        jobs[i].n_tokens = jobs[i].n_prompt;
        requests[i].priority = (int32_t)(i < n / 4);
        uint64_t alone = blocks(jobs[i].n_prompt + jobs[i].n_wanted - 1, limits.block);
        if (alone > n_blocks) n_blocks = alone; /* so that each has room alone, if only just */
    }
    n_blocks += below(20);
    while (n > 0) {
        uint64_t used = 0;
        for (size_t i = 0; i < n; i++) {
            requests[i].n_pending = jobs[i].n_tokens - requests[i].n_cached;
            requests[i].decoding =
                requests[i].running && requests[i].n_cached > 0 && requests[i].n_pending == 1;
            used += blocks(requests[i].n_cached, limits.block);
        }
        cr_assert_leq(used, n_blocks);
        limits.free_positions = (n_blocks - used) * limits.block;
        enum step_action action = step_plan(requests, n, &limits, &which);
        cr_assert(action != STEP_FULL && action != STEP_NOTHING, "%d", (int)action);
        cr_assert_lt(++actions, 4 * MAX_JOBS, "it goes round in circles");
        if (action == STEP_START) {
            cr_assert(!requests[which].running);
            requests[which].running = true;
        } else if (action == STEP_PUT_BACK) {
            cr_assert(requests[which].running);
            requests[which].running = false;
            requests[which].n_cached = 0;
        } else {
            size_t n_running = 0, n_decoding = sum_now(requests, n, true);
            for (size_t i = 0; i < n; i++) n_running += requests[i].running;
            cr_assert_leq(n_running, limits.n_sequences);
            size_t prompts = sum_now(requests, n, false);
            cr_assert_gt(n_decoding + prompts, 0, "a step of nothing");
            cr_assert_leq(prompts, n_decoding > 0 ? limits.n_chunk : limits.n_batch);
            run_planned(requests, jobs, &n);
            actions = 0;
            cr_assert_lt(++steps, 100000, "it never ends");
        }
    }
}

Test(step_plan, everybody_gets_done)
{
    for (random_state = 1; random_state < 2000; random_state += 2) {
        uint32_t kept = random_state;
        try_queue();
        random_state = kept;
    }
}

/* ---- Beams ---- */

static struct step_request with_beams(struct step_request request, uint32_t n_beams, size_t n_parting)
{
    request.n_beside = n_beams - 1;
    request.n_growing = request.decoding ? n_beams - 1 : 0;
    request.n_parting = n_parting;
    return request;
}

Test(step_plan, beams_take_as_many_sequences)
{
    struct step_request requests[] = {with_beams(decoding(40), 4, 0), with_beams(waiting(10), 4, 3),
                                      waiting(3)};
    struct step_limits limits = roomy;
    expect(requests, 3, &limits, STEP_START, 1);
    limits.n_sequences = 7;
    expect(requests, 3, &limits, STEP_RUN, SIZE_MAX); /* and nobody overtakes it */
    struct step_request ranked[] = {requests[1], requests[0], requests[2]};
    ranked[0].priority = 1;
    expect(ranked, 3, &limits, STEP_PUT_BACK, 1);
}

Test(step_plan, beams_need_room_to_part)
{
    struct step_request requests[] = {decoding(40), with_beams(waiting(10), 4, 3)};
    struct step_limits limits = roomy;
    limits.free_positions = 4 * 32;
    expect(requests, 2, &limits, STEP_START, 1);
    limits.free_positions = 3 * 32;
    expect(requests, 2, &limits, STEP_RUN, SIZE_MAX);
}

Test(step_plan, beams_grow_together)
{
    struct step_request requests[] = {decoding(40), with_beams(decoding(64), 4, 0)};
    struct step_limits limits = roomy;
    limits.free_positions = 4 * 32;
    expect(requests, 2, &limits, STEP_RUN, SIZE_MAX);
    cr_assert_eq(requests[1].n_now, 1);
    limits.free_positions = 3 * 32;
    expect(requests, 2, &limits, STEP_PUT_BACK, 1);
    requests[1] = with_beams(decoding(65), 4, 3); /* in a block that all share */
    expect(requests, 2, &limits, STEP_RUN, SIZE_MAX);
    limits.free_positions = 2 * 32;
    expect(requests + 1, 1, &limits, STEP_FULL, 0);
}
