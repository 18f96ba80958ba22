/* signals.h: the program's signals, and the terminal as it is to be left when one ends the program. */
#ifndef ENGINE_IO_SIGNALS_H
#define ENGINE_IO_SIGNALS_H

#include <stdbool.h>

/* The first Ctrl-C sets `interrupted` (messages.h), as does a broken pipe on standard output; the second
 * kills. Signals that end the program first remove its unfinished output (output.h). A file that exceeds the
 * size limit becomes a write error. If a mapped file shrinks, the program prints a line that names the file
 * and exits with status 1. */
void signals_begin(void);

/* Whether nobody reads standard output any more. */
bool signals_reader_is_gone(void);

/* Puts the handlers back that a driver has replaced: LLVM installs its own when it compiles the first
 * kernel. */
void signals_keep(void);

/* Before and after the program waits for input, which Ctrl-C ends (EINTR). Elsewhere system calls go on after
 * it: a write to a slow terminal that it cut short would lose text. */
void signals_wait(bool waiting);

/* If Ctrl-C was pressed, ends the program by SIGINT, so that a parent (a shell in a loop) notices. */
void signals_end(void);

/* Forgets Ctrl-C: the program goes on, and the next one is the first again. */
void signals_forget(void);

/* From here on the first Ctrl-C ends the program, as the second does. */
void signals_end_at_once(void);

/* Ends the program from any thread, with this line and status 1, once nothing unfinished is left. */
_Noreturn void signals_end_program(const char *message);

/* Remembers the state of the terminal on standard input, to which the program will do something. */
void terminal_state_keep(void);
/* What is typed from now on is not shown: what an answer is printed to would show it amidst the answer. It
 * stays to be read. */
void terminal_state_hide_typing(void);
/* As it was when it was kept; nothing if it wasn't. May be called by a signal's handler. */
void terminal_state_restore(void);

#endif
