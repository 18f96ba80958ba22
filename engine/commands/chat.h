/* chat.h: what the files of `engine chat` share: the session, its answers, and its /commands. */
#ifndef ENGINE_COMMANDS_CHAT_H
#define ENGINE_COMMANDS_CHAT_H

#include "commands/chat-input.h"
#include "commands/conversation.h"
#include "io/display.h"
#include "io/files.h"
#include "options/open.h"
#include "options/sampling.h"
#include "prompts/prompt.h"

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
    struct engine_reply *reply;
    struct text_buffer written, content, reasoning; /* as it came; its parts */
    struct engine_event last;                       /* its text is gone */
    uint32_t n_written; /* tokens of the answer, whatever was left out meanwhile */
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
