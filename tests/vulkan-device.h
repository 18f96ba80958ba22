/* vulkan-device.h: facts about the machine for the Vulkan plugin's tests. */
#ifndef TESTS_VULKAN_DEVICE_H
#define TESTS_VULKAN_DEVICE_H

#include <stdbool.h>

/* Whether there is a Vulkan device that the plugin can use. Turns the validation layers on for the rest of
 * the process and its children if they are installed; ENGINE_TEST_VULKAN_VALIDATION chooses the checks
 * (default: on). */
bool vulkan_has_device(void);
/* Skips the test, with the reason, if there is none. */
void vulkan_skip_without_device(void);
/* Ends the test if the validation layers have found something since the process began. */
void vulkan_expect_no_complaints(void);

#endif
