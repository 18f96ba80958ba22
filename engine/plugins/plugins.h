/* plugins.h: finds, checks and loads plugins, keeps the list of them, and gives access to their vtables. */
#ifndef ENGINE_PLUGINS_PLUGINS_H
#define ENGINE_PLUGINS_PLUGINS_H

#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "plugin-api.h"

struct plugin {
    char *path;                       /* as it was found */
    char *refused;                    /* why it can't be used; NULL: it is in use */
    void *library;                    /* dlopen's handle; NULL if refused */
    const struct engine_plugin *info; /* what it says of itself; NULL if refused */
    char *name;                       /* NULL if refused before it could say */
    uint32_t abi_major, abi_minor;    /* 0.0 likewise */
    char *real_path;                  /* without symbolic links; NULL if there is no such file */
};

struct plugins;

/* Loads all plugins of the folders: `dirs` (may be NULL, ended by NULL), ENGINE_PLUGIN_PATH (colons between),
 * the configuration's plugin_dirs, the build tree's or the installed folder. Looks at files `*.so`, within a
 * folder by name; the first plugin of a name wins, later ones are refused. Each refusal is logged as one
 * warning. A folder that isn't there, or that others may write to, is refused as if it were a plugin; one of
 * `dirs` that isn't there is an error. Comes after host_begin
 * (host.h), and plugins_close before host_end. */
int plugins_open(const char *const *dirs, const struct config *config, struct plugins **plugins);
void plugins_close(struct plugins *plugins);

size_t plugins_count(const struct plugins *plugins);
const struct plugin *plugins_at(const struct plugins *plugins, size_t index);

/* A usable backend by name, or the tokenizer plugin that serves a tokenizer.ggml.model; NULL if there is
 * none. */
const struct plugin *plugins_find_backend(const struct plugins *plugins, const char *name);
const struct plugin *plugins_find_tokenizer(const struct plugins *plugins, const char *model);

/* settings.c: warnings of sections that no plugin has, and of settings that a plugin, which has opened its device by now,
 * hasn't read. */
void settings_report_sections(const struct plugins *plugins, const struct config *config);
void settings_report_unread(const struct config *config, const char *plugin);
/* Puts file and line in front of a plugin's message where that says "KEY = VALUE" of a setting. Returns `status`. */
int settings_locate(const struct config *config, const char *plugin, int status);

#endif
