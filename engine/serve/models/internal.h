/* internal.h: what the files of models/ know of a model. */
#ifndef ENGINE_SERVE_MODELS_INTERNAL_H
#define ENGINE_SERVE_MODELS_INTERNAL_H

#include <pthread.h>

#include "serve/http/internal.h"
#include "serve/models/models.h"

/* A request on its way through the queue (jobs.c). */
struct job;

/* An adapter of --lora. */
struct served_adapter {
    char *name, *path;
    float scale;
    struct engine_adapter *opened; /* while the model is open */
};

/* A model that somebody waits for. */
struct waiting {
    struct waiting *next;
    struct exchange *exchange;
};

/* What the server keeps of a model, loaded or not. */
struct model_slot {
    struct server *server;
    struct served_adapter *adapters; /* [n_adapters] */
    size_t n_adapters;
    struct draft_model draft;
    bool never_fits; /* into --models-memory, which only the thread that loads knows */

    /* Under the lock of struct models. */
    bool is_loaded, is_failing; /* its device failed: it is loaded again once nobody uses it */
    size_t n_users;
    double last_used; /* seconds_now */
    uint64_t memory, n_loads;
    struct waiting *first, **end;
    size_t n_waiting;

    pthread_t runner;     /* runs the queue; while loaded */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool stopping;
    int adapter;      /* that applies now; -1: none */
    size_t n_running; /* jobs in the queue */
    struct job *jobs; /* in the queue, or waiting for another adapter, the newest first */
    size_t n_held;    /* of them those that wait */
    uint64_t n_jobs;  /* so far: the number of the last one */
};

/* ---- load.c ---- */

/* Opens the model and counts the bytes that its context takes on all devices, without what the cache takes as
 * it grows. Returns an enum engine_status. */
int served_open(struct served *served, uint64_t *memory);
/* Loads what served_open opened, and starts its queue. */
int served_load(struct served *served);
/* Undoes both. Nobody may be using it. */
void served_unload(struct served *served);

/* ---- jobs.c ---- */

/* Runs the queue until it is stopped: the thread's function. */
void *served_run(void *served);
/* Cancels all requests and has the thread return. */
void served_stop(struct served *served);

#endif
