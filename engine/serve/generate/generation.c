/* generation.c: see generation.h. */
#include "serve/generate/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/assert.h"
#include "common/lock.h"
#include "io/json.h"
#include "options/sampling.h"
#include "serve/http/http.h"
#include "serve/models/models.h"
#include "serve/server.h"

/* ---- Groups: the requests that an exchange makes to its model's queue ---- */

#define MAX_RUNNING 64 /* requests that the queue has at once */

bool group_init(struct group *group, struct exchange *exchange)
{
    group->exchange = exchange;
    group->error = api_error_none(exchange);
    return lock_init(&group->lock) == 0;
}

bool group_room(struct group *group, size_t n, struct api_error *error)
{
    group->members = calloc(n, sizeof *group->members);
    if (!group->members) return api_error_memory(error);
    group->n = n;
    for (size_t i = 0; i < n; i++) group->members[i].group = group;
    return true;
}

void group_free(struct group *group)
{
    free(group->members);
    pthread_mutex_destroy(&group->lock);
}

/* ---- Groups: what goes wrong ---- */

void group_cancel(struct group *group, size_t i)
{
    uint64_t id = atomic_load(&group->members[i].id);
    if (id) served_cancel(exchange_model(group->exchange), id); /* it may have ended meanwhile */
}

static void cancel_all(struct group *group)
{
    for (size_t i = 0; i < group->n; i++) group_cancel(group, i);
}

void group_fail_with(struct group *group, unsigned status, const char *message)
{
    if (group->error.status) return;
    api_error_in(&group->error, NULL, "%s", message);
    group->error.status = status;
    cancel_all(group);
}

/* A request was cancelled, or never submitted. */
static void fail_cancelled(struct group *group)
{
    struct exchange_end_reason why = {500, "the server is shutting down"};
    if (atomic_load(&group->gone)) why = exchange_why_gone(group->exchange);
    group_fail_with(group, why.status, why.message);
}

/* The status of HTTP for that of a request that failed. */
static unsigned http_status_of(int status)
{
    if (status == ENGINE_ERROR_DATA) return 400;
    return status == ENGINE_ERROR_MEMORY ? OUT_OF_MEMORY_STATUS : 500;
}

void group_fail(struct group *group, const struct engine_event *event)
{
    if (event->reason == ENGINE_DONE_CANCELLED)
        fail_cancelled(group);
    else
        group_fail_with(group, http_status_of(event->status), event->message);
}

/* Takes no lock: the caller may hold one that exchange_send waits for. */
static void group_client_is_gone(void *user)
{
    struct group *group = user;
    atomic_store(&group->gone, true);
    cancel_all(group);
}

void group_watch(struct group *group)
{
    exchange_when_gone(group->exchange, group_client_is_gone, group);
}

bool group_is_gone(struct group *group)
{
    return atomic_load(&group->gone);
}

/* ---- Groups: submitting, and events ---- */

static void drop_use(struct group *group)
{
    size_t before = atomic_fetch_sub(&group->n_uses, 1);
    ENGINE_ASSERT(before > 0);
    if (before != 1) return;
    ENGINE_ASSERT(group->n_running == 0 && group->n_submitted <= group->n);
    if (group->n_submitted < group->n && atomic_load(&group->gone)) fail_cancelled(group);
    group->finish(group);
}

static void group_take_event(void *user, const struct engine_event *event);

/* Under the lock: submits requests, as many as may run at once. If the queue takes no more, the rest follows
 * when one of them is done; if it takes none, that is the answer. */
static void group_submit_some(struct group *group)
{
    ENGINE_ASSERT(lock_is_mine(&group->lock));
    while (group->n_submitted < group->n && group->n_running < MAX_RUNNING && !group->error.status &&
           !atomic_load(&group->gone)) {
        struct group_member *member = &group->members[group->n_submitted];
        struct engine_request request = {.struct_size = sizeof request};
        struct engine_sampler_options sampler;
        uint64_t id;
        group->fill(group, group->n_submitted, &request, &sampler);
        request.event = group_take_event;
        request.user = member;
        atomic_fetch_add(&group->n_uses, 1);
        int status = served_submit(group->exchange, &request, &id);
        if (status) {
            atomic_fetch_sub(&group->n_uses, 1); /* never the last: the caller has one */
            if (status == ENGINE_ERROR_BUSY && group->n_running > 0) return;
            api_error_of_engine(&group->error, status, group->param(group, engine_error_message()));
            cancel_all(group);
            return;
        }
        atomic_store(&member->id, id);
        group->n_submitted++;
        group->n_running++;
    }
}

static void group_take_event(void *user, const struct engine_event *event)
{
    struct group_member *member = user;
    struct group *group = member->group;
    bool done = event->kind == ENGINE_EVENT_DONE;
    pthread_mutex_lock(&group->lock);
    ENGINE_ASSERT(member >= group->members && member < group->members + group->n);
    group->take(group, (size_t)(member - group->members), event);
    if (done) {
        ENGINE_ASSERT(group->n_running > 0);
        group->n_running--;
        group_submit_some(group);
    }
    pthread_mutex_unlock(&group->lock);
    if (done) drop_use(group);
}

void group_submit(struct group *group)
{
    atomic_store(&group->n_uses, 1);
    if (!group->error.status) {
        group_watch(group);
        pthread_mutex_lock(&group->lock);
        group_submit_some(group);
        if (group->queued && group->n_submitted > 0 && !group->error.status) group->queued(group);
        pthread_mutex_unlock(&group->lock);
        if (atomic_load(&group->gone)) cancel_all(group);
    }
    drop_use(group);
}

/* ---- Creation ---- */

void random_id(char *id, size_t size, const char *prefix, size_t n_letters)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    unsigned char bytes[64];
    size_t n = (size_t)snprintf(id, size, "%s", prefix);
    if (n_letters > sizeof bytes) n_letters = sizeof bytes;
    while (getrandom(bytes, n_letters, 0) != (ssize_t)n_letters) continue; /* a signal came between */
    for (size_t i = 0; i < n_letters && n + 1 < size; i++) id[n++] = letters[bytes[i] % (sizeof letters - 1)];
    id[n] = '\0';
}

struct generation *generation_create(struct exchange *exchange, const struct format *format,
                                     const char *prefix)
{
    static const struct format silent = {0};
    struct generation *g = calloc(1, sizeof *g);
    if (!g || !group_init(&g->group, exchange)) {
        free(g);
        exchange_fail(exchange, OUT_OF_MEMORY_STATUS, "server_error", NULL, NULL,
                      "out of memory (a request)");
        return NULL;
    }
    g->served = exchange_model(exchange);
    g->format = format ? format : &silent;
    g->created = (int64_t)time(NULL);
    random_id(g->id, sizeof g->id, prefix, 24);
    const char *named = json_string_value(json_object_get(exchange_json(exchange), "model"));
    g->model = named ? named : g->served->name;
    struct engine_sampler_options sampler = sampling_options(&g->served->sampling, new_seed());
    params_create(&g->params, &sampler);
    g->params.max_reasoning = exchange_server(exchange)->arguments->reasoning_budget;
    g->max_tokens = exchange_server(exchange)->arguments->most_tokens;
    return g;
}

/* ---- The end ---- */

/* All but the group, which the client's going away may touch until the exchange has ended. */
static void generation_release(struct generation *g)
{
    for (size_t i = 0; i < g->n_choices; i++) {
        struct choice *choice = &g->choices[i];
        if (g->format->free_choice) g->format->free_choice(choice);
        engine_reply_destroy(choice->reply);
        json_decref(choice->calls);
        free(choice->content.data);
        free(choice->arguments.data);
        free(choice->reasoning.data);
    }
    if (g->format->free_generation) g->format->free_generation(g);
    free(g->choices);
    free(g->tokens.ids);
    free(g->template_text);
    free(g->offered);
    engine_rendered_free(g->rendered);
    engine_grammar_destroy(g->grammar);
    params_free(&g->params);
}

static void begin_format(struct generation *g)
{
    if (!g->begun && g->format->begin) g->format->begin(g);
    g->begun = true;
}

/* The group's finish. With the exchange, the model and the request's JSON may go. */
static void generation_finish(struct group *group)
{
    struct generation *g = (struct generation *)group;
    bool streams = g->streams, failed = group->error.status != 0;
    ENGINE_ASSERT(failed || g->format->end);
    json_t *answer = failed ? NULL : g->format->end(g);
    if (failed && streams) {
        begin_format(g);
        if (g->format->failed) g->format->failed(g, &group->error);
    }
    generation_release(g);
    if (streams)
        exchange_end(group->exchange);
    else if (failed)
        api_error_answer(group->exchange, &group->error);
    else
        exchange_answer_json(group->exchange, answer);
    group_free(group);
    free(g);
}

void choice_enough(struct choice *choice)
{
    ENGINE_ASSERT(lock_is_mine(&choice->generation->group.lock));
    choice->enough = true;
    group_cancel(&choice->generation->group, choice->index);
}

/* ---- Events ---- */

static void fail_memory(struct generation *g)
{
    group_fail_with(&g->group, OUT_OF_MEMORY_STATUS, "out of memory (an answer)");
}

/* Whether the format is told more than tokens. */
static bool is_told(const struct generation *g)
{
    return (g->params.stream || g->format->follows) && !g->group.error.status;
}

static void generation_begin(struct choice *choice)
{
    struct generation *g = choice->generation;
    if (!is_told(g)) return;
    begin_format(g);
    if (!choice->begun && g->format->begin_choice) g->format->begin_choice(choice);
    choice->begun = true;
}

static void deliver_text(struct choice *choice, uint32_t part, const struct engine_string *text)
{
    struct generation *g = choice->generation;
    if (text->length == 0 || choice->enough) return;
    choice->part = part;
    /* Beside calls that are asked for there are only line breaks, and the mark of one that is cut. */
    if (part == ENGINE_REPLY_CONTENT && params_forces_call(&g->params)) return;
    if (text_add(part == ENGINE_REPLY_REASONING ? &choice->reasoning : &choice->content, text))
        fail_memory(g);
    if (is_told(g) && g->format->text) g->format->text(choice, part, text);
}

static void generation_begin_call(struct choice *choice, const struct engine_reply_piece *piece)
{
    struct generation *g = choice->generation;
    char id[40];
    /* Templates of Mistral's models insist on such ids. */
    if (g->reply_format == ENGINE_REPLY_MISTRAL)
        random_id(id, sizeof id, "", 9);
    else
        random_id(id, sizeof id, "call_", 24);
    if (!choice->calls) choice->calls = json_array();
    json_t *call =
        json_pack("{s:s, s:s}", "id", piece->id && piece->id[0] ? piece->id : id, "name", piece->name);
    if (json_array_append_new(choice->calls, call) != 0) fail_memory(g);
    choice->arguments.size = 0;
}

static void deliver_call(struct choice *choice, const struct engine_reply_piece *piece)
{
    struct generation *g = choice->generation;
    struct text_buffer *arguments = &choice->arguments;
    bool ends = piece->flags & ENGINE_REPLY_CALL_ENDS;
    if (choice->enough || g->group.error.status) return;
    if (piece->flags & ENGINE_REPLY_CALL_BEGINS) generation_begin_call(choice, piece);
    if (!g->group.error.status && text_add(arguments, &piece->text)) fail_memory(g);
    if (g->group.error.status) return;
    ENGINE_ASSERT(json_array_size(choice->calls) > 0); /* a piece has begun one */
    size_t number = json_array_size(choice->calls) - 1;
    if (ends &&
        json_object_set_new(json_array_get(choice->calls, number), "arguments", json_buffer(arguments)) != 0)
        fail_memory(g);
    choice->part = ENGINE_REPLY_CALL;
    choice->call_cut = piece->flags & ENGINE_REPLY_CALL_CUT;
    if (is_told(g) && g->format->call) g->format->call(choice, number, piece);
    if (ends && g->params.one_call) choice_enough(choice);
}

static void generation_take_piece(void *user, const struct engine_reply_piece *piece)
{
    if (piece->part == ENGINE_REPLY_CALL)
        deliver_call(user, piece);
    else
        deliver_text(user, piece->part, &piece->text);
}

/* Whether a text comes to one of the request's limits, where it is cut. */
static bool reaches_limit(struct choice *choice, struct engine_string *text)
{
    const struct params *params = &choice->generation->params;
    for (size_t i = 0; i < text->length; i++) {
        char byte = text->data[i];
        bool blank = byte == ' ' || byte == '\t';
        if (choice->in_indent && !blank && choice->indent < params->n_indent) return text->length = i, true;
        choice->in_indent = byte == '\n' || (choice->in_indent && blank);
        choice->indent = blank ? choice->indent + 1 : 0;
        if (byte == '\n' && params->max_seconds > 0 && choice->text_seconds > params->max_seconds)
            return text->length = i + 1, true;
    }
    return false;
}

static void generation_add_text(struct choice *choice, const struct engine_event *event)
{
    struct engine_string text = event->text;
    if (choice->at_limit) return;
    bool ends = reaches_limit(choice, &text);
    if (!choice->reply)
        deliver_text(choice, ENGINE_REPLY_CONTENT, &text);
    else if (text.length > 0 && engine_reply_add(choice->reply, text.data, text.length))
        fail_memory(choice->generation);
    choice->at_limit = ends;
    if (ends) group_cancel(&choice->generation->group, choice->index);
}

static void generation_end_choice(struct choice *choice, const struct engine_event *event)
{
    struct generation *g = choice->generation;
    bool ended = event->reason == ENGINE_DONE_END;
    if (choice->reply && ((!ended && engine_reply_cut(choice->reply)) || engine_reply_end(choice->reply)))
        fail_memory(g);
    choice->done = true;
    choice->stop = event->stop;
    choice->stopped_in_call =
        event->reason == ENGINE_DONE_STOP && choice->part == ENGINE_REPLY_CALL && choice->call_cut;
    choice->cut =
        event->reason == ENGINE_DONE_LIMIT || event->reason == ENGINE_DONE_CONTEXT || choice->at_limit;
    bool wanted = choice->enough || choice->at_limit;
    if (event->reason == ENGINE_DONE_FAILED || (event->reason == ENGINE_DONE_CANCELLED && !wanted))
        group_fail(&g->group, event);
    if (is_told(g) && g->format->end_choice) g->format->end_choice(choice);
}

/* ---- The group's functions ---- */

static void generation_fill_request(struct group *group, size_t i, struct engine_request *request,
                                    struct engine_sampler_options *sampler)
{
    const struct generation *g = (const struct generation *)group;
    const struct params *params = &g->params;
    ENGINE_ASSERT(i < g->n_choices && g->choices[i].prompt->tokens.count > 0);
    const struct token_list *tokens = &g->choices[i].prompt->tokens;
    uint32_t limit = params->options.max_tokens;
    if (g->max_tokens > 0 && (limit == 0 || limit > g->max_tokens)) limit = g->max_tokens;
    uint32_t flags = params->options.ignore_end ? ENGINE_REQUEST_IGNORE_END : 0u;
    if (params->messages) flags |= ENGINE_REQUEST_SPECIAL;
    if (params->messages && !g->served->info.has_source) flags |= ENGINE_REQUEST_KEEP;
    if (params->no_tokens) flags |= ENGINE_REQUEST_NO_TOKENS;
    bool scores = params->echo && params->logprobs && tokens->count > 1;
    *sampler = params->options.sampler;
    sampler->seed += i % params->n;
    request->tokens = tokens->ids;
    request->n_tokens = tokens->count;
    request->max_tokens = limit;
    request->flags = flags;
    request->sampler = sampler;
    request->stop = params->options.stop;
    request->n_stop = params->options.n_stop;
    request->grammar = g->grammar;
    request->n_logprobs = params->logprobs ? (params->n_top > 0 ? params->n_top : 1) : 0;
    request->n_score = scores ? (uint32_t)tokens->count - 1 : 0;
    if (params->messages && params->max_reasoning < UINT32_MAX) request->reply = &g->reading;
    request->max_reasoning = params->max_reasoning;
}

/* Streams begin when the queue has the request, long before the first token: what was wrong with the request
 * has its status by then, and who waits for the rest sees that the server is there. */
static void generation_queued(struct group *group)
{
    struct generation *g = (struct generation *)group;
    g->streams = g->params.stream;
    if (g->streams) sse_begin(group->exchange, g->format->last_words);
}

static void generation_take_event(struct group *group, size_t i, const struct engine_event *event)
{
    struct generation *g = (struct generation *)group;
    struct choice *choice = &g->choices[i];
    bool done = event->kind == ENGINE_EVENT_DONE;
    choice->n_prompt = event->n_prompt;
    choice->n_reused = event->n_reused;
    choice->n_generated = event->n_generated;
    choice->prompt_seconds = event->prompt_seconds;
    choice->text_seconds = event->text_seconds;
    if (!(done && event->reason == ENGINE_DONE_FAILED)) generation_begin(choice);
    if (!group->error.status && event->kind == ENGINE_EVENT_SCORE && g->format->score)
        g->format->score(choice, event);
    if (!group->error.status && event->kind == ENGINE_EVENT_TOKEN && g->format->token)
        g->format->token(choice, event);
    if (!group->error.status) generation_add_text(choice, event);
    if (event->kind == ENGINE_EVENT_TOKEN && choice->part == ENGINE_REPLY_REASONING) choice->n_reasoning++;
    if (done) generation_end_choice(choice, event);
}

/* The sampler's messages begin with the name of an option. */
static const char *generation_param_of(const struct group *group, const char *message)
{
    (void)group;
    return params_field_of(message);
}

/* ---- Requests ---- */

static bool read_replies(struct generation *g, struct api_error *error)
{
    bool calls = g->params.tools && g->params.tool_choice != TOOL_CHOICE_NONE;
    g->offered = calls ? json_dumps(g->params.tools, JSON_COMPACT) : NULL;
    if (calls && !g->offered) return api_error_memory(error);
    g->reading = (struct engine_reply_options){.struct_size = sizeof g->reading,
                                               .format = g->reply_format,
                                               .chat_template = g->served->chat_template,
                                               .tools = g->offered,
                                               .prompt = engine_rendered_text(g->rendered),
                                               .prompt_marks = engine_rendered_marks(g->rendered),
                                               .piece = generation_take_piece,
                                               .flags = ENGINE_REPLY_CALLS_AS_WRITTEN};
    return true;
}

static bool create_reply(struct generation *g, struct choice *choice, struct api_error *error)
{
    if (!g->params.messages || g->params.free_tags) return true;
    struct engine_reply_options options = g->reading;
    options.user = choice;
    int status = engine_reply_create(&options, &choice->reply);
    return !status || api_error_of_engine(error, status, NULL);
}

/* Each prompt has `n` choices. */
static bool create_choices(struct generation *g, struct api_error *error)
{
    size_t n_prompts = g->params.messages ? 1 : g->params.n_prompts;
    g->choices = calloc(n_prompts * g->params.n, sizeof *g->choices);
    if (!g->choices) return api_error_memory(error);
    g->n_choices = n_prompts * g->params.n;
    if (!group_room(&g->group, g->n_choices, error)) return false;
    if (g->params.messages && !read_replies(g, error)) return false;
    for (size_t i = 0; i < g->n_choices; i++) {
        struct choice *choice = &g->choices[i];
        choice->generation = g;
        choice->index = (uint32_t)i;
        choice->stop = -1;
        choice->prompt = g->params.messages ? &g->conversation : &g->params.prompts[i / g->params.n];
        if (!create_reply(g, choice, error)) return false;
    }
    return true;
}

static bool generation_check_prompt(const struct generation *g, const struct params_prompt *prompt,
                                    struct api_error *error)
{
    const char *param = g->params.messages ? "messages" : "prompt";
    uint32_t n_context = g->served->info.n_context, n_vocab = g->served->info.n_vocab;
    if (prompt->tokens.count == 0)
        return api_error_in(error, param,
                            "the prompt is empty, and the model has no token that begins texts");
    for (size_t i = 0; i < prompt->tokens.count; i++)
        if ((uint32_t)prompt->tokens.ids[i] >= n_vocab)
            return api_error_in(error, param, "token %zu of the prompt is %d, but the model has %u: 0 to %u",
                                i, prompt->tokens.ids[i], n_vocab, n_vocab - 1);
    if (prompt->tokens.count < n_context || (g->params.no_tokens && prompt->tokens.count == n_context))
        return true;
    return api_error_with_code(
        error, "context_length_exceeded", param,
        "the prompt has %zu tokens, but the context of this model takes %u here, the answer "
        "included",
        prompt->tokens.count, n_context);
}

/* Encoders write nothing. Those that only read their text (T5) go on with it, but what a conversation is to
 * them nobody has said, unless their file does. */
static bool generation_check_model(const struct generation *g, struct api_error *error)
{
    const char *name = g->served->name;
    if (g->served->info.is_encoder)
        return api_error_with_code(
            error, "model_not_supported", "model",
            "the model %.80s is an encoder, which writes no text: /v1/embeddings has its "
            "embeddings",
            name);
    if (!g->served->info.has_source || !g->params.echo || !g->params.logprobs) return true;
    return api_error_with_code(error, "model_not_supported", "echo",
                               "the model %.80s has an encoder for its prompts, whose tokens have no "
                               "probabilities: leave out \"echo\" or \"logprobs\"",
                               name);
}

/* The server ends, or the client has gone away. */
static int gives_up(void *user)
{
    struct generation *g = user;
    return group_is_gone(&g->group) || atomic_load(&exchange_server(g->group.exchange)->is_ending);
}

/* On a thread for work that may take long: the grammar, and then the requests. */
static void generation_constrain(void *user)
{
    struct generation *g = user;
    struct api_error error = {0};
    struct engine_reply_layout layout = {.struct_size = sizeof layout};
    bool laid_out = g->params.messages && g->served->chat_template &&
                    !engine_template_reply_layout(g->served->chat_template, &layout);
    bool own_marks = layout.reasoning_begin && layout.reasoning_begin[0];
    const struct reply_grammar_input input = {.model = g->served->model,
                                              .vocabulary = &g->served->vocabulary,
                                              .format = g->reply_format,
                                              .template_text = g->template_text,
                                              .layout = laid_out             ? &layout
                                                        : g->has_plain_calls ? &plain_calls_layout
                                                                             : NULL,
                                              .reasoning_begin = own_marks ? layout.reasoning_begin : NULL,
                                              .reasoning_end = own_marks ? layout.reasoning_end : NULL,
                                              .reasoning = g->reasoning,
                                              .gives_up = gives_up,
                                              .user = g};
    if (!gives_up(g))
        (g->params.messages ? reply_grammar_create : reply_grammar_constrain)(&input, &g->params, &g->grammar,
                                                                              &error);
    if (gives_up(g) && !g->grammar) {
        struct exchange_end_reason why = {503, "the server is shutting down"};
        if (group_is_gone(&g->group)) why = exchange_why_gone(g->group.exchange);
        error = (struct api_error){0};
        api_error_in(&error, NULL, "%s", why.message);
        error.status = why.status;
    }
    g->group.error = error;
    group_submit(&g->group);
}

static bool needs_grammar(const struct params *params)
{
    return params->messages ? reply_grammar_needed(params) : params->options.constraint.kind != 0;
}

void generation_start(struct generation *g, struct api_error *error)
{
    bool good = !error->status && generation_check_model(g, error);
    if (good && g->params.messages) good = conversation_prompt(g, error);
    for (size_t i = 0; good && i < g->params.n_prompts; i++)
        good = generation_check_prompt(g, &g->params.prompts[i], error);
    if (good && g->params.messages) good = generation_check_prompt(g, &g->conversation, error);
    good = good && create_choices(g, error);
    g->group.fill = generation_fill_request;
    g->group.queued = generation_queued;
    g->group.take = generation_take_event;
    g->group.finish = generation_finish;
    g->group.param = generation_param_of;
    if (good && needs_grammar(&g->params)) {
        group_watch(&g->group);
        if (exchange_defer(g->group.exchange, generation_constrain, g)) return;
        api_error_in(error, NULL, "too many requests with grammars are waiting; try again later");
        error->status = 429;
    }
    g->group.error = *error;
    group_submit(&g->group);
}

void generation_drop(struct generation *g)
{
    generation_release(g);
    group_free(&g->group);
    free(g);
}

struct generation_usage generation_usage(const struct generation *g)
{
    struct generation_usage usage = {0};
    for (size_t i = 0; i < g->n_choices; i++) {
        const struct choice *choice = &g->choices[i];
        if (i % g->params.n == 0) usage.n_prompt += choice->prompt->tokens.count;
        if (i % g->params.n == 0) usage.n_reused += choice->n_reused;
        usage.n_generated += choice->n_generated;
        usage.n_reasoning += choice->n_reasoning;
    }
    return usage;
}

bool generation_encode(const struct served *served, const char *text, size_t size, bool special,
                       struct token_list *tokens, struct api_error *error)
{
    char line[256];
    int status = prompt_encode(&served->vocabulary, text, size, special, tokens);
    snprintf(line, sizeof line, "%.80s: " PROMPT_HAD_BOS, served->name);
    if (tokens->had_bos) log_engine(NULL, ENGINE_LOG_WARNING, line);
    return !status || api_error_of_engine(error, status, NULL);
}
