/* merge.c: see merge.h.
 *
 * Short words are merged in repeated passes, which for a dozen symbols is faster than any queue. Long ones (a
 * text without spaces, a megabyte of one letter) are cut into blocks, each merged by itself. That is exact
 * wherever the tokens on both sides of a cut stay apart when merged as a text of their own: as long as
 * nothing merges across the cuts, each part of a text develops as it would alone, and the first merge across
 * a cut would show among the two tokens next to it. If they don't stay apart, more tokens before the cut are
 * taken back and merged again together with the block. A word that is being explained is one block. */
#include "common/merge.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/explain.h"
#include "common/memory.h"

#define SHORT_WORD  96 /* symbols; up to here each merge searches for the best pair again */
#define BLOCK       64 /* symbols between cuts */
#define END         8  /* symbols before a cut that would often differ if the text continued: merged again */
#define KNOWN_PAIRS 4096 /* a power of two */
#define PASS_WORTH  8    /* a long block is passed over while this part of it merges at once */

#define NO_NODE ((uint32_t)-1)

#define INLINE static inline __attribute__((always_inline))

struct merge_node {
    uint32_t symbol;
    uint32_t pair; /* slot of the pair that it forms with the next, or PAIR_NONE */
    uint32_t previous, next;
};

struct merge_event {
    uint64_t order; /* rank << 32 | index of the left node */
    uint32_t pair;
};

void merge_workspace_free(struct merge_workspace *workspace)
{
    free(workspace->initial);
    free(workspace->tokens);
    free(workspace->places);
    free(workspace->nodes);
    free(workspace->heap);
    free(workspace->known_pairs);
    free(workspace->known_apart);
    memset(workspace, 0, sizeof *workspace);
}

int merge_reserve(struct merge_workspace *workspace, size_t count)
{
    if (count > UINT32_MAX - 1 - workspace->n_initial)
        return host->fail(ENGINE_ERROR_UNSUPPORTED,
                          "a text without breaks is too long: more than %u characters", UINT32_MAX - 1);
    if (!ARRAY_RESERVE(workspace->initial, workspace->initial_capacity, workspace->n_initial + count))
        return fail_memory("merges");
    return ENGINE_OK;
}

/* A symbol of a short word. */
struct merge_place {
    uint32_t rank; /* of the pair with the next, PAIR_NONE if they form none */
    uint32_t pair;
    struct merge_token token;
};

static void set_pair(const struct pairs *pairs, struct merge_place *left, const struct merge_place *right)
{
    left->pair = right ? pairs_find(pairs, left->token.symbol, right->token.symbol) : PAIR_NONE;
    left->rank = left->pair == PAIR_NONE ? PAIR_NONE : pairs->slots[left->pair].rank;
}

/* Merges the pairs of `rank`, the lowest there is, from left to right, as long as no merge brings about one
 * that would come first. `end`: initial symbol at which the list ends. Returns how many symbols are left. */
INLINE size_t merge_rank(const struct pairs *pairs, struct explanation *explanation, struct merge_place *list,
                         size_t count, size_t end, uint32_t rank)
{
    size_t to = 0;
    bool stop = false;
    for (size_t from = 0; from < count; from++) {
        while (list[from].rank == rank && !stop) {
            struct merge_place merged = list[from++]; /* there is a next one, or they were no pair */
            if (explanation)
                explain_merge(explanation, &pairs->slots[merged.pair], merged.token.start,
                              list[from].token.start, from + 1 < count ? list[from + 1].token.start : end);
            merged.token.symbol = pairs->slots[merged.pair].result;
            set_pair(pairs, &merged, from + 1 < count ? &list[from + 1] : NULL);
            list[from] = merged;
            if (to) set_pair(pairs, &list[to - 1], &merged);
            stop = merged.rank < rank || (to && list[to - 1].rank <= rank);
        }
        list[to++] = list[from];
    }
    return to;
}

/* Merges initial symbols first … first+count-1 in list[count], rank by rank, until none is left or a pass
 * over all merges less than a `worth`th of them. Returns how many are left. */
INLINE size_t merge_passes_with(const struct pairs *pairs, const struct merge_workspace *workspace,
                                struct explanation *explanation, size_t first, size_t count, size_t worth,
                                struct merge_place *list)
{
    for (size_t i = 0; i < count; i++)
        list[i].token = (struct merge_token){workspace->initial[first + i], (uint32_t)(first + i)};
    for (size_t i = 0; i < count; i++) set_pair(pairs, &list[i], i + 1 < count ? &list[i + 1] : NULL);
    size_t end = first + count;
    for (size_t merged = count; merged >= count / worth;) {
        uint32_t lowest = PAIR_NONE;
        for (size_t i = 0; i < count; i++) lowest = list[i].rank < lowest ? list[i].rank : lowest;
        if (lowest == PAIR_NONE) break;
        size_t before = count;
        count = merge_rank(pairs, explanation, list, count, end, lowest);
        merged = before - count;
    }
    return count;
}

/* The usual case is compiled by itself: the call in its innermost loop would slow it down. */
static size_t merge_passes(const struct pairs *pairs, const struct merge_workspace *workspace, size_t first,
                           size_t count, size_t worth, struct merge_place *list)
{
    if (!workspace->explanation) return merge_passes_with(pairs, workspace, NULL, first, count, worth, list);
    return merge_passes_with(pairs, workspace, workspace->explanation, first, count, worth, list);
}

/* Merges initial symbols first … first+count-1, count <= SHORT_WORD, into tokens[at …]; returns how many. */
static size_t merge_short(const struct pairs *pairs, struct merge_workspace *workspace, size_t first,
                          size_t count, size_t at)
{
    struct merge_place list[SHORT_WORD];
    count = merge_passes(pairs, workspace, first, count, SIZE_MAX, list);
    for (size_t i = 0; i < count; i++) workspace->tokens[at + i] = list[i].token;
    return count;
}

/* The heap: a binary one, the lowest order on top. */

static void heap_push(struct merge_event *heap, size_t *count, struct merge_event event)
{
    size_t i = (*count)++;
    for (; i > 0 && heap[(i - 1) / 2].order > event.order; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = event;
}

static struct merge_event heap_pop(struct merge_event *heap, size_t *count)
{
    struct merge_event top = heap[0], last = heap[--*count];
    size_t i = 0;
    for (size_t child = 1; child < *count; child = 2 * i + 1) {
        if (child + 1 < *count && heap[child + 1].order < heap[child].order) child++;
        if (heap[child].order >= last.order) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* Notes the pair that `node` forms with its next one. */
static void find_pair(const struct pairs *pairs, struct merge_workspace *workspace, uint32_t node,
                      size_t *n_events)
{
    struct merge_node *nodes = workspace->nodes;
    uint32_t next = nodes[node].next;
    nodes[node].pair =
        next == NO_NODE ? PAIR_NONE : pairs_find(pairs, nodes[node].symbol, nodes[next].symbol);
    if (nodes[node].pair == PAIR_NONE) return;
    uint64_t rank = pairs->slots[nodes[node].pair].rank;
    ENGINE_ASSERT(*n_events < workspace->heap_capacity);
    heap_push(workspace->heap, n_events, (struct merge_event){rank << 32 | node, nodes[node].pair});
}

/* Like merge_short, for any count. Once passes no longer merge many symbols, a heap takes over. There each
 * merge removes one event and one node and adds at most two events, so 3 * count events are enough. */
static int merge_long(const struct pairs *pairs, struct merge_workspace *workspace, size_t first,
                      size_t count, size_t at, size_t *n_tokens)
{
    if (!ARRAY_RESERVE(workspace->places, workspace->places_capacity, count)) return fail_memory("merges");
    struct merge_place *places = workspace->places;
    size_t end = first + count;
    count = merge_passes(pairs, workspace, first, count, PASS_WORTH, places);
    if (!ARRAY_RESERVE(workspace->nodes, workspace->nodes_capacity, count) ||
        !ARRAY_RESERVE(workspace->heap, workspace->heap_capacity, 3 * count))
        return fail_memory("merges");
    struct merge_node *nodes = workspace->nodes;
    for (size_t i = 0; i < count; i++)
        nodes[i] = (struct merge_node){places[i].token.symbol, PAIR_NONE, i ? (uint32_t)i - 1 : NO_NODE,
                                       i + 1 < count ? (uint32_t)i + 1 : NO_NODE};
    size_t n_events = 0;
    for (size_t i = 0; i < count; i++) find_pair(pairs, workspace, (uint32_t)i, &n_events);
    while (n_events) {
        struct merge_event event = heap_pop(workspace->heap, &n_events);
        uint32_t left = (uint32_t)event.order;
        if (nodes[left].pair != event.pair) continue; /* one of the two has merged otherwise meanwhile */
        uint32_t right = nodes[left].next, next = nodes[right].next;
        if (workspace->explanation)
            explain_merge(workspace->explanation, &pairs->slots[event.pair], places[left].token.start,
                          places[right].token.start, next == NO_NODE ? end : places[next].token.start);
        nodes[left].symbol = pairs->slots[event.pair].result;
        nodes[left].next = next;
        nodes[right].pair = PAIR_NONE;
        if (next != NO_NODE) nodes[next].previous = left;
        find_pair(pairs, workspace, left, &n_events);
        if (nodes[left].previous != NO_NODE) find_pair(pairs, workspace, nodes[left].previous, &n_events);
    }
    *n_tokens = 0;
    for (uint32_t i = 0; i != NO_NODE; i = nodes[i].next)
        workspace->tokens[at + (*n_tokens)++] = (struct merge_token){nodes[i].symbol, places[i].token.start};
    ENGINE_ASSERT(*n_tokens > 0 && *n_tokens <= count);
    return ENGINE_OK;
}

static int merge_block(const struct pairs *pairs, struct merge_workspace *workspace, size_t first,
                       size_t count, size_t at, size_t *n_tokens)
{
    if (!ARRAY_RESERVE(workspace->tokens, workspace->tokens_capacity, at + count))
        return fail_memory("merges");
    if (count > SHORT_WORD) return merge_long(pairs, workspace, first, count, at, n_tokens);
    *n_tokens = merge_short(pairs, workspace, first, count, at);
    return ENGINE_OK;
}

/* Whether tokens[cut - 1] and tokens[cut] stay apart when merged by themselves. `end`: where the latter ends;
 * `free`: tokens[free …] may be overwritten. */
static int stay_apart(const struct pairs *pairs, struct merge_workspace *workspace, size_t cut, size_t end,
                      size_t free_at, bool *apart)
{
    struct merge_token left = workspace->tokens[cut - 1], right = workspace->tokens[cut];
    uint64_t key = (uint64_t)left.symbol << 32 | right.symbol;
    size_t known = (key * 0x9E3779B97F4A7C15u) >> 32 & (KNOWN_PAIRS - 1);
    if (workspace->known_pairs[known] != key) {
        size_t count = 0;
        int status = merge_block(pairs, workspace, left.start, end - left.start, free_at, &count);
        if (status) return status;
        const struct merge_token *result = workspace->tokens + free_at;
        workspace->known_pairs[known] = key;
        workspace->known_apart[known] = count == 2 && result[0].symbol == left.symbol &&
                                        result[1].symbol == right.symbol && result[1].start == right.start;
    }
    *apart = workspace->known_apart[known];
    return ENGINE_OK;
}

static int make_known_pairs(struct merge_workspace *workspace)
{
    if (workspace->known_pairs) return ENGINE_OK;
    workspace->known_apart = allocate_zeroed(KNOWN_PAIRS, sizeof *workspace->known_apart);
    workspace->known_pairs = allocate(KNOWN_PAIRS, sizeof *workspace->known_pairs);
    if (!workspace->known_apart || !workspace->known_pairs) {
        free(workspace->known_apart);
        free(workspace->known_pairs);
        workspace->known_apart = NULL;
        workspace->known_pairs = NULL;
        return fail_memory("merges");
    }
    memset(workspace->known_pairs, 0xFF, KNOWN_PAIRS * sizeof *workspace->known_pairs);
    return ENGINE_OK;
}

int merge_run(const struct pairs *pairs, struct merge_workspace *workspace)
{
    size_t n = workspace->n_initial;
    workspace->n_tokens = 0;
    if (n <= SHORT_WORD || workspace->explanation)
        return n ? merge_block(pairs, workspace, 0, n, 0, &workspace->n_tokens) : ENGINE_OK;

    int status = make_known_pairs(workspace);
    for (size_t begin = 0, end; !status && begin < n; begin = end) {
        end = n - begin < (size_t)2 * BLOCK ? n : begin + BLOCK;
        size_t kept = workspace->n_tokens, count = 0, taken_back = 1;
        while (kept && begin - workspace->tokens[kept - 1].start <= END) kept--;
        for (;;) {
            size_t first = kept < workspace->n_tokens ? workspace->tokens[kept].start : begin;
            status = merge_block(pairs, workspace, first, end - first, kept, &count);
            if (status || !kept) break;
            bool apart = false;
            size_t right_end = count > 1 ? workspace->tokens[kept + 1].start : end;
            status = stay_apart(pairs, workspace, kept, right_end, kept + count, &apart);
            if (status || apart) break;
            kept -= taken_back < kept ? taken_back : kept;
            taken_back *= 2;
        }
        workspace->n_tokens = kept + count;
    }
    return status;
}
