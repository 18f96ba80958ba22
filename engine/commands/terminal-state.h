/* terminal-state.h: how the terminal was when the program came to it, for the program's end, which may be a signal. */
#ifndef ENGINE_COMMANDS_TERMINAL_STATE_H
#define ENGINE_COMMANDS_TERMINAL_STATE_H

/* Remembers the state of the terminal on standard input, to which the program will do something. */
void terminal_state_keep(void);
/* What is typed from now on is not shown: what an answer is printed to would show it amidst the answer. It stays to be
 * read. */
void terminal_state_hide_typing(void);
/* As it was when it was kept; nothing if it wasn't. May be called by a signal's handler. */
void terminal_state_restore(void);

#endif
