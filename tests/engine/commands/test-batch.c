/* test-batch.c: `engine batch` from outside: results in order, bad lines in their places, going on after a
 * kill. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter-writer.h"
#include "gguf-writer.h"
#include "program-model.h"
#include "program.h"

static char *in, *out;

static void begin(void)
{
    begin_model();
    in = strdup(files_path(folder, "in.jsonl"));
    out = strdup(files_path(folder, "out.jsonl"));
}

static void end(void)
{
    end_model();
    free(in), free(out);
}

TestSuite(batch, .init = begin, .fini = end, .timeout = 1200);

#define BATCH(...) PROGRAM("batch", "-m", model, "--backend", "cpu", "-n", "12", in, __VA_ARGS__)

static char *read_text(const char *path)
{
    size_t size;
    return files_read(path, &size);
}

/* Line number `number` of a text as JSON. */
static json_t *line_of(const char *text, int number)
{
    for (int i = 0; i < number; i++) text = strchr(text, '\n') + 1;
    json_error_t error;
    json_t *json = json_loadb(text, strcspn(text, "\n"), JSON_ALLOW_NUL, &error);
    cr_assert(json, "%s: %s", error.text, text);
    cr_assert_eq(json_integer_value(json_object_get(json, "index")), number);
    return json;
}

static void expect_text(const char *text, int line, const char *key, const char *expected)
{
    json_t *json = line_of(text, line);
    const char *value = json_string_value(json_object_get(json, key));
    cr_assert(value && strstr(value, expected), "line %d: %s, not %s", line, value ? value : "none",
              expected);
    json_decref(json);
}

Test(batch, bad_lines_have_their_places)
{
    files_write_text(in, "\xEF\xBB\xBF{\"prompt\": \"a b\", \"id\": \"first\", \"temperature\": 0}\n"
                         "\n"
                         "nonsense\n"
                         "{\"prompt\": 7}\n"
                         "{\"prompt\": \"a\", \"temprature\": 0, \"id\": 12}\n"
                         "{\"tokens\": [5, 99999]}\n"
                         "{\"prompt\": \"a\", \"tokens\": [1]}\n"
                         "{\"id\": 1234567890.55}\n"
                         "{\"prompt\": \"a\", \"top_p\": 7}\n"
                         "{\"prompt\": \"\xff\"}\n"
                         "[1]\n"
                         "{\"prompt\": \"a\", \"samplers\": [\"top_k\\u0000\"], \"id\": \"\\u0000\"}\n"
                         "{\"tokens\": [5, 6, 7], \"max_tokens\": 3, \"stop\": \"a\\u0000\"}");
    struct program_result result = BATCH("-o", out);
    cr_assert_eq(result.status, 1, "%s", result.err);
    cr_assert(strstr(result.err, "10 lines of 12 failed"), "%s", result.err);
    cr_assert_str_empty(result.out);
    char *text = read_text(out);
    cr_assert_eq(program_count_lines(text, "\"index\""), 12);
    expect_text(text, 0, "id", "first");
    expect_text(text, 1, "error", "not JSON");
    expect_text(text, 2, "error", "\"prompt\" should be a text");
    expect_text(text, 3, "error", "\"temprature\" is not known");
    expect_text(text, 4, "error", "token 1 of the prompt is 99999");
    expect_text(text, 5, "error", "both");
    expect_text(text, 6, "error", "neither");
    cr_assert(strstr(text, "\"id\": 1234567890.55,"), "%s", text);
    expect_text(text, 7, "error", "top_p is 7");
    expect_text(text, 8, "error", "not JSON");
    expect_text(text, 9, "error", "not a JSON object");
    expect_text(text, 10, "error", "\"samplers[0]\" has a NUL");
    expect_text(text, 11, "finish_reason", "length");
    free(text);
    program_free(&result);
}

Test(batch, sampling_of_a_line)
{
    files_write_text(
        in, "{\"prompt\": \"a\", \"logit_bias\": [[5, 100]], \"temperature\": 0, \"max_tokens\": 2, "
            "\"logprobs\": 2}\n"
            "{\"prompt\": \"a\", \"logit_bias\": {\"5\": 100, \"6\": false}, \"temperature\": 0, "
            "\"max_tokens\": 2}\n"
            "{\"prompt\": \"a\", \"samplers\": [\"top_k\", \"min-p\"], \"max_tokens\": 2}\n"
            "{\"prompt\": \"a\", \"samplers\": \"edskypmxt\", \"mirostat\": 2, \"max_tokens\": 2}\n"
            "{\"prompt\": \"a\", \"dry_multiplier\": 0.8, \"dry_sequence_breakers\": [\"b\"], "
            "\"max_tokens\": 2}\n"
            "{\"prompt\": \"a\", \"ban\": [\"a\", \"e\"], \"xtc_probability\": 1, \"max_tokens\": 2}\n"
            "{\"prompt\": \"a\", \"logit_bias\": [[5]]}\n"
            "{\"prompt\": \"a\", \"logit_bias\": {\"x\": 1}}\n"
            "{\"prompt\": \"a\", \"logit_bias\": [[99999, 1]]}\n"
            "{\"prompt\": \"a\", \"samplers\": [\"top_q\"]}\n"
            "{\"prompt\": \"a\", \"samplers\": \"q\"}\n"
            "{\"prompt\": \"a\", \"ban\": [\"\"]}\n"
            "{\"prompt\": \"a\", \"mirostat\": 3}\n");
    struct program_result result = BATCH("-o", out, "--ids");
    cr_assert_eq(result.status, 1, "%s", result.err);
    cr_assert(strstr(result.err, "7 lines of 13 failed"), "%s", result.err);
    char *text = read_text(out);
    json_t *line = line_of(text, 0);
    json_t *logprobs = json_object_get(line, "logprobs");
    cr_assert(json_array_size(logprobs) == 2);
    cr_assert_eq(json_integer_value(json_object_get(json_array_get(logprobs, 1), "id")), 5);
    cr_assert_eq(json_array_size(json_object_get(json_array_get(logprobs, 1), "top")), 2);
    json_decref(line);
    line = line_of(text, 1);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(json_integer_value(json_array_get(json_object_get(line, "tokens"), i)), 5);
    json_decref(line);
    expect_text(text, 6, "error", "\"logit_bias\" should be");
    expect_text(text, 7, "error", "\"logit_bias\" should be");
    expect_text(text, 8, "error", "there is no token 99999");
    expect_text(text, 9, "error", "'top_q' is not one of");
    expect_text(text, 10, "error", "\"samplers\" should be");
    expect_text(text, 11, "error", "\"ban\" should be");
    expect_text(text, 12, "error", "mirostat is 3");
    free(text);
    program_free(&result);
}

/* A text may be as long as the model was trained for. */
Test(batch, long_texts)
{
    enum { N = 16600 };
    char *large = strdup(files_path(folder, "large.gguf"));
    const struct tiny_llama config = {
        .seed = 4, .n_layers = 1, .n_embd = 32, .n_heads = 1, .n_kv_heads = 1, .n_context = 65536};
    cr_assert(write_tiny_llama(large, &config));
    FILE *file = fopen(in, "w");
    cr_assert(file);
    fprintf(file, "{\"tokens\": [5, 6, 7], \"max_tokens\": 3}\n{\"tokens\": [5");
    for (int i = 1; i < N; i++) fprintf(file, ", %d", 5 + i % 300);
    fprintf(file, "], \"max_tokens\": 3}\n");
    cr_assert_eq(fclose(file), 0);
    struct program_result result = PROGRAM("batch", "-m", large, "--backend", "cpu", in, "-o", out);
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    char *text = read_text(out);
    json_t *line = line_of(text, 1);
    cr_expect_eq(json_integer_value(json_object_get(line, "prompt_tokens")), N);
    cr_expect_eq(json_integer_value(json_object_get(line, "text_tokens")), 3);
    json_decref(line);
    free(text);
    free(large);
}

/* Seeds have 64 bits; JSON's integers 63, here: larger ones are doubles. */
Test(batch, large_seeds)
{
    files_write_text(in, "{\"prompt\": \"a\", \"max_tokens\": 2, \"seed\": 9223372036854775807}\n"
                         "{\"prompt\": \"a\", \"max_tokens\": 2, \"seed\": \"18446744073709551615\"}\n"
                         "{\"prompt\": \"a\", \"max_tokens\": 2, \"seed\": \"7\"}\n"
                         "{\"prompt\": \"a\", \"max_tokens\": 2, \"seed\": 9223372036854775808}\n"
                         "{\"prompt\": \"a\", \"max_tokens\": 2, \"seed\": 18446744073709551615}\n"
                         "{\"prompt\": \"a\", \"seed\": \"18446744073709551616\"}\n"
                         "{\"prompt\": \"a\", \"seed\": \"-1\"}\n"
                         "{\"prompt\": \"a\", \"seed\": -2}\n"
                         "{\"prompt\": \"a\", \"seed\": 2e19}\n"
                         "{\"prompt\": \"a\", \"seed\": 1e400}\n");
    struct program_result result = BATCH("-o", out);
    cr_assert(strstr(result.err, "5 lines of 10 failed"), "%s", result.err);
    char *text = read_text(out);
    json_t *line = line_of(text, 0);
    cr_assert_eq(json_integer_value(json_object_get(line, "seed")), INT64_MAX);
    json_decref(line);
    expect_text(text, 1, "seed", "18446744073709551615");
    line = line_of(text, 2);
    cr_assert_eq(json_integer_value(json_object_get(line, "seed")), 7);
    json_decref(line);
    expect_text(text, 3, "seed", "9223372036854775808");
    expect_text(text, 4, "seed", "18446744073709551615");
    for (int i = 5; i < 9; i++) expect_text(text, i, "error", "\"seed\" should be");
    expect_text(text, 9, "error", "a number above 1.8e308, the largest double near '1e400'");
    free(text);
    program_free(&result);
}

/* `n` prompts, some of them sampled, of several lengths and priorities. */
static void write_prompts(int n)
{
    FILE *file = fopen(in, "w");
    cr_assert(file);
    for (int i = 0; i < n; i++)
        fprintf(file, "{\"prompt\": \"%.*s %d\", \"id\": %d, \"max_tokens\": %d, \"priority\": %d%s}\n",
                1 + i * 7 % 30, "one day the dog and the cat went", i, i, 1 + i * 5 % 20, i % 3,
                i % 2 ? ", \"temperature\": 0" : "");
    cr_assert_eq(fclose(file), 0);
}

static char *undisturbed(void)
{
    struct program_result result = BATCH("--seed", "4");
    cr_assert_eq(result.status, 0, "%s", result.err);
    char *text = strdup(result.out);
    program_free(&result);
    return text;
}

static void expect_output(const char *expected)
{
    char *text = read_text(out);
    cr_assert_str_eq(text, expected);
    free(text);
}

/* Seeds follow from --seed and the line; nobody sees how many run at once. */
Test(batch, results_do_not_depend_on_parallel)
{
    write_prompts(30);
    char *expected = undisturbed();
    struct program_result one = BATCH("--seed", "4", "-np", "1", "-o", out);
    cr_assert_eq(one.status, 0, "%s", one.err);
    expect_output(expected);
    struct program_result other = BATCH("--seed", "5", "-np", "20");
    cr_assert_eq(other.status, 0, "%s", other.err);
    cr_assert_str_neq(other.out, expected);
    program_free(&one), program_free(&other);
    free(expected);
}

/* Runs with options for guesses. Results are the expected ones; the summary has the counts. */
static void expect_guesses(const char *expected, const char *option)
{
    unsigned guessed = 0, right = 0;
    struct program_result result = BATCH("--seed", "4", "-np", "2", "--draft-min", "3", "--draft-max", "3",
                                         "-o", out, "--restart", option);
    cr_assert_eq(result.status, 0, "%s", result.err);
    expect_output(expected);
    const char *told = strstr(result.err, "engine: guessed: ");
    cr_assert(told && sscanf(told, "engine: guessed: %u tokens, %u of them right", &guessed, &right) == 2,
              "%s", result.err);
    cr_expect(right > 0 && right < guessed, "%s", result.err);
    program_free(&result);
}

Test(batch, guesses_do_not_change_results)
{
    write_prompts(30);
    char *expected = undisturbed();
    char draft[300];
    snprintf(draft, sizeof draft, "--draft=%s", model);
    expect_guesses(expected, draft);
    expect_guesses(expected, "--lookup");
    free(expected);
}

/* As in `engine run`, -n 0 reads the prompts. */
Test(batch, no_tokens)
{
    files_write_text(in, "{\"prompt\": \"a b\"}\n{\"prompt\": \"a b\", \"max_tokens\": 2}\n");
    struct program_result result = PROGRAM("batch", "-m", model, "--backend", "cpu", "-n", "0", in);
    cr_assert_eq(result.status, 0, "%s", result.err);
    for (int i = 0; i < 2; i++) {
        json_t *json = line_of(result.out, i);
        cr_expect_eq(json_integer_value(json_object_get(json, "text_tokens")), 2 * i, "%s", result.out);
        json_decref(json);
    }
    program_free(&result);
}

static off_t size_of_output(void)
{
    struct stat info;
    return stat(out, &info) == 0 ? info.st_size : 0;
}

/* Runs the batch, and kills it once the output has grown by so many bytes. */
static void run_and_kill(off_t more)
{
    off_t until = size_of_output() + more;
    int status;
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDERR_FILENO);
        setenv("XDG_CONFIG_HOME", "/dev/null", 1);
        execl(TEST_ENGINE, "engine", "batch", "-m", model, "--backend", "cpu", "-n", "12", in, "--seed", "4",
              "-o", out, (char *)NULL);
        _exit(127);
    }
    while (size_of_output() < until && waitpid(child, &status, WNOHANG) == 0) usleep(200);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

Test(batch, killed_ten_times)
{
    write_prompts(500);
    char *expected = undisturbed();
    unsigned random = 7;
    for (int i = 0; i < 10; i++) {
        random = random * 1664525u + 1013904223u;
        run_and_kill(1 + (off_t)(random >> 8) % 6000);
        cr_assert_leq((size_t)size_of_output(), strlen(expected));
    }
    cr_assert_gt(size_of_output(), 1000);
    struct program_result result = BATCH("--seed", "4", "-o", out);
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert(strstr(result.err, "from an earlier run"), "%s", result.err);
    expect_output(expected);
    program_free(&result);
    result = BATCH("--seed", "4", "-o", out); /* there is nothing left to do */
    cr_assert_eq(result.status, 0, "%s", result.err);
    expect_output(expected);
    program_free(&result);
    free(expected);
}

/* A torn last line is cut, wherever it is torn. */
Test(batch, a_torn_line)
{
    write_prompts(3);
    char *expected = undisturbed();
    size_t length = strlen(expected);
    for (size_t cut = 0; cut <= length; cut += cut < 20 ? 1 : 37) {
        files_write(out, expected, cut);
        struct program_result result = BATCH("--seed", "4", "-o", out);
        cr_assert_eq(result.status, 0, "%zu: %s", cut, result.err);
        expect_output(expected);
        program_free(&result);
    }
    free(expected);
}

static void refuses(struct program_result result, const char *content)
{
    cr_assert_eq(result.status, 2, "%s", result.err);
    cr_assert(strstr(result.err, "--restart"), "%s", result.err);
    expect_output(content);
    program_free(&result);
}

/* What belongs to other prompts, options or nobody stays as it is. */
Test(batch, the_output_of_something_else)
{
    write_prompts(4);
    char *expected = undisturbed();
    files_write_text(out, "notes\n");
    refuses(BATCH("--seed", "4", "-o", out), "notes\n");
    files_write_text(out, "notes");
    refuses(BATCH("--seed", "4", "-o", out), "notes");
    files_write_text(out, expected);
    refuses(BATCH("--seed", "5", "-o", out), expected);
    refuses(BATCH("--seed", "4", "--temp", "0.5", "-o", out), expected);
    write_prompts(3); /* fewer than there are results */
    refuses(BATCH("--seed", "4", "-o", out), expected);
    files_write_text(in, "{\"prompt\": \"another\"}\n");
    refuses(BATCH("--seed", "4", "-o", out), expected);
    struct program_result result = BATCH("--seed", "4", "--restart", "-o", out);
    cr_assert_eq(result.status, 0, "%s", result.err);
    char *text = read_text(out);
    cr_assert_eq(program_count_lines(text, "index"), 1, "%s", text);
    free(text), free(expected);
    program_free(&result);
}

/* An adapter of the first layer's queries. */
static const char *write_adapter(const char *name)
{
    const char *path = strdup(files_path(folder, name));
    struct tensor_file *file = tensor_file_create();
    tensor_file_add_module(file, "model.layers.0.self_attn.q_proj", 64, 64, 4, 0);
    mkdir(path, 0755);
    tensor_file_save(file, files_path(path, "adapter_model.safetensors"));
    files_write_text(
        files_path(path, "adapter_config.json"),
        "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 64, \"target_modules\": [\"q_proj\"]}");
    return path;
}

/* Adapters are what they contain, wherever they are. */
Test(batch, adapters_belong_to_the_key)
{
    const char *adapter = write_adapter("adapter"), *same = write_adapter("same");
    char scaled[512];
    snprintf(scaled, sizeof scaled, "%s=0.5", adapter);
    write_prompts(4);
    char *without = undisturbed();
    files_write_text(out, without);
    refuses(BATCH("--seed", "4", "-o", out, "--lora", adapter), without);
    struct program_result result = BATCH("--seed", "4", "-o", out, "--lora", adapter, "--restart");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    char *with = read_text(out);
    refuses(BATCH("--seed", "4", "-o", out), with);
    refuses(BATCH("--seed", "4", "-o", out, "--lora", scaled), with);
    result = BATCH("--seed", "4", "-o", out, "--lora", same);
    cr_assert_eq(result.status, 0, "%s", result.err);
    expect_output(with);
    program_free(&result);
    files_write_text(
        files_path(same, "adapter_config.json"),
        "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 32, \"target_modules\": [\"q_proj\"]}");
    refuses(BATCH("--seed", "4", "-o", out, "--lora", same), with);
    free((char *)(size_t)adapter), free((char *)(size_t)same), free(without), free(with);
}

/* Models may differ in nothing but their weights. */
Test(batch, weights_belong_to_the_key)
{
    write_prompts(4);
    char *expected = undisturbed();
    files_write_text(out, expected);
    cr_assert(write_tiny_llama(model, &(struct tiny_llama){.seed = 5, .type = ENGINE_TYPE_F32}));
    refuses(BATCH("--seed", "4", "-o", out), expected);
    free(expected);
}

/* The context of the model has 128 tokens, however they are asked for. */
Test(batch, the_context_belongs_to_the_key)
{
    static const struct {
        const char *option, *value;
        bool same;
    } cases[] = {{"-c", "128", true},
                 {"--cache-size", "2000", true},
                 {"-c", "120", false},
                 {"--cache-size", "64", false}};
    write_prompts(4);
    char *expected = undisturbed();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        files_write_text(out, expected);
        struct program_result result = BATCH("--seed", "4", "-o", out, cases[i].option, cases[i].value);
        if (!cases[i].same) {
            refuses(result, expected);
            continue;
        }
        cr_assert_eq(result.status, 0, "%s", result.err);
        program_free(&result);
    }
    free(expected);
}

/* Results wait until somebody reads the pipe. */
Test(batch, into_a_pipe_with_a_name)
{
    write_prompts(3);
    char *expected = undisturbed();
    int status;
    cr_assert_eq(mkfifo(out, 0600), 0);
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        setenv("XDG_CONFIG_HOME", "/dev/null", 1);
        execl(TEST_ENGINE, "engine", "batch", "-m", model, "--backend", "cpu", "-n", "12", in, "--seed", "4",
              "-o", out, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 100; i++) { /* a while, so that it could end early */
        cr_assert_eq(waitpid(child, &status, WNOHANG), 0, "it ended before anybody read");
        usleep(10000);
    }
    char text[4096];
    size_t size = 0;
    int pipe_end = open(out, O_RDONLY);
    ssize_t n = 0;
    while (size < sizeof text - 1 && (n = read(pipe_end, text + size, sizeof text - 1 - size)) > 0)
        size += (size_t)n;
    text[size] = '\0';
    close(pipe_end);
    cr_assert_str_eq(text, expected);
    cr_assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(expected);
}

Test(batch, help_names_the_keys)
{
    static const char *const keys[] = {"samplers",
                                       "logit_bias",
                                       "ban",
                                       "logprobs",
                                       "mirostat_tau",
                                       "xtc_threshold",
                                       "dry_sequence_breakers",
                                       "grammar",
                                       "json_schema",
                                       "response_format"};
    struct program_result result = PROGRAM("batch", "--help");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_expect(strstr(result.out, keys[i]), "%s", keys[i]);
    program_free(&result);
}

Test(batch, mistakes)
{
    struct program_result result = PROGRAM("batch", "-m", model, files_path(folder, "none.jsonl"));
    cr_assert_eq(result.status, 1);
    cr_assert(strstr(result.err, "none.jsonl: No such file"), "%s", result.err);
    program_free(&result);
    write_prompts(1);
    result = BATCH("-o", in);
    cr_assert_eq(result.status, 2);
    cr_assert(strstr(result.err, "the same file as the input"), "%s", result.err);
    program_free(&result);
    result = PROGRAM("batch", "-m", model);
    cr_assert_eq(result.status, 2);
    program_free(&result);
}
