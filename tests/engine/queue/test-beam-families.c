/* test-beam-families.c: beam search on small models of other families, in ../shared/families, against
 * transformers' generate. tools/beams/record made the answers, tests/data/beams, and says what the file's
 * lines are. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "families-fixture.h"

#define ANSWERS TEST_SOURCE_DIR "/data/beams"

enum { MAX_IDS = 64, MAX_BEAMS = 8, MAX_CASES = 64 };

struct ids {
    int32_t tokens[MAX_IDS];
    size_t n;
};

struct answer {
    double score;
    struct ids ids; /* with the token that ended the text */
};

struct search {
    struct engine_request request;
    bool is_tie; /* too close to call in float32 */
    struct answer answers[MAX_BEAMS];
    size_t n_answers;
    int n_done;
};

struct family {
    char name[64];
    struct ids prompt, end;
    struct search cases[MAX_CASES];
    size_t n_cases;
};

static struct family family;
static struct engine *engine;
static struct engine_model *model;
static struct engine_context *context;
static struct engine_queue *queue;
static int n_models, n_ties;

static void setup(void)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, NULL};
    families_begin();
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = families.config_file};
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
}

static void finish(void)
{
    engine_close(engine);
    families_end();
}

TestSuite(beam_families, .init = setup, .fini = finish, .timeout = 1200);

/* ---- The answers ---- */

static void read_ids(char *at, struct ids *ids)
{
    char *end;
    ids->n = 0;
    for (long id; id = strtol(at, &end, 10), end != at; at = end) {
        cr_assert_lt(ids->n, MAX_IDS);
        ids->tokens[ids->n++] = (int32_t)id;
    }
}

static bool is_end(int32_t token)
{
    for (size_t i = 0; i < family.end.n; i++)
        if (family.end.tokens[i] == token) return true;
    return false;
}

static void take_done(void *user, const struct engine_event *event)
{
    struct search *search = user;
    cr_assert_neq(event->kind, ENGINE_EVENT_TOKEN);
    if (event->kind != ENGINE_EVENT_DONE) return;
    search->n_done++;
    cr_assert_neq(event->reason, ENGINE_DONE_FAILED, "%s: %s", family.name, event->message);
    cr_assert_eq(event->n_beams, search->n_answers);
    bool same = true;
    for (uint32_t i = 0; i < event->n_beams; i++) {
        const struct engine_beam *beam = &event->beams[i];
        const struct ids *ids = &search->answers[i].ids;
        size_t n = ids->n - is_end(ids->tokens[ids->n - 1]);
        same = same && beam->n_tokens == n && !memcmp(beam->tokens, ids->tokens, n * sizeof *ids->tokens);
        /* A penalty below 0 multiplies the sum, and its error. */
        double bar = 1e-4 * fmax(1, pow((double)ids->n, -(double)search->request.length_penalty));
        cr_expect(fabs(beam->score - search->answers[i].score) < bar, "%s, case %td, beam %u: %.7g, not %.7g",
                  family.name, search - family.cases, i, beam->score, search->answers[i].score);
        cr_expect_eq(beam->reason, n < ids->n ? ENGINE_DONE_STOP : ENGINE_DONE_LIMIT);
    }
    if (search->is_tie) n_ties++;
    cr_expect(same || search->is_tie, "%s, case %td: other tokens", family.name, search - family.cases);
    cr_expect_eq(event->n_generated, event->beams[0].n_tokens);
    cr_expect_eq(event->reason, event->beams[0].reason);
}

static void read_case(const char *line)
{
    char early[16], kind[16];
    struct search *search = &family.cases[family.n_cases++];
    cr_assert_leq(family.n_cases, MAX_CASES);
    *search = (struct search){.request = {.struct_size = sizeof search->request,
                                          .tokens = family.prompt.tokens,
                                          .n_tokens = family.prompt.n,
                                          .stop_tokens = family.end.tokens,
                                          .n_stop_tokens = family.end.n,
                                          .event = take_done,
                                          .user = search}};
    struct engine_request *request = &search->request;
    cr_assert_eq(sscanf(line, "case %u %f %15s %u %15s", &request->n_beams, &request->length_penalty, early,
                        &request->max_tokens, kind),
                 5);
    request->early_stopping = !strcmp(early, "true")    ? ENGINE_EARLY_STOPPING_TRUE
                              : !strcmp(early, "never") ? ENGINE_EARLY_STOPPING_NEVER
                                                        : ENGINE_EARLY_STOPPING_FALSE;
    search->is_tie = !strcmp(kind, "tie");
}

static void read_beam(char *line)
{
    struct search *search = &family.cases[family.n_cases - 1];
    cr_assert_lt(search->n_answers, MAX_BEAMS);
    struct answer *answer = &search->answers[search->n_answers++];
    answer->score = strtod(line + 5, &line);
    read_ids(line, &answer->ids);
}

/* ---- Running ---- */

static void open_family(const char *name, uint32_t n_sequences, uint32_t n_context, uint32_t n_cache)
{
    struct engine_context_options options = {.struct_size = sizeof options,
                                             .n_context = n_context,
                                             .n_cache = n_cache,
                                             .n_sequences = n_sequences,
                                             .n_threads = 2,
                                             .cache_type = "f32",
                                             .backends = "cpu"};
    cr_assert_eq(engine_model_open(engine, family_files(name).model, NULL, &model), ENGINE_OK, "%s",
                 engine_error_message());
    cr_assert_eq(engine_context_create(model, &options, &context), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_create(context, NULL, &queue), ENGINE_OK, "%s", engine_error_message());
}

static void close_family(void)
{
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    engine_model_close(model);
}

static void run_cases(bool together)
{
    for (size_t i = 0; i < family.n_cases; i++) {
        family.cases[i].n_done = 0;
        cr_assert_eq(engine_queue_submit(queue, &family.cases[i].request, NULL), ENGINE_OK, "%s",
                     engine_error_message());
        if (!together) cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK);
    }
    cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK);
    for (size_t i = 0; i < family.n_cases; i++) cr_assert_eq(family.cases[i].n_done, 1);
}

/* A family at its end: alone with as many sequences as the widest search has beams, and all at once with
 * three times as many. */
static void run_family(void)
{
    if (family.n_cases == 0) return;
    for (int together = 0; together < 2; together++) {
        open_family(family.name, together ? 3 * MAX_BEAMS : MAX_BEAMS, 64, 0);
        run_cases(together);
        close_family();
    }
    n_models++;
}

Test(beam_families, are_those_of_transformers)
{
    static char line[4096];
    FILE *file = fopen(ANSWERS, "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file)) {
        if (!strncmp(line, "model ", 6)) {
            run_family();
            family.n_cases = 0;
            cr_assert_eq(sscanf(line, "model %63s", family.name), 1);
        } else if (!strncmp(line, "prompt ", 7)) {
            read_ids(line + 7, &family.prompt);
        } else if (!strncmp(line, "end ", 4)) {
            read_ids(line + 4, &family.end);
        } else if (!strncmp(line, "case ", 5)) {
            read_case(line);
        } else {
            cr_assert(!strncmp(line, "beam ", 5), "%s", line);
            read_beam(line);
        }
    }
    fclose(file);
    run_family();
    cr_expect_geq(n_models, 10);
    cr_log_info("%d models, %d runs too close to call", n_models, n_ties);
}

/* ---- Windows ---- */

enum { N_LONG = 4, LONG_PROMPT = 45, LONG_NEW = 45, LONG_BEAMS = 4 };

static struct found {
    int32_t prompt[LONG_PROMPT], tokens[LONG_BEAMS][LONG_NEW];
    double score[LONG_BEAMS];
} long_alone[N_LONG], long_together[N_LONG];

static void take_long(void *user, const struct engine_event *event)
{
    struct found *found = user;
    if (event->kind != ENGINE_EVENT_DONE) return;
    cr_assert_eq(event->reason, ENGINE_DONE_LIMIT, "%u %s", event->reason, event->message);
    cr_assert_eq(event->n_beams, LONG_BEAMS);
    for (int i = 0; i < LONG_BEAMS; i++) {
        cr_assert_eq(event->beams[i].n_tokens, LONG_NEW);
        memcpy(found->tokens[i], event->beams[i].tokens, sizeof found->tokens[i]);
        found->score[i] = event->beams[i].score;
    }
}

static void submit_long(uint32_t number, struct found *found)
{
    for (uint32_t i = 0; i < LONG_PROMPT; i++)
        found->prompt[i] = (int32_t)(4 + (number * 131 + i * i * 7) % 500);
    struct engine_request request = {.struct_size = sizeof request,
                                     .tokens = found->prompt,
                                     .n_tokens = LONG_PROMPT,
                                     .max_tokens = LONG_NEW,
                                     .priority = (int32_t)number,
                                     .flags = ENGINE_REQUEST_IGNORE_END | ENGINE_REQUEST_NO_TEXT,
                                     .event = take_long,
                                     .user = found,
                                     .n_beams = LONG_BEAMS};
    cr_assert_eq(engine_queue_submit(queue, &request, NULL), ENGINE_OK, "%s", engine_error_message());
}

/* Layers with a window keep less than the others, also of beams that are put back: the same is found as
 * alone. Each later search goes first. */
static void put_back_windows(const char *name)
{
    open_family(name, LONG_BEAMS, 128, 0);
    for (uint32_t i = 0; i < N_LONG; i++) {
        submit_long(i, &long_alone[i]);
        cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK);
    }
    close_family();
    open_family(name, 3 * LONG_BEAMS, 128, 16 * 32);
    for (uint32_t i = 0; i < N_LONG; i++) {
        submit_long(i, &long_together[i]);
        for (int step = 0; step < 20; step++)
            cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_STEP), ENGINE_OK);
    }
    cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK);
    struct engine_queue_info info = {.struct_size = sizeof info};
    engine_queue_get_info(queue, &info);
    cr_assert_gt(info.n_put_back, 0);
    cr_expect_arr_eq(long_alone, long_together, sizeof long_alone, "%s", name);
    close_family();
}

Test(beam_families, put_back_with_windows)
{
    put_back_windows("llama");
    put_back_windows("phi3");
    put_back_windows("gemma3");
    put_back_windows("cohere2");
}
