/* backend-fixture.c: see backend-fixture.h. */
#include "backend-fixture.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>

static void __attribute__((noreturn))
fail_test(struct fixture *fixture, enum fixture_end end, const char *message)
{
    cr_assert_fail("%s%s (%s; %s)", end == FIXTURE_UNCLAIMED ? "not supported: " : "", message,
                   fixture->tried, fixture->operands);
    __builtin_unreachable();
}

static jmp_buf unclaimed;

static void __attribute__((noreturn))
come_back_unclaimed(struct fixture *fixture, enum fixture_end end, const char *message)
{
    if (end == FIXTURE_UNCLAIMED) longjmp(unclaimed, 1);
    fail_test(fixture, end, message);
}

float *fixture_run_claimed(struct fixture *fixture, const struct some_case *c)
{
    fixture->stop = come_back_unclaimed;
    float *volatile result = NULL;
    if (setjmp(unclaimed) == 0) result = run_some_case(fixture, c);
    fixture->stop = fail_test;
    fixture_clear(fixture);
    return result;
}

const char *fixture_message(void)
{
    return check_host_message();
}

bool fixture_try_load(struct fixture *fixture, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.so", TEST_PLUGIN_DIR, name);
    *fixture = (struct fixture){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL), .stop = fail_test};
    cr_assert(fixture->library, "%s", dlerror());
    const struct engine_plugin *(*entry)(const struct engine_host *);
    *(void **)&entry = dlsym(fixture->library, ENGINE_ENTRY_SYMBOL);
    cr_assert(entry);
    fixture->plugin = entry(check_host());
    if (!fixture->plugin) return false;
    cr_assert_eq(fixture->plugin->abi_major, ENGINE_ABI_MAJOR);
    cr_assert_eq(fixture->plugin->kind, ENGINE_PLUGIN_BACKEND);
    fixture->api = fixture->plugin->backend;
    cr_assert(fixture->api);
    return true;
}

void fixture_load(struct fixture *fixture, const char *name)
{
    cr_assert(fixture_try_load(fixture, name), "%s", check_host_message());
}

void fixture_open(struct fixture *fixture, const char *name, uint32_t index, uint32_t n_threads,
                  uint64_t memory_limit)
{
    fixture_load(fixture, name);
    uint32_t count = 0;
    fixture_must(fixture, fixture->api->device_count(&count), "device_count");
    cr_assert_lt(index, count);
    struct engine_device_options options = {sizeof options, n_threads, memory_limit};
    fixture_must(fixture, fixture->api->device_open(index, &options, &fixture->device), "device_open");
    fixture_must(fixture, fixture->api->stream_create(fixture->device, &fixture->stream), "stream_create");
}

void fixture_close(struct fixture *fixture)
{
    fixture->api->stream_destroy(fixture->stream);
    fixture_clear(fixture);
    if (fixture->device) fixture->api->device_close(fixture->device);
    dlclose(fixture->library);
}
