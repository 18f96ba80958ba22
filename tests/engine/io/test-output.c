/* test-output.c: files that commands write, when the program is ended in the middle: what was there stays,
 * and nothing unfinished is left for good. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "gguf-writer.h"
#include "io/output.h"
#include "program.h"

static char *folder, *in, *out, *err;

/* A file of zeros that takes seconds, and little room. */
static void write_large(const char *path)
{
    struct gguf_writer *writer = gguf_create(3);
    struct stat info;
    gguf_add_tensor_at(writer, "a.weight", ENGINE_TYPE_F32, 2, (uint64_t[]){1024, 131072}, 0);
    cr_assert(gguf_save(writer, path));
    gguf_destroy(writer);
    cr_assert_eq(stat(path, &info), 0);
    cr_assert_eq(truncate(path, info.st_size + 1024 + (off_t)1024 * 131072 * 4), 0);
}

static void setup(void)
{
    folder = files_folder();
    in = strdup(files_path(folder, "large.gguf"));
    out = strdup(files_path(folder, "out.gguf"));
    err = strdup(files_path(folder, "err"));
    write_large(in);
    files_write_text(err, "");
}

static void teardown(void)
{
    files_remove(folder);
    free(folder), free(in), free(out), free(err);
}

TestSuite(output, .init = setup, .fini = teardown);

static size_t count_files(void)
{
    size_t n = 0;
    DIR *listing = opendir(folder);
    cr_assert(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(listing);
    return n;
}

/* Its standard error goes to `err`. */
static pid_t begin(const char *const *arguments, int ignored)
{
    fflush(NULL);
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing running */
        for (int s = 1; s < SIGSYS; s++) signal(s, s == ignored ? SIG_IGN : SIG_DFL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        freopen(err, "w", stderr);
        freopen("/dev/null", "w", stdout);
        setenv("XDG_CONFIG_HOME", "/dev/null", 1);
        execv(TEST_ENGINE, (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    return child;
}

static pid_t begin_quantizing(int ignored)
{
    return begin((const char *const[]){"engine", "quantize", "-t", "1", in, out, "Q2_K", NULL}, ignored);
}

/* Once there is the unfinished file, it is under way. */
static void wait_until_writing(pid_t child, size_t before)
{
    int status;
    while (count_files() == before) {
        cr_assert_eq(waitpid(child, &status, WNOHANG), 0, "it has ended already");
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static int end_of(pid_t child)
{
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

static void ended_by(int signal_number)
{
    size_t before = count_files();
    pid_t child = begin_quantizing(0);
    wait_until_writing(child, before);
    cr_assert_eq(kill(child, signal_number), 0);
    int status = end_of(child);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == signal_number, "%s: ended with %x",
              strsignal(signal_number), (unsigned)status);
    cr_expect_eq(count_files(), before, "%s", strsignal(signal_number));
}

Test(output, signals_leave_nothing)
{
    ended_by(SIGINT);
    ended_by(SIGTERM);
    ended_by(SIGHUP);
    ended_by(SIGQUIT);
    files_write_text(out, "old");
    ended_by(SIGTERM);
    size_t size;
    char *old = files_read(out, &size);
    cr_assert_str_eq(old, "old");
    free(old);
}

/* As a signal does it while `engine run` writes both. */
Test(output, both_of_two_are_removed)
{
    struct output outputs[OUTPUTS_MAX];
    const char *const names[] = {"first", "second"};
    const size_t before = count_files();
    for (int kept = 0; kept < OUTPUTS_MAX; kept++) {
        for (int i = 0; i < OUTPUTS_MAX; i++)
            cr_assert_eq(output_open(&outputs[i], files_path(folder, names[i])), ENGINE_OK);
        cr_assert_eq(count_files(), before + 2 + (size_t)kept);
        cr_assert_eq(output_close(&outputs[kept], true), ENGINE_OK);
        output_discard();
        cr_expect_eq(count_files(), before + 1 + (size_t)kept);
        output_close(&outputs[1 - kept], false);
    }
}

/* nohup: the lower number is delivered first. */
Test(output, an_ignored_signal_stays_ignored)
{
    size_t before = count_files();
    pid_t child = begin_quantizing(SIGHUP);
    wait_until_writing(child, before);
    cr_assert_eq(kill(child, SIGSTOP), 0);
    cr_assert_eq(kill(child, SIGHUP), 0);
    cr_assert_eq(kill(child, SIGTERM), 0);
    cr_assert_eq(kill(child, SIGCONT), 0);
    int status = end_of(child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "ended with %x", (unsigned)status);
    cr_assert_eq(count_files(), before);
}

Test(output, a_file_that_may_not_grow)
{
    struct rlimit limit;
    size_t before = count_files();
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 1 << 20;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct program_result result = PROGRAM("quantize", in, out, "Q8_0");
    cr_assert_eq(result.status, 1, "%s", result.err);
    program_fails(result, 0, "out.gguf: File too large");
    cr_assert_eq(count_files(), before);
}

/* The name of the unfinished file of `out`, in the folder. */
static const char *find_part(void)
{
    static char name[256];
    DIR *listing = opendir(folder);
    cr_assert(listing);
    name[0] = '\0';
    for (struct dirent *entry; (entry = readdir(listing));)
        if (strncmp(entry->d_name, "out.gguf.", 9) == 0) snprintf(name, sizeof name, "%s", entry->d_name);
    closedir(listing);
    return name;
}

/* What a kill has left the next run removes, however many there are; what others write or own it leaves
 * alone. */
Test(output, what_a_kill_leaves_goes_with_the_next_run)
{
    static const char *const strangers[] = {
        "out.gguf.part0", "out.gguf.1a2b3c4d5e6f.part", "out.gguf.1a2b3c4d5e6.engine-part",
        "other.gguf.1a2b3c4d5e6f.engine-part", "out.gguf.1a2b3c4d5e6f.engine-part.gz"};
    size_t n_strangers = sizeof strangers / sizeof *strangers, before;
    for (size_t i = 0; i < n_strangers; i++) files_write_text(files_path(folder, strangers[i]), "mine");
    before = count_files();
    pid_t child = begin_quantizing(0);
    wait_until_writing(child, before);
    cr_assert_eq(kill(child, SIGKILL), 0);
    end_of(child);
    cr_assert_eq(count_files(), before + 1);
    char name[64];
    for (unsigned i = 0; i < 150; i++) {
        snprintf(name, sizeof name, "out.gguf.%012x.engine-part", i);
        files_write_text(files_path(folder, name), "left over");
    }
    cr_assert_eq(unlink(in), 0);
    cr_assert(write_tiny_llama(in, &(struct tiny_llama){.seed = 1}));
    struct program_result result = PROGRAM("quantize", in, out, "F16");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    cr_assert_eq(count_files(), before + 1, "only the output is new");
    for (size_t i = 0; i < n_strangers; i++)
        cr_assert_eq(access(files_path(folder, strangers[i]), F_OK), 0, "%s", strangers[i]);
}

/* Two that write the same output at once don't take each other's file for left over. */
Test(output, what_is_being_written_stays)
{
    size_t before = count_files();
    pid_t child = begin_quantizing(0);
    wait_until_writing(child, before);
    char *part = strdup(files_path(folder, find_part())), *small = strdup(files_path(folder, "small.gguf"));
    cr_assert(write_tiny_llama(small, &(struct tiny_llama){.seed = 1}));
    struct stat info = {.st_size = 0};
    while (info.st_size == 0 && stat(part, &info) == 0) continue; /* it is locked before it is written */
    cr_assert_eq(kill(child, SIGSTOP), 0);
    struct program_result result = PROGRAM("quantize", small, out, "F16");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    cr_assert_eq(access(part, F_OK), 0, "it was taken away from its writer");
    cr_assert_eq(kill(child, SIGKILL), 0);
    end_of(child);
    free(part), free(small);
}

/* A name with no room behind it for more letters. */
Test(output, a_name_of_the_greatest_length)
{
    char name[256], *longest;
    memset(name, 'x', 255);
    name[255] = '\0';
    longest = strdup(files_path(folder, name));
    cr_assert_eq(unlink(in), 0);
    cr_assert(write_tiny_llama(in, &(struct tiny_llama){.seed = 1}));
    size_t before = count_files();
    struct program_result result = PROGRAM("quantize", in, longest, "F16");
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    cr_assert_eq(count_files(), before + 1);
    free(longest);
}

/* ---- A model that gets shorter ---- */

/* One line that names the model, and status 1. */
static void told_of(const char *path, int status)
{
    char expected[512];
    size_t size;
    char *text = files_read(err, &size);
    snprintf(expected, sizeof expected,
             "engine: %s: the file was truncated while in use, or cannot be read any more\n", path);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1, "ended with %x: %s", (unsigned)status, text);
    cr_assert_str_eq(text, expected);
    free(text);
}

Test(output, a_model_that_shrinks_while_it_is_quantized)
{
    size_t before = count_files();
    pid_t child = begin_quantizing(0);
    wait_until_writing(child, before);
    cr_assert_eq(truncate(in, 4096), 0);
    told_of(in, end_of(child));
    cr_assert_eq(count_files(), before);
}

static bool has_mapped(pid_t child, const char *path)
{
    char name[64], line[1024];
    snprintf(name, sizeof name, "/proc/%d/maps", (int)child);
    FILE *maps = fopen(name, "r");
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps)) found = strstr(line, path) != NULL;
    if (maps) fclose(maps);
    return found;
}

/* The weights are read after the file has been mapped. Where the machine is so busy that all of it had
 * happened by then, it is tried again. */
static void shrink_while_loaded(const char *model)
{
    const char *const arguments[] = {"engine", "run", "-m",     model, "-p", "One day",
                                     "-n",     "100", "--temp", "0",   NULL};
    int status = 0;
    for (int tries = 0; tries < 50 && status == 0; tries++) {
        cr_assert(write_tiny_llama(
            model, &(struct tiny_llama){.seed = 1, .type = ENGINE_TYPE_F16, .n_vocab = 8192}));
        pid_t child = begin(arguments, 0);
        while (!has_mapped(child, model) && waitpid(child, &status, WNOHANG) == 0) continue;
        cr_assert_eq(truncate(model, 4096), 0);
        status = end_of(child);
    }
    told_of(model, status);
}

Test(output, a_model_that_shrinks_while_it_is_loaded)
{
    shrink_while_loaded(in);
}

/* Files under /dev are no devices. */
Test(output, a_model_in_shared_memory_that_shrinks)
{
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/engine-output-%d.gguf", (int)getpid());
    FILE *probe = fopen(path, "w");
    if (!probe) cr_skip_test("/dev/shm is not there");
    fclose(probe);
    shrink_while_loaded(path);
    unlink(path);
}
