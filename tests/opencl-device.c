/* opencl-device.c: see gpu-device.h. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend-fixture.h"
#include "gpu-device.h"

#define KERNELS  "ENGINE_OPENCL_KERNELS"
#define INTEGERS "ENGINE_OPENCL_INTEGERS"

static const struct gpu_form forms[] = {
    {"vectors", {KERNELS, "vectors", INTEGERS, "off"}, false, true},
    {"groups", {KERNELS, "groups", INTEGERS, "off"}, false, false},
    {"vectors with integers", {KERNELS, "vectors", INTEGERS, "on"}, true, true},
    {"groups with integers", {KERNELS, "groups", INTEGERS, "on"}, true, false},
};

const struct gpu_under_test gpu = {"opencl",  "opencl0.0", forms, sizeof forms / sizeof *forms,
                                   &forms[0], &forms[1]};

bool gpu_choose(const struct gpu_form *form)
{
    for (int i = 0; i < 4 && form->settings[i]; i += 2) setenv(form->settings[i], form->settings[i + 1], 1);
    return true;
}

void gpu_skip_without_device(void)
{
    struct fixture fixture;
    uint32_t count = 0;
    if (access(TEST_PLUGIN_DIR "/opencl.so", R_OK) != 0 || !fixture_try_load(&fixture, "opencl") ||
        fixture.api->device_count(&count) != ENGINE_OK || count == 0)
        cr_skip("no OpenCL device here");
}

void gpu_expect_no_complaints(void)
{
}

uint32_t gpu_most_columns(void)
{
    return UINT32_MAX;
}
