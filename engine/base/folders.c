/* folders.c: see folders.h. */
#include "base/folders.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *folders_own(void)
{
    static const char here;
    Dl_info info;
    if (!dladdr(&here, &info) || !info.dli_fname) return NULL;
    /* For the program itself, dli_fname is the name it was called by, which may not be a path. */
    bool program = strcmp(info.dli_fname, program_invocation_name) == 0;
    char *path = realpath(program ? "/proc/self/exe" : info.dli_fname, NULL);
    if (!path) return NULL;
    char *slash = strrchr(path, '/');
    slash[slash == path] = '\0';
    return path;
}

char *folders_installed_model(void)
{
    /* The build tree's folder, beside the plugins; the installed one, relative to libengine or as an absolute
     * path. */
    static const char *const folders[] = {"engine/models", ENGINE_DATADIR "/engine/models"};
    char *own = folders_own(), *found = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !found; i++) {
        char *path;
        int length = -1;
        if (folders[i][0] == '/') {
            length = asprintf(&path, "%s/demo.gguf", folders[i]);
        } else if (own) {
            length = asprintf(&path, "%s/%s/demo.gguf", own, folders[i]);
        }
        if (length < 0) continue;
        found = access(path, R_OK) == 0 ? realpath(path, NULL) : NULL;
        free(path);
    }
    free(own);
    return found;
}

static const char *home_folder(void)
{
    const char *home = getenv("HOME");
    return home && home[0] == '/' ? home : NULL;
}

char *folders_user(const char *variable, const char *fallback)
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

char *folders_expand_home(const char *path)
{
    if (strncmp(path, "~/", 2) != 0) return strdup(path);
    const char *home = home_folder();
    char *folder;
    return home && asprintf(&folder, "%s%s", home, path + 1) >= 0 ? folder : NULL;
}
