/* models.c: the server's models: loaded when asked for, unloaded for others, with adapters in turns,
 * cancelled by clients that go away. A plain program, so that it runs under ThreadSanitizer.
 *
 * usage: serve-models PLUGIN_DIR SCRATCH_FOLDER */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf-writer.h"
#include "http-fixture.h"
#include "serve/api/api.h"
#include "serve/http/http.h"
#include "serve/models/models.h"
#include "serve/server.h"

/* ---- A route that writes ------------------------------------------------------------------------------- */

static atomic_int n_cancelled, n_done;

/* An answer that is being written: the ids of its tokens. */
struct written {
    struct exchange *exchange;
    json_t *tokens;
    _Atomic uint64_t id;
    atomic_int references; /* the request's, and the handler's */
};

static void let_go(struct written *written)
{
    if (atomic_fetch_sub(&written->references, 1) == 1) free(written);
}

static void take_event(void *user, const struct engine_event *event)
{
    struct written *written = user;
    if (event->kind == ENGINE_EVENT_TOKEN) json_array_append_new(written->tokens, json_integer(event->token));
    if (event->kind != ENGINE_EVENT_DONE) return;
    if (event->reason == ENGINE_DONE_CANCELLED) atomic_fetch_add(&n_cancelled, 1);
    atomic_fetch_add(&n_done, 1);
    exchange_answer(
        written->exchange, 200,
        json_pack("{s:s, s:o}", "model", exchange_model(written->exchange)->name, "tokens", written->tokens));
    let_go(written);
}

static void cancel(void *user)
{
    struct written *written = user;
    served_cancel(exchange_model(written->exchange), written->id);
}

/* Writes n tokens after a prompt; the request is the handler's and the event's, and `cancel`'s if that may be
 * called. */
static void write_tokens(struct exchange *exchange, uint32_t n, bool cancels)
{
    struct written *written = calloc(1, sizeof *written);
    int32_t prompt[] = {1, 270, 280};
    struct engine_request request = {.struct_size = sizeof request,
                                     .tokens = prompt,
                                     .n_tokens = 3,
                                     .max_tokens = n,
                                     .flags = ENGINE_REQUEST_IGNORE_END,
                                     .event = take_event,
                                     .user = written};
    if (!written) abort();
    written->exchange = exchange;
    written->tokens = json_array();
    atomic_init(&written->references, 2);
    uint64_t id = 0;
    if (served_submit(exchange, &request, &id)) {
        json_decref(written->tokens);
        free(written);
        exchange_busy(exchange);
        return;
    }
    written->id = id;
    if (cancels) exchange_when_gone(exchange, cancel, written);
    let_go(written);
}

static void write_some(struct exchange *exchange)
{
    write_tokens(exchange, (uint32_t)json_integer_value(json_object_get(exchange_json(exchange), "n")),
                 false);
}

/* A text that ends only with the context. */
static void write_on(struct exchange *exchange)
{
    write_tokens(exchange, 0, true);
}

static void tell_metrics(struct exchange *exchange)
{
    size_t size;
    char *text = metrics_text(exchange_server(exchange), &size);
    exchange_answer_bytes(exchange, 200, "text/plain", text, size);
    free(text);
}

const struct route all_routes[] = {
    {"POST", "/write", write_some, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/write-on", write_on, ROUTE_JSON | ROUTE_MODEL},
    {"GET", "/metrics", tell_metrics, ROUTE_QUICK},
    {"GET", "/models/*", api_model, ROUTE_QUICK},
    {NULL, NULL, NULL, 0},
};

/* ---- Files --------------------------------------------------------------------------------------------- */

#define TRAINED_LONG 131072

static char nothing[512], model_a[512], model_b[512], model_c[512], adapter[512], options_a[600],
    options_b[600], options_c[600], options_adapter[600], long_a[512], long_b[512];

/* A low-rank change of a matrix of the tiny Llama, large enough to change its texts. */
static bool write_adapter(const char *path)
{
    struct gguf_writer *writer = gguf_create(3);
    float a[64 * 2], b[2 * 64];
    uint64_t state = 5;
    for (size_t i = 0; i < 128; i++) a[i] = random_float(&state, 1);
    for (size_t i = 0; i < 128; i++) b[i] = random_float(&state, 1);
    gguf_add_string(writer, "general.architecture", "llama");
    gguf_add_string(writer, "general.type", "adapter");
    gguf_add_string(writer, "adapter.type", "lora");
    gguf_add_f32(writer, "adapter.lora.alpha", 8);
    gguf_add_tensor(writer, "blk.0.attn_output.weight.lora_a", 0, 2, (const uint64_t[]){64, 2}, a, sizeof a);
    gguf_add_tensor(writer, "blk.0.attn_output.weight.lora_b", 0, 2, (const uint64_t[]){2, 64}, b, sizeof b);
    bool saved = gguf_save(writer, path);
    gguf_destroy(writer);
    return saved;
}

static void write_files(const char *folder)
{
    mkdir(folder, 0777);
    snprintf(model_a, sizeof model_a, "%s/a.gguf", folder);
    snprintf(model_b, sizeof model_b, "%s/b.gguf", folder);
    snprintf(model_c, sizeof model_c, "%s/c.gguf", folder);
    snprintf(adapter, sizeof adapter, "%s/change.gguf", folder);
    snprintf(long_a, sizeof long_a, "%s/long-a.gguf", folder);
    snprintf(long_b, sizeof long_b, "%s/long-b.gguf", folder);
    snprintf(nothing, sizeof nothing, "%s/nothing.gguf", folder);
    snprintf(options_a, sizeof options_a, "%s", model_a);
    snprintf(options_b, sizeof options_b, "second=%s", model_b);
    snprintf(options_c, sizeof options_c, "broken=%s", model_c);
    snprintf(options_adapter, sizeof options_adapter, "poet=%s", adapter);
    if (!write_tiny_llama(model_a, &(struct tiny_llama){.seed = 7, .n_context = 4096}) ||
        !write_tiny_llama(model_b, &(struct tiny_llama){.seed = 8, .n_context = 4096}) ||
        !write_tiny_llama(long_a, &(struct tiny_llama){.seed = 9, .n_context = TRAINED_LONG}) ||
        !write_tiny_llama(long_b, &(struct tiny_llama){.seed = 10, .n_context = TRAINED_LONG}) ||
        !write_bytes(model_c, "GGUF", 4) || !write_adapter(adapter)) {
        fprintf(stderr, "serve-models: cannot write to %s\n", folder);
        exit(1);
    }
}

/* ---- Tests --------------------------------------------------------------------------------------------- */

static const char *plugin_dir;

#define OPTIONS(...)                                                                                         \
    (const char *[])                                                                                         \
    {                                                                                                        \
        "--plugin-dir", plugin_dir, "--backend", "cpu", "-t", "1", "-np", "4", __VA_ARGS__, NULL             \
    }

/* The body of the answer to a request with this body, for the caller to free; *status, unless NULL, is its
 * status. */
static char *ask(const struct fixture *fixture, const char *body, int *status)
{
    char request[1024];
    snprintf(request, sizeof request,
             "POST /write HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    char *answer = fixture_ask(fixture, request);
    if (status) *status = strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
    char *begin = strstr(answer, "\r\n\r\n");
    char *text = strdup(begin ? begin + 4 : "");
    free(answer);
    return text;
}

static void expect(const struct fixture *fixture, const char *body, int status, const char *text)
{
    int got;
    char *answer = ask(fixture, body, &got);
    EXPECT(got == status && strstr(answer, text), "%s: status %d instead of %d, or no '%s': %s", body, got,
           status, text, answer);
    free(answer);
}

static struct served_state state_of(struct fixture *fixture, size_t index)
{
    struct served_state state = {0};
    models_at(fixture->server.models, index, &state);
    return state;
}

static void test_names(void)
{
    struct fixture fixture;
    EXPECT(fixture_start_with_models(&fixture, OPTIONS("-m", options_a, "-m", options_b, "-m", options_c)),
           "%s", fixture.message);
    EXPECT(state_of(&fixture, 0).is_loaded && !state_of(&fixture, 1).is_loaded, "what is loaded at first");
    expect(&fixture, "{\"n\": 4}", 200, "\"model\":\"a\"");
    expect(&fixture, "{\"n\": 4, \"model\": \"second\"}", 200, "\"model\":\"second\"");
    expect(&fixture, "{\"n\": 4, \"model\": \"third\"}", 404, "model_not_found");
    expect(&fixture, "{\"n\": 4, \"model\": \"a:none\"}", 404, "model_not_found");
    expect(&fixture, "{\"n\": 4, \"model\": 3}", 400, "not a text");
    expect(&fixture, "{\"n\": 4, \"model\": \"broken\"}", 503, "cannot be loaded: c.gguf: the file ends");
    expect(&fixture, "{\"n\": 4, \"model\": \"broken\"}", 503, "cannot be loaded");
    EXPECT(state_of(&fixture, 0).is_loaded && state_of(&fixture, 1).is_loaded,
           "a model was unloaded without need");
    fixture_stop(&fixture);
    EXPECT(!fixture_start_with_models(&fixture, OPTIONS("-m", options_a, "-m", options_a)) &&
               strstr(fixture.message, "two models"),
           "%s", fixture.message);
    fixture_stop(&fixture);
    EXPECT(!fixture_start_with_models(&fixture, OPTIONS("-m", nothing)), "a file that isn't there");
    fixture_stop(&fixture);
}

/* Requests of several threads for models that don't fit together. */
struct asker {
    pthread_t thread;
    const struct fixture *fixture;
    const char *body, *expected;
    int n_bad;
};

static void *ask_often(void *user)
{
    struct asker *asker = user;
    for (int i = 0; i < 6; i++) {
        char *answer = ask(asker->fixture, asker->body, NULL);
        if (strcmp(answer, asker->expected) != 0) {
            fprintf(stderr, "%s: %s\ninstead of %s\n", asker->body, answer, asker->expected);
            asker->n_bad++;
        }
        free(answer);
    }
    return NULL;
}

/* Several threads ask for each of these at once; each gets what it gets alone. */
static void ask_together(const struct fixture *fixture, const char *const *bodies, size_t n)
{
    struct asker askers[16];
    char *expected[16];
    for (size_t i = 0; i < n; i++) expected[i] = ask(fixture, bodies[i], NULL);
    for (size_t i = 0; i < 2 * n; i++) {
        askers[i] = (struct asker){.fixture = fixture, .body = bodies[i % n], .expected = expected[i % n]};
        if (pthread_create(&askers[i].thread, NULL, ask_often, &askers[i])) abort();
    }
    for (size_t i = 0; i < 2 * n; i++) {
        pthread_join(askers[i].thread, NULL);
        EXPECT(askers[i].n_bad == 0, "%d answers differ", askers[i].n_bad);
    }
    for (size_t i = 0; i < n; i++) free(expected[i]);
}

static void test_putting_out(void)
{
    struct fixture fixture;
    EXPECT(
        fixture_start_with_models(&fixture, OPTIONS("-m", options_a, "-m", options_b, "--models-max", "1")),
        "%s", fixture.message);
    ask_together(&fixture,
                 (const char *[]){"{\"n\": 8, \"model\": \"a\"}", "{\"n\": 8, \"model\": \"second\"}"}, 2);
    EXPECT(state_of(&fixture, 0).is_loaded + state_of(&fixture, 1).is_loaded == 1,
           "more than one model is loaded");
    EXPECT(state_of(&fixture, 1).n_loads > 0 && state_of(&fixture, 0).n_loads > 1,
           "a model was not unloaded");
    fixture_stop(&fixture);
    EXPECT(!fixture_start_with_models(&fixture, OPTIONS("-m", options_a, "--models-memory", "1")) &&
               strstr(fixture.message, "--models-memory"),
           "%s", fixture.message);
    fixture_stop(&fixture);
}

/* Without -c, several models have contexts of the trained length, too, or of what --models-memory leaves.
 * What caches may grow by doesn't count as memory of the models, so they unload nobody. A position takes 256
 * bytes; 16,384 of them, which each model begins with, 4 MiB. */
static void test_long_contexts(void)
{
    struct fixture fixture;
    EXPECT(fixture_start_with_models(&fixture, OPTIONS("-m", long_a, "-m", long_b)), "%s", fixture.message);
    expect(&fixture, "{\"n\": 4, \"model\": \"long-b\"}", 200, "tokens");
    for (size_t i = 0; i < 2; i++)
        EXPECT(state_of(&fixture, i).context.n_context == TRAINED_LONG, "model %zu: %u positions", i,
               state_of(&fixture, i).context.n_context);
    const uint64_t base = state_of(&fixture, 0).memory;
    EXPECT(base > 4 << 20 && base < 16 << 20, "%lu bytes", base);
    fixture_stop(&fixture);
    EXPECT(fixture_start_with_models(&fixture, OPTIONS("-m", long_a, "-m", long_b, "--models-memory", "32")),
           "%s", fixture.message);
    expect(&fixture, "{\"n\": 4, \"model\": \"long-b\"}", 200, "tokens");
    for (size_t i = 0; i < 2; i++) {
        const struct served_state state = state_of(&fixture, i);
        const uint64_t left = ((uint64_t)32 << 20) - (i + 1) * base;
        const uint32_t fitting = 16384 + (uint32_t)(left / 256);
        EXPECT(state.is_loaded, "model %zu is not loaded", i);
        EXPECT(state.context.n_context > fitting - 128 && state.context.n_context < fitting + 128,
               "model %zu: %u positions, not %u", i, state.context.n_context, fitting);
    }
    fixture_stop(&fixture);
    EXPECT(fixture_start_with_models(&fixture, OPTIONS("-m", long_a, "-m", long_b, "-c", "1000")), "%s",
           fixture.message);
    EXPECT(state_of(&fixture, 0).context.n_context == 1000, "-c isn't kept to");
    fixture_stop(&fixture);
}

static void test_load_type(void)
{
    struct fixture fixture;
    char *texts[2];
    for (size_t i = 0; i < 2; i++) {
        EXPECT(fixture_start_with_models(&fixture, i ? OPTIONS("-m", options_a, "--load-type", "Q4_0")
                                                     : OPTIONS("-m", options_a)),
               "%s", fixture.message);
        texts[i] = ask(&fixture, "{\"n\": 16}", NULL);
        fixture_stop(&fixture);
    }
    EXPECT(strstr(texts[1], "tokens") && strcmp(texts[0], texts[1]) != 0, "Q4_0 changes nothing: %s",
           texts[1]);
    free(texts[0]);
    free(texts[1]);
    EXPECT(!fixture_start_with_models(&fixture, OPTIONS("-m", options_a, "--load-type", "Q9")) &&
               strstr(fixture.message, "Q9"),
           "%s", fixture.message);
    fixture_stop(&fixture);
}

static void test_adapters(void)
{
    struct fixture fixture;
    EXPECT(fixture_start_with_models(&fixture, OPTIONS("-m", options_a, "--lora", options_adapter)), "%s",
           fixture.message);
    char *plain = ask(&fixture, "{\"n\": 16}", NULL),
         *changed = ask(&fixture, "{\"n\": 16, \"model\": \"a:poet\"}", NULL);
    EXPECT(strstr(changed, "tokens") && strcmp(plain, changed) != 0, "the adapter changes nothing: %s",
           changed);
    free(plain);
    free(changed);
    ask_together(&fixture, (const char *[]){"{\"n\": 16}", "{\"n\": 16, \"model\": \"a:poet\"}"}, 2);
    struct served_state state;
    EXPECT(models_named(fixture.server.models, "a:poet", &state) && strcmp(state.name, "a") == 0,
           "an adapter has no model");
    EXPECT(!models_named(fixture.server.models, "a:x", &state), "an unknown adapter has a model");
    /* Each model of the list can be looked at alone. */
    static const char *const found[][2] = {{"a", "\"loaded\":true"},
                                           {"a:poet", "\"parent\":\"a\""},
                                           {"a:x", "404"},
                                           {"poet", "404"},
                                           {"a:", "404"},
                                           {"ab:poet", "404"}};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        char request[128];
        snprintf(request, sizeof request,
                 "GET /models/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", found[i][0]);
        char *answer = fixture_ask(&fixture, request);
        EXPECT(strstr(answer, found[i][1]), "%s: %s", found[i][0], answer);
        free(answer);
    }
    fixture_stop(&fixture);
}

/* Texts without an end, whose clients go away. */
static void test_leaving(void)
{
    struct fixture fixture;
    int connections[6];
    EXPECT(fixture_start_with_models(&fixture, OPTIONS("-m", options_a, "--lora", options_adapter)), "%s",
           fixture.message);
    n_cancelled = n_done = 0;
    for (int i = 0; i < 6; i++) {
        const char *body = i % 2 ? "{\"model\": \"a:poet\"}" : "{\"model\": \"a\"}";
        char request[512];
        snprintf(request, sizeof request,
                 "POST /write-on HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", strlen(body),
                 body);
        connections[i] = fixture_connect(&fixture);
        fixture_send(connections[i], request);
    }
    while (http_busy(fixture.server.http) < 6) usleep(1000);
    usleep(50000);
    for (int i = 0; i < 6; i++) close(connections[i]);
    for (int i = 0; i < 20000 && n_done < 6; i++) usleep(1000);
    EXPECT(n_done == 6 && n_cancelled == 6, "%d ended, %d of them cancelled", (int)n_done, (int)n_cancelled);
    http_wait(fixture.server.http, 20);
    expect(&fixture, "{\"n\": 4}", 200, "tokens");
    /* A request's last event comes a moment before the queue has done with it. */
    char *metrics = NULL;
    bool idle = false;
    for (int i = 0; i < 1000 && !idle; i++) {
        free(metrics);
        metrics =
            fixture_ask(&fixture, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        idle = strstr(metrics, "engine_queue_running_requests{model=\"a\"} 0") != NULL;
    }
    EXPECT(idle && strstr(metrics, "engine_generated_tokens_total"), "%s", metrics);
    free(metrics);
    fixture_stop(&fixture);
}

/* The server ends while texts are written. */
static void test_stopping(void)
{
    struct fixture fixture;
    int connections[6];
    EXPECT(fixture_start_with_models(&fixture, OPTIONS("-m", options_a, "--lora", options_adapter)), "%s",
           fixture.message);
    for (int i = 0; i < 6; i++) {
        const char *body = i % 2 ? "{\"n\": 4000, \"model\": \"a:poet\"}" : "{\"n\": 4000}";
        char request[512];
        snprintf(request, sizeof request,
                 "POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", strlen(body),
                 body);
        connections[i] = fixture_connect(&fixture);
        fixture_send(connections[i], request);
    }
    while (http_busy(fixture.server.http) < 6) usleep(1000);
    models_stop(fixture.server.models);
    http_wait(fixture.server.http, 20);
    EXPECT(http_busy(fixture.server.http) == 0, "requests are left");
    fixture_stop(&fixture);
    for (int i = 0; i < 6; i++) close(connections[i]);
}

int main(int argc, char **argv)
{
    static void (*const tests[])(void) = {test_names,    test_putting_out, test_long_contexts, test_load_type,
                                          test_adapters, test_leaving,     test_stopping};
    if (argc != 3) {
        fprintf(stderr, "usage: serve-models PLUGIN_DIR SCRATCH_FOLDER\n");
        return 2;
    }
    plugin_dir = argv[1];
    write_files(argv[2]);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tests[i]();
    if (fixture_failures) fprintf(stderr, "serve-models: %d failed\n", fixture_failures);
    return fixture_failures > 0;
}
