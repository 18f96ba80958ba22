/* files.h: files that programs read: whole, as texts, and recognised again by a hash. */
#ifndef ENGINE_IO_FILES_H
#define ENGINE_IO_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/text.h"
#include "engine.h"

/* Whether a path ends in ".npy" or the like, after a name. */
static inline bool has_ending(const char *path, const char *ending)
{
    size_t length = strlen(path), n = strlen(ending);
    return length > n && strcmp(path + length - n, ending) == 0;
}

/* Reads a whole file, "-" for standard input. *data has *size bytes followed by a NUL; the caller frees it.
 * An error if `interrupted`. */
int read_file(const char *path, char **data, size_t *size);
/* The same for a text, without the byte order mark that some editors write before it. An error if the mark is
 * that of UTF-16 or UTF-32. */
int read_text_file(const char *path, char **data, size_t *size);
/* The length of the mark at the beginning of the text called `name`, 3 or 0, in *skipped; or such an
 * error. */
int text_mark(const char *name, const char *text, size_t size, size_t *skipped);

/* text_buffer_add, with command_error's message. Returns an enum engine_status. */
int text_add(struct text_buffer *text, const struct engine_string *added);

/* FNV-1a over 64 bits, for lines and files that commands recognise again. */
#define HASH_BASIS 0xcbf29ce484222325u /* of no bytes */

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

/* Adds a file's size and contents to a hash; of files above a megabyte, samples spread over them. Of a
 * folder, its weights and settings (*.safetensors, *.json) with their names. */
int hash_file(const char *path, uint64_t *hash);

#endif
