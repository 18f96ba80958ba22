/* host.h: the services that the engine offers to plugins (struct engine_host). They are process-wide, for the
 * border has no way to tell engines apart: so is the list of plugins. */
#ifndef ENGINE_PLUGINS_HOST_H
#define ENGINE_PLUGINS_HOST_H

#include <stdbool.h>

#include "base/config.h"
#include "plugin-api.h"

/* Before the first plugin is loaded: where settings come from, until host_end. ENGINE_ERROR_ARGUMENT if there
 * has been a host_begin without host_end. */
int host_begin(const struct config *config);
/* After the last plugin has been unloaded. */
void host_end(void);
/* Whether there has been a host_begin without host_end. */
bool host_has_begun(void);

const struct engine_host *host_services(void);

/* From now on what the library says that holds `address` carries the plugin's name. */
int host_name(const void *address, const char *plugin);
/* The opposite, before it is unloaded. */
void host_forget(const void *address);

#endif
