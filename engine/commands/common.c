/* common.c: see common.h. */
#include "commands/common.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/signals.h"
#include "common/byte-order.h"
#include "common/clock.h"
#include "common/printable.h"

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

/* Messages contain text from files and the command line: it must not reach the terminal as control codes. */
static void print_line(const char *prefix, const char *message)
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
    print_line("", message[0] ? message : "failed without a reason");
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
    print_line("warning: ", message);
}

int command_usage(const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    print_line("", message);
    return 2;
}

/* ---- Opening ------------------------------------------------------------------------------------------- */

static enum engine_log_level log_level; /* less important messages are dropped */
static bool listing;                    /* refused plugins will be listed, so don't warn of them */

static void print_log(void *user, enum engine_log_level level, const char *line)
{
    static const char *const names[] = {"error: ", "warning: ", "", ""};
    static char last[4096]; /* the library calls this under a lock */
    (void)user;
    /* What is wrong with a model is told each time that its hyper-parameters are read. */
    bool again = level == ENGINE_LOG_WARNING && strcmp(line, last) == 0;
    if (level > log_level || listing || again) return;
    print_line(names[level], line);
    snprintf(last, sizeof last, "%s", line);
}

int open_engine(const struct arguments *arguments, struct engine **engine)
{
    struct engine_options options = {
        .struct_size = sizeof options,
        .plugin_dirs = arguments->plugin_dirs.items,
        .config_file = arguments->config,
        .log = print_log,
    };
    log_level = arguments->verbose ? ENGINE_LOG_DEBUG : ENGINE_LOG_WARNING;
    return engine_open(&options, engine);
}

int open_engine_to_list(const struct arguments *arguments, struct engine **engine)
{
    listing = !arguments->verbose;
    int status = open_engine(arguments, engine);
    listing = false;
    return status;
}

const char *path_of_model(const struct arguments *arguments, const struct engine *engine)
{
    return arguments->model ? arguments->model : engine_default_model(engine);
}

const char *path_of_output(const struct arguments *arguments)
{
    return arguments->output && strcmp(arguments->output, "-") != 0 ? arguments->output : NULL;
}

int verify_files(const char *path, const char *tokenizer)
{
    struct engine_verify_options options = {
        .struct_size = sizeof options, .progress = report_progress, .user = "verifying"};
    struct engine_verified verified = {.struct_size = sizeof verified};
    int status = engine_model_verify(path, tokenizer, &options, &verified);
    if (status) return status;
    fprintf(stderr, "%s: %s verified, %s\n", path, count_text(verified.n_files, "file", "files").text,
            size_text(verified.n_bytes).text);
    return ENGINE_OK;
}

static int open_as(const struct arguments *arguments, struct engine *engine, const char *path,
                   const struct engine_model_options *options, struct engine_model **model)
{
    int status = arguments->verify ? verify_files(path, options->tokenizer_path) : ENGINE_OK;
    return status ? status : engine_model_open_with(engine, path, options, model);
}

int open_model_file(const struct arguments *arguments, struct engine *engine, const char *path,
                    const char *tokenizer, struct engine_model **model)
{
    struct engine_model_options options = {.struct_size = sizeof options, .tokenizer_path = tokenizer};
    return open_as(arguments, engine, path, &options, model);
}

int open_model_to_run(const struct arguments *arguments, struct engine *engine, const char *path,
                      struct engine_model **model)
{
    struct engine_model_options options = {
        .struct_size = sizeof options,
        .tokenizer_path = arguments->tokenizer,
        .load_type = arguments->load_type,
        .n_threads = arguments->n_threads,
    };
    int status = open_as(arguments, engine, path, &options, model);
    if (status == ENGINE_ERROR_ARGUMENT && arguments->load_type)
        command_error(status, "%s", engine_error_message());
    return status;
}

int open_model(const struct arguments *arguments, struct engine *engine, struct engine_model **model)
{
    const char *path = path_of_model(arguments, engine);
    if (!path)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "no model: name one with -m FILE, or set `model` in engine.conf");
    return open_model_to_run(arguments, engine, path, model);
}

/* ---- Loading ------------------------------------------------------------------------------------------- */

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

#define BAR_WIDTH       30
#define SECONDS_BETWEEN 0.05 /* between two updates of the bar */

static void wipe_progress(void)
{
    if (progress_is_shown) fputs("\r\033[K", stderr);
    progress_is_shown = 0;
}

/* Characters of the bar beside texts of this length: a line that wraps could not be drawn over. 0: no room. */
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

void context_options(const struct arguments *arguments, struct engine_context_options *options,
                     int32_t *offload)
{
    *options = (struct engine_context_options){
        .struct_size = sizeof *options,
        .n_context = arguments->n_context,
        .n_cache = arguments->n_cache,
        .n_batch = arguments->n_batch,
        .n_threads = arguments->n_threads,
        .cache_type = arguments->cache_type,
        .backends = arguments->backend,
        .memory = arguments->memory.items,
        .place = arguments->place.items,
        .progress = report_progress,
        .user = "loading",
    };
    if (!arguments->offload) return;
    if (strcmp(arguments->offload, "auto") == 0) {
        *offload = ENGINE_OFFLOAD_AUTO;
    } else if (strcmp(arguments->offload, "all") == 0) {
        *offload = ENGINE_OFFLOAD_ALL;
    } else {
        *offload = (int32_t)strtol(arguments->offload, NULL, 10); /* parsing has checked it */
    }
    options->offload = offload;
}

/* ---- Running ------------------------------------------------------------------------------------------- */

const char *context_option(const struct arguments *arguments, uint32_t n_context)
{
    return arguments->n_context == 0 && arguments->n_cache == n_context ? "--cache-size" : "-c";
}

int check_tokens(const struct arguments *arguments, const struct engine_context *context,
                 const int32_t *tokens, size_t count)
{
    struct engine_context_info info = {.struct_size = sizeof info};
    engine_context_get_info(context, &info);
    if (count > info.n_context)
        return command_error(ENGINE_ERROR,
                             "the prompt has %zu tokens but the context only %u: enlarge it with %s, or "
                             "shorten the prompt",
                             count, info.n_context, context_option(arguments, info.n_context));
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= info.n_vocab)
            return command_error(arguments->tokens ? ENGINE_ERROR_ARGUMENT : ENGINE_ERROR_DATA,
                                 "token %zu of the prompt is %d, but the model has %u tokens, 0 to %u", i,
                                 tokens[i], info.n_vocab, info.n_vocab - 1);
    return ENGINE_OK;
}

/* ---- Texts --------------------------------------------------------------------------------------------- */

int text_add(struct text_buffer *text, const struct engine_string *added)
{
    if (added->length > text->capacity - text->size) {
        size_t capacity = text->capacity * 2 + added->length;
        char *grown = realloc(text->data, capacity);
        if (!grown) return command_error(ENGINE_ERROR_MEMORY, "out of memory (text)");
        text->data = grown;
        text->capacity = capacity;
    }
    if (added->length > 0) memcpy(text->data + text->size, added->data, added->length);
    text->size += added->length;
    return ENGINE_OK;
}

/* ---- Files --------------------------------------------------------------------------------------------- */

/* Devices may have no end. */
#define LARGEST_FILE ((size_t)1 << 30)

int read_file(const char *path, char **data, size_t *size)
{
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    char *bytes = NULL;
    size_t used = 0, capacity = 0, got;
    int status = ENGINE_OK;
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file) return command_error(ENGINE_ERROR_DATA, "%s: %s", name, strerror(errno));

    do {
        if (capacity - used < 2) { /* one byte and the NUL */
            size_t larger = capacity ? capacity * 2 : 65536;
            char *moved = realloc(bytes, larger);
            if (!moved) {
                status = command_error(ENGINE_ERROR_MEMORY, "%s: out of memory", name);
                goto cleanup;
            }
            bytes = moved;
            capacity = larger;
        }
        signals_wait(true);
        got = fread(bytes + used, 1, capacity - used - 1, file);
        signals_wait(false);
        used += got;
        if (used > LARGEST_FILE) {
            status =
                command_error(ENGINE_ERROR_DATA, "%s: more than 1 GiB, which no text or message has", name);
            goto cleanup;
        }
    } while (got > 0 && !interrupted);
    if (interrupted) {
        status = command_error(ENGINE_ERROR, "%s: interrupted", name);
        goto cleanup;
    }
    if (ferror(file)) {
        status = command_error(ENGINE_ERROR_DATA, "%s: %s", name, strerror(errno));
        goto cleanup;
    }
    bytes[used] = '\0';
    *data = bytes;
    *size = used;
    bytes = NULL;

cleanup:
    free(bytes);
    if (!standard) fclose(file);
    return status;
}

int text_mark(const char *name, const char *text, size_t size, size_t *skipped)
{
    const char *foreign = byte_order_foreign(text, size);
    if (foreign) return command_error(ENGINE_ERROR_DATA, BYTE_ORDER_REFUSED, name, foreign, foreign);
    *skipped = byte_order_mark(text, size);
    return ENGINE_OK;
}

int read_text_file(const char *path, char **data, size_t *size)
{
    size_t skipped = 0;
    int status = read_file(path, data, size);
    if (status) return status;
    status = text_mark(strcmp(path, "-") == 0 ? "standard input" : path, *data, *size, &skipped);
    *size -= skipped;
    memmove(*data, *data + skipped, *size + 1);
    if (!status) return ENGINE_OK;
    free(*data);
    *data = NULL;
    return status;
}
