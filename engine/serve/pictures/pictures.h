/* pictures.h: the pictures of requests, from data URLs or base64 to pixels. Each is decoded by a process of
 * its own (engine-decode) that has no files, no sockets, and little memory and time, so that a picture that
 * makes a decoder crash, or takes it over, fails one request. */
#ifndef ENGINE_SERVE_PICTURES_PICTURES_H
#define ENGINE_SERVE_PICTURES_PICTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api_error;

struct picture_limits {
    uint64_t pixels; /* width * height of a picture */
    size_t bytes;    /* of its file */
    unsigned count;  /* of a request's pictures */
    double seconds;  /* for decoding one */
};

#define PICTURE_LIMITS                                                                                       \
    ((struct picture_limits){                                                                                \
        .pixels = UINT64_C(64) << 20, .bytes = (size_t)32 << 20, .count = 16, .seconds = 20})

struct picture {
    uint32_t width, height;
    uint8_t *pixels; /* (height, width, 3): red, green, blue; owned */
};

/* Decodes pictures; used by all threads. */
struct pictures;

/* `program` is that of decode.h; NULL: the one in the folder of this program. NULL: out of memory. */
struct pictures *pictures_open(const char *program, const struct picture_limits *limits);
void pictures_close(struct pictures *pictures);

/* [thread-safe] Decodes the bytes of a file. `param` is the field of the request, for the error: status 400
 * if the picture is to blame, 500 if the server is. Returns whether it worked; then the caller frees the
 * pixels. SIGPIPE must be ignored. */
bool pictures_read(struct pictures *pictures, const char *param, const void *bytes, size_t size,
                   struct picture *picture, struct api_error *error);
/* [thread-safe] The same for base64. */
bool pictures_read_base64(struct pictures *pictures, const char *param, const char *text, size_t length,
                          struct picture *picture, struct api_error *error);
/* [thread-safe] The same for a URL, which must be a data URL with base64: data:image/png;base64,… */
bool pictures_read_url(struct pictures *pictures, const char *param, const char *url, size_t length,
                       struct picture *picture, struct api_error *error);

/* Whether a request may have so many pictures; otherwise records an error. */
bool pictures_check_count(const struct pictures *pictures, size_t count, struct api_error *error);

#endif
