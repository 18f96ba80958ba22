/* vulkan-device.c: see vulkan-device.h. */
#include "vulkan-device.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend-fixture.h"
#include "gpu-device.h"

/* Whether the validation layers' manifest is in one of the folders, with colons between them. */
static bool has_manifest(const char *folders)
{
    while (folders && *folders) {
        char path[1024];
        size_t length = strcspn(folders, ":");
        snprintf(path, sizeof path, "%.*s/VkLayer_khronos_validation.json", (int)length, folders);
        if (access(path, R_OK) == 0) return true;
        folders += length + (folders[length] == ':');
    }
    return false;
}

static bool has_layers(void)
{
    const char *instead = getenv("VK_LAYER_PATH"), *usual = "/etc/vulkan/explicit_layer.d:"
                                                            "/usr/local/share/vulkan/explicit_layer.d:"
                                                            "/usr/share/vulkan/explicit_layer.d";
    return instead ? has_manifest(instead) : has_manifest(usual) || has_manifest(getenv("VK_ADD_LAYER_PATH"));
}

bool vulkan_has_device(void)
{
    struct fixture fixture;
    uint32_t count = 0;
    const char *wanted = getenv("ENGINE_TEST_VULKAN_VALIDATION");
    setenv("ENGINE_VULKAN_VALIDATION", wanted ? wanted : has_layers() ? "on" : "off", 1);
    if (access(TEST_PLUGIN_DIR "/vulkan.so", R_OK) != 0 || !fixture_try_load(&fixture, "vulkan"))
        return false;
    return fixture.api->device_count(&count) == ENGINE_OK && count > 0;
}

void vulkan_skip_without_device(void)
{
    if (!vulkan_has_device()) cr_skip("no Vulkan device here");
}

void vulkan_expect_no_complaints(void)
{
    struct fixture fixture;
    struct engine_device_info info = {.struct_size = sizeof info};
    fixture_load(&fixture, "vulkan");
    cr_assert_eq(fixture.api->device_info(0, &info), ENGINE_OK, "%s", fixture_message());
}

/* ---- For the tests that all GPU plugins take ----------------------------------------------------------- */

#define MATMUL    "ENGINE_VULKAN_MATMUL"
#define SUBGROUPS "ENGINE_VULKAN_SUBGROUPS"

static const struct gpu_form forms[] = {
    {"address", {MATMUL, "address"}, false, false},
    {"tiled", {MATMUL, "tiled"}, false, false},
    {"dot", {MATMUL, "dot"}, true, false},
    {"half", {MATMUL, "half"}, true, false},
    {"cooperative", {MATMUL, "cooperative"}, true, false},
    {"address without subgroups", {MATMUL, "address", SUBGROUPS, "off"}, false, false},
    {"tiled without subgroups", {MATMUL, "tiled", SUBGROUPS, "off"}, false, false},
};

const struct gpu_under_test gpu = {"vulkan",  "vulkan0", forms, sizeof forms / sizeof *forms,
                                   &forms[0], &forms[1]};

bool gpu_choose(const struct gpu_form *form)
{
    for (int i = 0; i < 4 && form->settings[i]; i += 2) setenv(form->settings[i], form->settings[i + 1], 1);
    struct fixture fixture;
    struct engine_device_options options = {.struct_size = sizeof options};
    fixture_load(&fixture, "vulkan");
    int status = fixture.api->device_open(0, &options, &fixture.device);
    if (status == ENGINE_OK)
        fixture.api->device_close(fixture.device);
    else
        fprintf(stderr, "left out: %s\n", fixture_message());
    cr_assert(status == ENGINE_OK || status == ENGINE_ERROR_UNSUPPORTED);
    return status == ENGINE_OK;
}

void gpu_skip_without_device(void)
{
    vulkan_skip_without_device();
}

void gpu_expect_no_complaints(void)
{
    vulkan_expect_no_complaints();
}

/* Mesa's software drivers leave loops once a shader has gone round 65,535 times in all, and GPU-assisted
 * validation puts a loop around each read at an address, whose broken ends it then takes for wrong
 * addresses. */
uint32_t gpu_most_columns(void)
{
    const char *wanted = getenv("ENGINE_TEST_VULKAN_VALIDATION");
    return wanted && strcmp(wanted, "gpu") == 0 ? 512 : UINT32_MAX;
}
