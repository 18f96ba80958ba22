/* hub.c: see hub.h. The cache has a folder for each model:
 *
 *   models--ORG--NAME/refs/main          the name of a snapshot
 *   models--ORG--NAME/snapshots/HASH/    config.json and so on, links to ../../blobs
 *
 * It is the folder HF_HUB_CACHE, else hub in HF_HOME, else ~/.cache/huggingface/hub. */
#include "model/hf/hub.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* False: the path is too long. */
static bool join(char path[PATH_MAX], const char *folder, const char *name)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX;
}

/* Reads refs/main; false if it is missing, or no name of a folder. */
static bool read_reference(const char *folder, char name[128])
{
    char path[PATH_MAX];
    FILE *file = join(path, folder, "refs/main") ? fopen(path, "rbe") : NULL;
    size_t n = file ? fread(name, 1, 127, file) : 0;
    if (file) fclose(file);
    while (n > 0 && isspace((unsigned char)name[n - 1])) n--;
    name[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i])) return false;
    return n > 0;
}

/* The name of the only snapshot; false if there are several, or none. */
static bool find_only(const char *snapshots, char name[128])
{
    DIR *folder = opendir(snapshots);
    size_t n = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) > 127) continue;
        snprintf(name, 128, "%.127s", entry->d_name);
        n++;
    }
    if (folder) closedir(folder);
    return n == 1;
}

static char *find_snapshot(const char *folder)
{
    char snapshots[PATH_MAX], path[PATH_MAX], name[128];
    if (!join(snapshots, folder, "snapshots")) return NULL;
    if (read_reference(folder, name) && join(path, snapshots, name) && is_folder(path)) return strdup(path);
    return find_only(snapshots, name) && join(path, snapshots, name) ? strdup(path) : NULL;
}

/* Whether a path can be ORG/NAME. */
static bool is_name(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash && slash != path && slash[1] && !strchr(slash + 1, '/') && path[0] != '.' && slash[1] != '.';
}

static bool find_cache(char path[PATH_MAX])
{
    const char *cache = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME"), *user = getenv("HOME");
    if (cache && cache[0]) return snprintf(path, PATH_MAX, "%s", cache) < PATH_MAX;
    if (home && home[0]) return join(path, home, "hub");
    return user && join(path, user, ".cache/huggingface/hub");
}

char *hf_hub_find(const char *path)
{
    struct stat info;
    char cache[PATH_MAX], folder[PATH_MAX], name[256];
    if (stat(path, &info) == 0) {
        bool is_whole = join(folder, path, "config.json") && stat(folder, &info) == 0;
        bool is_cached = join(folder, path, "snapshots") && is_folder(folder);
        return is_cached && !is_whole ? find_snapshot(path) : NULL;
    }
    if (!is_name(path) || strlen(path) > 200 || !find_cache(cache)) return NULL;
    const char *slash = strchr(path, '/');
    snprintf(name, sizeof name, "models--%.*s--%s", (int)(slash - path), path, slash + 1);
    return join(folder, cache, name) ? find_snapshot(folder) : NULL;
}
