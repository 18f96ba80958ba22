/* plugins.c: see plugins.h. */
#include "plugins/plugins.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/folders.h"
#include "base/log.h"
#include "common/array.h"
#include "plugins/host.h"

struct plugins {
    struct plugin *items; /* [count], in the order found */
    size_t count;
};

/* ---- The list ------------------------------------------------------------------------------------------ */

static const struct plugin *find_name(const struct plugins *plugins, const char *name)
{
    for (size_t i = 0; i < plugins->count; i++) {
        const struct plugin *plugin = &plugins->items[i];
        if (plugin->info && plugin->name && strcmp(plugin->name, name) == 0) return plugin;
    }
    return NULL;
}

static bool has_file(const struct plugins *plugins, const char *real_path)
{
    for (size_t i = 0; i < plugins->count; i++) {
        const char *other = plugins->items[i].real_path;
        if (other && strcmp(other, real_path) == 0) return true;
    }
    return false;
}

static void plugins_unload(struct plugin *plugin)
{
    if (plugin->info) host_forget(plugin->info);
    if (plugin->library) dlclose(plugin->library);
    plugin->info = NULL;
    plugin->library = NULL;
}

static void plugins_clear(struct plugin *plugin)
{
    plugins_unload(plugin);
    free(plugin->path);
    free(plugin->real_path);
    free(plugin->name);
    free(plugin->refused);
}

/* Keeps error_message() as the reason, and logs it. */
static int plugins_refuse(struct plugin *plugin, enum engine_log_level level)
{
    plugins_unload(plugin);
    log_line(level, "%s is not used: %s", plugin->path, error_message());
    plugin->refused = strdup(error_message());
    return plugin->refused ? ENGINE_OK : error_memory("list of plugins");
}

/* Room for one more, zeroed. */
static struct plugin *plugins_add(struct plugins *plugins)
{
    if (!ARRAY_GROW(plugins->items, plugins->count)) {
        error_memory("list of plugins");
        return NULL;
    }
    plugins->items[plugins->count] = (struct plugin){0};
    return &plugins->items[plugins->count++];
}

/* ---- Files and folders --------------------------------------------------------------------------------- */

/* Loads the file of a new entry; refused plugins stay in the list. Errors are the engine's own. */
static int plugins_load(const struct plugins *plugins, struct plugin *plugin, const char *path)
{
    unsigned asked = host_settings_asked();
    int status = plugin_load(path, host_services(), &plugin->library, &plugin->info);
    plugin->has_read_settings = host_settings_asked() != asked;
    if (plugin->info && ENGINE_HAS(plugin->info, abi_minor)) {
        plugin->abi_major = plugin->info->abi_major;
        plugin->abi_minor = plugin->info->abi_minor;
    }
    if (status == ENGINE_ERROR_MEMORY) return error_wrap(status, "%s", plugin->path);
    /* A machine without the driver that a plugin needs is no fault: who asks why it isn't used is told. */
    if (status == ENGINE_ERROR_NOT_FOUND) return plugins_refuse(plugin, ENGINE_LOG_INFO);
    if (status != ENGINE_OK) return plugins_refuse(plugin, ENGINE_LOG_WARNING);

    const struct plugin *other = find_name(plugins, plugin->info->name);
    plugin->name = strdup(plugin->info->name);
    if (!plugin->name) return error_memory("list of plugins");
    if (other) {
        error_raise(ENGINE_ERROR, "another plugin has the name '%s': %s", plugin->name, other->path);
        return plugins_refuse(plugin, ENGINE_LOG_WARNING);
    }
    log_line(ENGINE_LOG_INFO, "plugin %s %s: %s", plugin->name, plugin->info->version, plugin->path);
    return host_name(plugin->info, plugin->name);
}

/* Looks at one entry of a folder, which may be no file at all. The list names the folder as it was found;
 * what is opened is in `real_folder`, which nobody can exchange. */
static int take_file(struct plugins *plugins, const char *folder, const char *real_folder, const char *file)
{
    struct stat info;
    char *path = NULL, *shown = NULL, *real_path = NULL;
    int status = ENGINE_OK;
    if (asprintf(&path, "%s/%s", real_folder, file) < 0) return error_memory("path of a plugin");
    bool exists = stat(path, &info) == 0;
    int problem = errno;
    if (exists && !S_ISREG(info.st_mode)) goto cleanup;
    real_path = exists ? realpath(path, NULL) : NULL;
    if (exists && !real_path) problem = errno;
    if (problem == ENOMEM && !real_path) {
        status = error_memory("path of a plugin");
        goto cleanup;
    }
    if (real_path && has_file(plugins, real_path)) goto cleanup; /* already found by another path */
    if (asprintf(&shown, "%s/%s", folder, file) < 0) {
        shown = NULL;
        status = error_memory("path of a plugin");
        goto cleanup;
    }

    struct plugin *plugin = plugins_add(plugins);
    if (!plugin) {
        status = ENGINE_ERROR_MEMORY;
        goto cleanup;
    }
    plugin->path = shown;
    plugin->real_path = real_path;
    shown = real_path = NULL;
    if (plugin->real_path) {
        status = plugins_load(plugins, plugin, path);
    } else {
        error_raise(ENGINE_ERROR_DATA, "%s", strerror(problem)); /* a dangling link */
        status = plugins_refuse(plugin, ENGINE_LOG_WARNING);
    }

cleanup:
    free(path);
    free(shown);
    free(real_path);
    return status;
}

static int is_library(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 3 && strcmp(entry->d_name + length - 3, ".so") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* A folder that can't be used is listed as refused, with error_message() as the reason. */
static int refuse_folder(struct plugins *plugins, const char *folder)
{
    struct plugin *plugin = plugins_add(plugins);
    if (!plugin) return ENGINE_ERROR_MEMORY;
    plugin->path = strdup(folder);
    return plugin->path ? plugins_refuse(plugin, ENGINE_LOG_WARNING) : error_memory("path of a plugin");
}

/* Loads the plugins in a folder. ENGINE_ERROR_NOT_FOUND, with a message that doesn't name the folder: it
 * doesn't exist or can't be read. */
static int take_folder(struct plugins *plugins, const char *folder)
{
    struct dirent **files = NULL;
    char *real = NULL;
    int status = trust_folder(folder, &real);
    if (status == ENGINE_ERROR_MEMORY) return status;
    int count = scandir(real ? real : folder, &files, is_library, by_name);
    int problem = errno;
    if (count < 0) {
        free(real);
        return error_raise(problem == ENOMEM ? ENGINE_ERROR_MEMORY : ENGINE_ERROR_NOT_FOUND, "%s",
                           strerror(problem));
    }
    log_line(ENGINE_LOG_DEBUG, "looking for plugins in %s", folder);
    status = ENGINE_OK;
    if (!real && count > 0) status = refuse_folder(plugins, folder);
    for (int i = 0; i < count && real && status == ENGINE_OK; i++) {
        status = take_file(plugins, folder, real, files[i]->d_name);
    }
    for (int i = 0; i < count; i++) free(files[i]);
    free(files);
    free(real);
    return status;
}

/* Folders separated by colons, from the environment or the configuration. */
static int take_path(struct plugins *plugins, const char *path)
{
    char *folders = strdup(path ? path : ""), *save = NULL;
    int status = ENGINE_OK;
    if (!folders) return error_memory("plugin folders");
    for (char *folder = strtok_r(folders, ":", &save); folder && status == ENGINE_OK;
         folder = strtok_r(NULL, ":", &save)) {
        status = take_folder(plugins, folder);
        if (status == ENGINE_ERROR_NOT_FOUND) status = refuse_folder(plugins, folder);
    }
    free(folders);
    return status;
}

/* The folder of this libengine: engine/plugins beside it, installed or in the build tree; for a program that
 * contains libengine, the one below ../lib. It may not exist. */
static int take_own_folder(struct plugins *plugins)
{
    static const char *const places[] = {"engine/plugins", "../lib/engine/plugins"};
    errno = 0;
    char *own = folders_own();
    int status = own || errno != ENOMEM ? ENGINE_ERROR_NOT_FOUND : error_memory("plugin folders");
    for (size_t i = 0; own && i < sizeof places / sizeof *places && status == ENGINE_ERROR_NOT_FOUND; i++) {
        char *folder = NULL, *path = NULL;
        if (asprintf(&folder, "%s/%s", own, places[i]) < 0) {
            free(own);
            return error_memory("plugin folders");
        }
        path = realpath(folder, NULL);
        if (path)
            status = take_folder(plugins, path);
        else if (errno == ENOMEM)
            status = error_memory("plugin folders");
        free(path);
        free(folder);
    }
    free(own);
    return status == ENGINE_ERROR_NOT_FOUND ? ENGINE_OK : status;
}

/* ---- Public -------------------------------------------------------------------------------------------- */

int plugins_open(const char *const *dirs, const struct config *config, struct plugins **out)
{
    int status = ENGINE_OK;
    struct plugins *plugins = calloc(1, sizeof *plugins);
    if (!plugins) return error_memory("list of plugins");
    for (; dirs && *dirs && status == ENGINE_OK; dirs++) {
        status = take_folder(plugins, *dirs);
        if (status == ENGINE_ERROR_NOT_FOUND) status = error_wrap(status, "plugin folder %s", *dirs);
    }
    if (status == ENGINE_OK) status = take_path(plugins, secure_getenv("ENGINE_PLUGIN_PATH"));
    if (status == ENGINE_OK) status = take_path(plugins, config_get(config, "", "plugin_dirs"));
    if (status == ENGINE_OK) status = take_own_folder(plugins);
    if (status != ENGINE_OK) {
        plugins_close(plugins);
        return status;
    }
    settings_report_sections(plugins, config);
    settings_report_early(plugins, config);
    *out = plugins;
    return ENGINE_OK;
}

void plugins_close(struct plugins *plugins)
{
    if (!plugins) return;
    for (size_t i = plugins->count; i-- > 0;) plugins_clear(&plugins->items[i]);
    free(plugins->items);
    free(plugins);
}

size_t plugins_count(const struct plugins *plugins)
{
    return plugins->count;
}

const struct plugin *plugins_at(const struct plugins *plugins, size_t index)
{
    return &plugins->items[index];
}

const struct plugin *plugins_find_backend(const struct plugins *plugins, const char *name)
{
    const struct plugin *plugin = find_name(plugins, name);
    return plugin && plugin->info->kind == ENGINE_PLUGIN_BACKEND ? plugin : NULL;
}

const struct plugin *plugins_find_tokenizer(const struct plugins *plugins, const char *model)
{
    for (size_t i = 0; i < plugins->count; i++) {
        const struct plugin *plugin = &plugins->items[i];
        if (plugin->refused || plugin->info->kind != ENGINE_PLUGIN_TOKENIZER) continue;
        for (const char *const *served = plugin->info->tokenizers->models; *served; served++) {
            if (strcmp(*served, model) == 0) return plugin;
        }
    }
    return NULL;
}

/* ---- Mistakes in plugins' sections of engine.conf, reported with file and line ------------------------- */

static bool is_plugin(const struct plugins *plugins, const char *name)
{
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const struct plugin *plugin = plugins_at(plugins, i);
        if (plugin->name && strcmp(plugin->name, name) == 0) return true;
    }
    return false;
}

void settings_report_sections(const struct plugins *plugins, const struct config *config)
{
    const char *before = "";
    for (size_t i = 0; i < config_count(config); i++) {
        const struct config_entry *entry = config_at(config, i);
        bool again = strcmp(entry->section, before) == 0;
        before = entry->section;
        if (entry->section[0] && !again && !is_plugin(plugins, entry->section))
            log_line(ENGINE_LOG_WARNING, "%s:%u: [%s]: no plugin has this name (`engine plugins` lists them)",
                     entry->path, entry->line, entry->section);
    }
}

void settings_report_unread(const struct config *config, const char *plugin)
{
    for (size_t i = 0; i < config_count(config); i++) {
        const struct config_entry *entry = config_at(config, i);
        if (strcmp(entry->section, plugin) == 0 && !config_was_read(config, i))
            log_line(ENGINE_LOG_WARNING,
                     "%s:%u: [%s] %s: the plugin did not read this setting; is it misspelt?", entry->path,
                     entry->line, plugin, entry->key);
    }
}

void settings_report_early(const struct plugins *plugins, const struct config *config)
{
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const struct plugin *plugin = plugins_at(plugins, i);
        if (!plugin->refused && plugin->has_read_settings) settings_report_unread(config, plugin->name);
    }
}

int settings_locate(const struct config *config, const char *plugin, int status)
{
    char text[512];
    for (size_t i = 0; i < config_count(config); i++) {
        const struct config_entry *entry = config_at(config, i);
        if (strcmp(entry->section, plugin) != 0 || !entry->value[0]) continue;
        snprintf(text, sizeof text, "%s = %s", entry->key, entry->value);
        if (strstr(error_message(), text)) return error_wrap(status, "%s:%u", entry->path, entry->line);
    }
    return status;
}
