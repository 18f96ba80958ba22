/* load.c: opens a model, loads it onto its devices, and starts the queue. Called by one thread at a time
 * (models.c). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "io/messages.h"
#include "prompts/prompt.h"
#include "serve/models/internal.h"
#include "serve/server.h"

#define MAX_SECOND_LOAD ((uint64_t)4 << 30)  /* bytes of a model that POST /attention loads for itself */
#define MAX_WEIGHTS     ((uint64_t)50 << 20) /* attention weights of a page */
#define POSITIONS_EACH  2048 /* of the cache, for each of --parallel, unless --cache-size says otherwise */

static void wish_for(const struct served *served, struct engine_context_options *wish, int32_t *offload)
{
    const struct arguments *arguments = served->slot->server->arguments;
    context_options(arguments, wish, offload);
    wish->progress = NULL;
    wish->n_sequences = arguments->n_parallel;
    /* A model that is alone may take all memory of a device at once; several leave it to each other. */
    wish->shares_devices = arguments->models.count > 1 || arguments->models_memory_mib > 0;
    if (wish->n_cache > 0 || wish->n_context == 0) return;
    uint64_t positions = (uint64_t)wish->n_sequences * POSITIONS_EACH;
    if (positions < wish->n_context) positions = wish->n_context;
    wish->n_cache = positions > UINT32_MAX ? UINT32_MAX : (uint32_t)positions;
}

/* Creates a context, or if `plan` is not NULL only a plan, with the model's adapters, all with scale 0. */
static int served_with_adapters(struct served *served, struct engine_context_options *wish,
                                struct engine_plan **plan)
{
    struct model_slot *slot = served->slot;
    struct engine_adapter **adapters = calloc(slot->n_adapters + 1, sizeof *adapters);
    float *scales = calloc(slot->n_adapters + 1, sizeof *scales);
    int status =
        adapters && scales ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (adapters)");
    for (size_t i = 0; i < slot->n_adapters && !status; i++) adapters[i] = slot->adapters[i].opened;
    wish->adapters = adapters;
    wish->adapter_scales = scales;
    wish->n_adapters = slot->n_adapters;
    if (!status && plan) status = engine_plan_create(served->model, wish, plan);
    if (!status && !plan) status = engine_context_create(served->model, wish, &served->context);
    free(adapters);
    free(scales);
    return status;
}

/* The sampling that requests begin with. */
static int adopt_sampling(struct served *served)
{
    const struct server *server = served->slot->server;
    served->sampling = server->sampling;
    if (server->sampling.options.samplers == server->sampling.samplers)
        served->sampling.options.samplers = served->sampling.samplers;
    return sampling_adopt(server->arguments, served->model, &served->sampling);
}

/* A model's own template that can't be parsed stands in the way of conversations only; beside one for tools,
 * only of those without tools. */
static int open_template(struct served *served)
{
    const struct arguments *arguments = served->slot->server->arguments;
    int status = chat_template_open(arguments, served->model, &served->chat_template);
    const char *fault = status ? NULL : engine_template_fault(served->chat_template),
               *tools_fault = status ? NULL : engine_template_tools_fault(served->chat_template);
    if (!status)
        served->reply_format = engine_template_reply_format(served->chat_template, &served->writes_calls);
    if (fault)
        server_log("warning: model %s: %s; conversations without tools are refused", served->name, fault);
    if (tools_fault) server_log("warning: model %s: %s; tools are refused", served->name, tools_fault);
    if (status != ENGINE_ERROR_DATA || arguments->chat_template) return status;
    served->template_fault = strdup(command_message());
    if (!served->template_fault) return command_error(ENGINE_ERROR_MEMORY, "out of memory (template)");
    server_log("warning: model %s: %s; conversations are refused", served->name, served->template_fault);
    return ENGINE_OK;
}

/* Bytes that the cache doesn't take at once. */
static uint64_t plan_growth(const struct engine_plan *plan)
{
    struct engine_plan_context context = {.struct_size = sizeof context};
    engine_plan_get_context(plan, &context);
    return context.growth;
}

int served_open(struct served *served, uint64_t *memory)
{
    const struct server *server = served->slot->server;
    struct engine_context_options wish;
    struct engine_plan *plan = NULL;
    int32_t offload;
    *memory = 0;
    ENGINE_ASSERT(!served->model); /* served_unload has been called */
    int status = open_model_to_run(server->arguments, server->engine, served->path, &served->model);
    if (!status) status = vocabulary_open(served->model, &served->vocabulary);
    if (!status) status = sampling_check_tokens(&server->sampling, served->vocabulary.info.n_tokens);
    if (!status) status = adopt_sampling(served);
    if (!status) status = open_template(served);
    for (size_t i = 0; i < served->slot->n_adapters && !status; i++) {
        const char *path = served->slot->adapters[i].path;
        if (server->arguments->verify) status = verify_files(path, NULL);
        if (!status) status = engine_adapter_open(served->model, path, &served->slot->adapters[i].opened);
    }
    if (status) return status;
    wish_for(served, &wish, &offload);
    status = served_with_adapters(served, &wish, &plan);
    for (size_t i = 0; !status && i < engine_plan_device_count(plan); i++) {
        struct engine_plan_device device;
        engine_plan_device_at(plan, i, &device);
        *memory += device.weights + device.cache + device.activations;
    }
    if (!status) *memory -= plan_growth(plan);
    engine_plan_destroy(plan);
    return status;
}

/* How many tokens POST /attention takes: their weights have to fit into a page, and the model into memory a
 * second time. */
static uint32_t attention_tokens(const struct served *served)
{
    const uint32_t max = served->slot->server->arguments->most_attention;
    const struct engine_metadata *metadata = engine_model_metadata(served->model);
    struct engine_model_info info = {.struct_size = sizeof info};
    struct engine_plan_totals totals;
    char key[128];
    int64_t n_heads;
    engine_model_get_info(served->model, &info);
    engine_plan_get_totals(engine_context_plan(served->context), &totals);
    snprintf(key, sizeof key, "%.80s.attention.head_count", info.architecture);
    bool known = metadata->get_integer(metadata->context, key, &n_heads) == ENGINE_OK && n_heads > 0;
    if (!known || served->info.is_encoder || info.file_size > MAX_SECOND_LOAD || totals.n_layers == 0)
        return 0;
    double n = sqrt((double)MAX_WEIGHTS / ((double)totals.n_layers * (double)n_heads));
    uint32_t fits = n < (double)max ? (uint32_t)n : max;
    return fits < served->info.n_context ? fits : served->info.n_context;
}

int served_load(struct served *served)
{
    struct model_slot *slot = served->slot;
    const struct arguments *arguments = slot->server->arguments;
    struct engine_queue_options queue = {.struct_size = sizeof queue, .n_waiting = arguments->n_waiting};
    ENGINE_ASSERT(served->model && !served->context && !served->queue);
    struct engine_context_options wish;
    int32_t offload;
    wish_for(served, &wish, &offload);
    int status = served_with_adapters(served, &wish, NULL);
    served->info.struct_size = sizeof served->info;
    if (!status) status = engine_context_get_info(served->context, &served->info);
    if (!status) served->n_attention = attention_tokens(served);
    wish.adapters = NULL;
    wish.adapter_scales = NULL;
    wish.n_adapters = 0;
    if (!status)
        status = guesses_open(arguments, slot->server->engine, &wish, served->context, &slot->draft, &queue);
    if (!status) status = engine_queue_create(served->context, &queue, &served->queue);
    if (status) return status;
    slot->stopping = false;
    slot->adapter = -1;
    if (pthread_create(&slot->runner, NULL, served_run, served) == 0) return ENGINE_OK;
    engine_queue_destroy(served->queue);
    served->queue = NULL;
    return command_error(ENGINE_ERROR, "cannot start a thread");
}

void served_unload(struct served *served)
{
    struct model_slot *slot = served->slot;
    if (served->queue) {
        served_stop(served);
        pthread_join(slot->runner, NULL);
        engine_queue_destroy(served->queue);
    }
    guesses_close(&slot->draft);
    engine_context_destroy(served->context);
    engine_template_destroy(served->chat_template);
    free(served->template_fault);
    engine_model_close(served->model); /* and its adapters */
    slot->draft = (struct draft_model){0};
    served->queue = NULL;
    served->context = NULL;
    served->chat_template = NULL;
    served->template_fault = NULL;
    served->model = NULL;
}
