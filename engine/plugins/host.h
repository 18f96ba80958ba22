/* host.h: the services that the engine offers to plugins (struct engine_host). They are process-wide, like
 * the list of plugins, because the plugin interface cannot tell engines apart. */
#ifndef ENGINE_PLUGINS_HOST_H
#define ENGINE_PLUGINS_HOST_H

#include <stdbool.h>

#include "base/config.h"
#include "plugin-api.h"

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

#endif
