/* generation.c: see generation.h. */
#include "serve/generate/generation.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "commands/json.h"
#include "commands/sampling.h"
#include "serve/generate/conversation-prompt.h"
#include "serve/generate/shape.h"
#include "serve/generate/wire.h"
#include "serve/server.h"

#define MOST_RUNNING 64  /* requests of a generation that the queue has at once */
#define STATUS_GONE  499 /* for the log, as in other servers: hardly anybody sees it */

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

/* False: the exchange has been answered. */
static bool adopt_sampling(struct generation *g)
{
    const struct server *server = exchange_server(g->exchange);
    g->sampling = server->sampling; /* whose arrays it shares */
    if (server->sampling.options.samplers == server->sampling.samplers)
        g->sampling.options.samplers = g->sampling.samplers;
    if (sampling_adopt(server->arguments, g->served->model, &g->sampling) == ENGINE_OK) return true;
    exchange_fail(g->exchange, 500, "server_error", NULL, NULL, "%s", command_message());
    return false;
}

struct generation *generation_create(struct exchange *exchange, const struct format *format,
                                     const char *prefix)
{
    struct generation *g = calloc(1, sizeof *g);
    if (!g || pthread_mutex_init(&g->lock, NULL) != 0) {
        free(g);
        exchange_fail(exchange, 500, "server_error", NULL, NULL, "out of memory (a request)");
        return NULL;
    }
    g->exchange = exchange;
    g->served = exchange_model(exchange);
    g->format = format;
    g->created = (int64_t)time(NULL);
    random_id(g->id, sizeof g->id, prefix, 24);
    const char *named = json_string_value(json_object_get(exchange_json(exchange), "model"));
    g->model = named ? named : g->served->name;
    if (!adopt_sampling(g)) {
        pthread_mutex_destroy(&g->lock);
        free(g);
        return NULL;
    }
    struct engine_sampler_options sampler = sampling_options(&g->sampling, new_seed());
    ask_create(&g->ask, &sampler);
    g->most_tokens = exchange_server(exchange)->arguments->most_tokens;
    return g;
}

/* All but what client_is_gone needs. */
static void release(struct generation *g)
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
    free(g->tokens.ids);
    free(g->template_text);
    engine_rendered_free(g->rendered);
    engine_grammar_destroy(g->grammar);
    ask_free(&g->ask);
}

static void destroy(struct generation *g)
{
    free(g->choices);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* ---- What goes wrong ---- */

static void cancel_all(struct generation *g)
{
    for (size_t i = 0; i < g->n_choices; i++) {
        uint64_t id = atomic_load(&g->choices[i].id);
        if (id) served_cancel(g->served, id); /* it may have ended meanwhile */
    }
}

static void fail(struct generation *g, int status, const char *message)
{
    if (g->mistake.status) return;
    mistake_in(&g->mistake, NULL, "%s", message);
    g->mistake.status = status == ENGINE_ERROR_DATA ? 400 : 500;
    cancel_all(g);
}

/* Cancelled, and not because it is enough. */
static void fail_cancelled(struct generation *g)
{
    bool gone = atomic_load(&g->gone), first = !g->mistake.status;
    fail(g, ENGINE_ERROR,
         gone ? "the client closed its side of the connection before it had the answer"
              : "the server is shutting down");
    if (gone && first) g->mistake.status = STATUS_GONE;
}

/* ---- The end ---- */

/* All requests are done. With the exchange, the model and the request's JSON may go; until then, client_is_gone may be
 * called. */
static void finish(struct generation *g)
{
    struct exchange *exchange = g->exchange;
    if (g->n_submitted < g->n_choices && atomic_load(&g->gone)) fail_cancelled(g);
    bool streams = g->streams, failed = g->mistake.status != 0;
    json_t *answer = failed ? NULL : g->format->end(g);
    if (failed && streams && g->format->failed) g->format->failed(g, &g->mistake);
    release(g);
    if (streams)
        exchange_end(exchange);
    else if (failed)
        wire_fail(exchange, &g->mistake);
    else
        wire_answer(exchange, answer);
    destroy(g);
}

static void drop_use(struct generation *g)
{
    if (atomic_fetch_sub(&g->n_uses, 1) == 1) finish(g);
}

/* ---- The client is gone ---- */

/* Takes no lock: the caller may hold one that exchange_send waits for. */
static void client_is_gone(void *user)
{
    struct generation *g = user;
    atomic_store(&g->gone, true);
    cancel_all(g);
}

void choice_enough(struct choice *choice)
{
    choice->enough = true;
    uint64_t id = atomic_load(&choice->id);
    if (id) served_cancel(choice->generation->served, id);
}

/* ---- Events ---- */

static void fail_memory(struct generation *g)
{
    fail(g, ENGINE_ERROR_MEMORY, "out of memory (an answer)");
}

/* Whether the format is told more than tokens. */
static bool is_told(const struct generation *g)
{
    return (g->ask.stream || g->format->follows) && !g->mistake.status;
}

/* Streams begin with the first event, so that what fails before it still gets a status. */
static void begin(struct choice *choice)
{
    struct generation *g = choice->generation;
    if (!is_told(g)) return;
    if (g->ask.stream && !g->streams) exchange_stream(g->exchange, "text/event-stream");
    g->streams = g->ask.stream;
    if (!g->begun && g->format->begin) g->format->begin(g);
    g->begun = true;
    if (!choice->begun && g->format->begin_choice) g->format->begin_choice(choice);
    choice->begun = true;
}

static void deliver(struct choice *choice, uint32_t part, const struct engine_string *text)
{
    struct generation *g = choice->generation;
    if (text->length == 0 || choice->enough) return;
    choice->part = part;
    /* Beside calls that are asked for there are only line breaks, and the mark of one that is cut. */
    if (part == ENGINE_REPLY_CONTENT && ask_forces_call(&g->ask)) return;
    if (text_add(part == ENGINE_REPLY_REASONING ? &choice->reasoning : &choice->content, text))
        fail_memory(g);
    if (is_told(g) && g->format->text) g->format->text(choice, part, text);
}

static void begin_call(struct choice *choice, const struct engine_reply_piece *piece)
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
    if (choice->enough || g->mistake.status) return;
    if (piece->flags & ENGINE_REPLY_CALL_BEGINS) begin_call(choice, piece);
    if (!g->mistake.status && text_add(arguments, &piece->text)) fail_memory(g);
    if (g->mistake.status) return;
    size_t number = json_array_size(choice->calls) - 1;
    if (ends && json_object_set_new(json_array_get(choice->calls, number), "arguments",
                                    json_text(arguments->size ? arguments->data : "", arguments->size)) != 0)
        fail_memory(g);
    choice->part = ENGINE_REPLY_CALL;
    choice->call_cut = piece->flags & ENGINE_REPLY_CALL_CUT;
    if (is_told(g) && g->format->call) g->format->call(choice, number, piece);
    if (ends && g->ask.one_call) choice_enough(choice);
}

static void take_piece(void *user, const struct engine_reply_piece *piece)
{
    if (piece->part == ENGINE_REPLY_CALL)
        deliver_call(user, piece);
    else
        deliver(user, piece->part, &piece->text);
}

static void add_text(struct choice *choice, const struct engine_event *event)
{
    if (!choice->reply)
        deliver(choice, ENGINE_REPLY_CONTENT, &event->text);
    else if (event->text.length > 0 && engine_reply_add(choice->reply, event->text.data, event->text.length))
        fail_memory(choice->generation);
}

static void end_choice(struct choice *choice, const struct engine_event *event)
{
    struct generation *g = choice->generation;
    if (choice->reply && engine_reply_end(choice->reply)) fail_memory(g);
    choice->done = true;
    choice->stop = event->stop;
    choice->cut = event->reason == ENGINE_DONE_LIMIT || event->reason == ENGINE_DONE_CONTEXT;
    if (event->reason == ENGINE_DONE_FAILED) fail(g, event->status, event->message);
    if (event->reason == ENGINE_DONE_CANCELLED && !choice->enough) fail_cancelled(g);
    if (is_told(g) && g->format->end_choice) g->format->end_choice(choice);
}

static void take_event(void *user, const struct engine_event *event);

/* The queue's request for a choice. */
static struct engine_request request_of(struct choice *choice)
{
    struct generation *g = choice->generation;
    const struct ask *ask = &g->ask;
    uint32_t limit = ask->options.max_tokens;
    if (g->most_tokens > 0 && (limit == 0 || limit > g->most_tokens)) limit = g->most_tokens;
    uint32_t flags = ask->options.ignore_end ? ENGINE_REQUEST_IGNORE_END : 0u;
    if (ask->messages) flags |= ENGINE_REQUEST_SPECIAL;
    if (ask->messages && !g->served->info.has_source) flags |= ENGINE_REQUEST_KEEP;
    if (ask->no_tokens) flags |= ENGINE_REQUEST_NO_TOKENS;
    bool scores = ask->echo && ask->logprobs && choice->prompt->tokens.count > 1;
    return (struct engine_request){
        .struct_size = sizeof(struct engine_request),
        .tokens = choice->prompt->tokens.ids,
        .n_tokens = choice->prompt->tokens.count,
        .max_tokens = limit,
        .flags = flags,
        .stop = ask->options.stop,
        .n_stop = ask->options.n_stop,
        .event = take_event,
        .user = choice,
        .grammar = g->grammar,
        .n_logprobs = ask->logprobs ? (ask->n_top > 0 ? ask->n_top : 1) : 0,
        .n_score = scores ? (uint32_t)choice->prompt->tokens.count - 1 : 0,
    };
}

/* Under the lock: submits choices, as many as may run at once. If the queue takes no more, the rest follows when one of
 * them is done; if it takes none, that is the answer. */
static void submit_some(struct generation *g)
{
    while (g->n_submitted < g->n_choices && g->n_running < MOST_RUNNING && !g->mistake.status &&
           !atomic_load(&g->gone)) {
        struct choice *choice = &g->choices[g->n_submitted];
        uint64_t id;
        struct engine_request request = request_of(choice);
        struct engine_sampler_options sampler = g->ask.options.sampler;
        sampler.seed += g->n_submitted % g->ask.n;
        request.sampler = &sampler;
        atomic_fetch_add(&g->n_uses, 1);
        int status = served_submit(g->exchange, &request, &id);
        if (status) {
            atomic_fetch_sub(&g->n_uses, 1); /* never the last: the caller has one */
            if (status == ENGINE_ERROR_BUSY && g->n_running > 0) return;
            mistake_of_engine(&g->mistake, status, ask_field_of(engine_error_message()));
            cancel_all(g);
            return;
        }
        atomic_store(&choice->id, id);
        g->n_submitted++;
        g->n_running++;
    }
}

static void take_event(void *user, const struct engine_event *event)
{
    struct choice *choice = user;
    struct generation *g = choice->generation;
    bool done = event->kind == ENGINE_EVENT_DONE;
    pthread_mutex_lock(&g->lock);
    choice->n_prompt = event->n_prompt;
    choice->n_reused = event->n_reused;
    choice->n_generated = event->n_generated;
    if (!(done && event->reason == ENGINE_DONE_FAILED)) begin(choice);
    if (!g->mistake.status && event->kind == ENGINE_EVENT_SCORE && g->format->score)
        g->format->score(choice, event);
    if (!g->mistake.status && event->kind == ENGINE_EVENT_TOKEN && g->format->token)
        g->format->token(choice, event);
    if (!g->mistake.status) add_text(choice, event);
    if (event->kind == ENGINE_EVENT_TOKEN && choice->part == ENGINE_REPLY_REASONING) choice->n_reasoning++;
    if (done) {
        end_choice(choice, event);
        g->n_running--;
        submit_some(g);
    }
    pthread_mutex_unlock(&g->lock);
    if (done) drop_use(g);
}

/* ---- Requests ---- */

static bool create_reply(struct generation *g, struct choice *choice, struct mistake *mistake)
{
    if (!g->ask.messages || g->ask.free_tags) return true;
    bool calls = g->ask.tools && g->ask.tool_choice != TOOL_CHOICE_NONE;
    char *tools = calls ? json_dumps(g->ask.tools, JSON_COMPACT) : NULL;
    struct engine_reply_options options = {.struct_size = sizeof options,
                                           .format = g->reply_format,
                                           .tools = tools,
                                           .prompt = engine_rendered_text(g->rendered),
                                           .prompt_marks = engine_rendered_marks(g->rendered),
                                           .piece = take_piece,
                                           .user = choice,
                                           .flags = ENGINE_REPLY_CALLS_AS_WRITTEN};
    int status = engine_reply_create(&options, &choice->reply);
    free(tools);
    return !status || mistake_of_engine(mistake, status, NULL);
}

/* Each prompt has `n` choices. */
static bool create_choices(struct generation *g, struct mistake *mistake)
{
    size_t n_prompts = g->ask.messages ? 1 : g->ask.n_prompts;
    g->choices = calloc(n_prompts * g->ask.n, sizeof *g->choices);
    if (!g->choices) {
        return mistake_memory(mistake);
    }
    g->n_choices = n_prompts * g->ask.n;
    for (size_t i = 0; i < g->n_choices; i++) {
        struct choice *choice = &g->choices[i];
        choice->generation = g;
        choice->index = (uint32_t)i;
        choice->stop = -1;
        choice->prompt = g->ask.messages ? &g->conversation : &g->ask.prompts[i / g->ask.n];
        if (!create_reply(g, choice, mistake)) return false;
    }
    return true;
}

static bool check_prompt(const struct generation *g, const struct ask_prompt *prompt, struct mistake *mistake)
{
    const char *param = g->ask.messages ? "messages" : "prompt";
    uint32_t n_context = g->served->info.n_context;
    if (prompt->tokens.count == 0)
        return mistake_in(mistake, param,
                          "the prompt is empty, and the model has no token that begins texts");
    if (prompt->tokens.count < n_context || (g->ask.no_tokens && prompt->tokens.count == n_context))
        return true;
    return mistake_with_code(
        mistake, "context_length_exceeded", param,
        "the prompt has %zu tokens, but the context of this model takes %u here, the answer "
        "included",
        prompt->tokens.count, n_context);
}

/* Encoders write nothing. Those that only read their text (T5) go on with it, but what a conversation is to them nobody has
 * said, unless their file does. */
static bool check_model(const struct generation *g, struct mistake *mistake)
{
    const char *name = g->served->name;
    if (g->served->info.is_encoder)
        return mistake_with_code(
            mistake, "model_not_supported", "model",
            "the model %.80s is an encoder, which writes no text: /v1/embeddings has its "
            "embeddings",
            name);
    if (!g->served->info.has_source || !g->ask.echo || !g->ask.logprobs) return true;
    return mistake_with_code(mistake, "model_not_supported", "echo",
                             "the model %.80s has an encoder for its prompts, whose tokens have no "
                             "probabilities: leave out \"echo\" or \"logprobs\"",
                             name);
}

void generation_run(struct generation *g, struct mistake *mistake)
{
    bool good = !mistake->status && check_model(g, mistake);
    if (good && g->ask.messages) good = conversation_prompt(g, mistake);
    for (size_t i = 0; good && i < g->ask.n_prompts; i++) good = check_prompt(g, &g->ask.prompts[i], mistake);
    if (good && g->ask.messages) good = check_prompt(g, &g->conversation, mistake);
    if (good && !g->ask.messages && g->ask.options.constraint.kind) {
        good = shape_constrain(g->served->model, &g->ask, &g->grammar, mistake);
    }
    good = good && create_choices(g, mistake);
    atomic_store(&g->n_uses, 1);
    if (good) {
        exchange_when_gone(g->exchange, client_is_gone, g);
        pthread_mutex_lock(&g->lock);
        submit_some(g);
        pthread_mutex_unlock(&g->lock);
        if (atomic_load(&g->gone)) cancel_all(g);
    } else {
        g->mistake = *mistake;
    }
    drop_use(g);
}

void generation_drop(struct generation *g)
{
    release(g);
    destroy(g);
}

struct generation_usage generation_usage(const struct generation *g)
{
    struct generation_usage usage = {0};
    for (size_t i = 0; i < g->n_choices; i++) {
        const struct choice *choice = &g->choices[i];
        if (i % g->ask.n == 0) usage.n_prompt += choice->prompt->tokens.count;
        if (i % g->ask.n == 0) usage.n_reused += choice->n_reused;
        usage.n_generated += choice->n_generated;
        usage.n_reasoning += choice->n_reasoning;
    }
    return usage;
}

bool generation_encode(const struct served *served, const char *text, size_t size, bool special,
                       struct token_list *tokens, struct mistake *mistake)
{
    int status = prompt_encode(&served->vocabulary, text, size, special, tokens);
    return !status || mistake_of_engine(mistake, status, NULL);
}
