/* life.c: see life.h. */
#include "serve/life.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "commands/common.h"
#include "common/clock.h"
#include "serve/http/http.h"
#include "serve/log.h"
#include "serve/models/models.h"
#include "serve/server.h"

static void handled(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

void signals_block(void)
{
    sigset_t set;
    handled(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Tells the service manager, if it started this process (sd_notify(3)): a datagram to the socket that
 * NOTIFY_SOCKET names. */
static void notify(const char *state)
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

static void reload(struct server *server)
{
    char text[128];
    /* The clock that systemd compares with. */
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%.0f", seconds_now() * 1e6);
    notify(text);
    if (http_reload(server->http))
        server_log("%s; what was read before stays in use", command_message());
    else
        server_log("keys and certificates were read again");
    notify("READY=1");
}

/* Waits for the exchanges in progress, unless another signal comes. */
static void finish(struct server *server, const sigset_t *set)
{
    double end = seconds_now() + server->arguments->grace_seconds;
    struct timespec moment = {.tv_nsec = 50000000};
    while (http_busy(server->http) > 0 && seconds_now() < end) {
        int signal_number = sigtimedwait(set, NULL, &moment);
        if (signal_number == SIGTERM || signal_number == SIGINT) break;
    }
    if (http_busy(server->http) > 0) {
        server_log("%s cut short", count_text(http_busy(server->http), "request is", "requests are").text);
        http_abandon(server->http);
    }
}

void server_end(struct server *server, const char *reason)
{
    if (atomic_exchange(&server->is_lost, true)) return;
    server_log("%s; the server ends", reason);
    kill(getpid(), SIGTERM);
}

void server_run(struct server *server)
{
    sigset_t set;
    int signal_number = 0;
    handled(&set);
    for (size_t i = 0; http_address(server->http, i); i++)
        server_log("listening on %s", http_address(server->http, i));
    notify("READY=1\nSTATUS=listening");
    while (signal_number != SIGTERM && signal_number != SIGINT) {
        if (sigwait(&set, &signal_number)) continue;
        if (signal_number == SIGHUP) reload(server);
    }
    notify("STOPPING=1");
    server->is_ending = true;
    http_close(server->http);
    if (http_busy(server->http) > 0)
        server_log("ending; %s in progress, which may take %u s more",
                   count_text(http_busy(server->http), "request is", "requests are").text,
                   server->arguments->grace_seconds);
    finish(server, &set);
    models_stop(server->models);
    http_wait(server->http, 5);
}
