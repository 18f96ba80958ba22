/* charsmap.h: SentencePiece's precompiled character map: the sequences of bytes that are replaced in the text
 * before it is tokenized. The keys are in a double array of 32-bit units whose transitions are exclusive ors
 * (Yata's darts-clone; Kanda, "Space- and Time-Efficient String Dictionaries", 2018), followed by the
 * replacements, each ended by NUL. */
#ifndef TOKENIZERS_COMMON_CHARSMAP_H
#define TOKENIZERS_COMMON_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "plugin-api.h"

struct charsmap {
    uint32_t *units; /* [n_units]; none: nothing is replaced */
    size_t n_units;
    const char *replacements; /* [replacements_size], the last byte is NUL */
    size_t replacements_size;
    bool plain[128]; /* by itself or followed by ASCII, the character is never replaced */
};

/* Reads and checks a map: everything that can be reached in it is within its bounds. The replacements stay
 * where they are. ENGINE_ERROR_DATA, ENGINE_ERROR_MEMORY; *map may be closed either way. */
int charsmap_open(struct charsmap *map, struct engine_string bytes);
void charsmap_close(struct charsmap *map);

/* A unit is a node: bits 0 to 7 are the byte by which it is reached; bit 8 says that a key ends here; bits 10
 * to 30, shifted left by eight if bit 9 is set, are the offset of its children. If a key ends, the unit in
 * the place of a child by byte 0 has bit 31 set and gives the start of the replacement. */
static inline bool charsmap_is_by(uint32_t unit, unsigned char byte)
{
    return (unit & (1u << 31 | 0xFF)) == byte;
}

static inline bool charsmap_ends_key(uint32_t unit)
{
    return unit >> 8 & 1;
}

static inline uint32_t charsmap_offset(uint32_t unit)
{
    return (unit >> 10) << (unit >> 6 & 8);
}

static inline uint32_t charsmap_value(uint32_t unit)
{
    return unit & (((uint32_t)1 << 31) - 1);
}

/* The length of the longest key that `text` begins with, and its replacement; 0 if there is none. */
static inline size_t charsmap_find(const struct charsmap *map, const char *text, size_t length,
                                   struct engine_string *replacement)
{
    if (!map->n_units) return 0;
    size_t found = 0, start = 0;
    uint32_t at = charsmap_offset(map->units[0]);
    for (size_t i = 0; i < length && text[i]; i++) {
        at ^= (unsigned char)text[i];
        if (at >= map->n_units || !charsmap_is_by(map->units[at], (unsigned char)text[i])) break;
        bool ends = charsmap_ends_key(map->units[at]);
        at ^= charsmap_offset(map->units[at]);
        if (ends) {
            found = i + 1;
            start = charsmap_value(map->units[at]);
        }
    }
    if (found)
        *replacement = (struct engine_string){map->replacements + start, strlen(map->replacements + start)};
    return found;
}

/* The same for the shortest key. */
static inline size_t charsmap_find_shortest(const struct charsmap *map, const char *text, size_t length,
                                            struct engine_string *replacement)
{
    if (!map->n_units) return 0;
    uint32_t at = charsmap_offset(map->units[0]);
    for (size_t i = 0; i < length && text[i]; i++) {
        at ^= (unsigned char)text[i];
        if (at >= map->n_units || !charsmap_is_by(map->units[at], (unsigned char)text[i])) return 0;
        bool ends = charsmap_ends_key(map->units[at]);
        at ^= charsmap_offset(map->units[at]);
        if (!ends) continue;
        const char *found = map->replacements + charsmap_value(map->units[at]);
        *replacement = (struct engine_string){found, strlen(found)};
        return i + 1;
    }
    return 0;
}

#endif
