/* test-same-hardware.c: what is used without being asked for: hardware that two backends reach once;
 * accelerators that are slower than the CPU with a warning. The backends are `toy` and `twin`
 * (fixtures/plugins/matmul-only.c), with one device each, whose settings say what hardware it is. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "files.h"
#include "gguf-writer.h"

#define SAME "[toy]\nuuid = one\n[twin]\nuuid = one\n"

static char *folder;
static char model_path[4096], config_path[4096], log_text[65536], used[256];
static struct engine *engine;

static void keep_log(void *user, enum engine_log_level level, const char *line)
{
    (void)user, (void)level;
    size_t length = strlen(log_text);
    snprintf(log_text + length, sizeof log_text - length, "%s\n", line);
}

static void setup(void)
{
    struct tiny_llama model = {.seed = 3, .type = ENGINE_TYPE_F32, .n_layers = 2, .n_vocab = 320};
    folder = files_folder();
    snprintf(model_path, sizeof model_path, "%s", files_path(folder, "model.gguf"));
    snprintf(config_path, sizeof config_path, "%s", files_path(folder, "engine.conf"));
    cr_assert(write_tiny_llama(model_path, &model));
}

static void teardown(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(same_hardware, .init = setup, .fini = teardown);

static void open_with(const char *settings)
{
    const char *dirs[] = {TEST_PLUGIN_DIR, TOY_DIR, TWIN_DIR, NULL};
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = config_path, .log = keep_log};
    files_write_text(config_path, settings);
    log_text[0] = 0;
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
}

/* The devices of the two backends that a plan uses, with a blank behind each. */
static const char *devices_used(const char *settings, const char *backends)
{
    struct engine_context_options options = {.struct_size = sizeof options, .backends = backends};
    struct engine_model *model;
    struct engine_plan *plan;
    open_with(settings);
    cr_assert_eq(engine_model_open(engine, model_path, NULL, &model), ENGINE_OK, "%s",
                 engine_error_message());
    cr_assert_eq(engine_plan_create(model, &options, &plan), ENGINE_OK, "%s", engine_error_message());
    used[0] = 0;
    for (size_t i = 0; i < engine_plan_device_count(plan); i++) {
        struct engine_plan_device device;
        engine_plan_device_at(plan, i, &device);
        if (strncmp(device.name, "t", 1) == 0) {
            strcat(used, device.name);
            strcat(used, " ");
        }
    }
    engine_plan_destroy(plan);
    engine_model_close(model);
    engine_close(engine);
    return used;
}

Test(same_hardware, is_used_once)
{
    static const struct {
        const char *settings, *used;
    } cases[] = {
        {"", "toy0 twin0 "},
        {SAME, "toy0 "},
        {"[toy]\nuuid = one\n[twin]\nuuid = two\n", "toy0 twin0 "},
        {"[toy]\nuuid = one\n", "toy0 twin0 "},
        {"[toy]\npci = 0000:0A:00.0\n[twin]\npci = 0000:0a:00.0\n", "toy0 "},
        {"[toy]\npci = 0000:0a:00.0\n[twin]\npci = 0001:0a:00.0\n", "toy0 twin0 "},
        /* The address goes before the uuid, where both say it. */
        {"[toy]\npci = 0000:0a:00.0\nuuid = one\n[twin]\npci = 0000:0b:00.0\nuuid = one\n", "toy0 twin0 "},
        {"[toy]\npci = 0000:0a:00.0\nuuid = one\n[twin]\npci = 0000:0a:00.0\nuuid = two\n", "toy0 "},
        {"[toy]\npci = 0000:0a:00.0\nuuid = one\n[twin]\nuuid = one\n", "toy0 "},
        {"[toy]\nuuid = one\n[twin]\nuuid = one\nrank = 1\n", "twin0 "},
        {"[toy]\nuuid = one\nrank = 2\n[twin]\nuuid = one\nrank = 1\n", "toy0 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_str_eq(devices_used(cases[i].settings, NULL), cases[i].used, "%s", cases[i].settings);
    devices_used(SAME, NULL);
    cr_assert(strstr(log_text, "twin0 is not used: it is the same hardware as toy0\n"), "%s", log_text);
}

Test(same_hardware, is_used_as_asked)
{
    cr_assert_str_eq(devices_used(SAME, "twin"), "twin0 ");
    cr_assert_str_eq(devices_used(SAME, "toy,twin"), "toy0 twin0 ");
    cr_assert_str_eq(devices_used(SAME, "twin:0,toy:0"), "twin0 toy0 ");
    cr_assert_str_eq(devices_used("backend = twin,toy\n" SAME, NULL), "twin0 toy0 ");
}

Test(same_hardware, is_reached_the_other_way_where_one_fails)
{
    cr_assert_str_eq(devices_used("[toy]\nuuid = one\nclosed = yes\n[twin]\nuuid = one\n", NULL), "twin0 ");
    cr_assert(strstr(log_text, "toy: closed today; continuing without it\n"), "%s", log_text);
}

Test(same_hardware, is_listed_as_such)
{
    struct engine_device_entry device;
    size_t count, found = 0;
    open_with(SAME);
    cr_assert_eq(engine_device_count(engine, &count), ENGINE_OK);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(engine_device_at(engine, i, &device), ENGINE_OK);
        if (strcmp(device.name, "toy0") == 0) {
            cr_assert_null(device.preferred);
            found++;
        }
        if (strcmp(device.name, "twin0") == 0) {
            cr_assert_str_eq(device.preferred, "toy0");
            found++;
        }
    }
    cr_assert_eq(found, 2);
    engine_close(engine);
}

Test(same_hardware, a_slow_accelerator_is_not_used_in_silence)
{
    static const char warning[] =
        "toy0 (matrix products, one at a time) reads weights at 0.2 of the CPU's speed";
    static const struct {
        const char *settings, *backends;
        bool warns;
    } cases[] = {
        {"speeds = cpu=5, toy0=1, twin0=5\n", NULL, true},
        {"speeds = cpu=5, toy0=1, twin0=5\n", "toy", false},
        {"speeds = cpu=5, toy0=3, twin0=5\n", NULL, false},
        {"speeds = toy0=1, twin0=5\n", NULL, false}, /* of another unit than the CPU's */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        devices_used(cases[i].settings, cases[i].backends);
        cr_expect_eq(strstr(log_text, warning) != NULL, cases[i].warns, "%zu: %s", i, log_text);
        cr_expect_null(strstr(log_text, "twin0 ("), "%zu: %s", i, log_text);
    }
}
