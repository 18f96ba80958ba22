/* folders.c: see folders.h. */
#include "base/folders.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *own_folder(void)
{
    static const char here;
    Dl_info info;
    if (!dladdr(&here, &info) || !info.dli_fname) return NULL;
    /* For the program itself dli_fname is how it was called, which need not be a path. */
    bool program = strcmp(info.dli_fname, program_invocation_name) == 0;
    char *path = realpath(program ? "/proc/self/exe" : info.dli_fname, NULL);
    if (!path) return NULL;
    char *slash = strrchr(path, '/');
    slash[slash == path] = '\0';
    return path;
}

static const char *home_folder(void)
{
    const char *home = getenv("HOME");
    return home && home[0] == '/' ? home : NULL;
}

char *user_folder(const char *variable, const char *fallback)
{
    const char *set = getenv(variable), *home = home_folder();
    char *folder;
    int length = -1;
    if (set && set[0] == '/') {
        length = asprintf(&folder, "%s/engine", set);
    } else if (home) {
        length = asprintf(&folder, "%s/%s/engine", home, fallback);
    }
    return length < 0 ? NULL : folder;
}

char *expand_home(const char *path)
{
    if (strncmp(path, "~/", 2) != 0) return strdup(path);
    const char *home = home_folder();
    char *folder;
    return home && asprintf(&folder, "%s%s", home, path + 1) >= 0 ? folder : NULL;
}
