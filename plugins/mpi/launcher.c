/* launcher.c: see launcher.h. A process of its own waits, because it has to outlive this one. */
#include "launcher.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GRACE = 8000, LAST_GRACE = 3000 }; /* milliseconds */

/* Whether it is mpirun, or its daemon on another machine. */
static bool is_launcher(pid_t process)
{
    static const char *const names[] = {"orterun", "orted", "prterun", "prte", "prted"};
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/%ld/exe", (long)process);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return false;
    path[length] = '\0';
    const char *name = strrchr(path, '/');
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name + 1, names[i]) == 0) return true;
    return false;
}

static int open_process(pid_t process)
{
    return (int)syscall(SYS_pidfd_open, process, 0);
}

/* Whether a process has ended after so many milliseconds; less than 0: when it has. */
static bool has_ended(int process, int milliseconds)
{
    struct pollfd polled = {.fd = process, .events = POLLIN};
    return poll(&polled, 1, milliseconds) > 0;
}

/* Keeps no file of this process open: launchers wait until all have been closed. Only what may be called
 * after fork. */
static void keep_only(int one, int other)
{
    const long most = sysconf(_SC_OPEN_MAX);
    for (int file = 0; file < (most > 0 && most < 65536 ? most : 65536); file++)
        if (file != one && file != other) close(file);
}

static void watch(int process, int launcher)
{
    setsid();
    keep_only(process, launcher);
    has_ended(process, -1);
    if (has_ended(launcher, GRACE)) return;
    syscall(SYS_pidfd_send_signal, launcher, SIGTERM, NULL, 0);
    if (has_ended(launcher, LAST_GRACE)) return;
    syscall(SYS_pidfd_send_signal, launcher, SIGKILL, NULL, 0);
}

void launcher_end_later(void)
{
    const pid_t parent = getppid();
    if (!is_launcher(parent)) return;
    int launcher = open_process(parent), process = open_process(getpid());
    /* Otherwise the parent may have ended and its number be another's. */
    if (launcher >= 0 && process >= 0 && getppid() == parent) {
        pid_t child = fork();
        if (child == 0) {
            watch(process, launcher);
            _exit(0);
        }
    }
    if (launcher >= 0) close(launcher);
    if (process >= 0) close(process);
}
