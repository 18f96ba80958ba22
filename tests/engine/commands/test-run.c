/* test-run.c: the commands that run a model, from outside, with a small random model: no files from
 * elsewhere. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "gguf-writer.h"
#include "program-json.h"
#include "program-model.h"
#include "program.h"

#define BUILT TEST_BINARY_DIR "/fixtures/plugins/built"

TestSuite(run, .init = begin_model, .fini = end_model);

/* ---- run ----------------------------------------------------------------------------------------------- */

#define SAMPLED(...) PROGRAM("-m", model, "-p", "a b", "-n", "20", "--seed", "1", "--no-echo", __VA_ARGS__)

static char *text_of_run(struct program_result result)
{
    cr_assert_eq(result.status, 0, "%s", result.err);
    char *text = strdup(result.out);
    program_free(&result);
    return text;
}

/* A backend and a plugin that find nothing to work with here are mentioned to those who ask. */
Test(run, absent_drivers_are_no_warning)
{
    static const char *const reasons[] = {"no driver for idling", "libfoo.so.1 is missing"};
    char *place = files_folder(), config[600];
    files_copy(BUILT "/idle.so", files_path(place, "idle.so"), SIZE_MAX);
    files_copy(BUILT "/absent.so", files_path(place, "absent.so"), SIZE_MAX);
    snprintf(config, sizeof config, "%s", files_path(place, "engine.conf"));
    files_write_text(config, "[idle]\nabsent = yes\n");
#define HERE "-m", model, "--plugin-dir", place, "--config", config
    struct program_result quiet[] = {PROGRAM("run", HERE, "-p", "a b", "-n", "4"), PROGRAM("plan", HERE),
                                     PROGRAM("info", model, "--plugin-dir", place, "--config", config),
                                     PROGRAM("tokenize", HERE, "a b"),
                                     PROGRAM("score", HERE, "-p", "a b", "--answer", "a")};
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) {
        cr_assert_eq(quiet[i].status, 0, "%zu: %s", i, quiet[i].err);
        cr_assert_eq(program_count_lines(quiet[i].err, "engine: "), 0, "%zu: %s", i, quiet[i].err);
        program_free(&quiet[i]);
    }
    struct program_result verbose = PROGRAM("run", HERE, "-v", "-p", "a b", "-n", "4");
    for (size_t i = 0; i < 2; i++) cr_assert(strstr(verbose.err, reasons[i]), "%s", verbose.err);
    program_free(&verbose);
    struct program_result devices = PROGRAM("devices", "--plugin-dir", place, "--config", config);
    cr_assert(strstr(devices.err, reasons[0]), "%s", devices.err);
    cr_assert(strstr(devices.out, reasons[1]), "%s", devices.out);
    program_free(&devices);
    struct program_result plugins = PROGRAM("plugins", "--plugin-dir", place, "--config", config);
    cr_assert(strstr(plugins.out, reasons[1]), "%s", plugins.out);
    program_free(&plugins);
    program_fails(PROGRAM("run", HERE, "-p", "a b", "--backend", "idle"), 1, reasons[0]);
#undef HERE
    files_remove(place);
    free(place);
}

Test(run, bans_and_stops)
{
    char *text = text_of_run(SAMPLED("--temp", "0"));
    char part[] = {text[2], text[3], '\0'}, escaped[16];
    snprintf(escaped, sizeof escaped, "\\x%02x%c", (unsigned char)part[0], part[1]);
    char *without = text_of_run(SAMPLED("--temp", "0", "--ban", escaped));
    cr_assert(strstr(text, part) && !strstr(without, part), "'%s' in '%s' and '%s'", part, text, without);
    struct program_result result = SAMPLED("--temp", "0", "--stop", part);
    cr_assert_eq((size_t)(strstr(text, part) - text), strlen(result.out), "'%s' of '%s'", result.out, text);
    program_free(&result);
    free(text);
    free(without);
}

Test(run, the_order_of_samplers)
{
    char *letters = text_of_run(SAMPLED("--sampler-seq", "kt", "--top-k", "3"));
    char *names = text_of_run(SAMPLED("--samplers", "top_k;temperature", "--top-k", "3"));
    char *others = text_of_run(SAMPLED("--samplers", "temperature", "--top-k", "3"));
    cr_assert_str_eq(letters, names);
    cr_assert(strcmp(names, others) != 0);
    free(letters);
    free(names);
    free(others);
}

/* A line of --logprobs whose token is the most likely one, and the token's text. */
static void expect_logprobs(const char *line, struct engine_string *text)
{
    json_t *json = json_loads(line, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL);
    json_t *top = json_object_get(json, "top"), *first = json_array_get(top, 0);
    cr_assert(json && json_array_size(top) == 3, "%s", line);
    cr_assert(json_equal(json_object_get(json, "id"), json_object_get(first, "id")));
    cr_assert(json_equal(json_object_get(json, "bytes"), json_object_get(first, "bytes")));
    double before = 0;
    for (size_t i = 0; i < 3; i++) {
        double logprob = json_real_value(json_object_get(json_array_get(top, i), "logprob"));
        cr_assert(logprob < 0 && (i == 0 || logprob <= before));
        before = logprob;
    }
    const json_t *bytes = json_object_get(json, "bytes");
    for (size_t i = 0; i < json_array_size(bytes); i++)
        ((char *)(size_t)text->data)[text->length++] = (char)json_integer_value(json_array_get(bytes, i));
    json_decref(json);
}

Test(run, logprobs)
{
    char bytes[4096], *text = text_of_run(SAMPLED("--temp", "0"));
    struct engine_string joined = {bytes, 0};
    char *lines = text_of_run(SAMPLED("--temp", "0", "--logprobs", "3"));
    int n = 0;
    for (char *line = lines; *line; line = strchr(line, '\n') + 1, n++) expect_logprobs(line, &joined);
    cr_assert_eq(n, 20);
    /* the program's output has NULs */
    cr_assert(joined.length >= strlen(text) && memcmp(bytes, text, strlen(text)) == 0, "%s", text);
    const char *path = files_path(folder, "logprobs.jsonl");
    char *beside = text_of_run(SAMPLED("--temp", "0", "--logprobs", "3", "--logprobs-file", path));
    size_t size;
    char *written = files_read(path, &size);
    cr_assert_str_eq(beside, text);
    cr_assert(size == strlen(lines) && memcmp(written, lines, size) == 0);
    free(text);
    free(lines);
    free(beside);
    free(written);
    program_fails(SAMPLED("--logprobs", "3", "--json"), 2, "--logprobs-file");
    program_fails(SAMPLED("--logprobs-file", path), 2, "needs --logprobs");
    program_fails(SAMPLED("--logprobs", "3", "--logprobs-file", model), 2, "same file");
    const char *none = files_path(folder, "none"), *also = files_path(folder, "./none");
    program_fails(SAMPLED("--logprobs", "3", "--logprobs-file", none, "--prompt-cache", also), 2,
                  "name the same file");
    cr_assert_neq(access(none, F_OK), 0);
}

Test(run, sampling_mistakes)
{
    program_fails(SAMPLED("--samplers", "top_k;top_q"), 2, "'top_q' is not one of penalties;dry;");
    program_fails(SAMPLED("--sampler-seq", "kq"), 2, "--sampler-seq: 'kq'");
    program_fails(SAMPLED("--samplers", "top_k", "--sampler-seq", "k"), 2, "cannot be combined");
    program_fails(SAMPLED("--logit-bias", "5"), 2, "--logit-bias: '5'");
    program_fails(SAMPLED("--logit-bias", "5+inf"), 2, "--logit-bias: '5+inf'");
    program_fails(SAMPLED("--logit-bias", "5+-1"), 2, "--logit-bias: '5+-1'");
    program_fails(SAMPLED("-l", "999999999+1"), 2, "there is no token 999999999");
    program_fails(SAMPLED("--ban-token", "a"), 2, "--ban-token: 'a'");
    program_fails(SAMPLED("--ban", ""), 2, "--ban: the text is empty");
    program_fails(SAMPLED("--mirostat", "3"), 2, "--mirostat: 3 is out of range");
}

Test(run, the_prompt_comes_from_anywhere)
{
    static const char *const from_input[] = {"-m", NULL, "-p", "-", "-n", "6", "--temp", "0", NULL};
    const char *arguments[9];
    memcpy(arguments, from_input, sizeof arguments);
    arguments[1] = model;
    files_write_text(files_path(folder, "prompt.txt"), "a b\n");

    struct program_result given = PROGRAM("-m", model, "-p", "a b\n", "-n", "6", "--temp", "0");
    cr_assert_eq(given.status, 0, "%s", given.err);
    cr_assert_eq(strncmp(given.out, "a b\n", 4), 0);
    cr_assert_gt(given.out_size, 4);
    program_prints(program_run(arguments, "a b\n", 4), given.out);
    program_prints(PROGRAM("run", "-m", model, "-f", files_path(folder, "prompt.txt"), "-n", "6", "--temp=0"),
                   given.out);
    program_prints(PROGRAM("-m", model, "-p", "a b\n", "-n6", "--temp", "0", "--no-echo"), given.out + 4);
    program_free(&given);
}

/* Typos in the sections of plugins. */
/* The tokens of a text are the text. */
Test(run, the_prompt_as_tokens)
{
    const char *file = files_path(folder, "ids.npy");
    json_t *json = program_json(PROGRAM("tokenize", "-m", model, "--bos", "--json", "a b c"));
    const json_t *list = json_object_get(json, "ids");
    int32_t ids[16];
    size_t n = json_array_size(list);
    cr_assert(n > 1 && n < 16);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    files_write_ids(file, ids, n);
    struct program_result text = PROGRAM("-m", model, "-p", "a b c", "-n", "5", "--temp", "0"),
                          tokens = PROGRAM("-m", model, "--tokens-file", file, "-n", "5", "--temp", "0");
    program_expect_text(&tokens, text.out, "tokens");
    program_free(&text);
    program_free(&tokens);
    ids[1] = 99999;
    files_write_ids(file, ids, n);
    program_fails(PROGRAM("-m", model, "--tokens-file", file), 1, "token 1 of the prompt is 99999");
    files_write_ids(file, ids, 0);
    program_fails(PROGRAM("-m", model, "--tokens-file", file), 2, "there are no tokens");
    json_decref(json);
}

Test(run, settings_that_nobody_reads)
{
    static char config[4096], expected[4400];
    snprintf(config, sizeof config, "%s", files_path(folder, "engine.conf"));
    files_write_text(config, "threads = 2\n[vulcan]\nmatmul = dot\nmore = 1\n[cpu]\ncores = 3\n"
                             "[vulkan]\nmatmull = dot\n");
    struct program_result result = PROGRAM("run", model, "-n", "1", "--config", config, "--backend", "cpu");
    cr_assert_eq(result.status, 0, "%s", result.err);
    snprintf(expected, sizeof expected, "engine: warning: %s:3: [vulcan]: no plugin has this name", config);
    cr_assert_eq(program_count_lines(result.err, "vulcan"), 1, "%s", result.err);
    cr_assert(strstr(result.err, expected), "%s", result.err);
    snprintf(expected, sizeof expected,
             "engine: warning: %s:6: [cpu] cores: the plugin did not read this setting", config);
    cr_assert(strstr(result.err, expected), "%s", result.err);
    /* Told even if no such device is in use. */
    bool has_vulkan = access(TEST_PLUGIN_DIR "/vulkan.so", F_OK) == 0;
    snprintf(expected, sizeof expected, "engine: warning: %s:%s", config,
             has_vulkan ? "8: [vulkan] matmull: the plugin did not read this setting"
                        : "8: [vulkan]: no plugin has this name");
    cr_assert_eq(program_count_lines(result.err, expected), 1, "%s", result.err);
    cr_assert_eq(program_count_lines(result.err, "[vulkan]"), 1, "%s", result.err);
    program_free(&result);
}

Test(run, speeds_of_devices_that_do_not_exist)
{
    static char config[4096], expected[4400];
    snprintf(config, sizeof config, "%s", files_path(folder, "engine.conf"));
    files_write_text(config, "threads = 1\nspeeds = cpu=3, vulkn0=4,cpu9=1\n");
    struct program_result result = PROGRAM("run", model, "-n", "1", "--config", config, "--backend", "cpu");
    cr_assert_eq(result.status, 0, "%s", result.err);
    snprintf(expected, sizeof expected, "engine: warning: %s:2: speeds: there is no device vulkn0 here",
             config);
    cr_assert_eq(program_count_lines(result.err, expected), 1, "%s", result.err);
    snprintf(expected, sizeof expected, "engine: warning: %s:2: speeds: there is no device cpu9 here",
             config);
    cr_assert_eq(program_count_lines(result.err, expected), 1, "%s", result.err);
    cr_assert_eq(program_count_lines(result.err, "speeds:"), 2, "%s", result.err);
    program_free(&result);
}

Test(run, the_model_comes_from_the_configuration)
{
    char text[1200];
    snprintf(text, sizeof text, "model = %s\nthreads = 1\n", model);
    files_write_text(files_path(folder, "engine.conf"), text);
    struct program_result given = PROGRAM("-m", model, "-p", "a", "-n", "3", "--temp", "0");
    program_prints(
        PROGRAM("--config", files_path(folder, "engine.conf"), "-p", "a", "-n", "3", "--temp", "0"),
        given.out);
    program_free(&given);
}

/* The model that comes with the engine, which begins a story by itself. */
/* The model and the prompt without -m and -p. */
Test(run, words)
{
    struct program_result expected = PROGRAM("run", "-m", model, "-p", "One day", "-n", "6", "--temp", "0");
    cr_assert_eq(expected.status, 0, "%s", expected.err);
    program_prints(PROGRAM("run", model, "One day", "-n", "6", "--temp", "0"), expected.out);
    program_prints(PROGRAM(model, "-n", "6", "--temp", "0", "One day"), expected.out);
    program_prints(PROGRAM("-m", model, "One day", "-n", "6", "--temp", "0", "-ngl", "0"), expected.out);
    program_free(&expected);
    program_fails(PROGRAM("run", model, "-m", model), 2, "two models");
    program_fails(PROGRAM("run", model, "-p", "One", "day"), 2, "two prompts");
    program_fails(PROGRAM("run", model, "One", "day"), 2, "unexpected 'day'");
    struct program_result endless = PROGRAM(model, "-n", "-1", "-c", "40", "--temp", "0");
    cr_assert_eq(endless.status, 0, "%s", endless.err);
    cr_assert(strstr(endless.err, "the context of 40 tokens is full"), "%s", endless.err);
    program_free(&endless);
}

Test(run, json)
{
    struct program_result text = PROGRAM("run", model, "One day", "-n", "6", "--temp", "0");
    cr_assert_eq(text.status, 0, "%s", text.err);
    json_t *json = program_json(PROGRAM("run", model, "One day", "-n", "6", "--temp", "0", "--json"));
    cr_assert_str_eq(json_string_value(json_object_get(json, "prompt")), "One day");
    cr_assert_eq(json_integer_value(json_object_get(json, "text_tokens")), 6);
    cr_assert_str_eq(json_string_value(json_object_get(json, "end")), "limit");
    /* What isn't UTF-8 in the text is U+FFFD in JSON. */
    cr_assert(json_string_value(json_object_get(json, "text")));
    json_decref(json);
    program_free(&text);

    json = program_json(PROGRAM("logits", "-m", model, "--tokens", "5 6 7", "--json"));
    json_t *rows = json_object_get(json, "logits");
    cr_assert_eq(json_array_size(rows), 3);
    cr_assert_eq(json_array_size(json_array_get(rows, 2)), 320);
    const char *out = files_path(folder, "logits.npy");
    program_prints(PROGRAM("logits", "-m", model, "--tokens", "5 6 7", "-o", out), "");
    size_t size;
    char *npy = files_read(out, &size);
    float last;
    memcpy(&last, npy + size - sizeof last, sizeof last);
    cr_assert_eq((float)json_real_value(json_array_get(json_array_get(rows, 2), 319)), last);
    free(npy);
    json_decref(json);

    json = program_json(PROGRAM("tokenize", "-m", model, "--json", "a b"));
    size_t n = json_array_size(json_object_get(json, "ids"));
    cr_assert(n > 0 && n == json_array_size(json_object_get(json, "pieces")));
    json_decref(json);
    json = program_json(PROGRAM("tokenize", "-m", model, "--json", "--ids", "a b"));
    cr_assert_eq(json_array_size(json_object_get(json, "ids")), n);
    cr_assert_null(json_object_get(json, "pieces"));
    json_decref(json);
    json = program_json(PROGRAM("tokenize", "-m", model, "--json", "--decode", "260 261"));
    cr_assert(json_is_string(json_object_get(json, "text")));
    json_decref(json);
    static const char *const lines[] = {"tokenize", "-m", NULL, "--json", "-0", NULL};
    const char *arguments[6];
    memcpy(arguments, lines, sizeof lines);
    arguments[2] = model;
    struct program_result several = program_run(arguments, "a\0b", 3);
    cr_assert_eq(several.status, 0, "%s", several.err);
    cr_assert_eq(program_count_lines(several.out, "{"), 2, "%s", several.out);
    program_free(&several);
}

/* Where both streams go to the same place, what is said at the end has a line of its own; the text stays as
 * it is where they don't. */
Test(run, the_last_line_ends)
{
    struct program_result apart = PROGRAM("run", model, "One day", "-n", "6", "--temp", "0");
    cr_assert_eq(apart.status, 0);
    cr_assert_neq(apart.out[apart.out_size - 1], '\n');
    cr_assert_eq(strncmp(apart.err, "prompt: ", 8), 0, "%s", apart.err);
    char command[512], *both = strdup(files_path(folder, "both"));
    snprintf(command, sizeof command, "'%s' run '%s' 'One day' -n 6 --temp 0 > '%s' 2>&1", TEST_ENGINE, model,
             both);
    cr_assert_eq(system(command), 0);
    size_t size;
    char *text = files_read(both, &size);
    cr_assert(strstr(text, "\nprompt: "), "%s", text);
    cr_assert_eq(memcmp(text, apart.out, apart.out_size), 0);
    free(text), free(both);
    program_free(&apart);
}

/* What can be known before anything is loaded is told then: with -v, what lies where is told after
 * loading. */
Test(run, a_prompt_that_is_too_long_is_refused_before_loading)
{
    struct program_result result =
        PROGRAM("run", model, "One day and another", "-c", "4", "--backend", "cpu", "-v");
    cr_assert_eq(result.status, 1, "%s", result.err);
    cr_assert_str_empty(result.out);
    cr_assert(strstr(result.err, "tokens but the context only 4: enlarge it with -c, or shorten the prompt"),
              "%s", result.err);
    cr_assert_null(strstr(result.err, "of 2 layers;"), "%s", result.err);
    program_free(&result);
    result = PROGRAM("run", model, "One day and another", "--cache-size", "4", "--backend", "cpu");
    cr_assert(strstr(result.err, "the context only 4: enlarge it with --cache-size"), "%s", result.err);
    program_free(&result);
    result = PROGRAM("run", model, "a", "--cache-size", "9", "-n", "20", "--ignore-eos", "--backend", "cpu");
    cr_assert(strstr(result.err, "of 9 tokens is full; enlarge it with --cache-size"), "%s", result.err);
    program_free(&result);
    result = PROGRAM("logits", "-m", model, "--tokens", "5 6 7", "-c", "2", "-o", "/dev/null", "-v");
    cr_assert_eq(result.status, 1, "%s", result.err);
    cr_assert(strstr(result.err, "the prompt has 3 tokens but the context only 2"), "%s", result.err);
    cr_assert_null(strstr(result.err, "of 2 layers;"), "%s", result.err);
    program_free(&result);
}

/* On a terminal a long prompt shows how far it is; the prompt and the text follow. */
Test(run, progress_of_the_prompt)
{
    static char shown[65536];
    int terminal;
    size_t used = 0;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    cr_assert(child >= 0);
    if (child == 0) {
        setenv("XDG_CONFIG_HOME", "/dev/null", 1);
        execl(TEST_ENGINE, "engine", "run", model, "One day and another day", "-b", "2", "-n", "2", "--temp",
              "0", (char *)NULL);
        _exit(127);
    }
    for (ssize_t n; (n = read(terminal, shown + used, sizeof shown - 1 - used)) > 0;) used += (size_t)n;
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "%s", shown);
    close(terminal);
    const char *bar = strstr(shown, "prompt ["), *text = strstr(shown, "One day and another day");
    cr_assert(bar && text && bar < text, "%s", shown);
    cr_assert(strstr(bar, " tokens\033[K") && strstr(bar, "\r\033[K"), "%s", shown);
}

Test(run, without_anything)
{
    char missing[1200];
    if (access(TEST_SOURCE_DIR "/../models/demo/demo.gguf", R_OK) != 0)
        cr_skip_test("no models/demo/demo.gguf here");
    struct program_result result = PROGRAM("--seed", "1");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_gt(result.out_size, 100, "%s", result.out);
    program_prints(PROGRAM("run", "-p", "", "--seed", "1"), result.out);
    program_free(&result);
    result = PROGRAM("tokenize", "--ids", ".");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    result = PROGRAM("info");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    /* A chat. */
    program_prints(PROGRAM("--special", "--no-echo", "--temp", "0", "-p",
                           "<|im_start|>user\nWhat is 27 plus 38?<|im_end|>\n<|im_start|>assistant\n"),
                   "27 + 38 = 65.");
    /* A model that the configuration names comes first. */
    snprintf(missing, sizeof missing, "model = %s/none.gguf\n", folder);
    files_write_text(files_path(folder, "engine.conf"), missing);
    program_fails(PROGRAM("--config", files_path(folder, "engine.conf")), 1,
                  "none.gguf: No such file or directory");
}

Test(run, seeds)
{
    struct program_result first = PROGRAM("-m", model, "-p", "a", "-n", "30", "--seed", "5");
    program_prints(PROGRAM("-m", model, "-p", "a", "-n", "30", "--seed", "5"), first.out);
    struct program_result other = PROGRAM("-m", model, "-p", "a", "-n", "30", "--seed", "6");
    cr_assert_str_neq(other.out, first.out);
    program_free(&first);
    program_free(&other);

    /* The seed of a text that was drawn without one is told, and gives that text again. */
    struct program_result drawn = PROGRAM("-m", model, "-p", "a", "-n", "30");
    char seed[32], *told = strstr(drawn.err, "; seed: ");
    cr_assert(told, "%s", drawn.err);
    cr_assert_eq(sscanf(told, "; seed: %31[0-9]", seed), 1);
    program_prints(PROGRAM("-m", model, "-p", "a", "-n", "30", "--seed", seed), drawn.out);
    program_free(&drawn);
}

Test(run, guesses_do_not_change_the_text)
{
    static const char *const temperatures[] = {"0", "1.5"};
    for (int i = 0; i < 2; i++) {
        const char *t = temperatures[i];
        struct program_result plain =
            PROGRAM("-m", model, "-p", "a b", "-n", "60", "--temp", t, "--seed", "4");
        cr_assert_eq(plain.status, 0, "%s", plain.err);
        program_prints(PROGRAM("-m", model, "-p", "a b", "-n", "60", "--temp", t, "--seed", "4", "--lookup"),
                       plain.out);
        program_prints(PROGRAM("-m", model, "-p", "a b", "-n", "60", "--temp", t, "--seed", "4", "-md", model,
                               "--draft-max", "5", "--draft-min", "5"),
                       plain.out);
        program_free(&plain);
    }
    struct program_result draft = PROGRAM("-m", model, "-p", "a b", "-n", "60", "--temp", "0", "--draft",
                                          model, "--draft-min", "3", "--draft-max", "3", "--json");
    json_t *json = json_loads(draft.out, JSON_ALLOW_NUL, NULL);
    cr_assert_eq(draft.status, 0, "%s", draft.err);
    cr_assert_gt(json_integer_value(json_object_get(json, "accepted_tokens")), 0, "%s", draft.out);
    cr_assert_eq(json_integer_value(json_object_get(json, "accepted_tokens")),
                 json_integer_value(json_object_get(json, "guessed_tokens")), "%s", draft.out);
    json_decref(json);
    program_free(&draft);
}

/* Without new tokens, the prompt is read and printed. */
Test(run, no_tokens)
{
    program_prints(PROGRAM("-m", model, "-p", "a b", "-n", "0"), "a b");
    program_prints(PROGRAM("-m", model, "-p", "a b", "-n", "0", "--lookup"), "a b");
    struct program_result result = PROGRAM("-m", model, "-p", "a b", "-n", "0", "--json");
    json_t *json = json_loads(result.out, JSON_ALLOW_NUL, NULL);
    cr_assert_eq(json_integer_value(json_object_get(json, "prompt_tokens")), 5, "%s", result.out);
    cr_assert_eq(json_integer_value(json_object_get(json, "text_tokens")), 0, "%s", result.out);
    json_decref(json);
    program_free(&result);
}

Test(run, guesses_that_cannot_be_made)
{
    const char *other = files_path(folder, "other.gguf");
    program_fails(PROGRAM("-m", model, "-p", "a", "--draft-max", "3"), 2, "need --lookup or --draft");
    program_fails(PROGRAM("-m", model, "-p", "a", "--lookup", "--draft-min", "3", "--draft-max", "2"), 2,
                  "--draft-min 3 is above --draft-max 2");
    cr_assert(
        write_tiny_llama(other, &(struct tiny_llama){.seed = 4, .type = ENGINE_TYPE_F32, .n_vocab = 300}));
    program_fails(PROGRAM("-m", model, "-p", "a", "--draft", other), 1, "both need the same vocabulary");
}

Test(run, mistakes)
{
    program_fails(PROGRAM("-m", model, "-p", "a", "-f", "b"), 2,
                  "use one of --prompt, --file and --tokens-file");
    program_fails(PROGRAM("-m", model, "-p", "a", "--tokens-file", "b"), 2,
                  "use one of --prompt, --file and --tokens-file");
    program_fails(PROGRAM("-m", model, "a", "--tokens-file", "b"), 2, "two prompts: 'a'");
    program_fails(PROGRAM("-m", model, "--tokens-file", FILES_ABSENT ".npy"), 1, FILES_ABSENT ".npy");
    program_fails(PROGRAM("-m", model, "-f", FILES_ABSENT), 1, FILES_ABSENT ": No such file or directory");
    program_fails(PROGRAM("-m", FILES_ABSENT, "-p", "a"), 1, FILES_ABSENT ": No such file or directory");
    program_fails(PROGRAM("-m", model, "-p", "a", "--backend", "nope"), 1, "no backend 'nope'");
    program_fails(PROGRAM("-m", model, "-p", "a", "--memory", "cpu"), 2,
                  "--memory cpu: expected DEVICE=SIZE");
    program_fails(PROGRAM("-m", model, "-p", "abcdefghijkl", "-c", "2"), 1, "the context only 2");
}

/* The last rows of many models stand for no token: they fill up. They are not drawn. */
Test(run, more_rows_than_tokens)
{
    const char *padded = files_path(folder, "padded.gguf");
    const struct tiny_llama config = {.seed = 3, .type = ENGINE_TYPE_F32, .n_vocab = 2048, .n_tokens = 320};
    cr_assert(write_tiny_llama(padded, &config));
    struct program_result result = PROGRAM("-m", padded, "-p", "a", "-n", "100", "--seed", "1", "--temp",
                                           "100", "--top-k", "0", "--top-p", "1", "--min-p", "0");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
}

Test(run, more_tokens_than_rows)
{
    const char *cut = files_path(folder, "cut.gguf");
    const struct tiny_llama config = {.seed = 3, .type = ENGINE_TYPE_F32, .n_vocab = 260, .n_tokens = 320};
    cr_assert(write_tiny_llama(cut, &config));
    program_fails(PROGRAM("-m", cut, "-p", "a"), 1,
                  "token 2 of the prompt is 260, but the model has 260 tokens, 0 to 259");
}

/* Starts a run that goes on for long, and waits for the first of its text. */
static pid_t start_long_run(const char *errors, int *out)
{
    int ends[2];
    char byte;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        int log = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        dup2(ends[1], STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        signal(SIGINT, SIG_DFL); /* where the tests run in the background it would be ignored */
        setenv("XDG_CONFIG_HOME", "/dev/null", 1);
        execl(TEST_ENGINE, "engine", "-m", model, "-p", "a", "-n", "1000000", "-c", "200000", "--temp", "0",
              NULL);
        _exit(127);
    }
    close(ends[1]);
    cr_assert_eq(read(ends[0], &byte, 1), 1);
    *out = ends[0];
    return child;
}

static char *read_text(const char *path)
{
    size_t size;
    return files_read(path, &size);
}

/* Ctrl-C ends the text, not the program: it still says how fast it was, and then that it was interrupted. */
Test(run, interrupted)
{
    const char *errors = files_path(folder, "errors");
    char bytes[4096];
    int out, status;
    pid_t child = start_long_run(errors, &out);
    cr_assert_eq(kill(child, SIGINT), 0);
    while (read(out, bytes, sizeof bytes) > 0) continue;
    cr_assert_eq(waitpid(child, &status, 0), child);
    char *said = read_text(errors);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "%x: %s", (unsigned)status, said);
    cr_assert(strstr(said, "tokens/s"), "%s", said);
    free(said);
    close(out);
}

/* Ctrl-C while a write waits for a slow reader takes nothing of the text: its last line follows whole. */
Test(run, interrupted_while_the_reader_is_slow)
{
    const char *errors = files_path(folder, "errors");
    char bytes[4096];
    int out, status, size = 0, before = -1;
    pid_t child = start_long_run(errors, &out);
    cr_assert(fcntl(out, F_SETPIPE_SZ, 4096) >= 4096);
    while (size < 4000 || size != before) { /* the pipe is full */
        before = size;
        usleep(200000);
        cr_assert_eq(ioctl(out, FIONREAD, &size), 0);
    }
    cr_assert_eq(kill(child, SIGINT), 0);
    usleep(100000);
    while (read(out, bytes, sizeof bytes) > 0) continue;
    cr_assert_eq(waitpid(child, &status, 0), child);
    char *said = read_text(errors);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "%x: %s", (unsigned)status, said);
    cr_assert_null(strstr(said, "could not be written"), "%s", said);
    cr_assert(strstr(said, "tokens/s"), "%s", said);
    free(said);
    close(out);
}

Test(run, the_reader_has_had_enough)
{
    const char *errors = files_path(folder, "errors");
    int out, status;
    pid_t child = start_long_run(errors, &out);
    close(out);
    cr_assert_eq(waitpid(child, &status, 0), child);
    char *said = read_text(errors);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x: %s", (unsigned)status, said);
    free(said);
}

/* ---- plan ---------------------------------------------------------------------------------------------- */

Test(run, plan)
{
    json_t *json = program_json(PROGRAM("plan", "-m", model, "--json"));
    const json_t *tensors = json_object_get(json, "tensors"), *devices = json_object_get(json, "devices");
    cr_assert(json_array_size(tensors) >= 20);
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        cr_assert_str_eq(json_string_value(json_object_get(json_array_get(tensors, i), "device")), "cpu");
    }
    cr_assert(json_array_size(devices) == 1);
    cr_assert_eq(json_integer_value(json_object_get(json_array_get(devices, 0), "layers")), 2);
    json_decref(json);
    struct program_result result = PROGRAM("plan", "-m", model);
    cr_assert_eq(result.status, 0);
    cr_assert(strstr(result.out, "blk.1.ffn_down.weight"), "%s", result.out);
    cr_assert(strstr(result.out, "0 copies between devices"), "%s", result.out);
    cr_assert_str_eq(result.err, "");
    program_free(&result);
    result = PROGRAM("plan", "-m", model, "--place", "blk.*.attn_q=cpu", "--place", "blk.1.cache=cpu");
    cr_assert_eq(result.status, 0);
    cr_assert_str_eq(result.err,
                     "engine: warning: --place blk.*.attn_q=cpu: no tensor of the model matches\n");
    program_free(&result);
}

/* A tensor with two roles is listed once, and what runs where is told on request. */
Test(run, plan_of_a_tied_model)
{
    cr_assert(
        write_tiny_llama(model, &(struct tiny_llama){.seed = 3, .type = ENGINE_TYPE_F16, .tied = true}));
    struct program_result result = PROGRAM("plan", "-m", model, "--backend", "cpu");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.out, "token_embd.weight"), 1, "%s", result.out);
    cr_assert_null(strstr(result.out, " 0 B  cpu"), "%s", result.out);
    program_free(&result);
    json_t *json = program_json(PROGRAM("plan", "-m", model, "--backend", "cpu", "--json"));
    size_t i, n = 0;
    json_t *tensor;
    json_array_foreach(json_object_get(json, "tensors"), i, tensor) n +=
        strcmp(json_string_value(json_object_get(tensor, "name")), "token_embd.weight") == 0;
    cr_assert_eq(n, 1);
    json_decref(json);
    result = PROGRAM("run", "-m", model, "--backend", "cpu", "-n", "1", "--temp", "0", "-v");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert(strstr(result.err, "engine: cpu: 2 of 2 layers; "), "%s", result.err);
    cr_assert(strstr(result.err, "prompt: 1 token, "), "%s", result.err);
    program_free(&result);
}
