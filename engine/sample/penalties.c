/* penalties.c: the steps that look back at the last tokens of the text.
 *
 * Repetition (Keskar et al., CTRL, arXiv 1909.05858, with the logit's sign taken into account), frequency and
 * presence penalties (as in OpenAI's API) lower the logits of tokens that the text used recently.
 *
 * DRY ("don't repeat yourself", github.com/oobabooga/text-generation-webui, pull request 5677): a token that
 * would continue a repetition of n tokens, of at least the allowed length, loses multiplier * base^(n -
 * allowed length). A repetition does not reach back over a sequence breaker. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "common/assert.h"
#include "sample/internal.h"

#define SEEN 0x80000000u /* a flag in a count, within a call */

#define MAX_BREAKER_BYTES 40 /* of a breaker's text; llama.cpp's limits */
#define MAX_BREAKER_TAIL  20

/* ---- The last tokens ---- */

int history_create(struct history *history, size_t capacity)
{
    *history = (struct history){.capacity = capacity};
    if (capacity == 0) return ENGINE_OK;
    history->tokens = calloc(capacity, sizeof *history->tokens);
    return history->tokens ? ENGINE_OK : error_memory("sampler");
}

void history_destroy(struct history *history)
{
    free(history->tokens);
}

void history_add(struct history *history, int32_t token)
{
    if (history->capacity == 0) return;
    history->tokens[history->next] = token;
    history->next = history->next + 1 == history->capacity ? 0 : history->next + 1;
    if (history->count < history->capacity) history->count++;
}

int32_t history_at(const struct history *history, size_t back)
{
    ENGINE_ASSERT(back < history->count);
    size_t at = history->next + history->capacity - 1 - back;
    return history->tokens[at >= history->capacity ? at - history->capacity : at];
}

/* ---- Repetition, frequency, presence ---- */

void penalties_accept(struct engine_sampler *sampler, int32_t token)
{
    if (!sampler->counts) return;
    size_t last_n = sampler->options.penalty_last_n;
    if (sampler->history.count >= last_n) sampler->counts[history_at(&sampler->history, last_n - 1)]--;
    ENGINE_ASSERT(sampler->counts[token] < SEEN);
    sampler->counts[token]++;
}

static float penalize_recent(const struct engine_sampler_options *options, float logit, uint32_t count)
{
    double repeat = options->penalty_repeat == 0 ? 1 : (double)options->penalty_repeat;
    float repeated = finite_logit(logit > 0 ? (double)logit / repeat : (double)logit * repeat);
    return finite_logit((double)repeated - ((double)count * (double)options->penalty_frequency +
                                            (double)options->penalty_presence));
}

/* Each of the last tokens once. */
static void penalize_recent_array(struct engine_sampler *sampler)
{
    const struct history *history = &sampler->history;
    size_t n =
        sampler->options.penalty_last_n < history->count ? sampler->options.penalty_last_n : history->count;
    for (size_t i = 0; i < n; i++) {
        int32_t token = history_at(history, i);
        uint32_t count = sampler->counts[token];
        float *logit = &sampler->candidates.logits[token];
        if (count & SEEN) continue;
        sampler->counts[token] |= SEEN;
        if (isfinite(*logit)) *logit = penalize_recent(&sampler->options, *logit, count);
    }
    for (size_t i = 0; i < n; i++) sampler->counts[history_at(history, i)] &= ~SEEN;
}

void sampler_penalties(struct engine_sampler *sampler)
{
    const struct engine_sampler_options *options = &sampler->options;
    bool repeats = options->penalty_repeat != 0 && options->penalty_repeat != 1;
    if (!sampler->counts || (!repeats && options->penalty_frequency == 0 && options->penalty_presence == 0))
        return;
    if (!sampler->candidates.listed) {
        penalize_recent_array(sampler);
        return;
    }
    for (size_t i = 0; i < sampler->candidates.count; i++) {
        struct candidate *candidate = &sampler->candidates.items[i];
        uint32_t count = sampler->counts[candidate->id];
        if (count > 0) candidate->logit = penalize_recent(options, candidate->logit, count);
    }
}

/* ---- DRY's sequence breakers ---- */

/* From texts to tokens: a breaker may be part of a token, be a token, or be made of several, the first of
 * which may begin before it. */

static int add_breaker_tail(void *user, const int32_t *ids, size_t count)
{
    struct dry_breakers *breakers = user;
    if (!ARRAY_RESERVE(breakers->tails, breakers->tails_capacity, breakers->n_tails + count))
        return error_memory("sequence breakers");
    memcpy(breakers->tails + breakers->n_tails, ids, count * sizeof *ids);
    breakers->n_tails += count;
    return ENGINE_OK;
}

/* `tail`: what has to follow the token. */
static int add_breaker(struct dry_breakers *breakers, int32_t head, struct engine_string tail,
                       const struct token_texts *vocabulary)
{
    size_t begin = breakers->n_tails;
    int status = ENGINE_OK;
    if (tail.length > 0)
        status = vocabulary->api->encode(vocabulary->tokenizer, tail.data, tail.length, 0, add_breaker_tail,
                                         breakers);
    if (status) return status;
    if (breakers->n_tails - begin > MAX_BREAKER_TAIL) breakers->n_tails = begin + MAX_BREAKER_TAIL;
    if (!ARRAY_RESERVE(breakers->items, breakers->capacity, breakers->count + 1))
        return error_memory("sequence breakers");
    breakers->items[breakers->count++] =
        (struct dry_breaker){head, (uint32_t)begin, (uint32_t)(breakers->n_tails - begin)};
    return ENGINE_OK;
}

/* All ways in which a token takes part in a breaker. */
static int add_token_breakers(struct dry_breakers *breakers, int32_t id, struct engine_string text,
                              struct engine_string breaker, const struct token_texts *vocabulary)
{
    if (memmem(text.data, text.length, breaker.data, breaker.length))
        return add_breaker(breakers, id, (struct engine_string){"", 0}, vocabulary);
    int status = ENGINE_OK;
    size_t most = text.length < breaker.length ? text.length : breaker.length - 1;
    for (size_t n = most; n > 0 && !status; n--) /* the token's last n bytes begin the breaker */
        if (memcmp(text.data + text.length - n, breaker.data, n) == 0)
            status = add_breaker(breakers, id, (struct engine_string){breaker.data + n, breaker.length - n},
                                 vocabulary);
    return status;
}

/* Finds them in the tokens below n_vocab. Returns an enum engine_status. */
static int dry_breakers_create(struct dry_breakers *breakers, const struct engine_string *texts,
                               size_t n_texts, const struct token_texts *vocabulary, uint32_t n_vocab)
{
    int status = ENGINE_OK;
    *breakers = (struct dry_breakers){0};
    for (uint32_t id = 0; id < n_vocab && !status; id++) {
        struct engine_string text = token_text(vocabulary, (int32_t)id);
        for (size_t i = 0; i < n_texts && text.length > 0 && !status; i++) {
            struct engine_string breaker = texts[i];
            if (breaker.length > MAX_BREAKER_BYTES) breaker.length = MAX_BREAKER_BYTES;
            status = add_token_breakers(breakers, (int32_t)id, text, breaker, vocabulary);
        }
    }
    return status;
}

static void dry_breakers_destroy(struct dry_breakers *breakers)
{
    free(breakers->items);
    free(breakers->tails);
}

/* The first breaker with this head, or one past all that could have it. */
static size_t find_breaker(const struct dry_breakers *breakers, int32_t head)
{
    size_t low = 0, high = breakers->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (breakers->items[middle].head < head)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether the tail stands after the token that has `back` others after it. */
static int breaker_follows(const struct dry_breakers *breakers, const struct dry_breaker *breaker,
                           const struct history *history, size_t back)
{
    ENGINE_ASSERT(breaker->n_tail <= back);
    for (size_t i = 0; i < breaker->n_tail; i++)
        if (breakers->tails[breaker->tail + i] != history_at(history, back - 1 - i)) return 0;
    return 1;
}

/* How many of the last n tokens come after the last breaker; n: there is none. */
static size_t dry_breakers_reach(const struct dry_breakers *breakers, const struct history *history, size_t n)
{
    for (size_t back = 0; back < n; back++) {
        int32_t token = history_at(history, back);
        size_t longest = SIZE_MAX; /* tail that is there */
        for (size_t i = find_breaker(breakers, token);
             i < breakers->count && breakers->items[i].head == token; i++) {
            const struct dry_breaker *breaker = &breakers->items[i];
            if (breaker->n_tail > back || !breaker_follows(breakers, breaker, history, back)) continue;
            if (longest == SIZE_MAX || breaker->n_tail > longest) longest = breaker->n_tail;
        }
        if (longest != SIZE_MAX) return back - longest;
    }
    return n;
}

/* Whether a token alone is a breaker. */
static int dry_breakers_has(const struct dry_breakers *breakers, int32_t token)
{
    for (size_t i = find_breaker(breakers, token); i < breakers->count && breakers->items[i].head == token;
         i++)
        if (breakers->items[i].n_tail == 0) return 1;
    return 0;
}

/* ---- DRY ---- */

int dry_create(struct engine_sampler *sampler, const struct sampler_settings *settings,
               const struct token_texts *texts)
{
    const struct engine_sampler_options *options = &settings->options;
    if (!sampler_settings_want_dry(settings)) return ENGINE_OK;
    size_t n = sampler->options.dry_penalty_last_n;
    sampler->dry.lengths = calloc(sampler->n_vocab, sizeof *sampler->dry.lengths);
    sampler->dry.found = calloc(n, sizeof *sampler->dry.found);
    sampler->dry.z = calloc(n, sizeof *sampler->dry.z);
    if (!sampler->dry.lengths || !sampler->dry.found || !sampler->dry.z) return error_memory("sampler");
    if (options->n_dry_breakers == 0) return ENGINE_OK;
    return dry_breakers_create(&sampler->dry.breakers, options->dry_breakers, options->n_dry_breakers, texts,
                               sampler->n_vocab);
}

void dry_destroy(struct engine_sampler *sampler)
{
    free(sampler->dry.lengths);
    free(sampler->dry.found);
    free(sampler->dry.z);
    dry_breakers_destroy(&sampler->dry.breakers);
}

/* z[k]: how many of the last tokens, read backwards, also stand before the last k; the Z-function of the
 * reversed text (Gusfield, Algorithms on Strings, 1997, 1.4). */
static void find_repetitions(const struct history *history, size_t n, uint32_t *z)
{
    size_t left = 0, right = 0; /* the box that reaches furthest: [left, right) */
    z[0] = (uint32_t)n;
    for (size_t k = 1; k < n; k++) {
        size_t length = 0;
        if (k < right) length = z[k - left] < right - k ? z[k - left] : right - k;
        while (k + length < n && history_at(history, length) == history_at(history, k + length)) length++;
        z[k] = (uint32_t)length;
        if (k + length > right) {
            left = k;
            right = k + length;
        }
    }
}

static double dry_penalty(const struct engine_sampler_options *options, uint32_t length)
{
    ENGINE_ASSERT(length >= options->dry_allowed_length);
    double base = (double)options->dry_base, result = (double)options->dry_multiplier;
    uint32_t exponent = length - options->dry_allowed_length, most = 0;
    /* up to the exponent at which base^exponent leaves float32 */
    if (options->dry_base > 1.000001f) most = (uint32_t)(88.7228391 / portable_log(base));
    if (most > 0 && exponent > most) exponent = most;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

static void penalize_repetition(struct engine_sampler *sampler, float *logit, int32_t token)
{
    uint32_t length = sampler->dry.lengths[token];
    if (length == 0 || dry_breakers_has(&sampler->dry.breakers, token) || !isfinite(*logit)) return;
    *logit = finite_logit((double)*logit - dry_penalty(&sampler->options, length - 1));
}

void sampler_dry(struct engine_sampler *sampler)
{
    const struct history *history = &sampler->history;
    struct dry *dry = &sampler->dry;
    size_t allowed = sampler->options.dry_allowed_length, n = sampler->options.dry_penalty_last_n,
           n_found = 0;
    if (!dry->lengths) return;
    if (n > history->count) n = history->count;
    if (n <= allowed) return;
    size_t reach = dry_breakers_reach(&dry->breakers, history, n);
    if (reach < allowed) return;
    find_repetitions(history, n, dry->z);
    for (size_t k = 1; k < n; k++) {
        size_t length = dry->z[k] < reach ? dry->z[k] : reach;
        if (length < allowed) continue;
        int32_t token = history_at(history, k - 1); /* what came after the repeated tokens */
        if (dry->lengths[token] == 0) dry->found[n_found++] = token;
        if (dry->lengths[token] < length + 1) dry->lengths[token] = (uint32_t)length + 1;
    }
    struct candidates *candidates = &sampler->candidates;
    if (!candidates->listed)
        for (size_t i = 0; i < n_found; i++)
            penalize_repetition(sampler, &candidates->logits[dry->found[i]], dry->found[i]);
    else
        for (size_t i = 0; i < candidates->count; i++)
            penalize_repetition(sampler, &candidates->items[i].logit, candidates->items[i].id);
    for (size_t i = 0; i < n_found; i++) dry->lengths[dry->found[i]] = 0;
}
