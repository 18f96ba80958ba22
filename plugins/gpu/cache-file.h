/* cache-file.h: what a GPU plugin has compiled, from run to run, in the host's cache folder. A file that was made for
 * another key, or that is damaged, is as good as none. */
#ifndef GPU_CACHE_FILE_H
#define GPU_CACHE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

/* All that the data depends on: device, driver, sources. `name` is the file's in the folder. */
struct cache_key {
    const char *name;
    const void *data;
    size_t size; /* at most 4096 */
};

/* FNV-1a, begun with `sum` (0 at first). */
uint64_t cache_hash(uint64_t sum, const void *data, size_t size);

/* The data in new memory, for the caller to free; NULL where there is none to trust. */
void *cache_file_read(const struct engine_host *host, const struct cache_key *key, size_t *size);
/* Failing to keep it is no error. */
void cache_file_write(const struct engine_host *host, const struct cache_key *key, const void *data,
                      size_t size);

#endif
