/* cache-file.h: keeps a GPU plugin's compiled code from run to run in the host's cache folder. A file made
 * for another key, or a damaged one, counts as missing. */
#ifndef GPU_CACHE_FILE_H
#define GPU_CACHE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

/* Everything that the data depends on: device, driver, sources. `name` is the file's name in the folder. */
struct cache_key {
    const char *name;
    const void *data;
    size_t size; /* at most 4096 */
};

/* FNV-1a, begun with `sum` (0 at first). */
uint64_t cache_hash(uint64_t sum, const void *data, size_t size);

/* The data in new memory, which the caller frees; NULL if there is no valid file. */
void *cache_file_read(const struct engine_host *host, const struct cache_key *key, size_t *size);
/* Failing to keep it is no error. */
void cache_file_write(const struct engine_host *host, const struct cache_key *key, const void *data,
                      size_t size);

#endif
