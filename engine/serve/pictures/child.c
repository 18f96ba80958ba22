/* child.c: a picture's process. See internal.h.
 *
 * Everything that comes from it is checked like a client's request: a picture may have taken it over. */
#include "serve/pictures/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/printable.h"
#include "decode/decode.h"
#include "engine.h"

/* Most address space: by pixel, of which a progressive JPEG in CMYK takes 11 bytes; and for the rest. */
#define MEMORY_OF_PIXEL 12
#define MEMORY_OF_REST  (UINT64_C(128) << 20)
/* The clock's seconds for one of the processor. */
#define PATIENCE 3

struct child {
    pid_t pid;
    int input, output; /* pipes to and from it; -1: closed */
    const uint8_t *bytes;
    size_t left;      /* bytes that it has not taken yet */
    double deadline;  /* seconds_now */
    bool is_too_late; /* the deadline has passed */
};

#define NO_ANSWER (-1)

static void close_end(int *end)
{
    if (*end >= 0) close(*end);
    *end = -1;
}

/* The pipes are not inherited by processes that other threads start. */
static int child_spawn(struct child *child, const char *program, char **arguments)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0) return errno;
    if (pipe2(out, O_CLOEXEC) != 0) {
        int error = errno;
        close(in[0]);
        close(in[1]);
        return error;
    }
    /* Nothing of the server's environment, which may have keys in it, except where libraries are. */
    static char path_name[] = "LD_LIBRARY_PATH=";
    const char *path = getenv("LD_LIBRARY_PATH");
    char *variable = NULL, *environment[2] = {NULL, NULL};
    if (path && asprintf(&variable, "%s%s", path_name, path) >= 0) environment[0] = variable;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int error = posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    if (!error) error = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (!error) error = posix_spawn(&child->pid, program, &actions, &attributes, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(variable);
    close(in[0]);
    close(out[1]);
    child->input = in[1];
    child->output = out[0];
    fcntl(child->input, F_SETFL, O_NONBLOCK);
    fcntl(child->output, F_SETFL, O_NONBLOCK);
    if (error) {
        close_end(&child->input);
        close_end(&child->output);
    }
    return error;
}

/* Gives it what it takes of its picture. Should it close its end, its answer says why. */
static void child_feed(struct child *child)
{
    ssize_t n = write(child->input, child->bytes, child->left);
    if (n > 0) {
        child->bytes += n;
        child->left -= (size_t)n;
    }
    if (child->left == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) close_end(&child->input);
}

/* Reads `size` bytes of its answer, and feeds it meanwhile. False: it ended, or it is too late. */
static bool child_read(struct child *child, void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        struct pollfd ends[2] = {{.fd = child->output, .events = POLLIN},
                                 {.fd = child->input, .events = POLLOUT}}; /* -1 is passed over */
        const double rest = child->deadline - seconds_now();
        if (rest <= 0) {
            child->is_too_late = true;
            return false;
        }
        if (poll(ends, 2, (int)ceil(rest * 1000)) < 0 && errno != EINTR) return false;
        if (ends[1].revents) child_feed(child);
        if (!ends[0].revents) continue;
        ssize_t n = read(child->output, (uint8_t *)bytes + done, size - done);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

/* Ends it; returns waitpid's status. One that `ends` by itself gets a moment, so that the status says how. */
static int child_end(struct child *child, bool ends)
{
    int how = 0;
    close_end(&child->input);
    close_end(&child->output);
    for (int i = 0; ends && i < 1000; i++) {
        if (waitpid(child->pid, &how, WNOHANG) == child->pid) return how;
        usleep(1000);
    }
    kill(child->pid, SIGKILL);
    while (waitpid(child->pid, &how, 0) < 0 && errno == EINTR) continue;
    return how;
}

/* Takes its answer: the picture, or a message. Returns an enum engine_status, or NO_ANSWER. */
static int child_answer(struct child *child, const struct picture_limits *limits, struct picture *picture,
                        char *message, size_t message_size)
{
    struct decode_answer answer;
    if (!child_read(child, &answer, sizeof answer)) return NO_ANSWER;
    if (answer.status != ENGINE_OK) {
        size_t length = answer.length < message_size ? answer.length : message_size - 1;
        if (!child_read(child, message, length)) return NO_ANSWER;
        message[length] = '\0';
        printable_make(message);
        return ENGINE_ERROR_DATA;
    }
    if (answer.width == 0 || answer.height == 0 || (uint64_t)answer.width * answer.height > limits->pixels)
        return NO_ANSWER;
    const size_t bytes = (size_t)answer.width * answer.height * 3;
    uint8_t *pixels = malloc(bytes);
    if (!pixels) return ENGINE_ERROR_MEMORY;
    if (!child_read(child, pixels, bytes)) {
        free(pixels);
        return NO_ANSWER;
    }
    *picture = (struct picture){answer.width, answer.height, pixels};
    return ENGINE_OK;
}

/* Why there was no answer. */
static int child_lost(const struct child *child, int how, char *message, size_t size)
{
    const int signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    if (child->is_too_late || signal == SIGXCPU) {
        snprintf(message, size, "decoding it takes too long");
        return ENGINE_ERROR_DATA;
    }
    if (WIFEXITED(how) && WEXITSTATUS(how) > 1) {
        snprintf(message, size, "the program %s failed at its start (status %d)", DECODE_PROGRAM,
                 WEXITSTATUS(how));
        return ENGINE_ERROR;
    }
    snprintf(message, size, "its decoder %s", signal == SIGSYS ? "did what it must not" : "crashed");
    return ENGINE_ERROR_DATA;
}

int child_decode(const char *program, const struct picture_limits *limits, const void *bytes, size_t size,
                 struct picture *picture, char *message, size_t message_size)
{
    struct child child = {.input = -1, .output = -1, .bytes = bytes, .left = size};
    char numbers[4][24];
    char name[] = DECODE_PROGRAM;
    char *arguments[] = {name, numbers[0], numbers[1], numbers[2], numbers[3], NULL};
    const uint64_t memory = limits->pixels * MEMORY_OF_PIXEL + size + MEMORY_OF_REST;
    *picture = (struct picture){0};
    snprintf(numbers[0], sizeof numbers[0], "%zu", size);
    snprintf(numbers[1], sizeof numbers[1], "%llu", (unsigned long long)limits->pixels);
    snprintf(numbers[2], sizeof numbers[2], "%llu", (unsigned long long)memory);
    snprintf(numbers[3], sizeof numbers[3], "%.0f", ceil(limits->seconds));
    int error = child_spawn(&child, program, arguments);
    if (error) {
        snprintf(message, message_size, "%s: %s", program, strerror(error));
        return ENGINE_ERROR;
    }
    child.deadline = seconds_now() + limits->seconds * PATIENCE;
    const int status = child_answer(&child, limits, picture, message, message_size);
    const int how = child_end(&child, status == NO_ANSWER && !child.is_too_late);
    return status == NO_ANSWER ? child_lost(&child, how, message, message_size) : status;
}
