/* messages.c: see messages.h. */
#include "io/messages.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/printable.h"
#include "io/signals.h"

volatile sig_atomic_t interrupted, progress_is_shown;

/* ---- Errors -------------------------------------------------------------------------------------------- */

static _Thread_local char own_message[1024]; /* of the last command_error */
static _Thread_local int own_status;

int command_error(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(own_message, sizeof own_message, format, args);
    va_end(args);
    own_status = status;
    return status;
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

static bool line_is_open;

void print_text(const char *text, size_t length)
{
    if (length == 0) return;
    signals_keep();
    fwrite(text, 1, length, stdout);
    fflush(stdout);
    line_is_open = text[length - 1] != '\n';
}

static bool is_terminal_or_same(void)
{
    struct stat out, err;
    if (isatty(STDERR_FILENO)) return true;
    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 && out.st_dev == err.st_dev &&
           out.st_ino == err.st_ino;
}

void end_text(void)
{
    if (!line_is_open) return;
    line_is_open = false;
    if (isatty(STDOUT_FILENO)) {
        putchar('\n');
        fflush(stdout);
    } else if (is_terminal_or_same()) {
        fputc('\n', stderr);
    }
}

/* ---- Messages ------------------------------------------------------------------------------------------ */

void print_message(const char *prefix, const char *message)
{
    char line[4200];
    snprintf(line, sizeof line, "engine: %s%s", prefix, message);
    printable_make(line);
    end_text();
    fprintf(stderr, "%s\n", line);
}

int command_fail(void)
{
    const char *message = own_message[0] ? own_message : engine_error_message();
    print_message("", message[0] ? message : "failed without a reason");
    int exit_status = own_message[0] && own_status == ENGINE_ERROR_ARGUMENT ? 2 : 1;
    own_message[0] = '\0'; /* a later failure, in chat, has a message of its own */
    return exit_status;
}

int command_adopt_error(int status)
{
    return own_message[0] ? status : command_error(status, "%s", engine_error_message());
}

const char *command_message(void)
{
    static _Thread_local char taken[sizeof own_message];
    const char *message = own_message[0] ? own_message : engine_error_message();
    snprintf(taken, sizeof taken, "%s", message[0] ? message : "failed without a reason");
    own_message[0] = '\0';
    return taken;
}

void command_warn(const char *format, ...)
{
    char message[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    print_message("warning: ", message);
}

int command_usage(const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    print_message("", message);
    return 2;
}

/* ---- Sizes and numbers --------------------------------------------------------------------------------- */

struct size_text size_text(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct size_text size;
    if (bytes < 1024) {
        snprintf(size.text, sizeof size.text, "%u B", (unsigned)bytes);
        return size;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(size.text, sizeof size.text, "%.1f %s", value, units[unit]);
    return size;
}

struct count_text count_text(uint64_t number, const char *one, const char *several)
{
    struct count_text count;
    snprintf(count.text, sizeof count.text, "%" PRIu64 " %s", number, number == 1 ? one : several);
    return count;
}

/* ---- Progress ------------------------------------------------------------------------------------------ */

#define BAR_WIDTH       30
#define SECONDS_BETWEEN 0.05 /* between two updates of the bar */

static void wipe_progress(void)
{
    if (progress_is_shown) fputs("\r\033[K", stderr);
    progress_is_shown = 0;
}

/* Characters of the bar beside texts of this length: a line that wraps could not be drawn over. 0: no
 * room. */
static int bar_width(size_t texts)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return BAR_WIDTH;
    int left = (int)size.ws_col - (int)texts - (int)strlen(" [] 100 %   ");
    return left > BAR_WIDTH ? BAR_WIDTH : left > 0 ? left : 0;
}

/* Draws the progress over the previous drawing, and erases it at the end. */
static int draw_progress(const char *what, uint64_t done, uint64_t total, const char *items)
{
    static double drawn;
    if (interrupted || done >= total) {
        wipe_progress();
        return interrupted != 0;
    }
    double now = seconds_now();
    if (progress_is_shown && now - drawn < SECONDS_BETWEEN) return 0;
    drawn = now;
    progress_is_shown = 1;

    char counts[160];
    if (items)
        snprintf(counts, sizeof counts, "%" PRIu64 " of %" PRIu64 " %s", done, total, items);
    else
        snprintf(counts, sizeof counts, "%s of %s", size_text(done).text, size_text(total).text);
    double part = (double)done / (double)total;
    int width = bar_width(strlen(what) + strlen(counts)), full = (int)(part * width);
    if (width > 0)
        fprintf(stderr, "\r%s [%.*s%*s] %3d %%  %s\033[K", what, full, "##############################",
                width - full, "", (int)(part * 100), counts);
    else
        fprintf(stderr, "\r%s %d %%\033[K", what, (int)(part * 100));
    fflush(stderr);
    return 0;
}

int report_progress(void *user, uint64_t done, uint64_t total)
{
    if (isatty(STDERR_FILENO)) return draw_progress(user, done, total, NULL);
    return interrupted ? 1 : 0;
}

void count_progress(const char *what, uint64_t done, uint64_t total, const char *items)
{
    if (isatty(STDERR_FILENO)) draw_progress(what, done, total, items);
}
