/* test-rerank.c: pairs of texts, classification heads, `engine rerank` and `engine classify`. The scores
 * follow from the states that the library gives, by the head's formula; tools/families/classifiers compares
 * with transformers. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "files.h"
#include "model-recipe.h"
#include "program-json.h"

enum { N_EMBD = 32 };

static char *folder, *model_path;

static void begin(void)
{
    folder = files_folder();
    model_path = strdup(files_path(folder, "model.gguf"));
}

static void end(void)
{
    files_remove(folder);
    free(folder), free(model_path);
}

TestSuite(rerank, .init = begin, .fini = end, .timeout = 1200);

#define VOCABULARY                                                                                           \
    "key tokenizer.ggml.model str bert\n"                                                                    \
    "key tokenizer.ggml.tokens str[] [PAD] [UNK] [CLS] [SEP] \xe2\x96\x81tea \xe2\x96\x81"                   \
    "bear "                                                                                                  \
    "\xe2\x96\x81what \xe2\x96\x81is\n"                                                                      \
    "key tokenizer.ggml.token_type i32[] 3 2 3 3 1 1 1 1\n"                                                  \
    "key tokenizer.ggml.cls_token_id u32 2\n"                                                                \
    "key tokenizer.ggml.bos_token_id u32 2\n"                                                                \
    "key tokenizer.ggml.seperator_token_id u32 3\n"                                                          \
    "key tokenizer.ggml.unknown_token_id u32 1\n"
#define RERANKER                                                                                             \
    "tensor cls.weight f32 32 24 = 0.05\ntensor cls.bias f32 24 = 0.25\n"                                    \
    "tensor cls.output.weight f32 24 1 = 0.125\ntensor cls.output.bias f32 1 = -0.5\n"
#define SEVERAL "tensor cls.output.weight f32 32 2\n"

static double reranker(const float *state)
{
    double sum = 0.25;
    for (int i = 0; i < N_EMBD; i++) sum += (double)0.05F * (double)state[i];
    return 24 * 0.125 * tanh(sum) - 0.5;
}

static void write_model(const char *more)
{
    size_t size, n;
    char *bert = files_read(TEST_SOURCE_DIR "/fuzz/models/bert.txt", &n);
    char *text = malloc(n + strlen(VOCABULARY) + strlen(more) + 1);
    memcpy(text, bert, n);
    strcpy(text + n, VOCABULARY);
    strcat(text, more);
    uint8_t *gguf = model_recipe_gguf(text, strlen(text), &size);
    files_write(model_path, gguf, size);
    free(bert), free(text), free(gguf);
}

/* ---- The library --------------------------------------------------------------------------------------- */

static struct engine *engine;
static struct engine_model *model;

static void open_model(const char *more)
{
    static const char *const plugins[] = {TEST_PLUGIN_DIR, NULL};
    char *config = strdup(files_path(folder, "engine.conf"));
    files_write_text(config, "");
    const struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = plugins, .config_file = config};
    write_model(more);
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_open(engine, model_path, NULL, &model), ENGINE_OK, "%s",
                 engine_error_message());
    free(config);
}

static void close_model(void)
{
    engine_model_close(model);
    engine_close(engine);
}

static struct {
    int32_t ids[64], types[64];
    size_t count;
} pair;

static int take_pair(void *user, const int32_t *ids, const int32_t *types, size_t count)
{
    (void)user;
    cr_assert_leq(count, 64);
    memcpy(pair.ids, ids, count * sizeof *ids);
    memcpy(pair.types, types, count * sizeof *types);
    pair.count = count;
    return ENGINE_OK;
}

#define STRING(text) ((struct engine_string){text, strlen(text)})

static void encode(const char *first, const char *second)
{
    cr_assert_eq(engine_model_encode_pair(model, STRING(first), STRING(second), take_pair, NULL), ENGINE_OK,
                 "%s", engine_error_message());
}

static void expect_pair(const int32_t *ids, const int32_t *types, size_t count)
{
    cr_assert_eq(pair.count, count, "%zu tokens, not %zu", pair.count, count);
    cr_assert_eq(memcmp(pair.ids, ids, count * sizeof *ids), 0);
    cr_assert_eq(memcmp(pair.types, types, count * sizeof *types), 0);
}

Test(rerank, a_pair_is_joined_as_bert_reads_it)
{
    open_model(RERANKER);
    encode("what is tea", "bear");
    expect_pair((int32_t[]){2, 6, 7, 4, 3, 5, 3}, (int32_t[]){0, 0, 0, 0, 0, 1, 1}, 7);
    encode("", "bear tea");
    expect_pair((int32_t[]){2, 3, 5, 4, 3}, (int32_t[]){0, 0, 1, 1, 1}, 5);
    encode("tea", "");
    expect_pair((int32_t[]){2, 4, 3, 3}, (int32_t[]){0, 0, 0, 1}, 4);
    encode("[SEP]", "tea"); /* is text */
    cr_assert_neq(pair.ids[1], 3);
    close_model();
}

Test(rerank, a_template_joins_them)
{
    open_model(RERANKER "key tokenizer.chat_template.rerank str [CLS]what{query}is{document}[SEP]\n");
    encode("tea", "bear");
    cr_assert_eq(pair.ids[0], 2);
    cr_assert_eq(pair.ids[pair.count - 1], 3);
    for (size_t i = 0; i < pair.count; i++) cr_assert_eq(pair.types[i], 0);
    encode(" tea ", "[SEP]");
    cr_assert_eq(pair.ids[1], 6);
    cr_assert_eq(pair.ids[2], 4);
    cr_assert_eq(pair.ids[3], 7);
    cr_assert_neq(pair.ids[4], 3);
    close_model();
}

/* As transformers' tokenizers truncate pairs (longest_first), with the special tokens: the ids are theirs. */
Test(rerank, a_pair_that_is_too_long_is_cut)
{
    static const struct {
        const char *first, *second;
        size_t n_most, n_first, n_second;
    } cases[] = {
        {"what is tea", "bear tea bear tea", 0, 3, 4}, {"what is tea", "bear tea bear tea", 10, 3, 4},
        {"what is tea", "bear tea bear tea", 9, 3, 3}, {"what is tea", "bear tea bear tea", 8, 2, 3},
        {"what is tea", "bear tea bear tea", 7, 2, 2}, {"what is tea is tea is", "bear", 6, 2, 1},
        {"what", "bear tea bear tea bear", 6, 1, 2},   {"what is tea", "bear tea bear", 8, 2, 3},
        {"what is tea is", "bear tea bear", 8, 3, 2},  {"what is tea", "bear tea bear tea", 3, 0, 0},
        {"what is tea", "bear tea bear tea", 4, 0, 1},
    };
    static const int32_t first[] = {6, 7, 4, 7, 4, 7}, second[] = {5, 4, 5, 4, 5};
    open_model(RERANKER);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t a = cases[i].n_first, b = cases[i].n_second;
        cr_assert_eq(engine_model_encode_pair_within(model, STRING(cases[i].first), STRING(cases[i].second),
                                                     cases[i].n_most, take_pair, NULL),
                     ENGINE_OK, "%s", engine_error_message());
        cr_expect_eq(pair.count, a + b + 3, "case %zu: %zu tokens", i, pair.count);
        cr_expect(pair.ids[0] == 2 && pair.ids[a + 1] == 3 && pair.ids[a + b + 2] == 3, "case %zu", i);
        cr_expect_eq(memcmp(pair.ids + 1, first, a * sizeof *first), 0, "case %zu", i);
        cr_expect_eq(memcmp(pair.ids + a + 2, second, b * sizeof *second), 0, "case %zu", i);
        for (size_t k = 0; k < pair.count; k++) cr_expect_eq(pair.types[k], k > a + 1);
    }
    cr_expect_eq(engine_model_encode_pair_within(model, STRING("tea"), STRING("tea"), 2, take_pair, NULL),
                 ENGINE_ERROR_DATA);
    close_model();
    open_model(RERANKER "key tokenizer.chat_template.rerank str [CLS]what{query}is{document}[SEP]\n");
    encode(" tea ", " bear tea bear tea");
    size_t whole = pair.count;
    cr_assert_eq(engine_model_encode_pair_within(model, STRING(" tea "), STRING(" bear tea bear tea"),
                                                 whole - 1, take_pair, NULL),
                 ENGINE_OK, "%s", engine_error_message());
    cr_expect_eq(pair.count, whole - 1);
    cr_expect_eq(pair.ids[whole - 2], 3);
    /* The longest beginning of whole characters; each is a token here. */
    static const char wide[] = "\xe8\x8c\xb6s\xe8\x8c\xb6s\xe8\x8c\xb6s";
    encode("tea", "");
    size_t least = pair.count;
    encode("tea", wide);
    cr_assert_eq(whole = pair.count, least + 6);
    for (size_t n = least; n <= whole; n++) {
        cr_assert_eq(engine_model_encode_pair_within(model, STRING("tea"), STRING(wide), n, take_pair, NULL),
                     ENGINE_OK, "%s", engine_error_message());
        cr_expect_eq(pair.count, n);
    }
    cr_expect_eq(engine_model_encode_pair_within(model, STRING(" tea "), STRING("bear"), 2, take_pair, NULL),
                 ENGINE_ERROR_DATA);
    close_model();
}

static float got[4];
static uint32_t n_got;

static void take_scores(void *user, const struct engine_event *event)
{
    (void)user;
    cr_assert_eq(event->reason, ENGINE_DONE_LIMIT, "%s", event->message);
    n_got = event->n_embd;
    cr_assert_leq(n_got, 4);
    memcpy(got, event->embedding, n_got * sizeof *got);
}

static int submit(struct engine_queue *queue, uint32_t pooling, const int32_t *types)
{
    const struct engine_request request = {.struct_size = sizeof request,
                                           .tokens = pair.ids,
                                           .n_tokens = pair.count,
                                           .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
                                           .event = take_scores,
                                           .pooling = pooling,
                                           .token_types = types};
    return engine_queue_submit(queue, &request, NULL);
}

static double expected_of(struct engine_context *context)
{
    float *states = malloc(pair.count * N_EMBD * sizeof *states);
    const struct engine_batch batch = {.struct_size = sizeof batch,
                                       .n_tokens = pair.count,
                                       .tokens = pair.ids,
                                       .states = states,
                                       .token_types = pair.types};
    cr_assert_eq(engine_decode(context, &batch, NULL), ENGINE_OK, "%s", engine_error_message());
    double expected = reranker(states);
    free(states);
    return expected;
}

static void open_queue(struct engine_context **context, struct engine_queue **queue)
{
    const struct engine_context_options options = {.struct_size = sizeof options, .backends = "cpu"};
    cr_assert_eq(engine_context_create(model, &options, context), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_create(*context, NULL, queue), ENGINE_OK, "%s", engine_error_message());
}

Test(rerank, the_head_scores_the_pooled_state)
{
    struct engine_context *context;
    struct engine_queue *queue;
    open_model(RERANKER);
    open_queue(&context, &queue);
    encode("what is tea", "bear");
    double expected = expected_of(context);
    cr_assert_eq(submit(queue, ENGINE_POOLING_RANK, pair.types), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK);
    cr_assert_eq(n_got, 1);
    cr_assert_float_eq((double)got[0], expected, 1e-5);
    cr_assert_eq(submit(queue, ENGINE_POOLING_RANK, NULL), ENGINE_OK);
    cr_assert_eq(engine_queue_run(queue, ENGINE_QUEUE_IDLE), ENGINE_OK);
    cr_assert_gt(fabs((double)got[0] - expected), 1e-4, "the types of tokens change nothing");
    pair.types[2] = 2;
    cr_assert_eq(submit(queue, ENGINE_POOLING_RANK, pair.types), ENGINE_ERROR_ARGUMENT);
    pair.types[2] = 0;
    cr_assert_eq(submit(queue, 0, pair.types), ENGINE_ERROR_UNSUPPORTED);
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    close_model();
}

Test(rerank, a_model_without_a_head_has_no_scores)
{
    struct engine_context *context;
    struct engine_queue *queue;
    struct engine_embedding_info info = {.struct_size = sizeof info};
    open_model("");
    cr_assert_eq(engine_model_embedding_info(model, &info), ENGINE_OK);
    cr_assert_eq(info.n_labels, 0);
    open_queue(&context, &queue);
    encode("tea", "bear");
    cr_assert_eq(submit(queue, ENGINE_POOLING_RANK, NULL), ENGINE_ERROR_UNSUPPORTED);
    cr_assert(strstr(engine_error_message(), "classification head"), "%s", engine_error_message());
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    close_model();
}

Test(rerank, heads_of_impossible_shapes_are_refused)
{
    static const char *const wrong[] = {
        "tensor cls.output.weight f32 31 1\n",
        "tensor cls.weight f32 32 24\ntensor cls.output.weight f32 32 1\n",
        "tensor cls.output.weight f32 32 2\ntensor cls.output.bias f32 3\n",
        "tensor cls.output.weight f32 32 2\nkey engine.classifier.pooling u32 9\n",
        "tensor cls.output.weight f32 32 2\nkey engine.classifier.activation str softplus\n",
        "tensor cls.output.weight f32 32 2\ntensor cls.norm.weight f32 32\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct engine_embedding_info info = {.struct_size = sizeof info};
        open_model(wrong[i]);
        cr_assert_neq(engine_model_embedding_info(model, &info), ENGINE_OK, "%zu", i);
        cr_assert_eq(strchr(engine_error_message(), '\n'), NULL);
        close_model();
    }
}

/* ---- The commands -------------------------------------------------------------------------------------- */

static void expect_lines(struct program_result result, const char *const *expected, size_t count)
{
    cr_assert_eq(result.status, 0, "%s", result.err);
    const char *at = result.out;
    for (size_t i = 0; i < count; i++) {
        cr_assert(strstr(at, expected[i]), "line %zu: %s", i, result.out);
        at = strchr(at, '\n') + 1;
    }
    cr_assert_eq(*at, '\0', "%s", result.out);
    program_free(&result);
}

static double score_of(const char *document)
{
    struct program_result result =
        PROGRAM("rerank", "-m", model_path, "--backend", "cpu", "-q", "what is tea", document, "--json");
    cr_assert_eq(result.status, 0, "%s", result.err);
    json_t *json = json_loads(result.out, 0, NULL);
    double score = json_real_value(json_object_get(json, "relevance_score"));
    json_decref(json);
    program_free(&result);
    return score;
}

#define RERANK(...) PROGRAM("rerank", "-m", model_path, "--backend", "cpu", "-q", "what is tea", __VA_ARGS__)

Test(rerank, documents_come_the_best_first)
{
    static const char *const all[] = {"tea", "bear bear", "what tea is"};
    double scores[3];
    int order[] = {0, 1, 2};
    char lines[3][64];
    write_model(RERANKER);
    for (int i = 0; i < 3; i++) scores[i] = score_of(all[i]);
    cr_assert(scores[0] != scores[1] && scores[1] != scores[2] && scores[0] != scores[2]);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++)
            if (scores[order[k]] < scores[order[k + 1]]) {
                int other = order[k];
                order[k] = order[k + 1];
                order[k + 1] = other;
            }
    for (int i = 0; i < 3; i++)
        snprintf(lines[i], sizeof lines[i], "%.4f", trunc(scores[order[i]] * 1e4) / 1e4);
    const char *const sorted[] = {all[order[0]], all[order[1]], all[order[2]]};
    expect_lines(RERANK(all[0], all[1], all[2]), sorted, 3);
    expect_lines(RERANK(all[0], all[1], all[2], "--top-n", "1"), sorted, 1);
    const char *const numbers[] = {lines[0], lines[1], lines[2]};
    expect_lines(RERANK(all[0], all[1], all[2], "-np", "1"), numbers, 3);
    expect_lines(RERANK(all[0], all[1], all[2], "--in-order"), all, 3);
    char *file = strdup(files_path(folder, "documents.jsonl"));
    files_write_text(file, "{\"text\": \"tea\", \"id\": \"first\"}\n\n{\"text\": \"bear bear\"}\n");
    static const char *const with_id[] = {"\"id\":\"first\"", "bear bear"};
    expect_lines(RERANK("-f", file, "--in-order", "--json"), with_id, 2);
    free(file);
}

Test(rerank, labels_have_probabilities)
{
    static const char *const named[] = {"\"label\":\"bad\"", "\"label\":\"bad\""};
    write_model(SEVERAL "key classifier.output_labels str[] good bad\n");
    struct program_result raw = PROGRAM("classify", "-m", model_path, "--backend", "cpu", "tea", "--json",
                                        "--raw"),
                          cooked = PROGRAM("classify", "-m", model_path, "--backend", "cpu", "tea", "--json");
    cr_assert(strstr(raw.out, named[0]), "%s%s", raw.out, raw.err);
    json_t *plain = json_loads(raw.out, 0, NULL), *json = json_loads(cooked.out, 0, NULL);
    double scores[2][2];
    for (size_t i = 0; i < 2; i++) {
        const json_t *from[] = {plain, json};
        for (size_t k = 0; k < 2; k++)
            scores[k][i] = json_real_value(
                json_object_get(json_array_get(json_object_get(from[k], "labels"), i), "score"));
    }
    cr_assert_geq(scores[0][0], scores[0][1]);
    cr_assert_float_eq(scores[1][0], 1 / (1 + exp(scores[0][1] - scores[0][0])), 1e-6);
    cr_assert_float_eq(scores[1][0] + scores[1][1], 1, 1e-6);
    json_decref(plain), json_decref(json);
    program_free(&raw), program_free(&cooked);
}

/* They come from a file of others: nothing in them obeys the terminal or begins a line. */
Test(rerank, labels_are_shown_on_one_line)
{
    write_model(SEVERAL "key classifier.output_labels str[] go\033[2Jod b\302\233ad\n");
    struct program_result result = PROGRAM("classify", "-m", model_path, "--backend", "cpu", "tea");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_expect(strstr(result.out, "go\\x1B[2Jod ") && strstr(result.out, "b\\xC2\\x9Bad "), "%s", result.out);
    program_free(&result);
}

Test(rerank, tokens_are_a_text)
{
    int32_t ids[16];
    size_t n = 0;
    write_model(SEVERAL "key classifier.output_labels str[] good bad\n");
    char *file = strdup(files_path(folder, "ids.npy"));
    struct program_result list = PROGRAM("tokenize", "-m", model_path, "--ids", "--bos", "tea bear"),
                          text =
                              PROGRAM("classify", "-m", model_path, "--backend", "cpu", "tea bear", "--json");
    char *at = list.out, *end;
    for (long id; n < 16 && (id = strtol(at, &end, 10), end != at); at = end) ids[n++] = (int32_t)id;
    cr_assert_gt(n, 1, "%s%s", list.out, list.err);
    files_write_ids(file, ids, n);
    struct program_result tokens =
        PROGRAM("classify", "-m", model_path, "--backend", "cpu", "--tokens-file", file, "--json");
    cr_assert_eq(text.status, 0, "%s", text.err);
    cr_assert_eq(tokens.status, 0, "%s", tokens.err);
    cr_assert_str_eq(tokens.out, text.out);
    program_free(&list), program_free(&text), program_free(&tokens);
    free(file);
}

Test(rerank, tokens_are_a_pair)
{
    static const int32_t ids[] = {2, 6, 7, 4, 3, 5, 3}; /* as above: what is tea, bear */
    write_model(RERANKER);
    char *file = strdup(files_path(folder, "ids.npy"));
    files_write_ids(file, ids, 7);
    struct program_result result =
        PROGRAM("rerank", "-m", model_path, "--backend", "cpu", "--tokens-file", file, "--json");
    cr_assert_eq(result.status, 0, "%s", result.err);
    json_t *json = json_loads(result.out, 0, NULL);
    cr_assert_float_eq(json_real_value(json_object_get(json, "relevance_score")), score_of("bear"), 1e-9,
                       "%s", result.out);
    json_decref(json);
    program_free(&result);
    program_fails(RERANK("--tokens-file", file), 0, "no -q");
    free(file);
}

/* As Qwen3's reranker: the relevance is the share of "yes". */
Test(rerank, yes_and_no)
{
    write_model(SEVERAL "key classifier.output_labels str[] yes no\n");
    double score = score_of("bear");
    cr_assert(score > 0 && score < 1, "%g", score);
}

Test(rerank, what_makes_no_sense_is_refused)
{
    write_model("");
    program_fails(RERANK("tea"), 0, "no classification head");
    write_model(SEVERAL);
    program_fails(RERANK("tea"), 0, "2 labels");
    program_fails(PROGRAM("rerank", "-m", model_path, "tea"), 0, "-q");
    write_model(RERANKER);
    char longer[600] = "";
    for (int i = 0; i < 80; i++) strcat(longer, "bear ");
    program_fails(RERANK(longer), 0, "tokens");
}
