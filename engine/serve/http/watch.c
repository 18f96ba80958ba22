/* watch.c: the thread that notices clients that have gone away while libmicrohttpd doesn't look at their
 * sockets (it suspends connections whose answer is being made), and that closes connections whose request
 * takes too long to arrive, or never will. It also ends requests that take too long, and sends the pings of
 * streams.
 *
 * A client that has closed its side for writing counts as gone, as in other servers: most that do have
 * gone. */
#include <errno.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "io/messages.h"
#include "serve/http/internal.h"

#define MIN_SPEED 4096 /* bytes per second that a body has to arrive with, besides the time for headers */

void watch_add(struct exchange *exchange, int socket)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = exchange};
    epoll_ctl(exchange->http->watch, EPOLL_CTL_ADD, socket, &event);
}

void watch_remove(struct exchange *exchange, int socket)
{
    epoll_ctl(exchange->http->watch, EPOLL_CTL_DEL, socket, NULL);
}

/* Takes a reference to an exchange that may have ended since its event came. */
static struct exchange *watch_find(struct http *http, const void *wanted)
{
    pthread_mutex_lock(&http->lock);
    struct exchange *exchange = http->first;
    while (exchange && exchange != wanted) exchange = exchange->next;
    if (exchange) exchange_hold(exchange);
    pthread_mutex_unlock(&http->lock);
    return exchange;
}

/* Whether a client has closed its sending side, and all that it has sent is read. */
static bool is_at_end(int socket)
{
    char byte;
    return recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Whether anything has come from a client of TCP. */
static bool has_sent(int socket)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_bytes_received > 0;
}

/* Tells the client of half a request why its connection is closed, past libmicrohttpd, which has nothing to
 * send then: not between requests, when a client may begin another one at the same time, and not with TLS,
 * whose keys libmicrohttpd has. */
static void say_late(const struct http *http, const struct connection *connection)
{
    static const char body[] = "{\"error\":{\"message\":\"the request took too long to arrive\",\"type\":"
                               "\"invalid_request_error\",\"param\":null,\"code\":\"request_timeout\"}}";
    char answer[512];
    if (connection->is_answered) return;
    if (!connection->exchange && (connection->served_before || !has_sent(connection->socket))) return;
    if (http->tls && !connection->listener->is_unix) return;
    int length = snprintf(answer, sizeof answer,
                          "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: "
                          "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                          sizeof body - 1, body);
    ssize_t sent = send(connection->socket, answer, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent; /* a client that reads nothing gets nothing */
}

/* Closes connections that wait too long for their request, or whose client sends no more of it, which
 * libmicrohttpd then notices. Without this it misses an end that comes together with the last bytes. */
static void end_slow(struct http *http, double now)
{
    const struct arguments *arguments = http->server->arguments;
    pthread_mutex_lock(&http->lock);
    for (struct connection *connection = http->connections; connection; connection = connection->next) {
        if (connection->waits_since <= 0) continue;
        double limit = arguments->request_seconds + (double)connection->received / MIN_SPEED;
        if (connection->served_before && !connection->exchange) limit += arguments->idle_seconds;
        bool late = now - connection->waits_since > limit, ended = is_at_end(connection->socket);
        if (late && !ended) say_late(http, connection);
        if (late || ended) shutdown(connection->socket, SHUT_RDWR);
    }
    pthread_mutex_unlock(&http->lock);
}

#define LATE_SECONDS 5 /* that the handler of a late request has for its end */

/* An exchange that has taken longer than --timeout, and was found fewer times than that says, held; NULL if
 * there is none. */
static struct exchange *find_late(struct http *http, double now)
{
    double limit = http->server->arguments->time_limit;
    struct exchange *found = NULL;
    if (limit <= 0) return NULL;
    pthread_mutex_lock(&http->lock);
    for (struct exchange *exchange = http->first; exchange && !found; exchange = exchange->next) {
        double late = now - exchange->began - limit;
        if (late <= 0 || exchange->n_told_late >= (late > LATE_SECONDS ? 2 : 1)) continue;
        exchange->n_told_late++;
        found = exchange_hold(exchange);
    }
    pthread_mutex_unlock(&http->lock);
    return found;
}

/* Ends it as if the client had gone away. */
static void end_at_once(struct http *http, struct exchange *exchange)
{
    pthread_mutex_lock(&http->lock);
    if (exchange->from) shutdown(exchange->from->socket, SHUT_RDWR);
    pthread_mutex_unlock(&http->lock);
    exchange_lose(exchange);
}

static void end_late(struct http *http, double now)
{
    for (struct exchange *late; (late = find_late(http, now)); exchange_release(late))
        if (!exchange_expire(late)) end_at_once(http, late);
}

/* A stream that needs a ping, held; NULL if there is none. */
static struct exchange *find_quiet(struct http *http, double now)
{
    double interval = http->server->arguments->ping_seconds;
    if (interval <= 0) return NULL;
    pthread_mutex_lock(&http->lock);
    struct exchange *exchange = http->first;
    while (exchange && !exchange_is_quiet(exchange, now - interval)) exchange = exchange->next;
    if (exchange) exchange_hold(exchange);
    pthread_mutex_unlock(&http->lock);
    return exchange;
}

static void *watch_run(void *user)
{
    struct http *http = user;
    struct epoll_event events[64];
    double last = seconds_now();
    for (;;) {
        int n = epoll_wait(http->watch, events, 64, 500);
        for (int i = 0; i < n; i++) {
            if (!events[i].data.ptr) return NULL; /* watch_stop */
            struct exchange *exchange = watch_find(http, events[i].data.ptr);
            if (!exchange) continue;
            exchange_lose(exchange);
            exchange_release(exchange);
        }
        double now = seconds_now();
        if (now - last < 0.5) continue;
        last = now;
        end_slow(http, now);
        end_late(http, now);
        for (struct exchange *quiet; (quiet = find_quiet(http, now));) {
            exchange_ping(quiet);
            exchange_release(quiet);
        }
    }
}

int watch_start(struct http *http)
{
    struct epoll_event event = {.events = EPOLLIN};
    http->watch = epoll_create1(EPOLL_CLOEXEC);
    http->wake = eventfd(0, EFD_CLOEXEC);
    if (http->watch < 0 || http->wake < 0 || epoll_ctl(http->watch, EPOLL_CTL_ADD, http->wake, &event) != 0)
        return command_error(ENGINE_ERROR, "cannot watch sockets: %s", strerror(errno));
    http->watching = pthread_create(&http->watcher, NULL, watch_run, http) == 0;
    return http->watching ? ENGINE_OK : command_error(ENGINE_ERROR, "cannot start a thread");
}

void watch_stop(struct http *http)
{
    if (http->watching) {
        eventfd_write(http->wake, 1);
        pthread_join(http->watcher, NULL);
    }
    http->watching = false;
    if (http->watch >= 0) close(http->watch);
    if (http->wake >= 0) close(http->wake);
    http->watch = http->wake = -1;
}
