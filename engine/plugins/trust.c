/* trust.c: whether a plugin's file may be run. A plugin is code in our process: whoever can write to its
 * file, or replace it, could run code as the user. So file and folder must belong to the user or to root, and
 * nobody else may write to them; a group counts as somebody else. The sticky bit (/tmp) makes no difference:
 * others can't replace our files there, but they can add libraries that ours would load. (Folders farther up
 * are not checked: whoever renames one of them can only put files and folders of their own there, and those
 * are refused.) */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "plugins/load.h"

static int check_owner(const struct stat *info, const char *what)
{
    if (info->st_uid == 0 || info->st_uid == geteuid()) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA, "%s belongs to user %u, who is neither root nor you", what,
                       (unsigned)info->st_uid);
}

int trust_folder(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) return error_raise(ENGINE_ERROR_DATA, "%s", strerror(errno));
    if (!S_ISDIR(info.st_mode)) return error_raise(ENGINE_ERROR_DATA, "not a folder");
    int status = check_owner(&info, "the folder");
    if (status != ENGINE_OK) return status;
    if (info.st_mode & (S_IWGRP | S_IWOTH)) {
        return error_raise(ENGINE_ERROR_DATA,
                           "others can write to the folder (mode %04o); fix it with chmod go-w",
                           (unsigned)info.st_mode & 07777);
    }
    return ENGINE_OK;
}

static int trust_folder_of(const char *path)
{
    char *folder = strdup(path);
    if (!folder) return error_memory("path of a plugin");
    char *slash = strrchr(folder, '/');
    slash[slash == folder] = '\0';
    int status = trust_folder(folder);
    free(folder);
    return status;
}

int trust_file(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) return error_raise(ENGINE_ERROR_DATA, "%s", strerror(errno));
    if (!S_ISREG(info.st_mode)) return error_raise(ENGINE_ERROR_DATA, "not a file");
    int status = check_owner(&info, "it");
    if (status != ENGINE_OK) return status;
    if (info.st_mode & (S_IWGRP | S_IWOTH)) {
        return error_raise(ENGINE_ERROR_DATA, "others can write to it (mode %04o); fix it with chmod go-w",
                           (unsigned)info.st_mode & 07777);
    }
    return trust_folder_of(path);
}
