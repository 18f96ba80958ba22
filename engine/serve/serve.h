/* serve.h: the server as a whole. */
#ifndef ENGINE_SERVE_SERVE_H
#define ENGINE_SERVE_SERVE_H

#include "commands/arguments.h"

/* Serves until a signal ends it. Returns the exit status. */
int serve(const struct arguments *arguments);

#endif
