/* access.h: who may ask: API keys, and web pages of other sites. */
#ifndef ENGINE_SERVE_HTTP_ACCESS_H
#define ENGINE_SERVE_HTTP_ACCESS_H

#include <stdbool.h>

#include "commands/arguments.h"

struct access;
struct exchange;
struct listener;

/* Reads --api-key and --api-key-file. Returns an enum engine_status, with command_error's message. */
int access_create(const struct arguments *arguments, struct access **access);
/* Reads the file again; after an error the keys stay as they were. */
int access_reload(struct access *access);
void access_destroy(struct access *access);

bool access_needs_key(struct access *access);
/* Whether the request has one of the keys, or none is needed. The time that it takes does not depend on how much of a key
 * is right. */
bool access_has_key(struct access *access, const struct exchange *exchange);

/* Answers preflight requests, adds CORS headers for sites of --cors, and refuses what a page of another site may not ask:
 * requests with a foreign Origin, and on loopback without a key those whose Host is not this machine (DNS rebinding).
 * True: the exchange has been answered. */
bool access_refuse(struct access *access, struct exchange *exchange, const struct listener *listener);

#endif
