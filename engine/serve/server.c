/* server.c: the server as a whole: its lines on standard error, one an exchange and those that the server and
 * the engine have to say; serve(), which main.c calls, opens its parts, waits for signals, tells systemd, and
 * ends. */
#include "serve/server.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/memory-stream.h"
#include "common/printable.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"
#include "serve/http/http.h"
#include "serve/http/internal.h"
#include "serve/models/models.h"
#include "serve/params/api-error.h"

/* ---- The log ---- */

#define MAX_LOGGED_BODY 65536 /* bytes of a body that --log-prompts writes */

static bool as_json, with_prompts;
static enum engine_log_level max_level = ENGINE_LOG_WARNING; /* of the engine's lines */

void log_begin(const struct arguments *arguments)
{
    as_json = arguments->log_format && strcmp(arguments->log_format, "json") == 0;
    with_prompts = arguments->log_prompts;
    if (arguments->verbose) max_level = ENGINE_LOG_DEBUG;
}

/* One write for a line, so that lines of several threads don't mix. Nobody waits for a reader who has fallen
 * behind. */
static void log_put(const char *line, size_t length)
{
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT)) return;
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* there is nowhere else to say it */
}

/* The time of day, for people: "2026-11-23T15:45:12Z". Nothing is measured with it. */
static void log_time_text(char text[32])
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

/* Writes an object as a line; it is taken. */
static void log_put_json(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(object);
    if (!text) return;
    size_t length = strlen(text);
    text[length] = '\n'; /* instead of the NUL */
    log_put(text, length + 1);
    free(text);
}

void server_log(const char *format, ...)
{
    char message[2048], line[2200], now[32];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    printable_make(message);
    if (as_json) {
        log_time_text(now);
        log_put_json(json_pack("{s:s, s:o}", "time", now, "message", json_text(message, strlen(message))));
        return;
    }
    int length = snprintf(line, sizeof line, "engine: %s\n", message);
    log_put(line, (size_t)length);
}

/* ---- The log: what the engine says ---- */

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t said[64]; /* [n_said] hashes of its warnings */
static size_t n_said;

void log_forget(void)
{
    pthread_mutex_lock(&said_lock);
    n_said = 0;
    pthread_mutex_unlock(&said_lock);
}

void log_engine(void *user, enum engine_log_level level, const char *line)
{
    static const char *const names[] = {"error: ", "warning: ", "", ""};
    uint64_t hash = hash_bytes(HASH_BASIS, line, strlen(line));
    bool known = false;
    (void)user;
    if (level > max_level) return;
    pthread_mutex_lock(&said_lock);
    for (size_t i = 0; i < n_said; i++) known = known || said[i] == hash;
    if (!known && n_said < sizeof said / sizeof *said) said[n_said++] = hash;
    pthread_mutex_unlock(&said_lock);
    if (!known) server_log("%s%s", names[level], line);
}

static void log_as_json(const struct exchange *exchange)
{
    char now[32];
    log_time_text(now);
    json_t *line = json_pack(
        "{s:s, s:s, s:s, s:o, s:i, s:b, s:I, s:f, s:s?, s:I, s:I, s:I}", "time", now, "client",
        exchange->client, "method", exchange->method, "path",
        json_text(exchange->path, strlen(exchange->path)), "status", (int)exchange->status, "complete",
        exchange->complete, "bytes", (json_int_t)exchange->sent, "seconds", exchange->seconds, "model",
        exchange->model_name, "prompt_tokens", (json_int_t)exchange->n_prompt, "cached_tokens",
        (json_int_t)exchange->n_reused, "generated_tokens", (json_int_t)exchange->n_generated);
    if (line && with_prompts && exchange->body_size > 0)
        json_object_set_new(line, "body",
                            json_text(exchange->body, exchange->body_size < MAX_LOGGED_BODY
                                                          ? exchange->body_size
                                                          : MAX_LOGGED_BODY));
    log_put_json(line);
}

static void log_as_text(const struct exchange *exchange)
{
    char *line = NULL, now[32];
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);
    if (!out) return;
    log_time_text(now);
    fprintf(out, "%s %s %s %.500s %u%s %" PRIu64 " B %.3f s", now, exchange->client, exchange->method,
            exchange->path, exchange->status, exchange->complete ? "" : " (broken off)", exchange->sent,
            exchange->seconds);
    if (exchange->model_name)
        fprintf(out, " %s %" PRIuFAST64 "+%" PRIuFAST64 " tokens, %" PRIuFAST64 " cached",
                exchange->model_name, exchange->n_prompt, exchange->n_generated, exchange->n_reused);
    if (with_prompts && exchange->body_size > 0)
        fprintf(out, " %.*s",
                (int)(exchange->body_size < MAX_LOGGED_BODY ? exchange->body_size : MAX_LOGGED_BODY),
                exchange->body);
    if (memory_stream_end(out, &line)) {
        printable_make(line);
        length = strlen(line);
        line[length] = '\n'; /* instead of the NUL */
        log_put(line, length + 1);
    }
    free(line);
}

void log_exchange(const struct exchange *exchange)
{
    if (as_json)
        log_as_json(exchange);
    else
        log_as_text(exchange);
}

/* ---- Signals and systemd ---- */

static void signals_handled(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

/* Has the signals that server_run handles wait for it; before any thread is created. */
static void signals_block(void)
{
    sigset_t set;
    signals_handled(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Tells the service manager, if it started this process (sd_notify(3)): a datagram to the socket that
 * NOTIFY_SOCKET names. */
static void systemd_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path) return;
    size_t length = strlen(path);
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') address.sun_path[0] = '\0'; /* an abstract socket */
    int to = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (to < 0) return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (sendto(to, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address, size) < 0)
        server_log("systemd cannot be told: %s", strerror(errno));
    close(to);
}

static void server_reload(struct server *server)
{
    char text[128];
    /* The clock that systemd compares with. */
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%.0f", seconds_now() * 1e6);
    systemd_notify(text);
    if (http_reload(server->http))
        server_log("%s; what was read before stays in use", command_message());
    else
        server_log("keys and certificates were read again");
    systemd_notify("READY=1");
}

#define LAST_SECONDS 1 /* for requests that are cut short to end with an error */

/* Waits for the exchanges in progress, unless another signal comes. */
static void server_finish(struct server *server, const sigset_t *set)
{
    double end = seconds_now() + server->arguments->grace_seconds;
    struct timespec moment = {.tv_nsec = 50000000};
    while (http_busy(server->http) > 0 && seconds_now() < end) {
        int signal_number = sigtimedwait(set, NULL, &moment);
        if (signal_number == SIGTERM || signal_number == SIGINT) break;
    }
    if (http_busy(server->http) > 0) {
        server_log("%s cut short", count_text(http_busy(server->http), "request is", "requests are").text);
        http_expire(server->http);
        http_wait(server->http, LAST_SECONDS);
        http_abandon(server->http);
    }
}

void server_end(struct server *server, const char *reason)
{
    if (atomic_exchange(&server->is_lost, true)) return;
    server_log("%s; the server ends", reason);
    kill(getpid(), SIGTERM);
}

static void server_run(struct server *server)
{
    sigset_t set;
    int signal_number = 0;
    signals_handled(&set);
    for (size_t i = 0; http_address(server->http, i); i++)
        server_log("listening on %s", http_address(server->http, i));
    systemd_notify("READY=1\nSTATUS=listening");
    while (signal_number != SIGTERM && signal_number != SIGINT) {
        if (sigwait(&set, &signal_number)) continue;
        if (signal_number == SIGHUP) server_reload(server);
    }
    systemd_notify("STOPPING=1");
    server->is_ending = true;
    http_close(server->http);
    if (http_busy(server->http) > 0)
        server_log("ending; %s in progress, which may take %u s more",
                   count_text(http_busy(server->http), "request is", "requests are").text,
                   server->arguments->grace_seconds);
    server_finish(server, &set);
    models_stop(server->models);
    http_wait(server->http, 5);
}

/* ---- The server ---- */

#define OTHER_FILES 64 /* that the process needs besides its connections */

/* Connections beyond what the process may have open could not be accepted. */
static int allow_files(const struct arguments *arguments)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)arguments->n_connections + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return ENGINE_OK;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > wanted ? wanted : limit.rlim_max;
    if (limit.rlim_cur >= wanted && setrlimit(RLIMIT_NOFILE, &limit) == 0) return ENGINE_OK;
    return command_error(
        ENGINE_ERROR_ARGUMENT,
        "--connections %u: the system allows this process %llu open files (ulimit -n), of which the "
        "engine needs %d itself",
        arguments->n_connections, (unsigned long long)limit.rlim_max, OTHER_FILES);
}

/* glibc's malloc takes 64 MiB of address space for each thread, which is what a limit (ulimit -v) counts. */
static void save_address_space(void)
{
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 2);
#endif
}

int serve(const struct arguments *arguments)
{
    struct server server = {.arguments = arguments, .began = seconds_now()};
    save_address_space();
    json_memory_begin();
    log_begin(arguments);
    signals_block();
    int status = guesses_check(arguments);
    if (!status) status = sampling_read(arguments, &server.sampling);
    if (!status) status = allow_files(arguments);
    server.metrics = metrics_create();
    if (!status && !server.metrics) status = command_error(ENGINE_ERROR_MEMORY, "out of memory (metrics)");
    server.lenient = arguments->strict_requests ? NULL : lenient_create();
    if (!status && !arguments->strict_requests && !server.lenient)
        status = command_error(ENGINE_ERROR_MEMORY, "out of memory (the log)");
    if (!status) status = http_create(&server, &server.http);
    if (!status) {
        const struct engine_options options = {.struct_size = sizeof options,
                                               .plugin_dirs = arguments->plugin_dirs.items,
                                               .config_file = arguments->config,
                                               .log = log_engine};
        status = engine_open(&options, &server.engine);
    }
    if (!status) status = models_create(&server, &server.models);
    if (!status) status = models_load_first(server.models);
    if (!status) status = models_start(server.models);
    if (!status) status = http_start(server.http);
    int exit_status = status ? command_fail() : 0;
    if (!status) server_run(&server);
    if (server.is_lost) exit_status = 1;
    if (status && server.models) models_stop(server.models);
    http_stop(server.http);
    models_destroy(server.models);
    http_destroy(server.http);
    engine_close(server.engine);
    lenient_destroy(server.lenient);
    metrics_destroy(server.metrics);
    sampling_free(&server.sampling);
    return exit_status;
}
