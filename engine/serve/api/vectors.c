/* vectors.c: see vectors.h. */
#include "serve/api/vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/generate/wire.h"

static void finish(struct group *group)
{
    struct vectors *all = (struct vectors *)group;
    json_t *answer = group->mistake.status ? NULL : all->answer(all);
    if (group->mistake.status)
        wire_fail(group->exchange, &group->mistake);
    else
        wire_answer(group->exchange, answer);
    for (size_t i = 0; i < all->n_inputs; i++) {
        free(all->inputs[i].tokens.ids);
        free(all->inputs[i].types);
        free(all->inputs[i].values);
    }
    free(all->inputs);
    group_free(group);
    free(all);
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

static void fill_request(struct group *group, size_t i, struct engine_request *request,
                         struct engine_sampler_options *sampler)
{
    const struct vectors *all = (const struct vectors *)group;
    const struct vector_input *input = &all->inputs[i];
    (void)sampler;
    request->tokens = input->tokens.ids;
    request->n_tokens = input->tokens.count;
    request->flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT;
    request->pooling = all->pooling;
    request->token_types = input->types;
}

static void take_event(struct group *group, size_t i, const struct engine_event *event)
{
    const struct vectors *all = (const struct vectors *)group;
    struct vector_input *input = &all->inputs[i];
    if (event->kind != ENGINE_EVENT_DONE) return;
    if (event->embedding) {
        input->values = keep(all, event->embedding);
        if (!input->values) mistake_memory(&group->mistake);
    } else if (event->reason == ENGINE_DONE_CONTEXT) {
        group_fail_with(group, 500, "the cache has no room for one of the texts");
    } else {
        group_fail(group, event);
    }
}

static const char *param_of(const struct group *group, const char *message)
{
    (void)message;
    return ((const struct vectors *)group)->what;
}

void *vectors_create(struct exchange *exchange, size_t size)
{
    struct vectors *all = calloc(1, size);
    if (!all || !group_init(&all->group, exchange)) {
        free(all);
        exchange_fail(exchange, OUT_OF_MEMORY_STATUS, "server_error", NULL, NULL,
                      "out of memory (vectors of texts)");
        return NULL;
    }
    const char *named = json_string_value(json_object_get(exchange_json(exchange), "model"));
    all->group.fill = fill_request;
    all->group.take = take_event;
    all->group.finish = finish;
    all->group.param = param_of;
    all->served = exchange_model(exchange);
    all->model = named ? named : all->served->name;
    return all;
}

bool vectors_room(struct vectors *all, size_t n_inputs)
{
    all->inputs = calloc(n_inputs, sizeof *all->inputs);
    if (!all->inputs) return mistake_memory(&all->group.mistake);
    all->n_inputs = n_inputs;
    return group_room(&all->group, n_inputs, &all->group.mistake);
}

bool vectors_fits(struct vectors *all, const struct vector_input *input)
{
    uint32_t n_context = all->served->info.n_context;
    if (all->n_longest > 0 && all->n_longest < n_context) n_context = all->n_longest;
    if (input->tokens.count == 0)
        return mistake_in(&all->group.mistake, all->what, "a text of \"%s\" has no tokens", all->what);
    if (input->tokens.count <= n_context) return true;
    return mistake_with_code(&all->group.mistake, "context_length_exceeded", all->what,
                             "a text of \"%s\" has %zu tokens, but the context of this model takes %u here",
                             all->what, input->tokens.count, n_context);
}

void vectors_run(struct vectors *all)
{
    group_run(&all->group);
}
