/* pictures.c: pictures of requests, decoded by engine-decode; and by programs that answer nonsense or not at
 * all, as a picture that takes it over might. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "serve/params/api-error.h"
#include "serve/pictures/pictures.h"

#define IMAGES TEST_SOURCE_DIR "/data/images/"
#define WHERE  "messages[0].content[1].image_url.url"

static void begin(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the server does */
}

TestSuite(serve_pictures, .init = begin);

static struct pictures *decoder(const struct picture_limits *limits)
{
    char program[600];
    const char *folder = TEST_ENGINE;
    snprintf(program, sizeof program, "%.*s/engine-decode", (int)(strrchr(folder, '/') - folder), folder);
    struct pictures *pictures = pictures_open(program, limits);
    cr_assert(pictures);
    return pictures;
}

/* The error of a picture that is not decoded. */
static void expect_error(const struct api_error *error, unsigned status, const char *reason)
{
    cr_expect_eq(error->status, status, "%u: %s", error->status, error->message);
    cr_expect(strstr(error->message, reason), "%s, not %s", error->message, reason);
}

/* Text in base64, with the padding. */
static char *base64_of(const void *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *bytes = data;
    char *text = calloc(1, size / 3 * 4 + 5), *to = text;
    for (size_t i = 0; i < size; i += 3) {
        const size_t n = size - i < 3 ? size - i : 3;
        uint32_t bits = (uint32_t)bytes[i] << 16;
        if (n > 1) bits |= (uint32_t)bytes[i + 1] << 8;
        if (n > 2) bits |= bytes[i + 2];
        for (size_t k = 0; k < 4; k++) *to++ = k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=';
    }
    return text;
}

Test(serve_pictures, formats)
{
    static const char *const names[] = {"png/rgba.png", "jpeg/exif-6.jpg", "webp/animated.webp",
                                        "gif/transparent.gif", "bmp/rle8.bmp"};
    struct pictures *pictures = decoder(&PICTURE_LIMITS);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct api_error error = {0};
        struct picture picture;
        char path[400], begin_of_ppm[60];
        size_t size, expected_size;
        snprintf(path, sizeof path, IMAGES "%s", names[i]);
        char *data = files_read(path, &size);
        snprintf(path, sizeof path, IMAGES "expected/%s.ppm", strchr(names[i], '/') + 1);
        char *expected = files_read(path, &expected_size);
        cr_assert(pictures_read(pictures, WHERE, data, size, &picture, &error), "%s", error.message);
        const size_t begins = (size_t)snprintf(begin_of_ppm, sizeof begin_of_ppm, "P6\n%u %u\n255\n",
                                               picture.width, picture.height);
        const size_t bytes = (size_t)picture.width * picture.height * 3;
        cr_assert_eq(expected_size, begins + bytes);
        cr_expect_eq(memcmp(expected, begin_of_ppm, begins), 0);
        cr_expect_eq(memcmp(expected + begins, picture.pixels, bytes), 0, "%s", names[i]);
        free(picture.pixels);
        free(expected);
        free(data);
    }
    pictures_close(pictures);
}

Test(serve_pictures, urls)
{
    struct pictures *pictures = decoder(&PICTURE_LIMITS);
    size_t size;
    char *data = files_read(IMAGES "gif/plain.gif", &size), *text = base64_of(data, size), *url;
    static const char *const good[] = {"data:image/gif;base64,", "data:image/png;base64,", "DATA:;Base64,",
                                       "data:image/gif;name=a,b;base64,"};
    for (size_t i = 0; i < 4; i++) {
        struct api_error error = {0};
        struct picture picture;
        const bool comma = i == 3; /* the first one ends the header */
        cr_assert_geq(asprintf(&url, "%s%s", good[i], text), 0);
        cr_expect_eq(pictures_read_url(pictures, WHERE, url, strlen(url), &picture, &error), !comma, "%s",
                     error.message);
        if (!comma) cr_expect(picture.width == 23 && picture.height == 14);
        if (comma) expect_error(&error, 400, "without \";base64,\"");
        free(picture.pixels);
        free(url);
    }
    static const struct {
        const char *url, *reason;
    } bad[] = {
        {"https://example.org/a.png", "does not fetch"},
        {"", "does not fetch"},
        {"data:", "without \";base64,\""},
        {"data:image/png,abc", "without \";base64,\""},
        {"data:image/png;base64", "without \";base64,\""},
        {"data:image/png;base64,", "not a PNG, JPEG, WebP, GIF or BMP file"},
        {"data:image/png;base64,aGVsbG8=", "not a PNG, JPEG, WebP, GIF or BMP file"},
        {"data:image/png;base64,aGVsb", "not base64"},
        {"data:image/png;base64,aGV*bG8=", "not base64"},
        {"data:image/png;base64,iVBORw0KGgo=", "truncated"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct api_error error = {0};
        struct picture picture;
        cr_expect_not(pictures_read_url(pictures, WHERE, bad[i].url, strlen(bad[i].url), &picture, &error));
        cr_expect_null(picture.pixels);
        cr_expect_str_eq(error.param, WHERE);
        cr_expect(strstr(error.message, WHERE), "%s", error.message);
        expect_error(&error, 400, bad[i].reason);
    }
    free(text);
    free(data);
    pictures_close(pictures);
}

Test(serve_pictures, limits)
{
    struct picture_limits limits = {.pixels = 100, .bytes = 400, .count = 2, .seconds = 5};
    struct pictures *pictures = decoder(&limits);
    struct api_error error = {0};
    struct picture picture;
    size_t size;
    char *data = files_read(IMAGES "gif/plain.gif", &size);
    cr_expect_not(pictures_read(pictures, WHERE, data, size, &picture, &error));
    expect_error(&error, 400, "23 x 14 pixels; at most 100 are allowed");
    error = (struct api_error){0};
    cr_expect_not(pictures_read(pictures, WHERE, data, 401, &picture, &error));
    expect_error(&error, 400, "401 bytes; at most 400 are allowed");
    error = (struct api_error){0};
    cr_expect(pictures_check_count(pictures, 2, &error));
    cr_expect_not(pictures_check_count(pictures, 3, &error));
    expect_error(&error, 400, "3 pictures; at most 2 are allowed");
    free(data);
    pictures_close(pictures);
}

/* A program in the place of engine-decode, and what is said of the picture then. */
static void expect_within(double seconds, const char *program, unsigned status, const char *reason)
{
    const struct picture_limits limits = {.pixels = 1000, .bytes = 1 << 20, .count = 1, .seconds = seconds};
    static char bytes[1 << 20];
    struct pictures *pictures = pictures_open(program, &limits);
    struct api_error error = {0};
    struct picture picture;
    cr_expect_not(pictures_read(pictures, WHERE, bytes, sizeof bytes, &picture, &error));
    cr_expect_null(picture.pixels);
    expect_error(&error, status, reason);
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "%s: a process is left", program);
    pictures_close(pictures);
}

static void expect_of(const char *program, unsigned status, const char *reason)
{
    expect_within(5, program, status, reason);
}

static char *script(const char *folder, const char *text)
{
    const char *path = files_path(folder, "script");
    files_write_text(path, text);
    cr_assert_eq(chmod(path, 0755), 0);
    return (char *)(size_t)path;
}

Test(serve_pictures, lost)
{
    char *folder = files_folder();
    expect_of("/no/such/program", 500, "No such file");
    expect_of("/bin/false", 400, "its decoder crashed");
    expect_of(script(folder, "#!/bin/sh\nexit 3\n"), 500, "failed at its start (status 3)");
    expect_of(script(folder, "#!/bin/sh\nkill -SEGV $$\n"), 400, "its decoder crashed");
    expect_of(script(folder, "#!/bin/sh\nkill -SYS $$\n"), 400, "did what it must not");
    expect_of(script(folder, "#!/bin/sh\nkill -XCPU $$\n"), 400, "takes too long");
    expect_within(0.1, script(folder, "#!/bin/sh\nexec sleep 60\n"), 400, "takes too long");
    expect_of(script(folder, "#!/bin/sh\nexec 1>&-\nkill -SEGV $$\n"), 400, "its decoder crashed");
    /* Answers that promise more than the limits, or than comes. */
    expect_of(
        script(folder,
               "#!/bin/sh\nprintf '\\0\\0\\0\\0\\377\\0\\0\\0\\377\\0\\0\\0\\0\\0\\0\\0'; cat /dev/zero\n"),
        400, "its decoder crashed");
    expect_of(script(folder, "#!/bin/sh\nprintf '\\0\\0\\0\\0\\1\\0\\0\\0\\1\\0\\0\\0\\0\\0\\0\\0'\n"), 400,
              "its decoder crashed");
    expect_of(script(folder, "#!/bin/sh\nprintf '\\6\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\2\\0\\0\\0hi'\n"), 400,
              "cannot be decoded: hi");
    expect_of(
        script(folder,
               "#!/bin/sh\nprintf '\\6\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\377\\377\\377\\377'; exec yes\n"),
        400, "cannot be decoded: y y y");
    files_remove(folder);
    free(folder);
}
