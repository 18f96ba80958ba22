/* api-error.h: what is wrong with a request, as error objects of APIs say it; and what the server doesn't
 * know, or cannot give, and goes on without. */
#ifndef ENGINE_SERVE_PARAMS_API_ERROR_H
#define ENGINE_SERVE_PARAMS_API_ERROR_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine.h"

struct exchange;
struct lenient;

/* The code of a refused field "thread" of Anthropic's API, which its error object has in `details`. */
#define API_ERROR_NO_THREADS "thread_unsupported_request"

/* Zeroed: nothing is wrong. */
struct api_error {
    struct lenient
        *lenient;     /* what is unknown is ignored, and logged here; NULL: it is an error (--strict) */
    unsigned status;  /* of HTTP: 400, 429, 500; 0: there is none */
    char param[160];  /* the field: "messages[1].content"; "": none in particular */
    const char *code; /* "context_length_exceeded"; NULL: none */
    char message[512];
};

/* No error yet, for reading the request of an exchange. */
struct api_error api_error_none(const struct exchange *exchange);
/* Answers with an error. */
void api_error_answer(struct exchange *exchange, const struct api_error *error);

/* Records an error in a field (`param` may be NULL) unless there is one already. Returns false. */
bool api_error_in(struct api_error *error, const char *param, const char *format, ...) ENGINE_PRINTF(3, 4);
/* The same with a code. */
bool api_error_with_code(struct api_error *error, const char *code, const char *param, const char *format,
                         ...) ENGINE_PRINTF(4, 5);
/* A field that the server doesn't know: with `lenient` it is logged, and no error, which returns true. `path`
 * is its name with those of the objects around it: "messages[0].mood". */
bool api_error_unknown(struct api_error *error, const char *path);
/* Records that memory ran out. Returns false. */
bool api_error_memory(struct api_error *error);
/* Records the failure of a function of engine.h with its status and engine_error_message(): 400 if the
 * request is to blame, else 500; ENGINE_ERROR_BUSY is 429. Returns false. */
bool api_error_of_engine(struct api_error *error, int status, const char *param);
/* Leaves only the last part of a path wherever the message has it: clients need not know the server's
 * folders. `path` may be any text, or NULL. */
void api_error_hide(struct api_error *error, const char *path);
/* The same for any text. */
void api_error_hide_folder(char *message, const char *path);

/* ---- What is ignored ---- */

#define LENIENT_MAX_NAMES 256
#define LENIENT_NAME_SIZE 64 /* bytes; longer names are cut */

/* What requests have that the server doesn't know, or cannot give, and goes on without. Each such thing is
 * logged once. Clients choose the names, so only so many are remembered, and no more lines are written than
 * that. With --strict there is none of this: what is unknown is refused. */
struct lenient {
    pthread_mutex_t lock;
    size_t n_names;
    char names[LENIENT_MAX_NAMES][LENIENT_NAME_SIZE]; /* [n_names] that have been logged */
};

/* NULL: out of memory. */
struct lenient *lenient_create(void);
void lenient_destroy(struct lenient *lenient);
/* [thread-safe] Logs a line unless one with this name has been logged before. Returns whether it did. */
bool lenient_say(struct lenient *lenient, const char *name, const char *format, ...) ENGINE_PRINTF(3, 4);

#endif
