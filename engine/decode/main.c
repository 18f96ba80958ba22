/* main.c: the program engine-decode, which decodes one picture for the server. See decode.h. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "decode/decode.h"
#include "decode/sandbox.h"
#include "image/image.h"

/* Closes what the server had open, which another of its threads may have opened without O_CLOEXEC. */
static void close_others(void)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 3, ~0U, 0) == 0) return;
#endif
    for (long n = sysconf(_SC_OPEN_MAX), i = 3; i < n && i < 65536; i++) close((int)i);
}

static bool read_all(uint8_t *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(0, bytes + done, size - done);
        if (n == 0 || (n < 0 && errno != EINTR)) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

static bool write_all(const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(1, (const uint8_t *)bytes + done, size - done);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

static bool answer_failure(int status)
{
    const char *message = error_message();
    const struct decode_answer answer = {.status = (uint32_t)status, .length = (uint32_t)strlen(message)};
    return write_all(&answer, sizeof answer) && write_all(message, answer.length);
}

static bool answer_picture(const void *bytes, size_t size, const struct image_limits *limits)
{
    struct image image;
    int status = image_read(bytes, size, limits, &image);
    if (status) return answer_failure(status);
    const struct decode_answer answer = {.width = image.width, .height = image.height};
    const bool written =
        write_all(&answer, sizeof answer) && write_all(image.pixels, (size_t)image.width * image.height * 3);
    image_free(&image);
    return written;
}

static bool decode(size_t size, const struct image_limits *limits)
{
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes) return answer_failure(error_memory("a picture's file"));
    const bool answered = read_all(bytes, size) && answer_picture(bytes, size, limits);
    free(bytes);
    return answered;
}

int main(int argc, char **argv)
{
    uint64_t numbers[4];
    if (argc != 5) return 2;
    for (int i = 0; i < 4; i++) {
        char *end;
        errno = 0;
        numbers[i] = strtoull(argv[i + 1], &end, 10);
        if (errno || *end || end == argv[i + 1]) return 2;
    }
    const struct image_limits limits = {.pixels = numbers[1], .bytes = (size_t)numbers[0]};
    close_others();
    free(malloc(1)); /* its first use may ask for more than the sandbox has */
    if (!sandbox_enter(numbers[2], numbers[3])) return 3;
    /* No function of atexit: the sandbox doesn't know what those need. */
    _exit(decode((size_t)numbers[0], &limits) ? 0 : 1);
}
