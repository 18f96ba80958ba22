/* child.h: the code of the suite's processes that load the plugin. The first one asks what the plugin is;
 * each of the others runs a group of checks on a device. */
#ifndef ENGINE_CHECK_CHILD_H
#define ENGINE_CHECK_CHILD_H

#include "check/suite.h"

/* What is being checked. */
struct suite_run {
    const char *path, *cache;
    struct engine_checked_plugin *plugin;
    struct suite_only only;
};

/* What the first process finds out. `reason`: why the plugin can't be used; "": it can. */
struct introduction {
    struct engine_checked_plugin plugin;
    char reason[1024];
};

/* Loads the plugin, sends its description through a pipe (a struct introduction), and unloads it. */
void child_introduce(const struct suite_run *run, int to);

/* Runs a group of checks on a device and sends their rows through the pipe (struct suite_record). */
void child_run_group(const struct suite_run *run, const struct group *group, uint32_t device, int to);

#endif
