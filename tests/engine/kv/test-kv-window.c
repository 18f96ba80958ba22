/* test-kv-window.c: the pool of layers with a window: what is in reach is there, the rest is given up, and a
 * sequence is only as long as it can be continued. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "kv/cache.h"

enum { B = KV_BLOCK_SIZE };

static int32_t text[1000];

/* text[i] = i */
static void write_text(void)
{
    for (int i = 0; i < 1000; i++) text[i] = i;
}

/* Appends tokens first, first + 1, … and takes them for computed. */
static void grow(struct kv_cache *cache, uint32_t sequence, int32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        cr_assert_geq(kv_append(cache, sequence, first + (int32_t)i), 0, "token %u", i);
    kv_copied(cache);
    kv_commit(cache);
}

/* The same in pieces, as prompts are read. */
static void read_prompt(struct kv_cache *cache, uint32_t sequence, int32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += KV_PROMPT_PIECE)
        grow(cache, sequence, first + (int32_t)i, KV_PROMPT_PIECE);
}

static struct kv_cache *create(uint32_t n_blocks, uint32_t window, uint32_t n_places)
{
    struct kv_cache *cache = kv_create(3, 30 * B, n_blocks);
    cr_assert(cache && kv_add_window(cache, window, n_places));
    write_text();
    return cache;
}

/* A window of a block, 5 places: those in reach, one in which the reach begins, one to grow into, one
 * kept. */
Test(kv_window, a_long_sequence_needs_no_more_places_than_a_short_one)
{
    struct kv_cache *cache = create(40, B, 5);
    read_prompt(cache, 0, 0, 30 * B);
    cr_assert_eq(kv_length(cache, 0), 30 * B);
    cr_assert_eq(kv_window_first(cache, 0), 25, "all places hold the sequence's last blocks");
    kv_destroy(cache);
}

Test(kv_window, places_that_are_all_in_reach_end_the_growth)
{
    struct kv_cache *cache = create(40, 3 * B, 3);
    for (int32_t i = 0; i < 3 * B; i++) grow(cache, 0, i, 1);
    cr_assert_eq(kv_append(cache, 0, 1), -1);
    cr_assert_eq(kv_free_count(cache), 37);
    kv_destroy(cache);
}

/* Lets a sequence grow until there are no more places that nobody has in reach. */
static void take_all_places(struct kv_cache *cache, uint32_t sequence)
{
    while (kv_append(cache, sequence, 7) >= 0) continue;
}

/* Guesses that were wrong never cost more than themselves. */
Test(kv_window, rewinding_a_few_positions_always_works)
{
    struct kv_cache *cache = create(40, B + 5, 8);
    uint32_t length = 0;
    srand(2);
    while (length < 29 * B) {
        grow(cache, 0, (int32_t)length, 1);
        length++;
        if (rand() % 8 != 0) continue;
        uint32_t back = (uint32_t)rand() % 17;
        if (back > length || length - back > 29 * B) continue;
        /* As many positions at once as are taken back, as speculation does. */
        grow(cache, 0, (int32_t)length, back);
        take_all_places(cache, 1);
        kv_truncate(cache, 0, length);
        cr_assert_eq(kv_length(cache, 0), length);
        kv_truncate(cache, 1, 0);
    }
    for (int i = 0; i < 20; i++) grow(cache, 0, (int32_t)length++, 1);
    take_all_places(cache, 1);
    kv_truncate(cache, 0, length - KV_REWIND);
    cr_assert_eq(kv_length(cache, 0), length - KV_REWIND);
    kv_destroy(cache);
}

Test(kv_window, going_back_too_far_ends_where_the_sequence_can_continue)
{
    struct kv_cache *cache = create(40, 2 * B, 7);
    read_prompt(cache, 0, 0, 20 * B);
    cr_assert_eq(kv_window_first(cache, 0), 13);
    kv_truncate(cache, 0, 15 * B + 3);
    cr_assert_eq(kv_length(cache, 0), 15 * B + 3, "block 13 is the first in reach");
    kv_truncate(cache, 0, 15 * B - 1);
    cr_assert_eq(kv_length(cache, 0), 0);
    cr_assert_eq(kv_free_count(cache), 40);
    kv_destroy(cache);
}

Test(kv_window, copies_and_beginnings_are_as_long_as_can_be_continued)
{
    struct kv_cache *cache = create(60, 2 * B, 12);
    grow(cache, 0, 0, 6 * B);
    kv_share(cache, 0, 1, 4 * B + 5);
    cr_assert_eq(kv_length(cache, 1), 4 * B + 5);
    cr_assert_eq(kv_reuse(cache, 2, text, 3 * B + 5), 3 * B);
    kv_truncate(cache, 1, 0);
    kv_truncate(cache, 2, 0);
    read_prompt(cache, 0, 6 * B, 14 * B);
    cr_assert_eq(kv_window_first(cache, 0), 8);
    kv_share(cache, 0, 1, 4 * B + 5);
    cr_assert_eq(kv_length(cache, 1), 0);
    cr_assert_eq(kv_reuse(cache, 2, text, 9 * B), 0);
    cr_assert_eq(kv_reuse(cache, 2, text, 15 * B + 7), 15 * B);
    kv_share(cache, 0, 1, 20 * B - 7);
    cr_assert_eq(kv_length(cache, 1), 20 * B - 7);
    kv_destroy(cache);
}

/* A beginning whose places are gone is computed again, and then found again. */
Test(kv_window, what_is_computed_again_can_be_found_again)
{
    struct kv_cache *cache = create(60, 2 * B, 12);
    grow(cache, 0, 0, 5 * B);
    kv_truncate(cache, 0, 0);
    read_prompt(cache, 1, 500, 12 * B);
    kv_truncate(cache, 1, 0);
    cr_assert_eq(kv_reuse(cache, 0, text, 5 * B), 0);
    grow(cache, 0, 0, 5 * B);
    cr_assert_eq(kv_reuse(cache, 2, text, 5 * B), 5 * B);
    cr_assert_eq(kv_blocks(cache, 0)[3], kv_blocks(cache, 2)[3]);
    cr_assert_eq(kv_free_count(cache), 55);
    kv_destroy(cache);
}

/* What is generated after a prompt does not push out the prompt's end. */
Test(kv_window, prompts_are_kept_rather_than_what_was_generated_after_them)
{
    struct kv_cache *cache = create(60, B, 9);
    grow(cache, 0, 0, 4 * B);
    for (int32_t i = 4 * B; i < 20 * B; i++) grow(cache, 0, i, 1);
    cr_assert_eq(kv_reuse(cache, 1, text, 4 * B + 5), 4 * B);
    cr_assert_lt(kv_reuse(cache, 2, text, 12 * B), 8 * B, "the middle of what was generated is gone");
    kv_truncate(cache, 0, 0);
    kv_truncate(cache, 2, 0);
    cr_assert_eq(kv_reuse(cache, 2, text, 20 * B), 20 * B, "but not its end");

    /* As part of a prompt it is a prompt. */
    for (uint32_t s = 0; s < 3; s++) kv_truncate(cache, s, 0);
    grow(cache, 0, 500, 9 * B);
    kv_truncate(cache, 0, 0);
    grow(cache, 0, 0, 8 * B);
    for (int32_t i = 8 * B; i < 20 * B; i++) grow(cache, 0, i, 1);
    cr_assert_eq(kv_reuse(cache, 1, text, 8 * B + 5), 8 * B);
    kv_destroy(cache);
}

Test(kv_window, restored_sequences_have_places_from_where_they_are_told)
{
    struct kv_cache *cache = create(60, 2 * B, 8);
    uint32_t first = 5;
    cr_assert(!kv_restore(cache, 0, text, 6 * B, &first), "block 4 is missing");
    cr_assert_eq(kv_length(cache, 0), 0);
    first = 4;
    cr_assert(kv_restore(cache, 0, text, 6 * B, &first));
    cr_assert_eq(first, 4);
    kv_commit(cache);
    cr_assert_eq(kv_window_first(cache, 0), 4);
    cr_assert_eq(kv_reuse(cache, 1, text, 20 * B), 6 * B);
    first = 0;
    cr_assert(kv_restore(cache, 2, text + 50, 12 * B, &first));
    cr_assert_eq(first, 6, "two of eight places are in reach of others");
    kv_commit(cache);
    kv_destroy(cache);
}

Test(kv_window, the_pool_is_sized_for_what_is_in_reach)
{
    cr_assert_eq(kv_places_for(1024, 1, 512, 1024), 33 + 2 + 32 + 16);
    cr_assert_eq(kv_places_for(128, 4, 512, 1024), 4 * (5 + 2 + 32) + 16);
    cr_assert_eq(kv_places_for(4096, 4, 512, 5000), 4 * (129 + 2 + 128) + 16);
    cr_assert_eq(kv_places_for(1024, 8, 512, 128), 128, "never more than there are blocks");
    cr_assert_eq(kv_places_for(1 << 25, 4096, 512, INT32_MAX / B), INT32_MAX / B);
}

/* ---- Random operations against a simple model ---- */

enum {
    SEQUENCES = 4,
    POSITIONS = 14 * B,
    N_BLOCKS = 50,
    WINDOW = 45,
    MOST = 3 * B, /* positions of a batch */
    N_PLACES = SEQUENCES * ((WINDOW + KV_REWIND + B - 1) / B + 2) + MOST / B + 1,
    TOKENS = 2
};

static int32_t texts[SEQUENCES][POSITIONS];
static uint64_t memory[N_BLOCKS * B],
    window_memory[N_PLACES * B]; /* by slot: the hash of the text up to there */
static uint64_t hashes[SEQUENCES][POSITIONS + 1];
static uint32_t lengths[SEQUENCES];

/* hashes[s][i]: of the first i tokens */
static void hash_texts(void)
{
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        hashes[s][0] = 1;
        for (uint32_t i = 0; i < lengths[s]; i++)
            hashes[s][i + 1] = (hashes[s][i] + (uint64_t)texts[s][i] + 1) * 0x100000001b3u;
    }
}

/* What attention sees: each position from `first` on, through the window and without. */
static void check_seen(const struct kv_cache *cache, uint32_t s, uint32_t first)
{
    static int32_t table[POSITIONS / B + 1];
    const int32_t *blocks = kv_blocks(cache, s);
    memset(table, -1, sizeof table);
    kv_window_table(cache, s, table);
    for (uint32_t i = 0; i < lengths[s]; i++)
        cr_assert_eq(memory[blocks[i / B] * B + (int32_t)(i % B)], hashes[s][i + 1],
                     "sequence %u, position %u", s, i);
    for (uint32_t i = first >= WINDOW ? first - WINDOW + 1 : 0; i < lengths[s]; i++) {
        cr_assert(table[i / B] >= 0 && table[i / B] < N_PLACES, "sequence %u, block %u of %u", s, i / B,
                  lengths[s]);
        cr_assert_eq(window_memory[table[i / B] * B + (int32_t)(i % B)], hashes[s][i + 1],
                     "sequence %u, position %u of %u, from %u on", s, i, lengths[s], first);
    }
}

static void check_contents(const struct kv_cache *cache)
{
    bool owned[N_BLOCKS] = {false};
    uint32_t n_owned = 0;
    hash_texts();
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        cr_assert_eq(kv_length(cache, s), lengths[s]);
        check_seen(cache, s, lengths[s]);
        cr_assert_leq(kv_window_first(cache, s), kv_window_required(cache, lengths[s]));
        for (uint32_t i = 0; i < kv_blocks_for(lengths[s]); i++) {
            n_owned += !owned[kv_blocks(cache, s)[i]];
            owned[kv_blocks(cache, s)[i]] = true;
        }
    }
    cr_assert_eq(kv_free_count(cache), N_BLOCKS - n_owned);
}

static void make_copies(struct kv_cache *cache)
{
    size_t count;
    const struct kv_copy *copies = kv_copies(cache, &count);
    for (size_t i = 0; i < count; i++) {
        const struct kv_copy *c = &copies[i];
        memcpy(&memory[c->to * B], &memory[c->from * B], B * sizeof *memory);
        memcpy(&window_memory[c->window_to * B], &window_memory[c->window_from * B], B * sizeof *memory);
    }
    kv_copied(cache);
}

enum fate { WORKS, FAILS, FAILS_BEFORE_COPIES };

static void run_batch(struct kv_cache *cache, enum fate fate)
{
    uint32_t growth[SEQUENCES] = {0}, before[SEQUENCES], left = MOST;
    static int32_t slots[SEQUENCES][MOST], window_slots[SEQUENCES][MOST];
    for (int n = rand() % SEQUENCES; n >= 0; n--) {
        uint32_t s = (uint32_t)rand() % SEQUENCES, most = POSITIONS - lengths[s];
        if (growth[s]) continue;
        growth[s] = (uint32_t)rand() % (rand() % 4 ? 4 : MOST);
        if (growth[s] > most) growth[s] = most;
        if (growth[s] > left) growth[s] = left;
        left -= growth[s];
    }
    if (kv_needed(cache, growth) > kv_free_count(cache)) return;
    memcpy(before, lengths, sizeof before);
    for (uint32_t s = 0; s < SEQUENCES; s++)
        for (uint32_t i = 0; i < growth[s]; i++) {
            int32_t token = texts[s][lengths[s]++] = rand() % 64 ? 0 : rand() % TOKENS;
            slots[s][i] = kv_append(cache, s, token);
            cr_assert_geq(slots[s][i], 0);
            window_slots[s][i] = kv_window_slot(cache, slots[s][i]);
            cr_assert(window_slots[s][i] >= 0 && window_slots[s][i] < N_PLACES * B);
        }
    hash_texts();
    if (fate != FAILS_BEFORE_COPIES) make_copies(cache);
    for (uint32_t s = 0; s < SEQUENCES && fate != FAILS_BEFORE_COPIES; s++)
        for (uint32_t i = 0; i < growth[s]; i++)
            memory[slots[s][i]] = window_memory[window_slots[s][i]] =
                fate == WORKS ? hashes[s][before[s] + i + 1] : 0;
    if (fate == WORKS) {
        for (uint32_t s = 0; s < SEQUENCES; s++) check_seen(cache, s, before[s]);
        kv_commit(cache);
        return;
    }
    for (uint32_t s = 0; s < SEQUENCES; s++) kv_truncate(cache, s, before[s]);
    kv_copies_failed(cache);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        lengths[s] = kv_length(cache, s);
        cr_assert_leq(lengths[s], before[s]);
        if (fate == FAILS) cr_assert_eq(lengths[s], before[s]);
    }
}

/* A sequence became `wanted` positions long, or as long as it could be continued. */
static void take_length(const struct kv_cache *cache, uint32_t s, uint32_t wanted)
{
    lengths[s] = kv_length(cache, s);
    cr_assert_leq(lengths[s], wanted);
    if (lengths[s] < wanted) cr_assert_eq(lengths[s] % B, 0, "it ends before a block without a place");
}

static void reuse(struct kv_cache *cache, uint32_t s)
{
    int32_t wanted[POSITIONS];
    uint32_t n = (uint32_t)rand() % POSITIONS + 1;
    for (uint32_t i = 0; i < n; i++) wanted[i] = rand() % 128 ? 0 : rand() % TOKENS;
    uint32_t found = kv_reuse(cache, s, wanted, n);
    cr_assert_leq(found, n);
    memcpy(texts[s], wanted, sizeof wanted);
    lengths[s] = found;
}

static void restore(struct kv_cache *cache, uint32_t s)
{
    uint32_t length = lengths[s], growth[SEQUENCES] = {0}, first = kv_window_first(cache, s), begin;
    static int32_t tokens[POSITIONS];
    hash_texts();
    kv_truncate(cache, s, 0);
    lengths[s] = 0;
    growth[s] = length;
    if (kv_needed(cache, growth) > kv_free_count(cache)) return;
    memcpy(tokens, texts[s], sizeof tokens);
    begin = first;
    cr_assert(kv_restore(cache, s, tokens, length, &begin));
    cr_assert_geq(begin, first);
    lengths[s] = length;
    for (uint32_t i = 0; i < length; i++) {
        int32_t slot = kv_blocks(cache, s)[i / B] * B + (int32_t)(i % B);
        memory[slot] = hashes[s][i + 1];
        if (i / B >= begin) window_memory[kv_window_slot(cache, slot)] = hashes[s][i + 1];
    }
    kv_commit(cache);
}

Test(kv_window, contents_in_reach_are_right)
{
    struct kv_cache *cache = kv_create(SEQUENCES, POSITIONS, N_BLOCKS);
    cr_assert(cache && kv_add_window(cache, WINDOW, N_PLACES));
    srand(1);
    for (int round = 0; round < 30000; round++) {
        uint32_t s = (uint32_t)rand() % SEQUENCES, t = (uint32_t)rand() % SEQUENCES;
        uint32_t n = (uint32_t)rand() % (lengths[s] + 2), back = (uint32_t)rand() % 4;
        switch (rand() % 12) {
        case 0: /* a little, which always works, except again and again */
            n = lengths[s] > back ? lengths[s] - back : 0;
            kv_truncate(cache, s, n);
            take_length(cache, s, n < lengths[s] ? n : lengths[s]);
            break;
        case 1:
            kv_truncate(cache, s, n);
            take_length(cache, s, n < lengths[s] ? n : lengths[s]);
            break;
        case 2:
            if (rand() % 2) n = lengths[s];
            memmove(texts[t], texts[s], sizeof *texts);
            kv_share(cache, s, t, n);
            take_length(cache, t, n < lengths[s] ? n : lengths[s]);
            break;
        case 3: reuse(cache, s); break;
        case 4: run_batch(cache, (enum fate)(rand() % 3)); break;
        case 5: restore(cache, s); break;
        default: run_batch(cache, WORKS);
        }
        check_contents(cache);
    }
    kv_destroy(cache);
}
