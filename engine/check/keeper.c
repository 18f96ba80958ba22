/* keeper.c: see keeper.h. */
#include "check/keeper.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "common/clock.h"

enum {
    /* how often it checks whether the caller is alive, and whether a silent process still runs */
    SLICE_MS = 50,
    ORPHANS_MS = 1000,    /* time for the remaining processes to end by themselves */
    UNKILLABLE_MS = 10000 /* a process that outlives this hangs in the kernel */
};

void keeper_become(void)
{
    static const int of_the_caller[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE};
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGCHLD, SIG_DFL); /* children must be waited for, however the caller handles its own */
    for (size_t i = 0; i < sizeof of_the_caller / sizeof *of_the_caller; i++)
        signal(of_the_caller[i], SIG_IGN);
}

/* ---- Remaining processes ------------------------------------------------------------------------------- */

/* Whether a process is a living child of this one; its name. */
static bool is_child(const char *pid, char name[32])
{
    char path[64], line[512], state = 0;
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t size = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[size] = '\0';
    char *open = strchr(line, '('), *close = strrchr(line, ')'); /* the name may have brackets in it */
    if (!open || !close || sscanf(close + 1, " %c %d", &state, &parent) != 2) return false;
    if (parent != getpid() || state == 'Z' || state == 'X') return false;
    *close = '\0';
    snprintf(name, 32, "%s", open + 1);
    return true;
}

/* Sends a signal (0: none) to each child; returns their number. `name`: of one of them. */
static unsigned signal_children(int signal_number, char name[32])
{
    unsigned n = 0;
    DIR *processes = opendir("/proc");
    const struct dirent *entry;
    while (processes && (entry = readdir(processes))) {
        if (!isdigit((unsigned char)entry->d_name[0]) || !is_child(entry->d_name, name)) continue;
        n++;
        if (signal_number) kill((pid_t)strtol(entry->d_name, NULL, 10), signal_number);
    }
    if (processes) closedir(processes);
    return n;
}

/* Collects ended children; returns whether any are left. */
static bool reap(void)
{
    pid_t ended;
    while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) {
    }
    return ended == 0;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* Kills all descendants. Children of a killed process become ours, so this repeats until none are left. */
static void kill_all(void)
{
    char name[32];
    for (int ms = 0; reap() && ms < UNKILLABLE_MS; ms += 5) {
        signal_children(SIGKILL, name);
        sleep_ms(5);
    }
}

/* ---- Processes ------------------------------------------------------------------------------------- */

static bool caller_is_gone(const struct keeper *keeper)
{
    struct pollfd out = {.fd = keeper->out};
    return poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP | POLLNVAL));
}

int keeper_fork(const struct keeper *keeper, struct kept *kept, int *to)
{
    const pid_t parent = getpid();
    int ends[2];
    *kept = (struct kept){.pid = -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return error_raise(ENGINE_ERROR, "no pipe: %s", strerror(errno));
    fflush(NULL);
    kept->pid = fork();
    if (kept->pid < 0) {
        close(ends[0]), close(ends[1]);
        return error_raise(ENGINE_ERROR, "no process: %s", strerror(errno));
    }
    if (kept->pid > 0) {
        setpgid(kept->pid, kept->pid); /* parent and child both do it: one of them is first */
        close(ends[1]);
        kept->from = ends[0];
        return ENGINE_OK;
    }
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    for (int i = 1; i < 32; i++) signal(i, i == SIGTTOU ? SIG_IGN : SIG_DFL);
    close(ends[0]);
    close(keeper->out);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    *to = ends[1];
    return ENGINE_OK;
}

static bool has_ended(struct kept *kept)
{
    if (!kept->is_reaped) kept->is_reaped = waitpid(kept->pid, &kept->how, WNOHANG) != 0;
    return kept->is_reaped;
}

/* A time limit that counts only while this process runs too, so that neither a debugger nor Ctrl-Z looks like
 * a hang. */
struct patience {
    double last, spent;
};

static bool is_over(struct patience *patience, const struct keeper *keeper)
{
    const double time = seconds_now(), passed = time - patience->last;
    patience->last = time;
    patience->spent += passed < 1 ? passed : 1;
    return patience->spent > keeper->seconds;
}

void keeper_clean(const struct keeper *keeper)
{
    DIR *folder = keeper->folder ? opendir(keeper->folder) : NULL;
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder) closedir(folder);
    if (keeper->folder) rmdir(keeper->folder);
}

_Noreturn void keeper_abandon(const struct keeper *keeper)
{
    kill_all();
    keeper_clean(keeper);
    _exit(1);
}

bool keeper_read(const struct keeper *keeper, struct kept *kept, void *record, size_t size)
{
    struct patience patience = {seconds_now(), 0};
    size_t used = 0;
    while (used < size) {
        struct pollfd wait[2] = {{.fd = kept->from, .events = POLLIN}, {.fd = keeper->out}};
        /* A child of that process may hold the pipe open, so its end is checked before the last poll. */
        const bool ended = has_ended(kept);
        if (poll(wait, 2, ended ? 0 : SLICE_MS) < 0 && errno != EINTR) return false;
        if (wait[1].revents) keeper_abandon(keeper);
        if (wait[0].revents) {
            ssize_t got = read(kept->from, (char *)record + used, size - used);
            if (got > 0) used += (size_t)got;
            if (got == 0 || (got < 0 && errno != EINTR)) return false;
        } else if (ended) {
            return false;
        }
        if (is_over(&patience, keeper) && used < size) {
            kept->end = KEEPER_HANGS;
            return false;
        }
    }
    return true;
}

void keeper_end(const struct keeper *keeper, struct kept *kept, bool waits)
{
    struct patience patience = {seconds_now(), 0};
    waits = waits && kept->end == KEEPER_RUNS;
    while (!has_ended(kept)) {
        if (caller_is_gone(keeper)) keeper_abandon(keeper);
        if (!waits || is_over(&patience, keeper)) {
            if (kept->end == KEEPER_RUNS) kept->end = waits ? KEEPER_HANGS : KEEPER_BABBLES;
            kill(-kept->pid, SIGKILL);
            kill(kept->pid, SIGKILL);
            while (waitpid(kept->pid, &kept->how, 0) < 0 && errno == EINTR) {
            }
            kept->is_reaped = true;
        } else {
            sleep_ms(1);
        }
    }
    close(kept->from);
    if (kept->end == KEEPER_RUNS) {
        kept->end = KEEPER_ENDED;
        for (int ms = 0; reap() && ms < ORPHANS_MS; ms += 10) sleep_ms(10);
        kept->n_left = signal_children(0, kept->left);
    }
    kill_all();
}
