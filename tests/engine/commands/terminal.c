/* terminal.c: see terminal.h. */
#include "terminal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Nothing takes so long, even under emulation and with sanitizers; a program that hangs does. */
#define PATIENCE_MS 600000

void terminal_start(struct terminal *terminal, const char *const *arguments)
{
    const char *argv[64] = {"engine"};
    struct winsize size = {.ws_row = 50, .ws_col = 200};
    for (size_t i = 0; i < 62 && arguments[i]; i++) argv[i + 1] = arguments[i];
    *terminal = (struct terminal){0};
    terminal->child = forkpty(&terminal->fd, NULL, NULL, &size);
    cr_assert(terminal->child >= 0);
    if (terminal->child > 0) return;
    signal(SIGINT, SIG_DFL); /* where the tests run in the background it would be ignored */
    setenv("XDG_CONFIG_HOME", "/dev/null", 1);
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    execv(TEST_ENGINE, (char *const *)(size_t)argv);
    _exit(127);
}

void terminal_resize(struct terminal *terminal, unsigned short columns)
{
    const struct winsize size = {.ws_row = 50, .ws_col = columns};
    cr_assert_eq(ioctl(terminal->fd, TIOCSWINSZ, &size), 0);
}

void terminal_type(struct terminal *terminal, const char *keys)
{
    size_t length = strlen(keys);
    cr_assert_eq(write(terminal->fd, keys, length), (ssize_t)length);
}

/* Takes what has come; waits for something. False: the program has ended, or is silent. */
static bool listen_to(struct terminal *terminal)
{
    struct pollfd poll_for = {.fd = terminal->fd, .events = POLLIN};
    if (terminal->capacity - terminal->size < 4097) {
        terminal->capacity = terminal->capacity * 2 + 8192;
        terminal->text = realloc(terminal->text, terminal->capacity);
        cr_assert(terminal->text);
    }
    if (poll(&poll_for, 1, PATIENCE_MS) <= 0) return false;
    ssize_t n = read(terminal->fd, terminal->text + terminal->size, 4096);
    if (n <= 0) return false;
    terminal->size += (size_t)n;
    terminal->text[terminal->size] = 0;
    return true;
}

void terminal_expect(struct terminal *terminal, const char *text)
{
    const char *at;
    while (!terminal->text || !(at = strstr(terminal->text + terminal->seen, text)))
        cr_assert(listen_to(terminal), "'%s' did not come after\n%s\nin\n%s", text,
                  terminal->text ? terminal->text + terminal->seen : "",
                  terminal->text ? terminal->text : "");
    terminal->seen = (size_t)(at - terminal->text) + strlen(text);
}

void terminal_expect_end(struct terminal *terminal, int expected)
{
    int status, ended;
    while (listen_to(terminal)) continue;
    struct pollfd poll_for = {.fd = terminal->fd, .events = POLLIN};
    if (poll(&poll_for, 1, 0) == 0) kill(terminal->child, SIGKILL); /* it hangs */
    cr_assert_eq(waitpid(terminal->child, &status, 0), terminal->child);
    ended = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    cr_assert_eq(ended, expected, "status %d in place of %d after\n%s", ended, expected, terminal->text);
    close(terminal->fd);
    free(terminal->text);
}
