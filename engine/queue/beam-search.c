/* beam-search.c: see beam-search.h. */
#include "queue/beam-search.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "common/array.h"
#include "common/assert.h"
#include "engine.h"
#include "sample/sampler.h"

int beam_search_create(const struct beam_search_options *options, struct beam_search *search)
{
    size_t n = options->n_beams;
    *search = (struct beam_search){.options = *options, .n_live = 1};
    search->live = calloc(n, sizeof *search->live);
    search->next = calloc(n, sizeof *search->next);
    search->found = calloc(n, sizeof *search->found);
    search->best = calloc(n, sizeof *search->best);
    search->going = calloc(n, sizeof *search->going);
    if (!search->live || !search->next || !search->found || !search->best || !search->going) {
        beam_search_destroy(search);
        return error_memory("beams");
    }
    search->live[0].node = BEAM_ROOT;
    return ENGINE_OK;
}

void beam_search_destroy(struct beam_search *search)
{
    free(search->nodes);
    free(search->live);
    free(search->next);
    free(search->found);
    free(search->best);
    free(search->going);
    *search = (struct beam_search){0};
}

/* ---- Candidates ---- */

/* Keeps the n_beams best; of equals, the one that came first. */
static void keep_candidate(struct beam_candidate *list, uint32_t *count, uint32_t most,
                           const struct beam_candidate *candidate)
{
    if (*count == most && !(candidate->sum > list[most - 1].sum)) return;
    uint32_t at = *count < most ? (*count)++ : most - 1;
    for (; at > 0 && list[at - 1].sum < candidate->sum; at--) list[at] = list[at - 1];
    list[at] = *candidate;
}

void beam_search_read(struct beam_search *search, uint32_t beam, const float *logits, uint32_t n_vocab,
                      beam_ends ends, void *user)
{
    uint32_t n = search->options.n_beams;
    ENGINE_ASSERT(beam < search->n_live);
    double base = search->live[beam].sum - logprobs_log_total(logits, n_vocab);
    for (uint32_t id = 0; id < n_vocab; id++) {
        struct beam_candidate candidate = {
            .sum = base + (double)logits[id], .beam = beam, .token = (int32_t)id};
        /* The worst of `best` is no worse than that of `going`. */
        if (search->n_going == n && !(candidate.sum > search->going[n - 1].sum)) continue;
        if (!isfinite(logits[id])) continue;
        candidate.reason = ends(user, candidate.token);
        keep_candidate(search->best, &search->n_best, n, &candidate);
        if (!candidate.reason) keep_candidate(search->going, &search->n_going, n, &candidate);
    }
}

/* ---- Hypotheses ---- */

/* The sum divided by length^length_penalty, with our own exponential, so that scores are the same
 * everywhere. */
static double score_of(const struct beam_search *search, double sum, uint32_t length)
{
    double penalty = search->options.length_penalty;
    if (penalty == 0) return sum;
    if (penalty == 1) return sum / length;
    double exponent = penalty * portable_log(length);
    return exponent > 0 ? sum * portable_exp(-exponent) : sum / portable_exp(exponent);
}

/* `length`: as the score counts it. Of equals, the one that was there first is kept. */
static void add_hypothesis(struct beam_search *search, struct hypothesis *hypothesis, uint32_t length)
{
    uint32_t n = search->options.n_beams;
    struct hypothesis *found = search->found;
    hypothesis->score = score_of(search, hypothesis->sum, length);
    if (search->n_found == n && !(hypothesis->score > found[n - 1].score)) return;
    uint32_t at = search->n_found < n ? search->n_found++ : n - 1;
    for (; at > 0 && found[at - 1].score < hypothesis->score; at--) found[at] = found[at - 1];
    found[at] = *hypothesis;
}

/* Room for all of a round's nodes: hypotheses that reached the limit, and live beams. */
static bool make_room(struct beam_search *search)
{
    size_t needed = (size_t)search->n_nodes + 2 * (size_t)search->options.n_beams;
    return needed < BEAM_ROOT && ARRAY_RESERVE(search->nodes, search->node_capacity, needed);
}

static uint32_t add_node(struct beam_search *search, const struct beam_candidate *candidate)
{
    ENGINE_ASSERT(search->n_nodes < search->node_capacity); /* see make_room */
    search->nodes[search->n_nodes] = (struct beam_node){candidate->token, search->live[candidate->beam].node};
    return search->n_nodes++;
}

/* Candidates that end their text, or reach the limit, become hypotheses. Only the n_beams best candidates
 * count: a text that ends with an unlikely token is not one to stop for. */
static void close_texts(struct beam_search *search)
{
    uint32_t length = search->n_tokens + 1;
    bool last = length == search->options.max_tokens;
    for (uint32_t i = 0; i < search->n_best; i++) {
        const struct beam_candidate *candidate = &search->best[i];
        struct hypothesis hypothesis = {.sum = candidate->sum, .reason = candidate->reason};
        if (candidate->reason) {
            hypothesis.node = search->live[candidate->beam].node;
            hypothesis.n_tokens = search->n_tokens;
        } else if (last) {
            hypothesis.node = add_node(search, candidate);
            hypothesis.n_tokens = length;
            hypothesis.reason = search->options.last_reason;
        }
        if (hypothesis.reason) add_hypothesis(search, &hypothesis, length);
    }
}

/* The best of the rest are continued. */
static void continue_texts(struct beam_search *search)
{
    struct live_beam *live = search->next;
    for (uint32_t i = 0; i < search->n_going; i++) {
        const struct beam_candidate *candidate = &search->going[i];
        live[i] = (struct live_beam){
            .node = add_node(search, candidate), .parent = candidate->beam, .sum = candidate->sum};
    }
    search->next = search->live;
    search->live = live;
    search->n_live = search->n_going;
    search->n_tokens++;
}

/* Whether the best live beam could still become better than the worst hypothesis, as far as its score can be
 * told in advance: at its length now, or, for "never" and a penalty that favours long texts, at the greatest
 * length. */
static bool may_improve(const struct beam_search *search)
{
    const struct beam_search_options *options = &search->options;
    if (search->n_found < options->n_beams) return true;
    if (options->early_stopping == ENGINE_EARLY_STOPPING_TRUE) return false;
    bool never = options->early_stopping == ENGINE_EARLY_STOPPING_NEVER && options->length_penalty > 0;
    double possible = score_of(search, search->live[0].sum, never ? options->max_tokens : search->n_tokens);
    return possible > search->found[options->n_beams - 1].score;
}

int beam_search_advance(struct beam_search *search)
{
    if (search->n_best == 0)
        return error_raise(ENGINE_ERROR_DATA, "no beam can be continued: none of its logits is finite");
    if (!make_room(search)) return error_memory("beams");
    close_texts(search);
    if (search->n_tokens + 1 == search->options.max_tokens)
        search->n_live = 0;
    else
        continue_texts(search);
    search->n_best = search->n_going = 0;
    return ENGINE_OK;
}

void beam_search_end(struct beam_search *search, uint32_t beam, uint32_t reason)
{
    ENGINE_ASSERT(beam < search->n_live);
    const struct live_beam *live = &search->live[beam];
    struct hypothesis hypothesis = {
        .node = live->node, .n_tokens = search->n_tokens, .sum = live->sum, .reason = reason};
    add_hypothesis(search, &hypothesis, search->n_tokens > 0 ? search->n_tokens : 1);
    search->n_live--;
    for (uint32_t i = beam; i < search->n_live; i++) search->live[i] = search->live[i + 1];
}

bool beam_search_goes_on(struct beam_search *search)
{
    bool goes_on = search->n_live > 0 && may_improve(search);
    if (!goes_on) search->n_live = 0;
    return goes_on;
}

void beam_search_close(struct beam_search *search, uint32_t reason)
{
    while (search->n_live > 0 && search->n_tokens > 0) beam_search_end(search, 0, reason);
    search->n_live = 0;
}

/* ---- Texts ---- */

void beam_search_tokens(const struct beam_search *search, uint32_t node, uint32_t n_tokens, int32_t *tokens)
{
    for (; n_tokens > 0; node = search->nodes[node].before) {
        ENGINE_ASSERT(node < search->n_nodes);
        tokens[--n_tokens] = search->nodes[node].token;
    }
    ENGINE_ASSERT(node == BEAM_ROOT);
}

uint32_t beam_search_common(const struct beam_search *search, uint32_t a, uint32_t b)
{
    uint32_t x = search->live[a].node, y = search->live[b].node, common = search->n_tokens;
    for (; x != y; common--) {
        x = search->nodes[x].before;
        y = search->nodes[y].before;
    }
    return common;
}
