/* test-no-vocabulary.c: commands on a model whose vocabulary cannot be read: with tokens given by ids they
 * show ids and say why; texts are refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "gguf-writer.h"
#include "program-json.h"
#include "program.h"

static char *folder, *model, *ids, *lines;

/* A Llama with a tokenizer that nobody knows. */
static void begin(void)
{
    static const char known[] = "tokenizer.ggml.model";
    size_t size;
    folder = files_folder();
    model = strdup(files_path(folder, "model.gguf"));
    ids = strdup(files_path(folder, "ids.npy"));
    lines = strdup(files_path(folder, "lines"));
    cr_assert(write_tiny_llama(model, &(struct tiny_llama){.seed = 3, .type = ENGINE_TYPE_F32}));
    char *file = files_read(model, &size), *key = memmem(file, size, known, strlen(known));
    cr_assert(key);
    memcpy(key + strlen(known) + 12, "other", 5); /* after its type and length, instead of "llama" */
    files_write(model, file, size);
    free(file);
    files_write_ids(ids, (const int32_t[]){5, 300, 7}, 3);
}

static void end(void)
{
    files_remove(folder);
    free(folder);
    free(model);
    free(ids);
    free(lines);
}

TestSuite(no_vocabulary, .init = begin, .fini = end);

#define WITH_IDS(command, ...) PROGRAM(command, "-m", model, "--tokens-file", ids, __VA_ARGS__)

static void expect_warning(const struct program_result *result)
{
    cr_expect_eq(result->status, 0, "%s", result->err);
    cr_expect(strstr(result->err, "warning: tokens are shown as ids: "), "%s", result->err);
    cr_expect(strstr(result->err, "no plugin for its tokenizer 'other'"), "%s", result->err);
}

Test(no_vocabulary, texts_are_written_as_ids)
{
    struct program_result result = WITH_IDS("run", "-n", "2", "--temp", "0");
    int new[2], n = 0;
    expect_warning(&result);
    cr_expect_eq(sscanf(result.out, "5 300 7 %d %d%n", &new[0], &new[1], &n), 2, "%s", result.out);
    cr_expect_eq((size_t)n, strcspn(result.out, "\n"), "%s", result.out);
    struct program_result rest = WITH_IDS("run", "-n", "2", "--temp", "0", "--no-echo");
    char expected[64];
    snprintf(expected, sizeof expected, "%d %d", new[0], new[1]);
    cr_expect_eq(strncmp(rest.out, expected, strlen(expected)), 0, "%s", rest.out);
    program_free(&result);
    program_free(&rest);
}

/* The metadata name a token that ends texts. */
Test(no_vocabulary, texts_end)
{
    static const char key[] = "tokenizer.ggml.eos_token_id";
    struct program_result result = WITH_IDS("run", "-n", "3", "--temp", "0", "--no-echo");
    unsigned new[3];
    size_t size;
    cr_assert_eq(sscanf(result.out, "%u %u %u", &new[0], &new[1], &new[2]), 3, "%s", result.out);
    program_free(&result);
    char *file = files_read(model, &size), *at = memmem(file, size, key, strlen(key));
    cr_assert(at);
    memcpy(at + strlen(key) + 4, &new[0], 4); /* after its type */
    files_write(model, file, size);
    free(file);
    result = WITH_IDS("run", "-n", "3", "--temp", "0", "--no-echo", "--json");
    cr_expect(strstr(result.out, "\"end\": \"end\""), "%s", result.out);
    program_free(&result);
    result = WITH_IDS("run", "-n", "3", "--temp", "0", "--no-echo", "--ignore-eos");
    cr_expect_eq(sscanf(result.out, "%u %u %u", &new[0], &new[1], &new[2]), 3, "%s", result.out);
    program_free(&result);
}

Test(no_vocabulary, beams)
{
    struct program_result result = WITH_IDS("run", "-n", "2", "--beams", "2", "--no-echo");
    int best[2], n;
    expect_warning(&result);
    cr_assert_eq(sscanf(result.out, "%d %d%n", &best[0], &best[1], &n), 2, "%s", result.out);
    char row[64];
    snprintf(row, sizeof row, "[%d, %d]", best[0], best[1]);
    cr_expect(strstr(result.err, row), "%s", result.err);
    program_free(&result);
}

Test(no_vocabulary, attention_and_the_lens)
{
    struct program_result result = WITH_IDS("attention", "--json");
    expect_warning(&result);
    json_t *json = json_loads(result.out, 0, NULL);
    const json_t *token = json_array_get(json_object_get(json, "tokens"), 1);
    cr_expect_eq(json_integer_value(json_object_get(token, "id")), 300);
    cr_expect(json_is_null(json_object_get(token, "text")));
    json_decref(json);
    program_free(&result);
    result = WITH_IDS("attention", "--token", "0");
    expect_warning(&result);
    cr_expect(strstr(result.out, "token 0 5,"), "%s", result.out);
    program_free(&result);
    result = WITH_IDS("attention", "-o", files_path(folder, "a.html"));
    expect_warning(&result);
    program_free(&result);
    result = WITH_IDS("logits", "--lens", "--top", "1");
    expect_warning(&result);
    int id;
    cr_expect_eq(sscanf(result.out, "LAYER LIKELIEST P 0 %d", &id), 1, "%s", result.out);
    program_free(&result);
    result = WITH_IDS("attention", "--token-text", "a");
    cr_expect_eq(result.status, 1, "%s", result.err);
    program_free(&result);
}

Test(no_vocabulary, lines_of_a_batch)
{
    files_write_text(lines, "{\"tokens\": [5, 300], \"beams\": 2, \"max_tokens\": 2}\n"
                            "{\"tokens\": [5, 300], \"max_tokens\": 2}\n{\"prompt\": \"a\"}\n");
    struct program_result result = PROGRAM("batch", "-m", model, "--ids", lines);
    cr_expect_eq(result.status, 1, "%s", result.err);
    char *at = result.out;
    json_t *line = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
    const json_t *beam = json_array_get(json_object_get(line, "beams"), 0);
    cr_expect_eq(json_array_size(json_object_get(beam, "tokens")), 2, "%s", at);
    json_decref(line);
    at = strchr(at, '\n') + 1;
    line = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
    cr_expect_eq(json_array_size(json_object_get(line, "tokens")), 2, "%s", at);
    cr_expect_null(json_object_get(line, "text"));
    json_decref(line);
    cr_expect(strstr(at, "\"error\""), "%s", at);
    program_free(&result);
}

Test(no_vocabulary, a_text_is_refused)
{
    program_fails(PROGRAM("run", "-m", model, "-p", "a"), 0, "no plugin for its tokenizer 'other'");
}
