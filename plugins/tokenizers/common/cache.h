/* cache.h: remembers the ids of short words. Texts repeat their words; a cached word need not be merged
 * again. Only words whose ids depend on nothing but their bytes may be cached. */
#ifndef TOKENIZERS_COMMON_CACHE_H
#define TOKENIZERS_COMMON_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CACHE_WORD_SIZE 31 /* longest word, bytes */
#define CACHE_IDS       7  /* most ids of a word */
#define CACHE_BITS      15 /* log2 of the slots: 2 MiB, only the used part of which becomes memory */

/* A word padded with zeros; the last byte is its length. */
struct cache_key {
    uint64_t words[4];
};

struct cache_slot {
    struct cache_key key;
    uint32_t count;
    int32_t ids[CACHE_IDS];
};

struct cache {
    struct cache_slot *slots; /* [1 << CACHE_BITS]; one place for each word, the last one stored wins */
};

/* ENGINE_ERROR_MEMORY. */
int cache_create(struct cache *cache);
void cache_destroy(struct cache *cache);

/* length: 1 to CACHE_WORD_SIZE; `readable`: bytes from text on that may be read. */
static inline struct cache_key cache_key(const char *text, size_t length, size_t readable)
{
    struct cache_key key = {{0, 0, 0, 0}};
    if (readable < sizeof key) {
        memcpy(&key, text, length);
    } else {
        memcpy(&key, text, sizeof key);
        for (size_t i = 0; i < 4; i++) {
            size_t kept = length > 8 * i ? length - 8 * i : 0;
            uint64_t mask = kept >= 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * kept) - 1;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
            mask = __builtin_bswap64(mask);
#endif
            key.words[i] &= mask;
        }
    }
    ((unsigned char *)&key)[CACHE_WORD_SIZE] = (unsigned char)length;
    return key;
}

/* The slot of a word: it holds this word, another one, or (key all zero) none. */
static inline struct cache_slot *cache_slot(const struct cache *cache, const struct cache_key *key)
{
    uint64_t hash = (key->words[0] ^ key->words[2] * 0xC2B2AE3D27D4EB4Fu) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
    hash += (key->words[1] ^ key->words[3]) * 0x165667B19E3779F9u;
    hash *= 0x9FB21C651E98DF25u;
    return &cache->slots[hash >> (64 - CACHE_BITS)];
}

static inline bool cache_holds(const struct cache_slot *slot, const struct cache_key *key)
{
    return ((slot->key.words[0] ^ key->words[0]) | (slot->key.words[1] ^ key->words[1]) |
            (slot->key.words[2] ^ key->words[2]) | (slot->key.words[3] ^ key->words[3])) == 0;
}

#endif
