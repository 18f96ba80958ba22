/* config.c: see config.h. */
#include "base/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <search.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/folders.h"
#include "common/array.h"
#include "common/memory-stream.h"

/* A setting; one from a later file replaces one from an earlier file. */
struct record {
    struct config_entry shown;
    unsigned file; /* index, in the order of reading */
    atomic_bool was_read;
};

struct config {
    struct record **entries; /* [count], in the order of first setting */
    size_t count, capacity;
    void *tree;   /* the same entries by section and key, for tsearch */
    char **paths; /* [n_files] */
    unsigned n_files;
    char *hidden; /* a file that may be in a folder that can't be entered; NULL: there is none */
};

static int config_compare(const void *a, const void *b)
{
    const struct config_entry *x = a, *y = b;
    int order = strcmp(x->section, y->section);
    return order ? order : strcmp(x->key, y->key);
}

static struct record *config_find(const struct config *config, const char *section, const char *key)
{
    struct config_entry wanted = {.section = section, .key = key};
    struct record *const *found = tfind(&wanted, &config->tree, config_compare);
    return found ? *found : NULL;
}

/* ---- The engine's own settings ------------------------------------------------------------------------- */

static bool is_whole(const char *text, unsigned long maximum)
{
    char *end;
    errno = 0;
    return isdigit((unsigned char)text[0]) && strtoul(text, &end, 10) <= maximum && *end == '\0' &&
           errno == 0;
}

static bool is_threads(const char *text)
{
    return is_whole(text, 1024) && strtoul(text, NULL, 10) > 0;
}

static bool is_offload(const char *text)
{
    return is_whole(text, INT32_MAX) || strcmp(text, "auto") == 0 || strcmp(text, "all") == 0;
}

static bool are_names(const char *text)
{
    return text[strspn(text, ", ")] != '\0';
}

/* Relative paths would be ambiguous: files may come from anywhere, and programs may run anywhere. */
static bool is_path(const char *text)
{
    return text[0] == '/' || strncmp(text, "~/", 2) == 0;
}

static bool are_paths(const char *text)
{
    while (is_path(text)) {
        text += strcspn(text, ":");
        if (*text == '\0') return true;
        text++;
    }
    return false;
}

/* "vulkan0=300, opencl0.0=12.5" */
static bool are_speeds(const char *text)
{
    for (;;) {
        char *end;
        text += strspn(text, " ");
        size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-.");
        if (name == 0 || text[name] != '=' || !isdigit((unsigned char)text[name + 1])) return false;
        double speed = strtod(text + name + 1, &end);
        text = end + strspn(end, " ");
        if (!(speed > 0) || speed > 1e9) return false;
        if (*text == '\0') return true;
        if (*text++ != ',') return false;
    }
}

static const struct setting {
    const char *key;
    bool (*valid)(const char *text);
    const char *wanted;
} settings[] = {
    {"model", is_path, "a path that begins with / or ~/"},
    {"backend", are_names, "a list of names separated by commas"},
    {"offload", is_offload, "a number of layers, auto or all"},
    {"threads", is_threads, "a number from 1 to 1024"},
    {"speeds", are_speeds, "a list of devices and speeds, such as vulkan0=300, opencl0.0=40"},
    {"plugin_dirs", are_paths, "a list of paths that begin with / or ~/, separated by colons"},
};

#define KNOWN_SETTINGS "model, backend, offload, threads, speeds, plugin_dirs"

/* Names of plugins, which are the names of sections: see struct engine_plugin. */
static bool is_section(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return text[length] == '\0' && length > 0 && length < 32;
}

/* ---- Reading a file ------------------------------------------------------------------------------------ */

struct reader {
    struct config *config;
    const char *path;
    FILE *file;
    unsigned line;
    int status; /* of the first error, whose message is kept */
};

/* A line for inih, which splits longer ones. Leading blanks are removed: inih would treat the line as a
 * continuation of the one above. */
static char *read_line(char *text, int size, void *user)
{
    struct reader *reader = user;
    int length = 0, c = getc(reader->file);
    if (c == EOF || reader->status != ENGINE_OK) return NULL;
    reader->line++;
    while (c == ' ' || c == '\t') c = getc(reader->file);
    for (; c != EOF && c != '\n'; c = getc(reader->file)) {
        if (c == '\0' || length >= size - 2) {
            const char *problem = c == '\0' ? "is not text" : "is too long";
            reader->status =
                error_raise(ENGINE_ERROR_DATA, "%s:%u: the line %s", reader->path, reader->line, problem);
            return NULL;
        }
        text[length++] = (char)c;
    }
    text[length++] = '\n';
    text[length] = '\0';
    return text;
}

static int check_entry(const struct reader *reader, const char *section, const char *key, const char *value)
{
    const struct config *config = reader->config;
    const struct record *before = config_find(config, section, key);
    if (before && before->file == config->n_files - 1)
        return error_raise(ENGINE_ERROR_DATA, "%s:%u: %s is already set in line %u", reader->path,
                           reader->line, key, before->shown.line);
    if (section[0]) {
        if (is_section(section)) return ENGINE_OK;
        return error_raise(ENGINE_ERROR_DATA, "%s:%u: [%s] is not a valid plugin name", reader->path,
                           reader->line, section);
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (strcmp(settings[i].key, key) != 0) continue;
        if (!value[0] || settings[i].valid(value)) return ENGINE_OK;
        return error_raise(ENGINE_ERROR_DATA, "%s:%u: %s: '%s' is not %s", reader->path, reader->line, key,
                           value, settings[i].wanted);
    }
    return error_raise(ENGINE_ERROR_DATA,
                       "%s:%u: unknown setting '%s' (known: " KNOWN_SETTINGS
                       "; a plugin's settings belong in a section with its name)",
                       reader->path, reader->line, key);
}

/* Expands ~/ in each of the paths, which are separated by colons. */
static char *expand_paths(const char *value)
{
    char *text = NULL, *rest = strdup(value), *save = NULL;
    size_t size;
    bool good = true;
    FILE *out = rest ? open_memstream(&text, &size) : NULL;
    if (!out) goto cleanup;
    for (char *path = strtok_r(rest, ":", &save); path; path = strtok_r(NULL, ":", &save)) {
        char *expanded = folders_expand_home(path);
        good = good && expanded && fprintf(out, "%s%s", path == rest ? "" : ":", expanded) >= 0;
        free(expanded);
    }
    if (memory_stream_end(out, &text) && !good) {
        free(text);
        text = NULL;
    }

cleanup:
    free(rest);
    return text;
}

static char *copy_text(const char *value)
{
    return strdup(value);
}

static void free_entry(struct record *entry)
{
    free((char *)(uintptr_t)entry->shown.section);
    free((char *)(uintptr_t)entry->shown.key);
    free((char *)(uintptr_t)entry->shown.value);
    free(entry);
}

/* Adds an entry without a value. NULL: no memory. */
static struct record *new_entry(struct config *config, const char *section, const char *key)
{
    if (!ARRAY_RESERVE(config->entries, config->capacity, config->count + 1)) return NULL;
    struct record *entry = calloc(1, sizeof *entry);
    if (!entry) return NULL;
    entry->shown.section = strdup(section);
    entry->shown.key = strdup(key);
    if (!entry->shown.section || !entry->shown.key || !tsearch(entry, &config->tree, config_compare)) {
        free_entry(entry);
        return NULL;
    }
    config->entries[config->count++] = entry;
    return entry;
}

static int add_entry(const struct reader *reader, const char *section, const char *key, const char *value)
{
    struct config *config = reader->config;
    char *(*copy)(const char *value) = copy_text;
    if (!section[0] && strcmp(key, "model") == 0) copy = folders_expand_home;
    if (!section[0] && strcmp(key, "plugin_dirs") == 0) copy = expand_paths;
    struct record *entry = config_find(config, section, key);
    if (!entry) entry = new_entry(config, section, key);
    if (!entry) return error_memory("configuration");
    free((char *)(uintptr_t)entry->shown.value);
    entry->shown.value = copy(value);
    entry->shown.path = reader->path;
    entry->shown.line = reader->line;
    entry->file = config->n_files - 1;
    if (entry->shown.value) return ENGINE_OK;
    if (copy == copy_text || getenv("HOME")) return error_memory("configuration");
    return error_raise(ENGINE_ERROR_DATA, "%s:%u: %s: cannot expand ~/ because HOME is not set", reader->path,
                       reader->line, key);
}

/* inih's handler: returns 0 for an error. */
static int take_entry(void *user, const char *section, const char *key, const char *value)
{
    struct reader *reader = user;
    if (reader->status != ENGINE_OK) return 0;
    reader->status = check_entry(reader, section, key, value);
    if (reader->status == ENGINE_OK) reader->status = add_entry(reader, section, key, value);
    return reader->status == ENGINE_OK;
}

/* Opens a regular file, or /dev/null as an empty one. Anything else might never end, or block: NULL, with
 * errno, or a reason in *why. */
static FILE *open_file(const char *path, const char **why)
{
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return NULL;
    bool empty = fstat(file, &info) == 0 && S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3);
    if (!empty && !S_ISREG(info.st_mode)) {
        *why = S_ISDIR(info.st_mode) ? strerror(EISDIR) : "is a device or pipe, not a regular file";
        close(file);
        return NULL;
    }
    FILE *stream = fdopen(file, "r");
    if (!stream) close(file);
    return stream;
}

/* Keeps the path as long as the configuration lives. NULL: no memory. */
static const char *add_path(struct config *config, const char *path)
{
    if (!ARRAY_GROW(config->paths, config->n_files)) return NULL;
    config->paths[config->n_files] = strdup(path);
    return config->paths[config->n_files] ? config->paths[config->n_files++] : NULL;
}

/* Goes past a byte order mark at the beginning of a file. */
static int skip_mark(const char *path, FILE *file)
{
    char bytes[4];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    const char *text = bytes;
    int status = text_begin(path, &text, &size);
    if (!status) fseek(file, text - bytes, SEEK_SET);
    return status;
}

/* Whether a file that couldn't be opened (errno) is one that isn't there. One in a folder that can't be
 * entered isn't, as far as this user is concerned: HOME may be another user's (`docker run --user`, `su
 * -m`). */
static bool is_missing(struct config *config, const char *path)
{
    struct stat info;
    if (errno == ENOENT || errno == ENOTDIR) return true;
    if (errno != EACCES || stat(path, &info) == 0 || errno != EACCES) return false;
    if (!config->hidden) config->hidden = strdup(path);
    return true;
}

/* Reads a file after those already read. A missing file is an error only if it is required. */
static int read_config(struct config *config, const char *path, bool must_exist)
{
    const char *why = NULL;
    struct reader reader = {.config = config, .file = open_file(path, &why)};
    if (!reader.file) {
        int problem = errno;
        if (!why && !must_exist && is_missing(config, path)) return ENGINE_OK;
        errno = problem;
        return error_raise(ENGINE_ERROR_DATA, "%s: %s", path, why ? why : strerror(errno));
    }
    reader.path = add_path(config, path);
    int status = reader.path ? skip_mark(path, reader.file) : error_memory("configuration");
    if (status) {
        fclose(reader.file);
        return status;
    }
    int bad_line = ini_parse_stream(read_line, &reader, take_entry, &reader);
    if (ferror(reader.file)) {
        reader.status = error_raise(ENGINE_ERROR_DATA, "%s: %s", path, strerror(errno));
    } else if (bad_line > 0 && (reader.status == ENGINE_OK || (unsigned)bad_line < reader.line)) {
        reader.status = error_raise(ENGINE_ERROR_DATA,
                                    "%s:%d: expected KEY = VALUE, [SECTION] or a # comment", path, bad_line);
    } else if (bad_line < 0) {
        reader.status = error_memory("configuration");
    }
    fclose(reader.file);
    return reader.status;
}

/* ---- Finding the files --------------------------------------------------------------------------------- */

/* The engine.conf installed with this libengine. NULL: its place is unknown, or no memory (errno). */
static char *installed_config(void)
{
    char *folder = folders_own(), *path = NULL;
    int length = -1;
    if (ENGINE_SYSCONFDIR[0] == '/') {
        length = asprintf(&path, "%s/engine/engine.conf", ENGINE_SYSCONFDIR);
    } else if (folder) {
        length = asprintf(&path, "%s/%s/engine/engine.conf", folder, ENGINE_SYSCONFDIR);
    }
    free(folder);
    return length < 0 ? NULL : path;
}

static bool same_file(const char *a, const char *b)
{
    char *real_a = realpath(a, NULL), *real_b = realpath(b, NULL);
    bool same = real_a && real_b && strcmp(real_a, real_b) == 0;
    free(real_a);
    free(real_b);
    return same;
}

/* The machine's, the installation's, the user's. */
static int read_standard_files(struct config *config)
{
    static const char machine[] = "/etc/engine/engine.conf";
    errno = 0;
    char *installed = installed_config(), *own_dir = folders_user("XDG_CONFIG_HOME", ".config"), *own = NULL;
    bool lost = (!installed || !own_dir) && errno == ENOMEM;
    int status = lost ? error_memory("configuration") : read_config(config, machine, false);
    if (status == ENGINE_OK && installed && !same_file(installed, machine)) {
        status = read_config(config, installed, false);
    }
    if (status == ENGINE_OK && own_dir) {
        if (asprintf(&own, "%s/engine.conf", own_dir) < 0) {
            own = NULL;
            status = error_memory("configuration");
        } else {
            status = read_config(config, own, false);
        }
    }
    free(installed);
    free(own_dir);
    free(own);
    return status;
}

/* ---- Public -------------------------------------------------------------------------------------------- */

int config_open(const char *path, struct config **out)
{
    struct config *config = calloc(1, sizeof *config);
    if (!config) return error_memory("configuration");
    int status = path ? read_config(config, path, true) : read_standard_files(config);
    if (status != ENGINE_OK) {
        config_close(config);
        return status;
    }
    *out = config;
    return ENGINE_OK;
}

void config_close(struct config *config)
{
    if (!config) return;
    while (config->count > 0) {
        struct record *entry = config->entries[--config->count];
        tdelete(entry, &config->tree, config_compare);
        free_entry(entry);
    }
    free(config->entries);
    free(config->hidden);
    while (config->n_files > 0) free(config->paths[--config->n_files]);
    free(config->paths);
    free(config);
}

const char *config_hidden(const struct config *config)
{
    return config->hidden;
}

const char *config_get(const struct config *config, const char *section, const char *key)
{
    struct record *entry = config_find(config, section, key);
    if (entry) entry->was_read = true;
    return entry && entry->shown.value[0] ? entry->shown.value : NULL;
}

bool config_was_read(const struct config *config, size_t index)
{
    return config->entries[index]->was_read;
}

size_t config_count(const struct config *config)
{
    return config->count;
}

const struct config_entry *config_at(const struct config *config, size_t index)
{
    return &config->entries[index]->shown;
}
