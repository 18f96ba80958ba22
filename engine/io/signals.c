/* signals.c: see signals.h. */
#include "io/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "common/printable.h"
#include "io/messages.h"
#include "io/output.h"

/* ---- The terminal -------------------------------------------------------------------------------------- */

static struct termios kept;
static volatile sig_atomic_t is_kept;

void terminal_state_keep(void)
{
    if (!is_kept && tcgetattr(STDIN_FILENO, &kept) == 0) is_kept = 1;
}

void terminal_state_hide_typing(void)
{
    struct termios now;
    if (!is_kept || tcgetattr(STDIN_FILENO, &now) != 0) return;
    now.c_lflag &= ~(tcflag_t)(ECHO | ECHOCTL | ECHONL);
    tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

void terminal_state_restore(void)
{
    if (is_kept) tcsetattr(STDIN_FILENO, TCSANOW, &kept);
    is_kept = 0;
}

/* ---- Mapped files -------------------------------------------------------------------------------------- */

/* Finds the file that an address belongs to. Reads /proc/self/maps, which has a line for each mapping:
 *
 *     7f00c2a00000-7f00c2b00000 r--p 00000000 fe:00 247498    /home/me/model.gguf */

#define LINE_SIZE 5000 /* a path, the fields before it, and bytes escaped as \012 */

/* A hexadecimal number; advances *text past it. */
static uintptr_t read_number(const char **text)
{
    static const char digits[] = "0123456789abcdef";
    uintptr_t number = 0;
    for (const char *digit; **text && (digit = strchr(digits, **text)); ++*text)
        number = number * 16 + (uintptr_t)(digit - digits);
    return number;
}

/* Whether a line describes the mapping that has the address; *path: the start of its path, NULL if it has
 * none. */
static bool signals_holds(const char *line, uintptr_t address, const char **path)
{
    uintptr_t start = read_number(&line);
    if (*line++ != '-') return false;
    uintptr_t end = read_number(&line);
    *path = strchr(line, '/');
    return address >= start && address < end;
}

/* Not a device, nor memory that the kernel gives a name: shared memory is "/dev/zero (deleted)" and the like.
 * A file that cannot be looked at, as it has been deleted, counts as one. */
static bool is_file(const char *path)
{
    static const char *const memory[] = {"/memfd:", "/dev/zero", "/SYSV"};
    struct stat info;
    if (!path) return false;
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (strncmp(path, memory[i], strlen(memory[i])) == 0) return false;
    return stat(path, &info) != 0 || S_ISREG(info.st_mode);
}

/* The path of the file mapped at an address, cut to `size` bytes and without control characters. False if
 * there is none, or only a device. Safe in signal handlers. */
static bool mapped_file_at(const void *address, char *path, size_t size)
{
    static const char deleted[] = " (deleted)";
    char line[LINE_SIZE], bytes[1024];
    size_t used = 0;
    const char *found = NULL;
    bool over = false;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0) return false;
    for (ssize_t n; !over && (n = read(maps, bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < n && !over; i++) {
            if (bytes[i] != '\n') {
                if (used < sizeof line - 1) line[used++] = bytes[i];
                continue;
            }
            line[used] = '\0';
            used = 0;
            over = signals_holds(line, (uintptr_t)address, &found);
        }
    close(maps);
    if (!over || !is_file(found)) return false;
    size_t length = strlen(found), end = sizeof deleted - 1;
    if (length > end && memcmp(found + length - end, deleted, end) == 0) length -= end;
    if (length > size - 1) length = size - 1;
    memcpy(path, found, length);
    path[length] = '\0';
    printable_make(path);
    return true;
}

/* ---- Signals ------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted_by_user, reader_is_gone;

/* Ends the program, as the signal does by default, once nothing unfinished is left. */
static void on_end(int signal_number)
{
    output_discard();
    terminal_state_restore();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void on_interrupt(int signal_number)
{
    if (interrupted_by_user) on_end(signal_number);
    interrupted_by_user = interrupted = 1;
}

static void on_broken_pipe(int signal_number)
{
    (void)signal_number;
    reader_is_gone = interrupted = 1;
}

static void signals_put(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* a failure could not be reported */
}

/* A file mapped into memory, such as the model, has lost the bytes that were about to be read. */
static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    char path[4096];
    (void)context;
    if (info->si_code <= 0 || !mapped_file_at(info->si_addr, path, sizeof path)) {
        on_end(signal_number);
        return;
    }
    while (atomic_flag_test_and_set(&told)) pause(); /* wait until the first thread ends the process */
    output_discard();
    terminal_state_restore();
    if (progress_is_shown) signals_put("\r\033[K");
    signals_put("engine: ");
    signals_put(path);
    signals_put(": the file was truncated while in use, or cannot be read any more\n");
    _exit(1);
}

void signals_end_program(const char *message)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&told)) pause(); /* wait until the first thread ends the process */
    output_discard();
    terminal_state_restore();
    fflush(stdout);
    command_error(ENGINE_ERROR_MEMORY, "%s", message);
    _exit(command_fail());
}

static void on_nothing(int signal_number)
{
    (void)signal_number;
}

/* An ignored signal stays ignored: Ctrl-C in a shell's background job, SIGHUP under nohup. */
static void handle(int signal_number, void (*handler)(int), int flags)
{
    struct sigaction action, inherited;
    if (sigaction(signal_number, NULL, &inherited) == 0 && inherited.sa_handler == SIG_IGN) return;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(signal_number, &action, NULL);
}

void signals_begin(void)
{
    static const int endings[] = {SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) handle(endings[i], on_end, 0);
    handle(SIGINT, on_interrupt, SA_RESTART);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, NULL);
    handle(SIGPIPE, on_broken_pipe, SA_RESTART);
    /* Caught rather than ignored: programs started by drivers get the default back. */
    handle(SIGXFSZ, on_nothing, SA_RESTART);
}

bool signals_reader_is_gone(void)
{
    return reader_is_gone;
}

void signals_end(void)
{
    if (!interrupted_by_user) return;
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
}

void signals_forget(void)
{
    interrupted_by_user = 0;
    interrupted = reader_is_gone;
}

void signals_end_at_once(void)
{
    handle(SIGINT, on_end, 0);
}

void signals_keep(void)
{
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now) != 0 || now.sa_handler == SIG_IGN || now.sa_handler == on_interrupt ||
        now.sa_handler == on_end)
        return;
    signals_begin();
}

void signals_wait(bool waiting)
{
    struct sigaction action;
    if (sigaction(SIGINT, NULL, &action) != 0 || action.sa_handler != on_interrupt) return;
    action.sa_flags = waiting ? 0 : SA_RESTART;
    sigaction(SIGINT, &action, NULL);
}
