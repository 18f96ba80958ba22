/* signals.c: see signals.h. */
#include "commands/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands/common.h"
#include "commands/mapped-file.h"
#include "commands/output.h"
#include "commands/terminal-state.h"

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

static void put(const char *text)
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
    if (progress_is_shown) put("\r\033[K");
    put("engine: ");
    put(path);
    put(": the file was truncated while in use, or cannot be read any more\n");
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
