/* pictures.c: pictures of requests to their bytes, and who decodes them when. See pictures.h. */
#include "serve/pictures/pictures.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/base64.h"
#include "common/lock.h"
#include "decode/decode.h"
#include "serve/params/api-error.h"
#include "serve/pictures/internal.h"

#define MOST_CHILDREN 4 /* at a time: each may need much memory */

struct pictures {
    struct picture_limits limits;
    char *program;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    unsigned running; /* processes */
};

static char *find_program(void)
{
    char path[4096], *program = NULL;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    char *name = length > 0 ? memrchr(path, '/', (size_t)length) : NULL;
    int folder = name ? (int)(name - path) : 0;
    return asprintf(&program, "%.*s/" DECODE_PROGRAM, folder, path) >= 0 ? program : NULL;
}

struct pictures *pictures_open(const char *program, const struct picture_limits *limits)
{
    struct pictures *pictures = calloc(1, sizeof *pictures);
    if (!pictures) return NULL;
    pictures->limits = *limits;
    pictures->program = program ? strdup(program) : find_program();
    if (!pictures->program) {
        free(pictures);
        return NULL;
    }
    lock_init(&pictures->lock);
    pthread_cond_init(&pictures->ended, NULL);
    return pictures;
}

void pictures_close(struct pictures *pictures)
{
    if (!pictures) return;
    pthread_mutex_destroy(&pictures->lock);
    pthread_cond_destroy(&pictures->ended);
    free(pictures->program);
    free(pictures);
}

bool pictures_check_count(const struct pictures *pictures, size_t count, struct api_error *error)
{
    if (count <= pictures->limits.count) return true;
    return api_error_in(error, NULL, "the request has %zu pictures; at most %u are allowed", count,
                        pictures->limits.count);
}

bool pictures_read(struct pictures *pictures, const char *param, const void *bytes, size_t size,
                   struct picture *picture, struct api_error *error)
{
    char message[400];
    *picture = (struct picture){0};
    if (size > pictures->limits.bytes)
        return api_error_in(error, param, "the picture in %s has %zu bytes; at most %zu are allowed", param,
                            size, pictures->limits.bytes);
    pthread_mutex_lock(&pictures->lock);
    while (pictures->running == MOST_CHILDREN) pthread_cond_wait(&pictures->ended, &pictures->lock);
    pictures->running++;
    pthread_mutex_unlock(&pictures->lock);
    int status =
        child_decode(pictures->program, &pictures->limits, bytes, size, picture, message, sizeof message);
    pthread_mutex_lock(&pictures->lock);
    pictures->running--;
    pthread_cond_signal(&pictures->ended);
    pthread_mutex_unlock(&pictures->lock);
    if (status == ENGINE_OK) return true;
    if (status == ENGINE_ERROR_MEMORY) return api_error_memory(error);
    const bool was_right = error->status == 0;
    api_error_in(error, param, "the picture in %s cannot be decoded: %s", param, message);
    if (was_right && status != ENGINE_ERROR_DATA) error->status = 500;
    return false;
}

bool pictures_read_base64(struct pictures *pictures, const char *param, const char *text, size_t length,
                          struct picture *picture, struct api_error *error)
{
    size_t size;
    *picture = (struct picture){0};
    uint8_t *bytes = malloc(base64_room(length));
    if (!bytes) return api_error_memory(error);
    const bool decoded = base64_read(text, length, bytes, &size)
                             ? pictures_read(pictures, param, bytes, size, picture, error)
                             : api_error_in(error, param, "the picture in %s is not base64", param);
    free(bytes);
    return decoded;
}

bool pictures_read_url(struct pictures *pictures, const char *param, const char *url, size_t length,
                       struct picture *picture, struct api_error *error)
{
    static const char scheme[] = "data:", coding[] = ";base64";
    const size_t scheme_length = sizeof scheme - 1, coding_length = sizeof coding - 1;
    *picture = (struct picture){0};
    if (length < scheme_length || strncasecmp(url, scheme, scheme_length) != 0)
        return api_error_in(
            error, param,
            "the picture in %s is an address that the server does not fetch: send it as a data "
            "URL, data:image/png;base64,…",
            param);
    const char *comma = memchr(url, ',', length);
    const size_t before = comma ? (size_t)(comma - url) : 0;
    if (before < scheme_length + coding_length ||
        strncasecmp(comma - coding_length, coding, coding_length) != 0)
        return api_error_in(error, param, "the picture in %s is a data URL without \";base64,\"", param);
    return pictures_read_base64(pictures, param, comma + 1, length - before - 1, picture, error);
}
