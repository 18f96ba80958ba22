/* streams.c: streams of all APIs while their model is busy: the head comes once the queue has the request,
 * pings until there is an event; what is wrong with a request keeps its status, what fails later is an event.
 * A plain program, so that it runs under ThreadSanitizer.
 *
 * usage: serve-streams PLUGIN_DIR MODEL */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http-fixture.h"
#include "serve/api/api.h"
#include "serve/http/http.h"
#include "serve/models/models.h"

#define PATIENCE 20000 /* milliseconds */

/* ---- A request that holds the queue -------------------------------------------------------------------- */

static atomic_bool released, is_held;

static void hold_queue(void *user, const struct engine_event *event)
{
    if (event->kind != ENGINE_EVENT_DONE) {
        /* After the first step the queue counts this request as running. */
        is_held = event->n_generated == 2;
        while (is_held && !released) usleep(1000);
    } else {
        exchange_answer(user, 200, json_object());
    }
}

/* The queue's thread waits in an event, so nothing is computed until `released`. */
static void hold(struct exchange *exchange)
{
    const int32_t prompt[] = {1, 270, 280};
    const struct engine_request request = {.struct_size = sizeof request,
                                           .tokens = prompt,
                                           .n_tokens = 3,
                                           .max_tokens = 2,
                                           .flags = ENGINE_REQUEST_IGNORE_END,
                                           .event = hold_queue,
                                           .user = exchange};
    if (served_submit(exchange, &request, NULL)) abort();
}

const struct route all_routes[] = {
    {"POST", "/hold", hold, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/v1/chat/completions", api_chat, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/v1/completions", api_completions, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/v1/responses", api_responses, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/v1/messages", api_messages, ROUTE_JSON | ROUTE_MODEL | ROUTE_ANTHROPIC},
    {NULL, NULL, NULL, 0},
};

/* ---- Asking -------------------------------------------------------------------------------------------- */

static const char *plugin_dir, *model;

#define OPTIONS(...)                                                                                         \
    (const char *[])                                                                                         \
    {                                                                                                        \
        "--plugin-dir", plugin_dir, "--backend", "cpu", "-t", "1", "-m", model, "--ping-interval", "1",      \
            __VA_ARGS__, NULL                                                                                \
    }

/* An API's stream. */
struct api {
    const char *path, *body; /* without its closing brace */
    const char *ping, *last, *failed;
};

#define MESSAGES "{\"max_tokens\": 3, \"messages\": [{\"role\": \"user\", \"content\": \"Tell me a story.\"}]"
#define COMMENT  ": ping\n\n"

static const struct api apis[] = {
    {"/v1/chat/completions", MESSAGES, COMMENT, "data: [DONE]\n\n", "data: {\"error\":{"},
    {"/v1/completions", "{\"max_tokens\": 3, \"prompt\": \"Once\"", COMMENT, "data: [DONE]\n\n",
     "data: {\"error\":{"},
    {"/v1/responses", "{\"max_output_tokens\": 3, \"input\": \"Tell me a story.\"", COMMENT,
     "event: response.incomplete\n", "event: response.failed\n"},
    {"/v1/messages", MESSAGES, "event: ping\ndata: {\"type\":\"ping\"}\n\n", "event: message_stop\n",
     "event: error\n"},
};
#define N_APIS (sizeof apis / sizeof *apis)

/* Sends a body and `more` with its closing brace. */
static int begin(const struct fixture *fixture, const char *path, const char *body, const char *more)
{
    char request[1024];
    snprintf(request, sizeof request,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s%s",
             path, strlen(body) + strlen(more), body, more);
    int connection = fixture_connect(fixture);
    fixture_send(connection, request);
    return connection;
}

static int begin_hold(const struct fixture *fixture)
{
    released = is_held = false;
    int connection = begin(fixture, "/hold", "{", "}");
    while (!is_held) usleep(1000);
    return connection;
}

/* Reads until a text has come; EXPECTs it. What is read beyond it is lost. */
static void expect_text(int connection, const char *text, const char *who)
{
    char got[65536];
    size_t size = 0;
    struct pollfd ready = {.fd = connection, .events = POLLIN};
    got[0] = '\0';
    while (!strstr(got, text) && size < sizeof got - 1 && poll(&ready, 1, PATIENCE) == 1) {
        ssize_t n = read(connection, got + size, sizeof got - 1 - size);
        if (n <= 0) break;
        size += (size_t)n;
        got[size] = '\0';
    }
    EXPECT(strstr(got, text), "%s: no '%s' in:\n%s", who, text, got);
}

static void expect_end(int connection, const char *text, const char *who)
{
    char *answer = fixture_read(connection, PATIENCE);
    EXPECT(strstr(answer, text), "%s: no '%s' in:\n%s", who, text, answer);
    free(answer);
    close(connection);
}

static void expect_nothing(int connection)
{
    struct pollfd ready = {.fd = connection, .events = POLLIN};
    EXPECT(poll(&ready, 1, 0) == 0, "an answer that is no stream begins early");
}

/* ---- Tests --------------------------------------------------------------------------------------------- */

/* All APIs at once: a head, pings, and in the end the same last event as ever. */
static void test_pings(void)
{
    struct fixture fixture;
    int streams[N_APIS];
    EXPECT(fixture_start_with_models(&fixture, OPTIONS("-np", "1")), "%s", fixture.message);
    int holder = begin_hold(&fixture);
    int silent = begin(&fixture, apis[0].path, apis[0].body, "}");
    for (size_t i = 0; i < N_APIS; i++)
        streams[i] = begin(&fixture, apis[i].path, apis[i].body, ", \"stream\": true}");
    for (size_t i = 0; i < N_APIS; i++) {
        expect_text(streams[i], "HTTP/1.1 200 OK\r\n", apis[i].path);
        expect_text(streams[i], apis[i].ping, apis[i].path);
        expect_text(streams[i], apis[i].ping, apis[i].path);
    }
    expect_nothing(silent);
    released = true;
    for (size_t i = 0; i < N_APIS; i++) expect_end(streams[i], apis[i].last, apis[i].path);
    expect_end(silent, "\"finish_reason\":\"length\"", "no stream");
    expect_end(holder, "{}", "the holder");
    fixture_stop(&fixture);
}

/* What is known to be wrong before the queue has the request has a status, also of a stream, and also while
 * others wait. */
static void test_statuses(void)
{
    struct fixture fixture;
    EXPECT(fixture_start_with_models(&fixture, OPTIONS("-np", "1", "--queue", "1", "--max-body", "1")), "%s",
           fixture.message);
    int holder = begin_hold(&fixture);
    int waiting = begin(&fixture, apis[0].path, apis[0].body, ", \"stream\": true}");
    expect_text(waiting, apis[0].ping, "what waits");
    for (size_t i = 0; i < N_APIS; i++) {
        static const char *const wrong[][2] = {
            {", \"stream\": true, \"temperature\": \"hot\"}", "HTTP/1.1 400 "},
            {", \"stream\": true, \"model\": \"other\"}", "HTTP/1.1 404 "},
            {", \"stream\": true}", "HTTP/1.1 429 "}};
        for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++)
            expect_end(begin(&fixture, apis[i].path, apis[i].body, wrong[n][0]), wrong[n][1], apis[i].path);
    }
    expect_end(begin(&fixture, "/v1/completions", "{\"prompt\": [[1], [999999]]", ", \"stream\": true}"),
               "HTTP/1.1 400 ", "a token that isn't there");
    int large = fixture_connect(&fixture);
    fixture_send(large,
                 "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n");
    expect_end(large, "HTTP/1.1 413 ", "a large body");
    released = true;
    expect_end(waiting, apis[0].last, "what waited");
    expect_end(holder, "{}", "the holder");
    fixture_stop(&fixture);
}

/* The server ends while streams wait: each ends with its API's error. */
static void test_failing(void)
{
    struct fixture fixture;
    int streams[N_APIS];
    EXPECT(fixture_start_with_models(&fixture, OPTIONS("-np", "1")), "%s", fixture.message);
    int holder = begin_hold(&fixture);
    for (size_t i = 0; i < N_APIS; i++) {
        streams[i] = begin(&fixture, apis[i].path, apis[i].body, ", \"stream\": true}");
        expect_text(streams[i], "HTTP/1.1 200 OK\r\n", apis[i].path);
    }
    models_stop(fixture.server.models);
    released = true;
    for (size_t i = 0; i < N_APIS; i++) {
        char *answer = fixture_read(streams[i], PATIENCE);
        EXPECT(strstr(answer, apis[i].failed) && strstr(answer, "the server is shutting down") &&
                   !strstr(answer, apis[i].last),
               "%s:\n%s", apis[i].path, answer);
        free(answer);
        close(streams[i]);
    }
    expect_end(holder, "{}", "the holder");
    http_wait(fixture.server.http, 20);
    fixture_stop(&fixture);
}

/* Clients that leave before the first token free their places. */
static void test_leaving(void)
{
    struct fixture fixture;
    EXPECT(fixture_start_with_models(&fixture, OPTIONS("-np", "1", "--queue", "1")), "%s", fixture.message);
    int holder = begin_hold(&fixture);
    int left = begin(&fixture, apis[0].path, apis[0].body, ", \"stream\": true}");
    expect_text(left, "HTTP/1.1 200 OK\r\n", "who leaves");
    close(left);
    released = true;
    expect_end(holder, "{}", "the holder");
    http_wait(fixture.server.http, 20);
    EXPECT(http_busy(fixture.server.http) == 0, "the request goes on without its client");
    fixture_stop(&fixture);
}

int main(int argc, char **argv)
{
    static void (*const tests[])(void) = {test_pings, test_statuses, test_failing, test_leaving};
    if (argc != 3) {
        fprintf(stderr, "usage: serve-streams PLUGIN_DIR MODEL\n");
        return 2;
    }
    plugin_dir = argv[1];
    model = argv[2];
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tests[i]();
    if (fixture_failures) fprintf(stderr, "serve-streams: %d failed\n", fixture_failures);
    return fixture_failures > 0;
}
