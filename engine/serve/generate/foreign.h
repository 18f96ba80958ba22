/* foreign.h: request fields that other servers have beside those of an API: names for what the engine knows
 * by another one, and fields on which no text depends. They count unless the server is --strict. */
#ifndef ENGINE_SERVE_GENERATE_FOREIGN_H
#define ENGINE_SERVE_GENERATE_FOREIGN_H

#include "serve/generate/ask.h"

/* Numbers of an object that are whole, but written as 3.0, become integers. */
void foreign_make_whole(json_t *body);
/* Reads the other names, before the fields that they stand for; not those that `own` has, which ends with a
 * NULL name. */
bool foreign_read(struct params *params, const json_t *body, const struct params_field *own,
                  struct api_error *error);
/* Whether no text depends on a field of this name, or all texts would. *error: as below. */
bool foreign_decides_nothing(const char *name, const json_t *value, struct api_error *error);
/* Whether a field is one of the other names, or one on which nothing depends. *error: its value has the wrong
 * type, or it changes the answer in a way that the server can't. */
bool foreign_knows(const char *name, const json_t *value, struct api_error *error);

#endif
