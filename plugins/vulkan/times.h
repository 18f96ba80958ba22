/* times.h: how long the launches of a device take, by the device's own clock. ENGINE_VULKAN_TIMES=1 puts a
 * time stamp before and behind each, with a barrier between launches, so that no two run at once. When the
 * device is closed, the log gets a table of them by kernel and shape. stream.c and commands.c call this. */
#ifndef VULKAN_TIMES_H
#define VULKAN_TIMES_H

#include "commands.h"

/* Makes device->times if it is wanted and the device has time stamps; says so once if it has none. */
int times_setup(struct engine_device *device);
/* Writes the table and frees it. No command buffer with time stamps is left. */
void times_teardown(struct engine_device *device);

/* Around a dispatch that is being recorded, on a device with times. */
int times_begin(struct commands *commands, const struct dispatch *dispatch);
void times_end(struct commands *commands);
/* Counts a barrier that the recorded dispatches need. */
void times_barrier(struct commands *commands);

/* The commands are about to be submitted. */
void times_run(struct commands *commands);
/* Whether they have been, and their stamps were not taken since. */
bool times_are_due(const struct commands *commands);
/* Adds the stamps to the device's table. The commands have run. */
void times_take(struct commands *commands);
/* The commands will be recorded again from the beginning. */
void times_reset(struct commands *commands);
/* Frees what the commands have for time stamps. */
void times_drop(struct commands *commands);

#endif
