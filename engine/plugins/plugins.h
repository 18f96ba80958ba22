/* plugins.h: finds, checks and loads plugins, keeps the list of them, and gives access to their vtables. */
#ifndef ENGINE_PLUGINS_PLUGINS_H
#define ENGINE_PLUGINS_PLUGINS_H

#include <stddef.h>

#include "base/config.h"
#include "engine.h"

struct plugin {
    char *path;
    char *refused;                    /* why it can't be used; NULL: it is in use */
    void *library;                    /* dlopen's handle; NULL if refused */
    const struct engine_plugin *info; /* NULL if refused before it could say */
};

struct plugins;

/* Loads all plugins of the folders: `dirs` (may be NULL, ended by NULL), ENGINE_PLUGIN_PATH (colons between),
 * the configuration's plugin_dirs, the build tree's or the installed folder. Within a folder by file name;
 * the first plugin of a name wins, later ones are refused. Each refusal is logged as one warning. */
int plugins_open(const char *const *dirs, const struct config *config, struct plugins **plugins);
void plugins_close(struct plugins *plugins);

size_t plugins_count(const struct plugins *plugins);
const struct plugin *plugins_at(const struct plugins *plugins, size_t index);

/* A usable backend by name, or the tokenizer plugin that serves a tokenizer.ggml.model; NULL if there is
 * none. */
const struct plugin *plugins_find_backend(const struct plugins *plugins, const char *name);
const struct plugin *plugins_find_tokenizer(const struct plugins *plugins, const char *model);

#endif
