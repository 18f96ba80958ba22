/* signals.h: what signals do to the program. */
#ifndef ENGINE_COMMANDS_SIGNALS_H
#define ENGINE_COMMANDS_SIGNALS_H

#include <stdbool.h>

/* The first Ctrl-C sets `interrupted` (common.h), the second kills; so does a reader of standard output that goes away.
 * Signals that end the program remove what it was writing (output.h) first. A file that grows past its limit becomes an
 * error of the write. A mapped file that gets shorter ends the program with a line that names it, and status 1. */
void signals_begin(void);

/* Whether nobody reads standard output any more. */
bool signals_reader_is_gone(void);

/* Ends the program by SIGINT if Ctrl-C has come, so that whoever waits for it (a shell in a loop) learns of it. */
void signals_end(void);

/* From here on the first Ctrl-C ends the program, as the second does. */
void signals_end_at_once(void);

#endif
