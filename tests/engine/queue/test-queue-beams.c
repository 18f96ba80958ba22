/* test-queue-beams.c: requests with beams in the queue: whatever else is there, and however often they are
 * put back, they find what they find alone. What that is, test-beam-families.c compares with transformers. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue-fixture.h"

TestSuite(queue_beams, .init = begin_queue, .fini = end_queue, .timeout = 1200);

enum { MAX_BEAMS = 8, N_SEARCHES = 6, MAX_TOKENS = 70, END_TOKEN = 2 };

struct found {
    int32_t tokens[MAX_BEAMS][MAX_TOKENS];
    size_t n_tokens[MAX_BEAMS];
    char text[MAX_BEAMS][512];
    size_t text_size[MAX_BEAMS];
    double score[MAX_BEAMS];
    uint32_t reasons[MAX_BEAMS];
    uint32_t n, reason, n_done, n_grown, incomplete;
    uint32_t cancel_after; /* rounds; 0: not */
};

static struct found alone_found[N_SEARCHES], together_found[N_SEARCHES];
static int32_t prompts[N_SEARCHES][SAMPLE_TOKENS];

static void take(void *user, const struct engine_event *event)
{
    struct found *found = user;
    cr_assert_neq(event->kind, ENGINE_EVENT_TOKEN);
    found->n_grown += event->kind == ENGINE_EVENT_BEAMS;
    if (found->cancel_after > 0 && found->n_grown == found->cancel_after)
        engine_queue_cancel(queue, event->request);
    if (event->kind != ENGINE_EVENT_DONE) return;
    cr_assert_neq(event->reason, ENGINE_DONE_FAILED, "%s", event->message);
    found->n_done++;
    found->reason = event->reason;
    found->n = event->n_beams;
    found->incomplete = event->incomplete;
    for (uint32_t i = 0; i < found->n; i++) {
        const struct engine_beam *beam = &event->beams[i];
        cr_assert_leq(beam->n_tokens, MAX_TOKENS);
        cr_assert_leq(beam->text.length, sizeof found->text[i]);
        memcpy(found->tokens[i], beam->tokens, beam->n_tokens * sizeof(int32_t));
        memcpy(found->text[i], beam->text.data, beam->text.length);
        found->n_tokens[i] = beam->n_tokens;
        found->text_size[i] = beam->text.length;
        found->score[i] = beam->score;
        found->reasons[i] = beam->reason;
    }
    if (found->n > 0) cr_assert_eq(event->text.length, event->beams[0].text.length);
}

/* Beams of 2 to 8 with prompts of 1 to 56 tokens, and up to 60 new ones. Tokens that stop a text are frequent
 * enough that some end early. */
static struct engine_request search(uint32_t number, struct found *found)
{
    static int32_t stops[20];
    uint32_t state = number * 77u + 5;
    size_t n = 1 + number * 11u;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        prompts[number][i] = (int32_t)(3 + (state >> 8) % (N_VOCAB - 3));
    }
    for (int i = 0; i < 20; i++) stops[i] = 9 + 16 * i;
    *found = (struct found){0};
    return (struct engine_request){.struct_size = sizeof(struct engine_request),
                                   .tokens = prompts[number],
                                   .n_tokens = n,
                                   .max_tokens = 30 + 5 * number,
                                   .n_beams = 2 + number % 4 * 2,
                                   .length_penalty = (float)number - 1,
                                   .early_stopping = number % 3,
                                   .stop_tokens = stops,
                                   .n_stop_tokens = number % 2 ? 20 : 0,
                                   .event = take,
                                   .user = found};
}

static void submit_search(uint32_t number, struct found *found, int32_t priority)
{
    struct engine_request request = search(number, found);
    request.priority = priority;
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK, "%s", engine_error_message());
}

static void search_alone(void)
{
    open_queue(MAX_BEAMS, 0, NULL);
    for (uint32_t i = 0; i < N_SEARCHES; i++) {
        submit_search(i, &alone_found[i], 0);
        run(ENGINE_QUEUE_IDLE);
        cr_assert_eq(alone_found[i].n, 2 + i % 4 * 2);
    }
    engine_queue_destroy(queue);
    engine_context_destroy(context);
}

static void expect_as_alone(uint32_t number)
{
    struct found *a = &alone_found[number], *b = &together_found[number];
    cr_assert_eq(b->n_done, 1);
    cr_assert_eq(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        cr_assert_eq(a->n_tokens[i], b->n_tokens[i], "search %u, beam %u: %zu tokens, not %zu", number, i,
                     b->n_tokens[i], a->n_tokens[i]);
        cr_assert_arr_eq(a->tokens[i], b->tokens[i], a->n_tokens[i] * sizeof(int32_t));
        cr_assert_eq(a->text_size[i], b->text_size[i]);
        cr_assert_arr_eq(a->text[i], b->text[i], a->text_size[i]);
        cr_assert_eq(a->score[i], b->score[i]);
        cr_assert_eq(a->reasons[i], b->reasons[i]);
    }
}

/* ---- Beside others ---- */

static void run_together(uint32_t n_sequences, uint32_t n_cache, bool put_back)
{
    open_queue(n_sequences, n_cache, NULL);
    for (uint32_t i = 0; i < N_SEARCHES; i++) {
        submit(&samples[2 * i]);
        submit_search(i, &together_found[i], (int32_t)(i % 2));
        samples[2 * i + 1].request.priority = 2;
        submit(&samples[2 * i + 1]);
    }
    run(ENGINE_QUEUE_IDLE);
    struct engine_queue_info info = info_of_queue();
    cr_assert_eq(info.n_cached, 0);
    cr_assert_eq(info.n_put_back > 0, put_back, "%u: %lu", n_cache, (unsigned long)info.n_put_back);
    for (uint32_t i = 0; i < N_SEARCHES; i++) expect_as_alone(i);
    expect_agreement(2 * N_SEARCHES);
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    queue = NULL;
    context = NULL;
    forget_results(2 * N_SEARCHES);
}

Test(queue_beams, beside_others_as_alone)
{
    search_alone();
    create_samples(2 * N_SEARCHES, 50, 60);
    for (uint32_t i = 0; i < 2 * N_SEARCHES; i++) samples[i].request.event = sample_take;
    run_together(64, 0, false);
    run_together(9, 0, false);
}

/* The widest search takes 27 blocks at its end. */
Test(queue_beams, put_back_as_alone)
{
    search_alone();
    create_samples(2 * N_SEARCHES, 50, 60);
    for (uint32_t i = 0; i < 2 * N_SEARCHES; i++) samples[i].request.event = sample_take;
    for (uint32_t blocks = 18; blocks <= 26; blocks += 4) run_together(20, blocks * 32, true);
}

/* Half of the prompt is read when the first one is put back. */
Test(queue_beams, put_back_while_it_reads)
{
    search_alone();
    create_samples(1, 120, 40);
    samples[0].request.event = sample_take;
    samples[0].request.priority = 1;
    open_queue(MAX_BEAMS, 28 * 32,
               &(struct engine_queue_options){.struct_size = sizeof(struct engine_queue_options)});
    for (uint32_t n_steps = 1; n_steps < 60; n_steps += 4) {
        submit_search(5, &together_found[5], 0);
        for (uint32_t i = 0; i < n_steps; i++) run(ENGINE_QUEUE_STEP);
        uint64_t n_put_back = info_of_queue().n_put_back;
        struct engine_request other = search(2, &together_found[2]);
        other.priority = 1;
        cr_assert_eq(engine_queue_submit(queue, &other, NULL), ENGINE_OK);
        run(ENGINE_QUEUE_IDLE);
        if (together_found[5].n_done == 1 && n_steps < 30)
            cr_assert_gt(info_of_queue().n_put_back, n_put_back);
        expect_as_alone(5);
        expect_as_alone(2);
    }
}

/* ---- Ends ---- */

Test(queue_beams, cancelled_with_what_there_is)
{
    open_queue(4, 0, NULL);
    struct engine_request request = search(1, &together_found[1]);
    together_found[1].cancel_after = 5;
    request.flags = ENGINE_REQUEST_PROGRESS;
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(together_found[1].n_done, 1);
    cr_assert_eq(together_found[1].reason, ENGINE_DONE_CANCELLED);
    cr_assert_eq(together_found[1].n, 4);
    cr_assert_eq(together_found[1].n_grown, 5);
    bool any = false;
    for (uint32_t i = 0; i < 4; i++) any |= together_found[1].reasons[i] == ENGINE_DONE_CANCELLED;
    cr_assert(any);
    cr_assert_eq(info_of_queue().n_cached, 0);
}

Test(queue_beams, a_full_cache_ends_it)
{
    open_queue(4, N_CONTEXT, NULL); /* 4 blocks: one for each beam */
    struct engine_request request = search(1, &together_found[1]);
    request.max_tokens = 60;
    request.n_stop_tokens = 0;
    request.flags = ENGINE_REQUEST_IGNORE_END;
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(together_found[1].reason, ENGINE_DONE_CONTEXT, "%u, %zu", together_found[1].reason,
                 together_found[1].n_tokens[0]);
    cr_assert_eq(together_found[1].n, 4);
    for (uint32_t i = 0; i < 4;
         i++) /* up to the end of the first block, and a token that needs no position */
        cr_assert_eq(together_found[1].n_tokens[i], 32 + 1 - request.n_tokens);
    cr_assert_eq(info_of_queue().n_cached, 0);
}

Test(queue_beams, a_full_context_ends_it)
{
    open_queue(2, 0, NULL);
    struct engine_request request = search(4, &together_found[4]); /* 45 tokens */
    request.max_tokens = 0;
    request.n_beams = 2;
    request.n_tokens = N_CONTEXT - 20;
    memset(prompts[4], 0, sizeof prompts[4]);
    for (size_t i = 0; i < request.n_tokens; i++) prompts[4][i] = (int32_t)(3 + i);
    request.early_stopping = ENGINE_EARLY_STOPPING_NEVER;
    request.flags = ENGINE_REQUEST_IGNORE_END;
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(together_found[4].reason, ENGINE_DONE_CONTEXT);
    cr_assert_eq(together_found[4].n_tokens[0], 21);
}

/* One beam takes the most likely token; two of them have both of the two that are left. */
Test(queue_beams, biases_count)
{
    static struct engine_logit_bias bias[N_VOCAB];
    struct engine_sampler_options sampler = {.struct_size = sizeof sampler, .logit_bias = bias};
    open_queue(4, 0, NULL);
    for (int32_t id = 0; id < N_VOCAB; id++)
        if (id != 40 && id != 41)
            bias[sampler.n_logit_bias++] = (struct engine_logit_bias){id, -(float)INFINITY};
    struct engine_request request = search(0, &together_found[0]);
    request.sampler = &sampler;
    request.n_beams = 4;
    request.max_tokens = 1;
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(together_found[0].n, 2);
    cr_assert_eq(together_found[0].tokens[0][0] + together_found[0].tokens[1][0], 40 + 41);
    request = search(0, &together_found[0]);
    request.sampler = &sampler;
    request.n_beams = 4;
    request.max_tokens = 12;
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(together_found[0].n, 4);
    for (uint32_t i = 0; i < 4; i++)
        for (size_t n = 0; n < 12; n++) cr_assert(together_found[0].tokens[i][n] / 2 == 20);
}

/* ---- Grammars ---- */

/* The sum of the log-probabilities of a text's tokens, and of the one that ends it, under a grammar; computed
 * without the queue. */
static double sum_of(struct engine_grammar *grammar, const struct engine_request *request,
                     const int32_t *tokens, size_t n, bool ends)
{
    static float logits[N_VOCAB];
    struct engine_match *match;
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = request->n_tokens, .tokens = request->tokens};
    double sum = 0;
    cr_assert_eq(engine_match_create(grammar, 0, &match), ENGINE_OK);
    engine_sequence_truncate(alone, 0, 0);
    for (size_t i = 0; i < n + ends; i++) {
        cr_assert_eq(engine_decode(alone, &batch, logits), ENGINE_OK);
        cr_assert_eq(engine_match_apply(match, logits, N_VOCAB), ENGINE_OK);
        double total = 0;
        for (int id = 0; id < N_VOCAB; id++) total += exp((double)logits[id]);
        sum += (double)logits[i < n ? tokens[i] : END_TOKEN] - log(total);
        if (i == n) break;
        cr_assert_eq(engine_match_accept(match, tokens[i]), ENGINE_OK);
        batch.n_tokens = 1;
        batch.tokens = &tokens[i];
    }
    engine_match_destroy(match);
    return sum;
}

static struct engine_request search_under(struct engine_grammar *grammar, uint32_t n_beams)
{
    struct engine_request request = search(1, &together_found[1]);
    request.grammar = grammar;
    request.n_beams = n_beams;
    request.length_penalty = 0;
    request.early_stopping = ENGINE_EARLY_STOPPING_NEVER;
    request.n_stop_tokens = 0;
    return request;
}

/* `closes`: texts of this grammar end with a token of their own. */
static void run_under(const char *text, bool closes, uint32_t n_beams, uint32_t max_tokens)
{
    struct engine_grammar *grammar;
    cr_assert_eq(engine_grammar_create(model, ENGINE_GRAMMAR_GBNF, text, strlen(text), &grammar), ENGINE_OK,
                 "%s", engine_error_message());
    struct engine_request request = search_under(grammar, n_beams);
    request.max_tokens = max_tokens;
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK, "%s", engine_error_message());
    run(ENGINE_QUEUE_IDLE);
    const struct found *found = &together_found[1];
    cr_assert_eq(found->n_done, 1);
    for (uint32_t i = 0; i < found->n; i++) {
        bool ends = closes && found->reasons[i] == ENGINE_DONE_END;
        double sum = sum_of(grammar, &request, found->tokens[i], found->n_tokens[i], ends);
        cr_expect(fabs(sum - found->score[i]) < 1e-5, "%s, beam %u: %.9g, not %.9g", text, i, found->score[i],
                  sum);
    }
    engine_grammar_destroy(grammar);
}

/* A text may begin with the rest of a character that the prompt left incomplete. */
static bool has_text(const char *text)
{
    size_t n = strlen(text);
    for (uint32_t i = 0; i < together_found[1].n; i++) {
        size_t size = together_found[1].text_size[i];
        if (size >= n && memcmp(together_found[1].text[i] + size - n, text, n) == 0) return true;
    }
    return false;
}

/* Each beam is somewhere else in the grammar. The four texts of the first are all found, and a text that may
 * go on ends with a token of its own. */
Test(queue_beams, under_a_grammar)
{
    open_queue(8, 0, NULL);
    run_under("root ::= (\"x\" | \"yy\") (\"1\" | \"22\")", false, 8, 20);
    cr_assert(has_text("x1") && has_text("x22") && has_text("yy1") && has_text("yy22"));
    cr_assert_eq(together_found[1].incomplete, 0);
    run_under("root ::= [a-c]+ \"+\"*", true, 4, 12);
    cr_assert_eq(together_found[1].n, 4);
    run_under("root ::= [a-c]{30} \"!\"", false, 4, 12);
    cr_assert_eq(together_found[1].incomplete, 1);
    run_under("root ::= \"x\" <[2]>", true, 2, 12); /* the token is END_TOKEN */
    cr_assert_eq(together_found[1].incomplete, 0);
    run_under("root ::= \"\"", false, 2, 12);
    cr_assert_eq(together_found[1].n, 1);
    cr_assert_eq(together_found[1].n_tokens[0], 0);
}

/* ---- Events ---- */

Test(queue_beams, polled)
{
    search_alone();
    open_queue(MAX_BEAMS, 0, NULL);
    struct engine_request request = search(3, &together_found[3]);
    struct engine_event *event;
    uint64_t id;
    request.event = NULL;
    cr_assert_eq(engine_queue_submit(queue, &request, &id), ENGINE_OK);
    run(ENGINE_QUEUE_IDLE);
    cr_assert_eq(engine_queue_poll(queue, id, -1, &event), ENGINE_OK);
    engine_queue_destroy(queue);
    queue = NULL;
    take(&together_found[3], event);
    expect_as_alone(3);
    engine_event_free(event);
}

/* ---- What is refused ---- */

static void expect_refusal(const struct engine_request *request, const char *message)
{
    cr_assert_eq(engine_queue_submit(queue, request, NULL), ENGINE_ERROR_ARGUMENT, "%s", message);
    cr_assert_not_null(strstr(engine_error_message(), message), "%s", engine_error_message());
}

Test(queue_beams, what_makes_no_sense_is_refused)
{
    open_queue(4, 0, NULL);
    static const struct engine_string stop[] = {{"x", 1}};
    const struct engine_request good = search(1, &together_found[1]);
    struct engine_request request = good;
    request.n_beams = 5;
    expect_refusal(&request, "5 beams need a context with as many sequences; it has 4");
    request = good;
    request.length_penalty = 33;
    expect_refusal(&request, "length_penalty is 33");
    request = good;
    request.early_stopping = 3;
    expect_refusal(&request, "early_stopping is 3");
    request = good;
    request.stop = stop;
    request.n_stop = 1;
    expect_refusal(&request, "beams cannot be combined with stop texts");
    request = good;
    request.n_logprobs = 1;
    expect_refusal(&request, "with n_logprobs");
    request = good;
    request.flags = ENGINE_REQUEST_KEEP;
    expect_refusal(&request, "with ENGINE_REQUEST_KEEP");
    request.flags = ENGINE_REQUEST_NO_TOKENS;
    expect_refusal(&request, "with ENGINE_REQUEST_NO_TOKENS");
}

Test(queue_beams, samplers_are_refused)
{
    open_queue(4, 0, NULL);
    static const struct engine_string ban[] = {{"x", 1}};
    static const struct {
        struct engine_sampler_options options;
        const char *message;
    } cases[] = {
        {{.temperature = 0.5f}, "a temperature above 0"},
        {{.dynatemp_range = 0.5f}, "a temperature above 0"},
        {{.mirostat = 2}, "Mirostat"},
        {{.penalty_last_n = 64, .penalty_repeat = 1.1f}, "penalties"},
        {{.penalty_last_n = 64, .penalty_presence = 1}, "penalties"},
        {{.dry_multiplier = 1, .dry_base = 2, .dry_penalty_last_n = 64}, "DRY"},
        {{.xtc_probability = 1}, "XTC"},
        {{.ban = ban, .n_ban = 1}, "banned texts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct engine_request request = search(1, &together_found[1]);
        struct engine_sampler_options options = cases[i].options;
        options.struct_size = sizeof options;
        request.sampler = &options;
        expect_refusal(&request, cases[i].message);
    }
}
