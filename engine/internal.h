/* internal.h: the opaque types of engine.h, for the files that implement them. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "adapter/adapter.h"
#include "base/config.h"
#include "engine.h"
#include "model/model.h"
#include "plugins/plugins.h"
#include "vocabulary/token-texts.h"

struct engine {
    struct config *config;
    struct plugins *plugins;
    char *installed_model;  /* NULL: none */
    struct device *devices; /* [n_devices]; see devices/devices.h */
    size_t n_devices;
    bool devices_listed;
    const struct plugin
        *serving; /* the backend through which this process serves another; it lists no devices */
    pthread_mutex_t devices_lock; /* protects the four above, and the backends' functions marked [main] */
};

struct engine_model {
    struct engine *engine;
    struct model *model;
    struct engine_metadata getters;
    char *architecture, *name;                        /* "" if the model does not say */
    const struct engine_tokenizer_api *tokenizer_api; /* NULL until the tokenizer is first requested */
    struct engine_tokenizer *tokenizer;
    pthread_mutex_t token_texts_lock;    /* protects the pointer, not what it points to */
    struct token_texts *token_texts;     /* NULL until they are first requested */
    pthread_mutex_t grammar_lock;        /* while the two below are being made */
    struct grammar_vocab *grammar_vocab; /* NULL until a grammar needs it */
    struct engine_adapter *adapters;     /* those that are open; NULL: none */
    bool is_converted;                   /* opened with a type for loading */
    bool strips_space;                   /* a text loses the space that it begins with */
};

struct engine_adapter {
    struct engine_model *model;
    struct adapter *adapter;
    struct engine_adapter *next; /* of the model's list */
};

/* The tokens of a text whose bytes are marked: special tokens are recognised only among bytes of mark 0. In
 * template-tokens.c. */
int template_tokens(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                    struct engine_string text, const unsigned char *marks, engine_token_sink sink,
                    void *user);

/* The texts of the model's tokens. Any thread, once the tokenizer has been opened. */
int model_token_texts(struct engine_model *model, const struct token_texts **texts);

/* Whether a grammar was made for a model. */
bool grammar_is_for(const struct engine_grammar *grammar, const struct engine_model *model);

#endif
