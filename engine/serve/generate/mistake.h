/* api-error.h: what is wrong with a request, as error objects of APIs say it. */
#ifndef ENGINE_SERVE_GENERATE_MISTAKE_H
#define ENGINE_SERVE_GENERATE_MISTAKE_H

#include <stdbool.h>

#include "engine.h"

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

#endif
