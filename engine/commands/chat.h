/* chat.h: what the files of `engine chat` share: what the user types, the messages, the session with its
 * answers, and its /commands. */
#ifndef ENGINE_COMMANDS_CHAT_H
#define ENGINE_COMMANDS_CHAT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine.h"
#include "io/display.h"
#include "io/files.h"
#include "options/arguments.h"
#include "options/open.h"
#include "options/sampling.h"
#include "prompts/prompt.h"

/* ---- chat-input.c: what the user types: on a terminal with line editing, history and completion (libedit);
 * otherwise a line of standard input at a time ---- */

struct chat_input;

enum chat_input_result {
    CHAT_INPUT_TEXT,
    CHAT_INPUT_END,         /* Ctrl-D, or the end of the input */
    CHAT_INPUT_INTERRUPTED, /* Ctrl-C: what had been typed is gone */
    CHAT_INPUT_FAILED       /* out of memory, or the input cannot be read: command_error */
};

/* `completions`: what Tab completes at the beginning of a line; terminated by NULL, not copied. `keeps`: what
 * is typed at a terminal is kept for later chats (chat-history.c). */
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

/* ---- chat-history.c: what users typed, kept in a file from one chat to the next. Several chats may share
 * the file: each adds its lines, and none loses those of others. ---- */

/* The file, $XDG_STATE_HOME/engine/chat-history or the same in ~/.local/state; its folders are made if they
 * are missing. The caller frees it. NULL: neither variable says where, and *why is NULL; or the folder can't
 * be made or is another user's, which *why says until the next call of strerror. */
char *chat_history_path(const char **why);

/* Calls `take` with each message of the file, the oldest first. A file that isn't there has none. */
void chat_history_read(const char *path, void (*take)(void *user, const char *text), void *user);

/* Adds a message. A file that has become large loses the older half. False, with errno: it was not
 * written. */
bool chat_history_add(const char *path, const char *text);

/* ---- conversation.c: the messages of a chat, as OpenAI's API writes them ---- */

/* Functions that can fail return an enum engine_status, with command_error's message. */
struct conversation {
    json_t *messages; /* an array: a system message if there is one, then turns: user, assistant */
};

int conversation_create(struct conversation *conversation);
void conversation_destroy(struct conversation *conversation);

/* NULL or "": no system message. */
int conversation_set_system(struct conversation *conversation, const char *text);
/* NULL if there is none. */
const char *conversation_system(const struct conversation *conversation);

int conversation_ask(struct conversation *conversation, const char *text, size_t length);
/* `reasoning` may be empty. */
int conversation_answer(struct conversation *conversation, const char *content, size_t content_length,
                        const char *reasoning, size_t reasoning_length);

/* The number of user messages. */
size_t conversation_turns(const struct conversation *conversation);
/* The last user message, or NULL. */
const char *conversation_question(const struct conversation *conversation);
/* Whether the last message is the user's. */
bool conversation_is_open(const struct conversation *conversation);
/* Removes what comes after the last user message; with `question`, that too. False: there is none. */
bool conversation_undo(struct conversation *conversation, bool question);
/* Removes everything but the system message. */
void conversation_clear(struct conversation *conversation);
/* The messages as they are, to be restored, or dropped with json_decref; NULL: out of memory. */
json_t *conversation_copy(const struct conversation *conversation);
/* Takes the copy; NULL changes nothing. */
void conversation_restore(struct conversation *conversation, json_t *copy);
/* Keeps the system message and the last n_turns turns, of which there are as many. */
int conversation_keep(struct conversation *conversation, size_t n_turns);

/* A JSON array of messages, as `engine template --messages` takes it. `path` must not be one of `inputs`
 * [n]. */
int conversation_save(const struct conversation *conversation, const char *path, const struct engine *engine,
                      const char *const *inputs, size_t n);
/* Replaces all messages; after a failure they are as before. */
int conversation_load(struct conversation *conversation, const char *path);

/* ---- The session ---- */

struct chat {
    struct arguments arguments; /* /set changes them */
    struct engine *engine;
    struct engine_model *model;
    struct vocabulary vocabulary;
    struct engine_template *chat_template;
    uint32_t reply_format; /* of what it writes: enum engine_reply_format */
    char *variables;       /* of the template, a JSON object; NULL: none */
    struct engine_context *context;
    struct engine_context_info info;
    struct draft_model draft; /* with --draft */
    struct sampling sampling;
    struct text_list stop;
    struct constraint constraint;   /* of each answer */
    struct engine_grammar *grammar; /* NULL: any text */
    struct engine_queue *queue;
    struct chat_input *input;
    struct conversation conversation;
    uint64_t seed, last_seed; /* of the next answer, and of the last one */

    /* The conversation as the model has seen it: its text, and the tokens that stand for it. The answers' are
     * those that the model chose. */
    struct text_buffer seen;
    size_t opening; /* bytes at the end of `seen` that the template wrote: they may begin the answer */
    struct token_list tokens;

    /* The answer that is being written, or the last one. */
    struct engine_reply_options reading; /* of `reply` */
    struct engine_reply *reply;
    struct text_buffer written, content, reasoning; /* as it came; its parts */
    struct engine_event last;                       /* its text is gone */
    uint32_t n_written; /* tokens of the answer, including those left out meanwhile */
    double seconds;     /* of writing them */
    uint32_t part;      /* of what was printed last: enum engine_reply_part */
    struct wrap wrap;   /* of what is printed on a terminal */
    int status;         /* of what the callbacks did */

    char **values; /* [n_values] what /set has set */
    size_t n_values;
    int exit_status;
};

/* Asks a question and has it answered. `instead`: it takes the place of the last one; `text` NULL: the last
 * one is answered again. Without an answer the conversation is as before, and the reason has been printed. */
void chat_ask(struct chat *chat, const char *text, size_t length, bool instead);

/* The number of tokens of the conversation, with what the template adds. Returns an enum engine_status. */
int chat_count_tokens(struct chat *chat, size_t *count);

/* The conversation has changed other than by going on: its tokens are worked out again. */
void chat_forget_tokens(struct chat *chat);

/* Handles a line that begins with "/". `preset`: what the next line begins with, to replace the last message;
 * the caller frees it. False: the chat ends. */
bool chat_command(struct chat *chat, char *line, char **preset);

/* The names of all commands, terminated by NULL. */
extern const char *const chat_command_names[];

/* Prints a line to standard error: "engine: …" belongs to errors alone. */
void chat_note(const char *format, ...) ENGINE_PRINTF(1, 2);
/* Prints the error of a failed function, and remembers that there was one. */
void chat_fail(struct chat *chat);

#endif
