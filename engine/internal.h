/* internal.h: what stands behind the opaque types of engine.h, for the files that implement them: engine.c (engine,
 * model), plan.c, context.c. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "base/config.h"
#include "engine.h"
#include "model/model.h"
#include "plugins/plugins.h"

struct engine {
    struct config *config;
    struct plugins *plugins;
};

struct engine_model {
    struct engine *engine;
    struct model *model;
    const struct engine_tokenizer_api *tokenizer_api; /* NULL until the tokenizer is first asked for */
    struct engine_tokenizer *tokenizer;
};

#endif
