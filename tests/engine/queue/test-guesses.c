/* test-guesses.c: guesses of the queue, on paper: what a text is expected to go on with, and how many
 * tokens are worth guessing. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "queue/internal.h"
#include "queue/pace.h"

TestSuite(lookup);
TestSuite(pace);

/* ---- Lookup ---- */

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Guesses six tokens after the text, which is indexed piece by piece. */
static size_t guess_after(const int32_t *tokens, size_t n_tokens, int32_t guess[6])
{
    struct lookup *lookup = lookup_create();
    for (size_t n = 1; n <= n_tokens; n += 3) cr_assert(lookup_extend(lookup, tokens, n));
    cr_assert(lookup_extend(lookup, tokens, n_tokens));
    size_t alike = lookup_guess(lookup, tokens, n_tokens, 6, guess);
    lookup_destroy(lookup);
    return alike;
}

Test(lookup, guesses_what_followed_then)
{
    const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 3};
    int32_t guess[6];
    cr_assert_eq(guess_after(tokens, COUNT(tokens), guess), 2);
    cr_assert_arr_eq(guess, ((int32_t[]){4, 5, 6, 7, 8, 9}), sizeof guess);
}

Test(lookup, prefers_the_longest_and_then_the_last)
{
    const int32_t longest[] = {1, 2, 3, 40, 9, 9, 5, 2, 3, 50, 9, 8, 1, 2, 3};
    const int32_t last[] = {2, 3, 40, 41, 9, 9, 2, 3, 50, 51, 9, 8, 2, 3};
    int32_t guess[6];
    cr_assert_eq(guess_after(longest, COUNT(longest), guess), 3);
    cr_assert_eq(guess[0], 40);
    cr_assert_eq(guess_after(last, COUNT(last), guess), 2);
    cr_assert_eq(guess[0], 50);
}

Test(lookup, continues_what_repeats)
{
    const int32_t tokens[] = {7, 1, 2, 1, 2, 1, 2};
    int32_t guess[6];
    cr_assert_eq(guess_after(tokens, COUNT(tokens), guess), 4);
    cr_assert_arr_eq(guess, ((int32_t[]){1, 2, 1, 2, 1, 2}), sizeof guess);
}

Test(lookup, guesses_nothing_where_nothing_agrees)
{
    const int32_t tokens[] = {1, 2, 3, 4, 5, 3, 6, 3};
    int32_t guess[6];
    for (size_t n = 1; n <= COUNT(tokens); n++) cr_assert_eq(guess_after(tokens, n, guess), 0, "%zu", n);
    struct lookup *lookup = lookup_create();
    cr_assert_eq(lookup_guess(lookup, tokens, 5, 6, guess), 0); /* not indexed */
    lookup_destroy(lookup);
}

Test(lookup, finds_passages_far_back)
{
    enum { N = 20000, AT = 321 };
    static int32_t tokens[N + 8];
    for (int i = 0; i < N; i++) tokens[i] = 100 + i;
    memcpy(tokens + N, tokens + AT, 8 * sizeof *tokens);
    struct lookup *lookup = lookup_create();
    int32_t guess[3];
    for (size_t n = 1; n <= N + 8; n++) cr_assert(lookup_extend(lookup, tokens, n));
    cr_assert_eq(lookup_guess(lookup, tokens, N + 8, 3, guess), 8);
    cr_assert_arr_eq(guess, &tokens[AT + 8], sizeof guess);
    lookup_destroy(lookup);
}

/* ---- Costs ---- */

Test(pace, costs_are_estimated_from_their_neighbours)
{
    struct step_costs costs = {0};
    cr_assert_eq(costs_of(&costs, 1), 0);
    costs_measured(&costs, 2, 2);
    cr_assert_eq(costs_of(&costs, 1), 2);
    cr_assert_float_eq(costs_of(&costs, 4), 2.2, 1e-9);
    costs_measured(&costs, 6, 4);
    cr_assert_float_eq(costs_of(&costs, 4), 3, 1e-9);
    cr_assert_eq(costs_of(&costs, COST_COLUMNS + 1), 0);
    costs_measured(&costs, COST_COLUMNS + 1, 5);
    costs_measured(&costs, 2, 1);
    cr_assert_float_eq(costs_of(&costs, 2), 1.5, 1e-9);
    costs_measured(&costs, 2, 2.5);
    cr_assert_float_eq(costs_of(&costs, 2), 1.6, 1e-9);
}

/* ---- Pace ---- */

/* A text of n tokens whose guesses come true as `comes_true` says; each token beyond the first costs
 * `slope` of one. Returns the time, in tokens' times. */
static double run_text(size_t n, double slope, bool (*comes_true)(size_t token))
{
    struct step_costs costs = {0};
    for (size_t i = 1; i <= COST_COLUMNS; i++) costs_measured(&costs, i, 1 + slope * (double)(i - 1));
    struct pace pace;
    pace_create(&pace);
    double time = 0;
    for (size_t made = 0; made < n;) {
        struct pace_question question = {
            .source = PACE_LOOKUP_4, .n_most = PACE_MAX, .n_requests = 1, .n_tokens = 1, .costs = &costs};
        struct pace_answer answer = pace_choose(&pace, &question);
        size_t accepted = 0;
        while (accepted < answer.n_guess && comes_true(made + accepted)) accepted++;
        pace_record(&pace, question.source, answer.n_guess, accepted, answer.cost);
        pace_earn(&pace, accepted + 1);
        time += costs_of(&costs, 1 + answer.n_guess);
        made += accepted + 1;
    }
    return time;
}

static bool always(size_t token)
{
    (void)token;
    return true;
}

static bool never(size_t token)
{
    (void)token;
    return false;
}

static bool seven_of_ten(size_t token)
{
    return (token * 0x9e3779b97f4a7c15u >> 32) % 10 < 7;
}

static bool in_the_second_half(size_t token)
{
    return token > 500;
}

Test(pace, gains_where_guesses_come_true)
{
    cr_expect_lt(run_text(256, 0.1, always), 256 / 3.0);
    cr_expect_lt(run_text(1000, 0.1, seven_of_ten), 1000 / 1.7);
    cr_expect_lt(run_text(1000, 0.1, in_the_second_half), 500 * 1.03 + 500 / 3.0);
}

Test(pace, loses_little_where_they_fail)
{
    for (double slope = 0.01; slope < 2; slope *= 1.5) {
        cr_expect_leq(run_text(64, slope, never), 64 * 1.03, "%g", slope);
        cr_expect_leq(run_text(1000, slope, never), 1000 * 1.03, "%g", slope);
    }
    cr_expect_leq(run_text(1000, 1.1, always), 1000 * 1.03); /* true, but dearer than without */
}

/* A step with guesses that was measured on a lucky moment looks free, and isn't. */
Test(pace, guesses_rarely_where_they_fail_and_seem_free)
{
    struct step_costs costs = {0};
    for (size_t i = 1; i <= COST_COLUMNS; i++) costs_measured(&costs, i, 1);
    struct pace pace;
    pace_create(&pace);
    size_t guesses = 0;
    for (size_t made = 0; made < 110; made++) {
        struct pace_question question = {
            .source = PACE_LOOKUP_2, .n_most = 1, .n_requests = 1, .n_tokens = 1, .costs = &costs};
        struct pace_answer answer = pace_choose(&pace, &question);
        pace_record(&pace, question.source, answer.n_guess, 0, answer.cost);
        pace_earn(&pace, 1);
        guesses += answer.n_guess;
    }
    cr_assert_leq(guesses, 20, "%zu", guesses);
}

Test(pace, guesses_nothing_as_long_as_no_step_was_measured)
{
    struct step_costs costs = {0};
    struct pace pace;
    pace_create(&pace);
    struct pace_question question = {.n_most = 7, .n_requests = 1, .n_tokens = 1, .costs = &costs};
    cr_assert_eq(pace_choose(&pace, &question).n_guess, 0);
    costs_measured(&costs, 1, 1);
    cr_assert_gt(pace_choose(&pace, &question).n_guess, 0);
    question.n_most = 0;
    cr_assert_eq(pace_choose(&pace, &question).n_guess, 0);
    question.n_most = 2;
    cr_assert_leq(pace_choose(&pace, &question).n_guess, 2);
    question.seconds_each = 10; /* a draft model as slow as the model */
    cr_assert_eq(pace_choose(&pace, &question).n_guess, 0);
}

Test(pace, many_requests_share_the_step)
{
    struct step_costs costs = {0};
    for (size_t i = 1; i <= COST_COLUMNS; i++) costs_measured(&costs, i, (double)i); /* bound by arithmetic */
    struct pace pace;
    pace_create(&pace);
    struct pace_question question = {
        .source = PACE_DRAFT, .n_most = 7, .n_requests = 16, .n_tokens = 16, .costs = &costs};
    cr_assert_eq(pace_choose(&pace, &question).n_guess, 0);
    question.n_tokens = COST_COLUMNS;
    cr_assert_eq(pace_choose(&pace, &question).n_guess, 0);
}
