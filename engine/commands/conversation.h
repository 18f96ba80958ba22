/* conversation.h: the messages of a chat, as OpenAI's API writes them. */
#ifndef ENGINE_COMMANDS_CONVERSATION_H
#define ENGINE_COMMANDS_CONVERSATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

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

/* A JSON array of messages, as `engine template --messages` takes it. `path` must not be one of `inputs` [n]. */
struct engine;
int conversation_save(const struct conversation *conversation, const char *path, const struct engine *engine,
                      const char *const *inputs, size_t n);
/* Replaces all messages; after a failure they are as before. */
int conversation_load(struct conversation *conversation, const char *path);

#endif
