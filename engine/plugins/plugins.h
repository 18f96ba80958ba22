/* plugins.h: finds, checks and loads plugins, and keeps the list of them. */
#ifndef ENGINE_PLUGINS_PLUGINS_H
#define ENGINE_PLUGINS_PLUGINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "plugin-api.h"

struct plugin {
    char *path;                       /* as found */
    char *refused;                    /* why it cannot be used; NULL: it is in use */
    void *library;                    /* dlopen's handle; NULL if refused */
    const struct engine_plugin *info; /* its description; NULL if refused */
    char *name;                       /* NULL if refused before its description was read */
    uint32_t abi_major, abi_minor;    /* 0.0: the same */
    char *real_path;                  /* without symbolic links; NULL if there is no such file */
    bool has_read_settings;           /* in its entry call, and then all that it knows */
};

struct plugins;

/* Loads all plugins from these folders: `dirs` (terminated by NULL, or NULL), ENGINE_PLUGIN_PATH (separated
 * by colons), the setting plugin_dirs, and the folder of the build tree or installation. Files `*.so` are
 * tried in order of their names. The first plugin of a name wins; later ones are refused. Each refusal is
 * logged as one warning; as information if the plugin finds no driver. A folder that is missing, or that
 * others may write to, is refused like a plugin, but a missing folder of `dirs` is an error. Call host_begin
 * (host.h) before, and plugins_close before host_end. */
int plugins_open(const char *const *dirs, const struct config *config, struct plugins **plugins);
void plugins_close(struct plugins *plugins);

size_t plugins_count(const struct plugins *plugins);
const struct plugin *plugins_at(const struct plugins *plugins, size_t index);

/* A usable backend by name, or the tokenizer plugin that handles a tokenizer.ggml.model; NULL if there is
 * none. */
const struct plugin *plugins_find_backend(const struct plugins *plugins, const char *name);
const struct plugin *plugins_find_tokenizer(const struct plugins *plugins, const char *model);

/* Warn about sections of engine.conf that belong to no plugin, and about settings that a plugin has not read:
 * those of plugins that read settings in their entry call, and of one plugin, whose device is open. */
void settings_report_sections(const struct plugins *plugins, const struct config *config);
void settings_report_early(const struct plugins *plugins, const struct config *config);
void settings_report_unread(const struct config *config, const char *plugin);
/* If a plugin's message names a setting as "KEY = VALUE", prefixes it with the file and line. Returns
 * `status`. */
int settings_locate(const struct config *config, const char *plugin, int status);

#endif
