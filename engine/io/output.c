/* output.c: see output.h. */
#include "io/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/assert.h"
#include "io/messages.h"

/* A terminal or pipe may be both input and output. `name`: the input's, for the message. */
static int check_file(const char *path, const struct stat *output, const struct stat *input, const char *name)
{
    if (!S_ISREG(input->st_mode)) return ENGINE_OK;
    if (input->st_dev != output->st_dev || input->st_ino != output->st_ino) return ENGINE_OK;
    return command_error(ENGINE_ERROR_ARGUMENT, "%s is the same file as the input %s: choose another output",
                         path, name);
}

/* Whether a file of a model's directory belongs to the model, by its name. */
static bool is_of_model(const char *name)
{
    static const char *const ends[] = {".json", ".safetensors", ".model", ".txt", ".jinja"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(ends[i]);
        if (length > n && strcmp(name + length - n, ends[i]) == 0) return true;
    }
    return false;
}

/* The files of a model or adapter that is a directory. */
static int check_directory(const char *path, const struct stat *output, const char *directory)
{
    DIR *entries = opendir(directory);
    int status = ENGINE_OK;
    if (!entries) return ENGINE_OK; /* which reading it reports */
    for (const struct dirent *entry; !status && (entry = readdir(entries));) {
        char name[PATH_MAX];
        struct stat info;
        int length = snprintf(name, sizeof name, "%s/%s", directory, entry->d_name);
        if (length < (int)sizeof name && is_of_model(entry->d_name) && stat(name, &info) == 0)
            status = check_file(path, output, &info, name);
    }
    closedir(entries);
    return status;
}

uint32_t output_parts(const char *path)
{
    static const char form[] = "-00001-of-00003.gguf";
    size_t length = strlen(path), size = sizeof form - 1;
    unsigned number, count;
    int end = 0;
    if (length <= size) return 0;
    const char *suffix = path + length - size;
    for (size_t i = 0; i < size; i++) {
        bool is_digit = suffix[i] >= '0' && suffix[i] <= '9';
        bool wants_digit = form[i] >= '0' && form[i] <= '9';
        if (wants_digit ? !is_digit : suffix[i] != form[i]) return 0;
    }
    if (sscanf(suffix, "-%5u-of-%5u.gguf%n", &number, &count, &end) != 2 || end != (int)size) return 0;
    return number > 0 && number <= count ? count : 0;
}

/* The other files of a model in several parts, by the name of one. */
static int check_parts(const char *path, const struct stat *output, const char *input)
{
    uint32_t count = output_parts(input);
    int status = ENGINE_OK;
    for (uint32_t i = 1; i <= count && !status; i++) {
        struct stat info;
        char name[PATH_MAX];
        int length = snprintf(name, sizeof name, "%.*s-%05u-of-%05u.gguf",
                              (int)(strlen(input) - strlen("-00001-of-00003.gguf")), input, i, count);
        if (length > 0 && length < (int)sizeof name && stat(name, &info) == 0)
            status = check_file(path, output, &info, name);
    }
    return status;
}

/* `input`: a path, "-" for standard input, or NULL. */
static int check_input(const char *path, const struct stat *output, const char *input)
{
    struct stat info;
    if (!input) return ENGINE_OK;
    bool standard = strcmp(input, "-") == 0;
    int found = standard ? fstat(STDIN_FILENO, &info) : stat(input, &info);
    if (found != 0) return ENGINE_OK;
    if (S_ISDIR(info.st_mode)) return check_directory(path, output, input);
    int status = check_file(path, output, &info, standard ? "on standard input" : input);
    if (!status && !standard) status = check_parts(path, output, input);
    const char *slash = strrchr(input, '/');
    if (status || strcmp(slash ? slash + 1 : input, "config.json") != 0) return status;
    char directory[PATH_MAX] = ".";
    if (slash) snprintf(directory, sizeof directory, "%.*s", (int)(slash - input), input);
    return check_directory(path, output, slash == input ? "/" : directory);
}

int output_check(const char *path, const struct engine *engine, const char *const *inputs, size_t n)
{
    struct stat output;
    const char *file;
    int status = ENGINE_OK;
    if (stat(path, &output) != 0) return ENGINE_OK; /* there is no file to overwrite */
    for (size_t i = 0; i < n && !status; i++) status = check_input(path, &output, inputs[i]);
    for (size_t i = 0; !status && (file = engine_setting_file(engine, i)); i++)
        status = check_input(path, &output, file);
    for (size_t i = 0; i < engine_plugin_count(engine) && !status; i++) {
        struct engine_plugin_entry_info plugin;
        engine_plugin_at(engine, i, &plugin);
        status = check_input(path, &output, plugin.path);
    }
    return status;
}

/* The folder of a path, and the name of the file in it. */
static bool folder_of(const char *path, struct stat *folder, const char **name)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    int length = snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash + 1 - path) : 1,
                          slash ? path : ".");
    return length < (int)sizeof directory && stat(directory, folder) == 0;
}

bool output_same(const char *path, const char *other)
{
    struct stat a, b;
    const char *name, *other_name;
    if (stat(path, &a) == 0 && stat(other, &b) == 0)
        return S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    return folder_of(path, &a, &name) && folder_of(other, &b, &other_name) && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino && strcmp(name, other_name) == 0;
}

/* ---- The unfinished file ------------------------------------------------------------------------------- */

/* "OUT.1a2b3c4d5e6f.engine-part", beside the output. Its writer holds a lock on it, so one without a lock is
 * left over from a killed program: the next writer of the same output removes it. */
#define SUFFIX ".engine-part"
#define DIGITS 12

/* The file name in a path, and the length of the part that unfinished files keep: with their suffix it must
 * still be a valid name. */
static const char *name_of(const char *path, int *length)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t most = NAME_MAX - 1 - DIGITS - strlen(SUFFIX), all = strlen(name);
    *length = (int)(all < most ? all : most);
    return name;
}

static bool is_part(const char *entry, const char *name, int length)
{
    if (strncmp(entry, name, (size_t)length) != 0 || entry[length] != '.') return false;
    const char *digits = entry + length + 1;
    return strspn(digits, "0123456789abcdef") == DIGITS && strcmp(digits + DIGITS, SUFFIX) == 0;
}

static bool is_left_over(int file)
{
    struct stat info;
    return fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
           flock(file, LOCK_EX | LOCK_NB) == 0;
}

static void remove_left_over(const char *path)
{
    int length;
    const char *name = name_of(path, &length);
    char *folder = name == path ? strdup(".") : strndup(path, (size_t)(name - path));
    DIR *entries = folder ? opendir(folder) : NULL;
    const struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        if (!is_part(entry->d_name, name, length)) continue;
        int file = openat(dirfd(entries), entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file >= 0 && is_left_over(file)) unlinkat(dirfd(entries), entry->d_name, 0);
        if (file >= 0) close(file);
    }
    if (entries) closedir(entries);
    free(folder);
}

/* The files that output_discard removes; NULL: free. Written by one thread, read by signal handlers. */
static _Atomic(const char *) unfinished[OUTPUTS_MAX];

static void replace_unfinished(const char *part, const char *by)
{
    size_t i = 0;
    while (i < OUTPUTS_MAX - 1 && unfinished[i] != part) i++;
    ENGINE_ASSERT(unfinished[i] == part);
    unfinished[i] = by;
}

/* Creates an unfinished file with a new name and locks it. A descriptor, or -1 with errno. */
static int create_part(const char *path, char **part)
{
    int length;
    const char *name = name_of(path, &length);
    for (int tries = 0; tries < 100; tries++) {
        struct stat info;
        uint64_t number = 0;
        if (getrandom(&number, sizeof number, 0) != sizeof number) return -1;
        if (*part) replace_unfinished(*part, NULL);
        free(*part);
        if (asprintf(part, "%.*s%.*s.%0*" PRIx64 SUFFIX, (int)(name - path), path, length, name, DIGITS,
                     number >> (64 - 4 * DIGITS)) < 0) {
            *part = NULL;
            errno = ENOMEM;
            return -1;
        }
        replace_unfinished(NULL, *part); /* before the file exists, so that no signal comes between */
        int file = open(*part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && errno != EEXIST) return -1;
        if (file < 0) continue;
        /* Another program may have found it before it was locked, and removed it. Where there are no locks,
         * nobody removes files as left over either. */
        bool locked = flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
        if (locked && fstat(file, &info) == 0 && info.st_nlink > 0) return file;
        close(file);
    }
    return -1;
}

/* ---- The output ---------------------------------------------------------------------------------------- */

void output_discard(void)
{
    for (size_t i = 0; i < OUTPUTS_MAX; i++) {
        const char *part = unfinished[i];
        if (part) unlink(part);
    }
}

static int open_part(struct output *output)
{
    remove_left_over(output->path);
    output->lock = create_part(output->path, &output->part);
    if (output->lock < 0) return -1;
    /* The lock outlives the stream: nobody may remove the file as left over before it has its final name. */
    int file = fcntl(output->lock, F_DUPFD_CLOEXEC, 0);
    if (file >= 0) output->file = fdopen(file, "wb");
    if (file >= 0 && !output->file) close(file);
    return output->file ? 0 : -1;
}

static void drop_part(struct output *output, bool remove_it)
{
    if (output->lock >= 0 && remove_it) unlink(output->part);
    if (output->part) replace_unfinished(output->part, NULL);
    if (output->lock >= 0) close(output->lock);
    free(output->part);
    output->part = NULL;
    output->lock = -1;
}

int output_open(struct output *output, const char *path)
{
    struct stat info;
    bool exists = lstat(path, &info) == 0;
    *output = (struct output){.path = path, .lock = -1};
    if (exists && !S_ISREG(info.st_mode))
        output->file = fopen(path, "wb");
    else if (!exists || access(path, W_OK) == 0)
        open_part(output);
    if (!output->file) {
        command_error(ENGINE_ERROR, "%s: %s", path, strerror(errno));
        drop_part(output, true);
        return ENGINE_ERROR;
    }
    if (exists && output->part) fchmod(output->lock, info.st_mode & 0777);
    return ENGINE_OK;
}

int output_close(struct output *output, bool whole)
{
    int status = ENGINE_OK;
    if (!output->file) return status;
    if (fclose(output->file) != 0 && whole)
        status = command_error(ENGINE_ERROR, "%s: %s", output->path, strerror(errno));
    if (!output->part) return status;
    ENGINE_ASSERT(output->lock >= 0);
    if (whole && !status && rename(output->part, output->path) != 0)
        status = command_error(ENGINE_ERROR, "%s: %s", output->path, strerror(errno));
    drop_part(output, !whole || status);
    return status;
}
