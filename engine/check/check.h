/* check.h: the conformance suite for plugins, behind `engine plugins check`. A plugin is loaded as a stranger's, by a
 * host of the suite's own, in a process of its own for each group of checks, so that one that crashes or hangs is only
 * one that failed. Everything that it claims is tried against plugin-api.h. */
#ifndef ENGINE_CHECK_CHECK_H
#define ENGINE_CHECK_CHECK_H

#include <stdbool.h>
#include <stdint.h>

enum check_result {
    CHECK_PASSED,
    CHECK_FAILED,
    CHECK_UNCLAIMED /* the plugin doesn't say that it does this */
};

struct check_row {
    char device[32]; /* "vulkan0"; "" for what concerns the whole plugin */
    char area[24];   /* "matmul" */
    char what[40];   /* "Q4_0" */
    uint32_t cases;
    bool measured; /* error and share have a meaning */
    double error;  /* the largest difference, of the size of the result */
    double share;  /* the largest difference, of what is allowed for it */
    enum check_result result;
    char message[512]; /* why it failed; else a remark or "" */
};

/* What a plugin says of itself. */
struct check_plugin {
    char name[32], version[64], license[64], description[256];
    uint32_t abi_major, abi_minor, kind;
    uint32_t n_devices;
};

/* Checks the plugin of a file. `report` is called for each row as it becomes known. Returns ENGINE_OK once the checks
 * have been made, whatever came of them; an error, with error_message, where they could not be begun: no plugin can be
 * loaded from the file, or there are no processes and pipes. *plugin is filled as far as it got. */
int check_plugin(const char *path, struct check_plugin *plugin,
                 void (*report)(void *user, const struct check_row *row), void *user);

#endif
