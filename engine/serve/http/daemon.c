/* daemon.c: libmicrohttpd's side: takes requests apart from its callbacks, refuses those that may not be,
 * hands the others to worker threads, and gives the answers back. One thread of libmicrohttpd runs all of
 * this for a listening socket; nothing here waits. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "common/assert.h"
#include "common/byte-order.h"
#include "common/clock.h"
#include "common/json-read.h"
#include "io/json.h"
#include "io/messages.h"
#include "serve/http/internal.h"
#include "serve/models/models.h"

/* ---- Connections --------------------------------------------------------------------------------------- */

static void notice_connection(void *user, struct MHD_Connection *connection, void **context,
                              enum MHD_ConnectionNotificationCode code)
{
    struct listener *listener = user;
    struct http *http = listener->http;
    struct connection *known = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        known = calloc(1, sizeof *known);
        *context = known;
        if (!known) return;
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        known->listener = listener;
        known->socket = info ? info->connect_fd : -1;
        known->waits_since = seconds_now();
        pthread_mutex_lock(&http->lock);
        known->next = http->connections;
        if (known->next) known->next->previous = known;
        http->connections = known;
        pthread_mutex_unlock(&http->lock);
        return;
    }
    if (!known) return;
    pthread_mutex_lock(&http->lock);
    if (known->next) known->next->previous = known->previous;
    if (known->previous)
        known->previous->next = known->next;
    else
        http->connections = known->next;
    pthread_mutex_unlock(&http->lock);
    free(known);
}

static void name_client(struct exchange *exchange, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    char text[INET6_ADDRSTRLEN] = "unix";
    if (address && address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, text, sizeof text);
    else if (address && address->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(six))
            inet_ntop(AF_INET, &six->s6_addr[12], text, sizeof text);
        else
            inet_ntop(AF_INET6, six, text, sizeof text);
    }
    snprintf(exchange->client, sizeof exchange->client, "%s", text);
}

/* ---- Ambiguous requests -------------------------------------------------------------------------------- */

/* The rules are those of RFC
 * 9112, section 6.3, and RFC 9110, section 5.1; where these leave a choice, a request is refused: a proxy in
 * front may have chosen otherwise (request smuggling). */

static bool is_token(const char *text)
{
    if (!*text) return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("!#$%&'*+-.^_`|~", *text)) return false;
    return true;
}

/* Without control characters: some take a CR alone for the end of a line. */
static bool is_value(const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f) return false;
    return true;
}

static bool request_is_whole(const char *text)
{
    return *text && strlen(text) <= 18 && text[strspn(text, "0123456789")] == '\0';
}

/* Answers a request that is not in order, and has its connection closed. True. */
static bool request_refuse(struct exchange *exchange, unsigned status, const char *message)
{
    exchange_header(exchange, "Connection", "close");
    exchange_fail(exchange, status, "invalid_request_error", "bad_request", NULL, "%s", message);
    return true;
}

/* Walks over the headers as they came. */
struct walk {
    const char *at; /* the end of the line before, without its line break */
    bool broken;    /* what follows is not the next header */
};

/* A line break is CR LF or LF, which libmicrohttpd has made NULs. */
static enum MHD_Result walk_header(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct walk *walk = user;
    (void)kind;
    walk->broken = !name || !value || (name != walk->at + 1 && name != walk->at + 2);
    if (walk->broken) return MHD_NO;
    walk->at = value + strlen(value);
    return MHD_YES;
}

/* Whether nothing but an empty line ends the headers. libmicrohttpd before 1.0 also ends them at a line that
 * begins with a colon or a NUL, and what follows would be taken for another request; and it reads lines that
 * go on in the next one wrong. It leaves the headers where it has read them, from `method` on, so they can be
 * looked at again: the last one is followed by CR LF CR LF or by LF LF. LF CR LF could be such a line as
 * well; it is refused. What still gets through, because it leaves the same four NULs as CR LF CR LF, is a
 * line of nothing but a colon or a NUL, one of it and the line before with CR LF and the other with LF alone:
 * no proxy passes that on. */
static bool ends_properly(struct MHD_Connection *connection, const char *method, const char *version)
{
    if (strncmp(MHD_get_version(), "0.", 2) != 0) return true;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct walk walk = {.at = version + strlen(version)};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, walk_header, &walk);
    if (walk.broken || !info) return false;
    const char *end = method + info->header_size;
    return (end == walk.at + 4 && memcmp(walk.at, "\0\0\0", 4) == 0) ||
           (end == walk.at + 2 && memcmp(walk.at, "\0", 2) == 0);
}

/* Refuses a request that is ambiguous: several lengths, a length and chunks, another transfer coding, several
 * hosts, a header whose name is not a token, a header that goes on in the next line, headers that end without
 * an empty line. It has then been answered, and its connection is closed, so that nothing after it is taken
 * for a request. `method` and `version` are libmicrohttpd's own texts. */
static bool request_check(struct exchange *exchange, struct MHD_Connection *connection, const char *method,
                          const char *version)
{
    const char *length = NULL, *coding = NULL;
    size_t n_hosts = 0;
    bool is_1_1 = strcmp(version, "HTTP/1.1") == 0;
    if (!is_1_1 && strcmp(version, "HTTP/1.0") != 0)
        return request_refuse(exchange, 505, "the server speaks HTTP/1.1");
    if (!ends_properly(connection, method, version))
        return request_refuse(exchange, 400, "the headers are not lines of a name, a colon and a value");
    for (size_t i = 0; i < exchange->n_headers; i++) {
        const char *name = exchange->headers[i].name, *value = exchange->headers[i].value;
        if (!is_token(name))
            return request_refuse(exchange, 400, "a header's name has a character that it may not have");
        if (!is_value(value))
            return request_refuse(exchange, 400, "a header's value has a character that it may not have");
        if (strcasecmp(name, "Host") == 0) n_hosts++;
        if (strcasecmp(name, "Content-Length") == 0) {
            if (length) return request_refuse(exchange, 400, "the request has two lengths");
            length = value;
        }
        if (strcasecmp(name, "Transfer-Encoding") == 0) {
            if (coding) return request_refuse(exchange, 400, "the request has two transfer codings");
            coding = value;
        }
    }
    if (length && coding) return request_refuse(exchange, 400, "the request has a length and is chunked");
    if (length && !request_is_whole(length))
        return request_refuse(exchange, 400, "the length of the request is not a number");
    if (coding && (strcasecmp(coding, "chunked") != 0 || !is_1_1))
        return request_refuse(exchange, 501, "the only transfer coding is chunked, with HTTP/1.1");
    /* Where chunks and what follows them end is libmicrohttpd's reading alone, so nothing may follow. */
    if (coding) exchange_header(exchange, "Connection", "close");
    if (n_hosts > 1 || (n_hosts == 0 && is_1_1))
        return request_refuse(exchange, 400, "the request needs one host");
    return false;
}

/* ---- Routes -------------------------------------------------------------------------------------------- */

static bool route_has_path(const struct route *route, const char *path)
{
    size_t length = strlen(route->path);
    if (length > 1 && route->path[length - 1] == '*') return strncmp(route->path, path, length - 1) == 0;
    return strcmp(route->path, path) == 0;
}

/* The route of a request. NULL: there is none; *methods then has the methods that the path knows ("GET,
 * POST"), "" if it is unknown. */
static const struct route *route_find(const char *method, const char *path, char methods[64])
{
    size_t used = 0;
    methods[0] = '\0';
    if (strcmp(method, "HEAD") == 0) method = "GET";
    for (const struct route *route = all_routes; route->method; route++) {
        if (!route_has_path(route, path)) continue;
        if (strcmp(route->method, method) == 0) return route;
        if (!strstr(methods, route->method) && used < 48)
            used += (size_t)snprintf(methods + used, 64 - used, "%s%s", used ? ", " : "", route->method);
    }
    return NULL;
}

/* ---- Handing over to workers --------------------------------------------------------------------------- */

/* A client that has gone away while its request waited in line costs nothing more. */
static bool is_gone(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    bool gone = exchange->gone;
    pthread_mutex_unlock(&exchange->lock);
    if (gone) {
        struct exchange_end_reason why = exchange_why_gone(exchange);
        exchange_fail(exchange, why.status, "server_error", NULL, NULL, "%s", why.message);
    }
    return gone;
}

static void handle_route(void *user)
{
    struct exchange *exchange = user;
    if (!(exchange->route->flags & ROUTE_JSON) || !is_gone(exchange)) exchange->route->handle(exchange);
}

/* Reads the body, and takes the model that it names. */
static void daemon_prepare(void *user)
{
    struct exchange *exchange = user;
    unsigned flags = exchange->route->flags;
    if (flags & ROUTE_JSON) {
        if (is_gone(exchange)) return;
        json_error_t error;
        struct engine_string body = exchange_body(exchange);
        const char *foreign = byte_order_foreign(body.data, body.length);
        if (foreign) {
            exchange_fail(exchange, 400, "invalid_request_error", NULL, NULL, "the body is %s, not UTF-8",
                          foreign);
            return;
        }
        size_t mark = byte_order_mark(body.data, body.length);
        if (mark > 0) body = (struct engine_string){body.data + mark, body.length - mark};
        const char *keyword = NULL;
        exchange->json = json_read_request(body.data, body.length, &keyword, &error);
        if (!exchange->json && json_read_lacked_memory(&error)) {
            exchange_fail(exchange, OUT_OF_MEMORY_STATUS, "server_error", NULL, NULL,
                          "out of memory (a body)");
            return;
        }
        if (!exchange->json || !json_is_object(exchange->json)) {
            if (exchange->json)
                exchange_fail(exchange, 400, "invalid_request_error", NULL, NULL,
                              "the body is not a JSON object");
            else
                exchange_fail(exchange, 400, "invalid_request_error", NULL, NULL,
                              "the body can't be read as JSON: line %d, column %d: %s", error.line,
                              error.column, error.text);
            return;
        }
        if (keyword) {
            exchange_fail(exchange, 400, "invalid_request_error", NULL, NULL,
                          "\"%s\" of a schema " JSON_LONG_INTEGER, keyword);
            return;
        }
        char where[JSON_NUL_WHERE];
        if (json_has_nul(exchange->json, where)) {
            exchange_fail(exchange, 400, "invalid_request_error", NULL, where,
                          "\"%s\" has a NUL, which only the texts that a model reads may have", where);
            return;
        }
    }
    if (flags & ROUTE_MODEL)
        models_enter(exchange->http->server->models, exchange);
    else
        handle_route(exchange);
}

void http_go_on(struct exchange *exchange)
{
    /* It has waited in line before: it isn't refused now, other than without memory. */
    if (!pool_add(exchange->http->workers, handle_route, exchange, true)) exchange_busy(exchange);
}

static void daemon_dispatch(struct exchange *exchange)
{
    struct pool *pool =
        exchange->route->flags & ROUTE_QUICK ? exchange->http->quick : exchange->http->workers;
    exchange_suspend(exchange);
    if (!pool_add(pool, daemon_prepare, exchange, false)) exchange_busy(exchange);
}

/* What take_request finds as the context of a request whose path a NUL has cut. */
static char path_with_nul;

/* Sees the path as it came. libmicrohttpd before 1.0 takes a NUL for its end; what follows the end is
 * otherwise the version. */
static void *look_at_path(void *user, const char *path, struct MHD_Connection *connection)
{
    (void)user, (void)connection;
    bool cut = strncmp(MHD_get_version(), "0.", 2) == 0 && strncmp(path + strlen(path) + 1, "HTTP/", 5) != 0;
    return cut ? &path_with_nul : NULL;
}

/* ---- libmicrohttpd's callbacks ------------------------------------------------------------------------- */

static bool daemon_is_plain(const char *encoding)
{
    return !encoding || strcasecmp(encoding, "identity") == 0;
}

/* What needs no body to be answered: a request that is not in order, not allowed, or for something that isn't
 * there. */
static bool refuse_early(struct exchange *exchange, struct MHD_Connection *connection, const char *method,
                         const char *version, bool cut)
{
    struct http *http = exchange->http;
    const struct listener *listener = exchange->from->listener;
    char methods[64];
    if (cut) return request_refuse(exchange, 400, "the path has a NUL");
    if (request_check(exchange, connection, method, version)) return true;
    if (access_refuse(http->access, exchange, listener)) return true;
    exchange->route = route_find(exchange->method, exchange->path, methods);
    if (!exchange->route && methods[0]) {
        exchange_header(exchange, "Allow", methods);
        exchange_fail(exchange, 405, "invalid_request_error", "method_not_allowed", NULL,
                      "%s takes %s, not %s", exchange->path, methods, exchange->method);
    } else if (!exchange->route) {
        exchange_fail(exchange, 404, "invalid_request_error", "not_found", NULL, "there is no %s",
                      exchange->path);
    } else if (!(exchange->route->flags & ROUTE_OPEN) && !access_has_key(http->access, exchange)) {
        exchange_header(exchange, "WWW-Authenticate", "Bearer");
        exchange_fail(exchange, 401, "authentication_error", "invalid_api_key", NULL,
                      exchange_request_header(exchange, "Authorization") ||
                              exchange_request_header(exchange, "x-api-key")
                          ? "the API key is wrong"
                          : "an API key is needed: Authorization: Bearer KEY");
    } else if (http->server->is_ending && !(exchange->route->flags & ROUTE_QUICK)) {
        exchange_fail(exchange, 503, "server_error", "shutting_down", NULL, "the server is shutting down");
    } else if (!daemon_is_plain(exchange_request_header(exchange, "Content-Encoding"))) {
        exchange_header(exchange, "Connection", "close");
        exchange_header(exchange, "Accept-Encoding", "identity");
        exchange_fail(exchange, 415, "invalid_request_error", "unsupported_encoding", NULL,
                      "the body has a Content-Encoding; send it as it is");
    } else {
        const char *length = exchange_request_header(exchange, "Content-Length");
        if (!length || strtoull(length, NULL, 10) <= http->max_body) return false;
        exchange_header(exchange, "Connection", "close");
        exchange_fail(exchange, 413, "invalid_request_error", "too_large", NULL,
                      "the body has %s bytes, but at most %zu are allowed", length, http->max_body);
    }
    return true;
}

static enum MHD_Result daemon_begin(struct listener *listener, struct MHD_Connection *connection,
                                    const char *url, const char *method, const char *version, void **context)
{
    struct http *http = listener->http;
    struct exchange *exchange = exchange_create(http, connection, method, url);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *from = info ? info->socket_context : NULL;
    if (!exchange || !from) {
        if (exchange) exchange_release(exchange);
        return MHD_NO;
    }
    bool cut = *context == &path_with_nul;
    *context = exchange;
    exchange->from = from;
    name_client(exchange, connection);
    pthread_mutex_lock(&http->lock);
    exchange->was_listed = true;
    exchange->next = http->first;
    if (exchange->next) exchange->next->previous = exchange;
    http->first = exchange;
    http->n_exchanges++;
    from->exchange = exchange;
    from->received = 0;
    pthread_mutex_unlock(&http->lock);
    exchange_hold(exchange); /* for the handler */
    if (!refuse_early(exchange, connection, method, version, cut)) return MHD_YES;
    exchange->handed_over = true;
    pthread_mutex_lock(&http->lock);
    from->is_answered = true;
    pthread_mutex_unlock(&http->lock);
    return exchange_put_answer(exchange, connection);
}

static enum MHD_Result take_request(void *user, struct MHD_Connection *connection, const char *url,
                                    const char *method, const char *version, const char *data, size_t *size,
                                    void **context)
{
    struct listener *listener = user;
    struct exchange *exchange = *context == &path_with_nul ? NULL : *context;
    if (!exchange) return daemon_begin(listener, connection, url, method, version, context);
    if (*size > 0) {
        bool added = exchange_add_body(exchange, data, *size);
        pthread_mutex_lock(&listener->http->lock);
        exchange->from->received += *size;
        pthread_mutex_unlock(&listener->http->lock);
        *size = 0;
        /* What is too large is read to its end, so that the client gets to see why it is refused; but not
         * forever. */
        return added && exchange->body_discarded <= listener->http->max_body ? MHD_YES : MHD_NO;
    }
    if (exchange->handed_over) return exchange_put_answer(exchange, connection);
    ENGINE_ASSERT(exchange->route && exchange->body_size <= listener->http->max_body);
    exchange->handed_over = true;
    pthread_mutex_lock(&listener->http->lock);
    exchange->from->waits_since = 0;
    pthread_mutex_unlock(&listener->http->lock);
    if (exchange->body_too_large) {
        exchange_fail(exchange, 413, "invalid_request_error", "too_large", NULL,
                      "the body has more than the %zu bytes that are allowed", listener->http->max_body);
        return exchange_put_answer(exchange, connection);
    }
    watch_add(exchange, exchange->from->socket);
    daemon_dispatch(exchange);
    return MHD_YES;
}

static void complete_request(void *user, struct MHD_Connection *connection, void **context,
                             enum MHD_RequestTerminationCode code)
{
    struct listener *listener = user;
    struct http *http = listener->http;
    struct exchange *exchange = *context;
    (void)connection;
    if (!exchange || *context == &path_with_nul) return;
    *context = NULL;
    watch_remove(exchange, exchange->from->socket);
    pthread_mutex_lock(&http->lock);
    exchange->from->exchange = NULL;
    exchange->from->is_answered = false;
    exchange->from->waits_since = seconds_now();
    exchange->from->served_before = true;
    exchange->from = NULL;
    if (exchange->next) exchange->next->previous = exchange->previous;
    if (exchange->previous)
        exchange->previous->next = exchange->next;
    else
        http->first = exchange->next;
    ENGINE_ASSERT(http->n_exchanges > 0);
    bool is_idle = --http->n_exchanges == 0;
    pthread_mutex_unlock(&http->lock);

    exchange_finished(exchange, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    if (!exchange->handed_over) exchange_release(exchange); /* no handler will */
    exchange_release(exchange);
    if (!is_idle) return;
    pthread_mutex_lock(&http->lock);
    pthread_cond_broadcast(&http->idle);
    pthread_mutex_unlock(&http->lock);
}

static void take_note(void *user, const char *format, va_list args) ENGINE_PRINTF(2, 0);
static void take_note(void *user, const char *format, va_list args)
{
    /* libmicrohttpd's notes are about what clients do wrong: they would fill the log. */
    (void)user, (void)format, (void)args;
}

/* Decodes %XX in place, except %00, which would end the text. */
static size_t daemon_unescape(void *user, struct MHD_Connection *connection, char *text)
{
    char *to = text;
    (void)user, (void)connection;
    for (const char *from = text; *from; to++) {
        unsigned byte = 0;
        if (from[0] == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2]))
            byte = (unsigned)strtoul((char[]){from[1], from[2], '\0'}, NULL, 16);
        *to = byte ? (char)byte : *from;
        from += byte ? 3 : 1;
    }
    *to = '\0';
    return (size_t)(to - text);
}

int daemon_start(struct listener *listener)
{
    const struct arguments *arguments = listener->http->server->arguments;
    unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem more[4] = {{MHD_OPTION_END, 0, NULL}};
    if (listener->http->tls && !listener->is_unix) flags |= tls_options(listener->http->tls, more);
    listener->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, take_request, listener, MHD_OPTION_EXTERNAL_LOGGER, take_note, NULL,
        MHD_OPTION_LISTEN_SOCKET, listener->socket, MHD_OPTION_NOTIFY_COMPLETED, complete_request, listener,
        MHD_OPTION_NOTIFY_CONNECTION, notice_connection, listener, MHD_OPTION_CONNECTION_LIMIT,
        arguments->n_connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT, arguments->n_connections_each,
        MHD_OPTION_CONNECTION_TIMEOUT, arguments->idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)arguments->header_kib * 1024, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK,
        look_at_path, NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_UNESCAPE_CALLBACK,
        daemon_unescape, NULL, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    if (listener->daemon) return ENGINE_OK;
    return command_error(ENGINE_ERROR, "cannot serve on %s: %s", listener->address, strerror(errno));
}
