/* test-embed.c: `engine embed` from outside. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "model-recipe.h"
#include "program-json.h"

#define MODEL TEST_SOURCE_DIR "/../models/demo/demo.gguf"
#define ONE   "Once upon a time"
#define TWO   "Question: What is 27 plus 38?"

static char *folder, *out;

static void begin(void)
{
    folder = files_folder();
    out = strdup(files_path(folder, "out.npy"));
}

static void end(void)
{
    files_remove(folder);
    free(folder), free(out);
}

TestSuite(embed, .init = begin, .fini = end, .timeout = 1200);

#define EMBED(...) PROGRAM("embed", "-m", MODEL, "--backend", "cpu", __VA_ARGS__)

static json_t *line_of(struct program_result result, size_t number)
{
    cr_assert_eq(result.status, 0, "%s", result.err);
    char *line = result.out;
    for (size_t i = 0; i < number; i++) line = strchr(line, '\n') + 1;
    json_t *json = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
    cr_assert(json, "%s", result.out);
    program_free(&result);
    return json;
}

static double number_at(const json_t *row, size_t i)
{
    cr_assert(json_is_real(json_array_get(row, i)));
    return json_real_value(json_array_get(row, i));
}

static void expect_rows_equal(const json_t *a, const json_t *b, double most)
{
    cr_assert_eq(json_array_size(a), json_array_size(b));
    for (size_t i = 0; i < json_array_size(a); i++)
        cr_assert_float_eq(number_at(a, i), number_at(b, i), most, "%zu: %g, not %g", i, number_at(a, i),
                           number_at(b, i));
}

static double norm_of(const json_t *row, double p)
{
    double sum = 0;
    for (size_t i = 0; i < json_array_size(row); i++) {
        double value = fabs(number_at(row, i));
        sum = p == 0 ? fmax(sum, value) : sum + pow(value, p);
    }
    return p == 0 ? sum : pow(sum, 1 / p);
}

Test(embed, each_pooling_is_made_of_the_states)
{
    json_t *none = line_of(EMBED(TWO, "--json", "--pooling", "none"), 0);
    const json_t *rows = json_object_get(none, "embedding");
    size_t n = json_array_size(rows), n_embd = json_array_size(json_array_get(rows, 0));
    cr_assert_eq(n, (size_t)json_integer_value(json_object_get(none, "tokens")));
    json_t *mean = json_array();
    for (size_t i = 0; i < n_embd; i++) {
        double sum = 0;
        for (size_t t = 0; t < n; t++) sum += number_at(json_array_get(rows, t), i);
        json_array_append_new(mean, json_real(sum / (double)n));
    }
    const struct {
        const char *name;
        const json_t *row;
    } kinds[] = {{"mean", mean}, {"cls", json_array_get(rows, 0)}, {"last", json_array_get(rows, n - 1)}};
    for (int k = 0; k < 3; k++) {
        json_t *json = line_of(EMBED(TWO, "--json", "--pooling", kinds[k].name, "--embd-normalize", "-1"), 0);
        expect_rows_equal(json_object_get(json, "embedding"), kinds[k].row, 1e-5);
        json_decref(json);
    }
    json_decref(mean);
    json_decref(none);
}

/* Keys and values in F16 would move a decoder's embedding by 1e-3. */
Test(embed, a_decoder_has_an_exact_cache)
{
    struct program_result chosen = EMBED(TWO, "--json"), exact = EMBED(TWO, "--json", "--cache-type", "f32"),
                          rounded = EMBED(TWO, "--json", "--cache-type", "f16");
    cr_assert_eq(chosen.status, 0, "%s", chosen.err);
    cr_expect_str_eq(chosen.out, exact.out);
    cr_expect_str_neq(chosen.out, rounded.out);
    program_free(&chosen), program_free(&exact), program_free(&rounded);
}

Test(embed, norms_and_dimensions)
{
    static const char *const norms[] = {"0", "1", "2", "3.5"};
    for (int i = 0; i < 4; i++) {
        json_t *json = line_of(EMBED(ONE, "--json", "--dimensions", "10", "--embd-normalize", norms[i]), 0);
        const json_t *row = json_object_get(json, "embedding");
        cr_assert_eq(json_array_size(row), 10);
        cr_assert_float_eq(norm_of(row, atof(norms[i])), 1, 1e-6);
        json_decref(json);
    }
    json_t *whole = line_of(EMBED(ONE, "--json"), 0);
    cr_assert_float_eq(norm_of(json_object_get(whole, "embedding"), 2), 1, 1e-6);
    json_decref(whole);
}

/* Words, lines, JSON lines and a NumPy file give the same numbers in any batch. */
Test(embed, all_ways_in_and_out_agree)
{
    const char *lines = strdup(files_path(folder, "lines.txt"));
    const char *json_lines = strdup(files_path(folder, "lines.jsonl"));
    files_write_text(lines, ONE "\r\n" TWO "\n" ONE);
    files_write_text(json_lines, "{\"text\": \"" ONE "\", \"id\": [7]}\n\n{\"text\": \"" TWO
                                 "\"}\n{\"text\": \"" ONE "\"}\n");
    struct program_result words = EMBED(ONE, TWO, ONE), alone = EMBED(ONE, TWO, ONE, "-np", "1");
    struct program_result from_lines = EMBED("-f", lines), from_json = EMBED("-f", json_lines);
    cr_assert_eq(program_count_lines(words.out, "."), 3);
    cr_assert_str_eq(words.out, alone.out);
    cr_assert_str_eq(words.out, from_lines.out, "%s", from_lines.err);
    cr_assert_str_eq(words.out, from_json.out, "%s", from_json.err);
    struct program_result file = EMBED(ONE, TWO, ONE, "-o", out);
    cr_assert_eq(file.status, 0, "%s", file.err);
    size_t size;
    char *npy = files_read(out, &size), *next = words.out;
    cr_assert(strstr(npy + 10, "(3, "));
    float value;
    for (size_t at = 10u + (unsigned char)npy[8] + 256u * (unsigned char)npy[9]; at < size;
         at += sizeof value) {
        memcpy(&value, npy + at, sizeof value);
        cr_assert_eq(value, strtof(next, &next));
    }
    json_t *json = line_of(EMBED("-f", json_lines, "--json"), 0);
    cr_assert_eq(json_integer_value(json_array_get(json_object_get(json, "id"), 0)), 7);
    json_decref(json);
    free(npy);
    program_free(&words), program_free(&alone), program_free(&file);
    program_free(&from_lines), program_free(&from_json);
}

Test(embed, mistakes_are_told_in_one_line)
{
    const char *bad = strdup(files_path(folder, "bad.jsonl")),
               *empty = strdup(files_path(folder, "empty.txt"));
    files_write_text(bad, "{\"text\": \"a\"}\n{\"txet\": 1}\n");
    files_write_text(empty, "");
    program_fails(EMBED("--json"), 0, "there are no texts");
    program_fails(EMBED("-f", empty), 0, "there are no texts");
    program_fails(EMBED(ONE, "-f", empty), 0, "in one way");
    program_fails(EMBED("-f", bad), 0, "line 2");
    program_fails(EMBED(ONE, "--dimensions", "100000"), 0, "--dimensions");
    program_fails(EMBED(ONE, "--pooling", "max"), 0, "none|mean|cls|last|rank");
    program_fails(EMBED(ONE, "--pooling", "rank"), 0, "no classification head");
    program_fails(EMBED(ONE, "-o", out, "--json"), 0, "--json");
    program_fails(EMBED(ONE, "-c", "2"), 0, "at most 2");
}

/* The encoder of the recipe has no tokenizer. */
Test(embed, an_encoder_writes_no_text)
{
    size_t size;
    char *recipe = files_read(TEST_SOURCE_DIR "/fuzz/models/bert.txt", &size);
    const char *path = strdup(files_path(folder, "bert.gguf"));
    uint8_t *gguf = model_recipe_gguf(recipe, size, &size);
    files_write(path, gguf, size);
    program_fails(PROGRAM("logits", "-m", path, "--tokens", "1 2", "-o", out), 0, "encoder");
    const char *ids = strdup(files_path(folder, "ids.npy"));
    files_write_ids(ids, (const int32_t[]){1, 2, 3}, 3);
    program_fails(PROGRAM("score", "-m", path, "--tokens-file", ids, "--answer-tokens-file", ids), 0,
                  "encoder");
    program_fails(PROGRAM("perplexity", "-m", path, "--tokens-file", ids), 0, "the model is an encoder");
    struct program_result states = PROGRAM("embed", "-m", path, "--tokens-file", ids, "--pooling", "none");
    cr_assert_eq(program_count_lines(states.out, "."), 3, "%s", states.err);
    program_free(&states);
    free(recipe);
    free(gguf);
}

/* ---- Prompts, and texts that are too long ---- */

#define VOCABULARY                                                                                           \
    "key tokenizer.ggml.model str bert\n"                                                                    \
    "key tokenizer.ggml.tokens str[] [PAD] [UNK] [CLS] [SEP] \xe2\x96\x81tea \xe2\x96\x81"                   \
    "bear \xe2\x96\x81what \xe2\x96\x81is\n"                                                                 \
    "key tokenizer.ggml.token_type i32[] 3 2 3 3 1 1 1 1\n"                                                  \
    "key tokenizer.ggml.cls_token_id u32 2\n"                                                                \
    "key tokenizer.ggml.bos_token_id u32 2\n"                                                                \
    "key tokenizer.ggml.seperator_token_id u32 3\n"                                                          \
    "key tokenizer.ggml.unknown_token_id u32 1\n"

static const char *write_model(const char *name, const char *more)
{
    char recipe_path[512], file[64];
    size_t size, n;
    snprintf(recipe_path, sizeof recipe_path, TEST_SOURCE_DIR "/fuzz/models/%s.txt", name);
    snprintf(file, sizeof file, "%s.gguf", name);
    char *recipe = files_read(recipe_path, &n);
    char *text = malloc(n + strlen(VOCABULARY) + strlen(more) + 1);
    memcpy(text, recipe, n);
    strcpy(text + n, VOCABULARY);
    strcat(text, more);
    const char *path = strdup(files_path(folder, file));
    uint8_t *gguf = model_recipe_gguf(text, strlen(text), &size);
    files_write(path, gguf, size);
    free(recipe), free(text), free(gguf);
    return path;
}

static const char *write_encoder(const char *more)
{
    return write_model("bert", more);
}

static void expect_alike(struct program_result a, struct program_result b)
{
    cr_assert_eq(a.status, 0, "%s", a.err);
    cr_assert_eq(b.status, 0, "%s", b.err);
    cr_expect_str_eq(a.out, b.out);
    program_free(&a), program_free(&b);
}

#define ENCODER(...) PROGRAM("embed", "-m", path, "--backend", "cpu", __VA_ARGS__)

Test(embed, a_prompt_stands_before_each_text)
{
    const char *path = write_encoder("key engine.prompts.names str[] query passage\n"
                                     "key engine.prompts.texts str[] bear. what.\n"
                                     "key engine.prompts.default str passage\n");
    expect_alike(ENCODER("tea", "is", "--prompt-name", "query"), ENCODER("bear.tea", "bear.is", "-p", ""));
    expect_alike(ENCODER("tea"), ENCODER("what.tea", "--prompt", ""));
    expect_alike(ENCODER("tea", "-p", "is "), ENCODER("is tea", "-p", ""));
    program_fails(ENCODER("tea", "--prompt-name", "answer"), 0, "no prompt 'answer'; it has query, passage");
    program_fails(ENCODER("tea", "--prompt-name", "query", "-p", "x"), 0, "not both");
    path = write_encoder("");
    expect_alike(ENCODER("tea"), ENCODER("tea", "-p", ""));
    program_fails(ENCODER("tea", "--prompt-name", "query"), 0, "no prompt 'query'");
    path = write_encoder("key engine.prompts.names str[] query\nkey engine.prompts.texts str[] bear.\n"
                         "key engine.prompts.pooled bool 0\n");
    program_fails(ENCODER("tea", "--prompt-name", "query"), 0, "include_prompt");
}

/* The first thing that they say, whatever else they need. */
Test(embed, commands_that_write_text_refuse_encoders)
{
    const char *path = write_encoder("");
    program_fails(PROGRAM("run", "-m", path, "-p", "tea"), 0, "the model is an encoder");
    program_fails(PROGRAM("chat", "-m", path), 0, "the model is an encoder");
    program_fails(PROGRAM("bench", "-m", path), 0, "the model is an encoder");
    program_fails(PROGRAM("score", "-m", path, "-p", "tea", "--answer", "is"), 0, "the model is an encoder");
    program_fails(PROGRAM("perplexity", "-m", path, "-f", MODEL), 0, "the model is an encoder");
}

/* Without a prompt, other models begin a text of their own. */
Test(embed, an_encoder_with_a_decoder_needs_a_text)
{
    const char *path = write_model("t5", "");
    program_fails(PROGRAM("chat", "-m", path), 0, "`engine chat` is for models with one text");
    program_fails(PROGRAM("embed", "-m", path, "tea"), 0, "`engine embed` is for models with one text");
    program_fails(PROGRAM("logits", "-m", path, "--tokens", "3 4", "--top", "1"), 0, "--decoder-tokens-file");
    program_fails(PROGRAM("run", "-m", path), 0, "reads a text: name one with -p, -f or --tokens-file");
}

Test(embed, texts_that_are_too_long_are_refused_or_cut)
{
    const char *path = write_encoder("key engine.text_length u32 5\n");
    program_fails(ENCODER("tea", "bear tea what is"), 0,
                  "text 2 has 6 tokens, but the model reads at most 5");
    expect_alike(ENCODER("bear tea what is tea", "is", "--truncate"), ENCODER("bear tea what", "is"));
    program_fails(ENCODER("bear tea what is"), 0, "or cut it with --truncate");
    expect_alike(ENCODER("bear tea what is", "-c", "6"), ENCODER("bear tea what is", "-c", "32"));
}

Test(embed, messages_name_the_line_of_a_file)
{
    const char *path =
        write_encoder("key tokenizer.ggml.add_bos_token bool 0\n"
                      "key tokenizer.ggml.add_sep_token bool 0\nkey engine.text_length u32 2\n");
    char *texts = strdup(files_path(folder, "texts.jsonl"));
    files_write_text(texts, "{\"text\": \"tea\"}\n\n{\"text\": \"\"}\n");
    program_fails(ENCODER("-f", texts), 0, "line 3 has no tokens");
    files_write_text(texts, "{\"text\": \"tea\"}\n\n{\"text\": \"bear tea what\"}\n");
    program_fails(ENCODER("-f", texts), 0, "line 3 has 3 tokens");
    free(texts);
}
