/* test-sampler-texts.c: what samplers do with the texts of tokens: banned texts, and DRY's sequence breakers.
 * The vocabulary is a toy: each token is one or more of the letters a to d, or a control token. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sample/sampler.h"

#define N_TOKENS 60
#define CONTROL  (N_TOKENS - 1) /* spelled "ab" */

static char pieces[N_TOKENS][8];

static int toy_info(const struct engine_tokenizer *tokenizer, struct engine_tokenizer_info *info)
{
    (void)tokenizer;
    info->n_tokens = N_TOKENS;
    return ENGINE_OK;
}

static uint32_t toy_attributes(const struct engine_tokenizer *tokenizer, int32_t id)
{
    (void)tokenizer;
    return id == CONTROL ? ENGINE_TOKEN_CONTROL : 0;
}

/* Letter by letter: ids 0 to 3. */
static int toy_encode(const struct engine_tokenizer *tokenizer, const char *text, size_t length,
                      uint32_t flags, engine_token_sink sink, void *user)
{
    (void)tokenizer, (void)flags;
    int status = ENGINE_OK;
    for (size_t i = 0; i < length && !status; i++) {
        int32_t id = text[i] - 'a';
        status = sink(user, &id, 1);
    }
    return status;
}

static int toy_decoder_create(const struct engine_tokenizer *tokenizer, int special,
                              struct engine_decoder **decoder)
{
    (void)tokenizer, (void)special;
    *decoder = NULL;
    return ENGINE_OK;
}

static int toy_decode(struct engine_decoder *decoder, int32_t id, struct engine_string *text)
{
    (void)decoder;
    *text = (struct engine_string){pieces[id], strlen(pieces[id])};
    return ENGINE_OK;
}

static int toy_decode_end(struct engine_decoder *decoder, struct engine_string *text)
{
    (void)decoder;
    *text = (struct engine_string){"", 0};
    return ENGINE_OK;
}

static const struct engine_tokenizer_api api = {
    .struct_size = sizeof api,
    .info = toy_info,
    .attributes = toy_attributes,
    .encode = toy_encode,
    .decoder_create = toy_decoder_create,
    .decode = toy_decode,
    .decode_end = toy_decode_end,
};

static struct token_texts *texts;

static void begin(void)
{
    uint64_t state = 1;
    for (int id = 0; id < N_TOKENS; id++) {
        size_t length = id < 4 ? 1 : 1 + portable_random(&state) % 5;
        for (size_t i = 0; i < length; i++)
            pieces[id][i] = (char)('a' + (id < 4 ? (uint64_t)id : portable_random(&state) % 4));
    }
    strcpy(pieces[CONTROL], "ab");
    cr_assert(token_texts_create(&api, NULL, &texts) == ENGINE_OK);
}

static void end(void)
{
    token_texts_destroy(texts);
}

TestSuite(sampler_texts, .init = begin, .fini = end);

static struct engine_string text_of(const char *text)
{
    return (struct engine_string){text, strlen(text)};
}

static struct engine_sampler *create(const struct engine_sampler_options *options)
{
    struct sampler_settings settings;
    struct engine_sampler *sampler = NULL;
    cr_assert(sampler_settings_read(options, &settings) == ENGINE_OK, "%s", engine_error_message());
    cr_assert(sampler_create(&settings, N_TOKENS, texts, &sampler) == ENGINE_OK, "%s",
              engine_error_message());
    sampler_settings_free(&settings);
    return sampler;
}

Test(sampler_texts, texts_of_tokens)
{
    for (int32_t id = 0; id < N_TOKENS; id++) {
        struct engine_string text = token_text(texts, id);
        cr_assert(text.length == strlen(pieces[id]) && memcmp(text.data, pieces[id], text.length) == 0);
    }
    cr_assert(token_text(texts, -1).length == 0 && token_text(texts, N_TOKENS).length == 0);
    cr_assert(token_is_hidden(texts, CONTROL) && !token_is_hidden(texts, 0));
}

/* A token is banned if and only if one of the texts ends within it. */
static void expect_bans(struct engine_sampler *sampler, const char *written,
                        const struct engine_string *banned, size_t n_banned)
{
    float logits[N_TOKENS] = {0}, probabilities[N_TOKENS];
    cr_assert(engine_sampler_probabilities(sampler, logits, probabilities) == ENGINE_OK, "%s",
              engine_error_message());
    for (int32_t id = 0; id < N_TOKENS; id++) {
        char text[4096];
        bool expected = false;
        snprintf(text, sizeof text, "%s%s", written, pieces[id]);
        for (size_t i = 0; i < n_banned && id != CONTROL; i++) {
            /* only what ends after the text written so far */
            size_t length = strlen(written), back = banned[i].length - 1;
            expected |= strstr(text + (length > back ? length - back : 0), banned[i].data) != NULL;
        }
        cr_assert((probabilities[id] == 0) == expected, "after '%s': '%s'", written, pieces[id]);
    }
}

Test(sampler_texts, banned_texts_never_appear)
{
    uint64_t state = 5;
    for (uint64_t round = 0; round < 30; round++) {
        char bans[6][8] = {{0}}, written[4096] = "";
        struct engine_string banned[6];
        size_t n = 1 + portable_random(&state) % 6;
        for (size_t i = 0; i < n; i++) {
            size_t length = 2 + portable_random(&state) % 5;
            for (size_t j = 0; j < length; j++) bans[i][j] = (char)('a' + portable_random(&state) % 4);
            banned[i] = text_of(bans[i]);
        }
        struct engine_sampler_options options = {
            .struct_size = sizeof options, .temperature = 1, .seed = round, .ban = banned, .n_ban = n};
        struct engine_sampler *sampler = create(&options);
        for (int i = 0; i < 100; i++) {
            float logits[N_TOKENS] = {0};
            int32_t token;
            expect_bans(sampler, written, banned, n);
            cr_assert(engine_sample(sampler, logits, &token) == ENGINE_OK);
            engine_sampler_accept(sampler, token);
            if (token != CONTROL) strcat(written, pieces[token]);
        }
        for (size_t i = 0; i < n; i++) cr_assert(!strstr(written, bans[i]), "%s in %s", bans[i], written);
        engine_sampler_destroy(sampler);
    }
}

/* All bytes may be in banned texts. */
Test(sampler_texts, any_bytes_may_be_banned)
{
    char all[256];
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    const struct engine_string banned[] = {{all, 256}, {"aa", 2}};
    struct engine_sampler_options options = {.struct_size = sizeof options, .ban = banned, .n_ban = 2};
    struct engine_sampler *sampler = create(&options);
    engine_sampler_accept(sampler, 0);
    float logits[N_TOKENS] = {0};
    int32_t token;
    logits[0] = 1;
    cr_assert(engine_sample(sampler, logits, &token) == ENGINE_OK && pieces[token][0] != 'a');
    engine_sampler_destroy(sampler);
}

/* ---- DRY ---- */

/* The logit that a token loses after a text. */
static float penalty_after(const char *text, const char *breaker, int32_t token)
{
    const struct engine_string breakers[] = {text_of(breaker)};
    struct engine_sampler_options options = {.struct_size = sizeof options,
                                             .temperature = 1,
                                             .dry_multiplier = 1,
                                             .dry_base = 2,
                                             .dry_allowed_length = 2,
                                             .dry_penalty_last_n = 64,
                                             .dry_breakers = breakers,
                                             .n_dry_breakers = *breaker ? 1 : 0};
    struct engine_sampler *sampler = create(&options);
    for (; *text; text++) engine_sampler_accept(sampler, *text - 'a');
    float logits[N_TOKENS] = {0}, probabilities[N_TOKENS];
    cr_assert(engine_sampler_probabilities(sampler, logits, probabilities) == ENGINE_OK);
    engine_sampler_destroy(sampler);
    int32_t other = token == 3 ? 2 : 3;
    return logf(probabilities[other] / probabilities[token]);
}

static void expect_penalty(const char *text, const char *breaker, char next, float expected)
{
    float penalty = penalty_after(text, breaker, next - 'a');
    cr_assert(fabsf(penalty - expected) < 1e-4f, "%s|%c: %g instead of %g", text, next, (double)penalty,
              (double)expected);
}

Test(sampler_texts, dry)
{
    expect_penalty("abcab", "", 'c', 1);    /* ab repeats: 2^0 */
    expect_penalty("abcaab", "", 'a', 0);   /* nothing of length 2 goes on with a */
    expect_penalty("abacaaba", "", 'c', 2); /* aba repeats: 2^1 */
    expect_penalty("abcab", "c", 'c', 0);   /* a token that is a breaker is not penalized */
    expect_penalty("abacaaba", "c", 'c', 0);
    expect_penalty("cabacab", "c", 'a', 1);   /* ab repeats; before it is a breaker */
    expect_penalty("cabacab", "", 'a', 2);    /* cab repeats */
    expect_penalty("bcabacab", "ca", 'a', 0); /* a breaker of two tokens leaves b, which is too short */
}
