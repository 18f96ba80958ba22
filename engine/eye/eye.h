/* eye.h: the eye of a model that sees, and the pictures it has been shown. Implements "Pictures" of engine.h;
 * the eye's graph is its family's (arch/…-eye.c), run by a context of its own (context/see.c). */
#ifndef ENGINE_EYE_EYE_H
#define ENGINE_EYE_EYE_H

#include <pthread.h>

#include "arch/arch.h"
#include "engine.h"

struct engine_context;
struct picture;

struct engine_eye {
    struct engine_model *model; /* the text model, which it belongs to */
    struct engine_model *own;   /* its file, or its part of the directory */
    struct engine_context *context;
    const struct architecture *architecture;
    int32_t mark, row;    /* the tokens of arch_eye; -1: the vocabulary has none */
    pthread_mutex_t lock; /* while a picture is encoded */
};

struct engine_picture {
    struct engine_model *model; /* the text model; the eye may be closed */
    const struct picture *rows; /* those that the model's store keeps */
    char *text;
};

#endif
