/* test-queue-grammar.c: requests with grammars: what they write, and how they end. */
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

TestSuite(queue_grammar, .init = begin_queue, .fini = end, .timeout = 1200);

static void make(enum engine_grammar_kind kind, const char *text)
{
    engine_grammar_destroy(grammar);
    cr_assert_eq(engine_grammar_create(model, kind, text, strlen(text), &grammar), ENGINE_OK, "%s",
                 engine_error_message());
}

static void create(uint32_t number, uint32_t max_tokens)
{
    sample_create(&samples[number], number, N_VOCAB, 50, 60);
    samples[number].request.max_tokens = max_tokens;
    samples[number].request.grammar = grammar;
    samples[number].request.event = sample_take;
}

static void expect_text(uint32_t number, const char *text)
{
    cr_expect_eq(samples[number].got_text_size, strlen(text));
    cr_expect(!memcmp(samples[number].got_text, text, strlen(text)), "%.*s",
              (int)samples[number].got_text_size, samples[number].got_text);
}

Test(queue_grammar, ends_when_nothing_can_follow)
{
    make(ENGINE_GRAMMAR_GBNF, "root ::= \"abc\" [0-9]{3} \"\\u20ac!\"");
    open_queue(2, 0, NULL);
    for (uint32_t i = 0; i < 6; i++) {
        create(i, 100);
        submit(&samples[i]);
    }
    run(ENGINE_QUEUE_IDLE);
    for (uint32_t i = 0; i < 6; i++) {
        cr_expect_eq(samples[i].n_last, 1);
        cr_expect_eq(samples[i].last.reason, ENGINE_DONE_END);
        cr_expect_eq(samples[i].last.incomplete, 0);
        cr_expect_eq(samples[i].got_text_size, 10, "%.*s", (int)samples[i].got_text_size,
                     samples[i].got_text);
        cr_expect(!memcmp(samples[i].got_text, "abc", 3) &&
                  !memcmp(samples[i].got_text + 6, "\xe2\x82\xac!", 4));
    }
}

Test(queue_grammar, empty_text)
{
    make(ENGINE_GRAMMAR_GBNF, "root ::= \"\"");
    open_queue(1, 0, NULL);
    create(0, 10);
    submit(&samples[0]);
    run(ENGINE_QUEUE_IDLE);
    expect_text(0, "");
    cr_expect_eq(samples[0].last.reason, ENGINE_DONE_END);
}

Test(queue_grammar, cut_by_the_limit)
{
    make(ENGINE_GRAMMAR_GBNF, "root ::= [a-z]{200}");
    open_queue(1, 0, NULL);
    create(0, 5);
    submit(&samples[0]);
    run(ENGINE_QUEUE_IDLE);
    cr_expect_eq(samples[0].last.reason, ENGINE_DONE_LIMIT);
    cr_expect_eq(samples[0].last.incomplete, 1);
    make(ENGINE_GRAMMAR_GBNF, "root ::= [a-z]*");
    create(0, 5);
    submit(&samples[0]);
    run(ENGINE_QUEUE_IDLE);
    cr_expect_eq(samples[0].last.incomplete, 0);
}

/* A token that ends the text is the last one of the grammar, or one after which it goes on. */
Test(queue_grammar, names_the_end)
{
    static const char *const texts[] = {"root ::= \"ab\" <[257]>", "root ::= \"ab\" (<[257]> \"c\")?",
                                        "root ::= \"ab\" <[257]> \"c\""};
    open_queue(1, 0, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        static const int32_t end_tokens[] = {257};
        make(ENGINE_GRAMMAR_GBNF, texts[i]);
        create(i, 10);
        samples[i].request.stop_tokens = end_tokens;
        samples[i].request.n_stop_tokens = 1;
        submit(&samples[i]);
        run(ENGINE_QUEUE_IDLE);
        expect_text(i, "ab");
        cr_expect_eq(samples[i].last.incomplete, i == 2, "%s", texts[i]);
    }
}

/* What the grammar needs is banned: that is said, and not that the weights are damaged. */
Test(queue_grammar, banned)
{
    static const struct engine_string text = {"b", 1};
    make(ENGINE_GRAMMAR_GBNF, "root ::= \"abc\"");
    open_queue(1, 0, NULL);
    for (uint32_t i = 0; i < 2; i++) { /* greedily, and drawn */
        create(i, 10);
        samples[i].sampler.ban = &text;
        samples[i].sampler.n_ban = 1;
        samples[i].request.sampler = &samples[i].sampler;
        samples[i].request.event = NULL;
        uint64_t id = submit(&samples[i]);
        run(ENGINE_QUEUE_IDLE);
        struct engine_event *event = NULL;
        do {
            engine_event_free(event);
            cr_assert_eq(engine_queue_poll(queue, id, 0, &event), ENGINE_OK);
        } while (event && event->kind != ENGINE_EVENT_DONE);
        cr_assert(event && event->reason == ENGINE_DONE_FAILED);
        cr_expect(strstr(event->message, "all tokens that the grammar allows here are banned"), "%s",
                  event->message);
        engine_event_free(event);
    }
}

/* The last tokens of the prompt begin the text. */
Test(queue_grammar, goes_on)
{
    make(ENGINE_GRAMMAR_GBNF, "root ::= \"abc\" [0-9]{3} \"!\"");
    open_queue(2, 0, NULL);
    create(0, 100);
    submit(&samples[0]);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(samples[0].got_text_size, 7);
    /* After any number of its tokens, the request writes the rest, which the same model chooses again. */
    for (size_t n = 0; n <= samples[0].n_got_tokens; n++) {
        int32_t prompt[2 * SAMPLE_TOKENS];
        size_t n_prompt = samples[0].request.n_tokens;
        create(1, 100);
        samples[1].request.sampler = samples[0].request.sampler;
        memcpy(prompt, samples[0].prompt, n_prompt * sizeof *prompt);
        memcpy(prompt + n_prompt, samples[0].got_tokens, n * sizeof *prompt);
        samples[1].request.tokens = prompt;
        samples[1].request.n_tokens = n_prompt + n;
        samples[1].request.n_begun = (uint32_t)n;
        submit(&samples[1]);
        run(ENGINE_QUEUE_IDLE);
        cr_expect_eq(samples[1].n_got_tokens, samples[0].n_got_tokens - n);
        cr_expect(!memcmp(samples[1].got_tokens, samples[0].got_tokens + n,
                          samples[1].n_got_tokens * sizeof *prompt),
                  "after %zu", n);
        cr_expect_eq(samples[1].last.reason, ENGINE_DONE_END);
        cr_expect_eq(samples[1].last.incomplete, 0);
    }
    samples[0].request.n_begun = 1; /* the prompt's last token is not "abc" */
    cr_expect_eq(engine_queue_submit(queue, &samples[0].request, NULL), ENGINE_ERROR_DATA);
    samples[0].request.n_begun = 1000;
    cr_expect_eq(engine_queue_submit(queue, &samples[0].request, NULL), ENGINE_ERROR_ARGUMENT);
}

/* The result without the queue: a loop as docs/embedding.md has it. */
static void run_alone(struct sample *sample)
{
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct engine_sampler *sampler;
    struct engine_match *match;
    float logits[N_VOCAB];
    int32_t token;
    cr_assert_eq(engine_model_tokenizer(model, &api, &tokenizer), ENGINE_OK);
    cr_assert_eq(engine_sampler_create(&sample->sampler, N_VOCAB, &sampler), ENGINE_OK);
    cr_assert_eq(engine_match_create(grammar, 0, &match), ENGINE_OK);
    for (size_t i = 0; i < sample->request.n_tokens; i++) engine_sampler_accept(sampler, sample->prompt[i]);
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = sample->request.n_tokens, .tokens = sample->prompt};
    cr_assert_eq(engine_sequence_truncate(alone, 0, 0), ENGINE_OK);
    while (sample->n_tokens < sample->request.max_tokens &&
           engine_match_get_state(match) != ENGINE_MATCH_FINAL) {
        cr_assert_eq(engine_decode(alone, &batch, logits), ENGINE_OK);
        cr_assert_eq(engine_match_apply(match, logits, N_VOCAB), ENGINE_OK);
        cr_assert_eq(engine_sample(sampler, logits, &token), ENGINE_OK);
        if (api->attributes(tokenizer, token) & ENGINE_TOKEN_END) break;
        cr_assert_eq(engine_match_accept(match, token), ENGINE_OK);
        engine_sampler_accept(sampler, token);
        sample->tokens[sample->n_tokens++] = token;
        batch = (struct engine_batch){.struct_size = sizeof batch, .n_tokens = 1, .tokens = &token};
    }
    engine_match_destroy(match);
    engine_sampler_destroy(sampler);
}

static void expect_tokens(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        cr_expect_eq(samples[i].n_got_tokens, samples[i].n_tokens, "request %u", i);
        cr_expect(!memcmp(samples[i].got_tokens, samples[i].tokens, samples[i].n_tokens * sizeof(int32_t)),
                  "request %u", i);
    }
}

/* Together, with too little cache for all, and with guesses: the same tokens. */
Test(queue_grammar, same_as_alone)
{
    struct engine_queue_options options = {
        .struct_size = sizeof options, .lookup = 1, .n_guess_least = 4, .n_guess_most = 4};
    make(ENGINE_GRAMMAR_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"maximum\":99,"
                                     "\"minimum\":10},\"minItems\":30}");
    for (uint32_t i = 0; i < 12; i++) {
        create(i, 70);
        run_alone(&samples[i]);
    }
    for (int round = 0; round < 2; round++) {
        open_queue(4, round == 0 ? 160 : 0, round == 0 ? NULL : &options);
        forget_results(12);
        for (uint32_t i = 0; i < 12; i++) {
            samples[i].request.event = sample_take;
            submit(&samples[i]);
        }
        run(ENGINE_QUEUE_IDLE);
        expect_tokens(12);
        struct engine_queue_info info = info_of_queue();
        cr_expect(round == 0 ? info.n_put_back > 0 : info.n_guessed > 0);
        engine_queue_destroy(queue);
        engine_context_destroy(context);
        queue = NULL;
        context = NULL;
    }
}

/* The grammar may go while requests use it. */
Test(queue_grammar, destroyed_early)
{
    make(ENGINE_GRAMMAR_GBNF, "root ::= \"abc\"");
    open_queue(1, 0, NULL);
    create(0, 10);
    submit(&samples[0]);
    engine_grammar_destroy(grammar);
    grammar = NULL;
    run(ENGINE_QUEUE_IDLE);
    expect_text(0, "abc");
}

Test(queue_grammar, refused)
{
    struct engine_grammar *none = NULL;
    cr_expect_eq(engine_grammar_create(model, 0, "", 0, &none), ENGINE_ERROR_ARGUMENT);
    cr_expect_eq(engine_grammar_create(model, ENGINE_GRAMMAR_GBNF, NULL, 0, &none), ENGINE_ERROR_ARGUMENT);
    cr_expect_eq(engine_grammar_create(model, ENGINE_GRAMMAR_GBNF, "root", 4, &none), ENGINE_ERROR_DATA);
    cr_expect_null(none);
}
