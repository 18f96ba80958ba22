/* test-bench.c: `engine bench` from outside, with a small random model. Nothing here depends on a time. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program-json.h"
#include "program-model.h"
#include "program.h"

TestSuite(bench, .init = begin_model, .fini = end_model);

#define BENCH(...) PROGRAM("bench", "-m", model, "--backend", "cpu", __VA_ARGS__)

static void check_speed(const json_t *part, int tokens)
{
    const json_t *speed = json_object_get(part, "tok_s");
    double median = json_real_value(json_object_get(speed, "median"));
    cr_assert_eq(json_integer_value(json_object_get(part, "tokens")), tokens);
    cr_assert_gt(json_real_value(json_object_get(speed, "min")), 0);
    cr_assert_leq(json_real_value(json_object_get(speed, "min")), median);
    cr_assert_geq(json_real_value(json_object_get(speed, "max")), median);
}

Test(bench, prefill_and_decode)
{
    json_t *json =
        program_json(PROGRAM("bench", "-m", model, "-p", "9", "-n", "4", "-r", "2", "-t", "1", "--json"));
    check_speed(json_object_get(json, "prefill"), 9);
    check_speed(json_object_get(json, "decode"), 4);
    cr_assert_eq(json_integer_value(json_object_get(json, "threads")), 1);
    cr_assert_gt(json_integer_value(json_object_get(json, "bytes_per_token")), 100000);
    json_decref(json);

    struct program_result result =
        PROGRAM("bench", "-m", model, "-p", "9", "-n", "0", "-r", "1", "-t", "1", "-d", "1");
    cr_assert_eq(result.status, 0);
    cr_assert(strstr(result.out, "\none run, 1 thread, after 1 token\n"), "%s", result.out);
    cr_assert(strstr(result.out, "prefill "));
    cr_assert_null(strstr(result.out, "decode "));
    program_free(&result);
}

Test(bench, names_the_model_of_the_configuration)
{
    char text[1200];
    snprintf(text, sizeof text, "model = %s\n", model);
    files_write_text(files_path(folder, "engine.conf"), text);
    json_t *json = program_json(PROGRAM("bench", "--config", files_path(folder, "engine.conf"), "-p", "2",
                                        "-n", "0", "-r", "1", "--json"));
    cr_assert_str_eq(json_string_value(json_object_get(json, "model")), model);
    json_decref(json);
}

/* A prefill that would take minutes ends at Ctrl-C. */
Test(bench, can_be_interrupted)
{
    alarm(600);
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        setenv("XDG_CONFIG_HOME", "/dev/null", 1);
        int log = open(files_path(folder, "errors"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
        dup2(log, STDERR_FILENO);
        execl(TEST_ENGINE, "engine", "bench", "-m", model, "-p", "500000", NULL);
        _exit(127);
    }
    usleep(500000); /* by then it computes; should it be late, that is no failure */
    cr_assert_eq(kill(child, SIGINT), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "%x", (unsigned)status);
}

/* ---- Several sequences ---- */

Test(bench, sequences_in_the_order_given)
{
    json_t *json =
        program_json(BENCH("--sequences", "4,1,3", "-p", "9", "-n", "4", "-r", "2", "-b", "8", "--json"));
    const json_t *rows = json_object_get(json, "sequences");
    static const int expected[] = {4, 1, 3};
    cr_assert_eq(json_array_size(rows), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *row = json_array_get(rows, i);
        cr_assert_eq(json_integer_value(json_object_get(row, "sequences")), expected[i]);
        check_speed(json_object_get(row, "prefill"), 9);
        check_speed(json_object_get(row, "decode"), 4);
    }
    cr_assert_eq(json_integer_value(json_object_get(json, "repetitions")), 2);
    json_decref(json);
}

Test(bench, sequences_without_a_part_and_after_others)
{
    json_t *json =
        program_json(BENCH("--sequences", "2,3", "-p", "0", "-n", "4", "-d", "40", "-r", "1", "--json"));
    const json_t *row = json_array_get(json_object_get(json, "sequences"), 1);
    cr_assert_null(json_object_get(row, "prefill"));
    check_speed(json_object_get(row, "decode"), 4);
    cr_assert_eq(json_integer_value(json_object_get(json, "depth")), 40);
    json_decref(json);

    struct program_result result = BENCH("--sequences", "2,16", "-p", "9", "-n", "0", "-r", "1");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.out, "prefill      9 tokens each"), 1, "%s", result.out);
    cr_assert(strstr(result.out, "\n        2  ") && strstr(result.out, "\n       16  "), "%s", result.out);
    cr_assert_null(strstr(result.out, "decode"));
    program_free(&result);
}

Test(bench, refuses_nonsense)
{
    static const char *const lists[] = {"",   "0", "x", "-1", "1,,2", "1,", "1025", "99999999999999999999",
                                        "1 2"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        program_fails(BENCH("--sequences", lists[i], "-p", "9"), 0, "must be numbers from 1 to 1024");
    char many[200] = "1";
    for (size_t i = 0; i < 64; i++) strcat(many, ",1");
    program_fails(BENCH("--sequences", many), 0, "more than 64 numbers");
    program_fails(BENCH("--sequences", "2", "-c", "16", "-p", "9", "-n", "8"), 0, "a context of 17 tokens");
    program_fails(BENCH("-c", "16", "-p", "17"), 0, "a context of 64 tokens");
    program_fails(BENCH("-p", "0", "-n", "0"), 0, "nothing to measure");
    program_fails(BENCH("--sequences", "2", "--lookup"), 0, "cannot be combined");
    program_fails(BENCH("--lookup", "-d", "4"), 0, "cannot be combined");
    program_fails(BENCH("--draft", model, "-n", "1"), 0, "-n must be 2 or more");
    program_fails(BENCH("--lookup", "-p", "0"), 0, "the prompt is empty");
    program_fails(BENCH("-f", model), 0, "--file needs --lookup or --draft");
    program_fails(BENCH("--lookup", "-f", files_path(folder, "none.txt"), "-n", "4"), 0, "none.txt");
    program_fails(BENCH("--draft", files_path(folder, "none.gguf"), "-p", "9", "-n", "4"), 0, "none.gguf");
    program_fails(BENCH("--draft-max", "4"), 0, "need --lookup or --draft");
}

/* ---- Guesses ---- */

/* A model guesses itself: all guesses come true. */
Test(bench, guesses_of_a_draft_model)
{
    json_t *json = program_json(BENCH("--draft", model, "--draft-min", "3", "--draft-max", "3", "-p", "9",
                                      "-n", "13", "-r", "2", "--json"));
    check_speed(json_object_get(json, "decode"), 13);
    check_speed(json_object_get(json, "decode_with_guesses"), 13);
    json_int_t guessed = json_integer_value(json_object_get(json, "guessed_tokens"));
    cr_assert_geq(guessed, 8);
    cr_assert_eq(json_integer_value(json_object_get(json, "accepted_tokens")), guessed);
    cr_assert_gt(json_real_value(json_object_get(json, "ratio")), 0);
    json_decref(json);
}

Test(bench, guesses_after_a_text)
{
    files_write_text(files_path(folder, "text"), "ab ab ab ab ab ab");
    json_t *json =
        program_json(BENCH("--lookup", "-f", files_path(folder, "text"), "-n", "8", "-r", "1", "--json"));
    json_int_t n_prompt = json_integer_value(json_object_get(json, "prompt_tokens"));
    cr_assert(n_prompt > 4 && n_prompt < 20, "%d", (int)n_prompt);
    json_decref(json);

    struct program_result result = BENCH("--lookup", "-p", "40", "-n", "8", "-r", "1");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert(strstr(result.out, "times as fast; guessed: "), "%s", result.out);
    cr_assert(strstr(result.out, "after a prompt of 40 tokens, one run, "), "%s", result.out);
    program_free(&result);
}
