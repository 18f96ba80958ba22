/* checksums.c: reads the checksums that lie beside a folder's files, see verify.h. */
#include "model/verify.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "common/array.h"
#include "common/printable.h"
#include "model/file.h"
#include "model/names.h"

#define SUMS        "SHA256SUMS"
#define MAX_SUMS    ((uint64_t)16 << 20) /* bytes */
#define SHA256_SIZE 64                   /* digits */
#define SHA1_SIZE   40

struct listed {
    char *name;
    char digits[SHA256_SIZE + 1];
};

struct checksums {
    char *folder;
    struct listed *listed; /* [n_listed] */
    size_t n_listed, capacity;
    struct names names; /* of `listed` */
};

/* Copies `length` hexadecimal digits in lower case; false: they aren't. */
static bool copy_digits(const char *text, size_t length, char *digits)
{
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c >= 'A' && c <= 'F') c = (char)(c - 'A' + 'a');
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
        digits[i] = c;
    }
    digits[length] = '\0';
    return true;
}

/* ---- SHA256SUMS ---- */

/* "DIGITS  NAME", "DIGITS *NAME" or "SHA256 (NAME) = DIGITS"; false: it is none of them. */
static bool split_line(const char *line, size_t length, struct engine_string *name, char *digits)
{
    static const char tag[] = "SHA256 (", equals[] = ") = ";
    size_t n_tag = strlen(tag), n_equals = strlen(equals);
    if (length > SHA256_SIZE + 2 && copy_digits(line, SHA256_SIZE, digits) && line[SHA256_SIZE] == ' ' &&
        (line[SHA256_SIZE + 1] == ' ' || line[SHA256_SIZE + 1] == '*')) {
        *name = (struct engine_string){line + SHA256_SIZE + 2, length - SHA256_SIZE - 2};
    } else if (length > n_tag + n_equals + SHA256_SIZE && memcmp(line, tag, n_tag) == 0 &&
               copy_digits(line + length - SHA256_SIZE, SHA256_SIZE, digits) &&
               memcmp(line + length - SHA256_SIZE - n_equals, equals, n_equals) == 0) {
        *name = (struct engine_string){line + n_tag, length - n_tag - n_equals - SHA256_SIZE};
    } else {
        return false;
    }
    if (name->length > 2 && memcmp(name->data, "./", 2) == 0) {
        name->data += 2;
        name->length -= 2;
    }
    return true;
}

static int add_listed(struct checksums *checksums, struct engine_string name, const char *digits)
{
    if (!ARRAY_RESERVE(checksums->listed, checksums->capacity, checksums->n_listed + 1))
        return error_memory("checksums");
    struct listed *listed = &checksums->listed[checksums->n_listed];
    listed->name = strndup(name.data, name.length);
    if (!listed->name) return error_memory("checksums");
    memcpy(listed->digits, digits, sizeof listed->digits);
    checksums->n_listed++;
    return ENGINE_OK;
}

/* Empty lines and those that begin with # are left aside. Names with a newline, which sha256sum marks with a
 * backslash, are not those of a model's files. */
static int read_lines(struct checksums *checksums, const char *text, size_t size)
{
    size_t number = 0;
    for (const char *line = text, *end = size ? text + size : text, *next; line < end; line = next) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        next = stop ? stop + 1 : end;
        size_t length = (size_t)((stop ? stop : end) - line);
        if (length && line[length - 1] == '\r') length--;
        number++;
        struct engine_string name;
        char digits[SHA256_SIZE + 1];
        if (!length || *line == '#' || *line == '\\') continue;
        if (!split_line(line, length, &name, digits))
            return error_raise(ENGINE_ERROR_DATA,
                               "%s/" SUMS ":%zu is not a checksum as sha256sum writes it: 64 digits, two "
                               "spaces, a name",
                               checksums->folder, number);
        int status = add_listed(checksums, name, digits);
        if (status) return status;
    }
    return ENGINE_OK;
}

/* Maps a file of the folder if it is there; *data is NULL if not, or if it is empty. */
static int map_file(const char *folder, const char *name, const char *end, const uint8_t **data,
                    uint64_t *size)
{
    char path[PATH_MAX];
    struct stat info;
    *data = NULL;
    *size = 0;
    int length = snprintf(path, sizeof path, "%s/%s%s", folder, name, end);
    if (length < 0 || (size_t)length >= sizeof path || lstat(path, &info) != 0) return ENGINE_OK;
    return model_map_file(path, data, size);
}

static int index_names(struct checksums *checksums)
{
    int status = names_create(&checksums->names, checksums->n_listed);
    if (status) return status;
    for (size_t i = 0; i < checksums->n_listed; i++)
        names_add(&checksums->names, checksums->listed[i].name, i);
    const char *twice = names_sort(&checksums->names);
    if (!twice) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA, "%s/" SUMS " lists %.200s twice", checksums->folder,
                       printable_is(twice, strlen(twice)) ? twice : "a file");
}

static int read_sums(struct checksums *checksums)
{
    const uint8_t *data;
    uint64_t size;
    int status = map_file(checksums->folder, SUMS, "", &data, &size);
    if (status) return status;
    const char *text = (const char *)data;
    size_t length = (size_t)size;
    if (size > MAX_SUMS)
        status = error_raise(ENGINE_ERROR_DATA, "%s/" SUMS " is too large for a list of checksums",
                             checksums->folder);
    else
        status = text_begin(SUMS, &text, &length);
    if (!status) status = read_lines(checksums, text, length);
    model_unmap_file(data, size);
    return status ? status : index_names(checksums);
}

int checksums_open(const char *folder, struct checksums **checksums)
{
    struct checksums *opened = calloc(1, sizeof *opened);
    if (!opened) return error_memory("checksums");
    opened->folder = strdup(folder);
    int status = opened->folder ? read_sums(opened) : error_memory("checksums");
    if (status)
        checksums_close(opened);
    else
        *checksums = opened;
    return status;
}

void checksums_close(struct checksums *checksums)
{
    if (!checksums) return;
    names_destroy(&checksums->names);
    for (size_t i = 0; i < checksums->n_listed; i++) free(checksums->listed[i].name);
    free(checksums->listed);
    free(checksums->folder);
    free(checksums);
}

static bool find_listed(const struct checksums *checksums, const char *name, struct checksum *found)
{
    size_t position;
    if (!names_find(&checksums->names, name, &position)) return false;
    *found = (struct checksum){.source = SUMS};
    memcpy(found->digits, checksums->listed[position].digits, sizeof found->digits);
    return true;
}

/* ---- Hugging Face's ---- */

/* A checksum of Hugging Face, of either kind. */
static bool take_digits(const char *text, size_t length, const char *source, struct checksum *found)
{
    *found = (struct checksum){.is_git = length == SHA1_SIZE, .source = source};
    return (length == SHA1_SIZE || length == SHA256_SIZE) && copy_digits(text, length, found->digits);
}

static bool find_blob(const char *path, struct checksum *found)
{
    static const char blobs[] = "blobs/";
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return false;
    target[length] = '\0';
    const char *name = strrchr(target, '/');
    size_t n = strlen(blobs);
    if (!name || (size_t)(name + 1 - target) < n || memcmp(name + 1 - n, blobs, n) != 0) return false;
    return take_digits(name + 1, strlen(name + 1), "its blob's name", found);
}

/* The second line; quotes around it are those of an HTTP header. */
static bool read_metadata(const char *text, size_t size, struct checksum *found)
{
    const char *line = size ? memchr(text, '\n', size) : NULL;
    if (!line) return false;
    line++;
    const char *end = memchr(line, '\n', size - (size_t)(line - text));
    if (!end) end = text + size;
    while (line < end && *line == '"') line++;
    while (line < end && (end[-1] == '"' || end[-1] == '\r')) end--;
    return take_digits(line, (size_t)(end - line), "Hugging Face's download", found);
}

int checksums_find(const struct checksums *checksums, const char *name, struct checksum found[CHECKSUMS_MAX],
                   size_t *count)
{
    char path[PATH_MAX];
    const uint8_t *data;
    uint64_t size;
    size_t n = find_listed(checksums, name, &found[0]);
    int length = snprintf(path, sizeof path, "%s/%s", checksums->folder, name);
    if (length > 0 && (size_t)length < sizeof path) n += find_blob(path, &found[n]);
    snprintf(path, sizeof path, "%s/.cache/huggingface/download", checksums->folder);
    int status = map_file(path, name, ".metadata", &data, &size);
    if (!status) n += read_metadata((const char *)data, (size_t)size, &found[n]);
    if (!status) model_unmap_file(data, size);
    *count = n;
    return status;
}
