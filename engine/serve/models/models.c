/* models.c: the models by name, see models.h. One thread loads and unloads; requests for a model that isn't
 * loaded wait in its line meanwhile, and no worker with them. */
#include "serve/models/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/assert.h"
#include "common/clock.h"
#include "common/lock.h"
#include "io/messages.h"
#include "serve/models/internal.h"
#include "serve/params/api-error.h"
#include "serve/server.h"

struct models {
    struct server *server;
    struct served *all; /* [n] */
    size_t n;
    uint64_t max_memory; /* bytes; 0: no limit */
    size_t max_loaded;   /* 0: no limit */

    pthread_mutex_t lock; /* of what follows, and of parts of struct model_slot */
    pthread_cond_t changed;
    bool stopping;
    struct served *loading; /* being loaded or unloaded */
    bool running;
    pthread_t loader;
};

/* ---- Names of --model and --lora ----------------------------------------------------------------------- */

/* The last two functions return an enum engine_status, with command_error's message. The caller frees the
 * texts, also after an error. */

static int name_no_memory(void)
{
    return command_error(ENGINE_ERROR_MEMORY, "out of memory (models)");
}

/* "/models/Llama-00001-of-00004.gguf": "Llama"; "/models/Qwen/": "Qwen". */
static char *name_of_path(const char *path)
{
    static const char *const endings[] = {".gguf", ".bin"};
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    char *name = strndup(path + begin, end - begin);
    if (!name) return NULL;
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t ending = strlen(endings[i]);
        if (length <= ending || strcmp(name + length - ending, endings[i]) != 0) continue;
        length -= ending;
        name[length] = '\0';
    }
    char *part = strstr(name, "-of-");
    if (part && part - name > 6 && strspn(part + 4, "0123456789") == strlen(part + 4) && part[-6] == '-')
        part[-6] = '\0';
    return name;
}

static int name_check(const char *option, const char *typed, const char *name)
{
    for (const unsigned char *byte = (const unsigned char *)name; *byte; byte++)
        if (*byte <= ' ' || *byte == 127)
            return command_error(ENGINE_ERROR_ARGUMENT,
                                 "%s %s: the name '%s' has a blank or a control character", option, typed,
                                 name);
    return *name ? ENGINE_OK
                 : command_error(ENGINE_ERROR_ARGUMENT, "%s %s: the name is empty", option, typed);
}

/* "NAME=PATH", or "PATH", whose name is that of the file without its ending, or of the directory. */
static int model_name_split(const char *typed, char **name, char **path)
{
    const char *equals = strchr(typed, '=');
    /* A path may contain a "=". */
    if (equals && (access(typed, F_OK) == 0 || memchr(typed, '/', (size_t)(equals - typed)))) equals = NULL;
    *name = equals ? strndup(typed, (size_t)(equals - typed)) : name_of_path(typed);
    *path = strdup(equals ? equals + 1 : typed);
    if (!*name || !*path) return name_no_memory();
    if (equals) return name_check("--model", typed, *name);
    for (char *byte = *name; *byte; byte++)
        if ((unsigned char)*byte <= ' ') *byte = '_';
    return ENGINE_OK;
}

/* "[MODEL:]NAME=PATH[=SCALE]"; *model is NULL without it. */
static int adapter_name_split(const char *typed, char **model, char **name, char **path, float *scale)
{
    const char *equals = strchr(typed, '=');
    if (!equals)
        return command_error(ENGINE_ERROR_ARGUMENT, "--lora %s: expected NAME=FILE, such as poet=poet.gguf",
                             typed);
    const char *colon = memrchr(typed, ':', (size_t)(equals - typed));
    *model = colon ? strndup(typed, (size_t)(colon - typed)) : NULL;
    const char *begin = colon ? colon + 1 : typed;
    *name = strndup(begin, (size_t)(equals - begin));
    if (!*name || (colon && !*model)) return name_no_memory();
    int status = name_check("--lora", typed, *name);
    return status ? status : lora_split(equals + 1, path, scale);
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

static uint64_t memory_in_use(const struct models *models, size_t *n_loaded)
{
    uint64_t total = 0;
    *n_loaded = 0;
    for (size_t i = 0; i < models->n; i++) {
        if (!models->all[i].slot->is_loaded) continue;
        total += models->all[i].slot->memory;
        ++*n_loaded;
    }
    return total;
}

/* Lets the caches of all models grow into what --models-memory leaves beside the models themselves, of which
 * `more` bytes are to be loaded yet. False: they have grown further, or that doesn't fit. */
static bool models_limit_growth(const struct models *models, uint64_t more)
{
    size_t n_loaded;
    if (models->max_memory == 0) return true;
    const uint64_t used = memory_in_use(models, &n_loaded);
    ENGINE_ASSERT(used <= models->max_memory);
    if (more > models->max_memory - used) return false;
    const uint64_t left = models->max_memory - used - more;
    return engine_limit_growth(models->server->engine, left) <= left;
}

/* ---- Creating ------------------------------------------------------------------------------------------ */

static int add_model(struct models *models, const char *typed)
{
    char *name = NULL, *path = NULL;
    struct stat info;
    int status = model_name_split(typed, &name, &path);
    for (size_t i = 0; i < models->n && !status; i++)
        if (strcmp(models->all[i].name, name) == 0)
            status =
                command_error(ENGINE_ERROR_ARGUMENT,
                              "two models have the name '%s'; give one another with --model NAME=PATH", name);
    if (!status && stat(path, &info) != 0)
        status = command_error(ENGINE_ERROR_NOT_FOUND, "%s: there is no such file or directory", path);
    struct model_slot *slot = status ? NULL : calloc(1, sizeof *slot);
    if (!slot) {
        free(name);
        free(path);
        return status ? status : command_error(ENGINE_ERROR_MEMORY, "out of memory (models)");
    }
    struct served *added = &models->all[models->n++];
    *added = (struct served){.name = name, .path = path, .created = info.st_mtime, .slot = slot};
    slot->server = models->server;
    slot->end = &slot->first;
    lock_init(&slot->lock);
    pthread_cond_init(&slot->changed, NULL);
    return ENGINE_OK;
}

static int add_adapter(struct models *models, const char *typed)
{
    struct served_adapter added = {0};
    char *model = NULL;
    int status = adapter_name_split(typed, &model, &added.name, &added.path, &added.scale);
    struct served *served = model ? NULL : &models->all[0];
    for (size_t i = 0; i < models->n && model && !status; i++)
        if (strcmp(models->all[i].name, model) == 0) served = &models->all[i];
    if (!status && !served)
        status = command_error(ENGINE_ERROR_ARGUMENT, "--lora %s: there is no model '%s'", typed, model);
    for (size_t i = 0; !status && i < served->slot->n_adapters; i++)
        if (strcmp(served->slot->adapters[i].name, added.name) == 0)
            status = command_error(ENGINE_ERROR_ARGUMENT, "--lora %s: the model has an adapter of that name",
                                   typed);
    free(model);
    if (status || !ARRAY_GROW(served->slot->adapters, served->slot->n_adapters)) {
        free(added.name);
        free(added.path);
        return status ? status : command_error(ENGINE_ERROR_MEMORY, "out of memory (adapters)");
    }
    served->slot->adapters[served->slot->n_adapters++] = added;
    return ENGINE_OK;
}

static void *loader_run(void *user);

int models_create(struct server *server, struct models **out)
{
    const struct arguments *arguments = server->arguments;
    const char *fallback = engine_default_model(server->engine);
    size_t n = arguments->models.count;
    struct models *models = calloc(1, sizeof *models);
    if (!models) return command_error(ENGINE_ERROR_MEMORY, "out of memory (models)");
    *out = models;
    models->server = server;
    models->max_loaded = arguments->models_max;
    models->max_memory = (uint64_t)arguments->models_memory_mib << 20;
    models_limit_growth(models, 0);
    lock_init(&models->lock);
    pthread_cond_init(&models->changed, NULL);
    models->all = calloc(n + 1, sizeof *models->all);
    if (!models->all) return command_error(ENGINE_ERROR_MEMORY, "out of memory (models)");
    if (n == 0 && !fallback)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "no model: name one with -m FILE, or set `model` in engine.conf");
    int status = n == 0 ? add_model(models, fallback) : ENGINE_OK;
    for (size_t i = 0; i < n && !status; i++) status = add_model(models, arguments->models.items[i]);
    for (size_t i = 0; i < arguments->lora.count && !status; i++)
        status = add_adapter(models, arguments->lora.items[i]);
    return status;
}

int models_start(struct models *models)
{
    models->running = pthread_create(&models->loader, NULL, loader_run, models) == 0;
    return models->running ? ENGINE_OK : command_error(ENGINE_ERROR, "cannot start a thread");
}

/* ---- Loading ------------------------------------------------------------------------------------------- */

/* With the lock, which is given back meanwhile. */
static void models_unload(struct models *models, struct served *served)
{
    ENGINE_ASSERT(lock_is_mine(&models->lock) && served->slot->n_users == 0);
    served->slot->is_loaded = false;
    models->loading = served;
    pthread_mutex_unlock(&models->lock);
    served_unload(served);
    server_log("model %s: unloaded", served->name);
    pthread_mutex_lock(&models->lock);
    models_limit_growth(models, 0);
    served->slot->is_failing = false;
    models->loading = NULL;
}

static struct served *least_recent(struct models *models)
{
    struct served *found = NULL;
    for (size_t i = 0; i < models->n; i++) {
        struct served *served = &models->all[i];
        if (!served->slot->is_loaded || served->slot->n_users > 0) continue;
        if (!found || served->slot->last_used < found->slot->last_used) found = served;
    }
    return found;
}

/* With the lock: unloads models until there is room for one of this size, and takes the room from what caches
 * may grow into. Waits for those in use. */
static int models_make_room(struct models *models, const struct served *served, uint64_t memory)
{
    ENGINE_ASSERT(lock_is_mine(&models->lock));
    served->slot->never_fits = models->max_memory > 0 && memory > models->max_memory;
    if (served->slot->never_fits)
        return command_error(ENGINE_ERROR_MEMORY, "the model %s takes %s, but --models-memory allows %s",
                             served->name, size_text(memory).text, size_text(models->max_memory).text);
    while (!models->stopping) {
        size_t n_loaded;
        memory_in_use(models, &n_loaded);
        if ((models->max_loaded == 0 || n_loaded < models->max_loaded) && models_limit_growth(models, memory))
            return ENGINE_OK;
        models_limit_growth(models, 0);
        struct served *least = least_recent(models);
        if (least)
            models_unload(models, least);
        else
            pthread_cond_wait(&models->changed, &models->lock);
    }
    return command_error(ENGINE_ERROR_BUSY, "the server is shutting down");
}

/* How long texts may be and why not longer, and what memory that takes. */
static void log_loaded(const struct served *served, double seconds)
{
    struct engine_plan_context context = {.struct_size = sizeof context};
    const uint64_t memory = served->slot->memory;
    char text[256], more[64] = "";
    engine_plan_get_context(engine_context_plan(served->context), &context);
    if (context.growth > 0)
        snprintf(more, sizeof more, ", with a full cache %s", size_text(memory + context.growth).text);
    server_log("model %s: context: %s", served->name, context_text(&context, text, sizeof text));
    server_log("model %s: loaded from %s in %.1f s, %s%s", served->name, served->path, seconds,
               size_text(memory).text, more);
}

/* Without the lock. */
static int models_load(struct models *models, struct served *served)
{
    uint64_t memory;
    double began = seconds_now();
    served->slot->never_fits = false;
    log_forget();
    int status = served_open(served, &memory);
    if (!status) {
        pthread_mutex_lock(&models->lock);
        status = models_make_room(models, served, memory);
        models->loading = served;
        pthread_mutex_unlock(&models->lock);
    }
    if (!status) status = served_load(served);
    if (status) {
        served_unload(served);
        pthread_mutex_lock(&models->lock);
        models_limit_growth(models, 0);
        pthread_mutex_unlock(&models->lock);
        return status;
    }
    served->slot->memory = memory;
    log_loaded(served, seconds_now() - began);
    return ENGINE_OK;
}

/* With the lock: takes the line of a model's exchanges. */
static struct waiting *models_take_line(struct served *served)
{
    struct waiting *first = served->slot->first;
    ENGINE_ASSERT((first == NULL) == (served->slot->n_waiting == 0));
    served->slot->first = NULL;
    served->slot->end = &served->slot->first;
    served->slot->n_waiting = 0;
    return first;
}

static void refuse_line(struct waiting *waiting, int status, bool never, const char *message)
{
    while (waiting) {
        struct waiting *next = waiting->next;
        if (status == ENGINE_ERROR_BUSY)
            exchange_fail(waiting->exchange, 503, "server_error", "shutting_down", NULL, "%s", message);
        else if (never)
            exchange_fail(waiting->exchange, 400, "invalid_request_error", "model_not_supported", "model",
                          "%s", message);
        else
            exchange_fail(waiting->exchange, 503, "server_error", "model_not_loaded", "model",
                          "the model cannot be loaded: %s", message);
        free(waiting);
        waiting = next;
    }
}

static void serve_line(struct waiting *waiting)
{
    while (waiting) {
        struct waiting *next = waiting->next;
        http_go_on(waiting->exchange);
        free(waiting);
        waiting = next;
    }
}

/* With the lock, which is given back meanwhile. */
static void load_for_line(struct models *models, struct served *served)
{
    ENGINE_ASSERT(lock_is_mine(&models->lock) && !models->loading);
    if (served->slot->is_loaded) models_unload(models, served); /* its device has failed */
    models->loading = served;
    pthread_mutex_unlock(&models->lock);
    int status = models_load(models, served);
    bool never = served->slot->never_fits;
    char message[1024];
    snprintf(message, sizeof message, "%s", status ? command_message() : "");
    if (status) server_log("model %s: %s", served->name, message);
    if (status == ENGINE_ERROR_GONE) server_end(models->server, message);
    /* Clients need not know the server's folders. */
    api_error_hide_folder(message, served->path);
    for (size_t i = 0; i < served->slot->n_adapters; i++)
        api_error_hide_folder(message, served->slot->adapters[i].path);
    pthread_mutex_lock(&models->lock);
    models->loading = NULL;
    struct waiting *line = models_take_line(served);
    if (!status) {
        served->slot->is_loaded = true;
        served->slot->is_failing = false;
        served->slot->n_loads++;
        served->slot->last_used = seconds_now();
        for (struct waiting *one = line; one; one = one->next) {
            one->exchange->model = served;
            one->exchange->model_name = served->name;
            served->slot->n_users++;
        }
    }
    pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
    if (status)
        refuse_line(line, status, never, message);
    else
        serve_line(line);
    pthread_mutex_lock(&models->lock);
}

static void *loader_run(void *user)
{
    struct models *models = user;
    pthread_mutex_lock(&models->lock);
    while (!models->stopping) {
        struct served *next = NULL;
        for (size_t i = 0; i < models->n && !next; i++) {
            struct model_slot *slot = models->all[i].slot;
            if (slot->first && (!slot->is_loaded || slot->n_users == 0)) next = &models->all[i];
        }
        if (next)
            load_for_line(models, next);
        else
            pthread_cond_wait(&models->changed, &models->lock);
    }
    pthread_mutex_unlock(&models->lock);
    return NULL;
}

int models_load_first(struct models *models)
{
    struct served *first = &models->all[0];
    int status = models_load(models, first);
    if (status) return status;
    first->slot->is_loaded = true;
    first->slot->n_loads++;
    first->slot->last_used = seconds_now();
    models->loading = NULL;
    return ENGINE_OK;
}

/* ---- Taking and giving back ---------------------------------------------------------------------------- */

/* The model of this name, with the number of the adapter that it may end in. */
static struct served *models_find(struct models *models, const char *name, int *adapter)
{
    const char *colon = strrchr(name, ':');
    *adapter = -1;
    for (size_t i = 0; i < models->n; i++)
        if (strcmp(models->all[i].name, name) == 0) return &models->all[i];
    for (size_t i = 0; i < models->n && colon; i++) {
        struct served *served = &models->all[i];
        size_t length = (size_t)(colon - name);
        if (strlen(served->name) != length || memcmp(served->name, name, length) != 0) continue;
        for (size_t a = 0; a < served->slot->n_adapters; a++) {
            if (strcmp(served->slot->adapters[a].name, colon + 1) != 0) continue;
            *adapter = (int)a;
            return served;
        }
    }
    return NULL;
}

/* Has the exchange wait for its model. False: too many do. */
static bool stand_in_line(struct models *models, struct served *served, struct exchange *exchange)
{
    struct model_slot *slot = served->slot;
    ENGINE_ASSERT(lock_is_mine(&models->lock));
    if (slot->n_waiting >= models->server->arguments->n_waiting) return false;
    struct waiting *added = malloc(sizeof *added);
    if (!added) return false;
    *added = (struct waiting){.exchange = exchange};
    *slot->end = added;
    slot->end = &added->next;
    slot->n_waiting++;
    pthread_cond_broadcast(&models->changed);
    return true;
}

void models_enter(struct models *models, struct exchange *exchange)
{
    json_t *wanted = json_object_get(exchange_json(exchange), "model");
    const char *name = json_string_value(wanted);
    struct served *served = &models->all[0];
    bool ready = false, waits = false;
    if (wanted && !json_is_null(wanted) && !name) {
        exchange_fail(exchange, 400, "invalid_request_error", NULL, "model", "model is not a text");
        return;
    }
    if (name) served = models_find(models, name, &exchange->adapter);
    if (!served) {
        exchange_fail(exchange, 404, "not_found_error", "model_not_found", "model", "there is no model '%s'",
                      name);
        return;
    }
    pthread_mutex_lock(&models->lock);
    bool stopping = models->stopping;
    if (served->slot->is_loaded && !served->slot->is_failing && models->loading != served) {
        ready = true;
        exchange->model = served;
        exchange->model_name = served->name;
        served->slot->n_users++;
        served->slot->last_used = seconds_now();
    } else if (!stopping) {
        waits = stand_in_line(models, served, exchange);
    }
    pthread_mutex_unlock(&models->lock);
    if (ready)
        exchange->route->handle(exchange);
    else if (stopping)
        exchange_fail(exchange, 503, "server_error", "shutting_down", NULL, "the server is shutting down");
    else if (!waits)
        exchange_busy(exchange);
}

void models_leave(struct models *models, struct exchange *exchange)
{
    struct served *served = exchange->model;
    if (!served) return;
    pthread_mutex_lock(&models->lock);
    ENGINE_ASSERT(served->slot->is_loaded && served->slot->n_users > 0);
    exchange->model = NULL;
    served->slot->n_users--;
    served->slot->last_used = seconds_now();
    pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
}

void models_fail(struct models *models, struct served *served, const char *message)
{
    pthread_mutex_lock(&models->lock);
    bool known = served->slot->is_failing;
    served->slot->is_failing = true;
    pthread_mutex_unlock(&models->lock);
    if (!known)
        server_log("model %s: its device failed: %s; the model is loaded again for the next request",
                   served->name, message);
}

/* ---- Looking ------------------------------------------------------------------------------------------- */

bool models_at(struct models *models, size_t index, struct served_state *state)
{
    if (index >= models->n) return false;
    struct served *served = &models->all[index];
    struct model_slot *slot = served->slot;
    pthread_mutex_lock(&models->lock);
    *state = (struct served_state){.name = served->name,
                                   .path = served->path,
                                   .created = served->created,
                                   .is_loaded = slot->is_loaded,
                                   .n_loads = slot->n_loads,
                                   .sampling = slot->server->sampling.options,
                                   .context = {.struct_size = sizeof state->context},
                                   .queue = {.struct_size = sizeof state->queue}};
    if (slot->is_loaded) {
        struct engine_model_info info = {.struct_size = sizeof info};
        engine_model_get_info(served->model, &info);
        snprintf(state->format, sizeof state->format, "%s", info.format);
        snprintf(state->architecture, sizeof state->architecture, "%s", info.architecture);
        state->memory = slot->memory;
        state->file_size = info.file_size;
        state->n_parameters = info.n_parameters;
        state->context = served->info;
        state->n_attention = served->n_attention;
        state->sampling = served->sampling.options;
        engine_queue_get_info(served->queue, &state->queue);
    }
    pthread_mutex_unlock(&models->lock);
    return true;
}

bool models_named(struct models *models, const char *name, struct served_state *state)
{
    int adapter;
    const struct served *served = name ? models_find(models, name, &adapter) : models->all;
    return served && models_at(models, (size_t)(served - models->all), state);
}

static bool is_task(const char *name, const char *task)
{
    for (; *name && *task; name++, task++)
        if (*name != *task && !(*name == '_' && (*task == '.' || *task == '-'))) return false;
    return !*name && !*task;
}

int models_adapter_for(const struct served *served, const char *task)
{
    for (size_t i = 0; i < served->slot->n_adapters; i++) {
        const struct served_adapter *adapter = &served->slot->adapters[i];
        const char *slash = strrchr(adapter->path, '/');
        if (is_task(adapter->name, task) || is_task(slash ? slash + 1 : adapter->path, task)) return (int)i;
    }
    return -1;
}

const char *models_adapter_at(struct models *models, size_t index, const char **model)
{
    for (size_t i = 0; i < models->n; i++) {
        const struct model_slot *slot = models->all[i].slot;
        *model = models->all[i].name;
        if (index < slot->n_adapters) return slot->adapters[index].name;
        index -= slot->n_adapters;
    }
    return NULL;
}

/* ---- Ending -------------------------------------------------------------------------------------------- */

void models_stop(struct models *models)
{
    pthread_mutex_lock(&models->lock);
    models->stopping = true;
    pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
    if (models->running) pthread_join(models->loader, NULL);
    models->running = false;
    for (size_t i = 0; i < models->n; i++) {
        pthread_mutex_lock(&models->lock);
        struct waiting *line = models_take_line(&models->all[i]);
        pthread_mutex_unlock(&models->lock);
        refuse_line(line, ENGINE_ERROR_BUSY, false, "the server is shutting down");
        if (models->all[i].slot->is_loaded) served_stop(&models->all[i]);
    }
}

void models_destroy(struct models *models)
{
    if (!models) return;
    for (size_t i = 0; i < models->n; i++) {
        struct model_slot *slot = models->all[i].slot;
        if (slot->is_loaded) served_unload(&models->all[i]);
        for (size_t a = 0; a < slot->n_adapters; a++) {
            free(slot->adapters[a].name);
            free(slot->adapters[a].path);
        }
        free(slot->adapters);
        pthread_cond_destroy(&slot->changed);
        pthread_mutex_destroy(&slot->lock);
        free(slot);
        free((void *)(uintptr_t)models->all[i].name);
        free((void *)(uintptr_t)models->all[i].path);
    }
    pthread_cond_destroy(&models->changed);
    pthread_mutex_destroy(&models->lock);
    free(models->all);
    free(models);
}
