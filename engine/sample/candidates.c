/* candidates.c: the list of candidates and the order of its items (internal.h), and probabilities among them.
 * Nothing is sorted as a whole: a heap yields as many as are needed. */
#include <float.h>
#include <math.h>

#include "common/assert.h"
#include "sample/internal.h"

void candidates_begin(struct candidates *candidates, float *logits)
{
    ENGINE_ASSERT(candidates->items);
    candidates->logits = logits;
    candidates->listed = false;
    candidates->count = 0;
    candidates->n_masked = 0;
}

void candidates_list(struct candidates *candidates)
{
    if (candidates->listed) return;
    size_t n = 0;
    for (uint32_t id = 0; id < candidates->n_vocab; id++)
        if (isfinite(candidates->logits[id]))
            candidates->items[n++] = (struct candidate){.logit = candidates->logits[id], .id = (int32_t)id};
    candidates->count = n;
    candidates->n_masked = candidates->n_vocab - n;
    candidates->listed = true;
}

/* ---- Heaps ---- */

/* Higher keys are better; of equal keys the lower id. No two candidates are equal. */
static bool candidate_better(const struct candidate *a, const struct candidate *b)
{
    return a->key > b->key || (a->key == b->key && a->id < b->id);
}

/* Moves heap[at] down to its place in a heap with the best, or the worst, candidate at the top. */
static void sift_down(struct candidate *heap, size_t count, size_t at, bool worst_on_top)
{
    struct candidate moving = heap[at];
    for (size_t child; (child = at * 2 + 1) < count; at = child) {
        if (child + 1 < count && candidate_better(&heap[child + 1], &heap[child]) != worst_on_top) child++;
        if (candidate_better(&heap[child], &moving) == worst_on_top) break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static void make_heap(struct candidate *heap, size_t count, bool worst_on_top)
{
    for (size_t i = count / 2; i-- > 0;) sift_down(heap, count, i, worst_on_top);
}

/* The same as keeping the best of a list, but reads the logits as they come: most are below the worst one
 * kept, which a comparison tells. */
static void list_top(struct candidates *candidates, size_t count)
{
    struct candidate *heap = candidates->items; /* [count], the worst of the kept ones at the top */
    const float *logits = candidates->logits;
    uint32_t id = 0, n_vocab = candidates->n_vocab;
    size_t n = 0;
    for (; id < n_vocab && n < count; id++)
        if (isfinite(logits[id]))
            heap[n++] = (struct candidate){.key = (double)logits[id], .logit = logits[id], .id = (int32_t)id};
    candidates->listed = true;
    candidates->count = n;
    candidates->n_masked = count - n; /* more than 0 only if there are no others */
    if (n < count) return;
    make_heap(heap, count, true);
    float worst = heap[0].logit;
    for (; id < n_vocab; id++) {
        /* Of equal logits the lower id is better, and that is in the heap. False for NaN. */
        if (!(logits[id] > worst) || !isfinite(logits[id])) continue;
        heap[0] = (struct candidate){.key = (double)logits[id], .logit = logits[id], .id = (int32_t)id};
        sift_down(heap, count, 0, true);
        worst = heap[0].logit;
    }
}

void candidates_keep_top(struct candidates *candidates, size_t count)
{
    if (!candidates->listed && count < candidates->n_vocab) {
        list_top(candidates, count);
        return;
    }
    candidates_list(candidates);
    size_t all = candidates->count + candidates->n_masked;
    if (count >= all) return;
    candidates->n_masked = count > candidates->count ? count - candidates->count : 0;
    if (count >= candidates->count) return;
    candidates_key_by_logit(candidates);
    struct candidate *heap = candidates->items;
    make_heap(heap, count, true);
    for (size_t i = count; i < candidates->count; i++) {
        if (!candidate_better(&heap[i], &heap[0])) continue;
        heap[0] = heap[i];
        sift_down(heap, count, 0, true);
    }
    candidates->count = count;
}

/* Takes the best one off a heap of `left` and puts it after the rest. */
static const struct candidate *take_best(struct candidate *heap, size_t left)
{
    ENGINE_ASSERT(left > 0);
    struct candidate best = heap[0];
    heap[0] = heap[left - 1];
    if (left > 1) sift_down(heap, left - 1, 0, false);
    heap[left - 1] = best;
    return &heap[left - 1];
}

static void reverse_candidates(struct candidate *items, size_t count)
{
    for (size_t i = 0, j = count; i + 1 < j; i++) {
        struct candidate swapped = items[i];
        items[i] = items[--j];
        items[j] = swapped;
    }
}

void candidates_sort(struct candidates *candidates)
{
    candidates_key_by_logit(candidates);
    candidates_best_last(candidates, candidates->count);
    reverse_candidates(candidates->items, candidates->count);
}

void candidates_keep_mass(struct candidates *candidates, float mass, bool exceed)
{
    struct candidate *heap = candidates->items;
    size_t left = candidates->count, kept = 0;
    float highest = candidates_highest(candidates), sum = 0;
    float total = candidates_float_total(candidates, highest);

    make_heap(heap, left, false);
    while (left > 0 && (kept == 0 || (exceed ? sum <= mass : sum < mass))) {
        const struct candidate *best = take_best(heap, left--);
        sum += candidate_float_probability(best, highest, total);
        kept++;
    }
    reverse_candidates(heap, candidates->count);
    bool enough = exceed ? sum > mass : sum >= mass;
    candidates->count = kept;
    if (enough) candidates->n_masked = 0;
}

void candidates_best_last(struct candidates *candidates, size_t count)
{
    make_heap(candidates->items, candidates->count, false);
    for (size_t left = candidates->count; left > 0 && count > 0; count--)
        take_best(candidates->items, left--);
}

void candidates_key_by_logit(struct candidates *candidates)
{
    for (size_t i = 0; i < candidates->count; i++)
        candidates->items[i].key = (double)candidates->items[i].logit;
}

/* ---- Probabilities ---- */

float candidates_highest(const struct candidates *candidates)
{
    ENGINE_ASSERT(candidates->listed && candidates->count > 0);
    float highest = candidates->items[0].logit;
    for (size_t i = 1; i < candidates->count; i++)
        if (candidates->items[i].logit > highest) highest = candidates->items[i].logit;
    return highest;
}

double candidates_total(const struct candidates *candidates, float highest)
{
    double total = 0;
    for (size_t i = 0; i < candidates->count; i++)
        total += portable_exp((double)candidates->items[i].logit - (double)highest);
    return total;
}

float candidate_probability(const struct candidate *candidate, float highest, double total)
{
    return (float)(portable_exp((double)candidate->logit - (double)highest) / total);
}

float candidates_float_total(const struct candidates *candidates, float highest)
{
    float total = 0;
    for (size_t i = 0; i < candidates->count; i++)
        total += candidate_float_probability(&candidates->items[i], highest, 1);
    return total;
}

float candidate_float_probability(const struct candidate *candidate, float highest, float total)
{
    return (float)portable_exp((double)(candidate->logit - highest)) / total;
}

float candidates_entropy(struct candidates *candidates)
{
    ENGINE_ASSERT(candidates->listed && candidates->count > 0);
    ENGINE_ASSERT(candidates->items[0].logit >= candidates->items[candidates->count - 1].logit);
    float highest = candidates->items[0].logit, total = candidates_float_total(candidates, highest);
    float entropy = 0;
    for (size_t i = 0; i < candidates->count; i++) {
        struct candidate *candidate = &candidates->items[i];
        float probability = candidate_float_probability(candidate, highest, total);
        candidate->key = (double)FLT_MAX;
        if (probability == 0) continue;
        float information = -(float)portable_log((double)probability);
        candidate->key = (double)information;
        entropy += probability * information;
    }
    return entropy;
}

float finite_logit(double logit)
{
    if (logit > (double)FLT_MAX) return FLT_MAX;
    return logit < -(double)FLT_MAX ? -FLT_MAX : (float)logit;
}
