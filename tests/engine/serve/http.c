/* http.c: the server's HTTP layer from outside: keys, limits, requests that are ambiguous, half or slow,
 * clients that go away or don't read. A plain program, so that it runs under ThreadSanitizer. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "http-fixture.h"
#include "serve/http/http.h"

/* ---- The routes ---------------------------------------------------------------------------------------- */

static atomic_int n_gone, n_started, n_ended,
    n_flooded; /* handlers whose client has gone away; streams that have ended */
static atomic_bool released, is_blocking;

static void wait_a_moment(void)
{
    usleep(2000);
}

static void open_route(struct exchange *exchange)
{
    exchange_answer(exchange, 200, json_pack("{s:s}", "route", "open"));
}

static void echo(struct exchange *exchange)
{
    exchange_answer(exchange, 200, json_incref(exchange_json(exchange)));
}

/* Memory runs out for the answer. */
static void lose(struct exchange *exchange)
{
    json_memory_lose();
    if (exchange_query(exchange, "json"))
        exchange_answer_json(exchange, json_object());
    else
        exchange_answer(exchange, 200, json_object());
}

static void measure(struct exchange *exchange)
{
    exchange_answer(exchange, 200, json_pack("{s:I}", "bytes", (json_int_t)exchange_body(exchange).length));
}

static void count_gone(void *user)
{
    (void)user;
    atomic_fetch_add(&n_gone, 1);
}

/* Answers once the client has gone away, or `released`. */
static void *hang_on(void *user)
{
    struct exchange *exchange = user;
    int before = n_gone;
    exchange_when_gone(exchange, count_gone, NULL);
    while (n_gone == before && !released) wait_a_moment();
    exchange_answer(exchange, 200, json_pack("{s:s}", "route", "hang"));
    atomic_fetch_add(&n_ended, 1);
    return NULL;
}

static void start(void *(*run)(void *user), struct exchange *exchange)
{
    pthread_t thread;
    pthread_attr_t detached;
    atomic_fetch_add(&n_started, 1);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &detached, run, exchange)) abort();
    pthread_attr_destroy(&detached);
}

static void hang(struct exchange *exchange)
{
    start(hang_on, exchange);
}

/* Sends ?n= pieces of 1000 bytes, or without it until nobody takes them. */
static void *flow(void *user)
{
    struct exchange *exchange = user;
    const char *wanted = exchange_query(exchange, "n");
    long n = wanted ? strtol(wanted, NULL, 10) : -1;
    char piece[1000];
    memset(piece, '.', sizeof piece);
    exchange_when_gone(exchange, count_gone, NULL);
    exchange_stream(exchange, "text/plain", NULL, NULL);
    for (long i = 0; n < 0 || i < n; i++) {
        if (!exchange_send(exchange, piece, sizeof piece)) break;
        if (n < 0) wait_a_moment();
    }
    exchange_end(exchange);
    atomic_fetch_add(&n_ended, 1);
    return NULL;
}

static void stream(struct exchange *exchange)
{
    start(flow, exchange);
}

/* Sends as fast as it can until the limit for bytes that nobody reads. */
static void flood(struct exchange *exchange)
{
    char piece[1000] = "";
    exchange_stream(exchange, "application/octet-stream", NULL, NULL);
    while (exchange_send(exchange, piece, sizeof piece)) continue;
    exchange_end(exchange);
    atomic_fetch_add(&n_flooded, 1);
}

/* Keeps its worker. */
static void block(struct exchange *exchange)
{
    is_blocking = true;
    while (!released) wait_a_moment();
    exchange_answer(exchange, 200, json_object());
}

const struct route all_routes[] = {
    {"GET", "/open", open_route, ROUTE_OPEN},
    {"GET", "/closed", open_route, 0},
    {"GET", "/quick", open_route, ROUTE_QUICK},
    {"POST", "/echo", echo, ROUTE_JSON},
    {"POST", "/theirs", echo, ROUTE_JSON | ROUTE_ANTHROPIC},
    {"POST", "/measure", measure, 0},
    {"GET", "/lost", lose, 0},
    {"GET", "/theirs-lost", lose, ROUTE_ANTHROPIC},
    {"GET", "/hang", hang, 0},
    {"GET", "/stream", stream, 0},
    {"GET", "/flood", flood, 0},
    {"GET", "/block", block, 0},
    {NULL, NULL, NULL, 0},
};

/* Once the handlers' threads have ended. */
static void stop(struct fixture *fixture)
{
    for (int i = 0; i < 10000 && n_ended < n_started; i++) wait_a_moment();
    EXPECT(n_ended == n_started, "handlers are left");
    fixture_stop(fixture);
}

/* Waits until a count has reached a number; false: it doesn't. */
static bool reaches(const atomic_int *count, int number)
{
    for (int i = 0; i < 10000 && *count < number; i++) wait_a_moment();
    return *count >= number;
}

static bool is_idle(const struct fixture *fixture)
{
    http_wait(fixture->server.http, 20);
    return http_busy(fixture->server.http) == 0;
}

/* ---- Asking -------------------------------------------------------------------------------------------- */

static int status_of(const char *answer)
{
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
}

/* Whether a request is answered with this status and, unless it is NULL, with this text somewhere. */
static void expect(const struct fixture *fixture, const char *request, int status, const char *text)
{
    char *answer = fixture_ask(fixture, request);
    EXPECT(status_of(answer) == status, "status %d instead of %d for:\n%s\n%s", status_of(answer), status,
           request, answer);
    EXPECT(!text || strstr(answer, text), "no '%s' in the answer to:\n%s\n%s", text, request, answer);
    free(answer);
}

#define GET(PATH, HEADERS) "GET " PATH " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" HEADERS "\r\n"
#define POST(PATH, LENGTH, BODY)                                                                             \
    "POST " PATH " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " LENGTH              \
    "\r\n\r\n" BODY

static void test_routes(void)
{
    struct fixture fixture;
    EXPECT(fixture_start(&fixture, (const char *[]){NULL}), "%s", fixture.message);
    expect(&fixture, GET("/open", ""), 200, "{\"route\":\"open\"}");
    expect(&fixture, GET("/nothing", ""), 404, "\"code\":\"not_found\"");
    expect(&fixture, GET("/echo", ""), 405, "Allow: POST");
    expect(&fixture, GET("/../../../etc/passwd", ""), 404, NULL);
    expect(&fixture, GET("/open/..%2f..%2fetc/passwd", ""), 404, NULL);
    expect(&fixture, GET("/%2e%2e/%2e%2e/etc/passwd", ""), 404, NULL);
    expect(&fixture, GET("/open%00/x", ""), 404, NULL);
    expect(&fixture, POST("/echo", "7", "{\"a\":1}"), 200, "{\"a\":1}");
    expect(&fixture, POST("/echo", "6", "{\"a\":1"), 400, "line 1, column 6");
    expect(&fixture, POST("/echo", "3", "[1]"), 400, "not a JSON object");
    expect(&fixture, POST("/echo", "10", "\xEF\xBB\xBF{\"a\":1}"), 200, "{\"a\":1}");
    expect(&fixture, POST("/echo", "3", "\xEF\xBB\xBF"), 400, "JSON");
    expect(&fixture, POST("/echo", "3", "\xFF\xFE{"), 400, "the body is UTF-16, not UTF-8");
    expect(&fixture, POST("/echo", "13", "{\"a\":1,\"a\":2}"), 400, "JSON");
    expect(&fixture, POST("/echo", "23", "{\"model\":\"demo\\u0000x\"}"), 400, "\"param\":\"model\"");
    expect(&fixture, POST("/echo", "42", "{\"messages\":[{\"role\":\"user\\u0000\",\"a\":1}]}"), 400,
           "\"param\":\"messages[0].role\"");
    expect(&fixture, POST("/echo", "25", "{\"stop\":[\"a\\u0000b\",\"c\"]}"), 200,
           "{\"stop\":[\"a\\u0000b\"");
    expect(&fixture, POST("/echo", "38", "{\"tools\":[{\"description\":\"a\\u0000b\"}]}"), 200,
           "\"description\":\"a\\u0000b\"");
    expect(&fixture, POST("/theirs", "1", "{"), 400, "{\"type\":\"error\",\"error\":{\"type\"");
    expect(&fixture, POST("/echo", "0", ""), 400, "JSON");
    expect(&fixture,
           "POST /echo HTTP/1.1\r\nHost: x.localhost:80\r\nConnection: close\r\nTransfer-Encoding: "
           "chunked\r\n\r\n"
           "4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n",
           200, "{\"a\":1}");
    expect(&fixture, GET("/stream?n=300", ""), 200, "Transfer-Encoding: chunked");
    expect(&fixture, GET("/open?a=b%20c&d", ""), 200, NULL);
    expect(&fixture,
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: "
           "7\r\n\r\n{\"a\":1}",
           415, "unsupported_encoding");
    expect(&fixture,
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Encoding: "
           "identity\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
           200, NULL);
    /* Errors have the form of the API in which they are. */
    static const char lost[] =
        "{\"error\":{\"message\":\"out of memory (an answer)\",\"type\":\"server_error\"",
                      theirs[] = "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"out of "
                                 "memory (an answer)\"}}";
    expect(&fixture, GET("/lost", ""), 503, lost);
    expect(&fixture, GET("/lost?json=", ""), 503, lost);
    expect(&fixture, GET("/theirs-lost", ""), 503, theirs);
    expect(&fixture, GET("/theirs-lost?json=", ""), 503, theirs);
    /* Two requests at once are answered in order. */
    char *both = fixture_ask(&fixture, "GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n" GET("/nothing", ""));
    const char *second = strstr(both, "HTTP/1.1 404");
    EXPECT(status_of(both) == 200 && second, "%s", both);
    free(both);
    char *head = fixture_ask(&fixture, "HEAD /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    EXPECT(status_of(head) == 200 && !strstr(head, "route"), "%s", head);
    free(head);
    EXPECT(is_idle(&fixture), "exchanges are left");
    stop(&fixture);
}

static void test_keys(void)
{
    char path[] = "/tmp/engine-keys-XXXXXX";
    struct fixture fixture;
    int file = mkstemp(path);
    dprintf(file, "\xEF\xBB\xBF# keys\n\n  from-file  \r\nsecond\n");
    EXPECT(fixture_start(&fixture, (const char *[]){"--api-key", "secret", "--api-key-file", path, NULL}),
           "%s", fixture.message);
    expect(&fixture, GET("/open", ""), 200, NULL);
    expect(&fixture, GET("/closed", ""), 401, "WWW-Authenticate: Bearer");
    expect(&fixture, GET("/closed", "Authorization: Bearer secret\r\n"), 200, NULL);
    expect(&fixture, GET("/closed", "Authorization: bearer from-file\r\n"), 200, NULL);
    expect(&fixture, GET("/closed", "x-api-key: second\r\n"), 200, NULL);
    expect(&fixture, GET("/closed", "Authorization: Bearer secret \t \r\n"), 200, NULL);
    expect(&fixture, GET("/closed", "Authorization:\tBearer \t secret\r\n"), 200, NULL);
    expect(&fixture, GET("/closed", "x-api-key: \tsecond\t \r\n"), 200, NULL);
    expect(&fixture, GET("/closed", "Authorization: Bearer sec ret\r\n"), 401, NULL);
    expect(&fixture, GET("/closed", "Authorization: Bearer secre\r\n"), 401, "the API key is wrong");
    expect(&fixture, GET("/closed", "Authorization: Bearer secrets\r\n"), 401, NULL);
    expect(&fixture, GET("/closed", "Authorization: Bearer secretsecret\r\n"), 401, NULL);
    expect(&fixture, GET("/closed", "Authorization: Bearer \r\n"), 401, NULL);
    expect(&fixture, GET("/closed", "Authorization: Basic secret\r\n"), 401, NULL);
    expect(&fixture, GET("/closed", "x-api-key:\r\n"), 401, NULL);
    /* Read again: what the file no longer has is no key any more; a file without keys changes nothing. */
    EXPECT(ftruncate(file, 0) == 0 && pwrite(file, "third\n", 6, 0) == 6, "cannot write");
    EXPECT(http_reload(fixture.server.http) == 0, "the keys cannot be read again");
    expect(&fixture, GET("/closed", "x-api-key: second\r\n"), 401, NULL);
    expect(&fixture, GET("/closed", "x-api-key: third\r\n"), 200, NULL);
    EXPECT(ftruncate(file, 0) == 0 && http_reload(fixture.server.http) != 0, "a file without keys was taken");
    expect(&fixture, GET("/closed", "x-api-key: third\r\n"), 200, NULL);
    stop(&fixture);
    close(file);
    unlink(path);
    EXPECT(!fixture_start(&fixture, (const char *[]){"--host", "0.0.0.0", NULL}) &&
               strstr(fixture.message, "--insecure"),
           "it listens everywhere without a key: %s", fixture.message);
    stop(&fixture);
    EXPECT(fixture_start(&fixture, (const char *[]){"--host", "0.0.0.0", "--insecure", NULL}), "%s",
           fixture.message);
    stop(&fixture);
    EXPECT(!fixture_start(&fixture, (const char *[]){"--api-key-file", path, NULL}),
           "a file that isn't there");
    stop(&fixture);
}

/* Bytes that are not a request are refused, and answered once. */
static void expect_refused(const struct fixture *fixture, const char *bytes, size_t size)
{
    int connection = fixture_connect(fixture);
    EXPECT(send(connection, bytes, size, MSG_NOSIGNAL) == (ssize_t)size, "it cannot be sent");
    char *answer = fixture_read(connection, 20000);
    EXPECT(status_of(answer) == 400 && !strstr(answer + 1, "HTTP/1.1 "), "for:\n%s\n%s", bytes, answer);
    free(answer);
    close(connection);
}

/* Requests after which two programs could disagree where the next one begins: each is refused, and what
 * follows is not taken for a request. */
static void test_smuggling(void)
{
    static const char *const heads[] = {
        "Host: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
        "Host: localhost\r\nContent-Length: 5\r\nContent-Length: 5\r\n",
        "Host: localhost\r\nContent-Length: 5, 6\r\n",
        "Host: localhost\r\nContent-Length: +5\r\n",
        "Host: localhost\r\nContent-Length: 0x5\r\n",
        "Host: localhost\r\nContent-Length: -1\r\n",
        "Host: localhost\r\nContent-Length: 99999999999999999999\r\n",
        "Host: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Host: localhost\r\nTransfer-Encoding: identity, chunked\r\n",
        "Host: localhost\r\nTransfer-Encoding: gzip\r\n",
        "Host: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Host: localhost\r\nTransfer-Encoding : chunked\r\n",
        "Host: localhost\r\nContent-Length : 5\r\n",
        "Host: localhost\r\nContent Length: 5\r\n",
        "Host: localhost\r\nHost: other\r\nContent-Length: 5\r\n",
        /* libmicrohttpd 0.9 takes such lines for the end of the headers. */
        "Host: localhost\r\nContent-Length: 5\r\n: x\r\nGET /open HTTP/1.1\r\nHost: localhost\r\n",
        "Host: localhost\r\n: x\r\nGET /open HTTP/1.1\r\nHost: localhost\r\n",
        "Host: localhost\r\n:\r\nGET /open HTTP/1.1\r\nHost: localhost\r\n",
        "Host: localhost\n:\nGET /open HTTP/1.1\nHost: localhost\n",
        "Host: localhost\r\nX: a\r\n b\r\nContent-Length: 5\r\n",
        "Host: localhost\r\nContent-Length: 5\r\n 6\r\n",
        /* A CR alone, which others may take for a line break. */
        "Host: localhost\r\nX: a\rTransfer-Encoding: chunked\r\n",
        "Host: localhost\r\nTransfer-Encoding: \vchunked\r\n",
        "Host: localhost\r\nTransfer-Encoding: chunked \r\n",
        "Host: localhost\r\nContent-Length: 5 \r\n",
        "Content-Length: 5\r\n",
    };
    struct fixture fixture;
    EXPECT(fixture_start(&fixture, (const char *[]){NULL}), "%s", fixture.message);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char request[1024];
        snprintf(request, sizeof request,
                 "POST /measure HTTP/1.1\r\n%s\r\n0\r\n\r\nGET /open HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 heads[i]);
        char *answer = fixture_ask(&fixture, request);
        int status = status_of(answer);
        EXPECT(status == 400 || status == 413 || status == 501, "status %d for:\n%s\n%s", status, request,
               answer);
        EXPECT(!strstr(answer, "\"open\""), "a request was smuggled:\n%s\n%s", request, answer);
        free(answer);
    }
    /* A NUL in the place of a header's name, or in a value. */
    static const char nul[] =
        "GET /closed HTTP/1.1\r\nHost: localhost\r\n\0: x\r\nGET /open HTTP/1.1\r\nHost: x\r\n\r\n",
                      inside[] = "GET /open HTTP/1.1\r\nContent-Length: 0\0 5\r\nHost: localhost\r\n\r\n";
    expect_refused(&fixture, nul, sizeof nul - 1);
    expect_refused(&fixture, inside, sizeof inside - 1);
    /* In the path, which would end there. */
    static const char in_path[] = "GET /open\0x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                      in_query[] = "GET /open?a\0b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    expect_refused(&fixture, in_path, sizeof in_path - 1);
    expect_refused(&fixture, in_query, sizeof in_query - 1);
    /* Nothing is read after chunks, whose end may be seen elsewhere. */
    char *only = fixture_ask(&fixture,
                             "POST /measure HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                             "1\r\nx\r\n0\r\nA: b\r\n: x\r\n"
                             "GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(status_of(only) == 200 && strstr(only, "Connection: close") && !strstr(only, "\"open\""), "%s",
           only);
    free(only);
    /* Lines that end in LF only are in order. */
    expect(&fixture, "GET /open HTTP/1.1\nHost: localhost\nConnection: close\n\n", 200, NULL);
    expect(&fixture, "GET /open HTTP/1.1\r\nHost:localhost\r\nConnection: close\r\nX: a \t \r\n\r\n", 200,
           NULL);
    expect(&fixture, "GET /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nEmpty:\r\n\r\n", 200,
           NULL);
    /* A chunk whose length is none. */
    char *answer = fixture_ask(
        &fixture, "POST /measure HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "xyz\r\nGET /open HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(!strstr(answer, "\"open\""), "%s", answer);
    free(answer);
    EXPECT(is_idle(&fixture), "exchanges are left");
    stop(&fixture);
}

static void test_limits(void)
{
    struct fixture fixture;
    char *chunks = malloc(4 << 20), *at = chunks;
    EXPECT(fixture_start(&fixture, (const char *[]){"--max-body", "1", "--max-header", "8", NULL}), "%s",
           fixture.message);
    expect(&fixture, POST("/measure", "1048577", "x"), 413, "1048577");
    expect(&fixture, POST("/measure", "999999999999999999", "x"), 413, NULL);
    /* Too much without a length. */
    at += sprintf(at, "POST /measure HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: "
                      "chunked\r\n\r\n");
    for (int i = 0; i < 24; i++) {
        at += sprintf(at, "10000\r\n");
        memset(at, 'x', 0x10000);
        at += 0x10000;
        at += sprintf(at, "\r\n");
    }
    sprintf(at, "0\r\n\r\n");
    expect(&fixture, chunks, 413, "more than");
    /* A header that is too large. */
    at = chunks + sprintf(chunks, "GET /open HTTP/1.1\r\nHost: localhost\r\nX: ");
    memset(at, 'x', 20000);
    sprintf(at + 20000, "\r\n\r\n");
    char *answer = fixture_ask(&fixture, chunks);
    EXPECT(status_of(answer) == 431 || status_of(answer) == 414 || status_of(answer) == 413, "%.100s",
           answer);
    free(answer);
    free(chunks);
    expect(&fixture, GET("/open", ""), 200, NULL);
    EXPECT(is_idle(&fixture), "exchanges are left");
    stop(&fixture);
}

static void test_origins(void)
{
    struct fixture fixture;
    EXPECT(fixture_start(&fixture, (const char *[]){NULL}), "%s", fixture.message);
    expect(&fixture, "GET /open HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 403, NULL);
    expect(&fixture, "GET /open HTTP/1.1\r\nHost: 127.0.0.1:80\r\nConnection: close\r\n\r\n", 200, NULL);
    expect(&fixture, "GET /open HTTP/1.1\r\nHost:\tlocalhost \t\r\nConnection: close \r\n\r\n", 200, NULL);
    expect(&fixture, "GET /open HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n", 200, NULL);
    expect(&fixture, "GET /open HTTP/1.1\r\nHost: localhost.evil.example\r\nConnection: close\r\n\r\n", 403,
           NULL);
    expect(&fixture, GET("/open", "Origin: https://evil.example\r\n"), 403, NULL);
    expect(&fixture, GET("/open", "Origin: null\r\n"), 403, NULL);
    expect(&fixture, GET("/open", "Origin: http://localhost\r\n"), 200, NULL);
    stop(&fixture);
    EXPECT(
        fixture_start(&fixture, (const char *[]){"--cors", "https://good.example", "--api-key", "k", NULL}),
        "%s", fixture.message);
    expect(&fixture, GET("/open", "Origin: https://good.example\r\n"), 200,
           "Access-Control-Allow-Origin: https://good.example");
    expect(&fixture, GET("/open", "Origin: https://evil.example\r\n"), 403, NULL);
    expect(
        &fixture,
        "OPTIONS /echo HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\nOrigin: https://good.example\r\n"
        "Access-Control-Request-Headers: authorization\r\n\r\n",
        204, "Access-Control-Allow-Headers: authorization");
    stop(&fixture);
    static const char *const wrong[] = {"good.example", "https://", "https://good.example/", "null", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        EXPECT(!fixture_start(&fixture, (const char *[]){"--cors", wrong[i], NULL}) &&
                   strstr(fixture.message, "not an origin"),
               "--cors %s: %s", wrong[i], fixture.message);
        stop(&fixture);
    }
    EXPECT(fixture_start(&fixture, (const char *[]){"--cors", "http://localhost:3000", "--cors", "*", NULL}),
           "%s", fixture.message);
    stop(&fixture);
}

/* Clients that leave in the middle of a request, of waiting, and of an answer. */
static void test_leaving(void)
{
    struct fixture fixture;
    EXPECT(fixture_start(&fixture, (const char *[]){NULL}), "%s", fixture.message);
    static const char *const halves[] = {
        "G", "GET /open HTTP/1.1\r\nHost: loc",
        "POST /measure HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf",
        "POST /measure HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nff"};
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        int connection = fixture_connect(&fixture);
        fixture_send(connection, halves[i]);
        usleep(20000);
        close(connection);
    }
    n_gone = n_started = n_ended = 0;
    int waiting = fixture_connect(&fixture), reading = fixture_connect(&fixture);
    fixture_send(waiting, GET("/hang", ""));
    usleep(20000);
    EXPECT(n_gone == 0, "a client that waits counts as gone");
    close(waiting);
    EXPECT(reaches(&n_gone, 1), "nobody noticed that the client has gone");
    fixture_send(reading, GET("/stream", ""));
    char first[64];
    EXPECT(read(reading, first, sizeof first) > 0, "no answer begins");
    close(reading);
    EXPECT(reaches(&n_ended, 2), "the stream does not end");
    expect(&fixture, GET("/open", ""), 200, NULL);
    EXPECT(is_idle(&fixture), "exchanges are left");
    stop(&fixture);
}

/* Clients that close their sending side: with all of a request they are answered at once, or count as gone; a
 * request that is incomplete then never ends. Neither waits for a limit. */
static void test_half_closed(void)
{
    static const char *const requests[] = {
        GET("/open", ""), "GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /open HTTP/1.1\r\nHost: loc",
        "POST /measure HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf"};
    struct fixture fixture;
    EXPECT(fixture_start(&fixture, (const char *[]){"--request-timeout", "1000", NULL}), "%s",
           fixture.message);
    for (int i = 0; i < 4; i++) {
        int connection = fixture_connect(&fixture);
        fixture_send(connection, requests[i]);
        shutdown(connection, SHUT_WR);
        char *answer = fixture_read(connection, 20000), byte;
        EXPECT(status_of(answer) == (i < 2 ? 200 : 0), "%s\n%s", requests[i], answer);
        EXPECT(recv(connection, &byte, 1, MSG_DONTWAIT) == 0, "it is not closed after:\n%s", requests[i]);
        free(answer);
        close(connection);
    }
    EXPECT(is_idle(&fixture), "exchanges are left");
    stop(&fixture);
}

/* A client that doesn't read: others are answered meanwhile, and its answer ends at the limit. */
static void test_not_reading(void)
{
    struct fixture fixture;
    EXPECT(fixture_start(&fixture, (const char *[]){"--max-unread", "64", NULL}), "%s", fixture.message);
    int idle = fixture_connect(&fixture);
    fixture_send(idle, GET("/flood", ""));
    EXPECT(reaches(&n_flooded, 1), "an answer that nobody reads does not end");
    expect(&fixture, GET("/open", ""), 200, NULL);
    close(idle);
    EXPECT(is_idle(&fixture), "exchanges are left");
    stop(&fixture);
}

/* Headers that come byte by byte: the connection is closed in any case. So is one that sends
 * nothing. */
static void test_slow(void)
{
    struct fixture fixture;
    EXPECT(fixture_start(&fixture, (const char *[]){"--request-timeout", "1", NULL}), "%s", fixture.message);
    int slow = fixture_connect(&fixture), body = fixture_connect(&fixture),
        silent = fixture_connect(&fixture);
    fixture_send(slow, "GET /open HTTP/1.1\r\nHost: localhost\r\n");
    fixture_send(body, "POST /measure HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000\r\n\r\n");
    bool closed[2] = {false, false};
    char heads[2][16] = {"", ""};
    for (int i = 0; i < 400 && !(closed[0] && closed[1]); i++) {
        char byte;
        usleep(50000);
        fixture_send(slow, "x");
        fixture_send(body, "x");
        for (int n = 0; n < 2; n++) {
            int connection = n == 0 ? slow : body;
            if (!heads[n][0]) recv(connection, heads[n], 13, MSG_DONTWAIT);
            while (!closed[n] && recv(connection, &byte, 1, MSG_DONTWAIT) == 1) continue;
            closed[n] = closed[n] || recv(connection, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
        }
        usleep(1000);
    }
    EXPECT(strncmp(heads[0], "HTTP/1.1 408 ", 13) == 0 && strncmp(heads[1], "HTTP/1.1 408 ", 13) == 0,
           "no 408: %s, %s", heads[0], heads[1]);
    EXPECT(closed[0], "slow headers are waited for without end");
    EXPECT(closed[1], "a slow body is waited for without end");
    char *nothing = fixture_read(silent, 20000);
    EXPECT(!nothing[0], "an answer to nothing: %s", nothing);
    free(nothing);
    close(slow);
    close(body);
    close(silent);
    expect(&fixture, GET("/open", ""), 200, NULL);
    EXPECT(is_idle(&fixture), "exchanges are left");
    stop(&fixture);
}

/* A line that is full: the next one is refused, quick routes are answered. */
static void test_busy(void)
{
    struct fixture fixture;
    released = is_blocking = false;
    EXPECT(fixture_start(&fixture, (const char *[]){"--threads-http", "1", "--queue", "1", NULL}), "%s",
           fixture.message);
    int first = fixture_connect(&fixture), second = fixture_connect(&fixture);
    fixture_send(first, GET("/block", ""));
    while (!is_blocking) wait_a_moment();
    fixture_send(second, GET("/open", ""));
    while (http_busy(fixture.server.http) < 2) wait_a_moment();
    usleep(50000); /* it stands in line */
    expect(&fixture, GET("/open", ""), 429, "Retry-After: 1");
    expect(&fixture, GET("/quick", ""), 200, NULL);
    released = true;
    char *answers[] = {fixture_read(first, 20000), fixture_read(second, 20000)};
    EXPECT(status_of(answers[0]) == 200 && status_of(answers[1]) == 200, "%s\n%s", answers[0], answers[1]);
    free(answers[0]);
    free(answers[1]);
    close(first);
    close(second);
    stop(&fixture);
}

/* What a time limit and the end of the server do to requests in progress. */
static void test_cutting(void)
{
    struct fixture fixture;
    released = false;
    n_gone = n_started = n_ended = 0;
    EXPECT(fixture_start(&fixture, (const char *[]){"--timeout", "1", NULL}), "%s", fixture.message);
    int late = fixture_connect(&fixture);
    fixture_send(late, GET("/hang", ""));
    EXPECT(reaches(&n_gone, 1), "a request that takes too long goes on");
    close(late);
    stop(&fixture);
    EXPECT(fixture_start(&fixture, (const char *[]){NULL}), "%s", fixture.message);
    int hanging = fixture_connect(&fixture);
    fixture_send(hanging, GET("/hang", ""));
    while (http_busy(fixture.server.http) == 0) wait_a_moment();
    http_close(fixture.server.http);
    usleep(20000);
    EXPECT(n_gone == 1, "a request in progress was cut when the server stopped listening");
    http_abandon(fixture.server.http);
    EXPECT(reaches(&n_gone, 2) && is_idle(&fixture), "a request was not cut");
    close(hanging);
    EXPECT(reaches(&n_ended, 2), "a handler is left");
    stop(&fixture);
}

/* "::" is all addresses, of IPv4 too: the fixture asks 127.0.0.1. */
static void test_all_addresses(void)
{
    struct fixture fixture;
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    if (probe >= 0) close(probe);
    bool started = fixture_start(&fixture, (const char *[]){"--host", "::", "--insecure", NULL});
    EXPECT(started == (probe >= 0), "%s", fixture.message);
    EXPECT(started || strstr(fixture.message, "this machine has no IPv6"), "%s", fixture.message);
    if (started) expect(&fixture, GET("/open", ""), 200, NULL);
    stop(&fixture);
}

/* ---- Other sockets ------------------------------------------------------------------------------------- */

static char *ask_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(connection, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(connection);
        return strdup("");
    }
    fixture_send(connection, "GET /open HTTP/1.1\r\nHost: any.name\r\nConnection: close\r\n\r\n");
    char *answer = fixture_read(connection, 20000);
    close(connection);
    return answer;
}

static void test_unix(void)
{
    char folder[] = "/tmp/engine-unix-XXXXXX", path[64];
    struct fixture fixture, other;
    EXPECT(mkdtemp(folder) != NULL, "no folder");
    snprintf(path, sizeof path, "%s/socket", folder);
    const char *options[] = {"--unix", path, NULL};
    EXPECT(fixture_start(&fixture, options), "%s", fixture.message);
    char *answer = ask_unix(path);
    EXPECT(status_of(answer) == 200, "%s", answer);
    free(answer);
    EXPECT(!fixture_start(&other, options) && strstr(other.message, "another process"), "%s", other.message);
    stop(&other);
    stop(&fixture);
    EXPECT(access(path, F_OK) != 0, "the socket is left");
    /* What a process that was killed has left is replaced; another file isn't. */
    int left = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    EXPECT(bind(left, (const struct sockaddr *)&address, sizeof address) == 0, "cannot bind");
    close(left);
    EXPECT(fixture_start(&fixture, options), "%s", fixture.message);
    stop(&fixture);
    FILE *file = fopen(path, "w");
    fclose(file);
    EXPECT(!fixture_start(&fixture, options) && access(path, F_OK) == 0, "a file was replaced");
    stop(&fixture);
    unlink(path);
    rmdir(folder);
}

/* A socket that whoever started the process has opened, as systemd does. */
static void test_activation(void)
{
    struct fixture fixture;
    char process[32];
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/tmp/engine-passed-"};
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/engine-passed-%d", (int)getpid());
    int made = socket(AF_UNIX, SOCK_STREAM, 0), before = dup(3);
    EXPECT(bind(made, (const struct sockaddr *)&address, sizeof address) == 0 && listen(made, 8) == 0,
           "cannot listen");
    if (made != 3) {
        dup2(made, 3);
        close(made);
    }
    snprintf(process, sizeof process, "%d", (int)getpid());
    setenv("LISTEN_PID", process, 1);
    setenv("LISTEN_FDS", "1", 1);
    EXPECT(fixture_start(&fixture, (const char *[]){NULL}) && fixture.port == 0, "%s", fixture.message);
    EXPECT(!getenv("LISTEN_FDS"), "children would take the sockets for theirs");
    char *answer = ask_unix(address.sun_path);
    EXPECT(status_of(answer) == 200, "%s", answer);
    free(answer);
    stop(&fixture);
    unlink(address.sun_path);
    if (before >= 0) {
        dup2(before, 3);
        close(before);
    }
}

/* Options of llama-server that requests have here instead. */
static void test_foreign_options(void)
{
    static const char *const cases[][3] = {{"-n", "5", "--max-tokens limits"},
                                           {"--n-predict", "5", "--max-tokens limits"},
                                           {"--seed", "1", "requests bring their seeds"},
                                           {"--jinja", "-v", "leave it out"},
                                           {"-fa", "on", "leave it out"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture fixture;
        EXPECT(!fixture_start(&fixture, (const char *[]){cases[i][0], cases[i][1], NULL}) &&
                   strstr(fixture.message, cases[i][2]),
               "%s: %s", cases[i][0], fixture.message);
    }
}

int main(void)
{
    static void (*const tests[])(void) = {
        test_routes,  test_keys,          test_smuggling, test_limits,      test_origins,
        test_leaving, test_not_reading,   test_slow,      test_half_closed, test_busy,
        test_cutting, test_all_addresses, test_unix,      test_activation,  test_foreign_options};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tests[i]();
    if (fixture_failures) fprintf(stderr, "serve-http: %d failed\n", fixture_failures);
    return fixture_failures > 0;
}
