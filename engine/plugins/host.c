/* host.c: see host.h. */
#include "plugins/host.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/folders.h"
#include "base/log.h"
#include "common/array.h"
#include "common/assert.h"
#include "common/lock.h"
#include "common/own-folder.h"
#include "common/printable.h"

#define NAME_SIZE 32

struct library {
    const void *base; /* where it is in memory */
    char plugin[NAME_SIZE];
};

static pthread_mutex_t lock = LOCK_INITIALIZER; /* protects everything below */
static bool begun;
static const struct config *settings;
static struct library *libraries; /* [n_libraries] */
static size_t n_libraries;
static char *cache; /* the folder, once it has been requested and found */
static bool cache_tried;

/* ---- Which plugin speaks ------------------------------------------------------------------------------- */

static const void *library_base(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* Writes "NAME: " for the plugin that a format string belongs to, or nothing if it belongs to none. Plugins
 * don't identify themselves, but their texts are literals in their libraries. The caller's address would not
 * do, because `return host->fail(…)` is compiled to a jump. */
static void name_speaker(const char *format, char name[static NAME_SIZE + 2])
{
    const void *base = library_base(format);
    name[0] = '\0';
    pthread_mutex_lock(&lock);
    for (size_t i = 0; base && i < n_libraries; i++) {
        if (libraries[i].base == base) snprintf(name, NAME_SIZE + 2, "%s: ", libraries[i].plugin);
    }
    pthread_mutex_unlock(&lock);
}

int host_name(const void *address, const char *plugin)
{
    const void *base = library_base(address);
    int status = ENGINE_OK;
    pthread_mutex_lock(&lock);
    if (ARRAY_GROW(libraries, n_libraries)) {
        libraries[n_libraries].base = base;
        snprintf(libraries[n_libraries++].plugin, NAME_SIZE, "%s", plugin);
    } else {
        status = error_memory("list of plugins");
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void host_forget(const void *address)
{
    const void *base = library_base(address);
    pthread_mutex_lock(&lock);
    for (size_t i = n_libraries; i-- > 0;) {
        if (libraries[i].base == base) libraries[i] = libraries[--n_libraries];
    }
    if (n_libraries == 0) {
        free(libraries);
        libraries = NULL;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- Messages ------------------------------------------------------------------------------------------ */

#define TEXT_SIZE 4096

/* "NAME: TEXT" on one line, with the plugin's control characters replaced. */
static void write_message(char text[static TEXT_SIZE], const char *format, va_list args)
{
    char name[NAME_SIZE + 2];
    name_speaker(format, name);
    int length = snprintf(text, TEXT_SIZE, "%s", name);
    vsnprintf(text + length, TEXT_SIZE - (size_t)length, format, args);
    printable_make(text);
}

static _Thread_local int failure; /* see host_failure */

static int ENGINE_PRINTF(2, 3) host_fail(int status, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list args;
    va_start(args, format);
    write_message(text, format, args);
    va_end(args);
    failure = status;
    return error_raise(status, "%s", text);
}

int host_failure(void)
{
    return failure;
}

static void ENGINE_PRINTF(2, 3) host_log(enum engine_log_level level, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list args;
    va_start(args, format);
    write_message(text, format, args);
    va_end(args);
    log_line(level, "%s", text);
}

/* ---- Settings and the cache folder --------------------------------------------------------------------- */

static atomic_uint n_asked;

unsigned host_settings_asked(void)
{
    return atomic_load(&n_asked);
}

static const char *host_setting(const char *plugin, const char *key)
{
    atomic_fetch_add(&n_asked, 1);
    /* `settings` doesn't change while plugins are loaded. */
    return settings && plugin && plugin[0] && key ? config_get(settings, plugin, key) : NULL;
}

/* The folder, or NULL after a line in the log. Its contents will be run (compiled kernels), so only its owner
 * may be able to add anything. */
static char *find_cache(void)
{
    char *path = folders_user("XDG_CACHE_HOME", ".cache");
    char *real = NULL;
    struct stat info;
    ENGINE_ASSERT(lock_is_mine(&lock));
    if (!path) return NULL;
    if (!own_folder_make(path) || stat(path, &info) != 0) {
        /* Nothing is lost but time: HOME may be another user's, or none. */
        log_line(ENGINE_LOG_INFO, "no cache folder: %s: %s", path, strerror(errno));
    } else if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH))) {
        log_line(ENGINE_LOG_WARNING,
                 "no cache folder: %s is not a folder that belongs to you and that only you can write to",
                 path);
    } else if (trust_folder(path, &real) != ENGINE_OK) {
        log_line(ENGINE_LOG_WARNING, "no cache folder: %s is not used: %s", path, error_message());
    }
    free(path);
    return real;
}

static const char *host_cache_folder(void)
{
    pthread_mutex_lock(&lock);
    if (!cache_tried) cache = find_cache();
    cache_tried = true;
    const char *folder = cache;
    pthread_mutex_unlock(&lock);
    return folder;
}

/* ---- Begin and end ------------------------------------------------------------------------------------- */

static const struct engine_host services = {
    .struct_size = sizeof services,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .fail = host_fail,
    .log = host_log,
    .setting = host_setting,
    .cache_folder = host_cache_folder,
};

const struct engine_host *host_services(void)
{
    return &services;
}

int host_begin(const struct config *config)
{
    pthread_mutex_lock(&lock);
    bool free_to_begin = !begun;
    if (free_to_begin) {
        begun = true;
        settings = config;
    }
    pthread_mutex_unlock(&lock);
    if (free_to_begin) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT, "this process already has an open engine; close it first");
}

bool host_has_begun(void)
{
    pthread_mutex_lock(&lock);
    bool answer = begun;
    pthread_mutex_unlock(&lock);
    return answer;
}

void host_end(void)
{
    pthread_mutex_lock(&lock);
    free(cache);
    cache = NULL;
    cache_tried = false;
    settings = NULL;
    begun = false;
    pthread_mutex_unlock(&lock);
}
