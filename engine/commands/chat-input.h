/* chat-input.h: reads what the user of `engine chat` types. On a terminal with line editing, history and
 * completion (libedit); otherwise a line of standard input at a time. */
#ifndef ENGINE_COMMANDS_CHAT_INPUT_H
#define ENGINE_COMMANDS_CHAT_INPUT_H

#include <stdbool.h>
#include <stddef.h>

struct chat_input;

enum chat_input_result {
    CHAT_INPUT_TEXT,
    CHAT_INPUT_END,         /* Ctrl-D, or the end of the input */
    CHAT_INPUT_INTERRUPTED, /* Ctrl-C: what had been typed is gone */
    CHAT_INPUT_FAILED       /* out of memory, or the input cannot be read: command_error */
};

/* `completions`: what Tab completes at the beginning of a line; terminated by NULL, not copied. `keeps`: what is typed at a
 * terminal is kept for later chats (chat-history.h). */
int chat_input_open(const char *const *completions, bool keeps, struct chat_input **input);
void chat_input_close(struct chat_input *input);

/* Whether somebody types at a terminal and reads there. */
bool chat_input_is_terminal(const struct chat_input *input);

/* The columns of the terminal on standard output; 0: unknown. */
unsigned chat_input_columns(void);

/* Reads a message: a line without its end. A line that ends with a backslash goes on in the next. On a
 * terminal, Alt-Enter begins a new line, a pasted text stays one message, and a message may stand between two
 * lines of """. `preset` is typed already; NULL: nothing. *text is the caller's; it may be empty. */
enum chat_input_result chat_input_read(struct chat_input *input, const char *preset, char **text,
                                       size_t *length);

#endif
