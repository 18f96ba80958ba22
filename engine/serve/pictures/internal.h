/* internal.h: a picture's process, and the rest of pictures.h. */
#ifndef ENGINE_SERVE_PICTURES_INTERNAL_H
#define ENGINE_SERVE_PICTURES_INTERNAL_H

#include "serve/pictures/pictures.h"

/* Has `program` decode a file. Returns an enum engine_status: ENGINE_ERROR_DATA where the picture is to
 * blame, another where the server is. Except for ENGINE_ERROR_MEMORY, `message` then says why. */
int child_decode(const char *program, const struct picture_limits *limits, const void *bytes, size_t size,
                 struct picture *picture, char *message, size_t message_size);

#endif
