/* test-score.c: `engine score` from outside. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "gguf-writer.h"
#include "program-json.h"

static char *folder, *model, *lines;

static void begin(void)
{
    folder = files_folder();
    model = strdup(files_path(folder, "model.gguf"));
    lines = strdup(files_path(folder, "lines.jsonl"));
    cr_assert(write_tiny_llama(model, &(struct tiny_llama){.seed = 3, .type = ENGINE_TYPE_F32}));
}

static void end(void)
{
    files_remove(folder);
    free(folder), free(model), free(lines);
}

TestSuite(score, .init = begin, .fini = end, .timeout = 1200);

#define SCORE(...) PROGRAM("score", "-m", model, "--backend", "cpu", __VA_ARGS__)

static const json_t *answer_of(const json_t *json, size_t number)
{
    const json_t *answer = json_array_get(json_object_get(json, "answers"), number);
    cr_assert(answer);
    return answer;
}

static double number_of(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    cr_assert(json_is_real(value), "%s is not a number", key);
    return json_real_value(value);
}

/* The logarithm of a token's probability, by the definition, from a row of `engine logits --json`. */
static double logprob_in(const json_t *row, json_int_t token)
{
    double highest = -INFINITY, sum = 0;
    for (size_t i = 0; i < json_array_size(row); i++)
        highest = fmax(highest, json_real_value(json_array_get(row, i)));
    for (size_t i = 0; i < json_array_size(row); i++)
        sum += exp(json_real_value(json_array_get(row, i)) - highest);
    return json_real_value(json_array_get(row, (size_t)token)) - highest - log(sum);
}

/* The scores of the tokens 8, 9, 10 and of 11 after 5, 6, 7 are what their logits say. */
Test(score, scores_are_those_of_the_logits)
{
    json_t *all = program_json(PROGRAM("logits", "-m", model, "--tokens", "5 6 7 8 9 10", "--json"));
    const json_t *rows = json_object_get(all, "logits");
    double sum = 0, other = logprob_in(json_array_get(rows, 2), 11);
    for (size_t i = 0; i < 3; i++) sum += logprob_in(json_array_get(rows, 2 + i), (json_int_t)(8 + i));
    files_write_text(lines, "{\"tokens\": [5, 6, 7], \"answers\": [[8, 9, 10], [11]], \"id\": \"x\"}\n");
    json_t *json = program_json(SCORE("-f", lines, "--json"));
    const json_t *first = answer_of(json, 0), *second = answer_of(json, 1);
    cr_assert_str_eq(json_string_value(json_object_get(json, "id")), "x");
    cr_assert_eq(json_integer_value(json_object_get(json, "prompt_tokens")), 3);
    cr_assert_float_eq(number_of(first, "logprob"), sum, 1e-5);
    cr_assert_float_eq(number_of(first, "mean"), sum / 3, 1e-5);
    cr_assert_float_eq(number_of(second, "logprob"), other, 1e-5);
    cr_assert_float_eq(number_of(first, "probability"), 1 / (1 + exp(other - sum)), 1e-5);
    cr_assert_float_eq(number_of(first, "probability") + number_of(second, "probability"), 1, 1e-12);
    double size = (double)json_string_length(json_object_get(first, "text"));
    cr_assert_float_eq(number_of(first, "per_byte"), sum / size, 1e-5);
    const json_t *token = json_array_get(json_object_get(first, "tokens"), 1);
    cr_assert_eq(json_integer_value(json_object_get(token, "id")), 9);
    cr_assert(json_is_string(json_object_get(token, "text")));
    cr_assert_float_eq(number_of(token, "logprob"), logprob_in(json_array_get(rows, 3), 9), 1e-5);
    json_decref(json);
    json_decref(all);
}

/* A text's answers have the tokens that `engine tokenize` gives for them alone. */
Test(score, answers_are_tokenised_by_themselves)
{
    json_t *tokens = program_json(PROGRAM("tokenize", "-m", model, "--json", "cab"));
    const json_t *ids = json_object_get(tokens, "ids");
    json_t *json = program_json(SCORE("-p", "ab", "--answer", "cab", "--json", "--logprobs", "3"));
    const json_t *scored = json_object_get(answer_of(json, 0), "tokens");
    cr_assert_eq(json_array_size(scored), json_array_size(ids));
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *token = json_array_get(scored, i), *top = json_object_get(token, "top");
        cr_assert(json_equal(json_object_get(token, "id"), json_array_get(ids, i)));
        cr_assert_eq(json_array_size(top), 3);
        cr_assert_geq(number_of(json_array_get(top, 0), "logprob"), number_of(token, "logprob"));
    }
    cr_assert_str_eq(json_string_value(json_object_get(answer_of(json, 0), "text")), "cab");
    cr_assert_eq(number_of(answer_of(json, 0), "probability"), 1.0);
    json_decref(json);
    json_decref(tokens);
}

/* Lines come in their order, however many run at once, with the same numbers. */
Test(score, lines_in_order)
{
    FILE *file = fopen(lines, "w");
    fputs("\xEF\xBB\xBF", file);
    for (int i = 0; i < 30; i++) {
        fputs("{\"tokens\": [4", file);
        for (int t = 0; t < 40 + i % 3; t++) fprintf(file, ", %d", 10 + t % 7);
        fprintf(file, "], \"id\": %d, \"answers\": [[%d, 6], [7, %d, 8], [9]]}\n\n", i, 5 + i, 300 - i);
    }
    fclose(file);
    struct program_result one = SCORE("-f", lines, "--json", "--parallel", "1"),
                          many = SCORE("-f", lines, "--json", "--parallel", "7", "--cache-size", "96", "-c",
                                       "64");
    cr_assert_eq(one.status, 0, "%s", one.err);
    cr_assert_eq(many.status, 0, "%s", many.err);
    cr_assert_str_eq(one.out, many.out);
    const char *at = one.out;
    for (int i = 0; i < 30; i++) {
        char begin_of_line[32];
        snprintf(begin_of_line, sizeof begin_of_line, "{\"id\":%d,", i);
        cr_assert(strncmp(at, begin_of_line, strlen(begin_of_line)) == 0, "line %d: %.40s", i, at);
        at = strchr(at, '\n') + 1;
    }
    cr_assert_str_empty(at);
    program_free(&one);
    program_free(&many);
}

Test(score, tables)
{
    struct program_result result = SCORE("-p", "ab", "--answer", "c", "--answer", "d");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.out, "PROBABILITY"), 1);
    cr_assert_eq(program_count_lines(result.out, " %"), 2);
    cr_assert_eq(program_count_lines(result.out, "\"c\""), 2, "%s", result.out);
    program_free(&result);
    files_write_text(lines, "{\"prompt\": \"ab\"}\n{\"prompt\": \"b\"}\n");
    result = SCORE("-f", lines, "--answer", "c", "--answer", "d");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.out, "PROBABILITY"), 2);
    cr_assert(strstr(result.out, "\n2: \"b\"\n"), "%s", result.out);
    program_free(&result);
}

static void expect(struct program_result result, const char *word)
{
    program_fails(result, 0, word);
}

static void expect_line(const char *line, const char *word)
{
    files_write_text(lines, line);
    struct program_result result = SCORE("-f", lines);
    cr_assert(strstr(result.err, "line 2"), "%s", result.err);
    program_fails(result, 0, word);
}

/* An .npy file of the tokens 5, 6, 7. */
static const char ids[] = "\x93NUMPY\x01\0F\0{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }      "
                          "            \n\5\0\0\0\6\0\0\0\7\0\0";

Test(score, mistakes)
{
    const char *none = files_path(folder, "none.npy"), *three = files_path(folder, "three.npy"),
               *fits = files_path(folder, "fits.jsonl");
    files_write(three, ids, sizeof ids); /* the last byte is the NUL */
    files_write_text(fits, "{\"tokens\": [5], \"answers\": [[6]]}\n"
                           "{\"tokens\": [5, 6, 7], \"answers\": [[6], [7, 8]]}\n");
    expect(SCORE("--answer", "a"), "no prompt");
    expect(SCORE("-p", "a", "--answer", "a", "--logprobs", "3"), "--logprobs goes with --json");
    expect(SCORE("-p", "a"), "no answers");
    expect(SCORE("-p", "a", "--answer", ""), "answer 1 of 1 has no tokens");
    expect(SCORE("-p", "a", "--answer", "b", "--answer", ""), "answer 2 of 2 has no tokens");
    expect(SCORE("-p", "a", "-f", lines, "--answer", "b"), "use one of");
    expect(SCORE("--tokens-file", three, "--answer-tokens-file", three, "-c", "4"),
           "answer number 1 have 6 tokens (3 + 3), but the context has room for 4: enlarge it with -c");
    expect(SCORE("-f", fits, "-c", "4"),
           "fits.jsonl: line 2: the prompt and answer number 2 have 5 tokens (3 + 2)");
    expect(SCORE("-f", fits, "--answer-tokens-file", FILES_ABSENT "/none.npy"), FILES_ABSENT "/none.npy");
    expect(SCORE("-f", FILES_ABSENT "/lines.jsonl"), FILES_ABSENT "/lines.jsonl");
    expect(SCORE("--tokens-file", none, "--answer", "a"), "none.npy");
    expect(SCORE("-p", "a", "--answer-tokens-file", none), "none.npy");
    const char empty[] = "\x93NUMPY\x01\0F\0{'descr': '<i4', 'fortran_order': False, 'shape': (0,), }      "
                         "            \n";
    files_write(none, empty, sizeof empty - 1);
    expect(SCORE("--tokens-file", none, "--answer", "a"), "the prompt has no tokens");
    expect(SCORE("-p", "a", "--answer-tokens-file", none), "none.npy: there are no tokens");
    files_write_text(lines, "\n\n");
    expect(SCORE("-f", lines), "there are no prompts");
    const char *good = "{\"prompt\": \"a\", \"answers\": [\"b\"]}\n";
    const struct {
        const char *line, *word;
    } bad[] = {
        {"nonsense", "not JSON"},
        {"[1]", "not an object"},
        {"{\"prompt\": \"a\"}", "there are no answers"},
        {"{\"answers\": [\"a\"]}", "either"},
        {"{\"prompt\": \"a\", \"tokens\": [1], \"answers\": [\"a\"]}", "either"},
        {"{\"prompt\": 7, \"answers\": [\"a\"]}", "should be a text"},
        {"{\"prompt\": \"a\", \"answers\": []}", "\"answers\" is empty"},
        {"{\"prompt\": \"a\", \"answers\": \"b\"}", "should be an array"},
        {"{\"prompt\": \"a\", \"answers\": [7]}", "should be an array"},
        {"{\"prompt\": \"a\", \"answers\": [\"b\", \"\"]}", "answer 2 of 2 has no tokens"},
        {"{\"prompt\": \"a\", \"answers\": [[]]}", "has no tokens"},
        {"{\"prompt\": \"a\", \"answers\": [[-1]]}", "token ids"},
        {"{\"tokens\": [], \"answers\": [\"b\"]}", "the prompt has no tokens"},
        {"{\"tokens\": [\"x\"], \"answers\": [\"b\"]}", "token ids"},
        {"{\"prompt\": \"a\", \"answer\": [\"b\"]}", "\"answer\" is not known"},
        {"{\"prompt\": \"a\", \"prompt\": \"b\", \"answers\": [\"b\"]}", "duplicate object key"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s%s\n", good, bad[i].line);
        expect_line(text, bad[i].word);
    }
    files_write_text(lines, "{\"tokens\": [1], \"answers\": [[99999]]}\n");
    expect(SCORE("-f", lines), "99999");
}

Test(score, long_answers_are_shortened_in_tables)
{
    char answer[101] = "";
    for (size_t i = 0; i < 50; i++) memcpy(answer + 2 * i, "\u00e9", 3); /* 60 bytes are 30 of these */
    answer[0] = 'a', answer[1] = 'b';
    struct program_result result = SCORE("-p", "a", "--answer", answer);
    cr_assert_eq(result.status, 0, "%s", result.err);
    char expected[80];
    snprintf(expected, sizeof expected, "\"%.60s\" \u2026 ", answer);
    cr_expect(strstr(result.out, expected), "no %s in: %s", expected, result.out);
    program_free(&result);
}
