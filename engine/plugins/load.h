/* load.h: from a file to a plugin that can be used, or to the reason why not. */
#ifndef ENGINE_PLUGINS_LOAD_H
#define ENGINE_PLUGINS_LOAD_H

#include "plugin-api.h"

/* ENGINE_OK if only root and the user can change what is in a folder, or add to it: /tmp won't do. Else a message
 * without the folder's name. */
int trust_folder(const char *path);
/* The same for a regular file and the folder that it is in. `path` has no symbolic links. */
int trust_file(const char *path);

/* Refuses a library that is cut off or plainly damaged, which dlopen might not survive. */
int elf_check_library(const char *path);

/* Loads a library, calls its entry with `host` and checks what it says of itself. *library is for dlclose and *info lives in
 * it; after an error both are what had been reached, or NULL. The message of an error doesn't name the file. */
int plugin_load(const char *path, const struct engine_host *host, void **library,
                const struct engine_plugin **info);

#endif
