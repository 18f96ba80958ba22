/* test-check.c: `engine plugins check`: our plugins conform, and plugins with a fault are found out, each for its own. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "program.h"

#define BUILT TEST_BINARY_DIR "/plugins/built"

/* The checks of a plugin as JSON. *status is the program's. */
static json_t *check(const char *folder, const char *name, int *status)
{
    char path[1024];
    json_error_t error;
    /* AddressSanitizer would keep what is given back for a while. */
    if (!getenv("ASAN_OPTIONS")) setenv("ASAN_OPTIONS", "quarantine_size_mb=1", 1);
    snprintf(path, sizeof path, "%s/%s.so", folder, name);
    struct program_result result =
        program_run((const char *const[]){"plugins", "check", path, "--json", NULL}, NULL, 0);
    json_t *json = json_loads(result.out, 0, &error);
    cr_assert(json, "%s: status %d, %s%s", name, result.status, result.out, result.err);
    *status = result.status;
    program_free(&result);
    return json;
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
    json_t *json = check(folder, name, &status), *row;
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

/* A plugin that fails for a reason: the check that finds it, and words of its message. All other failures are of checks
 * that `may_fail` names the area of, if it isn't NULL. */
static void fails(const char *name, const char *area, const char *what, const char *words,
                  const char *may_fail)
{
    int status;
    size_t i;
    bool found = false;
    /* Under AddressSanitizer too a crash is to look like one, and what a fault leaves behind is not the matter. */
    setenv("ASAN_OPTIONS", "detect_leaks=0:handle_segv=0:quarantine_size_mb=1", 1);
    json_t *json = check(BUILT, name, &status), *row;
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

Test(check, the_cpu)
{
    conforms(TEST_PLUGIN_DIR, "cpu", 191, true);
}

Test(check, tokenizers)
{
    static const char *const names[] = {"spm", "bpe", "ugm", "wpm", "rwkv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) conforms(TEST_PLUGIN_DIR, names[i], 13, true);
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
    fails("broken-input", "matmul", "F32", "operand 1, which is only read, was changed",
          "matmul memory limit");
}

Test(check, sources_that_are_read_too_late)
{
    fails("broken-write", "buffers", "transfers of words", "bytes from",
          "buffers matmul streams threads opening");
}

Test(check, a_claim_that_is_not_true)
{
    fails("broken-claim", "fused matmul", "F32", "matmul: value", "fused matmul arguments");
}

Test(check, memory_that_is_not_given_back)
{
    fails("broken-leak", "buffers", "are given back", "left", "memory limit");
}

Test(check, a_crash)
{
    fails("broken-crash", "weights", "Q8_0", "the plugin crashed: signal 11", "matmul");
}

Test(check, an_end_as_if_all_were_well)
{
    fails("broken-end", "matmul", "F32", "ended the process, with status 0",
          "memory limit streams arguments threads opening");
}

Test(check, a_tokenizer_that_cuts_characters)
{
    fails("bytes", "test-bytes", "encode and decode", "in two parts", "test-bytes");
}

Test(check, files_that_are_no_plugins)
{
    struct program_result result =
        program_run((const char *const[]){"plugins", "check", BUILT "/bad-major.so", NULL}, NULL, 0);
    cr_expect_eq(result.status, 1);
    cr_expect(strstr(result.err, "built for plugin ABI"), "%s", result.err);
    program_free(&result);
    result = program_run((const char *const[]){"plugins", "check", "/nonexistent.so", NULL}, NULL, 0);
    cr_expect_eq(result.status, 1);
    cr_expect(strstr(result.err, "/nonexistent.so: No such file"), "%s", result.err);
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
