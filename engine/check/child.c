/* child.c: the processes that load the plugin, see suite.h. */
#include "check/suite.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "plugins/host.h"

#define MAX_DEVICES 1000 /* larger numbers are not believed */

const struct group backend_groups[] = {
    {"devices", true, check_devices},
    {"buffers", true, check_buffers},
    {"weights", true, check_weights},
    {"memory limit", true, check_memory_limit},
    {"given back", true, check_leaks},
    {"streams", true, check_streams},
    {"recordings", true, check_recordings},
    {"arguments", true, check_arguments},
    {"matmul", true, check_matmul},
    {"get rows", true, check_get_rows},
    {"random blocks", true, check_hashed},
    {"norm", true, check_rows},
    {"rope", true, check_rope},
    {"cache write", true, check_cache_write},
    {"attention", true, check_attention},
    {"since 1.1", true, check_later_operations},
    {"large", true, check_large},
    {"batches", true, check_batches},
    {"threads", true, check_threads},
    {"opening", true, check_reopening},
    {NULL, false, NULL},
};

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static int child_load(const char *path, void **library, const struct engine_plugin **plugin)
{
    return plugin_load(path, check_host(), library, plugin);
}

/* Redirects the plugin's output to a file in memory: plugins may not print anything. */
static int catch_output(void)
{
    int file = memfd_create("output", MFD_CLOEXEC);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0) return -1;
    return file;
}

/* Threads of this process. */
static unsigned count_threads(void)
{
    unsigned n = 0;
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    while (tasks && (entry = readdir(tasks))) n += entry->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return n;
}

/* Gives threads whose code has been unloaded time to crash. */
static void child_unload(void *library)
{
    if (!library) return;
    dlclose(library);
    if (count_threads() > 1) usleep(100000);
}

/* Asks a backend for its number of devices; gives the reason if there is no usable answer. */
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

void child_introduce(const struct suite_run *run, int to)
{
    struct introduction introduction = {.reason = ""};
    struct engine_checked_plugin *about = &introduction.plugin;
    const struct engine_plugin *plugin = NULL;
    void *library = NULL;
    catch_output();
    check_host_message();
    int status = child_load(run->path, &library, &plugin);
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
    child_unload(library);
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

/* This process must be able to do everything that the process that introduced the plugin could. */
static void child_begin(struct suite *suite, const void *args)
{
    const struct suite_run *run = args;
    uint32_t count;
    check_host_message();
    int status = child_load(run->path, &suite->library, &suite->plugin);
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

/* Whether the group has selected rows: determined without the plugin, if possible. */
static bool has_selected(const struct suite_run *run, const struct group *group)
{
    struct suite dry = {.pipe = -1, .only = &run->only, .group = group->name, .is_dry = true};
    if (run->plugin->kind != ENGINE_PLUGIN_BACKEND || !run->only.text[0]) return true;
    group->run(&dry);
    return dry.has_selected;
}

void child_run_group(const struct suite_run *run, const struct group *group, uint32_t device, int to)
{
    struct suite suite = {
        .pipe = to, .device = device, .only = &run->only, .group = group->name, .is_whole = true};
    int output = catch_output();
    if (!has_selected(run, group)) {
        suite_done(&suite);
        return;
    }
    check_host_cache(run->cache);
    suite_begin(&suite, group->name, "loading again");
    bool begun = suite_try(&suite, child_begin, run) == CHECK_PASSED, open = false;
    if (begun && suite.fixture.api) {
        suite_begin(&suite, group->name, "device_open");
        open = suite_try(&suite, open_device, NULL) == CHECK_PASSED;
    }
    suite.is_whole = false;
    if (open || (begun && !suite.fixture.api))
        group->run(&suite);
    else
        suite_end(&suite);
    suite.is_whole = true;
    suite_begin(&suite, group->name, "standard output");
    if (suite_try(&suite, prints_nothing, &output) == CHECK_FAILED) suite_end(&suite);
    suite_begin(&suite, group->name, "the end");
    if (open) suite_close(&suite.fixture);
    suite.fixture.api = NULL;
    child_unload(suite.library);
    suite_done(&suite);
}
