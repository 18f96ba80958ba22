/* test-kv.c: the bookkeeping of the paged cache: who owns which block, what can be found, what is copied. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/cache.h"

enum { B = KV_BLOCK_SIZE };

/* Appends tokens first, first + 1, … and takes them for computed. */
static void grow(struct kv_cache *cache, uint32_t sequence, int32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        cr_assert_geq(kv_append(cache, sequence, first + (int32_t)i), 0, "token %u", i);
    kv_copied(cache);
    kv_commit(cache);
}

static uint32_t needed_by(struct kv_cache *cache, uint32_t sequence, uint32_t count)
{
    uint32_t growth[8] = {0};
    growth[sequence] = count;
    return kv_needed(cache, growth);
}

Test(kv, positions_fill_blocks_in_order)
{
    struct kv_cache *cache = kv_create(2, 100, 8);
    for (uint32_t i = 0; i < 70; i++) {
        int32_t slot = kv_append(cache, 0, (int32_t)i);
        cr_assert_eq(slot % B, (int)i % B);
        cr_assert_eq(slot / B, kv_blocks(cache, 0)[i / B]);
        kv_append(cache, 1, -(int32_t)i);
    }
    cr_assert_eq(kv_length(cache, 0), 70);
    cr_assert_eq(kv_free_count(cache), 2);
    kv_destroy(cache);
}

Test(kv, a_full_sequence_takes_no_more)
{
    struct kv_cache *cache = kv_create(1, 33, 2);
    grow(cache, 0, 0, 33);
    cr_assert_eq(kv_append(cache, 0, 1), -1);
    cr_assert_eq(kv_length(cache, 0), 33);
    kv_destroy(cache);
}

Test(kv, closed_blocks_are_not_there_until_they_are_opened)
{
    struct kv_cache *cache = kv_create(2, 10 * B, 10);
    kv_close(cache, 2);
    cr_assert_eq(kv_closed_count(cache), 8);
    cr_assert_eq(kv_free_count(cache), 2);
    grow(cache, 0, 0, 2 * B);
    cr_assert_eq(kv_append(cache, 0, 7), -1);
    kv_open(cache, 3);
    cr_assert_eq(kv_closed_count(cache), 5);
    cr_assert_eq(kv_empty_count(cache), 3);
    grow(cache, 0, 100, 3 * B);
    cr_assert_eq(kv_append(cache, 0, 7), -1);
    kv_truncate(cache, 0, 0);
    cr_assert_eq(kv_empty_count(cache), 0, "they are found again");
    cr_assert_eq(kv_free_count(cache), 5);
    kv_open(cache, 5);
    grow(cache, 1, 1000, 10 * B);
    kv_destroy(cache);
}

Test(kv, an_empty_pool_gives_nothing)
{
    struct kv_cache *cache = kv_create(3, 100, 3);
    grow(cache, 0, 0, B + 1);
    cr_assert_eq(needed_by(cache, 1, 1), 1);
    grow(cache, 1, 0, 1);
    cr_assert_eq(kv_free_count(cache), 0);
    cr_assert_eq(needed_by(cache, 2, 1), 1);
    cr_assert_eq(kv_append(cache, 2, 0), -1);
    cr_assert_eq(needed_by(cache, 0, B - 1), 0);
    cr_assert_eq(needed_by(cache, 0, B), 1);
    kv_truncate(cache, 0, B);
    cr_assert_eq(kv_free_count(cache), 1);
    kv_destroy(cache);
}

Test(kv, copies_share_blocks_until_one_goes_on)
{
    struct kv_cache *cache = kv_create(3, 200, 8);
    size_t count;
    grow(cache, 0, 0, 2 * B + 5);
    kv_share(cache, 0, 1, 2 * B + 3);
    kv_share(cache, 0, 2, UINT32_MAX);
    cr_assert_eq(kv_length(cache, 1), 2 * B + 3);
    cr_assert_eq(kv_length(cache, 2), 2 * B + 5);
    cr_assert_eq(kv_free_count(cache), 5);

    /* Of three that go on, two need a copy of the last block. */
    cr_assert_eq(kv_needed(cache, (const uint32_t[]){1, 1, 1}), 2);
    cr_assert_eq(kv_needed(cache, (const uint32_t[]){1, 1, 0}), 2);
    int32_t block = kv_blocks(cache, 0)[2], slot = kv_append(cache, 1, 99);
    const struct kv_copy *copies = kv_copies(cache, &count);
    cr_assert(count == 1 && copies[0].from == block && copies[0].to == slot / B && copies[0].sequence == 1);
    cr_assert(slot % B == 3 && slot / B != block);
    kv_append(cache, 0, 100);
    cr_assert_eq(kv_append(cache, 2, 101), block * B + 5);
    kv_copies(cache, &count);
    cr_assert_eq(count, 2);
    kv_copied(cache);
    int32_t tokens[6];
    kv_tokens(cache, 1, 2 * B, 4, tokens);
    cr_assert(tokens[2] == 2 * B + 2 && tokens[3] == 99);
    kv_tokens(cache, 0, 2 * B, 6, tokens);
    cr_assert(tokens[4] == 2 * B + 4 && tokens[5] == 100);
    cr_assert_eq(kv_free_count(cache), 3);
    kv_destroy(cache);
}

/* A copy that could not be made: its sequence ends before the block. */
Test(kv, failed_copies_are_forgotten)
{
    struct kv_cache *cache = kv_create(2, 200, 8);
    grow(cache, 0, 0, B + 5);
    kv_share(cache, 0, 1, B + 5);
    kv_append(cache, 1, 7);
    kv_truncate(cache, 1, B + 5);
    kv_copies_failed(cache);
    cr_assert_eq(kv_length(cache, 1), B);
    cr_assert_eq(kv_length(cache, 0), B + 5);
    cr_assert_eq(kv_free_count(cache), 6);
    kv_destroy(cache);
}

static int32_t text[1000];

/* text[i] = i */
static void write_text(void)
{
    for (int i = 0; i < 1000; i++) text[i] = i;
}

Test(kv, beginnings_are_found_whoever_has_them)
{
    struct kv_cache *cache = kv_create(3, 400, 20);
    write_text();
    grow(cache, 0, 0, 3 * B + 7);
    cr_assert_eq(kv_reuse(cache, 1, text, 3 * B + 7), 3 * B);
    cr_assert_eq(kv_reuse(cache, 1, text, 3 * B - 1), 3 * B - 1); /* its own, to the last position */
    cr_assert_eq(kv_reuse(cache, 2, text + 1, 200), 0);
    cr_assert_eq(kv_reuse(cache, 2, text, 2 * B), 2 * B);
    cr_assert_eq(kv_free_count(cache), 16);

    /* Text that nobody has any more is found all the same; what is within a block is not. */
    for (uint32_t s = 0; s < 3; s++) kv_truncate(cache, s, 0);
    cr_assert_eq(kv_free_count(cache), 20);
    text[2 * B + 1] = -1;
    cr_assert_eq(kv_reuse(cache, 1, text, 400), 2 * B);
    text[2 * B + 1] = 2 * B + 1;
    cr_assert_eq(kv_reuse(cache, 1, text, 400), 3 * B);

    /* A sequence goes on from what it has itself. */
    grow(cache, 1, 3 * B, 40);
    kv_reuse(cache, 2, text, 3 * B);
    grow(cache, 2, 3 * B, 40);
    cr_assert_eq(kv_blocks(cache, 1)[3], kv_blocks(cache, 2)[3]); /* computed twice, kept once */
    cr_assert_neq(kv_blocks(cache, 1)[4], kv_blocks(cache, 2)[4]);
    cr_assert_eq(kv_reuse(cache, 2, text, 4 * B + 3), 4 * B + 3);
    kv_destroy(cache);
}

Test(kv, what_has_not_been_computed_is_not_found)
{
    struct kv_cache *cache = kv_create(2, 400, 20);
    write_text();
    for (int i = 0; i < 2 * B; i++) kv_append(cache, 0, i);
    cr_assert_eq(kv_reuse(cache, 1, text, 400), 0);
    kv_truncate(cache, 0, 0);
    kv_commit(cache);
    cr_assert_eq(kv_reuse(cache, 1, text, 400), 0);
    kv_destroy(cache);
}

Test(kv, the_least_recently_used_go_first)
{
    struct kv_cache *cache = kv_create(2, 400, 6);
    write_text();
    grow(cache, 0, 0, 2 * B);
    kv_truncate(cache, 0, 0);
    grow(cache, 0, 500, 2 * B);
    kv_truncate(cache, 0, 0);
    kv_reuse(cache, 0, text, 2 * B); /* used again */
    kv_truncate(cache, 0, 0);
    grow(cache, 1, 900, 2 * B + 1); /* takes the two that are free, and one */
    cr_assert_eq(kv_reuse(cache, 0, text + 500, 2 * B), B);
    cr_assert_eq(kv_reuse(cache, 0, text, 2 * B), 2 * B);
    kv_destroy(cache);
}

/* A block that an earlier text went on from keeps its tokens: what came after them must not be taken for what
 * comes after others. */
Test(kv, a_text_that_takes_another_turn_leaves_the_first_one_findable)
{
    struct kv_cache *cache = kv_create(2, 400, 8);
    write_text();
    grow(cache, 0, 0, 3 * B);
    kv_truncate(cache, 0, B + 5);
    grow(cache, 0, 500, B - 5);
    cr_assert_eq(kv_reuse(cache, 1, text, 3 * B), 3 * B);
    kv_truncate(cache, 1, 0);
    memmove(text + B + 5, text + 500, (B - 5) * sizeof *text);
    cr_assert_eq(kv_reuse(cache, 1, text, 3 * B), 2 * B);
    kv_destroy(cache);
}

/* ---- Random operations against a simple model ---- */

enum { SEQUENCES = 6, POSITIONS = 5 * B, POOL = 17, TOKENS = 2 };

static int32_t texts[SEQUENCES][POSITIONS];
static uint64_t memory[POOL * B]; /* by slot: the hash of the text up to there */
static uint32_t lengths[SEQUENCES];

static uint64_t hash_text(const int32_t *tokens, uint32_t n)
{
    uint64_t hash = 1;
    for (uint32_t i = 0; i < n; i++) hash = (hash + (uint64_t)tokens[i] + 1) * 0x100000001b3u;
    return hash;
}

/* Every position of every sequence has its own text's contents, and no block is counted wrong. */
static void check_contents(const struct kv_cache *cache)
{
    bool owned[POOL] = {false};
    uint32_t n_owned = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        int32_t tokens[POSITIONS];
        cr_assert_eq(kv_length(cache, s), lengths[s]);
        kv_tokens(cache, s, 0, lengths[s], tokens);
        cr_assert_arr_eq(tokens, texts[s], lengths[s] * sizeof *tokens);
        const int32_t *blocks = kv_blocks(cache, s);
        for (uint32_t i = 0; i < lengths[s]; i++)
            cr_assert_eq(memory[blocks[i / B] * B + (int32_t)(i % B)], hash_text(texts[s], i + 1),
                         "sequence %u, position %u", s, i);
        for (uint32_t i = 0; i < kv_blocks_for(lengths[s]); i++) {
            n_owned += !owned[blocks[i]];
            owned[blocks[i]] = true;
        }
    }
    cr_assert_eq(kv_free_count(cache), POOL - n_owned);
}

enum fate { WORKS, FAILS, FAILS_BEFORE_COPIES };

static void run_batch(struct kv_cache *cache, enum fate fate)
{
    uint32_t growth[SEQUENCES] = {0}, before[SEQUENCES];
    int32_t slots[SEQUENCES][POSITIONS];
    for (int n = rand() % SEQUENCES; n >= 0; n--) {
        uint32_t s = (uint32_t)rand() % SEQUENCES, most = POSITIONS - lengths[s];
        growth[s] = (uint32_t)rand() % (rand() % 4 ? 4 : 2 * B);
        if (growth[s] > most) growth[s] = most;
    }
    if (kv_needed(cache, growth) > kv_free_count(cache)) return;
    memcpy(before, lengths, sizeof before);
    for (uint32_t s = 0; s < SEQUENCES; s++)
        for (uint32_t i = 0; i < growth[s]; i++) {
            int32_t token = texts[s][lengths[s]++] = rand() % 16 ? 0 : rand() % TOKENS;
            slots[s][i] = kv_append(cache, s, token);
            cr_assert_geq(slots[s][i], 0);
        }
    if (fate != FAILS_BEFORE_COPIES) {
        size_t count;
        const struct kv_copy *copies = kv_copies(cache, &count);
        for (size_t i = 0; i < count; i++)
            memcpy(&memory[copies[i].to * B], &memory[copies[i].from * B], B * sizeof *memory);
        kv_copied(cache);
    }
    for (uint32_t s = 0; s < SEQUENCES && fate != FAILS_BEFORE_COPIES; s++)
        for (uint32_t i = 0; i < growth[s]; i++)
            memory[slots[s][i]] = fate == WORKS ? hash_text(texts[s], before[s] + i + 1) : 0;
    if (fate == WORKS) {
        kv_commit(cache);
        return;
    }
    for (uint32_t s = 0; s < SEQUENCES; s++) kv_truncate(cache, s, before[s]);
    kv_copies_failed(cache);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        lengths[s] = kv_length(cache, s);
        cr_assert(lengths[s] == before[s] ||
                  (fate == FAILS_BEFORE_COPIES && lengths[s] == before[s] / B * B));
    }
}

static uint32_t count_common(const int32_t *a, uint32_t n, const int32_t *b, uint32_t m)
{
    uint32_t i = 0;
    while (i < n && i < m && a[i] == b[i]) i++;
    return i;
}

static void reuse(struct kv_cache *cache, uint32_t s)
{
    int32_t wanted[POSITIONS];
    uint32_t n = (uint32_t)rand() % POSITIONS + 1, least = 0;
    for (uint32_t i = 0; i < n; i++) wanted[i] = rand() % 40 ? 0 : rand() % TOKENS;
    for (uint32_t t = 0; t < SEQUENCES; t++) {
        uint32_t common = count_common(wanted, n, texts[t], lengths[t]);
        if (t != s) common = common / B * B;
        if (common > least) least = common;
    }
    uint32_t found = kv_reuse(cache, s, wanted, n);
    cr_assert(found >= least && found <= n, "%u of %u, should be %u", found, n, least);
    memcpy(texts[s], wanted, sizeof wanted);
    lengths[s] = found;
}

Test(kv, contents_stay_who_they_belong_to)
{
    struct kv_cache *cache = kv_create(SEQUENCES, POSITIONS, POOL);
    srand(1);
    for (int round = 0; round < 20000; round++) {
        uint32_t s = (uint32_t)rand() % SEQUENCES, t = (uint32_t)rand() % SEQUENCES;
        uint32_t n = (uint32_t)rand() % (lengths[s] + 2);
        switch (rand() % 8) {
        case 0:
            if (rand() % 4) n = lengths[s] > 3 ? lengths[s] - 3 : 0;
            kv_truncate(cache, s, n);
            if (n < lengths[s]) lengths[s] = n;
            break;
        case 1:
            kv_share(cache, s, t, n);
            memmove(texts[t], texts[s], sizeof *texts);
            lengths[t] = n < lengths[s] ? n : lengths[s];
            break;
        case 2: reuse(cache, s); break;
        case 3: run_batch(cache, (enum fate)(rand() % 3)); break;
        default: run_batch(cache, WORKS);
        }
        check_contents(cache);
    }
    kv_destroy(cache);
}
