/* life.h: signals, and what systemd is told. */
#ifndef ENGINE_SERVE_LIFE_H
#define ENGINE_SERVE_LIFE_H

struct server;

/* Has the signals that life_run handles wait for it; before any thread is created. */
void life_begin(void);
/* Serves until SIGTERM or SIGINT. Then ends what runs, for --grace seconds at most; a second signal ends it at once. */
void life_run(struct server *server);

#endif
