/* http.h: the server's side of HTTP: sockets, libmicrohttpd's daemons, and the exchanges that are in progress. */
#ifndef ENGINE_SERVE_HTTP_HTTP_H
#define ENGINE_SERVE_HTTP_HTTP_H

#include <stddef.h>

#include "serve/server.h"

struct http;

/* Opens the sockets that the command line or systemd asks for, and prepares the rest. Returns an enum engine_status, with command_error's message. */
int http_create(struct server *server, struct http **http);
/* Begins to answer. */
int http_start(struct http *http);
/* Reads the certificate, its key and the keys of clients again. After an error, those known before go on to be used. */
int http_reload(struct http *http);
/* Takes no more connections. */
void http_close(struct http *http);
/* The number of exchanges in progress. */
size_t http_busy(struct http *http);
/* Ends those exchanges as if their clients had gone away. */
void http_abandon(struct http *http);
/* Waits until http_busy is 0, but no longer than this. */
void http_wait(struct http *http, double seconds);
/* Waits for the workers, and closes all connections. Exchanges may still be held by requests in queues. */
void http_stop(struct http *http);
void http_destroy(struct http *http); /* after http_stop, and when no exchange is held any more */

/* Where it listens: "http://127.0.0.1:8080"; NULL past the last. */
const char *http_address(const struct http *http, size_t index);

/* For whoever made an exchange wait: goes on with it on a worker thread. */
struct exchange;
void http_go_on(struct exchange *exchange);

#endif
