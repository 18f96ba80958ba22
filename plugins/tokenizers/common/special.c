/* special.c: see special.h.
 *
 * The rule (llama.cpp's, which models are made for): the longest token is searched in the whole text, from
 * left to right, then the next in the text between its occurrences, and so on; a token may also swallow the
 * white space next to it. Done literally, this costs a pass over the text for each token of the vocabulary.
 *
 * Instead one pass with the automaton of Aho and Corasick (1975) finds the longest token that ends at each
 * byte, and regions in which occurrences overlap; outside them nothing can happen. Within a region the
 * longest found tokens are taken in the rule's order from a heap. One that overlaps a token placed before is
 * replaced by the longest that ends at the same byte and fits. Each time that happens again at a byte, the
 * free text before it has at least halved: n bytes take at most n log² n steps for any tokens. */
#include "common/special.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/memory.h"

#define NONE TRIE_NONE

struct length_and_id {
    size_t length;
    int32_t id;
};

static int longest_first(const void *a, const void *b)
{
    const struct length_and_id *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* ---- The automaton ------------------------------------------------------------------------------------- */

static uint32_t level_of(const struct special_set *set, uint32_t rank)
{
    return rank == NONE ? 0 : set->tokens[rank].level;
}

static uint32_t jump_of(const struct special_set *set, uint32_t rank)
{
    return rank == NONE ? NONE : set->tokens[rank].jump;
}

/* Jumps over many shorter tokens are chosen so that a search takes logarithmic time (Myers, "An applicative
 * random-access stack", 1983). */
static void link_token(struct special_set *set, uint32_t rank, uint32_t shorter)
{
    struct special_token *token = &set->tokens[rank];
    uint32_t jump = jump_of(set, shorter), level = level_of(set, shorter), far = jump_of(set, jump);
    bool even = level - level_of(set, jump) == level_of(set, jump) - level_of(set, far);
    token->shorter = shorter;
    token->level = level + 1;
    token->jump = even && jump != NONE ? far : shorter;
}

/* The state after `byte`. */
static inline uint32_t special_step(const struct special_set *set, uint32_t state, unsigned char byte)
{
    uint32_t next = NONE;
    while (state != TRIE_ROOT && (next = trie_step(&set->trie, state, byte)) == NONE)
        state = set->nodes[state].fallback;
    if (state == TRIE_ROOT) next = set->trie.first[byte];
    return next == NONE ? TRIE_ROOT : next;
}

static int link_nodes(struct special_set *set)
{
    struct trie_edge *edges = NULL; /* [trie.n_nodes - 1], a node's parent and its fallback before it */
    set->nodes = allocate_zeroed(set->trie.n_nodes, sizeof *set->nodes);
    int status = set->nodes ? trie_edges(&set->trie, &edges) : fail_memory("special tokens");
    if (status) return status;
    set->nodes[TRIE_ROOT].token = NONE;
    for (size_t i = 0; i < set->trie.n_nodes - 1; i++) {
        struct special_node *node = &set->nodes[edges[i].child];
        uint32_t rank = set->trie.values[edges[i].child];
        if (edges[i].parent != TRIE_ROOT)
            node->fallback = special_step(set, set->nodes[edges[i].parent].fallback, edges[i].byte);
        node->depth = edges[i].depth;
        node->token = set->nodes[node->fallback].token;
        if (rank == NONE) continue;
        link_token(set, rank, node->token);
        node->token = rank;
    }
    free(edges);
    return ENGINE_OK;
}

/* The longest token of at most `most` bytes of those that token `rank` ends with, itself included. */
static uint32_t shortened(const struct special_set *set, uint32_t rank, size_t most)
{
    while (rank != NONE && set->tokens[rank].length > most) {
        uint32_t jump = set->tokens[rank].jump;
        rank = jump != NONE && set->tokens[jump].length > most ? jump : set->tokens[rank].shorter;
    }
    return rank;
}

int special_create(struct special_set *set, const struct vocab *vocab, uint32_t any, uint32_t none)
{
    memset(set, 0, sizeof *set);
    size_t bytes = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        if (!(vocab->attributes[id] & any) || (vocab->attributes[id] & none)) continue;
        set->count++;
        bytes += vocab->pieces[id].length;
    }
    if (!set->count) return ENGINE_OK;

    struct length_and_id *order = allocate(set->count, sizeof *order);
    set->tokens = allocate_zeroed(set->count, sizeof *set->tokens);
    int status = order && set->tokens ? trie_create(&set->trie, bytes) : fail_memory("special tokens");
    if (status) goto cleanup;
    size_t n = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++)
        if ((vocab->attributes[id] & any) && !(vocab->attributes[id] & none))
            order[n++] = (struct length_and_id){vocab->pieces[id].length, (int32_t)id};
    qsort(order, n, sizeof *order, longest_first);
    for (uint32_t i = 0; !status && i < set->count; i++) {
        struct engine_string piece = vocab->pieces[order[i].id];
        set->tokens[i] = (struct special_token){.id = order[i].id, .length = (uint32_t)piece.length};
        set->strip |= vocab->attributes[order[i].id] & (VOCAB_STRIP_LEFT | VOCAB_STRIP_RIGHT);
        status = trie_insert(&set->trie, piece.data, piece.length, false, i, NULL);
    }
    if (!status) status = link_nodes(set);
cleanup:
    free(order);
    return status;
}

void special_destroy(struct special_set *set)
{
    free(set->tokens);
    free(set->nodes);
    trie_destroy(&set->trie);
    memset(set, 0, sizeof *set);
}

void special_workspace_free(struct special_workspace *workspace)
{
    free(workspace->ends);
    free(workspace->places);
    free(workspace->owners);
    memset(workspace, 0, sizeof *workspace);
}

/* ---- White space --------------------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A stretch of white space that has been measured. */
struct space_run {
    size_t start, end;
};

/* The white space around a place between two bytes; *run is what was found last. */
static void special_measure(struct space_run *run, const char *text, size_t length, size_t at)
{
    if (at >= run->start && at <= run->end && run->end > run->start) return;
    run->start = run->end = at;
    while (run->start > 0 && is_space(text[run->start - 1])) run->start--;
    while (run->end < length && is_space(text[run->end])) run->end++;
}

/* ---- Regions ------------------------------------------------------------------------------------------- */

/* One call of special_split. */
struct split {
    const struct special_set *set;
    const struct vocab *vocab;
    struct special_workspace *workspace;
    const char *text;
    size_t length;
    special_visit visit;
    void *user;
    size_t plain;      /* where the stretch of plain text begins that has not been handed out */
    size_t start, end; /* the region at hand; empty: none */
    struct space_run before_start, behind_end, before_next;
};

static bool comes_first(const struct special_end *a, const struct special_end *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->end < b->end);
}

/* Moves heap[at] down to its place in a heap whose first one comes first. */
static void sift_down(struct special_end *heap, size_t count, size_t at)
{
    struct special_end moving = heap[at];
    for (size_t child; (child = at * 2 + 1) < count; at = child) {
        if (child + 1 < count && comes_first(&heap[child + 1], &heap[child])) child++;
        if (!comes_first(&heap[child], &moving)) break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

/* Places a token that ends at `end`, with the white space that it swallows. Places are counted from the
 * region's start. */
static int place(const struct split *split, uint32_t rank, size_t end)
{
    struct special_workspace *workspace = split->workspace;
    const struct special_token *token = &split->set->tokens[rank];
    const char *text = split->text + split->start;
    size_t size = split->end - split->start, start = end - token->length;
    ENGINE_ASSERT(token->length > 0 && token->length <= end && end <= size);
    uint32_t attributes = split->vocab->attributes[token->id];
    if (attributes & VOCAB_STRIP_LEFT)
        while (start > 0 && !workspace->owners[start - 1] && is_space(text[start - 1])) start--;
    if (attributes & VOCAB_STRIP_RIGHT)
        while (end < size && !workspace->owners[end] && is_space(text[end])) end++;
    if (!ARRAY_RESERVE(workspace->places, workspace->places_capacity, workspace->n_places + 1))
        return fail_memory("special tokens");
    workspace->places[workspace->n_places++] = (struct special_place){start, end, token->id};
    for (size_t i = start; i < end; i++) workspace->owners[i] = workspace->n_places;
    return ENGINE_OK;
}

/* Places tokens by the rule. Tokens placed earlier are at least as long as the current one: so it is free if
 * its first and its last byte are, and no two of them overlap it from the same side. */
static int place_all(const struct split *split)
{
    struct special_workspace *workspace = split->workspace;
    struct special_end *heap = workspace->ends;
    size_t count = workspace->n_ends;
    for (size_t i = count / 2; i-- > 0;) sift_down(heap, count, i);
    while (count > 0) {
        size_t end = heap->end - split->start, start = end - split->set->tokens[heap->rank].length;
        size_t owner = workspace->owners[start];
        uint32_t next = NONE;
        if (!workspace->owners[end - 1] && owner) {
            next = shortened(split->set, heap->rank, end - workspace->places[owner - 1].end);
        } else if (!workspace->owners[end - 1]) {
            int status = place(split, heap->rank, end);
            if (status) return status;
        }
        if (next != NONE)
            heap->rank = next;
        else
            *heap = heap[--count];
        sift_down(heap, count, 0);
    }
    return ENGINE_OK;
}

/* Passes on the plain text up to `end`, if there is any. */
static int visit_plain(struct split *split, size_t end)
{
    ENGINE_ASSERT(split->plain <= end && end <= split->length);
    struct engine_string text = {split->text + split->plain, end - split->plain};
    return text.length ? split->visit(split->user, text, -1) : 0;
}

static int finish_region(struct split *split)
{
    struct special_workspace *workspace = split->workspace;
    size_t size = split->end - split->start;
    if (!size) return 0;
    if (!ARRAY_RESERVE(workspace->owners, workspace->owners_capacity, size))
        return fail_memory("special tokens");
    memset(workspace->owners, 0, size * sizeof *workspace->owners);
    workspace->n_places = 0;
    int status = place_all(split);
    workspace->n_ends = 0;
    for (size_t i = 0; !status && i < size;) {
        if (!workspace->owners[i]) {
            i++;
            continue;
        }
        const struct special_place *found = &workspace->places[workspace->owners[i] - 1];
        ENGINE_ASSERT(found->start == i && found->end <= size); /* no two overlap */
        status = visit_plain(split, split->start + i);
        split->plain = split->start + found->end;
        struct engine_string taken = {split->text + split->start + i, found->end - i};
        if (!status) status = split->visit(split->user, taken, found->id);
        i = found->end;
    }
    split->start = split->end = 0;
    return status;
}

/* Token `rank` ends at `end`, the longest that does: the region at hand grows by it, or begins with it. White
 * space at its sides comes along wherever there are tokens that may swallow it. */
static int add_end(struct split *split, uint32_t rank, size_t end)
{
    struct special_workspace *workspace = split->workspace;
    size_t start = end - split->set->tokens[rank].length;
    if (!ARRAY_RESERVE(workspace->ends, workspace->ends_capacity, workspace->n_ends + 1))
        return fail_memory("special tokens");
    workspace->ends[workspace->n_ends++] = (struct special_end){end, rank};
    if (split->set->strip & VOCAB_STRIP_LEFT) {
        special_measure(&split->before_start, split->text, split->length, start);
        if (split->before_start.start < start) start = split->before_start.start;
        if (start < split->plain) start = split->plain;
    }
    if (split->set->strip & VOCAB_STRIP_RIGHT) {
        special_measure(&split->behind_end, split->text, split->length, end);
        if (split->behind_end.end > end) end = split->behind_end.end;
    }
    if (!split->end || start < split->start) split->start = start;
    if (end > split->end) split->end = end;
    return ENGINE_OK;
}

/* Whether no token that starts at `next` or later can reach the region at hand. */
static bool is_over(struct split *split, size_t next)
{
    if (!split->end || next < split->end) return false;
    if (!(split->set->strip & VOCAB_STRIP_LEFT)) return true;
    special_measure(&split->before_next, split->text, split->length, next);
    return split->before_next.start >= split->end;
}

int special_split(const struct special_set *set, const struct vocab *vocab, struct engine_string text,
                  struct special_workspace *workspace, special_visit visit, void *user)
{
    if (!set->count) return text.length ? visit(user, text, -1) : 0;
    struct split split = {.set = set,
                          .vocab = vocab,
                          .workspace = workspace,
                          .text = text.data,
                          .length = text.length,
                          .visit = visit,
                          .user = user};
    int status = 0;
    uint32_t state = TRIE_ROOT;
    workspace->n_ends = 0;
    for (size_t at = 0; !status && at < text.length; at++) {
        state = special_step(set, state, (unsigned char)text.data[at]);
        const struct special_node *node = &set->nodes[state];
        if (is_over(&split, at + 1 - node->depth)) status = finish_region(&split);
        if (!status && node->token != NONE) status = add_end(&split, node->token, at + 1);
    }
    if (!status) status = finish_region(&split);
    if (!status) status = visit_plain(&split, text.length);
    return status;
}
