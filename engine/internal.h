/* internal.h: the opaque types of engine.h, for the files that implement them. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "base/config.h"
#include "engine.h"
#include "model/model.h"
#include "plugins/plugins.h"

struct engine {
    struct config *config;
    struct plugins *plugins;
    char *installed_model;  /* NULL: none */
    struct device *devices; /* [n_devices]; see devices/devices.h */
    size_t n_devices;
    bool devices_listed;
    pthread_mutex_t devices_lock; /* protects the three above, and the backends' functions marked [main] */
};

struct engine_model {
    struct engine *engine;
    struct model *model;
    struct engine_metadata getters;
    char *architecture, *name;                        /* "" if the model does not say */
    const struct engine_tokenizer_api *tokenizer_api; /* NULL until the tokenizer is first requested */
    struct engine_tokenizer *tokenizer;
};

#endif
