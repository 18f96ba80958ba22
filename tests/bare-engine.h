/* bare-engine.h: an engine without the user's settings. */
#ifndef TESTS_BARE_ENGINE_H
#define TESTS_BARE_ENGINE_H

#include "engine.h"

/* Opens an engine with the plugins of `plugin_dir` first and an empty engine.conf, which it writes to
 * `folder`. Errors fail the test. */
struct engine *bare_engine(const char *folder, const char *plugin_dir);

#endif
