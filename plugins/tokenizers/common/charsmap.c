/* charsmap.c: see charsmap.h. */
#include "common/charsmap.h"

#include <stdlib.h>

#include "common/memory.h"

#define NO_UNIT ((uint32_t)-1)

static int fail_map(const char *what)
{
    return host->fail(ENGINE_ERROR_DATA,
                      "the character map (tokenizer.ggml.precompiled_charsmap) is damaged: %s", what);
}

static uint32_t read_u32(const char *bytes)
{
    const unsigned char *at = (const unsigned char *)bytes;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The children of a node are the units whose distance from its offset is the byte by which they are reached.
 * Sorted this way, all nodes can be visited in linear time. */
struct visits {
    size_t n_places;       /* n_units rounded up to a multiple of 256: where children can be counted from */
    uint32_t *first_child; /* [n_places] a unit, or NO_UNIT */
    uint32_t *next_child;  /* [n_units] */
    uint32_t *waiting;     /* [n_places] places whose children are still to be visited */
    size_t n_waiting;
};

/* Lists a place that is seen for the first time. Its children are removed from the lists once it is
 * visited. */
static void visit_later(struct visits *visits, uint32_t place)
{
    if (place < visits->n_places && visits->first_child[place] != NO_UNIT)
        visits->waiting[visits->n_waiting++] = place;
}

static int check_key(const struct charsmap *map, uint32_t place)
{
    if (place >= map->n_units) return fail_map("a key ends outside it");
    if (charsmap_value(map->units[place]) >= map->replacements_size)
        return fail_map("a replacement begins outside it");
    return ENGINE_OK;
}

static int check_units(const struct charsmap *map, struct visits *visits)
{
    memset(visits->first_child, 0xFF, visits->n_places * sizeof *visits->first_child);
    for (size_t i = map->n_units; i-- > 0;) {
        unsigned char byte = map->units[i] & 0xFF;
        size_t place = i ^ byte;
        if (!byte || !charsmap_is_by(map->units[i], byte)) continue;
        visits->next_child[i] = visits->first_child[place];
        visits->first_child[place] = (uint32_t)i;
    }
    int status = ENGINE_OK;
    visit_later(visits, charsmap_offset(map->units[0]));
    while (!status && visits->n_waiting) {
        uint32_t place = visits->waiting[--visits->n_waiting];
        uint32_t child = visits->first_child[place];
        visits->first_child[place] = NO_UNIT;
        for (; !status && child != NO_UNIT; child = visits->next_child[child]) {
            uint32_t below = child ^ charsmap_offset(map->units[child]);
            if (charsmap_ends_key(map->units[child])) status = check_key(map, below);
            visit_later(visits, below);
        }
    }
    return status;
}

/* Only the reachable part is checked: the rest of the array may hold anything. */
static int charsmap_check(const struct charsmap *map)
{
    size_t n_places = (map->n_units + 255) / 256 * 256;
    /* A place is listed again for each node that claims its children, at most once a unit. */
    struct visits visits = {n_places, allocate(n_places, sizeof(uint32_t)),
                            allocate(map->n_units, sizeof(uint32_t)),
                            allocate(map->n_units + 1, sizeof(uint32_t)), 0};
    int status = visits.first_child && visits.next_child && visits.waiting ? check_units(map, &visits)
                                                                           : fail_memory("character map");
    free(visits.first_child);
    free(visits.next_child);
    free(visits.waiting);
    return status;
}

/* Goes from a place to its child by `byte`, if it has one. */
static bool charsmap_step(const struct charsmap *map, uint32_t *place, int byte)
{
    uint32_t child = *place ^ (uint32_t)byte;
    if (child >= map->n_units || !charsmap_is_by(map->units[child], (unsigned char)byte)) return false;
    *place = child ^ charsmap_offset(map->units[child]);
    return true;
}

static void find_plain(struct charsmap *map)
{
    for (int first = 1; first < 128; first++) {
        uint32_t place = charsmap_offset(map->units[0]), child = place ^ (uint32_t)first;
        map->plain[first] = true;
        if (!charsmap_step(map, &place, first)) continue;
        map->plain[first] = !charsmap_ends_key(map->units[child]);
        for (int second = 1; second < 128 && map->plain[first]; second++) {
            uint32_t below = place;
            map->plain[first] = !charsmap_step(map, &below, second);
        }
    }
}

int charsmap_open(struct charsmap *map, struct engine_string bytes)
{
    memset(map, 0, sizeof *map);
    memset(map->plain + 1, true, sizeof map->plain - 1);
    if (bytes.length < 4) return fail_map("it has no size");
    size_t size = read_u32(bytes.data);
    if (size >= bytes.length - 4) return fail_map("it is truncated");
    map->replacements = bytes.data + 4 + size;
    map->replacements_size = bytes.length - 4 - size;
    if (map->replacements[map->replacements_size - 1]) return fail_map("the last replacement has no end");
    if (size < 4) return ENGINE_OK;
    map->units = allocate(size / 4, sizeof *map->units);
    if (!map->units) return fail_memory("character map");
    map->n_units = size / 4;
    for (size_t i = 0; i < map->n_units; i++) map->units[i] = read_u32(bytes.data + 4 + 4 * i);
    find_plain(map);
    return charsmap_check(map);
}

void charsmap_close(struct charsmap *map)
{
    free(map->units);
    memset(map, 0, sizeof *map);
}
