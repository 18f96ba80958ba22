/* fuzz-http.c: fuzzing target: the bytes of a connection. Whatever comes, the server in this process answers
 * or closes the connection, has no exchange left afterwards, and answers the next proper request. An answer
 * that follows another one on the connection answers a request that the bytes have: never more answers than
 * there are ends of headers. A line of a colon or a NUL counts as such an end if it ends otherwise than the
 * line before (daemon.c says why). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "http-fixture.h"
#include "serve/http/http.h"

static struct fixture fixture;
static char path[108];

static void must(bool good)
{
    if (!good) abort();
}

static void tell(struct exchange *exchange)
{
    exchange_answer(exchange, 200, json_pack("{s:s}", "route", "tell"));
}

static void echo(struct exchange *exchange)
{
    exchange_answer(exchange, 200, json_incref(exchange_json(exchange)));
}

static void pour(struct exchange *exchange)
{
    struct engine_string body = exchange_body(exchange);
    exchange_stream(exchange, "text/event-stream", NULL, NULL);
    exchange_send(exchange, body.data, body.length);
    exchange_send(exchange, "\n", 1);
    exchange_end(exchange);
}

const struct route all_routes[] = {
    {"GET", "/tell", tell, ROUTE_OPEN},
    {"GET", "/closed", tell, ROUTE_QUICK},
    {"POST", "/echo", echo, ROUTE_JSON},
    {"POST", "/pour", pour, 0},
    {"POST", "/theirs", echo, ROUTE_JSON | ROUTE_ANTHROPIC},
    {"GET", "/under/*", tell, 0},
    {NULL, NULL, NULL, 0},
};

static int connect_once(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path, path, sizeof address.sun_path);
    must(connection >= 0 && connect(connection, (const struct sockaddr *)&address, sizeof address) == 0);
    return connection;
}

static size_t count(const char *text, size_t size, const char *wanted, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i + length <= size; i++) n += memcmp(text + i, wanted, length) == 0;
    return n;
}

static size_t count_ends(const char *text, size_t size)
{
    return count(text, size, "\n\n", 2) + count(text, size, "\n\r\n", 3) + count(text, size, "\n:\r\n", 4) +
           count(text, size, "\n\0\r\n", 4) + count(text, size, "\r\n:\n", 4) +
           count(text, size, "\r\n\0\n", 4);
}

/* Sends the bytes, closes that side, and reads what comes until nothing comes any more: part of a request is
 * waited for. */
static char *ask(const void *bytes, size_t size)
{
    int connection = connect_once();
    for (size_t sent = 0; sent < size;) {
        ssize_t n = send(connection, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += (size_t)n;
    }
    shutdown(connection, SHUT_WR);
    char *answer = fixture_read(connection, 20);
    close(connection);
    return answer;
}

static char folder[] = "/tmp/engine-fuzz-http-XXXXXX";

static void stop(void)
{
    fixture_stop(&fixture); /* which removes the socket */
    rmdir(folder);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
/* libFuzzer counts what all threads run, without locks: ThreadSanitizer is told that this is no race of
 * ours. */
extern char counters_begin[] __asm__("__start___sancov_cntrs") __attribute__((weak)),
    counters_end[] __asm__("__stop___sancov_cntrs") __attribute__((weak));
void AnnotateBenignRaceSized(const char *file, int line, const volatile void *memory, size_t size,
                             const char *description);
#define FORGIVE_COUNTERS()                                                                                   \
    AnnotateBenignRaceSized(__FILE__, __LINE__, counters_begin, (size_t)(counters_end - counters_begin), "")
#endif
#endif
#ifndef FORGIVE_COUNTERS
#define FORGIVE_COUNTERS() (void)0
#endif

static void start(void)
{
    FORGIVE_COUNTERS();
    must(mkdtemp(folder) != NULL);
    strcpy(path, folder);
    strcat(path, "/socket");
    must(fixture_start(&fixture,
                       (const char *[]){"--unix", path, "--api-key", "k", "--max-body", "1", "--max-header",
                                        "8", "--cors", "https://good.example", "--threads-http", "1", NULL}));
    atexit(stop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    static unsigned n;
    if (!started) start();
    started = true;
    char *answer = ask(data, size);
    /* An answer may quote what was asked. */
    must(count(answer, strlen(answer), "HTTP/1.1 2", 10) <=
         count_ends((const char *)data, size) + count((const char *)data, size, "HTTP/1.1 2", 10));
    free(answer);
    if (n++ % 16) return 0;
    http_wait(fixture.server.http, 10);
    must(http_busy(fixture.server.http) == 0);
    static const char proper[] = "GET /tell HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    int connection = connect_once();
    fixture_send(connection, proper);
    answer = fixture_read(connection, 10000);
    must(strncmp(answer, "HTTP/1.1 200", 12) == 0);
    free(answer);
    close(connection);
    return 0;
}
