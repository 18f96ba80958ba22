/* vectors.c: see vectors.h. */
#include "serve/api/vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/generate/wire.h"

#define MOST_RUNNING 64 /* requests that the queue has at once */

/* All requests are done. Until the exchange has ended, client_is_gone may be called. */
static void finish(struct vectors *all)
{
    json_t *answer = all->mistake.status ? NULL : all->answer(all);
    if (all->mistake.status)
        wire_fail(all->exchange, &all->mistake);
    else
        wire_answer(all->exchange, answer);
    for (size_t i = 0; i < all->n_inputs; i++) {
        free(all->inputs[i].tokens.ids);
        free(all->inputs[i].types);
        free(all->inputs[i].values);
    }
    free(all->inputs);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static void drop_use(struct vectors *all)
{
    if (atomic_fetch_sub(&all->n_uses, 1) == 1) finish(all);
}

static void cancel_all(struct vectors *all)
{
    for (size_t i = 0; i < all->n_inputs; i++) {
        uint64_t id = atomic_load(&all->inputs[i].id);
        if (id) served_cancel(all->served, id);
    }
}

static void client_is_gone(void *user)
{
    struct vectors *all = user;
    atomic_store(&all->gone, true);
    cancel_all(all);
}

/* The first `count` numbers, of length 1 if they are to be normalised. NULL: out of memory. */
static float *keep(const struct vectors *all, const float *numbers)
{
    double sum = 0;
    size_t count = all->n_kept;
    float *result = malloc(count * sizeof *result);
    for (size_t i = 0; i < count && all->normalises; i++) sum += (double)numbers[i] * (double)numbers[i];
    double length = all->normalises ? sqrt(sum) : 1;
    for (size_t i = 0; i < count && result; i++)
        result[i] = length > 0 ? (float)((double)numbers[i] / length) : 0;
    return result;
}

static void take_event(void *user, const struct engine_event *event);

/* Under the lock: as in generation.c. */
static void submit_some(struct vectors *all)
{
    while (all->n_submitted < all->n_inputs && all->n_running < MOST_RUNNING && !all->mistake.status &&
           !atomic_load(&all->gone)) {
        struct vector_input *input = &all->inputs[all->n_submitted];
        struct engine_request request = {.struct_size = sizeof request,
                                         .tokens = input->tokens.ids,
                                         .n_tokens = input->tokens.count,
                                         .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
                                         .event = take_event,
                                         .user = input,
                                         .pooling = all->pooling,
                                         .token_types = input->types};
        uint64_t id;
        atomic_fetch_add(&all->n_uses, 1);
        int status = served_submit(all->exchange, &request, &id);
        if (status) {
            atomic_fetch_sub(&all->n_uses, 1);
            if (status == ENGINE_ERROR_BUSY && all->n_running > 0) return;
            mistake_of_engine(&all->mistake, status, all->what);
            cancel_all(all);
            return;
        }
        atomic_store(&input->id, id);
        all->n_submitted++;
        all->n_running++;
    }
}

static void take_event(void *user, const struct engine_event *event)
{
    struct vector_input *input = user;
    struct vectors *all = input->all;
    if (event->kind != ENGINE_EVENT_DONE) return;
    pthread_mutex_lock(&all->lock);
    if (event->embedding) {
        input->values = keep(all, event->embedding);
        if (!input->values) mistake_memory(&all->mistake);
    } else if (!all->mistake.status) {
        mistake_in(&all->mistake, NULL, "%s",
                   event->reason == ENGINE_DONE_FAILED    ? event->message
                   : event->reason == ENGINE_DONE_CONTEXT ? "the cache has no room for one of the texts"
                   : atomic_load(&all->gone)              ? "the client went away"
                                                          : "the server is shutting down");
        all->mistake.status = 500;
        cancel_all(all);
    }
    all->n_running--;
    submit_some(all);
    pthread_mutex_unlock(&all->lock);
    drop_use(all);
}

void *vectors_create(struct exchange *exchange, size_t size)
{
    struct vectors *all = calloc(1, size);
    if (!all || pthread_mutex_init(&all->lock, NULL) != 0) {
        free(all);
        exchange_fail(exchange, 500, "server_error", NULL, NULL, "out of memory (vectors of texts)");
        return NULL;
    }
    const char *named = json_string_value(json_object_get(exchange_json(exchange), "model"));
    all->exchange = exchange;
    all->served = exchange_model(exchange);
    all->model = named ? named : all->served->name;
    return all;
}

bool vectors_room(struct vectors *all, size_t n_inputs)
{
    all->inputs = calloc(n_inputs, sizeof *all->inputs);
    if (!all->inputs) return mistake_memory(&all->mistake);
    all->n_inputs = n_inputs;
    for (size_t i = 0; i < n_inputs; i++) all->inputs[i].all = all;
    return true;
}

bool vectors_fits(struct vectors *all, const struct vector_input *input)
{
    uint32_t n_context = all->served->info.n_context;
    if (all->n_longest > 0 && all->n_longest < n_context) n_context = all->n_longest;
    if (input->tokens.count == 0)
        return mistake_in(&all->mistake, all->what, "a text of \"%s\" has no tokens", all->what);
    if (input->tokens.count <= n_context) return true;
    return mistake_with_code(&all->mistake, "context_length_exceeded", all->what,
                             "a text of \"%s\" has %zu tokens, but the context of this model takes %u here",
                             all->what, input->tokens.count, n_context);
}

void vectors_run(struct vectors *all)
{
    atomic_store(&all->n_uses, 1);
    if (!all->mistake.status) {
        exchange_when_gone(all->exchange, client_is_gone, all);
        pthread_mutex_lock(&all->lock);
        submit_some(all);
        pthread_mutex_unlock(&all->lock);
        if (atomic_load(&all->gone)) cancel_all(all);
    }
    drop_use(all);
}
