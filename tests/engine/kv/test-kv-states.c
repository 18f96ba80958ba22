/* test-kv-states.c: sequences whose model keeps states: they go on only from where their state is known,
 * which is where they end, where a prompt began, or where one ended. The copies of states are carried out on
 * numbers here: each state is the sum of the tokens that it has seen. */
#include <criterion/criterion.h>

#include "kv/cache.h"

enum { N = 3, N_STATES = 6, LENGTH = 200 };

static struct kv_cache *cache;
static int64_t states[N_STATES];

static void begin(void)
{
    cache = kv_create(N, LENGTH, 20);
    cr_assert(cache && kv_add_states(cache));
    cr_assert_eq(kv_states_for(N), N_STATES);
    for (int i = 0; i < N_STATES; i++) states[i] = -1000000;
}

static void end(void)
{
    kv_destroy(cache);
}

TestSuite(kv_states, .init = begin, .fini = end);

static void make_copies(void)
{
    size_t count;
    const struct kv_state_copy *copies = kv_state_copies(cache, &count);
    for (size_t i = 0; i < count; i++) {
        cr_assert(copies[i].from < N_STATES && copies[i].to < N_STATES);
        states[copies[i].to] = states[copies[i].from];
    }
    kv_states_made(cache);
}

/* A batch of `count` tokens first, first + 1, … of a sequence. */
static void run(uint32_t sequence, int32_t first, uint32_t count)
{
    uint32_t growth[N] = {0};
    growth[sequence] = count;
    kv_begin(cache, growth);
    make_copies();
    for (uint32_t i = 0; i < count; i++) {
        if (kv_length(cache, sequence) == 0) states[sequence] = 0;
        cr_assert_geq(kv_append(cache, sequence, first + (int32_t)i), 0);
        states[sequence] += first + (int32_t)i;
    }
    kv_copied(cache);
    kv_commit(cache);
}

/* The state of a sequence must be the sum of its tokens. */
static void check(uint32_t sequence, uint32_t length)
{
    int32_t tokens[LENGTH];
    int64_t sum = 0;
    make_copies();
    cr_assert_eq(kv_length(cache, sequence), length, "%u instead of %u", kv_length(cache, sequence), length);
    kv_tokens(cache, sequence, 0, length, tokens);
    for (uint32_t i = 0; i < length; i++) sum += tokens[i];
    if (length > 0) cr_assert_eq(states[sequence], sum, "of %u tokens", length);
}

Test(kv_states, a_sequence_is_cut_back_to_where_a_turn_began)
{
    run(0, 0, 10);                                  /* a prompt */
    for (int32_t i = 10; i < 20; i++) run(0, i, 1); /* a reply */
    run(0, 20, 5);                                  /* another prompt */
    run(0, 25, 1);
    check(0, 26);
    kv_truncate(cache, 0, 25);
    check(0, 25);
    kv_truncate(cache, 0, 24);
    check(0, 20);
    kv_truncate(cache, 0, 19);
    check(0, 10);
    run(0, 100, 3); /* other tokens than before */
    kv_truncate(cache, 0, 12);
    check(0, 10);
    kv_truncate(cache, 0, 9);
    check(0, 0);
    run(0, 7, 2);
    check(0, 2);
}

Test(kv_states, a_copy_has_the_state_of_its_end_or_of_a_snapshot)
{
    run(0, 0, 40);
    run(0, 40, 1);
    kv_share(cache, 0, 1, UINT32_MAX);
    check(1, 41);
    kv_share(cache, 0, 2, 40);
    check(2, 40);
    kv_share(cache, 0, 2, 39);
    check(2, 0);
    run(1, 5, 30);
    check(1, 71);
    check(0, 41);
    kv_share(cache, 1, 1, 50); /* of itself */
    check(1, 41);
}

Test(kv_states, snapshots_that_were_used_last_stay)
{
    run(0, 0, 10);
    run(0, 10, 1); /* 10 */
    run(0, 11, 9); /* 11 */
    run(0, 20, 1); /* 20: as many as fit */
    kv_share(cache, 0, 1, 10);
    check(1, 10);
    run(0, 21, 5); /* 21, in place of 11 */
    kv_share(cache, 0, 2, 19);
    check(2, 10);
    kv_share(cache, 0, 2, 20);
    check(2, 20);
    kv_share(cache, 0, 2, 25);
    check(2, 21);
}

/* Of a prompt that is read in pieces, one place between them is known. */
Test(kv_states, a_long_prompt_leaves_others_their_snapshots)
{
    run(1, 0, 10);
    run(1, 10, 1);
    for (int32_t i = 0; i < 100; i += 10) run(0, i, 10);
    kv_share(cache, 0, 2, 95);
    check(2, 90);
    kv_share(cache, 0, 2, 89);
    check(2, 0);
    kv_truncate(cache, 1, 10);
    check(1, 10);
}

Test(kv_states, beginnings_are_found_where_a_state_is_known)
{
    int32_t tokens[LENGTH];
    for (int32_t i = 0; i < LENGTH; i++) tokens[i] = i;
    run(0, 0, 64);
    run(0, 64, 1);
    cr_assert_eq(kv_reuse(cache, 1, tokens, 100), 65);
    check(1, 65);
    cr_assert_eq(kv_reuse(cache, 2, tokens, 64), 64);
    check(2, 64);
    cr_assert_eq(kv_reuse(cache, 2, tokens, 63), 0, "blocks alone are not enough");
    check(2, 0);
    tokens[64] = 9;
    cr_assert_eq(kv_reuse(cache, 0, tokens, 100), 64);
    check(0, 64);
}

Test(kv_states, what_was_not_computed_is_taken_back)
{
    uint32_t growth[N] = {5};
    run(0, 0, 10);
    kv_begin(cache, growth);
    make_copies();
    for (int32_t i = 0; i < 5; i++) kv_append(cache, 0, i);
    states[0] = 12345; /* a run that failed */
    kv_truncate(cache, 0, 10);
    kv_copies_failed(cache);
    check(0, 10); /* the snapshot is still there, although the copy back counts as failed */
    kv_begin(cache, growth);
    make_copies();
    kv_append(cache, 0, 77);
    states[0] = 12345;
    kv_truncate(cache, 0, 10);
    check(0, 10);
}
