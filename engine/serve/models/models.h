/* models.h: the models that can be asked for by name: loaded when the first request wants them, unloaded when
 * others need their memory. */
#ifndef ENGINE_SERVE_MODELS_MODELS_H
#define ENGINE_SERVE_MODELS_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "options/open.h"
#include "prompts/prompt.h"
#include "serve/server.h"

struct exchange;
struct models;

/* A model. Whoever has it as exchange_model may read all but its slot, which is for models/. */
struct served {
    const char *name, *path;
    int64_t created; /* when its file was written: seconds since 1970 */
    struct engine_model *model;
    struct engine_context *context;
    struct engine_context_info info;
    struct engine_queue *queue; /* runs in a thread of its own */
    struct vocabulary vocabulary;
    struct engine_template *chat_template; /* NULL: the model's can't be parsed */
    char *template_fault;                  /* then: why, as requests that need it are told */
    uint32_t reply_format;                 /* of what it writes: enum engine_reply_format */
    int writes_calls;                      /* it does, in this format */
    uint32_t n_attention;                  /* tokens that POST /attention takes; 0: none */
    /* What requests begin with: the command line's, whose arrays it shares, and the model's where that says
     * nothing. */
    struct sampling sampling;
    struct model_slot *slot;
};

/* Reads --model and --lora. Loads nothing. Returns an enum engine_status, with command_error's message. */
int models_create(struct server *server, struct models **models);
/* Loads the first model now, so that mistakes come to light at once. Before models_start. */
int models_load_first(struct models *models);
/* Begins to load what requests ask for. */
int models_start(struct models *models);
/* Cancels all requests and stops all queues; nothing is loaded any more. */
void models_stop(struct models *models);
void models_destroy(struct models *models);

/* Takes the model that the exchange's JSON names ("model"; the first one without it), and goes on with the
 * exchange once it is loaded (http_go_on), or answers that it can't be. A name is one of --model, or with an
 * adapter "MODEL:ADAPTER". */
void models_enter(struct models *models, struct exchange *exchange);
/* The exchange has ended: gives its model back, if it has one. */
void models_leave(struct models *models, struct exchange *exchange);

/* [thread-safe] The model's device has failed: the model takes no more requests, and is loaded again once
 * those it has are done and somebody asks for it. */
void models_fail(struct models *models, struct served *served, const char *message);

/* What is known of a model without taking it. */
struct served_state {
    const char *name, *path;
    int64_t created;
    bool is_loaded;
    uint64_t n_loads;
    /* Of a loaded one. */
    uint64_t memory; /* bytes on all devices */
    char format[64], architecture[64];
    uint64_t file_size, n_parameters;
    struct engine_context_info context;
    struct engine_queue_info queue;
    uint32_t n_attention;
    /* Numbers only; of a model that isn't loaded, the command line's. */
    struct engine_sampler_options sampling;
};
/* False past the last. */
bool models_at(struct models *models, size_t index, struct served_state *state);
/* Of the model of that name, or of the model whose adapter it names; NULL: of the first one. False: there is
 * none. */
bool models_named(struct models *models, const char *name, struct served_state *state);
/* The number of the model's adapter for a task, such as "retrieval.query": the one of that name, or whose
 * path ends with it, where "_" may stand for dots and dashes. -1: there is none. */
int models_adapter_for(const struct served *served, const char *task);
/* The name of an adapter; NULL past the last. *model is the model it belongs to. */
const char *models_adapter_at(struct models *models, size_t index, const char **model);

/* [thread-safe] Submits a request of an exchange to its model's queue: as engine_queue_submit, and with the
 * adapter that the exchange names. Requests with different adapters take turns. Counts tokens for the
 * exchange, the log and the metrics. What the request points to need not outlive the call, except for its
 * grammar, which has to live until the last event. */
int served_submit(struct exchange *exchange, const struct engine_request *request, uint64_t *id);
/* [thread-safe] As engine_queue_cancel. */
int served_cancel(struct served *served, uint64_t id);

#endif
