/* sampler.c: from logits to a token (engine.h, "Sampling"). The chain: penalties, top-k, typical, top-p,
 * min-p, temperature, draw. Each step works on the candidates left by the step before, and leaves at least
 * one. Probabilities are always those among the remaining candidates.
 *
 * The same options, seed and logits give the same token on every machine: portable.h says how. Sums run over
 * the candidates in an order that depends only on their logits and ids. Nothing is allocated after
 * engine_sampler_create. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "engine.h"
#include "sample/portable.h"
#include "sample/sampler.h"

#define MAX_LAST_N (1u << 24)

struct candidate {
    double logit; /* after penalties */
    double key;   /* higher is better; its meaning depends on the step */
    int32_t id;
};

struct engine_sampler {
    struct engine_sampler_options options;
    uint32_t n_vocab;
    uint64_t random; /* state */

    struct candidate *candidates; /* [n_candidates], room for [n_vocab] */
    size_t n_candidates;

    /* The last tokens of the text, for the penalties; NULL if penalties are off. */
    int32_t *history; /* [penalty_last_n], a ring */
    size_t n_history, history_at;
    uint32_t *counts; /* [n_vocab], how often each token is in the history */
};

/* ---- Options ---- */

static int check_range(const char *name, float value, float lowest, float highest)
{
    if (value >= lowest && value <= highest) return ENGINE_OK; /* false for NaN */
    return error_raise(ENGINE_ERROR_ARGUMENT, "%s is %g; it must be %g to %g", name, (double)value,
                       (double)lowest, (double)highest);
}

static int check_options(const struct engine_sampler_options *options)
{
    const float most = 3.4e38f; /* nearly any finite number */
    int status = check_range("temperature", options->temperature, 0, most);
    if (!status) status = check_range("top_p", options->top_p, 0, 1);
    if (!status) status = check_range("min_p", options->min_p, 0, 1);
    if (!status) status = check_range("typical_p", options->typical_p, 0, 1);
    if (!status) status = check_range("penalty_repeat", options->penalty_repeat, 0, most);
    if (!status) status = check_range("penalty_frequency", options->penalty_frequency, -most, most);
    if (!status) status = check_range("penalty_presence", options->penalty_presence, -most, most);
    if (!status && options->penalty_last_n > MAX_LAST_N)
        return error_raise(ENGINE_ERROR_ARGUMENT, "penalty_last_n is %" PRIu32 "; it must be at most %u",
                           options->penalty_last_n, MAX_LAST_N);
    return status;
}

int sampler_read_options(const struct engine_sampler_options *given, struct engine_sampler_options *known)
{
    int status = SIZED_CHECK(given, engine_sampler_options, seed);
    if (status) return status;
    sized_read(known, sizeof *known, given);
    return check_options(known);
}

int engine_sampler_create(const struct engine_sampler_options *options, uint32_t n_vocab,
                          struct engine_sampler **sampler)
{
    struct engine_sampler_options known;
    int status = sampler_read_options(options, &known);
    if (status) return status;
    if (n_vocab == 0 || n_vocab > INT32_MAX)
        return error_raise(ENGINE_ERROR_ARGUMENT, "the vocabulary has %u tokens; a sampler supports 1 to %d",
                           n_vocab, INT32_MAX);
    struct engine_sampler *created = calloc(1, sizeof *created);
    if (!created) return error_memory("sampler");
    created->options = known;
    created->n_vocab = n_vocab;
    created->random = created->options.seed;
    created->candidates = calloc(n_vocab, sizeof *created->candidates);
    if (created->options.penalty_last_n > 0) {
        created->history = calloc(created->options.penalty_last_n, sizeof *created->history);
        created->counts = calloc(n_vocab, sizeof *created->counts);
    }
    if (!created->candidates ||
        (created->options.penalty_last_n > 0 && (!created->history || !created->counts))) {
        status = error_memory("sampler");
        goto cleanup;
    }
    *sampler = created;
    created = NULL;

cleanup:
    engine_sampler_destroy(created);
    return status;
}

void engine_sampler_destroy(struct engine_sampler *sampler)
{
    if (!sampler) return;
    free(sampler->counts);
    free(sampler->history);
    free(sampler->candidates);
    free(sampler);
}

void engine_sampler_accept(struct engine_sampler *sampler, int32_t token)
{
    if (!sampler->history || token < 0 || (uint32_t)token >= sampler->n_vocab) return;
    int32_t *place = &sampler->history[sampler->history_at];
    /* the oldest one leaves the ring */
    if (sampler->n_history == sampler->options.penalty_last_n)
        sampler->counts[*place]--;
    else
        sampler->n_history++;
    *place = token;
    sampler->counts[token]++;
    sampler->history_at = (sampler->history_at + 1) % sampler->options.penalty_last_n;
}

/* ---- Choosing the best ---- */

/* Higher keys are better; of equal keys the lower id. No two candidates are equal. */
static bool better(const struct candidate *a, const struct candidate *b)
{
    return a->key > b->key || (a->key == b->key && a->id < b->id);
}

/* Moves heap[at] down to its place in a heap with the best, or the worst, candidate at the top. */
static void sift_down(struct candidate *heap, size_t count, size_t at, bool worst_on_top)
{
    struct candidate moving = heap[at];
    for (size_t child; (child = at * 2 + 1) < count; at = child) {
        if (child + 1 < count && better(&heap[child + 1], &heap[child]) != worst_on_top) child++;
        if (better(&heap[child], &moving) == worst_on_top) break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static void make_heap(struct candidate *heap, size_t count, bool worst_on_top)
{
    for (size_t i = count / 2; i-- > 0;) sift_down(heap, count, i, worst_on_top);
}

/* Keeps the `count` candidates with the best keys, in no particular order; there are at least as many. */
static void keep_best(struct engine_sampler *sampler, size_t count)
{
    struct candidate *heap = sampler->candidates; /* [count], the worst of the kept ones at the top */
    make_heap(heap, count, true);
    for (size_t i = count; i < sampler->n_candidates; i++) {
        if (!better(&sampler->candidates[i], &heap[0])) continue;
        heap[0] = sampler->candidates[i];
        sift_down(heap, count, 0, true);
    }
    sampler->n_candidates = count;
}

static double highest_logit(const struct engine_sampler *sampler)
{
    double highest = sampler->candidates[0].logit;
    for (size_t i = 1; i < sampler->n_candidates; i++)
        if (sampler->candidates[i].logit > highest) highest = sampler->candidates[i].logit;
    return highest;
}

/* The sum of exp(logit - highest): its inverse is the probability of a candidate with the highest logit. */
static double total_weight(const struct engine_sampler *sampler, double highest)
{
    double total = 0;
    for (size_t i = 0; i < sampler->n_candidates; i++)
        total += portable_exp(sampler->candidates[i].logit - highest);
    return total;
}

/* Keeps the candidates with the best keys, best first, until their probabilities add up to `mass`, or, with
 * `exceed`, to more than it. A heap yields them one by one, so the time depends on how many are kept. */
static void keep_mass(struct engine_sampler *sampler, double mass, bool exceed)
{
    struct candidate *heap = sampler->candidates;
    size_t count = sampler->n_candidates, kept = 0;
    double highest = highest_logit(sampler), total = total_weight(sampler, highest), sum = 0;

    make_heap(heap, count, false);
    while (count > 0 && (exceed ? sum <= mass : sum < mass)) {
        struct candidate best = heap[0];
        heap[0] = heap[--count];
        if (count > 0) sift_down(heap, count, 0, false);
        heap[count] = best; /* kept ones collect at the end, the best last */
        kept++;
        sum += portable_exp(best.logit - highest) / total;
    }
    for (size_t i = 0, j = sampler->n_candidates - 1; i < kept && i < j; i++, j--) {
        struct candidate swapped = heap[i];
        heap[i] = heap[j];
        heap[j] = swapped;
    }
    sampler->n_candidates = kept;
}

/* ---- The chain ---- */

/* Keskar et al., CTRL, arXiv 1909.05858, with the logit's sign taken into account; frequency and presence as
 * in OpenAI's API. */
static double penalize(const struct engine_sampler *sampler, double logit, uint32_t count)
{
    const struct engine_sampler_options *options = &sampler->options;
    double repeat = options->penalty_repeat == 0 ? 1 : (double)options->penalty_repeat;
    logit = logit > 0 ? logit / repeat : logit * repeat;
    return logit - ((double)count * (double)options->penalty_frequency + (double)options->penalty_presence);
}

/* All tokens with a finite logit, in order of id. */
static void gather(struct engine_sampler *sampler, const float *logits)
{
    size_t n = 0;
    for (uint32_t id = 0; id < sampler->n_vocab; id++) {
        if (!isfinite(logits[id])) continue;
        double logit = (double)logits[id];
        if (sampler->counts && sampler->counts[id] > 0) logit = penalize(sampler, logit, sampler->counts[id]);
        sampler->candidates[n++] = (struct candidate){.logit = logit, .id = (int32_t)id};
    }
    sampler->n_candidates = n;
}

static int32_t greedy(const struct engine_sampler *sampler)
{
    const struct candidate *best = &sampler->candidates[0];
    for (size_t i = 1; i < sampler->n_candidates; i++)
        if (sampler->candidates[i].logit > best->logit) best = &sampler->candidates[i];
    return best->id;
}

static void key_by_logit(struct engine_sampler *sampler)
{
    for (size_t i = 0; i < sampler->n_candidates; i++)
        sampler->candidates[i].key = sampler->candidates[i].logit;
}

/* Locally typical sampling (arXiv 2202.00666): keeps the tokens whose information -log p is nearest to the
 * entropy H, until their probabilities exceed typical_p. With d = logit - highest: -log p = log total - d and
 * H = log total - mean of d, so |-log p - H| = |mean - d|, and no logarithm is needed. */
static void key_by_typicality(struct engine_sampler *sampler)
{
    double highest = highest_logit(sampler), total = total_weight(sampler, highest), sum = 0;
    for (size_t i = 0; i < sampler->n_candidates; i++) {
        double d = sampler->candidates[i].logit - highest;
        sum += portable_exp(d) * d;
    }
    double mean = sum / total;
    for (size_t i = 0; i < sampler->n_candidates; i++)
        sampler->candidates[i].key = -fabs(mean - (sampler->candidates[i].logit - highest));
}

/* Keeps candidates at least min_p times as probable as the most probable one. */
static void keep_min_p(struct engine_sampler *sampler)
{
    double highest = highest_logit(sampler);
    size_t kept = 0;
    for (size_t i = 0; i < sampler->n_candidates; i++)
        if (portable_exp(sampler->candidates[i].logit - highest) >= (double)sampler->options.min_p)
            sampler->candidates[kept++] = sampler->candidates[i];
    sampler->n_candidates = kept;
}

/* Draws a candidate with the probabilities softmax(logits / temperature). */
static int32_t draw(struct engine_sampler *sampler)
{
    double highest = highest_logit(sampler), temperature = (double)sampler->options.temperature, total = 0;
    for (size_t i = 0; i < sampler->n_candidates; i++) {
        struct candidate *candidate = &sampler->candidates[i];
        candidate->key = portable_exp((candidate->logit - highest) / temperature); /* its weight */
        total += candidate->key;
    }
    double target = portable_random_unit(&sampler->random) * total, sum = 0;
    int32_t id = sampler->candidates[0].id;
    for (size_t i = 0; i < sampler->n_candidates; i++) {
        if (sampler->candidates[i].key == 0) continue;
        id = sampler->candidates[i].id;
        sum += sampler->candidates[i].key;
        if (sum > target) break;
    }
    return id;
}

int engine_sample(struct engine_sampler *sampler, float *logits, int32_t *token)
{
    const struct engine_sampler_options *options = &sampler->options;
    gather(sampler, logits);
    if (sampler->n_candidates == 0)
        return error_raise(ENGINE_ERROR_DATA, "no logit is finite: the model's weights are damaged");
    if (options->temperature == 0) { /* greedy, regardless of the other steps */
        *token = greedy(sampler);
        return ENGINE_OK;
    }
    if (options->top_k > 0 && options->top_k < sampler->n_candidates) {
        key_by_logit(sampler);
        keep_best(sampler, options->top_k);
    }
    if (options->typical_p > 0 && options->typical_p < 1) {
        key_by_typicality(sampler);
        keep_mass(sampler, (double)options->typical_p, true);
    }
    if (options->top_p > 0 && options->top_p < 1) {
        key_by_logit(sampler);
        keep_mass(sampler, (double)options->top_p, false);
    }
    if (options->min_p > 0) keep_min_p(sampler);
    *token = draw(sampler);
    return ENGINE_OK;
}
