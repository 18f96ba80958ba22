/* chat-history.h: what users of `engine chat` typed, kept in a file from one chat to the next. Several chats may share the
 * file: each adds its lines, and none loses those of others. */
#ifndef ENGINE_COMMANDS_CHAT_HISTORY_H
#define ENGINE_COMMANDS_CHAT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

/* The file, $XDG_STATE_HOME/engine/chat-history or the same in ~/.local/state; its folders are made if they are missing.
 * The caller frees it. NULL: neither variable says where, and *why is NULL; or the folder can't be made or is another user's,
 * which *why says until the next call of strerror. */
char *chat_history_path(const char **why);

/* Calls `take` with each message of the file, the oldest first. A file that isn't there has none. */
void chat_history_read(const char *path, void (*take)(void *user, const char *text), void *user);

/* Adds a message. A file that has become large loses the older half. False, with errno: it was not written. */
bool chat_history_add(const char *path, const char *text);

#endif
