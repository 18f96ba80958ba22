/* hub.c: finds models in the cache of Hugging Face's programs; nothing is downloaded. The cache has a folder
 * for each model:
 *
 *   models--ORG--NAME/refs/main          the name of a snapshot
 *   models--ORG--NAME/snapshots/HASH/    config.json and so on, links to ../../blobs
 *
 * Where the cache is, its programs are told by the same variables (huggingface_hub, constants.py). */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "model/hf/directory.h"

static bool hub_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* False: the path is too long. */
static bool hub_join(char path[PATH_MAX], const char *folder, const char *name)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX;
}

/* Reads refs/main; false if it is missing. *valid: whether it is the name of a folder. */
static bool read_reference(const char *folder, char name[128], bool *valid)
{
    char path[PATH_MAX];
    *valid = false;
    FILE *file = hub_join(path, folder, "refs/main") ? fopen(path, "rbe") : NULL;
    size_t n = file ? fread(name, 1, 127, file) : 0;
    if (file) fclose(file);
    while (n > 0 && isspace((unsigned char)name[n - 1])) n--;
    name[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i])) return true;
    *valid = n > 0;
    return file != NULL;
}

/* The name of one of the snapshots; returns how many there are. */
static size_t count_snapshots(const char *snapshots, char name[128])
{
    DIR *folder = opendir(snapshots);
    size_t n = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) > 127) continue;
        snprintf(name, 128, "%.127s", entry->d_name);
        n++;
    }
    if (folder) closedir(folder);
    return n;
}

static int find_snapshot(const char *folder, char **found)
{
    char snapshots[PATH_MAX], path[PATH_MAX], name[128];
    if (!hub_join(snapshots, folder, "snapshots"))
        return error_raise(ENGINE_ERROR, "%s: the path is too long", folder);
    bool is_valid, is_named = read_reference(folder, name, &is_valid);
    if (is_named && !is_valid)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s/refs/main does not name a snapshot: name one of the folders in %s", folder,
                           snapshots);
    size_t n = is_named ? 1 : count_snapshots(snapshots, name);
    if (n == 0) return error_raise(ENGINE_ERROR_NOT_FOUND, "%s is empty: nothing was downloaded", snapshots);
    if (n > 1)
        return error_raise(
            ENGINE_ERROR_NOT_FOUND,
            "%s has %zu snapshots and no refs/main that chooses one: name one of the folders in %s", folder,
            n, snapshots);
    if (!hub_join(path, snapshots, name) || !is_folder(path))
        return error_raise(ENGINE_ERROR_NOT_FOUND, "%s lacks the snapshot %s%s", folder, name,
                           is_named ? ", which refs/main names" : "");
    *found = strdup(path);
    return *found ? ENGINE_OK : error_memory("model");
}

/* Whether a path can be ORG/NAME. */
static bool is_name(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash && slash != path && slash[1] && !strchr(slash + 1, '/') && path[0] != '.' &&
           slash[1] != '.' && strlen(path) <= 200;
}

/* FOLDER/name, where a folder of "~" is the user's; false: the variable is not set, or the path too long. */
static bool find_in(char path[PATH_MAX], const char *variable, const char *name)
{
    const char *folder = getenv(variable), *home = getenv("HOME");
    char expanded[PATH_MAX];
    if (!folder || !folder[0]) return false;
    if (folder[0] == '~' && (folder[1] == '/' || !folder[1]) && home) {
        if (!hub_join(expanded, home, folder + 1 + (folder[1] == '/'))) return false;
        folder = expanded;
    }
    return name[0] ? hub_join(path, folder, name) : snprintf(path, PATH_MAX, "%s", folder) < PATH_MAX;
}

static bool find_cache(char path[PATH_MAX])
{
    return find_in(path, "HF_HUB_CACHE", "") || find_in(path, "HUGGINGFACE_HUB_CACHE", "") ||
           find_in(path, "HF_HOME", "hub") || find_in(path, "XDG_CACHE_HOME", "huggingface/hub") ||
           find_in(path, "HOME", ".cache/huggingface/hub");
}

int hf_hub_find(const char *path, char **found)
{
    char cache[PATH_MAX], folder[PATH_MAX], name[256];
    *found = NULL;
    if (hub_exists(path)) {
        bool is_whole = hub_join(folder, path, "config.json") && hub_exists(folder);
        bool is_cached = hub_join(folder, path, "snapshots") && is_folder(folder);
        return is_cached && !is_whole ? find_snapshot(path, found) : ENGINE_OK;
    }
    if (!is_name(path) || !find_cache(cache)) return ENGINE_OK;
    const char *slash = strchr(path, '/');
    snprintf(name, sizeof name, "models--%.*s--%s", (int)(slash - path), path, slash + 1);
    if (hub_join(folder, cache, name) && is_folder(folder)) return find_snapshot(folder, found);
    return error_raise(ENGINE_ERROR_NOT_FOUND,
                       "there is no file %s, and no model of that name in Hugging Face's cache, %s", path,
                       cache);
}
