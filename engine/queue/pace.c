/* pace.c: see pace.h. */
#include "queue/pace.h"

#include "common/assert.h"

#define FIRST_BALANCE 0.5
#define MAX_BALANCE   4.0
#define SHARE         0.01 /* of each token's time that may be risked */
#define SLOPE         0.1  /* of one token's time: the assumed cost of a further token until it is known */
#define LEAST_COST    0.1  /* of guesses, in tokens' times: steps vary by more than what one guess adds */

/* ---- Costs ---- */

void costs_measured(struct step_costs *costs, size_t n_tokens, double seconds)
{
    if (n_tokens == 0 || n_tokens > COST_COLUMNS || !(seconds > 0)) return;
    double *known = &costs->seconds[n_tokens];
    if (*known == 0)
        *known = seconds;
    else /* interruptions make steps longer, never shorter */
        *known += (seconds - *known) * (seconds < *known ? 0.5 : 0.1);
}

double costs_of(const struct step_costs *costs, size_t n_tokens)
{
    if (n_tokens == 0 || n_tokens > COST_COLUMNS) return 0;
    size_t below = n_tokens, above = n_tokens;
    while (below > 0 && costs->seconds[below] == 0) below--;
    if (below == n_tokens) return costs->seconds[n_tokens];
    while (above <= COST_COLUMNS && costs->seconds[above] == 0) above++;
    if (above > COST_COLUMNS)
        return below == 0 ? 0
                          : costs->seconds[below] * (1 + SLOPE * (double)(n_tokens - below) / (double)below);
    if (below == 0) return costs->seconds[above]; /* too much, at worst */
    double part = (double)(n_tokens - below) / (double)(above - below);
    return costs->seconds[below] + (costs->seconds[above] - costs->seconds[below]) * part;
}

/* ---- Choosing ---- */

void pace_create(struct pace *pace)
{
    *pace = (struct pace){
        .first = {[PACE_LOOKUP_2] = 0.3,
                  [PACE_LOOKUP_3] = 0.4,
                  [PACE_LOOKUP_4] = 0.6,
                  [PACE_LOOKUP_8] = 0.8,
                  [PACE_DRAFT] = 0.7},
        .further = {[PACE_LOOKUP_2] = 0.6,
                    [PACE_LOOKUP_3] = 0.6,
                    [PACE_LOOKUP_4] = 0.7,
                    [PACE_LOOKUP_8] = 0.8,
                    [PACE_DRAFT] = 0.7},
        .balance = FIRST_BALANCE,
    };
}

/* The tokens that n guesses are expected to give; each counts only if all those before it are right. */
static double expected(const struct pace *pace, enum pace_source source, size_t n)
{
    double sum = 0, chance = pace->first[source];
    for (size_t i = 0; i < n; i++) {
        sum += chance;
        chance *= pace->further[source];
    }
    return sum;
}

struct pace_answer pace_choose(const struct pace *pace, const struct pace_question *question)
{
    struct pace_answer best = {0}, probe = {0};
    double step = costs_of(question->costs, question->n_requests),
           now = costs_of(question->costs, question->n_tokens);
    if (step <= 0 || now <= 0 || question->n_most == 0) return best;
    double token = step / (double)question->n_requests;
    for (size_t n = 1; n <= PACE_MAX; n = n * 2 + 1) {
        size_t count = n < question->n_most ? n : question->n_most;
        double then = costs_of(question->costs, question->n_tokens + count);
        if (then <= 0) break;
        double seconds = then - now + question->seconds_once + question->seconds_each * (double)count;
        double cost = seconds > LEAST_COST * token ? seconds / token : LEAST_COST;
        if (cost > pace->balance) break;
        double gain = expected(pace, question->source, count) - cost;
        if (gain > best.gain) best = (struct pace_answer){.n_guess = count, .cost = cost, .gain = gain};
        if (n == 1) probe = (struct pace_answer){.n_guess = count, .cost = cost, .gain = gain};
        if (count < n) break;
    }
    return best.n_guess > 0 ? best : probe;
}

/* ---- Results ---- */

static void approach(double *rate, double value, double weight)
{
    *rate += (value - *rate) * weight;
}

void pace_record(struct pace *pace, enum pace_source source, size_t n_guess, size_t n_accepted, double cost)
{
    if (n_guess == 0) return;
    ENGINE_ASSERT(source < PACE_SOURCES);
    ENGINE_ASSERT(n_accepted <= n_guess);
    approach(&pace->first[source], n_accepted > 0 ? 1 : 0, 1.0 / 8);
    for (size_t i = 1; i < n_accepted; i++) approach(&pace->further[source], 1, 1.0 / 16);
    if (n_accepted > 0 && n_accepted < n_guess) approach(&pace->further[source], 0, 1.0 / 16);
    pace->balance += (double)n_accepted - cost;
    if (pace->balance > MAX_BALANCE) pace->balance = MAX_BALANCE;
}

void pace_earn(struct pace *pace, size_t n_tokens)
{
    pace->balance += SHARE * (double)n_tokens;
    if (pace->balance > MAX_BALANCE) pace->balance = MAX_BALANCE;
}
