/* cache-file.c: see cache-file.h. A file is a header, the key, the data. */
#include "cache-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BYTES (64u << 20)
#define MAX_KEY   4096u

struct header {
    char magic[8];
    uint64_t key_size, size, checksum; /* of key and data */
};

uint64_t cache_hash(uint64_t sum, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    if (sum == 0) sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

static struct header make_header(const struct cache_key *key, const void *data, size_t size)
{
    struct header header = {.key_size = key->size, .size = size};
    memcpy(header.magic, "enggpu1", 8);
    header.checksum = cache_hash(cache_hash(0, key->data, key->size), data, size);
    return header;
}

/* Puts the file's path into `path`; false where there is no folder. */
static bool make_path(const struct engine_host *host, const struct cache_key *key, char *path, size_t size)
{
    const char *folder = host->cache_folder();
    if (!folder || key->size > MAX_KEY) return false;
    int length = snprintf(path, size, "%s/%s", folder, key->name);
    return length > 0 && (size_t)length < size;
}

static bool read_all(int file, void *data, size_t size)
{
    uint8_t *bytes = data;
    while (size > 0) {
        ssize_t got = read(file, bytes, size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        bytes += got;
        size -= (size_t)got;
    }
    return true;
}

void *cache_file_read(const struct engine_host *host, const struct cache_key *key, size_t *size)
{
    char path[4096];
    uint8_t there[MAX_KEY];
    struct header header, expected;
    struct stat status;
    uint8_t *data = NULL;
    bool good = false;
    *size = 0;
    if (!make_path(host, key, path, sizeof path)) return NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return NULL;
    if (fstat(file, &status) || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        !read_all(file, &header, sizeof header) || header.size == 0 || header.size > MAX_BYTES ||
        header.key_size != key->size || !read_all(file, there, key->size) ||
        memcmp(there, key->data, key->size) != 0)
        goto cleanup;
    data = malloc(header.size);
    if (!data || !read_all(file, data, header.size)) goto cleanup;
    expected = make_header(key, data, header.size);
    good = memcmp(&header, &expected, sizeof header) == 0;
    if (good) *size = header.size;

cleanup:
    close(file);
    if (!good) {
        free(data);
        data = NULL;
    }
    return data;
}

static bool write_all(int file, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    while (size > 0) {
        ssize_t written = write(file, bytes, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes += written;
        size -= (size_t)written;
    }
    return true;
}

void cache_file_write(const struct engine_host *host, const struct cache_key *key, const void *data,
                      size_t size)
{
    char path[4096], made[4200];
    if (size == 0 || size > MAX_BYTES || !make_path(host, key, path, sizeof path)) return;
    snprintf(made, sizeof made, "%s.XXXXXX", path);
    int file = mkostemp(made, O_CLOEXEC);
    if (file < 0) return;
    struct header header = make_header(key, data, size);
    bool good = write_all(file, &header, sizeof header) && write_all(file, key->data, key->size) &&
                write_all(file, data, size);
    good = close(file) == 0 && good;
    if (!good || rename(made, path) != 0) unlink(made);
}
