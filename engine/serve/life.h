/* life.h: signals, and what systemd is told. */
#ifndef ENGINE_SERVE_LIFE_H
#define ENGINE_SERVE_LIFE_H

struct server;

/* Has the signals that life_run handles wait for it; before any thread is created. */
void signals_block(void);
/* Serves until SIGTERM or SIGINT. Then ends what runs, for --grace seconds at most; a second signal ends it
 * at once. */
void server_run(struct server *server);
/* [thread-safe] Has life_run end, for a reason that is logged: nothing can be served any more. The exit
 * status is then 1. */
void server_end(struct server *server, const char *reason);

#endif
