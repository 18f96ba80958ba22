/* words.c: many words as an automaton that is as small as it can be, such as the values of an "enum".
 *
 * Words are added in order of their bytes. What follows the bytes that a word shares with the next one is complete
 * then, and becomes nodes from the end on, each only if there is no such node yet (Daciuk, Mihov, Watson, Watson:
 * Incremental construction of minimal acyclic finite-state automata, 2000). */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "grammar/compile.h"
#include "grammar/reserve.h"

/* A place within the last word: what else may follow there. */
struct place {
    size_t first; /* of its edges, which end where those of the next place begin */
    bool ends;    /* a word ends here */
};

/* A node in the table; 0: free. Its hash stands beside it, because a look at the node itself mostly waits for memory. */
struct known {
    uint32_t node, hash;
};

struct word_compiler {
    struct compiler *compiler;
    uint32_t next;           /* after the words */
    struct place *places;    /* [n_places] one for each byte of the last word, and one more */
    struct byte_edge *edges; /* [n_edges] */
    struct known *table;     /* [n_table] nodes by their edges */
    uint64_t seed;           /* of their hashes */
    size_t n_places, n_edges, n_table, n_known, place_capacity, edge_capacity;
};

static int by_bytes(const void *left, const void *right)
{
    const struct engine_string *a = left, *b = right;
    size_t length = a->length < b->length ? a->length : b->length;
    int order = length > 0 ? memcmp(a->data, b->data, length) : 0;
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* The NODE_BYTES of a node that compile_words has made. */
static const struct node *bytes_of(const struct word_compiler *words, uint32_t at)
{
    const struct automaton *automaton = words->compiler->automaton;
    const struct node *node = &automaton->nodes[at];
    return node->kind == NODE_FORK ? &automaton->nodes[automaton->targets[node->first]] : node;
}

/* Targets are consecutive numbers and bytes are few, so each bit has to reach all others: nodes whose hashes lie beside
 * each other would make a search as long as the table. */
static uint32_t hash_edges(uint64_t seed, const struct byte_edge *edges, size_t count, bool ends)
{
    uint64_t hash = seed + ends;
    for (size_t i = 0; i < count; i++) {
        hash ^= (uint64_t)edges[i].target << 16 | (uint64_t)edges[i].low << 8 | edges[i].high;
        hash *= 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static bool grow_words(struct word_compiler *words)
{
    if (words->n_known * 2 < words->n_table) return true;
    size_t size = words->n_table ? words->n_table * 2 : 256;
    struct known *table = calloc(size, sizeof *table);
    if (!table) {
        words->compiler->status = error_memory("grammar");
        return false;
    }
    for (size_t i = 0; i < words->n_table; i++) {
        if (!words->table[i].node) continue;
        size_t at = words->table[i].hash & (size - 1);
        while (table[at].node) at = (at + 1) & (size - 1);
        table[at] = words->table[i];
    }
    free(words->table);
    words->table = table;
    words->n_table = size;
    return true;
}

static bool has_edges(const struct word_compiler *words, uint32_t at, const struct byte_edge *edges,
                      size_t count, bool ends)
{
    const struct automaton *automaton = words->compiler->automaton;
    const struct node *node = bytes_of(words, at);
    const struct byte_edge *others = automaton->edges + node->first;
    bool same = node->count == count && (automaton->nodes[at].kind == NODE_FORK) == ends;
    for (size_t i = 0; i < count && same; i++)
        same = edges[i].low == others[i].low && edges[i].high == others[i].high &&
               edges[i].target == others[i].target;
    return same;
}

/* The node with these edges, after which a word may end. */
static uint32_t node_with(struct word_compiler *words, const struct byte_edge *edges, size_t count, bool ends)
{
    if (count == 0) return words->next;
    if (words->compiler->status || !grow_words(words)) return 0;
    uint32_t hash = hash_edges(words->seed, edges, count, ends);
    size_t mask = words->n_table - 1, at = hash & mask;
    for (; words->table[at].node; at = (at + 1) & mask)
        if (words->table[at].hash == hash && has_edges(words, words->table[at].node, edges, count, ends))
            return words->table[at].node;
    uint32_t made = compile_bytes(words->compiler, edges, count);
    if (ends) made = compile_fork(words->compiler, made, words->next);
    words->table[at] = (struct known){made, hash};
    words->n_known++;
    return made;
}

/* Makes nodes of the places after the first `keep` bytes of `word`, the last one that was added. */
static void close_places(struct word_compiler *words, struct engine_string word, size_t keep)
{
    while (words->n_places > keep + 1 && !words->compiler->status) {
        struct place place = words->places[--words->n_places];
        uint32_t node =
            node_with(words, words->edges + place.first, words->n_edges - place.first, place.ends);
        uint8_t byte = (uint8_t)word.data[words->n_places - 1];
        words->n_edges = place.first;
        struct byte_edge *last = words->n_edges > words->places[words->n_places - 1].first
                                     ? &words->edges[words->n_edges - 1]
                                     : NULL;
        if (last && last->target == node && last->high + 1 == byte)
            last->high = byte;
        else
            words->edges[words->n_edges++] = (struct byte_edge){byte, byte, node};
    }
}

static void add_word(struct word_compiler *words, struct engine_string last, struct engine_string word)
{
    size_t same = 0;
    while (same < last.length && same < word.length && last.data[same] == word.data[same]) same++;
    close_places(words, last, same);
    /* One edge for each open place is enough beside those that are there. */
    if (!reserve(&words->compiler->status, (void **)&words->places, &words->place_capacity, word.length + 1,
                 sizeof *words->places) ||
        !reserve(&words->compiler->status, (void **)&words->edges, &words->edge_capacity,
                 words->n_edges + word.length + 1, sizeof *words->edges))
        return;
    while (words->n_places <= word.length)
        words->places[words->n_places++] = (struct place){.first = words->n_edges};
    words->places[word.length].ends = true;
}

uint32_t compile_words(struct compiler *compiler, struct engine_string *list, size_t count, uint32_t next)
{
    struct word_compiler words = {.compiler = compiler, .next = next};
    /* Nobody can choose words whose nodes have the same hash without knowing this. Without it, all goes on. */
    if (getrandom(&words.seed, sizeof words.seed, GRND_NONBLOCK) != sizeof words.seed) words.seed = 1;
    struct engine_string last = {"", 0};
    uint32_t found = 0;
    qsort(list, count, sizeof *list, by_bytes);
    for (size_t i = 0; i < count && !compiler->status; i++) {
        add_word(&words, last, list[i]);
        last = list[i];
    }
    if (!compiler->status) close_places(&words, last, 0);
    if (!compiler->status) found = node_with(&words, words.edges, words.n_edges, words.places[0].ends);
    free(words.places);
    free(words.edges);
    free(words.table);
    return found;
}
