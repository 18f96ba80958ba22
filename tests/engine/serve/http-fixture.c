/* http-fixture.c: see http-fixture.h. */
#include "http-fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "io/messages.h"
#include "serve/models/models.h"
#include "serve/server.h"

static int no_command(const struct arguments *arguments)
{
    (void)arguments;
    return 1;
}

const struct command commands[] = {SERVE_COMMAND(no_command), {.name = NULL}};

int fixture_failures;

bool fixture_expect(bool holds, const char *file, int line, const char *format, ...)
{
    if (holds) return true;
    va_list args;
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fixture_failures++;
    return false;
}

static bool fail(struct fixture *fixture, const char *message)
{
    snprintf(fixture->message, sizeof fixture->message, "%s", message);
    return false;
}

static bool begin(struct fixture *fixture, const char *const *options)
{
    char *words[64] = {"engine-serve", "--port", "0"};
    int n = 3;
    memset(fixture, 0, sizeof *fixture);
    signal(SIGPIPE, SIG_IGN);
    while (*options && n < 63) words[n++] = (char *)(size_t)*options++;
    if (!arguments_parse(n, words, &fixture->arguments)) return fail(fixture, fixture->arguments.error);
    fixture->server = (struct server){
        .arguments = &fixture->arguments, .metrics = metrics_create(), .began = seconds_now()};
    return http_create(&fixture->server, &fixture->server.http) == 0 || fail(fixture, command_message());
}

static bool open_port(struct fixture *fixture)
{
    if (http_start(fixture->server.http)) return fail(fixture, command_message());
    const char *address = http_address(fixture->server.http, 0), *colon = strrchr(address, ':');
    if (strncmp(address, "http", 4) == 0) fixture->port = atoi(colon + 1);
    return true;
}

bool fixture_start(struct fixture *fixture, const char *const *options)
{
    return begin(fixture, options) && open_port(fixture);
}

bool fixture_start_with_models(struct fixture *fixture, const char *const *options)
{
    if (!begin(fixture, options)) return false;
    struct server *server = &fixture->server;
    int status = sampling_read(server->arguments, &server->sampling);
    if (!status) status = open_engine(server->arguments, &server->engine);
    if (!status) status = models_create(server, &server->models);
    if (!status) status = models_load_first(server->models);
    if (!status) status = models_start(server->models);
    return status ? fail(fixture, command_message()) : open_port(fixture);
}

void fixture_stop(struct fixture *fixture)
{
    struct server *server = &fixture->server;
    if (server->models) models_stop(server->models);
    http_stop(server->http);
    models_destroy(server->models);
    http_destroy(server->http);
    engine_close(server->engine);
    metrics_destroy(server->metrics);
    sampling_free(&server->sampling);
    arguments_free(&fixture->arguments);
}

int fixture_connect(const struct fixture *fixture)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)fixture->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection >= 0 && connect(connection, (const struct sockaddr *)&address, sizeof address) == 0)
        return connection;
    fprintf(stderr, "cannot connect to port %d: %s\n", fixture->port, strerror(errno));
    exit(1);
}

void fixture_send(int connection, const char *text)
{
    /* The server may have closed the connection already: what it has sent says why. */
    ssize_t sent = send(connection, text, strlen(text), MSG_NOSIGNAL);
    (void)sent;
}

char *fixture_read(int connection, int milliseconds)
{
    size_t size = 0, capacity = 4096;
    char *text = malloc(capacity);
    struct pollfd ready = {.fd = connection, .events = POLLIN};
    while (text && poll(&ready, 1, milliseconds) == 1) {
        ssize_t got = read(connection, text + size, capacity - size - 1);
        if (got <= 0) break;
        size += (size_t)got;
        if (capacity - size > 1024) continue;
        capacity *= 2;
        char *grown = realloc(text, capacity);
        if (!grown) break;
        text = grown;
    }
    if (!text) exit(1);
    text[size] = '\0';
    return text;
}

char *fixture_ask(const struct fixture *fixture, const char *request)
{
    int connection = fixture_connect(fixture);
    fixture_send(connection, request);
    char *answer = fixture_read(connection, 20000);
    close(connection);
    return answer;
}
