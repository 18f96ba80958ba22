/* load.h: turns a file into a usable plugin, or gives the reason why it is not usable. */
#ifndef ENGINE_PLUGINS_LOAD_H
#define ENGINE_PLUGINS_LOAD_H

#include "plugin-api.h"

/* ENGINE_OK if only root and the user can change or add files in a folder, and nobody else can make its path
 * lead elsewhere; /tmp is not trusted. *real is then the path without symbolic links, which the caller frees
 * and uses from then on. Otherwise *real is NULL, and the message does not name the folder. */
int trust_folder(const char *path, char **real);
/* The same for a regular file and its folder. */
int trust_file(const char *path, char **real);

/* Rejects a truncated or clearly damaged library, which dlopen might not survive. */
int elf_check_library(const char *path);

/* Loads a library that trust_file trusts, calls its entry with `host` and checks its description. *library is for
 * dlclose, and *info is part of it. After an error they hold what was reached, or NULL. The error message does not
 * name the file. ENGINE_ERROR_NOT_FOUND comes only from the plugin: it lacks a driver, say. ENGINE_ERROR_MEMORY never
 * does. */
int plugin_load(const char *path, const struct engine_host *host, void **library,
                const struct engine_plugin **info);

#endif
