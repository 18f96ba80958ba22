/* vectors.c: several token lists to a vector each, an embedding or scores, as requests of the queue; for the
 * handlers whose answer consists of them. */
#include "serve/api/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "serve/http/http.h"
#include "serve/server.h"

static void vectors_finish(struct group *group)
{
    struct vectors *all = (struct vectors *)group;
    json_t *answer = group->error.status ? NULL : all->answer(all);
    if (group->error.status)
        api_error_answer(group->exchange, &group->error);
    else
        exchange_answer_json(group->exchange, answer);
    for (size_t i = 0; i < all->n_inputs; i++) {
        free(all->inputs[i].tokens.ids);
        free(all->inputs[i].types);
        free(all->inputs[i].values);
    }
    free(all->inputs);
    free(all->around.ids);
    group_free(group);
    free(all);
}

/* The first `count` numbers, of length 1 if they are to be normalised. NULL: out of memory. */
static float *vectors_keep(const struct vectors *all, const float *numbers)
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

static void vectors_fill_request(struct group *group, size_t i, struct engine_request *request,
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

static void vectors_take_event(struct group *group, size_t i, const struct engine_event *event)
{
    const struct vectors *all = (const struct vectors *)group;
    struct vector_input *input = &all->inputs[i];
    if (event->kind != ENGINE_EVENT_DONE) return;
    if (event->embedding) {
        ENGINE_ASSERT(event->n_embd >= all->n_kept && !input->values);
        input->values = vectors_keep(all, event->embedding);
        if (!input->values) api_error_memory(&group->error);
    } else if (event->reason == ENGINE_DONE_CONTEXT) {
        group_fail_with(group, 500, "the cache has no room for one of the texts");
    } else {
        group_fail(group, event);
    }
}

static const char *vectors_param_of(const struct group *group, const char *message)
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
    all->group.fill = vectors_fill_request;
    all->group.take = vectors_take_event;
    all->group.finish = vectors_finish;
    all->group.param = vectors_param_of;
    all->served = exchange_model(exchange);
    all->model = named ? named : all->served->name;
    return all;
}

bool vectors_room(struct vectors *all, size_t n_inputs)
{
    all->inputs = calloc(n_inputs, sizeof *all->inputs);
    if (!all->inputs) return api_error_memory(&all->group.error);
    all->n_inputs = n_inputs;
    return group_room(&all->group, n_inputs, &all->group.error);
}

/* Tokens that a text may have. */
static uint32_t vectors_limit_of(const struct vectors *all)
{
    uint32_t n_context = all->served->info.n_context;
    return all->n_longest > 0 && all->n_longest < n_context ? all->n_longest : n_context;
}

bool vectors_read_truncate(struct vectors *all, const json_t *body)
{
    const json_t *flag = json_object_get(body, "truncate"),
                 *number = json_object_get(body, "truncate_prompt_tokens");
    const struct vocabulary *v = &all->served->vocabulary;
    struct api_error *error = &all->group.error;
    json_int_t n = json_integer_value(number);
    all->n_max = vectors_limit_of(all);
    if (flag && !json_is_null(flag) && !json_is_boolean(flag))
        return api_error_in(error, "truncate", "\"truncate\" should be true or false");
    bool has_number = number && !json_is_null(number);
    if (has_number && (!json_is_integer(number) || n == 0 || n < -1 || n > (json_int_t)all->n_max))
        return api_error_in(
            error, "truncate_prompt_tokens",
            "\"truncate_prompt_tokens\" should be -1 (as many as the model reads) or from 1 to %u",
            all->n_max);
    if (has_number && n > 0) all->n_max = (uint32_t)n;
    all->cuts = flag && !json_is_null(flag) ? json_is_true(flag)
                                            : exchange_server(all->group.exchange)->arguments->truncate;
    all->cuts |= has_number;
    int status =
        all->cuts ? v->api->encode(v->tokenizer, "", 0, ENGINE_ENCODE_BOS_EOS, token_list_sink, &all->around)
                  : ENGINE_OK;
    return !status || api_error_of_engine(error, status, "truncate");
}

bool vectors_fits(struct vectors *all, struct vector_input *input)
{
    uint32_t limit = vectors_limit_of(all);
    char place[64];
    snprintf(place, sizeof place, all->n_inputs > 1 ? "\"%.40s\"[%zu]" : "\"%.40s\"", all->what,
             (size_t)(input - all->inputs));
    if (input->tokens.count == 0)
        return api_error_in(&all->group.error, all->what, "%s has no tokens", place);
    if (all->cuts) token_list_cut(&input->tokens, &all->around, all->n_max);
    if (input->tokens.count <= limit) return true;
    return api_error_with_code(
        &all->group.error, "context_length_exceeded", all->what,
        "%s has %zu tokens, but the model reads at most %u here: shorten it, or cut it with "
        "\"truncate\": true",
        place, input->tokens.count, limit);
}

void vectors_start(struct vectors *all)
{
    group_submit(&all->group);
}
