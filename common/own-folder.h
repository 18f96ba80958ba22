/* own-folder.h: makes the user's own folders, for caches and histories. HOME may be another user's (`sudo
 * -E`, `su -m`): no folder is made there, because it would belong to the wrong user. */
#ifndef COMMON_OWN_FOLDER_H
#define COMMON_OWN_FOLDER_H

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes a folder, and missing folders above it, for the user alone. False, with errno: it can't be made, or
 * it or the next folder above belongs to somebody other than this user and root (EPERM). */
static inline bool own_folder_make(char *path)
{
    struct stat info;
    if (stat(path, &info) == 0) {
        bool own = info.st_uid == geteuid() || info.st_uid == 0;
        errno = own ? ENOTDIR : EPERM;
        return own && S_ISDIR(info.st_mode);
    }
    char *slash = strrchr(path, '/');
    if (errno != ENOENT || !slash || slash == path) return false;
    *slash = '\0';
    bool good = own_folder_make(path);
    *slash = '/';
    return good && (mkdir(path, 0700) == 0 || errno == EEXIST);
}

#endif
