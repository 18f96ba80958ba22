/* check-tokenizers.c: checks a tokenizer plugin with a made-up vocabulary for each kind of model that it
 * names. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check/explanation.h"
#include "check/formats.h"
#include "check/suite.h"
#include "check/vocabulary.h"

/* A row's subject: one tokenizer, which lives as long as the row. */
struct subject {
    const struct engine_tokenizer_api *api;
    const char *model;
    struct vocabulary *vocabulary;
    struct engine_tokenizer *tokenizer;
};

struct ids {
    int32_t *list; /* [capacity], held by the suite */
    size_t count, capacity;
    bool full;
};

struct text {
    char *data; /* [capacity], held */
    size_t length, capacity;
};

/* ---- There and back -------------------------------------------------------------------------------- */

static int collect(void *user, const int32_t *list, size_t count)
{
    struct ids *ids = user;
    if (count > ids->capacity - ids->count) {
        ids->full = true;
        return 1;
    }
    memcpy(ids->list + ids->count, list, count * sizeof *list);
    ids->count += count;
    return 0;
}

/* The ids of a text: at most eight for each byte. */
static struct ids tokenizers_encode(struct suite *suite, const struct subject *subject, const char *text,
                                    size_t length, uint32_t flags)
{
    struct fixture *fixture = &suite->fixture;
    struct ids ids = {.capacity = 8 * length + 64};
    ids.list = fixture_room(fixture, ids.capacity, sizeof *ids.list);
    /* of exactly that size, so that reading past the end is noticed */
    char *copy = fixture_hold(fixture, malloc(length ? length : 1));
    if (length) memcpy(copy, text, length);
    int status = subject->api->encode(subject->tokenizer, copy, length, flags, collect, &ids);
    SUITE_EXPECT(suite, !ids.full, "more than %zu ids for %zu bytes", ids.capacity, length);
    fixture_must(fixture, status, "encode");
    free(fixture_release(fixture, copy));
    for (size_t i = 0; i < ids.count; i++)
        SUITE_EXPECT(suite, ids.list[i] >= 0 && (size_t)ids.list[i] < subject->vocabulary->n_tokens,
                     "encode gave id %d, which there isn't", ids.list[i]);
    return ids;
}

/* Bytes of the UTF-8 character that a text begins with, 0 if there is none (RFC 3629). */
static size_t character(const unsigned char *text, size_t length)
{
    size_t n = text[0] < 0x80   ? 1
               : text[0] < 0xc2 ? 0
               : text[0] < 0xe0 ? 2
               : text[0] < 0xf0 ? 3
               : text[0] < 0xf5 ? 4
                                : 0;
    if (n == 0 || n > length) return 0;
    for (size_t i = 1; i < n; i++)
        if ((text[i] & 0xc0) != 0x80) return 0;
    if (n > 2 && ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
                  (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f)))
        return 0;
    return n;
}

/* Decodes; no part may end inside a character. `ends` marks the ends of parts, [capacity]. */
static struct text tokenizers_decode(struct suite *suite, const struct subject *subject,
                                     const struct ids *ids, int special)
{
    struct fixture *fixture = &suite->fixture;
    struct engine_decoder *decoder = NULL;
    struct text text = {.capacity = 64 * (ids->count + 16)};
    text.data = fixture_room(fixture, text.capacity, 1);
    bool *ends = fixture_room(fixture, text.capacity, sizeof *ends);
    fixture_must(fixture, subject->api->decoder_create(subject->tokenizer, special, &decoder),
                 "decoder_create");
    for (size_t i = 0; i <= ids->count; i++) {
        struct engine_string part = {NULL, 0};
        if (i < ids->count)
            fixture_must(fixture, subject->api->decode(decoder, ids->list[i], &part), "decode");
        else
            fixture_must(fixture, subject->api->decode_end(decoder, &part), "decode_end");
        SUITE_EXPECT(suite, part.length < text.capacity - text.length, "a token became %zu bytes",
                     part.length);
        if (part.length) memcpy(text.data + text.length, part.data, part.length);
        text.length += part.length;
        ends[text.length] = true;
    }
    subject->api->decoder_destroy(decoder);
    for (size_t i = 0; i < text.length;) {
        size_t n = character((unsigned char *)text.data + i, text.length - i);
        for (size_t j = 1; j < n; j++) SUITE_EXPECT(suite, !ends[i + j], "a character came out in two parts");
        i += n ? n : 1;
    }
    return text;
}

static bool same_ids(const struct ids *a, const struct ids *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->list, b->list, a->count * sizeof *a->list) == 0);
}

static bool same_text(const struct text *a, const char *text, size_t length)
{
    return a->length == length && (length == 0 || memcmp(a->data, text, length) == 0);
}

/* ---- Checks ---------------------------------------------------------------------------------------- */

static void tokenizers_create(struct suite *suite, struct subject *subject)
{
    struct engine_metadata metadata = vocabulary_metadata(subject->vocabulary);
    subject->tokenizer = NULL;
    fixture_must(&suite->fixture, subject->api->create(&metadata, &subject->tokenizer), "create");
    SUITE_EXPECT(suite, subject->tokenizer, "create: ENGINE_OK, but no tokenizer");
}

static void created(struct suite *suite, const void *args)
{
    struct subject subject = *(const struct subject *)args;
    struct engine_tokenizer_info info = {.struct_size = sizeof info}, shorter;
    tokenizers_create(suite, &subject);
    fixture_must(&suite->fixture, subject.api->info(subject.tokenizer, &info), "info");
    SUITE_EXPECT(suite, info.struct_size == sizeof info, "info changed struct_size, which is the caller's");
    SUITE_EXPECT(suite, info.n_tokens == subject.vocabulary->n_tokens, "%u tokens, of %zu", info.n_tokens,
                 subject.vocabulary->n_tokens);
    const int32_t ids[] = {info.bos, info.eos, info.unknown, info.separator, info.padding, info.end_of_turn};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        SUITE_EXPECT(suite, ids[i] >= -1 && ids[i] < (int32_t)info.n_tokens, "special token %zu has id %d", i,
                     ids[i]);
    memset(&shorter, 0x55, sizeof shorter);
    shorter.struct_size = offsetof(struct engine_tokenizer_info, padding);
    fixture_must(&suite->fixture, subject.api->info(subject.tokenizer, &shorter), "info");
    SUITE_EXPECT(suite, shorter.padding == 0x55555555,
                 "info wrote past the end of a struct from an earlier version");
    subject.api->destroy(subject.tokenizer);
    subject.api->destroy(NULL);
    subject.api->decoder_destroy(NULL);
    for (int i = 0; i < 30; i++) {
        tokenizers_create(suite, &subject);
        subject.api->destroy(subject.tokenizer);
    }
}

static void pieces(struct suite *suite, const void *args)
{
    const struct subject *subject = args;
    const struct vocabulary *vocabulary = subject->vocabulary;
    static const int32_t bad[] = {-1, INT32_MIN, INT32_MAX, MAX_TOKENS};
    struct engine_string piece = {NULL, 0};
    for (size_t i = 0; i < vocabulary->n_tokens; i++) {
        const struct engine_string *wanted = &vocabulary->tokens[i];
        fixture_must(&suite->fixture, subject->api->piece(subject->tokenizer, (int32_t)i, &piece), "piece");
        SUITE_EXPECT(suite,
                     piece.length == wanted->length && memcmp(piece.data, wanted->data, piece.length) == 0,
                     "the piece of id %zu isn't what the vocabulary says", i);
        uint32_t bits = subject->api->attributes(subject->tokenizer, (int32_t)i);
        SUITE_EXPECT(suite, vocabulary->types[i] != TOKEN_CONTROL || (bits & ENGINE_TOKEN_CONTROL),
                     "id %zu is a control token, attributes doesn't say so", i);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        suite_expect_error(suite, subject->api->piece(subject->tokenizer, bad[i], &piece),
                           ENGINE_ERROR_ARGUMENT, "the piece of an id that there isn't");
        SUITE_EXPECT(suite, subject->api->attributes(subject->tokenizer, bad[i]) == 0, "id %d has attributes",
                     bad[i]);
    }
}

static const struct engine_string texts[] = {
#define TEXT(literal)                                                                                        \
    {                                                                                                        \
        literal, sizeof literal - 1                                                                          \
    }
    TEXT(""),
    TEXT(" "),
    TEXT("the"),
    TEXT("hello world, the engine is running there"),
    TEXT("  two  spaces\n\n\tand a tab\r\n"),
    TEXT("abcabcabcabc 000000 12345"),
    TEXT("<s>the</s><|mark|> <|user|>"),
    TEXT("gr\xc3\xbc\xc3\x9f dich \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80\xf0\x9f\x98\x80"),
    TEXT("a\0b\0\0"),
    TEXT("\xff\xfe broken \xe4\xb8 \xc3"),
};

static void text_by_text(struct suite *suite, const void *args)
{
    const struct subject *subject = args;
    static const uint32_t flags[] = {0, ENGINE_ENCODE_BOS_EOS, ENGINE_ENCODE_SPECIAL,
                                     ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
            struct ids first = tokenizers_encode(suite, subject, texts[i].data, texts[i].length, flags[f]);
            struct ids second = tokenizers_encode(suite, subject, texts[i].data, texts[i].length, flags[f]);
            SUITE_EXPECT(suite, same_ids(&first, &second), "text %zu gave other ids the second time", i);
            tokenizers_decode(suite, subject, &first, 0);
            tokenizers_decode(suite, subject, &first, 1);
        }
}

static bool has_unknown(const struct subject *subject, const struct ids *ids)
{
    for (size_t i = 0; i < ids->count; i++)
        if (subject->api->attributes(subject->tokenizer, ids->list[i]) & ENGINE_TOKEN_UNKNOWN) return true;
    return false;
}

/* A text that has been encoded and decoded must stay the same when that is repeated, unless part of it
 * couldn't be encoded. */
static void there_and_back(struct suite *suite, const void *args)
{
    const struct subject *subject = args;
    uint64_t seed = 77;
    for (size_t i = 0; i < 200; i++) {
        char random[100];
        const char *data = random;
        size_t length = random_bits(&seed) % sizeof random;
        for (size_t j = 0; j < length; j++)
            random[j] = (char)(i % 2 ? random_bits(&seed) : 'a' + random_bits(&seed) % 8);
        for (size_t j = 3; j < length; j += 7) random[j] = ' ';
        if (i < sizeof texts / sizeof *texts) data = texts[i].data, length = texts[i].length;
        struct ids ids = tokenizers_encode(suite, subject, data, length, 0);
        struct text text = tokenizers_decode(suite, subject, &ids, 0);
        if (vocabulary_is_lossless(subject->vocabulary)) {
            bool has_mark = memmem(data, length, "<", 1); /* a spelling of a control token has no text */
            SUITE_EXPECT(suite, has_mark || same_text(&text, data, length), "text %zu didn't come back", i);
            continue;
        }
        if (has_unknown(subject, &ids)) continue;
        struct ids again = tokenizers_encode(suite, subject, text.data, text.length, 0);
        struct text back = tokenizers_decode(suite, subject, &again, 0);
        SUITE_EXPECT(suite, same_text(&back, text.data, text.length),
                     "what text %zu became changes the second time", i);
    }
}

static void words_are_tokens(struct suite *suite, const void *args)
{
    const struct subject *subject = args;
    for (const char *const *word = vocabulary_words; *word; word++) {
        struct ids ids = tokenizers_encode(suite, subject, *word, strlen(*word), 0);
        struct text text = tokenizers_decode(suite, subject, &ids, 0);
        SUITE_EXPECT(suite, ids.count > 0 && memmem(text.data, text.length, *word, strlen(*word)),
                     "'%s', a word of the vocabulary, became '%.*s'", *word, (int)text.length, text.data);
    }
}

static size_t count_of(const struct ids *ids, int32_t id)
{
    size_t n = 0;
    for (size_t i = 0; i < ids->count; i++) n += ids->list[i] == id;
    return n;
}

/* Tokens that a model expects around texts, and control tokens spelled in a text. */
static void special_tokens(struct suite *suite, const void *args)
{
    const struct subject *subject = args;
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    fixture_must(&suite->fixture, subject->api->info(subject->tokenizer, &info), "info");
    struct ids with = tokenizers_encode(suite, subject, "the", 3, ENGINE_ENCODE_BOS_EOS);
    struct ids without = tokenizers_encode(suite, subject, "the", 3, 0);
    size_t added =
        (size_t)(info.add_bos != 0) + (size_t)(info.add_eos != 0) + (size_t)(info.add_separator != 0);
    SUITE_EXPECT(suite, with.count == without.count + added, "%zu ids around a text, add_… say %zu",
                 with.count - without.count, added);
    SUITE_EXPECT(suite, !info.add_bos || with.list[0] == info.bos, "the first token is %d, not BOS",
                 with.list[0]);
    SUITE_EXPECT(suite, !info.add_eos || with.list[with.count - 1] == info.eos, "the last token is not EOS");
    for (int32_t id = 0; id < (int32_t)subject->vocabulary->n_tokens; id++) {
        const struct engine_string *spelled = &subject->vocabulary->tokens[id];
        if (subject->vocabulary->types[id] != TOKEN_CONTROL) continue;
        struct ids ids =
            tokenizers_encode(suite, subject, spelled->data, spelled->length, ENGINE_ENCODE_SPECIAL);
        SUITE_EXPECT(suite, count_of(&ids, id) == 1, "'%.*s' is a control token, and was not found in a text",
                     (int)spelled->length, spelled->data);
        struct text hidden = tokenizers_decode(suite, subject, &ids, 0),
                    shown = tokenizers_decode(suite, subject, &ids, 1);
        SUITE_EXPECT(suite, !memmem(hidden.data, hidden.length, spelled->data, spelled->length),
                     "a control token is spelled without having been asked for");
        SUITE_EXPECT(suite, memmem(shown.data, shown.length, spelled->data, spelled->length),
                     "a control token isn't spelled though asked for");
    }
}

/* A sink that stops after some ids. */
struct stopper {
    size_t left;
    unsigned calls_after;
    bool stopped;
};

static int stop_soon(void *user, const int32_t *list, size_t count)
{
    struct stopper *stopper = user;
    (void)list;
    if (stopper->stopped) stopper->calls_after++;
    if (count <= stopper->left) {
        stopper->left -= count;
        return 0;
    }
    stopper->stopped = true;
    return 4242;
}

static void sinks_that_stop(struct suite *suite, const void *args)
{
    const struct subject *subject = args;
    char *text = fixture_room(&suite->fixture, 20000, 1);
    for (size_t i = 0; i < 20000; i++) text[i] = "hello world "[i % 12];
    for (size_t left = 0; left < 300; left = 2 * left + 1) {
        struct stopper stopper = {.left = left};
        int status = subject->api->encode(subject->tokenizer, text, 20000, 0, stop_soon, &stopper);
        SUITE_EXPECT(suite, stopper.stopped && status == 4242, "the sink said 4242, encode %d", status);
        SUITE_EXPECT(suite, stopper.calls_after == 0, "the sink was called after it had said stop");
    }
}

/* ---- Explanations ---------------------------------------------------------------------------------- */

static bool explains(const struct subject *subject)
{
    return ENGINE_HAS(subject->api, explain) && subject->api->explain;
}

static void tokenizers_explain(struct suite *suite, const struct subject *subject, const char *text,
                               size_t length, uint32_t flags)
{
    char why[EXPLANATION_WHY];
    struct ids ids = tokenizers_encode(suite, subject, text, length, flags);
    char *copy = fixture_hold(&suite->fixture, malloc(length ? length : 1));
    if (length) memcpy(copy, text, length);
    bool good = explanation_check(subject->api, subject->tokenizer, (struct engine_string){copy, length},
                                  flags, ids.list, ids.count, subject->vocabulary->n_tokens, why);
    SUITE_EXPECT(suite, good, "%s (a text of %zu bytes)", why, length);
    free(fixture_release(&suite->fixture, copy));
}

/* A sink that stops after some steps. */
static int stop_explaining(void *user, const struct engine_explain_step *step)
{
    (void)step;
    struct stopper *stopper = user;
    if (stopper->stopped) stopper->calls_after++;
    if (stopper->left-- > 0) return 0;
    stopper->stopped = true;
    return 4242;
}

static void explanations(struct suite *suite, const void *args)
{
    const struct subject *subject = args;
    if (!explains(subject)) suite->fixture.stop(&suite->fixture, FIXTURE_UNCLAIMED, "");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (uint32_t flags = 0; flags < 4; flags++)
            tokenizers_explain(suite, subject, texts[i].data, texts[i].length, flags);
    uint64_t seed = 5;
    for (size_t i = 0; i < 100; i++) {
        char random[400];
        size_t length = random_bits(&seed) % sizeof random;
        for (size_t j = 0; j < length; j++)
            random[j] = i % 3 == 0   ? (char)random_bits(&seed)
                        : i % 3 == 1 ? "the hello w"[random_bits(&seed) % 11]
                                     : "abc"[random_bits(&seed) % 3];
        tokenizers_explain(suite, subject, random, length, i % 4);
    }
    for (size_t left = 0; left < 4; left++) {
        struct stopper stopper = {.left = left};
        int status =
            subject->api->explain(subject->tokenizer, "hello world", 11, 0, stop_explaining, &stopper);
        SUITE_EXPECT(suite, !stopper.stopped || status == 4242, "the sink said 4242, explain %d", status);
        SUITE_EXPECT(suite, stopper.calls_after == 0, "the sink was called after it had said stop");
    }
}

static void bad_ids(struct suite *suite, const void *args)
{
    const struct subject *subject = args;
    static const int32_t bad[] = {-1, INT32_MIN, INT32_MAX, MAX_TOKENS};
    struct engine_decoder *decoder = NULL;
    struct engine_string text = {NULL, 0};
    fixture_must(&suite->fixture, subject->api->decoder_create(subject->tokenizer, 0, &decoder),
                 "decoder_create");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        suite_expect_error(suite, subject->api->decode(decoder, bad[i], &text), ENGINE_ERROR_ARGUMENT,
                           "decoding an id that there isn't");
        fixture_must(&suite->fixture, subject->api->decode(decoder, 5, &text),
                     "decode after an id that there isn't");
    }
    fixture_must(&suite->fixture, subject->api->decode_end(decoder, &text), "decode_end");
    subject->api->decoder_destroy(decoder);
}

static void long_text(struct suite *suite, const void *args)
{
    const struct subject *subject = args;
    enum { LENGTH = 300000 };
    char *text = fixture_room(&suite->fixture, LENGTH, 1);
    uint64_t seed = 8;
    for (size_t i = 0; i < LENGTH; i++) text[i] = i < LENGTH / 2 ? 'a' : (char)('a' + random_bits(&seed) % 9);
    struct ids ids = tokenizers_encode(suite, subject, text, LENGTH, 0);
    tokenizers_decode(suite, subject, &ids, 0);
}

/* ---- Wrong metadata -------------------------------------------------------------------------------- */

/* Creates a tokenizer, or is refused with a reason; a created one works. */
static void survive(struct suite *suite, struct subject *subject)
{
    struct engine_metadata metadata = vocabulary_metadata(subject->vocabulary);
    subject->tokenizer = NULL;
    check_host_message();
    int status = subject->api->create(&metadata, &subject->tokenizer);
    if (status != ENGINE_OK) {
        suite_expect_error(suite, status, ENGINE_OK, "create");
        SUITE_EXPECT(suite, !subject->tokenizer, "create failed, and changed its output parameter");
        return;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct ids ids = tokenizers_encode(suite, subject, texts[i].data, texts[i].length, i % 4);
        tokenizers_decode(suite, subject, &ids, (int)i % 2);
        if (explains(subject)) tokenizers_explain(suite, subject, texts[i].data, texts[i].length, i % 4);
    }
    subject->api->destroy(subject->tokenizer);
}

static void hostile_metadata(struct suite *suite, const void *args)
{
    struct subject subject = *(const struct subject *)args;
    struct vocabulary *vocabulary = fixture_room(&suite->fixture, 1, sizeof *vocabulary);
    uint64_t seed = 4;
    subject.vocabulary = vocabulary;
    for (int i = 0; i < 300; i++) {
        vocabulary_make(vocabulary, subject.model);
        for (uint32_t change = 0; change <= random_bits(&seed) % 3; change++) {
            size_t id = random_bits(&seed) % vocabulary->n_tokens;
            switch (random_bits(&seed) % 9) {
            case 0: vocabulary->n_scores = random_bits(&seed) % MAX_TOKENS; break;
            case 1: vocabulary->n_types = random_bits(&seed) % MAX_TOKENS; break;
            case 2: vocabulary->n_tokens = 1 + random_bits(&seed) % MAX_TOKENS; break;
            case 3: vocabulary->types[id] = (int64_t)random_bits(&seed) % 9 - 1; break;
            case 4:
                vocabulary->tokens[id].length = random_bits(&seed) % (vocabulary->tokens[id].length + 1);
                break;
            case 5:
                vocabulary->tokens[id] = vocabulary->tokens[random_bits(&seed) % vocabulary->n_tokens];
                break;
            case 6: vocabulary->scores[id] = (float)(random_bits(&seed) % 2 ? 0.0 / 0.0 : 1e38); break;
            case 7:
                vocabulary_set(vocabulary, "tokenizer.ggml.eos_token_id", (int64_t)random_bits(&seed) - 9);
                break;
            default:
                if (vocabulary->n_merges)
                    vocabulary->merges[random_bits(&seed) % vocabulary->n_merges].length =
                        random_bits(&seed) % 3;
            }
        }
        /* Tokens after those that were made are empty, and all the same. */
        for (size_t id = 0; id < vocabulary->n_tokens; id++)
            if (!vocabulary->tokens[id].data) vocabulary->tokens[id].data = "";
        survive(suite, &subject);
    }
}

static void no_vocabulary(struct suite *suite, const void *args)
{
    struct subject subject = *(const struct subject *)args;
    struct vocabulary *vocabulary = fixture_room(&suite->fixture, 1, sizeof *vocabulary);
    struct engine_metadata metadata = vocabulary_metadata(vocabulary);
    vocabulary->model = subject.model;
    subject.tokenizer = NULL;
    int status = subject.api->create(&metadata, &subject.tokenizer);
    if (status == ENGINE_OK) { /* a kind that needs none */
        subject.api->destroy(subject.tokenizer);
        return;
    }
    suite_expect_error(suite, status, ENGINE_OK, "create without tokens");
}

/* ---- Threads --------------------------------------------------------------------------------------- */

enum { N_THREADS = 4 };

struct worker {
    struct suite suite;
    const struct subject *subject;
    pthread_t thread;
    bool started;
    enum check_result result;
};

/* Creates one more tokenizer with the same vocabulary. */
static void another(struct suite *suite, const void *args)
{
    struct subject subject = *(const struct subject *)args;
    survive(suite, &subject);
    SUITE_EXPECT(suite, subject.tokenizer, "create is refused beside other threads");
}

static void *tokenizers_work(void *context)
{
    struct worker *worker = context;
    for (int i = 0; i < 10 && worker->result != CHECK_FAILED; i++)
        worker->result = suite_try(&worker->suite, i % 5 == 4 ? another : there_and_back, worker->subject);
    return NULL;
}

static void many_threads(struct suite *suite, const void *args)
{
    struct worker *workers = fixture_room(&suite->fixture, N_THREADS, sizeof *workers);
    for (int i = 0; i < N_THREADS; i++) {
        workers[i].subject = args;
        workers[i].suite.pipe = -1;
        workers[i].suite.is_selected = true;
        workers[i].suite.fixture.owner = &workers[i].suite;
        workers[i].suite.fixture.stop = suite->fixture.stop;
        workers[i].started = pthread_create(&workers[i].thread, NULL, tokenizers_work, &workers[i]) == 0;
    }
    for (int i = 0; i < N_THREADS; i++)
        if (workers[i].started) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < N_THREADS; i++)
        SUITE_EXPECT(suite, workers[i].result != CHECK_FAILED, "%s", workers[i].suite.row.message);
}

/* ---- All of it ------------------------------------------------------------------------------------- */

static void make_subject(struct suite *suite, const void *args)
{
    tokenizers_create(suite, *(struct subject *const *)args);
}

static void check_model(struct suite *suite, const char *model)
{
    static const struct {
        const char *what;
        suite_body *body;
    } checks[] = {
        {"created", created},
        {"pieces", pieces},
        {"encode and decode", text_by_text},
        {"there and back", there_and_back},
        {"words", words_are_tokens},
        {"special tokens", special_tokens},
        {"sinks that stop", sinks_that_stop},
        {"explanations", explanations},
        {"ids that aren't there", bad_ids},
        {"long text", long_text},
        {"threads", many_threads},
        {"no vocabulary", no_vocabulary},
        {"hostile metadata", hostile_metadata},
    };
    struct vocabulary *vocabulary = calloc(1, sizeof *vocabulary);
    struct subject subject = {.api = suite->plugin->tokenizers, .model = model, .vocabulary = vocabulary};
    struct subject *const pointer = &subject;
    suite->is_whole = true; /* all others need it */
    suite_begin(suite, model, "creating one");
    if (!vocabulary) return;
    vocabulary_make(vocabulary, model);
    const enum check_result made = suite_try(suite, make_subject, &pointer);
    suite->is_whole = false;
    if (made != CHECK_PASSED) {
        suite_end(suite);
        free(vocabulary);
        return;
    }
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        suite_single(suite, model, checks[i].what, checks[i].body, &subject);
    subject.api->destroy(subject.tokenizer);
    free(vocabulary);
}

static void check_models(struct suite *suite)
{
    for (const char *const *model = suite->plugin->tokenizers->models; *model; model++)
        check_model(suite, *model);
}

const struct group tokenizer_groups[] = {{"tokenizers", false, check_models}, {NULL, false, NULL}};
