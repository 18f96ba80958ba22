/* file-hash.c: see file-hash.h. */
#include "commands/file-hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/common.h"
#include "commands/hash.h"

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

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), n = strlen(end);
    return length > n && strcmp(name + length - n, end) == 0;
}

static int is_part(const struct dirent *entry)
{
    return ends_with(entry->d_name, ".safetensors") || ends_with(entry->d_name, ".json");
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
