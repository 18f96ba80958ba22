/* gpu-device.h: the GPU plugin that a test is compiled for, `gpu` in vulkan-device.c or opencl-device.c,
 * so that both run the same tests. */
#ifndef TESTS_GPU_DEVICE_H
#define TESTS_GPU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Environment variables that choose kernels other than those for the device here: pairs of name and value. */
struct gpu_form {
    const char *name;
    const char *settings[4]; /* ended by NULL if there are fewer */
    bool rounds;             /* inputs of quantised weights */
    bool differs; /* in the last bits of a column with the number of others, even if that is small */
};

struct gpu_under_test {
    const char *plugin, *device; /* "vulkan", "vulkan0" */
    const struct gpu_form *forms;
    unsigned n_forms;
    const struct gpu_form *exact;  /* one that rounds nothing */
    const struct gpu_form *groups; /* the one for GPUs, as the first of others */
};

extern const struct gpu_under_test gpu;

/* Skips the test, with the reason, if there is no device. */
void gpu_skip_without_device(void);
/* Ends the test if any checker of the device has reported an error. */
void gpu_expect_no_complaints(void);

/* Sets the environment for a form. False, with the reason, if the device or the build lacks something that
 * the form needs. */
bool gpu_choose(const struct gpu_form *form);

/* The most columns of a weight that can be tested with the current checks of the device. */
uint32_t gpu_most_columns(void);

#endif
