/* check.c: the conformance suite for plugins, as engine.h offers it. A process for each group of checks and device: it loads
 * the plugin, checks, and sends rows through a pipe. This process never loads it. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sized.h"
#include "check/suite.h"
#include "plugins/host.h"
#include "plugins/load.h"

#define PATIENCE_MS 240000 /* without a word from a process: it hangs */
#define MAX_DEVICES 1000   /* more than this are not believed */

const struct group backend_groups[] = {
    {"devices", true, check_devices},
    {"buffers", true, check_buffers},
    {"weights", true, check_weights},
    {"memory limit", true, check_memory_limit},
    {"streams", true, check_streams},
    {"recordings", true, check_recordings},
    {"arguments", true, check_arguments},
    {"arguments of 1.1", true, check_later_arguments},
    {"matmul", true, check_matmul},
    {"get rows", true, check_get_rows},
    {"random blocks", true, check_hashed},
    {"norm", true, check_rows},
    {"rope", true, check_rope},
    {"cache write", true, check_cache_write},
    {"attention", true, check_attention},
    {"since 1.1", true, check_later_operations},
    {"threads", true, check_threads},
    {"opening", true, check_reopening},
    {NULL, false, NULL},
};

/* What is being checked; of this process alone. */
struct run {
    const char *path, *cache;
    struct engine_checked_plugin *plugin;
    const struct engine_check_options *options;
};

/* ---- In the process that loads the plugin ---------------------------------------------------------- */

/* What the first process finds out. `reason`: why the plugin can't be used; "": it can. */
struct introduction {
    struct engine_checked_plugin plugin;
    char reason[1024];
};

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static int load(const char *path, void **library, const struct engine_plugin **plugin)
{
    return plugin_load(path, check_host(), library, plugin);
}

/* What the plugin prints goes to a file in memory: it may print nothing. */
static int catch_output(void)
{
    int file = memfd_create("output", MFD_CLOEXEC);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0) return -1;
    return file;
}

/* Asks a backend how many devices it has; the reason, where there is no answer to go on with. */
static void count_devices(const struct engine_backend *backend, struct introduction *introduction)
{
    uint32_t count = 0;
    int status = backend->device_count(&count);
    const char *own = check_host_message();
    if (status != ENGINE_OK)
        snprintf(introduction->reason, sizeof introduction->reason, "device_count: status %d, %s", status,
                 own[0] ? own : "without a message");
    else if (count > MAX_DEVICES)
        snprintf(introduction->reason, sizeof introduction->reason,
                 "device_count says %u; more than %d devices are not believed", count, MAX_DEVICES);
    else
        introduction->plugin.n_devices = count;
}

/* Loads the plugin and tells about it. */
static void introduce(const struct run *run, int to)
{
    struct introduction introduction = {.reason = ""};
    struct engine_checked_plugin *about = &introduction.plugin;
    const struct engine_plugin *plugin = NULL;
    void *library = NULL;
    catch_output();
    check_host_message();
    int status = load(run->path, &library, &plugin);
    if (status != ENGINE_OK) {
        const char *own = check_host_message();
        copy_text(introduction.reason, sizeof introduction.reason, own[0] ? own : error_message());
    } else {
        copy_text(about->name, sizeof about->name, plugin->name);
        copy_text(about->version, sizeof about->version, plugin->version);
        copy_text(about->license, sizeof about->license, plugin->license);
        copy_text(about->description, sizeof about->description, plugin->description);
        about->abi_major = plugin->abi_major, about->abi_minor = plugin->abi_minor;
        about->kind = plugin->kind;
    }
    if (status == ENGINE_OK && plugin->kind == ENGINE_PLUGIN_BACKEND)
        count_devices(plugin->backend, &introduction);
    if (write(to, &introduction, sizeof introduction) != (ssize_t)sizeof introduction) _exit(1);
    if (library) dlclose(library);
}

static void prints_nothing(struct suite *suite, const void *args)
{
    int file = *(const int *)args;
    fflush(stdout);
    if (file >= 0 && lseek(file, 0, SEEK_END) > 0)
        fixture_fail(&suite->fixture, "the plugin has printed to standard output");
}

static void open_device(struct suite *suite, const void *args)
{
    struct engine_device_info info = {.struct_size = sizeof info};
    (void)args;
    fixture_must(&suite->fixture, suite->fixture.api->device_info(suite->device, &info), "device_info");
    suite->alignment = info.alignment ? info.alignment : 64;
    suite_open(suite, &suite->fixture, 0, 0);
}

/* What the process that introduced the plugin could do, this one must be able to do too. */
static void begin(struct suite *suite, const void *args)
{
    const struct run *run = args;
    uint32_t count;
    check_host_message();
    int status = load(run->path, &suite->library, &suite->plugin);
    if (status != ENGINE_OK) {
        const char *own = check_host_message();
        fixture_fail(&suite->fixture, "it was loaded before, and now: %s", own[0] ? own : error_message());
    }
    if (suite->plugin->kind != ENGINE_PLUGIN_BACKEND) return;
    fixture_must(&suite->fixture, suite->plugin->backend->device_count(&count), "device_count");
    SUITE_EXPECT(suite, count == run->plugin->n_devices, "device_count said %u before, and now %u",
                 run->plugin->n_devices, count);
    suite->fixture.api = suite->plugin->backend;
}

/* The checks of a group, on a device. */
static void run_group(const struct run *run, const struct group *group, uint32_t device, int to)
{
    struct suite suite = {.pipe = to, .device = device};
    int output = catch_output();
    check_host_cache(run->cache);
    suite_begin(&suite, group->name, "loading again");
    bool begun = suite_try(&suite, begin, run) == CHECK_PASSED, open = false;
    if (begun && suite.fixture.api) {
        suite_begin(&suite, group->name, "device_open");
        open = suite_try(&suite, open_device, NULL) == CHECK_PASSED;
    }
    if (open || (begun && !suite.fixture.api))
        group->run(&suite);
    else
        suite_end(&suite);
    suite_begin(&suite, group->name, "standard output");
    if (suite_try(&suite, prints_nothing, &output) == CHECK_FAILED) suite_end(&suite);
    suite_begin(&suite, group->name, "the end");
    if (open) suite_close(&suite.fixture);
    if (suite.library) dlclose(suite.library);
    suite.fixture.api = NULL;
    suite_done(&suite);
}

/* ---- In this process ------------------------------------------------------------------------------- */

/* Reads one record of a size; false at the end. *hangs: nothing came. */
static bool read_record(int from, void *record, size_t size, bool *hangs)
{
    struct pollfd wait = {.fd = from, .events = POLLIN};
    size_t used = 0;
    while (used < size) {
        int ready = poll(&wait, 1, PATIENCE_MS);
        if (ready < 0 && errno == EINTR) continue;
        *hangs = ready == 0;
        ssize_t got = ready > 0 ? read(from, (char *)record + used, size - used) : 0;
        if (got <= 0) return false;
        used += (size_t)got;
    }
    return true;
}

static void report(const struct run *run, struct engine_check_row *row)
{
    row->struct_size = sizeof *row;
    run->options->row(run->options->user, row);
}

/* The row that was begun and never ended: `how` the process ended. */
static void report_end(const struct run *run, struct engine_check_row *row, int how, bool hangs)
{
    row->result = CHECK_FAILED;
    if (row->cases == 0) row->cases = 1;
    if (hangs)
        snprintf(row->message, sizeof row->message,
                 "nothing happens any more; after %d s it was ended, and nothing else is tried",
                 PATIENCE_MS / 1000);
    else if (WIFSIGNALED(how))
        snprintf(row->message, sizeof row->message, "the plugin crashed: signal %d (%s)", WTERMSIG(how),
                 strsignal(WTERMSIG(how)));
    else
        snprintf(row->message, sizeof row->message, "the plugin has ended the process, with status %d",
                 WEXITSTATUS(how));
    report(run, row);
}

/* Runs `child` in a process of its own with the writing end of a pipe. Returns the pid, and the reading end. */
static int begin_process(pid_t *child, int *from, int *to)
{
    int ends[2];
    if (pipe(ends) != 0) return error_raise(ENGINE_ERROR, "no pipe: %s", strerror(errno));
    fflush(NULL);
    *child = fork();
    if (*child < 0) {
        close(ends[0]), close(ends[1]);
        return error_raise(ENGINE_ERROR, "no process: %s", strerror(errno));
    }
    if (*child == 0) close(ends[0]);
    if (*child > 0) close(ends[1]);
    *from = ends[0], *to = ends[1];
    return ENGINE_OK;
}

/* Waits for a process, after ending it if it hangs. */
static int end_process(pid_t child, int from, bool hangs)
{
    int how = 0;
    if (hangs) kill(child, SIGKILL);
    close(from);
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
    }
    return how;
}

/* Whether it is a record of the suite: a plugin may write to whatever it finds open. */
static bool is_sound(const struct suite_record *record)
{
    const struct engine_check_row *row = &record->row;
    return record->moment <= SUITE_DONE && row->result <= CHECK_UNCLAIMED &&
           memchr(row->device, 0, sizeof row->device) && memchr(row->area, 0, sizeof row->area) &&
           memchr(row->what, 0, sizeof row->what) && memchr(row->message, 0, sizeof row->message);
}

/* *hangs: it did, and was ended. */
static int check_group(const struct run *run, const struct group *group, uint32_t device, bool *hangs)
{
    struct suite_record record;
    struct engine_check_row last = {.result = CHECK_FAILED};
    bool begun = false, done = false;
    pid_t child;
    int from, to;
    int status = begin_process(&child, &from, &to);
    if (status != ENGINE_OK) return status;
    if (child == 0) {
        run_group(run, group, device, to);
        exit(0);
    }
    snprintf(last.area, sizeof last.area, "%s", group->name);
    while (read_record(from, &record, sizeof record, hangs) && is_sound(&record)) {
        done = record.moment == SUITE_DONE;
        if (done) continue;
        last = record.row;
        begun = record.moment == SUITE_BEGUN;
        if (!begun) report(run, &last);
    }
    int how = end_process(child, from, *hangs);
    if (!done || *hangs || !WIFEXITED(how) || WEXITSTATUS(how) != 0) {
        if (!begun) snprintf(last.what, sizeof last.what, "the end"), last.cases = 0;
        report_end(run, &last, how, *hangs);
    }
    return ENGINE_OK;
}

static int meet(const struct run *run)
{
    struct introduction introduction = {.reason = ""};
    bool hangs = false;
    pid_t child;
    int from, to;
    int status = begin_process(&child, &from, &to);
    if (status != ENGINE_OK) return status;
    if (child == 0) {
        introduce(run, to);
        exit(0);
    }
    bool came = read_record(from, &introduction, sizeof introduction, &hangs);
    int how = end_process(child, from, hangs);
    *run->plugin = introduction.plugin;
    run->plugin->name[sizeof run->plugin->name - 1] = '\0'; /* the plugin may have written to the pipe */
    run->plugin->version[sizeof run->plugin->version - 1] = '\0';
    run->plugin->license[sizeof run->plugin->license - 1] = '\0';
    run->plugin->description[sizeof run->plugin->description - 1] = '\0';
    introduction.reason[sizeof introduction.reason - 1] = '\0';
    if (came && introduction.reason[0])
        return error_raise(ENGINE_ERROR_DATA, "%s: %s", run->path, introduction.reason);
    struct engine_check_row row = {
        .area = "plugin", .what = "loading and unloading", .cases = 1, .result = CHECK_PASSED};
    if (!came || hangs || !WIFEXITED(how) || WEXITSTATUS(how) != 0)
        report_end(run, &row, how, hangs);
    else
        report(run, &row);
    return ENGINE_OK;
}

/* Removes a folder with what is in it: files. */
static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder) closedir(folder);
    rmdir(path);
}

static int check_groups(const struct run *run)
{
    uint32_t kind = run->plugin->kind;
    const struct group *groups = kind == ENGINE_PLUGIN_BACKEND ? backend_groups : tokenizer_groups;
    uint32_t n = kind == ENGINE_PLUGIN_BACKEND ? run->plugin->n_devices : kind == ENGINE_PLUGIN_TOKENIZER;
    int status = ENGINE_OK;
    for (uint32_t device = 0; device < n && status == ENGINE_OK; device++) {
        /* Nobody waits that long for every group: a device that hangs is not tried any more. */
        bool hangs = false;
        for (const struct group *group = groups; group->name && status == ENGINE_OK && !hangs; group++)
            status = check_group(run, group, device, &hangs);
    }
    return status;
}

int engine_check_plugin(const char *path, const struct engine_check_options *options,
                        struct engine_checked_plugin *out)
{
    int status = SIZED_CHECK(options, engine_check_options, user);
    if (!status) status = SIZED_CHECK(out, engine_checked_plugin, n_devices);
    if (status != ENGINE_OK) return status;
    if (!options->row)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a check of a plugin needs somebody to receive its rows");
    if (host_has_begun())
        return error_raise(ENGINE_ERROR_ARGUMENT, "no plugin can be checked while an engine is open");
    char *real = realpath(path, NULL), cache[] = "/tmp/engine-check-XXXXXX";
    if (!real) return error_raise(ENGINE_ERROR_DATA, "%s: %s", path, strerror(errno));
    struct engine_checked_plugin plugin = {.struct_size = sizeof plugin};
    struct run run = {real, mkdtemp(cache), &plugin, options};
    status = meet(&run);
    if (status == ENGINE_OK) status = check_groups(&run);
    if (run.cache) remove_folder(run.cache);
    free(real);
    sized_write(out, &plugin, sizeof plugin);
    return status;
}
