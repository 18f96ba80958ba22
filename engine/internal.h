/* internal.h: the opaque types of engine.h, for the files that implement them. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "engine.h"

struct adapter;
struct config;
struct device;
struct grammar_vocab;
struct model;
struct pictures;
struct plugin;
struct plugins;
struct token_texts;

/* Memory of this machine that the caches of all contexts count on (context/room.c). */
struct claims {
    pthread_mutex_t lock;
    uint64_t unwritten; /* bytes of open blocks that nobody has written to: the CPU says they are free */
    uint64_t grown;     /* bytes of blocks opened beyond those that weights were placed with room for */
    uint64_t max_grown; /* UINT64_MAX: no limit */
    double asked;       /* seconds_now() when the CPU was asked for its free memory; 0: never */
    uint64_t left;      /* bytes that closed blocks may take, as of then */
};

struct engine {
    struct config *config;
    struct plugins *plugins;
    char *installed_model;  /* NULL: none */
    struct device *devices; /* [n_devices]; see devices/devices.h */
    size_t n_devices;
    bool devices_listed;
    /* The backend through which this process serves another; it lists no devices. */
    const struct plugin *serving;
    pthread_mutex_t devices_lock; /* protects the four above, and the backends' functions marked [main] */
    struct claims claims;
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
    struct engine_eye *eye;              /* the model's, once it is open; NULL: it sees nothing */
    struct pictures *pictures;           /* what that has seen; NULL without it */
    bool is_converted;                   /* opened with a type for loading */
    bool strips_space;                   /* a text loses the space that it begins with */
};

struct engine_adapter {
    struct engine_model *model;
    struct adapter *adapter;
    struct engine_adapter *next; /* of the model's list */
};

/* engine_model_open with metadata in the place of the file's, as in engine_model_options. */
int engine_model_open_changed(struct engine *engine, const char *path, const char *tokenizer_path,
                              const char *const *overrides, struct engine_model **model);

/* The same of the eye in a directory, see model_open_eye. */
int engine_model_open_eye(struct engine *engine, const char *path, struct engine_model **model);

/* Whether a grammar was made for a model. */
bool grammar_is_for(const struct engine_grammar *grammar, const struct engine_model *model);

#endif
