/* test-queue-reasoning.c: requests with a limit for the reasoning of their replies: it ends where the limit
 * says, by the format's own mark, with and without guesses. */
#include <criterion/criterion.h>
#include <string.h>

#include "queue-fixture.h"

static struct engine_grammar *grammar;

static void end(void)
{
    engine_grammar_destroy(grammar);
    grammar = NULL;
    end_queue();
}

TestSuite(queue_reasoning, .init = begin_queue, .fini = end, .timeout = 600);

static void make_grammar(const char *text)
{
    engine_grammar_destroy(grammar);
    cr_assert_eq(engine_grammar_create(model, ENGINE_GRAMMAR_GBNF, text, strlen(text), &grammar), ENGINE_OK,
                 "%s", engine_error_message());
}

static uint32_t n_most = 60; /* tokens of a reply */
static const struct engine_queue_options plain = {.struct_size = sizeof plain};

/* Runs the first n samples, each with this limit. */
static void run_limited(const struct engine_reply_options *reply, uint32_t most, uint32_t n,
                        const struct engine_queue_options *options)
{
    open_queue(4, 0, options);
    for (uint32_t i = 0; i < n; i++) {
        sample_create(&samples[i], i, N_VOCAB, 3, 1);
        samples[i].prompt[samples[i].request.n_tokens - 1] = 3 + 'a'; /* a whole character */
        samples[i].request.max_tokens = n_most;
        samples[i].request.flags = ENGINE_REQUEST_SPECIAL | (grammar ? 0 : ENGINE_REQUEST_IGNORE_END);
        samples[i].request.event = sample_take;
        samples[i].request.grammar = grammar;
        samples[i].request.reply = reply;
        samples[i].request.max_reasoning = most;
        submit(&samples[i]);
    }
    run(ENGINE_QUEUE_IDLE);
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    queue = NULL;
    context = NULL;
}

/* Where the tokens that spell `mark` begin in what sample number i got; SIZE_MAX: nowhere. */
static size_t find_mark(uint32_t i, const char *mark)
{
    size_t from = SIZE_MAX, n = strlen(mark), size = samples[i].got_text_size;
    const char *at = size > 0 ? memmem(samples[i].got_text, size, mark, n) : NULL;
    if (!at) return from;
    /* Most tokens are bytes here. */
    struct engine_decoder *decoder;
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct engine_string text;
    size_t written = 0, begin = (size_t)(at - samples[i].got_text);
    cr_assert_eq(engine_model_tokenizer(model, &api, &tokenizer), ENGINE_OK);
    cr_assert_eq(api->decoder_create(tokenizer, 1, &decoder), ENGINE_OK);
    for (size_t t = 0; t < samples[i].request.n_tokens; t++)
        api->decode(decoder, samples[i].prompt[t], &text);
    for (size_t t = 0; t < samples[i].n_got_tokens && from == SIZE_MAX; t++) {
        api->decode(decoder, samples[i].got_tokens[t], &text);
        written += text.length;
        if (written > begin) from = t;
    }
    api->decoder_destroy(decoder);
    return from;
}

/* A prompt has begun the reasoning. */
Test(queue_reasoning, ends_at_the_limit)
{
    static const uint32_t limits[] = {0, 1, 7, 30};
    static const struct engine_reply_options begun = {
        .struct_size = sizeof begun, .format = ENGINE_REPLY_HERMES, .prompt = {"<think>\n", 8}};
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
        int32_t first[8][60];
        size_t n_first[8];
        run_limited(&begun, limits[k], 8, &plain);
        for (uint32_t i = 0; i < 8; i++) {
            size_t at = find_mark(i, "</think>");
            cr_expect_eq(at, limits[k], "%u: %zu in place of %u: %.*s", i, at, limits[k],
                         (int)samples[i].got_text_size, samples[i].got_text);
            n_first[i] = samples[i].n_got_tokens;
            cr_expect_gt(n_first[i], limits[k] + 8);
            memcpy(first[i], samples[i].got_tokens, n_first[i] * sizeof *first[i]);
        }
        /* The same with guesses, of both kinds. */
        struct engine_context *draft = open_context(4, 0, "cpu");
        const struct engine_queue_options guessing[] = {
            {.struct_size = sizeof plain, .lookup = 1, .n_guess_least = 3, .n_guess_most = 3},
            {.struct_size = sizeof plain, .draft = draft, .n_guess_least = 3, .n_guess_most = 3}};
        for (size_t g = 0; g < 2; g++) {
            run_limited(&begun, limits[k], 8, &guessing[g]);
            for (uint32_t i = 0; i < 8; i++) {
                cr_expect_eq(samples[i].n_got_tokens, n_first[i]);
                cr_expect(!memcmp(samples[i].got_tokens, first[i], n_first[i] * sizeof *first[i]));
            }
        }
        engine_context_destroy(draft);
    }
}

/* Letters between two texts: at most so many, where the model doesn't end them before. */
static void expect_texts(const char *begin, size_t most, const char *end_)
{
    size_t n_begin = strlen(begin), n_end = strlen(end_), n_full = 0;
    for (uint32_t i = 0; i < 6; i++) {
        const char *text = samples[i].got_text;
        size_t size = samples[i].got_text_size;
        cr_expect(size >= n_begin + n_end && size <= n_begin + most + n_end &&
                      !memcmp(text, begin, n_begin) && !memcmp(text + size - n_end, end_, n_end),
                  "%.*s", (int)size, text);
        n_full += size == n_begin + most + n_end;
    }
    cr_expect_gt(n_full, 1);
}

/* The model begins it, and a grammar says where which marks may come. */
Test(queue_reasoning, with_a_grammar)
{
    static const struct engine_reply_options any = {.struct_size = sizeof any,
                                                    .format = ENGINE_REPLY_MISTRAL};
    make_grammar("root ::= \"<think>\" [b-d]* \"</think>\" \"ok\"");
    run_limited(&any, 5, 6, &plain);
    expect_texts("<think>", 5, "</think>ok");
    make_grammar("root ::= \"[THINK]\" [b-d]* \"[/THINK]\" \"ok\"");
    run_limited(&any, 4, 6, &plain);
    expect_texts("[THINK]", 4, "[/THINK]ok");
    static const struct engine_reply_options gemma = {.struct_size = sizeof gemma,
                                                      .format = ENGINE_REPLY_GEMMA4};
    make_grammar("root ::= \"<|channel>thought\" [b-d]* \"<channel|>\" \"ok\"");
    run_limited(&gemma, 4, 6, &plain);
    expect_texts("<|channel>thought", 4, "<channel|>ok");
    /* The mark waits until it may come. */
    make_grammar("root ::= \"<think>\" [b-d]{9} \"</think>\" \"ok\"");
    run_limited(&any, 2, 6, &plain);
    expect_texts("<think>", 9, "</think>ok");
}

/* gpt-oss ends a message and may begin another one, which ends at once. */
Test(queue_reasoning, in_messages)
{
    static const struct engine_reply_options none = {.struct_size = sizeof none,
                                                     .format = ENGINE_REPLY_GPT_OSS},
                                             some = {.struct_size = sizeof some,
                                                     .format = ENGINE_REPLY_GPT_OSS,
                                                     .tools = "[]"};
    n_most = 110;
    make_grammar("root ::= \"<|channel|>analysis<|message|>\" [b-d]* "
                 "\"<|end|><|start|>assistant<|channel|>final<|message|>\" \"k\"");
    run_limited(&none, 3, 6, &plain);
    expect_texts("<|channel|>analysis<|message|>", 3,
                 "<|end|><|start|>assistant<|channel|>final<|message|>k");
    make_grammar(
        "root ::= \"<|channel|>analysis<|message|>\" [b-d]* \"<|end|><|channel|>analysis<|message|>\" [b-d]* "
        "\"<|end|><|start|>assistant<|channel|>final<|message|>\"");
    n_most = 125;
    run_limited(&some, 3, 6, &plain);
    expect_texts("<|channel|>analysis<|message|>", 3,
                 "<|end|><|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>");
}

Test(queue_reasoning, refused)
{
    static const struct engine_reply_options any = {.struct_size = sizeof any};
    open_queue(1, 0, NULL);
    sample_create(&samples[0], 0, N_VOCAB, 20, 1);
    samples[0].request.reply = &any;
    uint64_t id;
    cr_expect_eq(engine_queue_submit(queue, &samples[0].request, &id), ENGINE_ERROR_ARGUMENT);
    samples[0].request.flags = ENGINE_REQUEST_SPECIAL;
    samples[0].request.n_beams = 2;
    cr_expect_eq(engine_queue_submit(queue, &samples[0].request, &id), ENGINE_ERROR_ARGUMENT);
}
