/* charsmap.c: see charsmap.h. A trie is made of the keys, then its nodes are given places in the double
 * array, first fit. */
#include "charsmap.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 1024
#define N_UNITS   4096
#define MAX_TEXT  4096

struct node {
    int children[256]; /* 0: none */
    int value;         /* where the replacement begins, or -1 */
};

struct charsmap_writer {
    struct node nodes[MAX_NODES];
    int n_nodes;
    uint32_t units[N_UNITS];
    bool taken[N_UNITS];   /* units */
    bool counted[N_UNITS]; /* places from which some node counts its children: one node each */
    char replacements[MAX_TEXT];
    size_t n_replacements;
    char bytes[4 + 4 * N_UNITS + MAX_TEXT];
};

struct charsmap_writer *charsmap_create(void)
{
    struct charsmap_writer *map = calloc(1, sizeof *map);
    cr_assert(map);
    map->nodes[0].value = -1;
    map->n_nodes = 1;
    return map;
}

void charsmap_destroy(struct charsmap_writer *map)
{
    free(map);
}

void charsmap_add(struct charsmap_writer *map, const char *key, const char *replacement)
{
    int node = 0;
    for (; *key; key++) {
        int *child = &map->nodes[node].children[(unsigned char)*key];
        if (!*child) {
            cr_assert(map->n_nodes < MAX_NODES);
            *child = map->n_nodes++;
            map->nodes[*child].value = -1;
        }
        node = *child;
    }
    size_t length = strlen(replacement) + 1;
    cr_assert(map->n_replacements + length <= MAX_TEXT);
    memcpy(map->replacements + map->n_replacements, replacement, length);
    map->nodes[node].value = (int)map->n_replacements;
    map->n_replacements += length;
}

static bool fits(const struct charsmap_writer *map, const struct node *node, uint32_t place)
{
    if (map->counted[place] || (node->value >= 0 && map->taken[place])) return false;
    for (uint32_t byte = 1; byte < 256; byte++)
        if (node->children[byte] && map->taken[place ^ byte]) return false;
    return true;
}

/* Writes what is below a node whose unit is at `index`. */
static void place_node(struct charsmap_writer *map, int at, uint32_t index)
{
    const struct node *node = &map->nodes[at];
    uint32_t place = 256; /* not the root's own */
    while (!fits(map, node, place)) cr_assert(++place < N_UNITS);
    map->counted[place] = true;
    map->units[index] |= (index ^ place) << 10;
    if (node->value >= 0) {
        map->units[index] |= 1u << 8;
        map->units[place] = 1u << 31 | (uint32_t)node->value;
        map->taken[place] = true;
    }
    for (uint32_t byte = 1; byte < 256; byte++) {
        if (!node->children[byte]) continue;
        map->units[place ^ byte] = byte;
        map->taken[place ^ byte] = true;
    }
    for (uint32_t byte = 1; byte < 256; byte++)
        if (node->children[byte]) place_node(map, node->children[byte], place ^ byte);
}

static char *write_u32(char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++) *to++ = (char)(value >> 8 * i & 0xFF);
    return to;
}

struct engine_string charsmap_bytes(struct charsmap_writer *map)
{
    map->taken[0] = true;
    place_node(map, 0, 0);
    char *to = write_u32(map->bytes, 4 * N_UNITS);
    for (size_t i = 0; i < N_UNITS; i++) to = write_u32(to, map->units[i]);
    memcpy(to, map->replacements, map->n_replacements);
    return (struct engine_string){map->bytes, (size_t)(to - map->bytes) + map->n_replacements};
}
