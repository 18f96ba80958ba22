/* test-kv.c: the bookkeeping of the paged cache. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "kv/cache.h"

Test(kv, positions_fill_blocks_in_order)
{
    struct kv_cache *cache = kv_create(2, 100);
    cr_assert_eq(kv_block_count(cache), 8);
    for (uint32_t i = 0; i < 70; i++) {
        int32_t slot = kv_append(cache, 0);
        cr_assert_eq(slot % KV_BLOCK_SIZE, (int)i % KV_BLOCK_SIZE);
        cr_assert_eq(slot / KV_BLOCK_SIZE, kv_blocks(cache, 0)[i / KV_BLOCK_SIZE]);
        kv_append(cache, 1);
    }
    cr_assert_eq(kv_length(cache, 0), 70);
    kv_destroy(cache);
}

Test(kv, a_full_sequence_takes_no_more)
{
    struct kv_cache *cache = kv_create(1, 33);
    for (int i = 0; i < 33; i++) cr_assert_geq(kv_append(cache, 0), 0);
    cr_assert_eq(kv_append(cache, 0), -1);
    cr_assert_eq(kv_length(cache, 0), 33);
    kv_destroy(cache);
}

/* Sequences grow and shrink at random: no slot ever belongs to two positions. */
Test(kv, no_slot_is_given_twice)
{
    enum { SEQUENCES = 5, POSITIONS = 130 };
    struct kv_cache *cache = kv_create(SEQUENCES, POSITIONS);
    static int32_t slots[SEQUENCES][POSITIONS];
    static int owner[SEQUENCES * 5 * KV_BLOCK_SIZE]; /* sequence * POSITIONS + position + 1, or 0 */
    srand(1);
    for (int round = 0; round < 20000; round++) {
        uint32_t sequence = (uint32_t)rand() % SEQUENCES, length = kv_length(cache, sequence);
        if (rand() % 8 == 0) {
            uint32_t kept = (uint32_t)rand() % (length + 1);
            for (uint32_t i = kept; i < length; i++) owner[slots[sequence][i]] = 0;
            kv_truncate(cache, sequence, kept);
            cr_assert_eq(kv_length(cache, sequence), kept);
            continue;
        }
        for (int n = rand() % 10; n > 0 && length < POSITIONS; n--, length++) {
            int32_t slot = kv_append(cache, sequence);
            cr_assert_geq(slot, 0);
            cr_assert_eq(owner[slot], 0, "slot %d", slot);
            owner[slot] = (int)(sequence * POSITIONS + length + 1);
            slots[sequence][length] = slot;
        }
    }
    kv_destroy(cache);
}
