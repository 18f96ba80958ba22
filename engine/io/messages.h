/* messages.h: what a program says: errors and warnings, the text that it was asked for, and how far its work
 * is. */
#ifndef ENGINE_IO_MESSAGES_H
#define ENGINE_IO_MESSAGES_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

/* Prints "engine: MESSAGE" and returns the exit status: 2 after command_error(ENGINE_ERROR_ARGUMENT), else 1.
 * The message is that of command_error if there was one, else engine_error_message(). */
int command_fail(void);

/* Stores a message of the command's own for command_fail, and returns `status`. Each thread has its own
 * message. */
int command_error(int status, const char *format, ...) ENGINE_PRINTF(2, 3);

/* The message that command_fail would print, for programs that go on after a failure: the next failure that
 * has no message of command_error's then counts again. Valid until the thread's next call. */
const char *command_message(void);

/* Makes the library's message, if there is none of its own, that of the command: for what an option asked
 * for. Returns `status`. */
int command_adopt_error(int status);

/* Prints "engine: warning: TEXT". */
void command_warn(const char *format, ...) ENGINE_PRINTF(1, 2);

/* Prints "engine: TEXT" and returns the exit status 2, for mistakes on the command line itself. */
int command_usage(const char *format, ...) ENGINE_PRINTF(1, 2);

/* Prints "engine: ", the prefix and the message as a line. Control codes in them don't reach the terminal. */
void print_message(const char *prefix, const char *message);

/* Writes text to standard output. */
void print_text(const char *text, size_t length);
/* Ends the last line of the text if it is open and a message would otherwise follow on the same line. If
 * standard output is a terminal, the newline goes there. Else it goes to standard error, provided that this
 * is a terminal or the same file, so that the text stays unchanged. All messages call this. */
void end_text(void);

/* For the library's `progress` callbacks, with `user` a word such as "loading": draws a bar on a terminal.
 * After Ctrl-C it returns a value other than 0, which stops the work. */
int report_progress(void *user, uint64_t done, uint64_t total);

/* The same for a number of items ("tokens"). The bar disappears when all are done. */
void count_progress(const char *what, uint64_t done, uint64_t total, const char *items);

/* "1 copy", "2 copies". */
struct count_text {
    char text[64];
};
struct count_text count_text(uint64_t number, const char *one, const char *several);

/* Bytes for people: "1.2 GiB". */
struct size_text {
    char text[16];
};
struct size_text size_text(uint64_t bytes);

/* Not 0 after SIGINT (Ctrl-C), or once nobody reads standard output any more. Long-running commands check it
 * between tokens and end cleanly with their usual exit status; main.c does the rest. A second Ctrl-C
 * kills. */
extern volatile sig_atomic_t interrupted;

/* Not 0 while a progress bar occupies the terminal's last line. */
extern volatile sig_atomic_t progress_is_shown;

#endif
