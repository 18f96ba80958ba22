/* files.c: see files.h. */
#include "io/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/byte-order.h"
#include "io/messages.h"
#include "io/signals.h"

/* ---- Texts --------------------------------------------------------------------------------------------- */

int text_add(struct text_buffer *text, const struct engine_string *added)
{
    return text_buffer_add(text, added->data, added->length)
               ? ENGINE_OK
               : command_error(ENGINE_ERROR_MEMORY, "out of memory (text)");
}

/* ---- Files --------------------------------------------------------------------------------------------- */

/* Devices may have no end. */
#define MAX_FILE     ((size_t)1 << 30)
#define FIRST_BUFFER 65536

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
        size_t needed = capacity ? used + 2 : FIRST_BUFFER; /* a byte and the NUL */
        if (!ARRAY_RESERVE(bytes, capacity, needed)) {
            status = command_error(ENGINE_ERROR_MEMORY, "%s: out of memory", name);
            goto cleanup;
        }
        signals_wait(true);
        got = fread(bytes + used, 1, capacity - used - 1, file);
        signals_wait(false);
        used += got;
        if (used > MAX_FILE) {
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

/* ---- Hashes -------------------------------------------------------------------------------------------- */

#define PIECE    16384 /* bytes */
#define N_PIECES 64

static int unreadable(const char *path)
{
    return command_error(ENGINE_ERROR_DATA, "%s: %s", path, strerror(errno));
}

/* Piece after piece, from the first byte to the last, with the same distance between them. */
static int hash_pieces(int file, const char *path, uint64_t size, uint64_t *hash)
{
    unsigned char bytes[PIECE];
    uint64_t rest = size > PIECE ? size - PIECE : 0, n = (size + PIECE - 1) / PIECE;
    if (n > N_PIECES) n = N_PIECES;
    *hash = hash_bytes(*hash, &size, sizeof size);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t begin = n > 1 ? rest / (n - 1) * i + rest % (n - 1) * i / (n - 1) : 0;
        ssize_t got = pread(file, bytes, sizeof bytes, (off_t)begin);
        if (got < 0) return unreadable(path);
        *hash = hash_bytes(*hash, bytes, (size_t)got);
    }
    return ENGINE_OK;
}

/* Folders are left alone. */
static int hash_one(const char *path, uint64_t *hash, bool *is_folder)
{
    struct stat info;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), status = ENGINE_OK;
    if (file < 0 || fstat(file, &info) != 0)
        status = unreadable(path);
    else if (!(*is_folder = S_ISDIR(info.st_mode)))
        status = hash_pieces(file, path, (uint64_t)info.st_size, hash);
    if (file >= 0) close(file);
    return status;
}

static int is_part(const struct dirent *entry)
{
    return has_ending(entry->d_name, ".safetensors") || has_ending(entry->d_name, ".json");
}

static int hash_folder(const char *path, uint64_t *hash)
{
    struct dirent **entries;
    int n = scandir(path, &entries, is_part, alphasort), status = ENGINE_OK;
    if (n < 0) return unreadable(path);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        char *part = NULL;
        bool is_folder;
        *hash = hash_bytes(*hash, name, strlen(name) + 1);
        if (!status && asprintf(&part, "%s/%s", path, name) < 0)
            status = command_error(ENGINE_ERROR_MEMORY, "out of memory (a path)");
        if (!status) status = hash_one(part, hash, &is_folder);
        free(part);
        free(entries[i]);
    }
    free(entries);
    return status;
}

int hash_file(const char *path, uint64_t *hash)
{
    bool is_folder = false;
    int status = hash_one(path, hash, &is_folder);
    return is_folder ? hash_folder(path, hash) : status;
}
