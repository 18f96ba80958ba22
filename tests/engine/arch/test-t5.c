/* test-t5.c: an encoder with a decoder (T5): logits and texts of the small models in ../shared/families
 * against transformers', from GGUF files and from the directories they were converted from. On the CPU, or
 * with TEST_BACKEND on a GPU plugin's device as well. tools/beams/record-t5 made the texts, tests/data/t5,
 * and says what the file's lines are. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "families-fixture.h"

static const char *const names[] = {"t5", "flan-t5"};
enum { N_NAMES = sizeof names / sizeof *names, N_VOCAB = 512 };

static struct engine *engine;
static struct engine_model *model;
static struct engine_context *context;

TestSuite(t5, .init = families_begin, .fini = families_end, .timeout = 1200);

static void start(const char *path, const struct engine_context_options *wish, const char *const *plugin_dirs)
{
    static const char *const ours[] = {TEST_PLUGIN_DIR, NULL};
    struct engine_options options = {.struct_size = sizeof options,
                                     .plugin_dirs = plugin_dirs ? plugin_dirs : ours,
                                     .config_file = families.config_file};
    struct engine_context_options all = *wish;
    struct engine_context_info info = {.struct_size = sizeof info};
    all.struct_size = sizeof all;
    all.n_threads = 2;
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_context_create(model, &all, &context), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_context_get_info(context, &info), ENGINE_OK);
    cr_assert(info.has_source && info.start_token == 0 && info.n_vocab == N_VOCAB);
}

static void stop(void)
{
    engine_context_destroy(context);
    engine_model_close(model);
    engine_close(engine);
}

/* Gives a sequence its source. */
static void encode(uint32_t sequence, const int32_t *tokens, size_t n)
{
    int32_t *sequences = calloc(n, sizeof *sequences);
    for (size_t i = 0; i < n; i++) sequences[i] = (int32_t)sequence;
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = n, .tokens = tokens, .sequences = sequences};
    cr_assert_eq(engine_encode(context, &batch), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_sequence_source_length(context, sequence), n);
    free(sequences);
}

/* The logits after each token [n, N_VOCAB]. */
static void decode(uint32_t sequence, const int32_t *tokens, size_t n, float *logits)
{
    int32_t sequences[64];
    uint8_t wanted[64];
    for (size_t i = 0; i < n; i++) sequences[i] = (int32_t)sequence, wanted[i] = 1;
    const struct engine_batch batch = {.struct_size = sizeof batch,
                                       .n_tokens = n,
                                       .tokens = tokens,
                                       .sequences = sequences,
                                       .wanted = wanted};
    cr_assert_eq(engine_decode(context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
}

/* The error of the logits, relative to their norm, against transformers'. */
static double error_of(const char *name, const char *path, const struct engine_context_options *wish,
                       const char *const *plugin_dirs)
{
    char decoder_path[512];
    const struct family_files files = family_files(name);
    size_t n_source, n_tokens, n;
    snprintf(decoder_path, sizeof decoder_path, TEST_SHARED_DIR "/families/%s.decoder-tokens.npy", name);
    int32_t *source = families_read_npy(files.tokens, &n_source),
            *tokens = families_read_npy(decoder_path, &n_tokens);
    float *reference = families_read_npy(files.logits, &n), *logits = malloc(n * sizeof *logits);
    cr_assert_eq(n, n_tokens * N_VOCAB);
    start(path, wish, plugin_dirs);
    encode(0, source, n_source);
    decode(0, tokens, n_tokens, logits);
    double error = families_error(logits, reference, n);
    stop();
    free(source);
    free(tokens);
    free(reference);
    free(logits);
    return error;
}

#ifdef TEST_BACKEND
Test(t5, logits_on_any_split_are_those_of_transformers)
{
    for (size_t i = 0; i < N_NAMES; i++)
        for (int32_t offload = 2; offload >= ENGINE_OFFLOAD_ALL; offload -= 4) {
            const struct engine_context_options split = {.backends = TEST_BACKEND, .offload = &offload};
            double error = error_of(names[i], family_files(names[i]).model, &split, NULL);
            cr_expect(error <= 1e-4, "%s, %d layers offloaded: relative error %.2e", names[i], offload,
                      error);
        }
}
#else

static const struct engine_context_options on_cpu = {.backends = "cpu"};

Test(t5, logits_are_those_of_transformers)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        char directory[512];
        snprintf(directory, sizeof directory, TEST_SHARED_DIR "/families/%s", names[i]);
        const struct family_files files = family_files(names[i]);
        const char *const paths[] = {files.model, directory};
        for (int k = 0; k < 2; k++) {
            double error = error_of(names[i], paths[k], &on_cpu, NULL);
            cr_expect(error <= 1e-5, "%s: relative error %.2e", paths[k], error);
        }
    }
}

/* It knows plain products; all else is the CPU's. */
Test(t5, a_backend_of_the_first_version_runs_it_split)
{
    static const char *const dirs[] = {TEST_PLUGIN_DIR, TEST_OLD_BACKEND_DIR, NULL};
    int32_t all = ENGINE_OFFLOAD_ALL;
    for (size_t i = 0; i < N_NAMES; i++) {
        const struct engine_context_options split = {.backends = "minimal", .offload = &all};
        double error = error_of(names[i], family_files(names[i]).model, &split, dirs);
        cr_expect(error <= 1e-4, "%s: relative error %.2e", names[i], error);
    }
}

/* ---- Sequences ---- */

enum { N_TEXTS = 5, N_SOURCE = 90, N_TOKENS = 9 };

/* Sources of 1 to 73 tokens. */
static size_t make_source(size_t text, int32_t source[N_SOURCE])
{
    size_t n = 1 + text * 18;
    for (size_t i = 0; i < n; i++) source[i] = (int32_t)((i * i * 7 + i * (text + 3) + text) % 500);
    return n;
}

static int32_t token_of(size_t text, size_t i)
{
    return i == 0 ? 0 : (int32_t)((text * 61 + i * 17) % N_VOCAB);
}

/* To the bit, although sources of different lengths are encoded together, and all sequences grow together. */
Test(t5, sequences_with_different_sources_do_not_depend_on_each_other)
{
    static float alone[N_TEXTS][N_TOKENS * N_VOCAB], together[N_TEXTS * N_VOCAB];
    int32_t source[N_SOURCE], sources[N_TEXTS * N_SOURCE], owners[N_TEXTS * N_SOURCE], tokens[N_TOKENS],
        sequences[N_TEXTS];
    uint8_t wanted[N_TEXTS];
    size_t n_sources = 0;
    start(family_files("t5").model, &on_cpu, NULL);
    for (size_t t = 0; t < N_TEXTS; t++) {
        size_t n = make_source(t, source);
        memcpy(sources + n_sources, source, n * sizeof *source);
        for (size_t i = 0; i < n; i++) owners[n_sources++] = (int32_t)t;
        encode(0, source, n);
        for (size_t i = 0; i < N_TOKENS; i++) tokens[i] = token_of(t, i);
        decode(0, tokens, N_TOKENS, alone[t]);
    }
    stop();
    struct engine_context_options wish = on_cpu;
    wish.n_sequences = N_TEXTS;
    wish.n_context = 100; /* and a batch: the sources do not fit one together */
    start(family_files("t5").model, &wish, NULL);
    const struct engine_batch all = {
        .struct_size = sizeof all, .n_tokens = n_sources, .tokens = sources, .sequences = owners};
    cr_assert_eq(engine_encode(context, &all), ENGINE_OK, "%s", engine_error_message());
    for (size_t i = 0; i < N_TOKENS; i++) {
        for (size_t t = 0; t < N_TEXTS; t++)
            tokens[t] = token_of(t, i), sequences[t] = (int32_t)t, wanted[t] = 1;
        const struct engine_batch step = {.struct_size = sizeof step,
                                          .n_tokens = N_TEXTS,
                                          .tokens = tokens,
                                          .sequences = sequences,
                                          .wanted = wanted};
        cr_assert_eq(engine_decode(context, &step, together), ENGINE_OK, "%s", engine_error_message());
        for (size_t t = 0; t < N_TEXTS; t++)
            cr_expect_arr_eq(together + t * N_VOCAB, alone[t] + i * N_VOCAB, N_VOCAB * sizeof(float),
                             "text %zu, token %zu", t, i);
    }
    stop();
}

static int write_file(void *user, const void *data, size_t size)
{
    return fwrite(data, 1, size, user) == size ? ENGINE_OK : ENGINE_ERROR;
}

/* A sequence that is copied, saved, loaded or cut back goes on as if nothing had happened. */
Test(t5, copies_and_files_have_the_source)
{
    static float whole[N_TOKENS * N_VOCAB], rest[N_TOKENS * N_VOCAB];
    int32_t source[N_SOURCE], tokens[N_TOKENS];
    char path[512];
    size_t n = make_source(4, source), half = N_TOKENS / 2, n_rest = N_TOKENS - half;
    struct engine_context_options wish = on_cpu;
    wish.n_sequences = 3;
    for (size_t i = 0; i < N_TOKENS; i++) tokens[i] = token_of(4, i);
    start(family_files("t5").model, &wish, NULL);
    encode(0, source, n);
    decode(0, tokens, N_TOKENS, whole);
    cr_assert_eq(engine_sequence_truncate(context, 0, (uint32_t)half), ENGINE_OK);
    decode(0, tokens + half, n_rest, rest);
    cr_expect_arr_eq(rest, whole + half * N_VOCAB, n_rest * N_VOCAB * sizeof(float), "cut back");
    cr_assert_eq(engine_sequence_copy(context, 0, 1, (uint32_t)half), ENGINE_OK);
    cr_assert_eq(engine_sequence_source_length(context, 1), n);
    encode(0, source, 3); /* the copy keeps what it has */
    cr_assert_eq(engine_sequence_length(context, 0), 0);
    snprintf(path, sizeof path, "%s/saved", families.folder);
    FILE *file = fopen(path, "wb");
    cr_assert_eq(engine_sequence_save(context, 1, write_file, file), ENGINE_OK, "%s", engine_error_message());
    fclose(file);
    decode(1, tokens + half, n_rest, rest);
    cr_expect_arr_eq(rest, whole + half * N_VOCAB, n_rest * N_VOCAB * sizeof(float), "copied");
    cr_assert_eq(engine_sequence_load(context, 2, path), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_sequence_source_length(context, 2), n);
    decode(2, tokens + half, n_rest, rest);
    cr_expect_arr_eq(rest, whole + half * N_VOCAB, n_rest * N_VOCAB * sizeof(float), "loaded");
    stop();
}

static void expect_message(int status, const char *why)
{
    cr_expect_neq(status, ENGINE_OK);
    cr_expect(strstr(engine_error_message(), why), "%s", engine_error_message());
}

Test(t5, what_makes_no_sense_is_refused)
{
    int32_t tokens[600] = {0}, sequences[] = {0, 1, 0};
    float logits[N_VOCAB];
    struct engine_context_options wish = on_cpu;
    wish.n_sequences = 2;
    start(family_files("t5").model, &wish, NULL);
    struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = 1, .tokens = tokens};
    expect_message(engine_decode(context, &batch, logits), "no source text");
    batch.n_tokens = 600;
    expect_message(engine_encode(context, &batch), "600 tokens");
    batch.n_tokens = 3;
    batch.sequences = sequences;
    expect_message(engine_encode(context, &batch), "follow each other");
    tokens[1] = N_VOCAB;
    batch.sequences = NULL;
    expect_message(engine_encode(context, &batch), "512");
    cr_expect_eq(engine_sequence_source_length(context, 0), 0);
    struct engine_queue *queue;
    cr_assert_eq(engine_queue_create(context, NULL, &queue), ENGINE_OK);
    struct engine_request request = {
        .struct_size = sizeof request, .tokens = tokens, .n_tokens = 1, .flags = ENGINE_REQUEST_KEEP};
    expect_message(engine_queue_submit(queue, &request, NULL), "encoder and a decoder");
    engine_queue_destroy(queue);
    stop();
    start(family_files("t5").model, &on_cpu, NULL);
    struct engine_context *second;
    wish = (struct engine_context_options){
        .struct_size = sizeof wish, .backends = "cpu", .watch = ENGINE_WATCH_LENS};
    wish.watched = (int (*)(void *, const struct engine_watched *))(void *)abort;
    expect_message(engine_context_create(model, &wish, &second), "cannot be watched");
    stop();
}

/* ---- Texts ---- */

enum { MAX_IDS = 128, MAX_BEAMS = 4 };

struct ids {
    int32_t tokens[MAX_IDS];
    size_t n;
};

struct search {
    struct ids source;
    struct engine_request request;
    bool is_tie;                   /* too close to call in float32 */
    struct ids answers[MAX_BEAMS]; /* with the token that ended the text */
    float scores[MAX_BEAMS];
    size_t n_answers, n_taken;
    int n_done;
    struct search *next;
};

struct recorded {
    char name[64];
    struct ids source, end;
    struct search *first, **last;
};

static int n_checked, n_ties;

static void read_ids(char *at, struct ids *ids)
{
    char *end;
    ids->n = 0;
    for (long id; id = strtol(at, &end, 10), end != at; at = end) {
        cr_assert_lt(ids->n, MAX_IDS);
        ids->tokens[ids->n++] = (int32_t)id;
    }
}

static bool is_end(const struct search *search, int32_t token)
{
    for (size_t i = 0; i < search->request.n_stop_tokens; i++)
        if (search->request.stop_tokens[i] == token) return true;
    return false;
}

/* Whether these are all tokens of an answer but the one that ended it. */
static bool is_answer(const struct search *search, size_t number, const int32_t *tokens, size_t n)
{
    const struct ids *ids = &search->answers[number];
    size_t n_text = ids->n - is_end(search, ids->tokens[ids->n - 1]);
    return n == n_text && memcmp(tokens, ids->tokens, n * sizeof *tokens) == 0;
}

static void take(void *user, const struct engine_event *event)
{
    struct search *search = user;
    bool same = true;
    cr_assert_neq(event->reason, ENGINE_DONE_FAILED, "%s", event->message);
    if (event->kind == ENGINE_EVENT_TOKEN) {
        const struct ids *ids = &search->answers[0];
        same = search->n_taken < ids->n && ids->tokens[search->n_taken] == event->token;
        search->n_taken++;
    }
    if (event->kind == ENGINE_EVENT_DONE && search->request.n_beams < 2)
        same = is_answer(search, 0, search->answers[0].tokens, search->n_taken);
    for (uint32_t i = 0; event->kind == ENGINE_EVENT_DONE && i < event->n_beams; i++) {
        same = same && is_answer(search, i, event->beams[i].tokens, event->beams[i].n_tokens);
        cr_expect_float_eq(event->beams[i].score, search->scores[i], 1e-4, "%.7g instead of %.7g",
                           event->beams[i].score, (double)search->scores[i]);
    }
    cr_expect(same || search->is_tie, "source of %zu tokens, %u beams: other tokens", search->source.n,
              search->request.n_beams);
    search->n_done += event->kind == ENGINE_EVENT_DONE;
}

static void read_case(struct recorded *recorded, const char *line)
{
    char kind[16];
    struct search *search = calloc(1, sizeof *search);
    *recorded->last = search;
    recorded->last = &search->next;
    search->source = recorded->source;
    search->request = (struct engine_request){.struct_size = sizeof search->request,
                                              .tokens = search->source.tokens,
                                              .n_tokens = search->source.n,
                                              .stop_tokens = recorded->end.tokens,
                                              .n_stop_tokens = recorded->end.n,
                                              .event = take,
                                              .length_penalty = 1,
                                              .user = search};
    struct engine_request *request = &search->request;
    cr_assert_eq(sscanf(line, "case %u %u %15s", &request->n_beams, &request->max_tokens, kind), 3);
    search->is_tie = strcmp(kind, "tie") == 0;
}

static void read_beam(struct recorded *recorded, char *line)
{
    struct search *search = recorded->first;
    while (search->next) search = search->next;
    cr_assert_lt(search->n_answers, MAX_BEAMS);
    search->scores[search->n_answers] = strtof(line + 5, &line);
    read_ids(line, &search->answers[search->n_answers++]);
}

/* All searches of a model, one after another or at once. */
static void run_recorded(const struct recorded *recorded, bool together)
{
    struct engine_context_options wish = on_cpu;
    struct engine_queue *queue;
    wish.n_sequences = together ? 3 * MAX_BEAMS : MAX_BEAMS;
    wish.n_context = 128;
    wish.n_cache = together ? 9 * 32 : 0; /* too little for all: some are put back */
    start(family_files(recorded->name).model, &wish, NULL);
    cr_assert_eq(engine_queue_create(context, NULL, &queue), ENGINE_OK, "%s", engine_error_message());
    for (struct search *search = recorded->first; search; search = search->next) {
        search->n_taken = 0;
        search->n_done = 0;
        cr_assert_eq(engine_queue_submit(queue, &search->request, NULL), ENGINE_OK, "%s",
                     engine_error_message());
        if (!together) cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK);
    }
    cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK);
    for (struct search *search = recorded->first; search; search = search->next) {
        cr_assert_eq(search->n_done, 1);
        n_checked++;
        n_ties += search->is_tie;
    }
    engine_queue_destroy(queue);
    stop();
}

static void finish_recorded(struct recorded *recorded)
{
    if (!recorded->first) return;
    run_recorded(recorded, false);
    run_recorded(recorded, true);
    for (struct search *search = recorded->first, *next; search; search = next) {
        next = search->next;
        free(search);
    }
}

Test(t5, texts_are_those_of_transformers)
{
    static char line[4096];
    const char *other = getenv("T5_RECORDED");
    struct recorded recorded = {.last = &recorded.first};
    FILE *file = fopen(other ? other : TEST_SOURCE_DIR "/data/t5", "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "model ", 6) == 0) {
            finish_recorded(&recorded);
            recorded = (struct recorded){.last = &recorded.first};
            cr_assert_eq(sscanf(line, "model %63s", recorded.name), 1);
        } else if (strncmp(line, "end ", 4) == 0) {
            read_ids(line + 4, &recorded.end);
        } else if (strncmp(line, "source ", 7) == 0) {
            read_ids(line + 7, &recorded.source);
        } else if (strncmp(line, "case ", 5) == 0) {
            read_case(&recorded, line);
        } else {
            cr_assert(strncmp(line, "beam ", 5) == 0, "%s", line);
            read_beam(&recorded, line);
        }
    }
    fclose(file);
    finish_recorded(&recorded);
    cr_expect_geq(n_checked, 72);
    cr_log_info("%d texts, %d of them too close to call", n_checked, n_ties);
}
#endif
