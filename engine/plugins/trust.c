/* trust.c: whether a plugin's file may be run. A plugin is code in our process: whoever can write to its
 * file, or replace it, could run code as the user. So file and folder must belong to the user or to root, and
 * nobody else may write to them; a group counts as somebody else. The sticky bit (/tmp) makes no difference:
 * others can't replace our files there, but they can add libraries that ours would load.
 *
 * What is checked must still be there when the loader opens it, by its path. So nobody else may be able to
 * exchange a folder or a symbolic link anywhere on the way: each must belong to the user or to root, and only
 * they may write to the folders, unless the sticky bit keeps others from replacing what is there. By
 * induction from the root on, the path then leads to the same file for as long as the user and root leave it
 * alone. Folders above libengine itself are left out: whoever can exchange those can exchange the engine. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/folders.h"
#include "plugins/host.h"

#define MAX_LINKS 40

/* A path on its way to what it names. */
struct walk {
    char *own;           /* libengine's folder; NULL: unknown */
    char real[PATH_MAX]; /* what has been passed, without symbolic links; "" is the root */
    char rest[PATH_MAX]; /* what is still to be passed */
    struct stat info;    /* of `real`, at the end */
    unsigned n_links;    /* how many have been followed */
};

static bool is_ours(const struct stat *info)
{
    return info->st_uid == 0 || info->st_uid == geteuid();
}

static int fail_errno(void)
{
    if (errno == ENOMEM) return error_memory("path of a plugin");
    return error_raise(ENGINE_ERROR_DATA, "%s", strerror(errno));
}

static int fail_length(void)
{
    return error_raise(ENGINE_ERROR_DATA, "%s", strerror(ENAMETOOLONG));
}

/* The three texts make the subject. */
static int fail_owner(const struct stat *info, const char *what, const char *path, const char *where)
{
    return error_raise(ENGINE_ERROR_DATA,
                       "%s%s%s belongs to user %u, who is neither root nor you; run the engine as that user, "
                       "or fix it with chown",
                       what, path, where, (unsigned)info->st_uid);
}

/* Of what is loaded, and of its folder. */
static int check_strictly(const struct stat *info, const char *what)
{
    if (!is_ours(info)) return fail_owner(info, what, "", "");
    if (info->st_mode & (S_IWGRP | S_IWOTH)) {
        return error_raise(ENGINE_ERROR_DATA, "others can write to %s (mode %04o); fix it with chmod go-w",
                           what, (unsigned)info->st_mode & 07777);
    }
    return ENGINE_OK;
}

/* Whether libengine is in a folder or below it. */
static bool is_above_own(const struct walk *walk, const char *folder)
{
    size_t length = strlen(folder);
    return walk->own && strncmp(walk->own, folder, length) == 0 &&
           (walk->own[length] == '/' || walk->own[length] == '\0');
}

/* Of the folder `walk->real`, which is on the way. */
static int check_passed(const struct walk *walk)
{
    struct stat info;
    const char *folder = walk->real[0] ? walk->real : "/";
    if (is_above_own(walk, walk->real)) return ENGINE_OK;
    if (lstat(folder, &info) != 0) return fail_errno();
    if (!is_ours(&info)) return fail_owner(&info, "the folder ", folder, ", on the way to it,");
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) && !(info.st_mode & S_ISVTX)) {
        return error_raise(ENGINE_ERROR_DATA,
                           "others can write to the folder %s, on the way to it (mode %04o); fix it with "
                           "chmod go-w %s",
                           folder, (unsigned)info.st_mode & 07777, folder);
    }
    return ENGINE_OK;
}

/* Puts what the link `path` says before the rest of the way. */
static int trust_follow(struct walk *walk, const char *path, const struct stat *info, const char *rest)
{
    char target[PATH_MAX], way[PATH_MAX];
    if (!is_ours(info)) return fail_owner(info, "the link ", path, ", on the way to it,");
    if (++walk->n_links > MAX_LINKS) return error_raise(ENGINE_ERROR_DATA, "%s", strerror(ELOOP));
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return fail_errno();
    target[length] = '\0';
    if (snprintf(way, sizeof way, "%s/%s", target, rest) >= (int)sizeof way) return fail_length();
    if (target[0] == '/') walk->real[0] = '\0';
    memcpy(walk->rest, way, sizeof way);
    return ENGINE_OK;
}

/* Passes one name, which `walk->rest` begins with. Its folder is checked, unless the name is a file's,
 * whose folder trust_file checks. */
static int trust_pass(struct walk *walk)
{
    char path[PATH_MAX];
    const char *name = walk->rest + strspn(walk->rest, "/");
    size_t length = strcspn(name, "/");
    const char *rest = name + length + strspn(name + length, "/");
    int status = ENGINE_OK;
    bool is_dot = length == 1 && name[0] == '.', is_up = length == 2 && memcmp(name, "..", 2) == 0;
    if (is_up) {
        char *slash = strrchr(walk->real, '/');
        status = check_passed(walk);
        if (slash) *slash = '\0';
    } else if (length > 0 && !is_dot) {
        if (snprintf(path, sizeof path, "%s/%.*s", walk->real, (int)length, name) >= (int)sizeof path)
            return fail_length();
        if (lstat(path, &walk->info) != 0) return fail_errno();
        if (!S_ISREG(walk->info.st_mode)) status = check_passed(walk);
        if (status == ENGINE_OK && S_ISLNK(walk->info.st_mode))
            return trust_follow(walk, path, &walk->info, rest);
        memcpy(walk->real, path, sizeof path);
    }
    memmove(walk->rest, rest, strlen(rest) + 1);
    return status;
}

/* Walks a path to its end. `walk` is written whole; free walk->own. */
static int walk_to(struct walk *walk, const char *path)
{
    int status = ENGINE_OK;
    char here[PATH_MAX] = "";
    errno = 0;
    walk->own = folders_own();
    if (!walk->own && errno == ENOMEM) return fail_errno();
    walk->real[0] = '\0';
    walk->n_links = 0;
    if (path[0] != '/' && !getcwd(here, sizeof here)) return fail_errno();
    if (snprintf(walk->rest, sizeof walk->rest, "%s/%s", here, path) >= (int)sizeof walk->rest)
        return fail_length();
    while (walk->rest[0] && status == ENGINE_OK) status = trust_pass(walk);
    if (status == ENGINE_OK && stat(walk->real[0] ? walk->real : "/", &walk->info) != 0)
        status = fail_errno();
    return status;
}

/* ---- Public -------------------------------------------------------------------------------------------- */

int trust_folder(const char *path, char **real)
{
    struct walk walk;
    int status = walk_to(&walk, path);
    if (status == ENGINE_OK && !S_ISDIR(walk.info.st_mode)) {
        status = error_raise(ENGINE_ERROR_DATA, "not a folder");
    }
    if (status == ENGINE_OK) status = check_strictly(&walk.info, "the folder");
    *real = status == ENGINE_OK ? strdup(walk.real[0] ? walk.real : "/") : NULL;
    free(walk.own);
    return status != ENGINE_OK || *real ? status : error_memory("path of a plugin");
}

int trust_file(const char *path, char **real)
{
    struct walk walk;
    char *folder = NULL;
    int status = walk_to(&walk, path);
    *real = NULL;
    if (status == ENGINE_OK && !S_ISREG(walk.info.st_mode)) {
        status = error_raise(ENGINE_ERROR_DATA, "not a file");
    }
    if (status == ENGINE_OK) status = check_strictly(&walk.info, "it");
    if (status == ENGINE_OK) {
        *real = strdup(walk.real);
        *strrchr(walk.real, '/') = '\0';
        status =
            *real ? trust_folder(walk.real[0] ? walk.real : "/", &folder) : error_memory("path of a plugin");
    }
    if (status != ENGINE_OK) {
        free(*real);
        *real = NULL;
    }
    free(folder);
    free(walk.own);
    return status;
}
