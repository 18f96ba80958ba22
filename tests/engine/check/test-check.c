/* test-check.c: `engine plugins check`: our plugins conform, and plugins with a fault are found out, each for
 * its own. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"
#include "files.h"
#include "program.h"
#include "sample.h"

#define BUILT TEST_BINARY_DIR "/fixtures/plugins/built"

/* The checks of a plugin as JSON, or those that `only` names, with a time limit of so many seconds; of all
 * checks every `step`-th case. *status is the program's. */
static json_t *check_some(const char *folder, const char *name, const char *only, unsigned step,
                          const char *seconds, int *status)
{
    char path[1024], sample[16];
    json_error_t error;
    /* AddressSanitizer would keep what is given back for a while. */
    if (!getenv("ASAN_OPTIONS")) setenv("ASAN_OPTIONS", "quarantine_size_mb=1", 1);
    snprintf(path, sizeof path, "%s/%s.so", folder, name);
    snprintf(sample, sizeof sample, "%u", step);
    struct program_result result =
        program_run((const char *const[]){"plugins", "check", path, "--json", "--timeout", seconds,
                                          only ? "--case" : "--sample", only ? only : sample, NULL},
                    NULL, 0);
    json_t *json = json_loads(result.out, 0, &error);
    cr_assert(json, "%s: status %d, %s%s", name, result.status, result.out, result.err);
    *status = result.status;
    program_free(&result);
    return json;
}

static json_t *check_only(const char *folder, const char *name, const char *only, const char *seconds,
                          int *status)
{
    return check_some(folder, name, only, 1, seconds, status);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* `claims_all`: and no case of a row that it has is left out. */
static void conforms(const char *folder, const char *name, size_t checks, bool claims_all)
{
    int status;
    size_t i, passed = 0;
    json_t *json = check_only(folder, name, NULL, "600", &status), *row;
    json_array_foreach(json_object_get(json, "checks"), i, row)
    {
        cr_expect_str_neq(text_of(row, "result"), "failed", "%s: %s, %s: %s", name, text_of(row, "area"),
                          text_of(row, "check"), text_of(row, "message"));
        passed += strcmp(text_of(row, "result"), "passed") == 0;
        if (claims_all && strcmp(text_of(row, "result"), "passed") == 0)
            cr_expect_str_empty(text_of(row, "message"), "%s: %s, %s: %s", name, text_of(row, "area"),
                                text_of(row, "check"), text_of(row, "message"));
    }
    cr_expect(json_is_true(json_object_get(json, "conforms")));
    cr_expect_geq(passed, checks, "%s: only %zu checks", name, passed);
    cr_expect_eq(status, 0);
    json_decref(json);
}

/* A plugin that fails for a reason: the check that finds it, and words of its message. All other failures are
 * of checks that `may_fail` names the area of, if it isn't NULL. */
static void fails_in(unsigned step, const char *name, const char *area, const char *what, const char *words,
                     const char *may_fail)
{
    int status;
    size_t i;
    bool found = false;
    /* Under AddressSanitizer too a crash is to look like one, and what a fault leaves behind is not the
     * matter. */
    setenv("ASAN_OPTIONS", "detect_leaks=0:handle_segv=0:quarantine_size_mb=1", 1);
    json_t *json = check_some(BUILT, name, NULL, step, "600", &status), *row;
    json_array_foreach(json_object_get(json, "checks"), i, row)
    {
        if (strcmp(text_of(row, "result"), "failed") != 0) continue;
        bool here = strcmp(text_of(row, "area"), area) == 0 && strcmp(text_of(row, "check"), what) == 0;
        found = found || (here && strstr(text_of(row, "message"), words));
        cr_expect(here || (may_fail && strstr(may_fail, text_of(row, "area"))), "%s: %s, %s: %s", name,
                  text_of(row, "area"), text_of(row, "check"), text_of(row, "message"));
    }
    cr_expect(found, "%s: %s, %s doesn't fail with \"%s\"", name, area, what, words);
    cr_expect_eq(status, 1);
    cr_expect(json_is_false(json_object_get(json, "conforms")));
    json_decref(json);
}

/* The same of a fault that a third of the cases find as well. */
static void fails(const char *name, const char *area, const char *what, const char *words,
                  const char *may_fail)
{
    fails_in(all_or_sample(1, 3), name, area, what, words, may_fail);
}

Test(check, the_cpu)
{
    conforms(TEST_PLUGIN_DIR, "cpu", 213, true);
}

Test(check, tokenizers)
{
    static const char *const names[] = {"spm", "bpe", "ugm", "wpm", "rwkv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) conforms(TEST_PLUGIN_DIR, names[i], 14, true);
}

Test(check, the_examples)
{
    conforms(BUILT, "minimal", 20, true);
    conforms(BUILT, "example-bytes", 13, true);
}

Test(check, a_token_that_is_left_out)
{
    fails("broken-token", "matmul", "F32", "nan, not", "matmul memory limit");
}

Test(check, an_input_that_is_changed)
{
    fails("broken-input", "matmul", "F32", "`input`, which is only read, was changed",
          "matmul memory limit random blocks streams");
}

Test(check, sources_that_are_read_too_late)
{
    fails("broken-write", "buffers", "transfers of words", "bytes from",
          "buffers matmul streams threads opening");
}

Test(check, a_claim_of_batch_invariance_that_is_not_true)
{
    fails("broken-batches", "batches", "matmul F32", "value 0 of token 0 is ", "batches");
}

Test(check, a_claim_that_is_not_true)
{
    fails("broken-claim", "fused matmul", "F32", "matmul: value", "fused matmul arguments");
}

Test(check, memory_that_is_not_given_back)
{
    fails("broken-leak", "buffers", "are given back", "stayed in use", "buffers streams memory limit");
}

Test(check, weights_that_are_not_given_back)
{
    fails("broken-leak-weight", "weights", "are given back", "10 weights were destroyed, and at least",
          "weights streams");
#if !SANITIZED /* its allocator does not count the heap as glibc does */
    fails("broken-leak-handle", "weights", "small ones are given back",
          "50 weights were destroyed, and at least", "weights streams");
#endif
}

/* A fault that is found by one row, and by no other of its area. */
static void only_fails(const char *name, const char *area, const char *what)
{
    int status;
    size_t i;
    json_t *json = check_only(BUILT, name, area, "600", &status), *row;
    bool found = false;
    json_array_foreach(json_object_get(json, "checks"), i, row)
    {
        const bool here = strcmp(text_of(row, "check"), what) == 0;
        const bool failed = strcmp(text_of(row, "result"), "failed") == 0;
        found = found || (here && failed);
        cr_expect(here || !failed || strstr(text_of(row, "check"), "large"), "%s: %s: %s", name,
                  text_of(row, "check"), text_of(row, "message"));
    }
    cr_expect(found, "%s: %s %s doesn't fail", name, area, what);
    cr_expect_eq(status, 1);
    json_decref(json);
}

Test(check, faults_of_large_shapes_alone)
{
    only_fails("broken-long", "matmul", "F32, large");
    only_fails("broken-tall", "matmul", "F32, large");
    only_fails("broken-tallest", "matmul", "Q4_K, large");
}

Test(check, a_fault_of_one_type_that_is_claimed_for_products_alone)
{
    only_fails("broken-grid", "random blocks", "matmul, IQ2_XXS");
}

Test(check, operations_that_keep_memory)
{
#if !SANITIZED /* its allocator does not count the heap as glibc does */
    only_fails("broken-keeps", "streams", "operations leave nothing");
#endif
}

Test(check, rows_taken_as_if_nothing_lay_between_them)
{
    fails_in(1, "broken-strides", "matmul", "F32", "matmul: value", "matmul");
}

Test(check, a_crash)
{
    fails("broken-crash", "weights", "Q8_0", "the plugin crashed: signal 11", "matmul random blocks");
}

Test(check, an_end_as_if_all_were_well)
{
    fails("broken-end", "matmul", "F32", "ended the process, with status 0",
          "memory limit matmul random blocks streams arguments threads opening");
}

Test(check, a_tokenizer_that_cuts_characters)
{
    fails("bytes", "test-bytes", "encode and decode", "in two parts", "test-bytes");
}

/* ---- One case ---- */

/* The row of a check; NULL: there is none. */
static json_t *row_of(const json_t *json, const char *area, const char *what)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(json, "checks"), i, row)
    {
        if (strcmp(text_of(row, "area"), area) == 0 && strcmp(text_of(row, "check"), what) == 0) return row;
    }
    return NULL;
}

static size_t count_rows(const json_t *json)
{
    return json_array_size(json_object_get(json, "checks"));
}

static void expect_word(const json_t *row, const char *key, const char *word)
{
    cr_expect(strstr(text_of(row, key), word), "no \"%s\" in %s: %s", word, key, text_of(row, key));
}

Test(check, a_failed_case_says_what_it_did_and_fails_alone)
{
    int status;
    json_t *all = check_only(BUILT, "broken-strides", "broken0 matmul", "600", &status);
    json_t *row = row_of(all, "matmul", "F32");
    expect_word(row, "tried",
                "F32, k 1, 15 rows, 2 tokens, gaps 12 and 0; matmul of weight F32 [1, 15], input F32 "
                "[1, 2] strides [4, 16]");
    cr_expect_str_eq(text_of(row, "alone"), "broken0 matmul F32 #2");
    json_t *alone = check_only(BUILT, "broken-strides", text_of(row, "alone"), "600", &status);
    cr_assert_eq(count_rows(alone), 1u);
    json_t *same = json_array_get(json_object_get(alone, "checks"), 0);
    cr_expect_eq(status, 1);
    cr_expect_eq(json_integer_value(json_object_get(same, "cases")), 1);
    cr_expect_str_eq(text_of(same, "tried"), text_of(row, "tried"));
    cr_expect_str_eq(text_of(same, "message"), text_of(row, "message"));
    json_decref(alone);
    alone = check_only(BUILT, "broken-strides", "matmul F32 #1", "600", &status);
    cr_expect_eq(status, 0);
    cr_expect_eq(count_rows(alone), 1u);
    json_decref(alone);
    json_decref(all);
}

Test(check, areas_and_checks_by_name)
{
    int status;
    json_t *json = check_only(BUILT, "minimal", "buffers", "600", &status);
    cr_expect_eq(status, 0);
    cr_expect_eq(count_rows(json), 8u);
    json_decref(json);
    json = check_only(BUILT, "minimal", "minimal0 arguments uses of weights", "600", &status);
    cr_expect_eq(count_rows(json), 1u);
    json_decref(json);
    json = check_only(TEST_PLUGIN_DIR, "spm", "llama pieces", "600", &status);
    cr_expect_eq(count_rows(json), 1u);
    json_decref(json);
    static const char *const none[] = {"bogus", "matmul F32 #900", "minimal1 matmul", "#3", "matmul F32 #"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct program_result result = PROGRAM("plugins", "check", BUILT "/minimal.so", "--case", none[i]);
        cr_expect_eq(result.status, 2, "%s: %d", none[i], result.status);
        cr_expect(strstr(result.err, none[i]), "%s", result.err);
        program_free(&result);
    }
    struct program_result result = PROGRAM("plugins", "--case", "matmul");
    cr_expect_eq(result.status, 2);
    program_free(&result);
}

Test(check, what_is_claimed_in_part_is_listed)
{
    int status;
    json_t *json = check_only(BUILT, "broken-part", "matmul F32", "600", &status);
    const json_t *row = row_of(json, "matmul", "F32"), *cases = json_object_get(row, "not_claimed");
    cr_expect_eq(status, 0);
    cr_expect_eq(json_array_size(cases), 80u);
    const char *first = json_string_value(json_array_get(cases, 0));
    cr_expect_str_eq(first ? first : "", "#1: F32, k 1, 1 rows, 1 tokens");
    json_decref(json);
    struct program_result result =
        PROGRAM("plugins", "check", BUILT "/broken-part.so", "--case", "matmul F32");
    cr_expect(strstr(result.out, "F32, 80 of 96 cases:"), "%s", result.out);
    cr_expect(strstr(result.out, "#2: F32, k 1, 15 rows"), "%s", result.out);
    cr_expect(strstr(result.out, "and 78 more"), "%s", result.out);
    program_free(&result);
    result = PROGRAM("plugins", "check", BUILT "/broken-part.so", "--case", "matmul F32", "-v");
    cr_expect_eq(program_count_lines(result.out, "#"), 80u, "%s", result.out);
    program_free(&result);
}

Test(check, a_sample_takes_the_first_case_and_every_nth)
{
    struct program_result result =
        PROGRAM("plugins", "check", BUILT "/minimal.so", "--case", "matmul F32", "--sample", "10");
    cr_expect_eq(result.status, 0);
    cr_expect(strstr(result.out, " 10 "), "10 of 96 cases, #1 to #91: %s", result.out);
    program_free(&result);
    result = PROGRAM("plugins", "check", BUILT "/minimal.so", "--case", "matmul F32 #4", "--sample", "10");
    cr_expect_eq(result.status, 0, "a case that is named is tried: %s", result.out);
    program_free(&result);
    result = PROGRAM("plugins", "--sample", "10");
    cr_expect_eq(result.status, 2);
    program_free(&result);
}

/* ---- What goes on ---- */

/* Where plugins write down the processes that they begin, and their own. */
static void begin_pids(char path[32])
{
    strcpy(path, "/tmp/test-check-XXXXXX");
    int file = mkstemp(path);
    cr_assert(file >= 0);
    close(file);
    setenv("TEST_PID_FILE", path, 1);
}

/* Processes that the plugin wrote down, and how many of them are there still. */
static size_t count_pids(const char *path, size_t *alive)
{
    FILE *file = fopen(path, "r");
    int pid;
    size_t n = 0;
    *alive = 0;
    cr_assert(file);
    while (fscanf(file, "%d", &pid) == 1) n++, *alive += kill(pid, 0) == 0;
    fclose(file);
    return n;
}

static void expect_no_pids(const char *path)
{
    size_t alive;
    cr_expect_geq(count_pids(path, &alive), 2u);
    cr_expect_eq(alive, 0u);
    unlink(path);
}

Test(check, an_operation_that_hangs)
{
    char pids[32];
    int status;
    begin_pids(pids);
    json_t *json = check_only(BUILT, "broken-hang", "matmul F32", "3", &status);
    const json_t *row = row_of(json, "matmul", "F32");
    cr_expect_eq(status, 1);
    expect_word(row, "message", "it hangs: no end after 3 s");
    expect_word(row, "tried", "k 1, 1 rows, 1 tokens; matmul of weight F32 [1]");
    cr_expect_str_eq(text_of(row, "alone"), "broken0 matmul F32 #1");
    expect_no_pids(pids);
    json_decref(json);
}

Test(check, a_device_that_hangs)
{
    int status;
    json_t *json = check_only(BUILT, "broken-hang-open", NULL, "3", &status);
    expect_word(row_of(json, "devices", "device_open"), "message", "it hangs: no end after 3 s");
    cr_expect_eq(count_rows(json), 2u);
    cr_expect_eq(status, 1);
    json_decref(json);
}

Test(check, processes_and_threads_that_stay)
{
    char pids[32];
    int status;
    begin_pids(pids);
    json_t *json = check_only(BUILT, "broken-process", "matmul F32", "600", &status);
    expect_word(row_of(json, "matmul", "the end"), "message",
                "1 process that it had begun still ran ('engine')");
    cr_expect_eq(status, 1);
    expect_no_pids(pids);
    json_decref(json);
    json = check_only(BUILT, "broken-thread", "matmul F32", "600", &status);
    expect_word(row_of(json, "matmul", "the end"), "message", "the plugin crashed");
    cr_expect_eq(status, 1);
    json_decref(json);
}

/* Ended by a signal while a plugin hangs, it leaves nothing. */
static void is_ended_by(int signal_number)
{
    char pids[32];
    size_t alive = 0;
    int status;
    begin_pids(pids);
    pid_t program = fork();
    cr_assert(program >= 0);
    if (program == 0) {
        execl(TEST_ENGINE, "engine", "plugins", "check", BUILT "/broken-hang.so", "--case", "matmul F32",
              NULL);
        _exit(127);
    }
    while (count_pids(pids, &alive) < 2) usleep(10000);
    cr_expect_eq(alive, 2u);
    kill(program, signal_number);
    cr_assert_eq(waitpid(program, &status, 0), program);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == signal_number);
    for (int i = 0; i < 60000 && alive > 0; i++) usleep(10000), count_pids(pids, &alive);
    expect_no_pids(pids);
}

Test(check, nothing_is_left_where_the_checker_is_ended)
{
    is_ended_by(SIGKILL);
    is_ended_by(SIGINT);
    is_ended_by(SIGTERM);
}

Test(check, files_that_are_no_plugins)
{
    struct program_result result =
        program_run((const char *const[]){"plugins", "check", BUILT "/bad-major.so", NULL}, NULL, 0);
    cr_expect_eq(result.status, 1);
    cr_expect(strstr(result.err, "built for plugin ABI"), "%s", result.err);
    program_free(&result);
    result = program_run((const char *const[]){"plugins", "check", FILES_ABSENT ".so", NULL}, NULL, 0);
    cr_expect_eq(result.status, 1);
    cr_expect(strstr(result.err, FILES_ABSENT ".so: No such file"), "%s", result.err);
    program_free(&result);
    result = program_run((const char *const[]){"plugins", "check", NULL}, NULL, 0);
    cr_expect_eq(result.status, 2);
    program_free(&result);
}

/* ---- Through engine.h ---- */

struct seen {
    size_t rows, failed, of_another_size;
};

static void see(void *user, const struct engine_check_row *row)
{
    struct seen *seen = user;
    seen->rows++;
    seen->failed += row->result == ENGINE_CHECK_FAILED;
    seen->of_another_size += row->struct_size != sizeof *row;
}

Test(check, through_the_library)
{
    struct seen seen = {0};
    struct engine_check_options options = {.struct_size = sizeof options, .row = see, .user = &seen};
    struct engine_checked_plugin plugin = {.struct_size = sizeof plugin};
    int status = engine_check_plugin(BUILT "/minimal.so", &options, &plugin);
    cr_assert_eq(status, ENGINE_OK, "%s", engine_error_message());
    cr_expect_str_eq(plugin.name, "minimal");
    cr_expect_eq(plugin.kind, (uint32_t)ENGINE_PLUGIN_BACKEND);
    cr_expect_eq(plugin.struct_size, sizeof plugin);
    cr_expect_eq(plugin.n_devices, 1u);
    cr_expect_geq(seen.rows, 20u);
    cr_expect_eq(seen.failed, 0u);
    cr_expect_eq(seen.of_another_size, 0u);

    cr_expect_eq(engine_check_plugin(BUILT "/bad-major.so", &options, &plugin), ENGINE_ERROR_DATA);
    cr_expect(strstr(engine_error_message(), "built for plugin ABI"), "%s", engine_error_message());
}

Test(check, what_it_cannot_be_asked)
{
    static const char *const nowhere[] = {NULL};
    struct seen seen = {0};
    struct engine_check_options options = {.struct_size = sizeof options};
    struct engine_checked_plugin plugin = {.struct_size = sizeof plugin};
    cr_expect_eq(engine_check_plugin(BUILT "/minimal.so", &options, &plugin), ENGINE_ERROR_ARGUMENT);
    options.row = see;
    options.user = &seen;
    struct engine_options settings = {
        .struct_size = sizeof settings, .plugin_dirs = nowhere, .config_file = "/dev/null"};
    struct engine *engine;
    cr_assert_eq(engine_open(&settings, &engine), ENGINE_OK, "%s", engine_error_message());
    cr_expect_eq(engine_check_plugin(BUILT "/minimal.so", &options, &plugin), ENGINE_ERROR_ARGUMENT);
    cr_expect(strstr(engine_error_message(), "an engine is open"), "%s", engine_error_message());
    cr_expect_eq(seen.rows, 0u);
    engine_close(engine);
}
