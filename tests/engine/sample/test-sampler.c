/* test-sampler.c: the sampler chain, each step against cases worked out by hand. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine.h"
#include "sample/sampler.h"

#define N_DRAWS 20000

/* Logits whose softmax is these probabilities. */
static void logits_of(const double *probabilities, size_t n, float *logits)
{
    for (size_t i = 0; i < n; i++) logits[i] = (float)log(probabilities[i]);
}

static struct engine_sampler *create(struct engine_sampler_options options, uint32_t n_vocab)
{
    struct engine_sampler *sampler = NULL;
    options.struct_size = sizeof options;
    cr_assert(engine_sampler_create(&options, n_vocab, &sampler) == ENGINE_OK, "%s", engine_error_message());
    return sampler;
}

static int32_t sample(struct engine_sampler *sampler, const float *logits, size_t n)
{
    float copy[64];
    int32_t token = -1;
    memcpy(copy, logits, n * sizeof *copy);
    cr_assert(engine_sample(sampler, copy, &token) == ENGINE_OK, "%s", engine_error_message());
    return token;
}

/* Draws many times and expects the share of each token to be near expected[n], and 0 to be 0. */
static void expect_shares(struct engine_sampler_options options, const float *logits, size_t n,
                          const double *expected)
{
    size_t counts[64] = {0};
    struct engine_sampler *sampler = create(options, (uint32_t)n);
    for (size_t i = 0; i < N_DRAWS; i++) counts[sample(sampler, logits, n)]++;
    engine_sampler_destroy(sampler);
    for (size_t i = 0; i < n; i++) {
        double share = (double)counts[i] / N_DRAWS;
        if (expected[i] == 0) cr_assert(counts[i] == 0, "token %zu was drawn %zu times", i, counts[i]);
        /* four standard deviations at the widest */
        cr_assert(fabs(share - expected[i]) < 4 * 0.5 / sqrt(N_DRAWS), "token %zu: %g instead of %g", i,
                  share, expected[i]);
    }
}

/* ---- Portable arithmetic ---- */

Test(portable, exp_near_libm)
{
    for (double x = 0; x > -708; x = x * 1.01 - 0.003) {
        double expected = exp(x), got = portable_exp(x);
        cr_assert(fabs(got - expected) <= expected * 0x1p-52, "exp(%a) is %a, not %a", x, expected, got);
    }
    cr_assert(portable_exp(0) == 1 && portable_exp(-709) == 0 && portable_exp(-INFINITY) == 0);
}

Test(portable, same_bits_everywhere)
{
    /* Found on x86-64. Another compiler or machine that rounds otherwise gives another sum. */
    uint64_t state = 42, sum = 0, bits;
    for (int i = 0; i < 10000; i++) {
        double value = portable_exp(-portable_random_unit(&state) * 100);
        memcpy(&bits, &value, sizeof bits);
        sum = sum * 31 + bits;
    }
    cr_assert(sum == 0x6010c3b949c89fea, "the sum is 0x%llx", (unsigned long long)sum);
}

Test(portable, log_near_libm)
{
    for (double x = 1e-300; x < 1e300; x *= 1.37) {
        double expected = log(x), got = portable_log(x);
        cr_assert(fabs(got - expected) <= fabs(expected) * 0x1p-51, "log(%a) is %a, not %a", x, expected,
                  got);
    }
    for (double x = 0.5; x < 2; x += 1.0 / 1024)
        cr_assert(fabs(portable_log(x) - log(x)) <= 0x1p-52, "log(%a) is %a", x, portable_log(x));
    cr_assert(portable_log(1) == 0);
}

Test(portable, random)
{
    uint64_t state = 1234567; /* the published numbers of splitmix64 for this seed */
    cr_assert(portable_random(&state) == 6457827717110365317u);
    cr_assert(portable_random(&state) == 3203168211198807973u);
    cr_assert(portable_random(&state) == 9817491932198370423u);
    for (int i = 0; i < 1000; i++) {
        double unit = portable_random_unit(&state);
        cr_assert(unit >= 0 && unit < 1);
    }
}

/* ---- Each step ---- */

Test(sampler, greedy_takes_the_lowest_id_of_equals)
{
    const float logits[] = {1, 3, 2, 3, -1};
    struct engine_sampler *sampler = create((struct engine_sampler_options){.seed = 1}, 5);
    cr_assert(sample(sampler, logits, 5) == 1);
    engine_sampler_destroy(sampler);
}

Test(sampler, not_finite)
{
    const float logits[] = {NAN, INFINITY, -5, -INFINITY, -6}, none[] = {NAN, INFINITY, -INFINITY, NAN, NAN};
    struct engine_sampler *sampler = create((struct engine_sampler_options){0}, 5);
    cr_assert(sample(sampler, logits, 5) == 2);
    int32_t token = 7;
    float copy[5];
    memcpy(copy, none, sizeof copy);
    cr_assert(engine_sample(sampler, copy, &token) == ENGINE_ERROR_DATA && token == 7);
    engine_sampler_destroy(sampler);
    const double expected[] = {0, 0, 1, 0, 0};
    expect_shares((struct engine_sampler_options){.temperature = 0.01f}, logits, 5, expected);
}

Test(sampler, draw)
{
    const double probabilities[] = {0.1, 0.2, 0.3, 0.4};
    float logits[4];
    logits_of(probabilities, 4, logits);
    expect_shares((struct engine_sampler_options){.temperature = 1, .seed = 1}, logits, 4, probabilities);
}

Test(sampler, temperature)
{
    /* softmax(logits / 2) goes with the square roots, softmax(logits / 0.5) with the squares */
    const double probabilities[] = {0.1, 0.9}, hot[] = {0.25, 0.75}, cold[] = {1.0 / 82, 81.0 / 82};
    float logits[2];
    logits_of(probabilities, 2, logits);
    expect_shares((struct engine_sampler_options){.temperature = 2, .seed = 2}, logits, 2, hot);
    expect_shares((struct engine_sampler_options){.temperature = 0.5f, .seed = 3}, logits, 2, cold);
}

Test(sampler, top_k)
{
    const double probabilities[] = {0.1, 0.3, 0.05, 0.3, 0.25}, expected[] = {0, 0.5, 0, 0.5, 0};
    const float equal[] = {1, 2, 2, 2, 2};
    const double lowest_ids[] = {0, 0.5, 0.5, 0, 0};
    float logits[5];
    logits_of(probabilities, 5, logits);
    expect_shares((struct engine_sampler_options){.temperature = 1, .top_k = 2, .seed = 4}, logits, 5,
                  expected);
    expect_shares((struct engine_sampler_options){.temperature = 1, .top_k = 2, .seed = 5}, equal, 5,
                  lowest_ids);
    expect_shares((struct engine_sampler_options){.temperature = 1, .top_k = 9, .seed = 6}, logits, 5,
                  probabilities);
}

Test(sampler, top_p)
{
    /* 0.4 + 0.3 = 0.7 < 0.75, with 0.2 it's reached */
    const double probabilities[] = {0.1, 0.4, 0.2, 0.3}, expected[] = {0, 4.0 / 9, 2.0 / 9, 3.0 / 9};
    const double one[] = {0, 1, 0, 0};
    float logits[4];
    logits_of(probabilities, 4, logits);
    expect_shares((struct engine_sampler_options){.temperature = 1, .top_p = 0.75f, .seed = 7}, logits, 4,
                  expected);
    expect_shares((struct engine_sampler_options){.temperature = 1, .top_p = 0.01f, .seed = 8}, logits, 4,
                  one);
    expect_shares((struct engine_sampler_options){.temperature = 1, .top_p = 1, .seed = 9}, logits, 4,
                  probabilities);
}

Test(sampler, top_p_counts_among_what_top_k_left)
{
    /* top_k leaves 0.4 and 0.3, that is 4/7 = 0.57 and 3/7: 0.5 is reached by the first alone */
    const double probabilities[] = {0.1, 0.4, 0.2, 0.3}, expected[] = {0, 1, 0, 0};
    float logits[4];
    logits_of(probabilities, 4, logits);
    expect_shares((struct engine_sampler_options){.temperature = 1, .top_k = 2, .top_p = 0.5f, .seed = 10},
                  logits, 4, expected);
}

Test(sampler, min_p)
{
    /* 0.5 * 0.35 = 0.175 */
    const double probabilities[] = {0.5, 0.17, 0.18, 0.15}, expected[] = {50.0 / 68, 0, 18.0 / 68, 0};
    float logits[4];
    logits_of(probabilities, 4, logits);
    expect_shares((struct engine_sampler_options){.temperature = 1, .min_p = 0.35f, .seed = 11}, logits, 4,
                  expected);
    /* it comes before the temperature: a cold one doesn't shrink the choice */
    const double cold[] = {50.0 * 50 / (50 * 50 + 18 * 18), 0, 18.0 * 18 / (50 * 50 + 18 * 18), 0};
    expect_shares((struct engine_sampler_options){.temperature = 0.5f, .min_p = 0.35f, .seed = 12}, logits, 4,
                  cold);
}

Test(sampler, typical)
{
    /* Entropy of 0.5, 0.2, 0.2, 0.1: 1.22061 nats; information 0.693, 1.609, 1.609, 2.303; the distances
     * 0.527, 0.389, 0.389, 1.082 order them 1, 2, 0, 3. 0.2 + 0.2 doesn't exceed 0.5; with 0.5 it does. */
    const double probabilities[] = {0.5, 0.2, 0.2, 0.1};
    const double half[] = {5.0 / 9, 2.0 / 9, 2.0 / 9, 0}, third[] = {0, 0.5, 0.5, 0}, tenth[] = {0, 1, 0, 0};
    float logits[4];
    logits_of(probabilities, 4, logits);
    expect_shares((struct engine_sampler_options){.temperature = 1, .typical_p = 0.5f, .seed = 13}, logits, 4,
                  half);
    expect_shares((struct engine_sampler_options){.temperature = 1, .typical_p = 0.3f, .seed = 14}, logits, 4,
                  third);
    expect_shares((struct engine_sampler_options){.temperature = 1, .typical_p = 0.1f, .seed = 15}, logits, 4,
                  tenth);
}

/* ---- Penalties ---- */

Test(sampler, penalty_repeat)
{
    /* positive logits are divided, negative ones multiplied */
    const float positive[] = {3, 2.1f, 1}, negative[] = {-1, -1.4f, -5};
    struct engine_sampler *sampler =
        create((struct engine_sampler_options){.penalty_last_n = 8, .penalty_repeat = 1.5f}, 3);
    engine_sampler_accept(sampler, 0);
    cr_assert(sample(sampler, positive, 3) == 1, "3 / 1.5 = 2 < 2.1");
    cr_assert(sample(sampler, negative, 3) == 1, "-1 * 1.5 < -1.4");
    engine_sampler_accept(sampler, 1);
    cr_assert(sample(sampler, positive, 3) == 0, "twice is penalized like once");
    engine_sampler_destroy(sampler);
}

Test(sampler, penalty_frequency_and_presence)
{
    const float logits[] = {3, 2, 1};
    struct engine_sampler *sampler =
        create((struct engine_sampler_options){.penalty_last_n = 8, .penalty_frequency = 0.4f}, 3);
    engine_sampler_accept(sampler, 0);
    engine_sampler_accept(sampler, 0);
    cr_assert(sample(sampler, logits, 3) == 0, "3 - 0.8 > 2");
    engine_sampler_accept(sampler, 0);
    cr_assert(sample(sampler, logits, 3) == 1, "3 - 1.2 < 2");
    engine_sampler_destroy(sampler);

    sampler = create((struct engine_sampler_options){.penalty_last_n = 8, .penalty_presence = 0.8f}, 3);
    for (int i = 0; i < 5; i++) engine_sampler_accept(sampler, 0);
    cr_assert(sample(sampler, logits, 3) == 0, "3 - 0.8 > 2, however often");
    engine_sampler_destroy(sampler);
}

Test(sampler, penalties_look_back_only_so_far)
{
    const float logits[] = {3, 2, 1, 0};
    struct engine_sampler *sampler =
        create((struct engine_sampler_options){.penalty_last_n = 2, .penalty_presence = 10}, 4);
    engine_sampler_accept(sampler, 0);
    engine_sampler_accept(sampler, 1);
    cr_assert(sample(sampler, logits, 4) == 2);
    engine_sampler_accept(sampler, 2); /* 0 drops out */
    cr_assert(sample(sampler, logits, 4) == 0);
    engine_sampler_accept(sampler, -1); /* what is no token is not counted */
    engine_sampler_accept(sampler, 4);
    cr_assert(sample(sampler, logits, 4) == 0);
    engine_sampler_accept(sampler, 3); /* 1 drops out; 2 and 3 are left */
    cr_assert(sample(sampler, logits, 4) == 0);
    engine_sampler_destroy(sampler);

    sampler = create((struct engine_sampler_options){.penalty_last_n = 0, .penalty_presence = 10}, 4);
    engine_sampler_accept(sampler, 0);
    cr_assert(sample(sampler, logits, 4) == 0, "off");
    engine_sampler_destroy(sampler);
}

/* ---- The chain (test sampler-cases compares distributions with llama.cpp's) ---- */

/* Expects engine_sampler_probabilities to give these. */
static void expect_probabilities(struct engine_sampler *sampler, const float *logits, size_t n,
                                 const double *expected)
{
    float copy[64], probabilities[64];
    memcpy(copy, logits, n * sizeof *copy);
    cr_assert(engine_sampler_probabilities(sampler, copy, probabilities) == ENGINE_OK);
    for (size_t i = 0; i < n; i++)
        cr_assert(fabs((double)probabilities[i] - expected[i]) < 1e-6, "token %zu: %g instead of %g", i,
                  (double)probabilities[i], expected[i]);
}

static void expect_chain(struct engine_sampler_options options, const float *logits, size_t n,
                         const double *expected)
{
    struct engine_sampler *sampler = create(options, (uint32_t)n);
    expect_probabilities(sampler, logits, n, expected);
    engine_sampler_destroy(sampler);
}

Test(sampler, the_order_counts)
{
    /* At temperature 0.5 probabilities go with their squares: 0.16, 0.09, 0.04, 0.01 of 0.3. */
    const double probabilities[] = {0.4, 0.3, 0.2, 0.1};
    const double first[] = {16.0 / 25, 9.0 / 25, 0, 0}, last[] = {16.0 / 29, 9.0 / 29, 4.0 / 29, 0};
    const double none[] = {4.0 / 9, 3.0 / 9, 2.0 / 9, 0};
    float logits[4];
    logits_of(probabilities, 4, logits);
    struct engine_sampler_options options = {.temperature = 0.5f, .top_p = 0.75f, .top_k = 1};
    options.samplers = "temperature;top_p";
    expect_chain(options, logits, 4, first);
    options.samplers = "top-p;temp";
    expect_chain(options, logits, 4, last);
    options.samplers = "nucleus"; /* without a temperature, it is 1 */
    expect_chain(options, logits, 4, none);
    options.samplers = "";
    expect_chain(options, logits, 4, probabilities);
}

Test(sampler, logit_bias)
{
    const double probabilities[] = {0.4, 0.3, 0.2, 0.1}, expected[] = {0.4 / 0.8, 0, 0.3 / 0.8, 0.1 / 0.8};
    const struct engine_logit_bias bias[] = {{2, 1}, {1, -INFINITY}, {2, logf(1.5f) - 1}, {1, 100}};
    float logits[4];
    logits_of(probabilities, 4, logits);
    struct engine_sampler_options options = {.temperature = 1, .logit_bias = bias, .n_logit_bias = 4};
    expect_chain(options, logits, 4, expected);
}

Test(sampler, all_banned)
{
    const struct engine_logit_bias bias[] = {{0, -INFINITY}, {1, -INFINITY}};
    float logits[] = {1, 2};
    int32_t token = 7;
    struct engine_sampler_options options = {.temperature = 1, .logit_bias = bias, .n_logit_bias = 2};
    struct engine_sampler *sampler = create(options, 2);
    cr_assert(engine_sample(sampler, logits, &token) == ENGINE_ERROR_DATA && token == 7);
    cr_assert(strstr(engine_error_message(), "banned"), "%s", engine_error_message());
    logits[0] = logits[1] = NAN;
    cr_assert(engine_sample(sampler, logits, &token) == ENGINE_ERROR_DATA && token == 7);
    cr_assert(strstr(engine_error_message(), "weights are damaged"), "%s", engine_error_message());
    engine_sampler_destroy(sampler);
}

Test(sampler, probabilities_change_nothing)
{
    struct engine_sampler_options options = {
        .temperature = 1.5f, .xtc_probability = 0.5f, .xtc_threshold = 0.1f, .seed = 5};
    for (options.mirostat = 0; options.mirostat < 3; options.mirostat += 2) {
        options.mirostat_tau = 2;
        options.mirostat_eta = 0.5f;
        struct engine_sampler *plain = create(options, 4), *asked = create(options, 4);
        const float logits[] = {2, 1.5f, 1, 0.5f};
        for (int i = 0; i < 100; i++) {
            float copy[4], probabilities[4];
            memcpy(copy, logits, sizeof copy);
            cr_assert(engine_sampler_probabilities(asked, copy, probabilities) == ENGINE_OK);
            int32_t token = sample(asked, logits, 4);
            cr_assert(token == sample(plain, logits, 4));
            cr_assert(probabilities[token] > 0);
        }
        engine_sampler_destroy(plain);
        engine_sampler_destroy(asked);
    }
}

Test(sampler, xtc_tosses_its_coin)
{
    /* In half of the draws, 0.5 and 0.3 are dropped and 0.2 is left. */
    const double probabilities[] = {0.5, 0.3, 0.2}, expected[] = {0.25, 0.15, 0.6};
    float logits[3];
    logits_of(probabilities, 3, logits);
    struct engine_sampler_options options = {
        .temperature = 1, .xtc_probability = 0.5f, .xtc_threshold = 0.1f, .seed = 3};
    expect_shares(options, logits, 3, expected);
}

Test(sampler, greedy_with_other_steps)
{
    const float logits[] = {3, 2, 1};
    struct engine_sampler_options options = {
        .xtc_probability = 1, .xtc_threshold = 0.1f, .penalty_last_n = 4, .penalty_presence = 1.5f};
    struct engine_sampler *sampler = create(options, 3);
    cr_assert(sample(sampler, logits, 3) == 0, "XTC is skipped");
    engine_sampler_accept(sampler, 0);
    cr_assert(sample(sampler, logits, 3) == 1, "penalties are not");
    engine_sampler_destroy(sampler);
}

/* The formula of version 2: mu is 4 at first, then 4 - 1 * (surprise - 2). */
Test(sampler, mirostat_learns)
{
    const double probabilities[] = {0.6, 0.3, 0.07, 0.03};
    const double all[] = {0.6 / 0.97, 0.3 / 0.97, 0.07 / 0.97, 0};
    float logits[4];
    logits_of(probabilities, 4, logits);
    struct engine_sampler_options options = {
        .temperature = 1, .mirostat = 2, .mirostat_tau = 2, .mirostat_eta = 1, .top_k = 1, .seed = 1};
    struct engine_sampler *sampler = create(options, 4);
    expect_probabilities(sampler, logits, 4, all); /* 0.03 has a surprise of 5.06, 0.07 one of 3.84 */
    int32_t token = sample(sampler, logits, 4);
    double mu = 4 - (-log2(all[token]) - 2), kept = 0, expected[4];
    for (int i = 0; i < 4; i++) kept += expected[i] = -log2(probabilities[i]) <= mu ? probabilities[i] : 0;
    for (int i = 0; i < 4; i++) expected[i] /= kept;
    expect_probabilities(sampler, logits, 4, expected);
    engine_sampler_destroy(sampler);
}

/* ---- The model's own probabilities ---- */

Test(logprobs, are_a_log_softmax)
{
    const float logits[] = {1, NAN, 3, 3, -INFINITY, 2.5f, -40};
    const double total = exp(1) + 2 * exp(3) + exp(2.5) + exp(-40);
    const int32_t order[] = {2, 3, 5, 0, 6};
    struct logprobs logprobs;
    cr_assert(logprobs_create(&logprobs, 7, 100) == ENGINE_OK);
    logprobs_read(&logprobs, logits);
    cr_assert(logprobs.n_found == 5);
    for (size_t i = 0; i < 5; i++) {
        double expected = (double)logits[order[i]] - log(total);
        cr_assert(logprobs.top[i].token == order[i]);
        cr_assert(fabs((double)logprobs.top[i].logprob - expected) < 1e-5);
        cr_assert(logprobs_of(&logprobs, order[i]) == logprobs.top[i].logprob);
    }
    cr_assert(logprobs_of(&logprobs, 1) == -INFINITY && logprobs_of(&logprobs, 4) == -INFINITY);
    logprobs_destroy(&logprobs);
    cr_assert(logprobs_create(&logprobs, 7, 2) == ENGINE_OK);
    logprobs_read(&logprobs, logits);
    cr_assert(logprobs.n_found == 2 && logprobs.top[1].token == 3);
    logprobs_destroy(&logprobs);
}

/* ---- All together ---- */

static void make_logits(uint64_t *state, float *logits, size_t n)
{
    /* from -8 to 8, exact, so that no compiler rounds them differently */
    for (size_t i = 0; i < n; i++)
        logits[i] = (float)((int32_t)(portable_random(state) >> 40) - (1 << 23)) / 1048576;
}

Test(sampler, same_seed_same_tokens)
{
    struct engine_sampler_options options = {.penalty_last_n = 16,
                                             .penalty_repeat = 1.1f,
                                             .penalty_frequency = 0.1f,
                                             .top_k = 40,
                                             .typical_p = 0.95f,
                                             .top_p = 0.9f,
                                             .min_p = 0.02f,
                                             .temperature = 0.8f,
                                             .seed = 123};
    int32_t first[200];
    uint64_t sum = 0;
    for (int run = 0; run < 2; run++) {
        struct engine_sampler *sampler = create(options, 64);
        uint64_t state = 9;
        float logits[64];
        for (size_t i = 0; i < 200; i++) {
            make_logits(&state, logits, 64);
            int32_t token = sample(sampler, logits, 64);
            engine_sampler_accept(sampler, token);
            if (run == 0) first[i] = token;
            cr_assert(token == first[i]);
            sum = sum * 31 + (uint64_t)token;
        }
        engine_sampler_destroy(sampler);
    }
    /* Found on x86-64; the same is expected on every machine. */
    cr_assert(sum == 0x7082315d05e546de, "the sum is 0x%llx", (unsigned long long)sum);

    size_t differing = 0;
    options.seed = 124;
    struct engine_sampler *sampler = create(options, 64);
    uint64_t state = 9;
    float logits[64];
    for (size_t i = 0; i < 200; i++) {
        make_logits(&state, logits, 64);
        differing += sample(sampler, logits, 64) != first[i];
    }
    cr_assert(differing > 50, "another seed, other tokens");
    engine_sampler_destroy(sampler);
}

/* What top-p keeps, by the book: sort all, add up. */
static size_t kept_by_sorting(const float *logits, size_t n, double top_p, bool *kept)
{
    double total = 0, sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) total += exp((double)logits[i]);
    memset(kept, 0, n * sizeof *kept);
    while (sum / total < top_p) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (!kept[i] && (best == n || logits[i] > logits[best])) best = i;
        kept[best] = true;
        sum += exp((double)logits[best]);
        count++;
    }
    return count;
}

Test(sampler, top_p_over_many)
{
    uint64_t state = 77;
    float logits[64];
    bool kept[64];
    for (int round = 0; round < 20; round++) {
        make_logits(&state, logits, 64);
        size_t n_kept = kept_by_sorting(logits, 64, 0.8, kept), n_seen = 0;
        bool seen[64] = {false};
        struct engine_sampler *sampler =
            create((struct engine_sampler_options){.temperature = 4, .top_p = 0.8f, .seed = state}, 64);
        for (int i = 0; i < 2000; i++) {
            int32_t token = sample(sampler, logits, 64);
            cr_assert(kept[token], "token %d is outside", token);
            n_seen += !seen[token];
            seen[token] = true;
        }
        cr_assert(n_seen == n_kept, "%zu of %zu were drawn", n_seen, n_kept);
        engine_sampler_destroy(sampler);
    }
}

static void expect_refusal(struct engine_sampler_options options, const char *name)
{
    struct engine_sampler *sampler = NULL;
    options.struct_size = sizeof options;
    cr_assert(engine_sampler_create(&options, 8, &sampler) == ENGINE_ERROR_ARGUMENT);
    cr_assert(strstr(engine_error_message(), name), "no %s in: %s", name, engine_error_message());
}

Test(sampler, options)
{
    expect_refusal((struct engine_sampler_options){.temperature = -1}, "temperature");
    expect_refusal((struct engine_sampler_options){.temperature = NAN}, "temperature");
    expect_refusal((struct engine_sampler_options){.temperature = INFINITY}, "temperature");
    expect_refusal((struct engine_sampler_options){.top_p = 1.5f}, "top_p");
    expect_refusal((struct engine_sampler_options){.min_p = -0.1f}, "min_p");
    expect_refusal((struct engine_sampler_options){.typical_p = 2}, "typical_p");
    expect_refusal((struct engine_sampler_options){.penalty_repeat = -2}, "penalty_repeat");
    expect_refusal((struct engine_sampler_options){.penalty_frequency = NAN}, "penalty_frequency");
    expect_refusal((struct engine_sampler_options){.penalty_last_n = UINT32_MAX}, "penalty_last_n");
    expect_refusal((struct engine_sampler_options){.dynatemp_range = -1}, "dynatemp_range");
    expect_refusal((struct engine_sampler_options){.dynatemp_exponent = NAN}, "dynatemp_exponent");
    expect_refusal((struct engine_sampler_options){.top_n_sigma = INFINITY}, "top_n_sigma");
    expect_refusal((struct engine_sampler_options){.xtc_probability = 1.5f}, "xtc_probability");
    expect_refusal((struct engine_sampler_options){.xtc_threshold = -0.5f}, "xtc_threshold");
    expect_refusal((struct engine_sampler_options){.mirostat = 3}, "mirostat");
    expect_refusal((struct engine_sampler_options){.mirostat_tau = NAN}, "mirostat_tau");
    expect_refusal((struct engine_sampler_options){.dry_multiplier = -1}, "dry_multiplier");
    expect_refusal((struct engine_sampler_options){.dry_penalty_last_n = UINT32_MAX}, "dry_penalty_last_n");
    expect_refusal((struct engine_sampler_options){.samplers = "top_k;top_q"}, "'top_q'");
    const struct engine_logit_bias bias[] = {{8, 1}, {2, NAN}, {-1, 1}};
    for (size_t i = 0; i < 3; i++)
        expect_refusal((struct engine_sampler_options){.logit_bias = &bias[i], .n_logit_bias = 1},
                       "logit_bias");
    const struct engine_string texts[] = {{"a", 1}, {"", 0}};
    expect_refusal((struct engine_sampler_options){.ban = texts, .n_ban = 2}, "ban: text 1");
    expect_refusal((struct engine_sampler_options){.ban = texts, .n_ban = 1}, "for a model");
    expect_refusal((struct engine_sampler_options){.n_ban = 2}, "n_ban is 2, but ban is NULL");
    expect_refusal((struct engine_sampler_options){.n_logit_bias = 3},
                   "n_logit_bias is 3, but logit_bias is NULL");
    const struct engine_sampler_options dry = {
        .dry_multiplier = 1, .dry_base = 2, .dry_penalty_last_n = 8, .dry_allowed_length = 2};
    expect_refusal(dry, "for a model");

    engine_sampler_destroy(NULL);
}
