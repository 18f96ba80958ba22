/* engine.c: the public functions of engine.h that open the engine and models, and list plugins and devices. */
#include "engine.h"

#include "base/error.h"

const char *engine_version(void)
{
    return ENGINE_VERSION;
}

const char *engine_error_message(void)
{
    return error_message();
}
