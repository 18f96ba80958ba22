/* hash.c: see hash.h. Four lanes, each of every fourth word; a step is a bijection of the lane for a given
 * word, and of the word for a given lane. */
#include "hash.h"

#include <string.h>

#define FACTOR UINT64_C(0x9e3779b97f4a7c15) /* odd: 2^64 / the golden ratio */

enum { LANES = 4 };

static uint64_t hash_mix(uint64_t x)
{
    x = (x ^ x >> 32) * FACTOR;
    x = (x ^ x >> 29) * FACTOR;
    return x ^ x >> 32;
}

static uint64_t hash_step(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * FACTOR;
    return lane ^ lane >> 31;
}

struct hash hash_of(const void *data, size_t size)
{
    const uint8_t *at = data;
    uint64_t lanes[LANES] = {1, 2, 3, 4};
    const uint64_t length = size;
    for (; size >= LANES * sizeof(uint64_t); size -= LANES * sizeof(uint64_t)) {
        uint64_t words[LANES];
        memcpy(words, at, sizeof words);
        for (int i = 0; i < LANES; i++) lanes[i] = hash_step(lanes[i], words[i]);
        at += sizeof words;
    }
    uint64_t rest[LANES] = {0};
    if (size > 0) memcpy(rest, at, size);
    struct hash hash = {{hash_mix(length), hash_mix(~length)}};
    for (int i = 0; i < LANES; i++) {
        uint64_t lane = hash_step(lanes[i], rest[i]);
        hash.words[0] = hash_mix(hash.words[0] ^ lane);
        hash.words[1] = hash_mix(hash.words[1] + hash_mix(lane + FACTOR));
    }
    return hash;
}
