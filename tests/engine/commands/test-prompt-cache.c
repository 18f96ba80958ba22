/* test-prompt-cache.c: `engine run --prompt-cache`, from outside: texts are the same with the file and
 * without. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "program-model.h"
#include "program.h"

static char cache[256];

static void begin(void)
{
    begin_model();
    snprintf(cache, sizeof cache, "%s", files_path(folder, "prompt.cache"));
}

TestSuite(prompt_cache, .init = begin, .fini = end_model);

#define SHORT "abcdefghijklmnopqrstuvwxyzabcdefghijklmnop"
#define LONG  SHORT "0123456789"
#define OTHER "abcdefghijklmnopqrstuvwxyzabcdefghijklmnoX"

/* Runs a prompt with the file, and an option beside it. Its text has to be that of a run without. Returns how
 * many tokens came from the file. */
static int run(const char *prompt, const char *option)
{
    struct program_result plain = PROGRAM("-m", model, "-p", prompt, "-n", "8", "--temp", "0");
    struct program_result result =
        PROGRAM("-m", model, "-p", prompt, "-n", "8", "--temp", "0", "--prompt-cache", cache, option);
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(plain.status, 0, "%s", plain.err);
    cr_assert_str_eq(result.out, plain.out);
    int n_cached = 0;
    const char *told = strstr(result.err, "from the prompt cache: ");
    if (told) sscanf(told, "from the prompt cache: %d token", &n_cached);
    program_free(&plain);
    program_free(&result);
    return n_cached;
}

static off_t size_of_file(void)
{
    struct stat info;
    return stat(cache, &info) == 0 ? info.st_size : -1;
}

Test(prompt_cache, what_prompts_have_in_common_is_computed_once)
{
    cr_assert_eq(run(SHORT, "--prompt-cache-ro"), 0);
    cr_assert_eq(size_of_file(), -1);
    cr_assert_eq(run(SHORT, NULL), 0);
    off_t size = size_of_file();
    cr_assert_gt(size, 0);
    int n = run(SHORT, NULL);
    cr_assert_gt(n, 20);
    cr_assert_geq(run(LONG, "--prompt-cache-ro"), n);
    cr_assert_eq(size_of_file(), size);
    cr_assert_geq(run(LONG, NULL), n);
    cr_assert_gt(size_of_file(), size);
    cr_assert_gt(run(LONG, NULL), n);
    size = size_of_file();
    cr_assert_eq(run(SHORT, NULL), n); /* the longer one stays */
    cr_assert_eq(size_of_file(), size);
    cr_assert_leq(run(OTHER, NULL), n);
    cr_assert_lt(size_of_file(), size);
    run(OTHER, "--prompt-cache-all");
    size = size_of_file();
    cr_assert_gt(size, 0);
    /* Guesses leave what the text without them leaves. */
    cr_assert_eq(remove(cache), 0);
    run(OTHER, "--prompt-cache-all");
    size = size_of_file();
    cr_assert_eq(remove(cache), 0);
    struct program_result guessed = PROGRAM("-m", model, "-p", OTHER, "-n", "8", "--temp", "0",
                                            "--prompt-cache", cache, "--prompt-cache-all", "--lookup");
    cr_assert_eq(guessed.status, 0, "%s", guessed.err);
    cr_assert_eq(size_of_file(), size);
    program_free(&guessed);
    run(OTHER, "--lookup");
}

Test(prompt_cache, wrong_files_are_refused)
{
    files_write_text(cache,
                     "no sequence, whatever its name says, and long enough to be taken for a header or more");
    program_fails(PROGRAM("-m", model, "-p", "a", "--prompt-cache", cache), 1,
                  "prompt.cache: not a saved sequence");
    program_fails(PROGRAM("-m", model, "-p", "a", "--prompt-cache", model), 2, "same file as the input");
    program_fails(PROGRAM("-m", model, "-f", cache, "--prompt-cache", cache), 2, "same file as the input");
    program_fails(
        program_run((const char *const[]){"-m", model, "-p", "-", "--prompt-cache", "/dev/stdin", NULL}, "a",
                    1),
        2, "same file as the input on standard input");
    program_fails(PROGRAM("-m", model, "-p", "a", "--prompt-cache", ""), 2, "which file?");
    program_fails(PROGRAM("-m", model, "-p", "a", "--prompt-cache-all"), 2, "goes with --prompt-cache FILE");
    program_fails(
        PROGRAM("-m", model, "-p", "a", "--prompt-cache", cache, "--prompt-cache-all", "--prompt-cache-ro"),
        2, "can't be given together");
    program_fails(PROGRAM("-m", model, "-p", "a", "--prompt-cache", FILES_ABSENT "/file"), 1,
                  FILES_ABSENT "/file");
}
