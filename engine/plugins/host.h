/* host.h: what hosting plugins takes: loading them, and the services that the engine offers to them (struct
 * engine_host), which are process-wide, like the list of plugins, because the plugin interface cannot tell
 * engines apart. */
#ifndef ENGINE_PLUGINS_HOST_H
#define ENGINE_PLUGINS_HOST_H

#include <stdbool.h>

#include "base/config.h"
#include "plugin-api.h"

/* ---- host.c ---- */

/* Sets the source of settings until host_end. Call it before the first plugin is loaded.
 * ENGINE_ERROR_ARGUMENT after a host_begin without host_end. */
int host_begin(const struct config *config);
/* Call after the last plugin has been unloaded. */
void host_end(void);
/* Whether there was a host_begin without host_end. */
bool host_has_begun(void);

const struct engine_host *host_services(void);

/* The status of the last message that a plugin gave on this thread (engine_host.fail). */
int host_failure(void);

/* How often plugins have asked for settings. */
unsigned host_settings_asked(void);

/* From now on, messages from the library that contains `address` carry the plugin's name. */
int host_name(const void *address, const char *plugin);
/* Undoes host_name, before the library is unloaded. */
void host_forget(const void *address);

/* ---- trust.c ---- */

/* ENGINE_OK if only root and the user can change or add files in a folder, and nobody else can make its path
 * lead elsewhere; /tmp is not trusted. *real is then the path without symbolic links, which the caller frees
 * and uses from then on. Otherwise *real is NULL, and the message does not name the folder. */
int trust_folder(const char *path, char **real);
/* The same for a regular file and its folder. */
int trust_file(const char *path, char **real);

/* ---- elf.c ---- */

/* Rejects a truncated or clearly damaged library, which dlopen might not survive. */
int elf_check_library(const char *path);

/* ---- load.c ---- */

/* Loads a library that trust_file trusts, calls its entry with `host` and checks its description. *library is
 * for dlclose, and *info is part of it. After an error they hold what was reached, or NULL. The error message
 * does not name the file. ENGINE_ERROR_NOT_FOUND comes only from the plugin: it lacks a driver, say.
 * ENGINE_ERROR_MEMORY never does. */
int plugin_load(const char *path, const struct engine_host *host, void **library,
                const struct engine_plugin **info);

#endif
