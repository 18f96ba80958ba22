/* special.c: see special.h.
 *
 * The rule (llama.cpp's, which models are made for): the longest token is looked for in the whole text, from
 * left to right, then the next in what is left between its occurrences, and so on; a token may also swallow
 * the white space beside it. Doing just that costs a pass over the text for each token of the vocabulary.
 * Instead one pass finds regions in which occurrences touch each other; within a region the rule is applied
 * as it stands, for the tokens that occur there, and outside nothing can happen. Regions are a token long as
 * a rule. */
#include "common/special.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

/* What became of a byte. From MARK_TOKEN on: the first byte of token set->ids[mark - MARK_TOKEN]. */
enum mark { MARK_FREE, MARK_SWALLOWED, MARK_INSIDE, MARK_TOKEN };

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
    set->ids = allocate(set->count, sizeof *set->ids);
    int status = order && set->ids ? trie_create(&set->trie, bytes) : fail_memory("special tokens");
    if (status) goto cleanup;
    size_t n = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++)
        if ((vocab->attributes[id] & any) && !(vocab->attributes[id] & none))
            order[n++] = (struct length_and_id){vocab->pieces[id].length, (int32_t)id};
    qsort(order, n, sizeof *order, longest_first);
    for (uint32_t i = 0; !status && i < set->count; i++) {
        struct engine_string piece = vocab->pieces[order[i].id];
        set->ids[i] = order[i].id;
        status = trie_insert(&set->trie, piece.data, piece.length, false, i, NULL);
    }
cleanup:
    free(order);
    return status;
}

void special_destroy(struct special_set *set)
{
    free(set->ids);
    trie_destroy(&set->trie);
    memset(set, 0, sizeof *set);
}

void special_workspace_free(struct special_workspace *workspace)
{
    free(workspace->marks);
    free(workspace->gaps);
    free(workspace->next_gaps);
    free(workspace->found);
    free(workspace->seen);
    memset(workspace, 0, sizeof *workspace);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

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
};

static struct engine_string piece_of(const struct split *split, uint32_t index)
{
    return split->vocab->pieces[split->set->ids[index]];
}

static uint32_t attributes_of(const struct split *split, uint32_t index)
{
    return split->vocab->attributes[split->set->ids[index]];
}

static int add_gap(struct special_workspace *workspace, size_t start, size_t end)
{
    if (start == end) return 0;
    if (!grow(&workspace->next_gaps, &workspace->next_gaps_capacity, workspace->n_next_gaps + 1,
              sizeof *workspace->next_gaps))
        return fail_memory("special tokens");
    workspace->next_gaps[workspace->n_next_gaps++] = (struct special_gap){start, end};
    return 0;
}

/* Marks a token's occurrences in one gap, from left to right, and lists what is left of the gap. */
static int place_in_gap(const struct split *split, uint32_t index, struct special_gap gap)
{
    struct engine_string piece = piece_of(split, index);
    uint32_t attributes = attributes_of(split, index);
    uint32_t *marks = split->workspace->marks; /* [end - start] */
    const char *text = split->text + split->start, *match;
    while (gap.end - gap.start >= piece.length &&
           (match = memmem(text + gap.start, gap.end - gap.start, piece.data, piece.length))) {
        size_t at = (size_t)(match - text), left = at, right = at + piece.length;
        marks[at] = MARK_TOKEN + index;
        for (size_t i = at + 1; i < right; i++) marks[i] = MARK_INSIDE;
        if (attributes & VOCAB_STRIP_LEFT)
            while (left > gap.start && is_space(text[left - 1])) marks[--left] = MARK_SWALLOWED;
        if (attributes & VOCAB_STRIP_RIGHT)
            while (right < gap.end && is_space(text[right])) marks[right++] = MARK_SWALLOWED;
        int status = add_gap(split->workspace, gap.start, left);
        if (status) return status;
        gap.start = right;
    }
    return add_gap(split->workspace, gap.start, gap.end);
}

/* Looks for a token where none has been found yet. */
static int place(const struct split *split, uint32_t index)
{
    struct special_workspace *workspace = split->workspace;
    int status = 0;
    workspace->n_next_gaps = 0;
    for (size_t i = 0; !status && i < workspace->n_gaps; i++)
        status = place_in_gap(split, index, workspace->gaps[i]);
    struct special_gap *gaps = workspace->gaps;
    size_t capacity = workspace->gaps_capacity;
    workspace->gaps = workspace->next_gaps;
    workspace->gaps_capacity = workspace->next_gaps_capacity;
    workspace->n_gaps = workspace->n_next_gaps;
    workspace->next_gaps = gaps;
    workspace->next_gaps_capacity = capacity;
    return status;
}

static int by_rank(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Hands out the plain text up to `end`, if there is any. */
static int visit_plain(struct split *split, size_t end)
{
    struct engine_string text = {split->text + split->plain, end - split->plain};
    return text.length ? split->visit(split->user, text, -1) : 0;
}

static int finish_region(struct split *split)
{
    struct special_workspace *workspace = split->workspace;
    size_t size = split->end - split->start;
    if (!size) return 0;
    if (!grow(&workspace->marks, &workspace->marks_capacity, size, sizeof *workspace->marks) ||
        !grow(&workspace->gaps, &workspace->gaps_capacity, 1, sizeof *workspace->gaps))
        return fail_memory("special tokens");
    memset(workspace->marks, 0, size * sizeof *workspace->marks);
    workspace->gaps[0] = (struct special_gap){0, size};
    workspace->n_gaps = 1;
    qsort(workspace->found, workspace->n_found, sizeof *workspace->found, by_rank);
    for (size_t i = 0; i < workspace->n_found; i++) {
        uint32_t index = workspace->found[i];
        int status = place(split, index);
        if (status) return status;
        workspace->seen[index / 64] &= ~((uint64_t)1 << index % 64);
    }
    workspace->n_found = 0;

    for (size_t i = 0; i < size; i++) {
        uint32_t mark = workspace->marks[i];
        if (mark == MARK_FREE) continue;
        int status = visit_plain(split, split->start + i);
        split->plain = split->start + i + 1;
        if (!status && mark >= MARK_TOKEN)
            status = split->visit(split->user, (struct engine_string){split->text + split->start + i, 0},
                                  split->set->ids[mark - MARK_TOKEN]);
        if (status) return status;
    }
    split->start = split->end = 0;
    return 0;
}

/* Token `index` occurs at `at`: it joins the region at hand, or ends it and begins the next. */
static int add_occurrence(struct split *split, uint32_t index, size_t at)
{
    struct special_workspace *workspace = split->workspace;
    uint32_t attributes = attributes_of(split, index);
    size_t start = at, end = at + piece_of(split, index).length;
    if (attributes & VOCAB_STRIP_LEFT)
        while (start > split->plain && is_space(split->text[start - 1])) start--;
    if (attributes & VOCAB_STRIP_RIGHT)
        while (end < split->length && is_space(split->text[end])) end++;

    if (split->end && start < split->end) {
        if (start < split->start) split->start = start;
        if (end > split->end) split->end = end;
    } else {
        int status = finish_region(split);
        if (status) return status;
        split->start = start;
        split->end = end;
    }
    uint64_t bit = (uint64_t)1 << index % 64;
    if (workspace->seen[index / 64] & bit) return 0;
    if (!grow(&workspace->found, &workspace->found_capacity, workspace->n_found + 1,
              sizeof *workspace->found))
        return fail_memory("special tokens");
    workspace->seen[index / 64] |= bit;
    workspace->found[workspace->n_found++] = index;
    return 0;
}

int special_split(const struct special_set *set, const struct vocab *vocab, struct engine_string text,
                  struct special_workspace *workspace, special_visit visit, void *user)
{
    if (!set->count) return text.length ? visit(user, text, -1) : 0;
    if (!grow(&workspace->seen, &workspace->seen_capacity, (set->count + 63) / 64, sizeof *workspace->seen))
        return fail_memory("special tokens");
    memset(workspace->seen, 0, workspace->seen_capacity * sizeof *workspace->seen);
    workspace->n_found = 0;

    struct split split = {set, vocab, workspace, text.data, text.length, visit, user, 0, 0, 0};
    int status = 0;
    for (size_t at = 0; !status && at < text.length; at++) {
        uint32_t node = set->trie.first[(unsigned char)text.data[at]];
        for (size_t i = at + 1; node != TRIE_NONE && !status; i++) {
            if (set->trie.values[node] != TRIE_NONE)
                status = add_occurrence(&split, set->trie.values[node], at);
            if (i >= text.length) break;
            node = trie_step(&set->trie, node, (unsigned char)text.data[i]);
        }
    }
    if (!status) status = finish_region(&split);
    if (!status) status = visit_plain(&split, text.length);
    return status;
}
