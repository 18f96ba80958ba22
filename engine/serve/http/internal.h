/* internal.h: what the files of http/ know of each other. */
#ifndef ENGINE_SERVE_HTTP_INTERNAL_H
#define ENGINE_SERVE_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "serve/http/http.h"

#define HTTP_ADDRESS 160 /* bytes for an address as text */

/* A socket that listens, with its daemon. */
struct listener {
    int socket;
    bool is_unix, is_loopback; /* whether only this machine reaches it */
    bool closed;
    char address[HTTP_ADDRESS]; /* "http://127.0.0.1:8080" */
    struct http *http;
    struct MHD_Daemon *daemon;
};

/* A client's connection, from accepting it to closing it. Belongs to the list of http. */
struct connection {
    struct connection *next, *previous;
    struct listener *listener;
    int socket;
    /* When it began to wait for a request; 0: one is being answered. */
    double waits_since;
    bool served_before; /* it may be idle between requests */
    bool is_answered;   /* the request is not complete, but its answer is on its way */
    uint64_t received;  /* bytes of the body so far */
    struct exchange *exchange;
};

struct access;
struct pool;
struct tls;

struct http {
    struct server *server;
    struct access *access;
    struct tls *tls; /* NULL: no TLS */
    struct pool *workers, *quick, *long_workers;
    struct listener *listeners; /* [n_listeners] */
    size_t n_listeners;
    size_t max_body, max_pending; /* bytes */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t idle;  /* n_exchanges is 0 */
    struct exchange *first;
    size_t n_exchanges;
    struct connection *connections;

    /* The thread that notices clients that have gone away, and ends connections that take too long
     * (watch.c). */
    int watch, wake; /* epoll, eventfd */
    bool watching;
    pthread_t watcher;
};

/* A name and its value, one after the other. */
struct pair {
    char *name, *value;
};

enum exchange_state {
    EXCHANGE_WAITING, /* for the request, or for its answer */
    EXCHANGE_ANSWERED,
    EXCHANGE_STREAMING,
    EXCHANGE_ENDED /* the stream is complete */
};

struct exchange {
    atomic_uint references;
    struct http *http;
    const struct route *route;
    struct exchange *next, *previous; /* http's list, under its lock */
    struct connection *from;          /* only while `connection` */
    bool handed_over;                 /* libmicrohttpd's thread: it has been answered or dispatched */
    bool was_listed;                  /* it is to be logged */
    bool is_exact;                    /* numbers of the answer have all their digits */
    uint64_t json_lost;               /* json_memory_lost() when it began */
    unsigned n_told_late;             /* under http's lock: how often it was found to take too long */

    /* The request. Does not change once it has been handed over, except for the last three. */
    char method[16];
    char *path;
    struct pair *headers, *arguments; /* [n] */
    size_t n_headers, n_arguments;
    char *body; /* [body_size + 1] */
    size_t body_size, body_capacity, body_discarded;
    bool body_too_large;
    json_t *json;
    char client[64];
    struct served *model;
    const char *model_name; /* for the log; lives as long as the server */
    int adapter;

    pthread_mutex_t lock; /* of what follows, unless it says otherwise */
    enum exchange_state state;
    struct MHD_Connection *connection; /* NULL: libmicrohttpd has finished with it */
    bool suspended;
    bool gone;      /* the client, or the connection was cut */
    bool expired;   /* its handler was told to end it, since it takes too long or the server ends */
    bool lost;      /* more is waiting than may wait */
    bool complete;  /* the client has the whole answer */
    double seconds; /* that it took */
    unsigned status;
    struct MHD_Response *response;
    struct pair *answer_headers; /* [n_answer_headers]; the handler's */
    size_t n_answer_headers;
    char *pending; /* [pending_size] bytes that wait for the client, from pending_first on */
    size_t pending_first, pending_size, pending_capacity;
    uint64_t sent;
    const char *ping;       /* of a stream; NULL: none */
    const char *last_words; /* of a stream; NULL: none */
    size_t n_last_words;    /* how many bytes of them have been handed over */
    bool speaks_last;       /* nothing else is sent any more */
    double quiet_since;     /* when bytes were sent last, or the stream began */

    pthread_mutex_t gone_lock; /* held while `when_gone` runs */
    void (*when_gone)(void *user);
    void *gone_user;

    double began; /* seconds_now */
    atomic_uint_fast64_t n_prompt, n_reused, n_generated;
};

/* ---- exchange.c ---- */

struct exchange *exchange_create(struct http *http, struct MHD_Connection *connection, const char *method,
                                 const char *url);
struct exchange *exchange_hold(struct exchange *exchange);
void exchange_release(struct exchange *exchange);
/* Adds bytes of the body. False: out of memory. */
bool exchange_add_body(struct exchange *exchange, const char *data, size_t size);
/* libmicrohttpd has finished with the connection; `complete`: the client has the whole answer. */
void exchange_finished(struct exchange *exchange, bool complete);
/* The client has gone away: tells the handler. */
void exchange_lose(struct exchange *exchange);
/* It has taken too long, or the server ends: tells the handler, which ends it with an error. False: it wasn't
 * there to be told. */
bool exchange_expire(struct exchange *exchange);
/* Whether it is a stream with nothing to send since `before`. */
bool exchange_is_quiet(struct exchange *exchange, double before);
/* Sends a quiet stream's ping. */
void exchange_ping(struct exchange *exchange);
/* Hands the answer to libmicrohttpd, if there is one. */
enum MHD_Result exchange_put_answer(struct exchange *exchange, struct MHD_Connection *connection);
/* Suspends the connection until there is an answer. */
void exchange_suspend(struct exchange *exchange);

/* ---- daemon.c ---- */

int daemon_start(struct listener *listener);

/* ---- listen.c ---- */

/* Opens all sockets that the command line or systemd asks for. */
int listen_open(struct http *http);
void listen_close(struct http *http);

/* ---- watch.c ---- */

int watch_start(struct http *http);
void watch_stop(struct http *http);
void watch_add(struct exchange *exchange, int socket);
void watch_remove(struct exchange *exchange, int socket);

/* ---- http.c: worker threads, with a line of work before them ---- */

/* `max_waiting` pieces of work may wait. Returns an enum engine_status, with command_error's message. */
int pool_create(size_t n_threads, size_t max_waiting, struct pool **pool);
/* Has `work` called by a worker. False: too much is waiting, unless `always`. */
bool pool_add(struct pool *pool, void (*work)(void *user), void *user, bool always);
/* Waits until all work is done. */
void pool_destroy(struct pool *pool);

/* ---- access.c: who may use the server: API keys, and web pages of other sites ---- */

/* Reads --api-key and --api-key-file. Returns an enum engine_status, with command_error's message. */
int access_create(const struct arguments *arguments, struct access **access);
/* Reads the file again; after an error the keys stay as they were. */
int access_reload(struct access *access);
void access_destroy(struct access *access);

bool access_needs_key(struct access *access);
/* Whether the request has one of the keys, or none is needed. The time that it takes does not depend on how
 * much of a key is right. */
bool access_has_key(struct access *access, const struct exchange *exchange);

/* Answers preflight requests, adds CORS headers for sites of --cors, and refuses requests that a page of
 * another site may not make: requests with a foreign Origin, and on loopback without a key those whose Host
 * is not this machine (DNS rebinding). True: the exchange has been answered. */
bool access_refuse(struct access *access, struct exchange *exchange, const struct listener *listener);

/* ---- listen.c: TLS with a certificate that can be read again while the server runs ---- */

/* Reads --ssl-cert-file and --ssl-key-file; *tls is NULL without them. Returns an enum engine_status, with
 * command_error's message. Only one at a time: libmicrohttpd gives its callback no context. */
int tls_create(const struct arguments *arguments, struct tls **tls);
/* Reads the files again. Connections that are open keep the certificate that they have; after an error, the
 * one before is used on. */
int tls_reload(struct tls *tls);
void tls_destroy(struct tls *tls);

/* Returns the flags for a daemon, and fills in its options. */
unsigned tls_options(struct tls *tls, struct MHD_OptionItem options[4]);

#endif
